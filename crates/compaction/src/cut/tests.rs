//! Table tests of the cut: transcripts with one message an entry, and the expected cut as a line.

mod generated;

use facts::notation::parse_items;
use protocol::AiMessage;
use serde_json::json;

use super::*;

/// The size of every message in the tables, in tokens.
const TOKENS_PER_MESSAGE: u64 = 10;

/// Returns the messages of a transcript in the notation of `facts`.
fn parse_messages(text: &str) -> Vec<ContextMessage> {
    parse_items(text).into_iter().map(|item| ContextMessage { item, tokens: TOKENS_PER_MESSAGE }).collect()
}

/// Returns a cut as a line: `1..last_seq (replaced | kept), request seq state`.
fn render_cut(cut: Option<CompactionCut>) -> String {
    let Some(cut) = cut else { return "nothing".to_owned() };
    let request = match (cut.last_request_seq, cut.request_answered) {
        (Some(seq), Some(true)) => format!(", request {seq} answered"),
        (Some(seq), Some(false)) => format!(", request {seq} pending"),
        _ => String::new(),
    };
    format!("1..{} ({} | {}){request}", cut.last_seq, cut.replaced_count, cut.kept_count)
}

/// Checks the cut of a transcript with one message an entry.
fn check(transcript: &[&str], keep: KeepPolicy, expected: &str) {
    let cut = find_cut(&parse_messages(&transcript.join("\n")), None, keep, Some(1_000));
    assert_eq!(render_cut(cut), expected, "{transcript:?} keeping {keep:?}");
}

#[test]
fn e3_the_kept_part_begins_with_a_turn_if_that_keeps_enough() {
    let turns = ["U: a", "A: a", "U: b", "A: b", "U: c", "A: c"];
    for (keep, expected) in [
        (KeepPolicy::Messages(6), "nothing"),
        (KeepPolicy::Messages(5), "1..2 (2 | 4)"),
        (KeepPolicy::Messages(4), "1..2 (2 | 4)"),
        (KeepPolicy::Messages(3), "1..4 (4 | 2)"),
        (KeepPolicy::Messages(2), "1..4 (4 | 2)"),
        (KeepPolicy::Messages(1), "1..5 (5 | 1), request 5 answered"),
        (KeepPolicy::Messages(0), "1..5 (5 | 1), request 5 answered"),
        (KeepPolicy::Tokens(60), "nothing"),
        (KeepPolicy::Tokens(49), "1..2 (2 | 4)"),
        (KeepPolicy::Tokens(20), "1..4 (4 | 2)"),
        (KeepPolicy::Fraction(0.02), "1..4 (4 | 2)"),
        (KeepPolicy::Fraction(0.06), "nothing"),
    ] {
        check(&turns, keep, expected);
    }
    check(&["U: a", "A: a", "U: b"], KeepPolicy::Messages(1), "1..2 (2 | 1)");
    check(&["U: a"], KeepPolicy::Messages(0), "nothing");
    check(&[], KeepPolicy::Tokens(0), "nothing");
}

#[test]
fn e3_a_share_of_an_unknown_window_keeps_six_messages() {
    let transcript = ["U: a", "A: a", "U: b", "A: b", "U: c", "A: c", "U: d", "A: d"].join("\n");
    let cut = find_cut(&parse_messages(&transcript), None, KeepPolicy::Fraction(0.1), None);
    assert_eq!(render_cut(cut), "1..2 (2 | 6)");
}

#[test]
fn l6_a_turn_that_is_too_large_is_split_and_its_request_stays_verbatim() {
    let turn = ["U: a", "C: 1 x {}", "T: 1 r", "C: 2 x {}", "T: 2 r", "C: 3 x {}", "T: 3 r", "A: done"];
    check(&turn, KeepPolicy::Messages(4), "1..5 (5 | 3), request 1 answered");
    check(&turn, KeepPolicy::Messages(3), "1..5 (5 | 3), request 1 answered");
    check(&turn, KeepPolicy::Messages(1), "1..7 (7 | 1), request 1 answered");
    check(&turn[..7], KeepPolicy::Messages(1), "1..5 (5 | 2), request 1 pending");
    // A small next turn does not cause the large turn before it to be compacted as a whole.
    let long =
        ["U: a", "C: 1 x {}", "T: 1 r", "C: 2 x {}", "T: 2 r", "C: 3 x {}", "T: 3 r", "A: done", "U: b"];
    check(&long, KeepPolicy::Messages(8), "1..1 (1 | 8)");
    check(&long, KeepPolicy::Messages(6), "1..3 (3 | 6)");
    check(&long, KeepPolicy::Messages(2), "1..8 (8 | 1)");
}

