//! Turns that leave and turns that stay, for arbitrary contexts.

use std::sync::Arc;

use proptest::prelude::*;
use protocol::{AiMessage, Message, ToolMessage, ToolStatus};

use super::*;

const WORDS: &str = "some words that make a message of a few more tokens than it would have without them";

/// Returns a context from a compact form with one character for each message: `U` of the user, `A` of the assistant,
/// `C` of the assistant with a tool call, `T` its result, `S` a summary at the start, `R` the kept request after it,
/// `I` an injected message. The seqs are 10, 20, 30, …
fn parse_context(signs: &str) -> ModelContext {
    let message = |sign: char| match sign {
        'U' | 'S' | 'R' | 'I' => Message::human(WORDS),
        'A' => Message::ai(WORDS),
        'C' => {
            let call =
                ContentBlock::ToolCall { id: "c".into(), name: "t".into(), args: serde_json::json!({}) };
            Message::Ai(AiMessage { content: vec![ContentBlock::text(WORDS), call], ..AiMessage::default() })
        }
        'T' => Message::Tool(ToolMessage {
            id: None,
            call_id: "c".into(),
            name: None,
            content: vec![ContentBlock::text(WORDS)],
            status: ToolStatus::Success,
        }),
        other => unreachable!("no sign {other:?}"),
    };
    let messages: Vec<Message> = signs.chars().map(message).collect();
    let mut context = ModelContext::default();
    context.tokens = messages.iter().map(tokens::message_tokens).sum();
    context.seqs = Arc::new((1..=messages.len() as Seq).map(|number| number * 10).collect());
    let injected = signs.chars().zip(&*context.seqs).filter(|(sign, _)| *sign == 'I');
    context.injected_seqs = Arc::new(injected.map(|(_, seq)| *seq).collect());
    context.summary_len = signs.chars().take_while(|sign| matches!(sign, 'S' | 'R')).count();
    context.messages = Arc::new(messages);
    context
}

/// Returns the tokens of `messages` messages and a half.
fn tokens_of(messages: u64) -> u64 {
    let one = tokens::message_tokens(&Message::human(WORDS));
    messages * one + one / 2
}

/// Returns the departing range as `(first seq, last seq, is oldest)`. The budget is in messages.
fn departing_range(signs: &str, budget: u64, newest: NewestTurnState) -> Option<(Seq, Seq, bool)> {
    let context = parse_context(signs);
    let leaving =
        find_departing_range(&context, ContextLimit::from_budget("", tokens_of(budget)), newest, 0)?;
    Some((leaving.first_seq, leaving.last_seq, leaving.is_oldest))
}

#[test]
fn f8_whole_turns_leave_until_half_of_the_budget_is_left() {
    use NewestTurnState::{Complete, Open};
    for (signs, budget, newest, expected) in [
        ("UAUAUAUA", 8, Complete, None),
        ("UAUAUAUA", 7, Complete, Some((10, 69, true))),
        ("UAUAUAUAUAUA", 10, Complete, Some((10, 89, true))),
        ("UAUAUAUA", 1, Complete, Some((10, 69, true))),
        // An incomplete turn stays, and so does the newest complete turn.
        ("UAUAUAU", 1, Open, Some((10, 49, true))),
        ("UAUAUACT", 1, Open, Some((10, 29, true))),
        ("UAU", 1, Open, None),
        ("UA", 1, Complete, None),
        ("U", 1, Open, None),
        ("AAAA", 1, Complete, None),
        ("", 0, Complete, None),
        // Calls leave together with their results.
        ("UCTCTAUCTAUA", 4, Complete, Some((10, 109, true))),
        // An injected message in the user's role begins no turn.
        ("UIAUAUA", 1, Complete, Some((10, 59, true))),
        ("UAUAUIA", 1, Complete, Some((10, 49, true))),
        ("UAUAIA", 1, Complete, Some((10, 29, true))),
        ("UAIA", 1, Complete, None),
        // The summary of a compaction stays; the messages after it leave.
        ("SUAUAUA", 4, Complete, Some((20, 59, true))),
        ("SCTAUAUA", 4, Complete, Some((20, 69, true))),
    ] {
        assert_eq!(departing_range(signs, budget, newest), expected, "{signs} of {budget}");
    }
}

#[test]
fn f8_what_comes_before_the_threads_own_turns_stays() {
    for (from, expected) in [
        (0, Some((10, 69, true))),
        (25, Some((30, 69, false))),
        (50, Some((50, 69, false))),
        (61, None),
        (Seq::MAX, None),
    ] {
        let leaving = find_departing_range(
            &parse_context("UAUAUAUA"),
            ContextLimit::from_budget("", 1),
            NewestTurnState::Complete,
            from,
        );
        let range = leaving.map(|leaving| (leaving.first_seq, leaving.last_seq, leaving.is_oldest));
        assert_eq!(range, expected, "{from}");
    }
}

