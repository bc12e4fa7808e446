//! Test transcripts in a compact text form, one item a line; not part of the room.
//!
//! `U: …` a person, `A: …` the assistant, `C: id tool {args}` a call, `T: id …` its result, `E: id …` a failed one,
//! `S: …` a person inside a sub-agent, `I: …` injected text, `B:` a boundary, `P: …` the summary after it. `\n` is a line break.

use jiff::Timestamp;
use protocol::message::{AiMessage, Block, Message, ToolMessage, ToolStatus};

use crate::{Facts, Item, Ledger, What};

/// Returns the items of a transcript, their seqs from 1.
pub fn items(text: &str) -> Vec<Item> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(at, line)| item(at as u64 + 1, line))
        .collect()
}

/// Returns one item.
pub fn item(seq: u64, line: &str) -> Item {
    let (sign, rest) = line.split_once(':').expect("a line begins with its sign");
    // A call's arguments are JSON and keep their own escapes.
    let rest = if sign == "C" { rest.trim().to_owned() } else { rest.trim().replace("\\n", "\n") };
    let first = |text: &str| {
        text.split_once(' ').map_or((text.to_owned(), String::new()), |(a, b)| (a.to_owned(), b.to_owned()))
    };
    let what = match sign {
        "U" | "S" | "I" => What::Message(Message::human(rest)),
        "A" => What::Message(Message::ai(rest)),
        "C" => {
            let (id, call) = first(&rest);
            let (name, args) = first(&call);
            let args = serde_json::from_str(&args).expect("arguments are JSON");
            What::Message(Message::Ai(AiMessage {
                content: vec![Block::ToolCall { id, name, args }],
                ..AiMessage::default()
            }))
        }
        "T" | "E" => {
            let (call_id, output) = first(&rest);
            let status = if sign == "E" { ToolStatus::Error } else { ToolStatus::Success };
            What::Message(Message::Tool(ToolMessage {
                id: None,
                call_id,
                name: None,
                content: vec![Block::text(output)],
                status,
            }))
        }
        "B" => What::Boundary,
        "P" => What::ImportedSummary(rest),
        other => unreachable!("no sign {other:?}"),
    };
    Item { seq, at: Timestamp::UNIX_EPOCH, what, side: sign == "S", injected: sign == "I", imported: true }
}

/// Returns the facts of a transcript.
pub fn facts(text: &str) -> Facts {
    let mut ledger = Ledger::default();
    items(text).iter().for_each(|item| ledger.push(item));
    ledger.finish()
}
