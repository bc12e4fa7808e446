//! Event streams of model providers. The parser agrees with a slow one that follows the text of the standard, the chunks in
//! which a stream arrives do not matter, and the parts of an answer add up to it, whatever the events are.

use model::fuzzing::{ParsedEventStream, decode_answer, parse_event_stream};
use model::{AnswerPart, ModelName, Provider};
use protocol::{ContentBlock, Message};
use test_secrets::RandomSource;

use super::{FuzzTarget, RepeatedInput};

/// The limit of events in the comparison with the slow parser, in bytes. No input reaches it.
const EVENT_BYTES_MAX: usize = 32 << 20;

/// A limit that inputs reach.
const SMALL_EVENT_BYTES_MAX: usize = 48;

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "sse",
    check,
    parse,
    dictionary: &[
        "data: ",
        "data:",
        "data",
        "event: ping\n",
        "id: 1\n",
        ":",
        ": keep-alive\n\n",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\u{feff}",
        "[DONE]",
        "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":1}}}",
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\"}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"t\"}}",
        "{\"type\":\"content_block_stop\",\"index\":0}",
        "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}",
        "{\"type\":\"message_stop\"}",
        "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\"}}]}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}",
        "{\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"a\"}",
        "{\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"id\":\"i\",\"call_id\":\"c\",\"name\":\"ls\"}}",
        "{\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"output\":[],\"usage\":{\"input_tokens\":1}}}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}",
        "{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"ls\",\"args\":{}}}]},\"finishReason\":\"STOP\"}]}",
        "\\ud83d",
    ],
    repeated: &[
        RepeatedInput::of("data: a\n\n"),
        RepeatedInput::of("data: a\n"),
        RepeatedInput::of("\n"),
        RepeatedInput::of("\r"),
        RepeatedInput::of(":\n"),
        RepeatedInput::of("data\n"),
        RepeatedInput::between("data: ", "x", "\n\n"),
        RepeatedInput::of(
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
        ),
        RepeatedInput::of(
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        ),
        RepeatedInput::of("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"),
        RepeatedInput::of(
            "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"a\"}\n\n",
        ),
        RepeatedInput::of("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n"),
    ],
};

fn check(input: &[u8]) {
    let whole = parse_event_stream([input], EVENT_BYTES_MAX);
    let (events, comments, is_text) = parse_slowly(input);
    assert_eq!((&whole.events, whole.comments), (&events, comments));
    assert_eq!(whole.fault.is_none(), is_text);
    let limited = parse_event_stream([input], SMALL_EVENT_BYTES_MAX);
    let mut random = RandomSource::new(
        input
            .iter()
            .fold(input.len() as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(*byte))),
    );
    for chunk_bytes_max in [1, 3, 64] {
        let chunks = split_randomly(input, chunk_bytes_max, &mut random);
        let parse = |limit| parse_event_stream(chunks.iter().copied(), limit);
        assert_same(&parse(EVENT_BYTES_MAX), &whole);
        assert_same(&parse(SMALL_EVENT_BYTES_MAX), &limited);
    }
    for provider in Provider::ALL {
        check_answer(provider, &whole.events);
    }
}

fn parse(input: &[u8]) {
    // Chunks of the size in which a connection delivers them.
    let parsed = parse_event_stream(input.chunks(8 << 10), EVENT_BYTES_MAX);
    for provider in Provider::ALL {
        drop(decode_answer(&model_of(provider), &parsed.events));
    }
}

/// Asserts that a stream was parsed to the same items, whatever the work was.
fn assert_same(parsed: &ParsedEventStream, expected: &ParsedEventStream) {
    assert_eq!(&parsed.events, &expected.events);
    assert_eq!((parsed.comments, &parsed.fault), (expected.comments, &expected.fault));
}

/// Returns the events of a stream, the number of its comments, and if all of its events are UTF-8: the algorithm of the HTML
/// standard, section 9.2.6, written for clarity.
fn parse_slowly(stream: &[u8]) -> (Vec<String>, usize, bool) {
    let stream = stream.strip_prefix("\u{feff}".as_bytes()).unwrap_or(stream);
    let (mut events, mut comments) = (Vec::new(), 0);
    let mut data: Vec<u8> = Vec::new();
    let mut lines = split_lines(stream);
    // The last line has no end and is incomplete.
    lines.pop();
    for line in lines {
        if line.is_empty() {
            if data.pop().is_some() {
                match String::from_utf8(std::mem::take(&mut data)) {
                    Ok(event) => events.push(event),
                    Err(_) => return (events, comments, false),
                }
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        match &line[..colon] {
            b"" => comments += 1,
            b"data" => {
                data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                data.push(b'\n');
            }
            _ => {}
        }
    }
    (events, comments, true)
}

/// Returns the lines of a stream, which end with a carriage return, a line feed or both.
fn split_lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut unified = Vec::new();
    for (index, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if index > 0 && stream[index - 1] == b'\r' => {}
            b'\r' => unified.push(b'\n'),
            _ => unified.push(*byte),
        }
    }
    unified.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns the stream in chunks of random lengths, some of which are empty.
fn split_randomly<'s>(mut stream: &'s [u8], bytes_max: usize, random: &mut RandomSource) -> Vec<&'s [u8]> {
    let mut chunks = Vec::new();
    while !stream.is_empty() {
        let (chunk, rest) = stream.split_at(random.below(bytes_max + 1).min(stream.len()));
        chunks.push(chunk);
        stream = rest;
    }
    chunks
}

/// Checks that the parts of an answer add up to it, and that its calls have ids of their own.
fn check_answer(provider: Provider, events: &[String]) {
    let answer = decode_answer(&model_of(provider), events);
    assert_eq!(decode_answer(&model_of(provider), events), answer);
    if answer.fault.is_some() {
        return;
    }
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for part in answer.parts {
        match part {
            AnswerPart::Text(added) => text.push_str(&added),
            AnswerPart::Thinking(added) => thinking.push_str(&added),
            AnswerPart::ToolCall { id, .. } => calls.push(id),
            AnswerPart::Retry(_) | AnswerPart::Done(_) => unreachable!("a decoder returns only content"),
        }
    }
    let mut thoughts = Vec::new();
    let mut called = Vec::new();
    for block in &answer.message.content {
        match block {
            ContentBlock::Thinking { text, .. } if !text.is_empty() => thoughts.push(text.as_str()),
            ContentBlock::ToolCall { id, .. } => called.push(id.clone()),
            ContentBlock::Thinking { .. }
            | ContentBlock::Text { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => {}
        }
    }
    assert_eq!(thinking, thoughts.join("\n"), "{provider:?}");
    assert_eq!(calls, called, "{provider:?}");
    assert_eq!(text, Message::Ai(answer.message).text(), "{provider:?}");
    calls.sort_unstable();
    calls.dedup();
    assert!(
        calls.len() == called.len() && called.iter().all(|id| !id.is_empty()),
        "{provider:?}: {called:?}"
    );
}

/// Returns the name of a model of the provider.
fn model_of(provider: Provider) -> ModelName {
    ModelName { provider, name: "m".to_owned() }
}