#[test]
fn l7_what_continues_a_request_that_was_kept_stays_while_that_is_not_answered() {
    for (answered, expected) in [(true, Some((30, 69))), (false, Some((50, 69)))] {
        let mut context = parse_context("SRCTUAUA");
        let compaction = serde_json::json!({
            "schema_version": 1, "trigger": "auto", "first_seq": 1, "last_seq": 9, "replaced_count": 1,
            "kept_count": 1, "tokens_before": 9, "tokens_after": 1, "model": "extractive", "summary": "s",
            "sections": {"goal": "g"}, "last_request_seq": 5, "duration_ms": 1,
            "carry_over": {"last_request_answered": answered},
        });
        let compaction = Box::new(serde_json::from_value(compaction).unwrap());
        context.beginning.start = Some(ContextStart::Compacted { seq: 9, compaction });
        let leaving =
            find_departing_range(&context, ContextLimit::from_budget("", 1), NewestTurnState::Complete, 0);
        assert_eq!(leaving.map(|leaving| (leaving.first_seq, leaving.last_seq)), expected, "{answered}");
        assert_eq!(leaving.map(|leaving| leaving.is_oldest), Some(answered));
    }
}

fn signs() -> impl Strategy<Value = String> {
    let turn = proptest::sample::select(vec!["UA", "U", "UCTA", "UCTCTCTA", "UAA"]);
    let opening = proptest::sample::select(vec!["", "S", "A", "SCTA"]);
    (opening, proptest::collection::vec(turn, 0..30))
        .prop_map(|(opening, turns)| opening.to_owned() + &turns.concat())
}

fn turns() -> impl Strategy<Value = Vec<TurnPosition>> {
    let turn = (any::<bool>(), 1..4_u64, prop_oneof![9 => 0..100_i64, 1 => 20_000..90_000_i64]);
    proptest::collection::vec(turn, 0..500).prop_map(|turns| {
        let (mut index, mut second) = (0, 0);
        let mut logged = |(is_persons, step, pause): (bool, u64, i64)| {
            (index, second) = (index + step, second + pause);
            TurnPosition { turn_index: index, seq: index * 3, is_user: is_persons, second }
        };
        turns.into_iter().map(&mut logged).collect()
    })
}

proptest! {
    #[test]
    fn f8_what_leaves_is_a_beginning_of_whole_turns(signs in signs(), budget in 0..60_u64, is_open: bool) {
        let newest = if is_open { NewestTurnState::Open } else { NewestTurnState::Complete };
        if let Some((first, last, _)) = departing_range(&signs, budget, newest) {
            let sent = signs.trim_start_matches('S');
            let opening = (signs.len() - sent.len()) as Seq;
            prop_assert_eq!(first, (opening + 1) * 10);
            let leaving = usize::try_from((last + 1) / 10 - 1 - opening).unwrap();
            // No turn is divided, and a complete turn stays.
            prop_assert!(sent[leaving..].starts_with('U'), "{} of {}", leaving, sent);
            prop_assert!(sent[leaving..].matches('U').count() > usize::from(is_open));
            // No more turns leave than necessary.
            let context = parse_context(&signs);
            let left_of = |count: usize| {
                let left = context.messages.iter().skip(context.summary_len).take(count).map(tokens::message_tokens);
                context.tokens - left.sum::<u64>()
            };
            let is_all = sent[leaving..].matches('U').count() == 1 + usize::from(is_open);
            prop_assert!(is_all || left_of(leaving) <= tokens_of(budget) / 2);
            if let Some(one_less) = sent[..leaving].rfind('U').filter(|at| *at > 0) {
                prop_assert!(left_of(one_less) > tokens_of(budget) / 2);
            }
        }
    }

    #[test]
    fn f6_the_parts_of_a_window_are_all_of_it_and_each_begins_with_a_person(turns in turns()) {
        let parts = divide_into_summaries(&turns);
        prop_assert_eq!(parts.concat(), turns.clone());
        for (at, part) in parts.iter().enumerate() {
            prop_assert!(!part.is_empty());
            prop_assert!(at == 0 || part[0].is_user);
            let begins = part.iter().skip(TURNS_PER_SUMMARY).filter(|turn| turn.is_user);
            prop_assert_eq!(begins.count(), 0, "a longer part has no place to be parted at");
        }
    }
}
