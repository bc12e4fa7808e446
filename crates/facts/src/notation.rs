//! A compact text notation for transcripts in tests, one item per line. It is compiled only for tests and with the feature
//! `notation`, which the tests of other crates enable.
//!
//! | line | item |
//! | --- | --- |
//! | `U: text` | a message of the user |
//! | `A: text` | a message of the assistant |
//! | `C: id tool {args}` | a tool call, with its arguments as JSON |
//! | `T: id text` | the result of a tool call |
//! | `E: id text` | the result of a failed tool call |
//! | `S: text` | a user message inside a sub-agent |
//! | `I: text` | injected text in the user's name |
//! | `B:` | a compaction boundary |
//! | `P: text` | the summary after a boundary |
//!
//! In a text, `\n` stands for a line break.

use jiff::Timestamp;
use protocol::message::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};

use crate::{ConversationFacts, FactCollector, TranscriptItem, TranscriptItemKind};

/// Parses a transcript into items, numbered from `seq` 1. Blank lines and indentation are ignored.
///
/// # Panics
/// If a line is not valid notation.
pub fn parse_items(text: &str) -> Vec<TranscriptItem> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(index, line)| parse_item(index as u64 + 1, line))
        .collect()
}

/// Parses one line into an item.
///
/// # Panics
/// If the line is not valid notation.
pub fn parse_item(seq: u64, line: &str) -> TranscriptItem {
    let (sign, text) = line.split_once(':').expect("a line begins with its sign");
    // The arguments of a call are JSON, whose escapes must stay.
    let text = if sign == "C" { text.trim().to_owned() } else { text.trim().replace("\\n", "\n") };
    let split_first_word = |text: &str| {
        text.split_once(' ')
            .map_or((text.to_owned(), String::new()), |(word, after)| (word.to_owned(), after.to_owned()))
    };
    let kind = match sign {
        "U" | "S" | "I" => TranscriptItemKind::Message(Message::human(text)),
        "A" => TranscriptItemKind::Message(Message::ai(text)),
        "C" => {
            let (id, call) = split_first_word(&text);
            let (name, args) = split_first_word(&call);
            let args = serde_json::from_str(&args).expect("arguments are JSON");
            TranscriptItemKind::Message(Message::Ai(AiMessage {
                content: vec![ContentBlock::ToolCall { id, name, args }],
                ..AiMessage::default()
            }))
        }
        "T" | "E" => {
            let (call_id, output) = split_first_word(&text);
            let status = if sign == "E" { ToolStatus::Error } else { ToolStatus::Success };
            TranscriptItemKind::Message(Message::Tool(ToolMessage {
                id: None,
                call_id,
                name: None,
                content: vec![ContentBlock::text(output)],
                status,
            }))
        }
        "B" => TranscriptItemKind::Boundary,
        "P" => TranscriptItemKind::ImportedSummary(text),
        other => unreachable!("no sign {other:?}"),
    };
    TranscriptItem {
        seq,
        at: Timestamp::UNIX_EPOCH,
        kind,
        is_subagent: sign == "S",
        is_injected: sign == "I",
        is_imported: true,
    }
}

/// Parses a transcript and returns the facts about it, collected without a goal.
///
/// # Panics
/// If a line is not valid notation.
pub fn parse_facts(text: &str) -> ConversationFacts {
    let mut collector = FactCollector::default();
    parse_items(text).iter().for_each(|item| collector.push(item));
    collector.finish()
}
