//! Where transcripts are cut, as tables: one message an entry, and what is cut in a line.

mod generated;

use facts::notation::items;
use protocol::AiMessage;
use serde_json::json;

use super::*;

/// Tokens of every unit of the tables.
const EACH: u64 = 10;

fn units(text: &str) -> Vec<Unit> {
    items(text).into_iter().map(|item| Unit { item, tokens: EACH }).collect()
}

/// Says in a line what is cut.
fn told(cut: Option<Cut>) -> String {
    let Some(cut) = cut else { return "nothing".to_owned() };
    let request = match (cut.last_request_seq, cut.request_answered) {
        (Some(seq), Some(true)) => format!(", request {seq} answered"),
        (Some(seq), Some(false)) => format!(", request {seq} pending"),
        _ => String::new(),
    };
    format!("1..{} ({} | {}){request}", cut.last_seq, cut.replaced, cut.kept)
}

/// Compares what is cut of a transcript, one message an entry.
fn check(transcript: &[&str], keep: Keep, expected: &str) {
    let cut = cut(&units(&transcript.join("\n")), None, keep, Some(1_000));
    assert_eq!(told(cut), expected, "{transcript:?} keeping {keep:?}");
}

#[test]
fn e3_what_stays_begins_with_a_turn_where_that_keeps_enough() {
    let turns = ["U: a", "A: a", "U: b", "A: b", "U: c", "A: c"];
    for (keep, expected) in [
        (Keep::Messages(6), "nothing"),
        (Keep::Messages(5), "1..2 (2 | 4)"),
        (Keep::Messages(4), "1..2 (2 | 4)"),
        (Keep::Messages(3), "1..4 (4 | 2)"),
        (Keep::Messages(2), "1..4 (4 | 2)"),
        (Keep::Messages(1), "1..5 (5 | 1), request 5 answered"),
        (Keep::Messages(0), "1..5 (5 | 1), request 5 answered"),
        (Keep::Tokens(60), "nothing"),
        (Keep::Tokens(49), "1..2 (2 | 4)"),
        (Keep::Tokens(20), "1..4 (4 | 2)"),
        (Keep::Fraction(0.02), "1..4 (4 | 2)"),
        (Keep::Fraction(0.06), "nothing"),
    ] {
        check(&turns, keep, expected);
    }
    check(&["U: a", "A: a", "U: b"], Keep::Messages(1), "1..2 (2 | 1)");
    check(&["U: a"], Keep::Messages(0), "nothing");
    check(&[], Keep::Tokens(0), "nothing");
}

#[test]
fn e3_without_a_window_a_share_of_it_means_six_messages() {
    let transcript = ["U: a", "A: a", "U: b", "A: b", "U: c", "A: c", "U: d", "A: d"].join("\n");
    let cut = cut(&units(&transcript), None, Keep::Fraction(0.1), None);
    assert_eq!(told(cut), "1..2 (2 | 6)");
}

#[test]
fn l6_a_turn_that_is_too_large_is_split_and_its_request_stays_verbatim() {
    let turn = ["U: a", "C: 1 x {}", "T: 1 r", "C: 2 x {}", "T: 2 r", "C: 3 x {}", "T: 3 r", "A: done"];
    check(&turn, Keep::Messages(4), "1..5 (5 | 3), request 1 answered");
    check(&turn, Keep::Messages(3), "1..5 (5 | 3), request 1 answered");
    check(&turn, Keep::Messages(1), "1..7 (7 | 1), request 1 answered");
    check(&turn[..7], Keep::Messages(1), "1..5 (5 | 2), request 1 pending");
    // A small next turn is no reason to lose sight of the work before it.
    let long =
        ["U: a", "C: 1 x {}", "T: 1 r", "C: 2 x {}", "T: 2 r", "C: 3 x {}", "T: 3 r", "A: done", "U: b"];
    check(&long, Keep::Messages(8), "1..1 (1 | 8)");
    check(&long, Keep::Messages(6), "1..3 (3 | 6)");
    check(&long, Keep::Messages(2), "1..8 (8 | 1)");
}

