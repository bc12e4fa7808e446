//! What is shortened, in which order, and when it is given up.

use protocol::{AiMessage, ToolMessage, ToolStatus};
use serde_json::json;

use super::*;
use crate::name::Provider;
use crate::transcript::{Available, Profile, legal, violations};

/// Returns a conversation of calls whose arguments and results have so many characters each.
fn calls(lengths: &[(usize, usize)]) -> Arc<Vec<Message>> {
    let mut messages = vec![Message::human("Do it.")];
    for (number, (args, result)) in lengths.iter().enumerate() {
        let call = Block::ToolCall {
            id: format!("c{number}"),
            name: "run".to_owned(),
            args: json!({"command": "x".repeat(*args), "in": ["here"]}),
        };
        messages.push(Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() }));
        messages.push(Message::Tool(ToolMessage {
            id: None,
            call_id: format!("c{number}"),
            name: None,
            content: vec![Block::text(format!("<{}>", "é".repeat(*result)))],
            status: ToolStatus::Success,
        }));
    }
    Arc::new(messages)
}

fn tokens_of(messages: &[Message]) -> u64 {
    messages.iter().map(tokens::of_message).sum()
}

fn fitted(messages: &Arc<Vec<Message>>, tokens_max: u64) -> Result<Fitted, TooLarge> {
    let fitted = fit(messages, tokens_of(messages), Budget { tokens_max, fixed_tokens: 100 })?;
    assert_eq!(fitted.tokens, tokens_of(&fitted.messages) + 100, "what is told is what it is");
    assert!(fitted.tokens <= tokens_max);
    let ids = |messages: &[Message]| -> Vec<String> {
        messages.iter().flat_map(Message::tool_calls).map(|(id, _, _)| id.to_owned()).collect()
    };
    assert_eq!(ids(messages), ids(&fitted.messages), "no call is lost");
    assert_eq!(messages.len(), fitted.messages.len(), "no message is lost");
    let (media, profile) = (Available::new(), Profile::of(Provider::Anthropic));
    assert_eq!(violations(&legal(&fitted.messages, &media, &profile), &profile), []);
    Ok(fitted)
}

/// Returns which messages differ.
fn changed(before: &[Message], after: &[Message]) -> Vec<usize> {
    (0..before.len()).filter(|index| before[*index] != after[*index]).collect()
}

#[test]
fn l12_what_fits_is_passed_on_as_it_is() {
    let messages = calls(&[(10, 10); 20]);
    let fitted = fitted(&messages, 10_000).expect("it fits");
    assert!(Arc::ptr_eq(&fitted.messages, &messages));
    assert_eq!(fitted.shortened, 0);
}

#[test]
fn e21_old_results_and_arguments_are_shortened_first_and_only_as_many_as_must_be() {
    let messages = calls(&[(4_000, 40_000); 20]);
    let all = tokens_of(&messages) + 100;
    let fitted_once = fitted(&messages, all - 1).expect("it fits");
    assert!(fitted_once.shortened < 10, "{}", fitted_once.shortened);
    assert_eq!(changed(&messages, &fitted_once.messages), (1..=fitted_once.shortened).collect::<Vec<_>>());
    let fitted = fitted(&messages, all / 2).expect("it fits");
    assert!(fitted.shortened > fitted_once.shortened);
    let newest = messages.len() - KEPT_MESSAGES;
    assert!(changed(&messages, &fitted.messages).iter().all(|index| *index < newest));
    let result = fitted.messages[2].text();
    assert!(result.starts_with("<é") && result.ends_with("é>"), "{result}");
    assert!(result.contains("39735 characters are left out here"), "{result}");
    let (_, _, args) = fitted.messages[1].tool_calls().next().expect("the call is kept");
    assert_eq!(args["in"], json!(["here"]));
    assert!(args["command"].as_str().is_some_and(|command| command.len() < 400));
}

#[test]
fn e21_as_the_conversation_grows_what_was_sent_stays_as_it_was_for_a_while() {
    let long = calls(&[(0, 4_000); 60]);
    let tokens_max = tokens_of(&long) * 2 / 3;
    let sent: Vec<Arc<Vec<Message>>> = (40..60)
        .map(|pairs| {
            let messages = Arc::new(long[..=pairs * 2].to_vec());
            fitted(&messages, tokens_max).expect("it fits").messages
        })
        .collect();
    let kept = sent.windows(2).filter(|pair| pair[1].starts_with(&pair[0])).count();
    assert!(kept >= 12, "{kept} of 19 requests begin with the one before");
}

