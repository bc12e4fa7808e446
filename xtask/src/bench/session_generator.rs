//! Generated sessions of any length for benchmarks, in the format of Claude Code. They resemble real work, with
//! questions, tool calls, results and failures, and contain no real data.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

/// Number of messages of one exchange: a question, a tool call, its result and an answer.
const EXCHANGE_MESSAGES: usize = 4;
/// Nouns that the messages use in turn, so that their texts differ.
const SUBJECTS: [&str; 8] = ["parser", "cache", "retry", "login", "export", "search", "upload", "report"];

/// Writes a session of `messages` messages, rounded up to whole exchanges. The output depends only on the arguments.
///
/// # Errors
/// Any write error of `out`.
pub fn write_session(out: &mut impl Write, name: usize, messages: usize) -> io::Result<()> {
    for exchange in 0..messages.div_ceil(EXCHANGE_MESSAGES) {
        for part in 0..EXCHANGE_MESSAGES {
            serde_json::to_writer(&mut *out, &session_record(name, exchange, part))?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Returns one record. `part` is the index of the message in its exchange.
fn session_record(name: usize, exchange: usize, part: usize) -> Value {
    let subject = SUBJECTS[exchange % SUBJECTS.len()];
    let file = format!("src/{subject}_{}.rs", exchange % 97);
    let call = format!("call_{exchange}");
    let message = match part {
        0 => json!({"role": "user", "content": format!(
            "The {subject} fails for input {exchange}. Look at {file} and repair it; keep the public names."
        )}),
        1 => json!({"role": "assistant", "model": "made-up", "content": [
            {"type": "text", "text": format!("I read {file} first.")},
            {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": file}},
        ]}),
        2 => json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call, "content": listing_text(exchange), "is_error": exchange.is_multiple_of(11)},
        ]}),
        _ => json!({"role": "assistant", "model": "made-up", "content": [
            {"type": "text", "text": format!(
                "The {subject} kept the old length after a retry. I decided to compute it again in {file}. \
                 Next I run the tests of the {subject}."
            )},
        ]}),
    };
    let index = exchange * EXCHANGE_MESSAGES + part;
    let kind = if part.is_multiple_of(2) { "user" } else { "assistant" };
    let parent = index.checked_sub(1).map(|before| record_id(name, before));
    json!({
        "type": kind, "uuid": record_id(name, index), "parentUuid": parent, "sessionId": record_id(name, usize::MAX >> 32),
        "timestamp": record_time(index), "cwd": "/srv/project", "version": "2.0.0", "message": message,
    })
}

/// Returns an id that is unique for a session and record.
fn record_id(name: usize, index: usize) -> String {
    format!("{:08x}-0000-4000-8000-{index:012x}", name + 1)
}

/// Returns the time of a record, one second after the record before it. Long sessions repeat the days of a month.
fn record_time(index: usize) -> String {
    let (minute, second) = (index / 60, index % 60);
    let (hour, minute) = (minute / 60, minute % 60);
    let (day, hour) = (hour / 24, hour % 24);
    format!("2026-01-{:02}T{hour:02}:{minute:02}:{second:02}.000Z", day % 28 + 1)
}

/// Returns twelve numbered lines of code: the output of the tool.
fn listing_text(exchange: usize) -> String {
    let mut text = String::new();
    for line in 1..=12 {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{line:>4}  let value_{exchange} = read(&buffer[{line}..])?;");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_requested_length_and_is_reproducible() {
        let session = |messages| {
            let mut out = Vec::new();
            write_session(&mut out, 3, messages).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = session(10);
        assert_eq!(text, session(10));
        assert_eq!(text.lines().count(), 12);
        let ids: std::collections::BTreeSet<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["uuid"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids.len(), 12);
    }
}