#[test]
fn l2_a_call_and_its_result_stay_together_if_other_messages_are_between_them() {
    let apart = ["U: a", "C: 1 x {}", "I: note", "U: wait", "T: 1 r", "A: done"];
    check(&apart, KeepPolicy::Messages(4), "1..5 (5 | 1), request 4 answered");
    check(&apart, KeepPolicy::Messages(5), "1..1 (1 | 5)");
    let batch = |ids: &[&str]| {
        Message::Ai(AiMessage {
            content: ids
                .iter()
                .map(|id| ContentBlock::ToolCall {
                    id: (*id).to_owned(),
                    name: "x".to_owned(),
                    args: json!({}),
                })
                .collect(),
            ..AiMessage::default()
        })
    };
    let mut parallel = parse_messages("U: a\nA: b\nA: calls\nT: 1 r\nT: 2 r\nT: 3 r\nA: done");
    parallel[2].item.kind = TranscriptItemKind::Message(batch(&["1", "2", "3"]));
    for (keep, expected) in [
        (5, "1..2 (2 | 5), request 1 answered"),
        (4, "1..6 (6 | 1), request 1 answered"),
        (2, "1..6 (6 | 1), request 1 answered"),
    ] {
        assert_eq!(render_cut(find_cut(&parallel, None, KeepPolicy::Messages(keep), None)), expected);
    }
    assert_eq!(
        render_cut(find_cut(&parallel[..6], None, KeepPolicy::Messages(0), None)),
        "1..2 (2 | 4), request 1 pending",
        "the newest batch stays whole, however large"
    );
}

#[test]
fn l2_the_kept_part_never_begins_with_a_result() {
    check(
        &["U: a", "A: b", "T: 9 orphan", "A: c"],
        KeepPolicy::Messages(2),
        "1..3 (3 | 1), request 1 answered",
    );
    check(&["T: 1 r", "T: 2 r", "T: 3 r"], KeepPolicy::Messages(1), "1..2 (2 | 1)");
    check(&["U: a", "T: 8 r", "T: 9 r"], KeepPolicy::Messages(1), "1..2 (2 | 1), request 1 pending");
}

#[test]
fn e4_the_last_request_stays_verbatim_even_if_it_is_too_large() {
    let mut turns = parse_messages("U: a\nA: a\nU: b");
    turns[2].tokens = 1_000_000;
    assert_eq!(render_cut(find_cut(&turns, None, KeepPolicy::Tokens(100), None)), "1..2 (2 | 1)");
    let mut large = parse_messages("U: a\nC: 1 x {}\nT: 1 r\nA: done");
    large[0].tokens = 1_000_000;
    assert_eq!(
        render_cut(find_cut(&large, None, KeepPolicy::Tokens(20), None)),
        "1..3 (3 | 1), request 1 answered"
    );
    assert_eq!(
        render_cut(find_cut(&large, None, KeepPolicy::Tokens(30), None)),
        "nothing",
        "compacting only the request and repeating it would not make the context smaller"
    );
}

#[test]
fn e4_the_request_repeated_by_an_earlier_compaction_stays_the_last_one_until_the_next() {
    let continued = parse_messages("C: 1 x {}\nT: 1 r\nC: 2 x {}\nT: 2 r");
    let cut = find_cut(&continued, Some(70), KeepPolicy::Messages(2), None);
    assert_eq!(render_cut(cut), "1..2 (2 | 2), request 70 pending");
    let done = parse_messages("C: 1 x {}\nT: 1 r\nA: done");
    assert_eq!(
        render_cut(find_cut(&done, Some(70), KeepPolicy::Messages(1), None)),
        "1..2 (2 | 1), request 70 answered"
    );
    let next = parse_messages("A: done\nU: next\nA: yes");
    assert_eq!(render_cut(find_cut(&next, Some(70), KeepPolicy::Messages(2), None)), "1..1 (1 | 2)");
}

#[test]
fn l8_injected_messages_are_no_requests_and_stale_reminders_are_compacted() {
    check(
        &["U: a", "A: a", "I: <system-reminder>U: b</system-reminder>", "A: b", "A: c"],
        KeepPolicy::Messages(1),
        "1..4 (4 | 1), request 1 answered",
    );
    check(&["I: x", "U: a", "A: a", "I: reminder", "U: b", "A: b"], KeepPolicy::Messages(3), "1..3 (3 | 3)");
    check(&["I: x", "A: a", "I: y", "A: b"], KeepPolicy::Messages(1), "1..3 (3 | 1)");
    // A text that the user typed is a request, even if it looks like a reminder of a program.
    check(
        &["U: a", "A: a", "U: <system-reminder>b</system-reminder>"],
        KeepPolicy::Messages(1),
        "1..2 (2 | 1)",
    );
}

#[test]
fn c2_an_earlier_summary_is_replaced_and_does_not_count_as_a_message() {
    check(&["P: earlier", "U: a", "A: a", "U: b", "A: b"], KeepPolicy::Messages(2), "1..3 (2 | 2)");
    check(&["P: earlier", "U: a", "A: a"], KeepPolicy::Messages(2), "nothing");
}

#[test]
fn l7_a_request_is_answered_when_a_complete_answer_follows() {
    for (after, answered) in [
        (&["A: done"][..], true),
        (&["A: done", "I: reminder"], true),
        (&["C: 1 x {}", "T: 1 r"], false),
        (&["A: done", "C: 1 x {}"], false),
        (&["C: 1 x {}", "T: 1 r", "A: done"], true),
        (&["A:  "], false),
        (&[], false),
    ] {
        assert_eq!(is_answered(&parse_messages(&after.join("\n"))), answered, "{after:?}");
    }
}