#[test]
fn l6_one_giant_result_is_clipped_to_what_is_left() {
    let messages = calls(&[(10, 10), (10, 8_000_000)]);
    let fitted = fitted(&messages, 100_000).expect("it fits");
    assert_eq!(changed(&messages, &fitted.messages), [4]);
    assert!(fitted.tokens > 99_000, "{} of 100,000 tokens are used", fitted.tokens);
    assert!(fitted.messages[4].text().contains("the whole is in the thread"));
}

#[test]
fn l6_several_large_new_results_are_clipped_alike() {
    let messages = calls(&[(10, 100_000), (10, 5_000), (10, 200_000)]);
    let fitted = fitted(&messages, 20_000).expect("it fits");
    assert_eq!(changed(&messages, &fitted.messages), [2, 6]);
    let chars = |index: usize| fitted.messages[index].text().chars().count();
    assert!(chars(2).abs_diff(chars(6)) < 10, "{} and {}", chars(2), chars(6));
}

#[test]
fn l11_what_cannot_be_shortened_is_told_with_its_size() {
    let messages = Arc::new(vec![Message::human("x".repeat(400_000))]);
    let error = fitted(&messages, 50_000).expect_err("nobody's words are shortened");
    assert_eq!(error, TooLarge { irreducible_tokens: 100_103, tokens_max: 50_000 });
    assert_eq!(
        format!("failed to {error}"),
        "failed to fit the conversation into 50000 tokens: 100103 cannot be shortened"
    );
}

#[test]
fn l6_a_giant_result_in_a_script_without_spaces_is_clipped_to_what_is_left_too() {
    let mut messages = Arc::unwrap_or_clone(calls(&[(10, 10), (10, 10)]));
    if let Message::Tool(result) = &mut messages[4] {
        result.content = vec![Block::text("設定ファイルを確認してください。".repeat(20_000))];
    }
    let messages = Arc::new(messages);
    assert!(tokens_of(&messages) > 300_000, "a character of it is about a token");
    let fitted = fitted(&messages, 100_000).expect("it fits");
    assert_eq!(changed(&messages, &fitted.messages), [4]);
    assert!(fitted.tokens > 99_000, "{} of 100,000 tokens are used", fitted.tokens);
}

#[test]
fn e21_where_a_model_counts_more_tokens_than_are_estimated_more_is_shortened() {
    let messages = calls(&[(4_000, 40_000); 20]);
    let all = tokens_of(&messages) + 100;
    let shortened = |times: f64| {
        let budget = Budget { tokens_max: all, fixed_tokens: 100 }.counted_as(times);
        let fitted = fit(&messages, all - 100, budget).expect("it fits");
        assert!(fitted.tokens as f64 * times <= all as f64 + 1.0, "{} times {times}", fitted.tokens);
        fitted.shortened
    };
    assert_eq!((shortened(0.5), shortened(1.0)), (0, 0));
    assert!(0 < shortened(1.2) && shortened(1.2) < shortened(2.0));
    let budget = |tokens_max| Budget { tokens_max, fixed_tokens: 100 };
    assert_eq!(
        budget(1_000).counted_as(1.25),
        budget(800),
        "the window shrinks, the frame is measured as before"
    );
    assert_eq!(budget(1_000).counted_as(0.5), budget(2_000));
}

#[test]
fn l9_a_shortened_text_is_cut_between_grapheme_clusters() {
    let family = "👨‍👩‍👧‍👦";
    let mut text = family.repeat(2_000);
    shorten(&mut text, RESULT_CHARS_MAX, RESULT_CHARS_KEPT);
    let (head, rest) = text.split_once("\n[…").expect("something is left out");
    let (_, tail) = rest.split_once("…]\n").expect("the pointer ends");
    assert_eq!(head.replace(family, ""), "");
    assert_eq!(tail.replace(family, ""), "");
    assert!(!head.is_empty() && !tail.is_empty());
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    let limits = |context, output| Limits { context_tokens: context, output_tokens: output };
    let asking = |max| ChatRequest { max_output_tokens: max, ..ChatRequest::default() };
    for (limits, max, expected) in [
        (limits(None, None), None, None),
        (limits(Some(200_000), Some(64_000)), None, Some(184_000)),
        (limits(Some(200_000), Some(4_096)), None, Some(195_904)),
        (limits(Some(200_000), None), Some(50_000), Some(150_000)),
        (limits(Some(8_192), Some(8_192)), None, Some(6_144)),
    ] {
        let budget = Budget::of(limits, &asking(max));
        assert_eq!(budget.map(|budget| budget.tokens_max), expected, "{limits:?} {max:?}");
    }
    let system = vec!["x".repeat(400)];
    let request = ChatRequest { system, ..ChatRequest::default() };
    assert_eq!(Budget::of(limits(Some(8_192), None), &request).map(|budget| budget.fixed_tokens), Some(100));
}
