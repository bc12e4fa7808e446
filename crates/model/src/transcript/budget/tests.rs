//! Tests of fitting: which texts are shortened, in which order, and when fitting fails.

use protocol::{AiMessage, ToolMessage, ToolStatus};
use serde_json::json;

use super::*;
use crate::name::Provider;
use crate::transcript::{AvailableMedia, ProviderProfile, find_violations, legalize};

/// Returns a conversation of calls. Each pair is the length of the arguments and of the result in characters.
fn calls(lengths: &[(usize, usize)]) -> Arc<Vec<Message>> {
    let mut messages = vec![Message::human("Do it.")];
    for (number, (args, result)) in lengths.iter().enumerate() {
        let call = ContentBlock::ToolCall {
            id: format!("c{number}"),
            name: "run".to_owned(),
            args: json!({"command": "x".repeat(*args), "in": ["here"]}),
        };
        messages.push(Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() }));
        messages.push(Message::Tool(ToolMessage {
            id: None,
            call_id: format!("c{number}"),
            name: None,
            content: vec![ContentBlock::text(format!("<{}>", "é".repeat(*result)))],
            status: ToolStatus::Success,
        }));
    }
    Arc::new(messages)
}

fn tokens_of(messages: &[Message]) -> u64 {
    messages.iter().map(tokens::message_tokens).sum()
}

fn fit_messages(
    messages: &Arc<Vec<Message>>,
    tokens_max: u64,
) -> Result<FittedConversation, ConversationTooLarge> {
    let fitted =
        fit_conversation(messages, tokens_of(messages), TokenBudget { tokens_max, fixed_tokens: 100 })?;
    assert_eq!(fitted.tokens, tokens_of(&fitted.messages) + 100, "the reported size is the real one");
    assert!(fitted.tokens <= tokens_max);
    let ids = |messages: &[Message]| -> Vec<String> {
        messages.iter().flat_map(Message::tool_calls).map(|(id, _, _)| id.to_owned()).collect()
    };
    assert_eq!(ids(messages), ids(&fitted.messages), "no call is lost");
    assert_eq!(messages.len(), fitted.messages.len(), "no message is lost");
    let (media, profile) = (AvailableMedia::new(), ProviderProfile::for_provider(Provider::Anthropic));
    assert_eq!(find_violations(&legalize(&fitted.messages, &media, &profile), &profile), []);
    Ok(fitted)
}

/// Returns the indexes of the messages that differ.
fn changed_indexes(before: &[Message], after: &[Message]) -> Vec<usize> {
    (0..before.len()).filter(|index| before[*index] != after[*index]).collect()
}

#[test]
fn l12_a_conversation_that_fits_is_not_copied() {
    let messages = calls(&[(10, 10); 20]);
    let fitted = fit_messages(&messages, 10_000).expect("it fits");
    assert!(Arc::ptr_eq(&fitted.messages, &messages));
    assert_eq!(fitted.shortened_messages, 0);
}

#[test]
fn e21_old_results_and_arguments_are_shortened_first_and_only_as_many_as_necessary() {
    let messages = calls(&[(4_000, 40_000); 20]);
    let total_tokens = tokens_of(&messages) + 100;
    let fitted_once = fit_messages(&messages, total_tokens - 1).expect("it fits");
    assert!(fitted_once.shortened_messages < 10, "{}", fitted_once.shortened_messages);
    assert_eq!(
        changed_indexes(&messages, &fitted_once.messages),
        (1..=fitted_once.shortened_messages).collect::<Vec<_>>()
    );
    let fitted = fit_messages(&messages, total_tokens / 2).expect("it fits");
    assert!(fitted.shortened_messages > fitted_once.shortened_messages);
    let newest = messages.len() - PROTECTED_MESSAGES;
    assert!(changed_indexes(&messages, &fitted.messages).iter().all(|index| *index < newest));
    let result = fitted.messages[2].text();
    assert!(result.starts_with("<é") && result.ends_with("é>"), "{result}");
    assert!(result.contains("39735 characters are left out here"), "{result}");
    let (_, _, args) = fitted.messages[1].tool_calls().next().expect("the call is kept");
    assert_eq!(args["in"], json!(["here"]));
    assert!(args["command"].as_str().is_some_and(|command| command.len() < 400));
}

#[test]
fn e21_most_requests_of_a_growing_conversation_begin_like_the_previous_one() {
    let long = calls(&[(0, 4_000); 60]);
    let tokens_max = tokens_of(&long) * 2 / 3;
    let requests: Vec<Arc<Vec<Message>>> = (40..60)
        .map(|pairs| {
            let messages = Arc::new(long[..=pairs * 2].to_vec());
            fit_messages(&messages, tokens_max).expect("it fits").messages
        })
        .collect();
    let unchanged = requests.windows(2).filter(|pair| pair[1].starts_with(&pair[0])).count();
    assert!(unchanged >= 12, "{unchanged} of 19 requests begin with the one before");
}

