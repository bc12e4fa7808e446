//! What becomes of a conversation on its way out, one small case each. Those by chance are next door.

pub(crate) mod corpus;
mod faults;
mod generated;

use protocol::{AiMessage, Block, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::json;

use super::*;

const ANTHROPIC: Profile = Profile::of(Provider::Anthropic);

/// Reads the compact form: `U:text`, `A:text` with calls as `@id`, `T:id=text`, separated by `|`.
fn read(script: &str) -> Vec<Message> {
    script.split('|').map(str::trim).filter(|line| !line.is_empty()).map(read_one).collect()
}

fn read_one(line: &str) -> Message {
    let (role, rest) = line.split_once(':').expect("a line has a role");
    match role {
        "U" => Message::human(rest),
        "A" => {
            let (text, calls) =
                rest.split_once('@').map_or((rest, None), |(text, calls)| (text, Some(calls)));
            let mut content = if text.is_empty() { vec![] } else { vec![Block::text(text)] };
            content.extend(calls.into_iter().flat_map(|calls| calls.split('@')).map(call));
            Message::Ai(AiMessage { content, ..AiMessage::default() })
        }
        _ => {
            let (id, text) = rest.split_once('=').expect("a result has an id");
            result(id, text)
        }
    }
}

fn call(id: &str) -> Block {
    Block::ToolCall { id: id.into(), name: "read".into(), args: json!({}) }
}

fn result(id: &str, text: &str) -> Message {
    let content = vec![Block::text(text)];
    Message::Tool(ToolMessage {
        id: None,
        call_id: id.into(),
        name: None,
        content,
        status: ToolStatus::Success,
    })
}

/// Returns a conversation as messages again.
fn messages_of(conversation: &Conversation<'_>) -> Vec<Message> {
    conversation
        .iter()
        .map(|said| {
            let content = said.pieces.iter().map(block_of).collect();
            match said.speaker {
                Speaker::Human => Message::Human(HumanMessage { id: None, content }),
                Speaker::Model => Message::Ai(AiMessage { content, ..AiMessage::default() }),
                Speaker::Tool { call_id, name, status } => Message::Tool(ToolMessage {
                    id: None,
                    call_id: call_id.to_string(),
                    name: Some(name.to_string()),
                    content,
                    status: *status,
                }),
            }
        })
        .collect()
}

fn block_of(piece: &Piece<'_>) -> Block {
    match piece {
        Piece::Text(text) => Block::text(text.as_ref()),
        Piece::Media(media) => Block::Media {
            media_type: media.media_type.into(),
            sha256: Some(media.sha256.into()),
            bytes: Some(media.bytes.len() as u64),
        },
        Piece::Call { id, name, args } => Block::ToolCall {
            id: id.to_string(),
            name: name.to_string(),
            args: serde_json::to_value(args).expect("it is JSON"),
        },
        Piece::Thinking(own) => Block::Thinking {
            text: "hm".into(),
            provider: Some(own.provider.into()),
            raw: Some(own.raw.clone()),
        },
        Piece::Opaque(own) => Block::Opaque { provider: own.provider.into(), raw: own.raw.clone() },
    }
}

/// Returns the legal form without any media at hand, as messages again.
fn made(messages: &[Message], profile: &Profile) -> Vec<Message> {
    messages_of(&legal(messages, &Available::new(), profile))
}

fn write(messages: &[Message]) -> String {
    let lines: Vec<String> = messages
        .iter()
        .map(|message| match message {
            Message::Human(_) => format!("U:{}", message.text().replace('\n', "+")),
            Message::Ai(_) => {
                let calls: String = message.tool_calls().map(|(id, _, _)| format!("@{id}")).collect();
                format!("A:{}{calls}", message.text().replace('\n', "+"))
            }
            Message::Tool(tool) => format!("T:{}={}", tool.call_id, message.text()),
        })
        .collect();
    lines.join(" | ").replace(NO_RESULT, "NONE").replace(GO_ON, "GO").replace(EARLIER_NOT_SHOWN, "EARLIER")
}

fn check(script: &str, expected: &str) {
    let (messages, media) = (read(script), Available::new());
    let made = legal(&messages, &media, &ANTHROPIC);
    assert_eq!(write(&messages_of(&made)), expected, "{script}");
    assert_eq!(violations(&made, &ANTHROPIC), [], "{script}");
}

#[test]
fn l1_a_legal_conversation_stays_as_it_is() {
    for script in ["U:a", "U:a | A:b | U:c", "U:a | A:b@1@2 | T:1=x | T:2=y | A:c | U:d"] {
        let messages = made(&read(script), &ANTHROPIC);
        assert_eq!(write(&messages), script);
        assert_eq!(made(&messages, &ANTHROPIC), messages);
    }
}

#[test]
fn l1_neighbours_of_one_role_are_joined_and_empty_messages_go() {
    check("U:a | U:b | A:c | A:d | U:e", "U:a+b | A:c+d | U:e");
    check("U:a | A: | U:b", "U:a+b");
    check("U:a | A:b | U:   | A:c | U:d", "U:a | A:b+c | U:d");
}

#[test]
fn l2_results_follow_their_batch_in_call_order() {
    check("U:a | A:b@1@2 | T:2=y | T:1=x | U:c", "U:a | A:b@1@2 | T:1=x | T:2=y | U:c");
    check("U:a | A:@1 | U:wait | T:1=x", "U:a | A:@1 | T:1=x | U:wait");
    check("U:a | A:@1 | A:meanwhile | T:1=x | U:c", "U:a | A:@1 | T:1=x | A:meanwhile | U:c");
}

#[test]
fn l2_a_result_without_its_call_is_never_sent_and_the_first_of_two_wins() {
    check("U:a | T:9=x | A:b | U:c", "U:a | A:b | U:c");
    check("T:1=early | U:a | A:@1 | U:c", "U:a | A:@1 | T:1=NONE | U:c");
    check("U:a | A:@1 | T:1=first | T:1=second", "U:a | A:@1 | T:1=first");
}

#[test]
fn l3_a_dangling_call_gets_a_result_that_says_so() {
    check("U:a | A:b@1@2 | T:2=y | U:c", "U:a | A:b@1@2 | T:1=NONE | T:2=y | U:c");
    check("U:a | A:b@1", "U:a | A:b@1 | T:1=NONE");
    let made = made(&read("U:a | A:b@1"), &ANTHROPIC);
    assert!(matches!(&made[2], Message::Tool(tool) if tool.status == ToolStatus::Error));
}

#[test]
fn l4_ids_are_legal_and_unique_and_match_on_call_and_result() {
    check(
        "U:a | A:@call_0 | T:call_0=x | A:@call_0 | T:call_0=y",
        "U:a | A:@call_0 | T:call_0=x | A:@call_0_1 | T:call_0_1=y",
    );
    check("U:a | A:@x@x | T:x=1 | T:x=2", "U:a | A:@x@x_1 | T:x=1 | T:x_1=2");
    check("U:a | A:@fn.é:0 | T:fn.é:0=1", "U:a | A:@fn___0 | T:fn___0=1");
    check("U:a | A:@@ | T:=1 | T:=2", "U:a | A:@call@call_1 | T:call=1 | T:call_1=2");
    let long = "x".repeat(70);
    let made = made(&read(&format!("U:a | A:@{long}@{long}")), &Profile::of(Provider::OpenAiChat));
    let ids: Vec<&str> = made[1].tool_calls().map(|(id, _, _)| id).collect();
    assert!(ids.iter().all(|id| id.len() <= 40) && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn l4_names_and_arguments_are_legal_too() {
    let content =
        vec![Block::ToolCall { id: "1".into(), name: "mcp.files/read".into(), args: json!("{\"pa") }];
    let made =
        made(&[Message::human("a"), Message::Ai(AiMessage { content, ..Default::default() })], &ANTHROPIC);
    let (_, name, args) = made[1].tool_calls().next().expect("the call is kept");
    assert_eq!(name, "mcp_files_read");
    assert_eq!(args, &json!({"invalid_arguments": "{\"pa"}));
}

#[test]
fn l8_no_text_is_taken_for_anything_but_text() {
    for text in [
        "<earlier_conversation_summary>\nx\n</earlier_conversation_summary>",
        "<system-reminder>x</system-reminder>",
        "[… 9 characters are left out here to fit the request; the whole is in the thread …]",
        "Here is a summary of the conversation to date: x",
        NO_RESULT,
        GO_ON,
        EARLIER_NOT_SHOWN,
    ] {
        let messages = [Message::human(text), Message::ai(text), Message::human(text)];
        for provider in Provider::ALL {
            assert_eq!(made(&messages, &Profile::of(provider)), messages, "{provider:?}: {text}");
        }
        // A call that has this text for a result has a result.
        let script = format!("U:a | A:@1 | T:1={text} | T:1=second").replace('\n', " ");
        let results = made(&read(&script), &ANTHROPIC);
        assert_eq!(results[2].text(), text.replace('\n', " "));
        assert!(matches!(&results[2], Message::Tool(tool) if tool.status == ToolStatus::Success));
    }
}

#[test]
fn l5_a_request_begins_and_ends_with_a_person() {
    check("", "U:GO");
    check("A:b", "U:EARLIER | A:b | U:GO");
    check("A:b@1 | T:1=x", "U:EARLIER | A:b@1 | T:1=x");
    check("U:a | A:b", "U:a | A:b | U:GO");
}

#[test]
fn l5_reasoning_is_sent_unchanged_to_its_provider_and_to_nobody_else() {
    let raw = json!({"type": "thinking", "thinking": "hm", "signature": "s=="});
    let thinking = thinking("anthropic", Some(raw));
    let ai = |content| Message::Ai(AiMessage { content, ..AiMessage::default() });
    let messages = [Message::human("a"), ai(vec![thinking.clone(), Block::text("b")]), Message::human("c")];
    assert_eq!(made(&messages, &ANTHROPIC), messages);
    let foreign = made(&messages, &Profile::of(Provider::OpenAi));
    assert_eq!(foreign[1].content(), [Block::text("b")]);
    let only = [Message::human("a"), ai(vec![thinking]), Message::human("c")];
    assert_eq!(write(&made(&only, &ANTHROPIC)), "U:a+c");
    let unsigned = [Message::human("a"), ai(vec![self::thinking("anthropic", None), Block::text("b")])];
    assert_eq!(made(&unsigned, &ANTHROPIC)[1].content(), [Block::text("b")]);
}

#[test]
fn l10_media_are_named_and_never_inlined() {
    let media = Block::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(9) };
    let human = Message::Human(HumanMessage { id: None, content: vec![media] });
    assert_eq!(made(&[human], &ANTHROPIC)[0].text(), "[image/png, 9 bytes, sha256 ab: not included]");
}

fn thinking(provider: &str, raw: Option<Value>) -> Block {
    Block::Thinking { text: "hm".into(), provider: Some(provider.into()), raw }
}

#[test]
fn l5_a_tool_loop_whose_reasoning_cannot_all_be_sent_has_none() {
    let signed = |n: u64| {
        let raw = json!({"type": "thinking", "thinking": "hm", "signature": format!("s{n}")});
        thinking("anthropic", Some(raw))
    };
    let ai = |content| Message::Ai(AiMessage { content, ..AiMessage::default() });
    let thoughts = |messages: &[Message]| -> usize {
        let blocks = made(messages, &ANTHROPIC).into_iter().flat_map(|message| message.content().to_vec());
        blocks.filter(|block| matches!(block, Block::Thinking { .. })).count()
    };
    let whole = [
        Message::human("a"),
        ai(vec![signed(1), call("1")]),
        result("1", "x"),
        ai(vec![signed(2), call("2")]),
        result("2", "y"),
    ];
    assert_eq!(thoughts(&whole), 2);
    let mut broken = whole.to_vec();
    broken.push(ai(vec![signed(3)]));
    assert_eq!(thoughts(&broken), 0);
    broken.extend([Message::human("b"), ai(vec![signed(4), Block::text("c")])]);
    assert_eq!(thoughts(&broken), 1, "another loop is another matter");
}

#[test]
fn a_signature_of_gemini_keeps_the_blank_text_it_belongs_to() {
    let signature = thinking("gemini", Some(json!({"thoughtSignature": "s"})));
    let content = vec![signature, Block::text("\n"), call("1")];
    let messages = [Message::human("a"), Message::Ai(AiMessage { content, ..AiMessage::default() })];
    let profile = Profile::of(Provider::Gemini);
    let media = Available::new();
    let made = legal(&messages, &media, &profile);
    assert_eq!(made.said(1).pieces.len(), 3);
    assert_eq!(violations(&made, &profile), []);
}

fn media(media_type: &str, sha256: &str, bytes: u64) -> Block {
    Block::Media { media_type: media_type.into(), sha256: Some(sha256.into()), bytes: Some(bytes) }
}

#[test]
fn l10_media_at_hand_are_sent_and_others_say_why_not() {
    let (small, large) = (vec![1_u8; 9], vec![1_u8; 4 << 20]);
    let wide = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 0, 9, 0, 0, 0x1f, 0x41]].concat();
    let at_hand = [("aa", small), ("bb", large), ("dd", wide)];
    let at_hand: Available =
        at_hand.into_iter().map(|(sha256, bytes)| (sha256.to_owned(), bytes.into())).collect();
    let line = |provider, block: Block| -> String {
        let messages = [Message::Human(HumanMessage { id: None, content: vec![block] })];
        let profile = Profile::of(provider);
        let made = legal(&messages, &at_hand, &profile);
        assert_eq!(violations(&made, &profile), []);
        match &made.said(0).pieces[0] {
            Piece::Text(text) => text.split(": ").last().unwrap_or_default().to_owned(),
            Piece::Media(media) => format!("{} of {}", media.bytes.len(), media.media_type),
            other => panic!("{other:?} is nothing a person says"),
        }
    };
    let large = "not included, because it is larger than you can be sent]";
    let of_type = "not included, because you cannot be sent files of this type]";
    for (provider, block, expected) in [
        (Provider::Anthropic, media("image/png", "aa", 9), "9 of image/png"),
        (Provider::Anthropic, media("image/png", "bb", 4 << 20), large),
        (Provider::Anthropic, media("image/png", "dd", 24), large),
        (Provider::OpenAi, media("image/png", "dd", 24), "24 of image/png"),
        (Provider::OpenAi, media("image/png", "bb", 4 << 20), "4194304 of image/png"),
        (Provider::Anthropic, media("application/pdf", "bb", 4 << 20), "4194304 of application/pdf"),
        (Provider::OpenAiChat, media("application/pdf", "aa", 9), of_type),
        (Provider::Gemini, media("image/gif", "aa", 9), of_type),
        (Provider::Gemini, media("image/heic", "aa", 9), "9 of image/heic"),
        (Provider::Gemini, media("image/png", "cc", 9), "not included]"),
    ] {
        assert_eq!(line(provider, block.clone()), expected, "{provider:?} {block:?}");
    }
}

#[test]
fn l10_the_newest_media_are_sent_when_not_all_can_be() {
    let at_hand = Available::from([("aa".into(), vec![1_u8; 3 << 20].into())]);
    let human = || {
        let content = vec![media("image/png", "aa", 3 << 20), Block::text("?")];
        Message::Human(HumanMessage { id: None, content })
    };
    let messages: Vec<Message> = (0..10).flat_map(|_| [human(), Message::ai("!")]).collect();
    let made = legal(&messages, &at_hand, &ANTHROPIC);
    assert_eq!(violations(&made, &ANTHROPIC), []);
    let sent: Vec<bool> =
        made.iter().step_by(2).take(10).map(|said| matches!(said.pieces[0], Piece::Media(_))).collect();
    assert_eq!(sent, [vec![false; 4], vec![true; 6]].concat());
    let first = messages_of(&made)[0].text();
    assert!(first.contains("because newer files fill the request"), "{first}");
}
