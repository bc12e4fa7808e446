//! Complete offline summaries of conversations.

use protocol::{LoggedMessage, MessageRole};

use super::*;
use crate::tiers::turn_text::TURN_GRAPHEMES_MAX;

/// Summarizes a conversation in a compact form: `U: …`, `A: …`, and `D: date` before the messages of that day.
fn summarize_offline(text: &str, tokens_max: u64) -> String {
    let mut extract = OfflineSummaryBuilder::default();
    let mut at: Timestamp = "2026-03-02T10:00:00Z".parse().unwrap();
    for (number, line) in (1..).zip(text.lines().map(str::trim).filter(|line| !line.is_empty())) {
        let (sign, content) = line.split_once(": ").unwrap();
        let role = match sign {
            "U" => MessageRole::User,
            "A" => MessageRole::Assistant,
            _ => {
                at = format!("{content}T10:00:00Z").parse().unwrap();
                continue;
            }
        };
        let turn = LoggedMessage {
            agent_id: "agent".parse().unwrap(),
            thread_id: protocol::ThreadId::generate(),
            turn_index: number,
            role,
            content: content.to_owned(),
            created_at: at,
            is_archived: false,
            seq: number,
            summary_id: None,
        };
        extract.push_turn(number, &SummarizerTurn::from_logged(&turn, TURN_GRAPHEMES_MAX));
    }
    extract.finish(tokens_max)
}

const WORK: &str = "
    U: The importer in src/import.rs drops the last row of ledger.csv when the file has no final newline, see INGEST-7.
    A: I found it: read_rows stops at the last line end. We decided to keep the rows as they are and to flush at the end.
    U: Never touch the public API of LedgerReader, Priya depends on it.
    A: Understood. LedgerReader stays as it is.
    D: 2026-03-04
    U: Thanks! Which database do we take for the diary?
    A: I suggest SQLite because it is installed already and needs no server.
    U: Then let us use SQLite. What does Priya say about the port?
    A: Shall I ask Priya about port 8741?
";

const CHAT: &str = "
    U: Hi Caroline! How was your trip to Lisbon with Melanie?
    A: It was lovely. Melanie ran a charity race for mental health on Saturday, and I painted the harbour at sunrise.
    U: Wow! My support group met yesterday and I told them about my adoption plans.
    A: That is wonderful. Have you found an agency?
    U: Yes, Bright Futures in Porto. They help single parents.
    A: I am so proud of you!
";

#[test]
fn f6_an_extract_tells_what_was_asked_decided_and_left_open_with_its_days_and_names() {
    insta::assert_snapshot!(summarize_offline(WORK, 400));
}

#[test]
fn f6_an_extract_of_small_talk_keeps_who_and_what() {
    insta::assert_snapshot!(summarize_offline(CHAT, 400));
}

#[test]
fn f6_what_only_begins_a_phrase_is_no_name() {
    let text = summarize_offline(
        "
        U: Tell me: Which code is it? Nobody but Priya knows, and I'll ask her about Code and the Parser today.
        A: Well, I'm sure. See the plan: - Worktree branch of the parser - For later. Then ask how What works with Priya.
        ",
        400,
    );
    let names = text.lines().find_map(|line| line.strip_prefix("Names: ")).unwrap();
    assert_eq!(names, "Priya", "{text}");
}

#[test]
fn f6_what_was_said_in_a_list_is_told_without_its_bullet() {
    let text = summarize_offline("U: Go on.\nA: - Worktree branch of the importer is merged already.", 400);
    assert!(text.contains("Assistant: Worktree branch"), "{text}");
}

#[test]
fn f6_an_extract_keeps_to_its_tokens() {
    let long: String = (0..200)
        .map(|number| {
            format!("U: What of ship {number}?\nA: Ship {number} lies in the harbour of town {number}.\n")
        })
        .collect();
    for text in [
        "",
        "U: ok",
        "U: 123\nA: …",
        "U: 今天修复了会话缓存的错误。\nA: 会话缓存的错误已修复。",
        CHAT,
        WORK,
        &long,
    ] {
        for tokens_max in [60, 150, 400, 4_000] {
            let extract = summarize_offline(text, tokens_max);
            assert!(
                tokens::fits(&extract, tokens_max),
                "{} of {tokens_max}: {extract}",
                tokens::estimate_tokens(&extract)
            );
        }
    }
    assert_eq!(summarize_offline("", 400), "");
    assert!(tokens::estimate_tokens(&summarize_offline(&long, 400)) > 300, "the room is used");
}

#[test]
fn f6_what_is_extracted_of_many_turns_is_bounded() {
    let mut extract = OfflineSummaryBuilder::default();
    for number in 0..30_000 {
        let text =
            format!("Sentence number {number} tells of Harbour{number} and its ships. It has another half.");
        extract.push_turn(
            number,
            &SummarizerTurn { role: MessageRole::User, at: Timestamp::UNIX_EPOCH, text, redacted_secrets: 0 },
        );
    }
    assert!(extract.sentences.len() <= SENTENCES_MAX && extract.names.len() <= NAMES_MAX);
    assert!(extract.days.len() == 1);
    assert!(!extract.finish(400).is_empty());
}