#[test]
fn l6_one_giant_result_is_clipped_to_what_is_left() {
    let messages = calls(&[(10, 10), (10, 8_000_000)]);
    let fitted = fit_messages(&messages, 100_000).expect("it fits");
    assert_eq!(changed_indexes(&messages, &fitted.messages), [4]);
    assert!(fitted.tokens > 99_000, "{} of 100,000 tokens are used", fitted.tokens);
    assert!(fitted.messages[4].text().contains("the whole is in the thread"));
}

#[test]
fn l6_several_large_new_results_are_clipped_alike() {
    let messages = calls(&[(10, 100_000), (10, 5_000), (10, 200_000)]);
    let fitted = fit_messages(&messages, 20_000).expect("it fits");
    assert_eq!(changed_indexes(&messages, &fitted.messages), [2, 6]);
    let chars = |index: usize| fitted.messages[index].text().chars().count();
    assert!(chars(2).abs_diff(chars(6)) < 10, "{} and {}", chars(2), chars(6));
}

#[test]
fn l11_the_size_of_what_cannot_be_shortened_is_reported() {
    let messages = Arc::new(vec![Message::human("x".repeat(400_000))]);
    let error = fit_messages(&messages, 50_000).expect_err("a person's message is not shortened");
    assert_eq!(error, ConversationTooLarge { irreducible_tokens: 100_103, tokens_max: 50_000 });
    assert_eq!(
        format!("failed to {error}"),
        "failed to fit the conversation into 50000 tokens: 100103 cannot be shortened"
    );
}

#[test]
fn l6_a_giant_result_in_a_script_without_spaces_is_clipped_too() {
    let mut messages = Arc::unwrap_or_clone(calls(&[(10, 10), (10, 10)]));
    if let Message::Tool(result) = &mut messages[4] {
        result.content = vec![ContentBlock::text("設定ファイルを確認してください。".repeat(20_000))];
    }
    let messages = Arc::new(messages);
    assert!(tokens_of(&messages) > 300_000, "each character is about a token");
    let fitted = fit_messages(&messages, 100_000).expect("it fits");
    assert_eq!(changed_indexes(&messages, &fitted.messages), [4]);
    assert!(fitted.tokens > 99_000, "{} of 100,000 tokens are used", fitted.tokens);
}

#[test]
fn e21_more_is_shortened_for_a_model_that_counts_more_tokens_than_estimated() {
    let messages = calls(&[(4_000, 40_000); 20]);
    let total_tokens = tokens_of(&messages) + 100;
    let shortened = |factor: f64| {
        let budget = TokenBudget { tokens_max: total_tokens, fixed_tokens: 100 }.in_estimated_tokens(factor);
        let fitted = fit_conversation(&messages, total_tokens - 100, budget).expect("it fits");
        assert!(
            fitted.tokens as f64 * factor <= total_tokens as f64 + 1.0,
            "{} factor {factor}",
            fitted.tokens
        );
        fitted.shortened_messages
    };
    assert_eq!((shortened(0.5), shortened(1.0)), (0, 0));
    assert!(0 < shortened(1.2) && shortened(1.2) < shortened(2.0));
    let budget = |tokens_max| TokenBudget { tokens_max, fixed_tokens: 100 };
    assert_eq!(
        budget(1_000).in_estimated_tokens(1.25),
        budget(800),
        "the window shrinks, the fixed tokens stay"
    );
    assert_eq!(budget(1_000).in_estimated_tokens(0.5), budget(2_000));
}

#[test]
fn l9_a_shortened_text_is_cut_between_grapheme_clusters() {
    let family = "👨‍👩‍👧‍👦";
    let mut text = family.repeat(2_000);
    shorten_text(&mut text, RESULT_CHARS_MAX, RESULT_CHARS_KEPT);
    let (head, after_head) = text.split_once("\n[…").expect("something is omitted");
    let (_, tail) = after_head.split_once("…]\n").expect("the note ends");
    assert_eq!(head.replace(family, ""), "");
    assert_eq!(tail.replace(family, ""), "");
    assert!(!head.is_empty() && !tail.is_empty());
}

#[test]
fn a_budget_leaves_room_for_the_answer() {
    let limits = |context, output| ModelLimits { context_tokens: context, output_tokens: output };
    let request_with_limit = |max| ChatRequest { max_output_tokens: max, ..ChatRequest::default() };
    for (limits, max, expected) in [
        (limits(None, None), None, None),
        (limits(Some(200_000), Some(64_000)), None, Some(184_000)),
        (limits(Some(200_000), Some(4_096)), None, Some(195_904)),
        (limits(Some(200_000), None), Some(50_000), Some(150_000)),
        (limits(Some(8_192), Some(8_192)), None, Some(6_144)),
    ] {
        let budget = TokenBudget::for_request(limits, &request_with_limit(max));
        assert_eq!(budget.map(|budget| budget.tokens_max), expected, "{limits:?} {max:?}");
    }
    let system = vec!["x".repeat(400)];
    let request = ChatRequest { system, ..ChatRequest::default() };
    assert_eq!(
        TokenBudget::for_request(limits(Some(8_192), None), &request).map(|budget| budget.fixed_tokens),
        Some(100)
    );
}