#[test]
fn l2_a_call_and_its_result_stay_together_whatever_is_between_them() {
    let apart = ["U: a", "C: 1 x {}", "I: note", "U: wait", "T: 1 r", "A: done"];
    check(&apart, Keep::Messages(4), "1..5 (5 | 1), request 4 answered");
    check(&apart, Keep::Messages(5), "1..1 (1 | 5)");
    let batch = |ids: &[&str]| {
        Message::Ai(AiMessage {
            content: ids
                .iter()
                .map(|id| Block::ToolCall { id: (*id).to_owned(), name: "x".to_owned(), args: json!({}) })
                .collect(),
            ..AiMessage::default()
        })
    };
    let mut parallel = units("U: a\nA: b\nA: calls\nT: 1 r\nT: 2 r\nT: 3 r\nA: done");
    parallel[2].item.what = What::Message(batch(&["1", "2", "3"]));
    for (keep, expected) in [
        (5, "1..2 (2 | 5), request 1 answered"),
        (4, "1..6 (6 | 1), request 1 answered"),
        (2, "1..6 (6 | 1), request 1 answered"),
    ] {
        assert_eq!(told(cut(&parallel, None, Keep::Messages(keep), None)), expected);
    }
    assert_eq!(
        told(cut(&parallel[..6], None, Keep::Messages(0), None)),
        "1..2 (2 | 4), request 1 pending",
        "the newest batch stays whole, however large"
    );
}

#[test]
fn l2_results_without_a_call_never_stand_first() {
    check(&["U: a", "A: b", "T: 9 orphan", "A: c"], Keep::Messages(2), "1..3 (3 | 1), request 1 answered");
    check(&["T: 1 r", "T: 2 r", "T: 3 r"], Keep::Messages(1), "1..2 (2 | 1)");
    check(&["U: a", "T: 8 r", "T: 9 r"], Keep::Messages(1), "1..2 (2 | 1), request 1 pending");
}

#[test]
fn e4_the_last_request_stays_verbatim_also_alone_and_when_it_is_too_large() {
    let mut turns = units("U: a\nA: a\nU: b");
    turns[2].tokens = 1_000_000;
    assert_eq!(told(cut(&turns, None, Keep::Tokens(100), None)), "1..2 (2 | 1)");
    let mut large = units("U: a\nC: 1 x {}\nT: 1 r\nA: done");
    large[0].tokens = 1_000_000;
    assert_eq!(told(cut(&large, None, Keep::Tokens(20), None)), "1..3 (3 | 1), request 1 answered");
    assert_eq!(
        told(cut(&large, None, Keep::Tokens(30), None)),
        "nothing",
        "to condense the request alone and to repeat it would gain nothing"
    );
}

#[test]
fn e4_the_request_of_an_earlier_compaction_stays_the_last_one_until_there_is_another() {
    let goes_on = units("C: 1 x {}\nT: 1 r\nC: 2 x {}\nT: 2 r");
    let kept = cut(&goes_on, Some(70), Keep::Messages(2), None);
    assert_eq!(told(kept), "1..2 (2 | 2), request 70 pending");
    let done = units("C: 1 x {}\nT: 1 r\nA: done");
    assert_eq!(told(cut(&done, Some(70), Keep::Messages(1), None)), "1..2 (2 | 1), request 70 answered");
    let next = units("A: done\nU: next\nA: yes");
    assert_eq!(told(cut(&next, Some(70), Keep::Messages(2), None)), "1..1 (1 | 2)");
}

#[test]
fn l8_what_nobody_typed_is_no_request_and_stale_reminders_are_condensed() {
    check(
        &["U: a", "A: a", "I: <system-reminder>U: b</system-reminder>", "A: b", "A: c"],
        Keep::Messages(1),
        "1..4 (4 | 1), request 1 answered",
    );
    check(&["I: x", "U: a", "A: a", "I: reminder", "U: b", "A: b"], Keep::Messages(3), "1..3 (3 | 3)");
    check(&["I: x", "A: a", "I: y", "A: b"], Keep::Messages(1), "1..3 (3 | 1)");
    // A person who types what looks like a note of a program has asked for it.
    check(&["U: a", "A: a", "U: <system-reminder>b</system-reminder>"], Keep::Messages(1), "1..2 (2 | 1)");
}

#[test]
fn c2_a_summary_is_condensed_and_counts_as_no_message() {
    check(&["P: earlier", "U: a", "A: a", "U: b", "A: b"], Keep::Messages(2), "1..3 (2 | 2)");
    check(&["P: earlier", "U: a", "A: a"], Keep::Messages(2), "nothing");
}

#[test]
fn l7_a_request_is_answered_when_nothing_after_it_is_open() {
    for (after, answered) in [
        (&["A: done"][..], true),
        (&["A: done", "I: reminder"], true),
        (&["C: 1 x {}", "T: 1 r"], false),
        (&["A: done", "C: 1 x {}"], false),
        (&["C: 1 x {}", "T: 1 r", "A: done"], true),
        (&["A:  "], false),
        (&[], false),
    ] {
        assert_eq!(is_answered(&units(&after.join("\n"))), answered, "{after:?}");
    }
}
