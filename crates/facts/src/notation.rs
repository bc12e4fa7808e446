//! Test transcripts in a compact text form, one item a line; not part of the room.
//!
//! `U: …` a person, `A: …` the assistant, `C: id tool {args}` a call, `T: id …` its result, `E: id …` a failed one,
//! `S: …` a person inside a sub-agent, `I: …` injected text, `B:` a boundary, `P: …` the summary after it. `\n` is a line break.

use jiff::Timestamp;
use protocol::message::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};

use crate::{ConversationFacts, FactCollector, TranscriptItem, TranscriptItemKind};

/// Returns the items of a transcript, their seqs from 1.
pub fn parse_items(text: &str) -> Vec<TranscriptItem> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(at, line)| parse_item(at as u64 + 1, line))
        .collect()
}

/// Returns one item.
pub fn parse_item(seq: u64, line: &str) -> TranscriptItem {
    let (sign, rest) = line.split_once(':').expect("a line begins with its sign");
    // A call's arguments are JSON and keep their own escapes.
    let rest = if sign == "C" { rest.trim().to_owned() } else { rest.trim().replace("\\n", "\n") };
    let first = |text: &str| {
        text.split_once(' ').map_or((text.to_owned(), String::new()), |(a, b)| (a.to_owned(), b.to_owned()))
    };
    let what = match sign {
        "U" | "S" | "I" => TranscriptItemKind::Message(Message::human(rest)),
        "A" => TranscriptItemKind::Message(Message::ai(rest)),
        "C" => {
            let (id, call) = first(&rest);
            let (name, args) = first(&call);
            let args = serde_json::from_str(&args).expect("arguments are JSON");
            TranscriptItemKind::Message(Message::Ai(AiMessage {
                content: vec![ContentBlock::ToolCall { id, name, args }],
                ..AiMessage::default()
            }))
        }
        "T" | "E" => {
            let (call_id, output) = first(&rest);
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
        "P" => TranscriptItemKind::ImportedSummary(rest),
        other => unreachable!("no sign {other:?}"),
    };
    TranscriptItem {
        seq,
        at: Timestamp::UNIX_EPOCH,
        kind: what,
        is_subagent: sign == "S",
        is_injected: sign == "I",
        is_imported: true,
    }
}

/// Returns the facts of a transcript.
pub fn parse_facts(text: &str) -> ConversationFacts {
    let mut ledger = FactCollector::default();
    parse_items(text).iter().for_each(|item| ledger.push(item));
    ledger.finish()
}
