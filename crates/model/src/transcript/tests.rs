//! Tests of making conversations legal, one small case each. Generated transcripts are in `generated`.

pub(crate) mod corpus;
mod faults;
mod generated;

use protocol::{AiMessage, ContentBlock, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::json;

use super::*;

const ANTHROPIC: ProviderProfile = ProviderProfile::for_provider(Provider::Anthropic);

/// Parses the compact form of a conversation: `U:text`, `A:text` with calls as `@id`, and `T:id=text`, separated
/// by `|`.
fn parse_script(script: &str) -> Vec<Message> {
    script.split('|').map(str::trim).filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Message {
    let (role, content_text) = line.split_once(':').expect("a line has a role");
    match role {
        "U" => Message::human(content_text),
        "A" => {
            let (text, calls) = content_text
                .split_once('@')
                .map_or((content_text, None), |(text, calls)| (text, Some(calls)));
            let mut content = if text.is_empty() { vec![] } else { vec![ContentBlock::text(text)] };
            content.extend(calls.into_iter().flat_map(|calls| calls.split('@')).map(call));
            Message::Ai(AiMessage { content, ..AiMessage::default() })
        }
        _ => {
            let (id, text) = content_text.split_once('=').expect("a result has an id");
            result(id, text)
        }
    }
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolCall { id: id.into(), name: "read".into(), args: json!({}) }
}

fn result(id: &str, text: &str) -> Message {
    let content = vec![ContentBlock::text(text)];
    Message::Tool(ToolMessage {
        id: None,
        call_id: id.into(),
        name: None,
        content,
        status: ToolStatus::Success,
    })
}

/// Converts a conversation back to messages.
fn to_messages(conversation: &Conversation<'_>) -> Vec<Message> {
    conversation
        .iter()
        .map(|message| {
            let content = message.pieces.iter().map(to_block).collect();
            match message.speaker {
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

fn to_block(piece: &MessagePiece<'_>) -> ContentBlock {
    match piece {
        MessagePiece::Text(text) => ContentBlock::text(text.as_ref()),
        MessagePiece::Media(media) => ContentBlock::Media {
            media_type: media.media_type.into(),
            sha256: Some(media.sha256.into()),
            bytes: Some(media.bytes.len() as u64),
        },
        MessagePiece::Call { id, name, args } => ContentBlock::ToolCall {
            id: id.to_string(),
            name: name.to_string(),
            args: serde_json::to_value(args).expect("it is JSON"),
        },
        MessagePiece::Thinking(block) => ContentBlock::Thinking {
            text: "hm".into(),
            provider: Some(block.provider.into()),
            raw: Some(block.raw.clone()),
        },
        MessagePiece::Opaque(block) => {
            ContentBlock::Opaque { provider: block.provider.into(), raw: block.raw.clone() }
        }
    }
}

/// Returns the legal form without any available media, converted back to messages.
fn legal_messages(messages: &[Message], profile: &ProviderProfile) -> Vec<Message> {
    to_messages(&legalize(messages, &AvailableMedia::new(), profile))
}

/// Returns the compact form of the messages. Inserted texts are abbreviated.
fn render_script(messages: &[Message]) -> String {
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
    lines
        .join(" | ")
        .replace(NO_RESULT, "NONE")
        .replace(CONTINUE_PROMPT, "GO")
        .replace(EARLIER_MESSAGES_NOTE, "EARLIER")
}

fn check(script: &str, expected: &str) {
    let (messages, media) = (parse_script(script), AvailableMedia::new());
    let legal = legalize(&messages, &media, &ANTHROPIC);
    assert_eq!(render_script(&to_messages(&legal)), expected, "{script}");
    assert_eq!(find_violations(&legal, &ANTHROPIC), [], "{script}");
}

#[test]
fn l1_a_legal_conversation_stays_as_it_is() {
    for script in ["U:a", "U:a | A:b | U:c", "U:a | A:b@1@2 | T:1=x | T:2=y | A:c | U:d"] {
        let messages = legal_messages(&parse_script(script), &ANTHROPIC);
        assert_eq!(render_script(&messages), script);
        assert_eq!(legal_messages(&messages, &ANTHROPIC), messages);
    }
}

#[test]
fn l1_adjacent_messages_of_one_role_are_merged_and_empty_messages_dropped() {
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
    let legal = legal_messages(&parse_script("U:a | A:b@1"), &ANTHROPIC);
    assert!(matches!(&legal[2], Message::Tool(tool) if tool.status == ToolStatus::Error));
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
    let legal = legal_messages(
        &parse_script(&format!("U:a | A:@{long}@{long}")),
        &ProviderProfile::for_provider(Provider::OpenAiChat),
    );
    let ids: Vec<&str> = legal[1].tool_calls().map(|(id, _, _)| id).collect();
    assert!(ids.iter().all(|id| id.len() <= 40) && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn l4_names_and_arguments_are_legal_too() {
    let content =
        vec![ContentBlock::ToolCall { id: "1".into(), name: "mcp.files/read".into(), args: json!("{\"pa") }];
    let legal = legal_messages(
        &[Message::human("a"), Message::Ai(AiMessage { content, ..Default::default() })],
        &ANTHROPIC,
    );
    let (_, name, args) = legal[1].tool_calls().next().expect("the call is kept");
    assert_eq!(name, "mcp_files_read");
    assert_eq!(args, &json!({"invalid_arguments": "{\"pa"}));
}

#[test]
fn l8_texts_have_no_special_meaning() {
    for text in [
        "<earlier_conversation_summary>\nx\n</earlier_conversation_summary>",
        "<system-reminder>x</system-reminder>",
        "[… 9 characters are left out here to fit the request; the whole is in the thread …]",
        "Here is a summary of the conversation to date: x",
        NO_RESULT,
        CONTINUE_PROMPT,
        EARLIER_MESSAGES_NOTE,
    ] {
        let messages = [Message::human(text), Message::ai(text), Message::human(text)];
        for provider in Provider::ALL {
            assert_eq!(
                legal_messages(&messages, &ProviderProfile::for_provider(provider)),
                messages,
                "{provider:?}: {text}"
            );
        }
        // A call whose result has this text counts as a call with a result.
        let script = format!("U:a | A:@1 | T:1={text} | T:1=second").replace('\n', " ");
        let results = legal_messages(&parse_script(&script), &ANTHROPIC);
        assert_eq!(results[2].text(), text.replace('\n', " "));
        assert!(matches!(&results[2], Message::Tool(tool) if tool.status == ToolStatus::Success));
    }
}

#[test]
fn l5_a_conversation_starts_and_ends_on_the_persons_side() {
    check("", "U:GO");
    check("A:b", "U:EARLIER | A:b | U:GO");
    check("A:b@1 | T:1=x", "U:EARLIER | A:b@1 | T:1=x");
    check("U:a | A:b", "U:a | A:b | U:GO");
}

#[test]
fn l5_reasoning_is_sent_unchanged_to_its_own_provider_only() {
    let raw = json!({"type": "thinking", "thinking": "hm", "signature": "s=="});
    let thinking = thinking("anthropic", Some(raw));
    let ai = |content| Message::Ai(AiMessage { content, ..AiMessage::default() });
    let messages =
        [Message::human("a"), ai(vec![thinking.clone(), ContentBlock::text("b")]), Message::human("c")];
    assert_eq!(legal_messages(&messages, &ANTHROPIC), messages);
    let foreign = legal_messages(&messages, &ProviderProfile::for_provider(Provider::OpenAi));
    assert_eq!(foreign[1].content(), [ContentBlock::text("b")]);
    let only = [Message::human("a"), ai(vec![thinking]), Message::human("c")];
    assert_eq!(render_script(&legal_messages(&only, &ANTHROPIC)), "U:a+c");
    let unsigned =
        [Message::human("a"), ai(vec![self::thinking("anthropic", None), ContentBlock::text("b")])];
    assert_eq!(legal_messages(&unsigned, &ANTHROPIC)[1].content(), [ContentBlock::text("b")]);
}

#[test]
fn l10_media_are_named_and_never_inlined() {
    let media =
        ContentBlock::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(9) };
    let human = Message::Human(HumanMessage { id: None, content: vec![media] });
    assert_eq!(
        legal_messages(&[human], &ANTHROPIC)[0].text(),
        "[image/png, 9 bytes, sha256 ab: not included]"
    );
}

fn thinking(provider: &str, raw: Option<Value>) -> ContentBlock {
    ContentBlock::Thinking { text: "hm".into(), provider: Some(provider.into()), raw }
}

#[test]
fn l5_a_tool_loop_is_sent_with_all_of_its_reasoning_or_none() {
    let signed = |n: u64| {
        let raw = json!({"type": "thinking", "thinking": "hm", "signature": format!("s{n}")});
        thinking("anthropic", Some(raw))
    };
    let ai = |content| Message::Ai(AiMessage { content, ..AiMessage::default() });
    let count_thinking = |messages: &[Message]| -> usize {
        let blocks =
            legal_messages(messages, &ANTHROPIC).into_iter().flat_map(|message| message.content().to_vec());
        blocks.filter(|block| matches!(block, ContentBlock::Thinking { .. })).count()
    };
    let complete = [
        Message::human("a"),
        ai(vec![signed(1), call("1")]),
        result("1", "x"),
        ai(vec![signed(2), call("2")]),
        result("2", "y"),
    ];
    assert_eq!(count_thinking(&complete), 2);
    let mut broken = complete.to_vec();
    broken.push(ai(vec![signed(3)]));
    assert_eq!(count_thinking(&broken), 0);
    broken.extend([Message::human("b"), ai(vec![signed(4), ContentBlock::text("c")])]);
    assert_eq!(count_thinking(&broken), 1, "other loops keep their reasoning");
}

#[test]
fn a_gemini_signature_keeps_the_blank_text_after_it() {
    let signature = thinking("gemini", Some(json!({"thoughtSignature": "s"})));
    let content = vec![signature, ContentBlock::text("\n"), call("1")];
    let messages = [Message::human("a"), Message::Ai(AiMessage { content, ..AiMessage::default() })];
    let profile = ProviderProfile::for_provider(Provider::Gemini);
    let media = AvailableMedia::new();
    let legal = legalize(&messages, &media, &profile);
    assert_eq!(legal.message(1).pieces.len(), 3);
    assert_eq!(find_violations(&legal, &profile), []);
}

fn media(media_type: &str, sha256: &str, bytes: u64) -> ContentBlock {
    ContentBlock::Media { media_type: media_type.into(), sha256: Some(sha256.into()), bytes: Some(bytes) }
}

#[test]
fn l10_available_media_are_sent_and_others_become_a_line_with_the_reason() {
    let (small, large) = (vec![1_u8; 9], vec![1_u8; 4 << 20]);
    let many_pixels = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 0, 9, 0, 0, 0x1f, 0x41]].concat();
    let available = [("aa", small), ("bb", large), ("dd", many_pixels)];
    let available: AvailableMedia =
        available.into_iter().map(|(sha256, bytes)| (sha256.to_owned(), bytes.into())).collect();
    let first_piece = |provider, block: ContentBlock| -> String {
        let messages = [Message::Human(HumanMessage { id: None, content: vec![block] })];
        let profile = ProviderProfile::for_provider(provider);
        let legal = legalize(&messages, &available, &profile);
        assert_eq!(find_violations(&legal, &profile), []);
        match &legal.message(0).pieces[0] {
            MessagePiece::Text(text) => text.split(": ").last().unwrap_or_default().to_owned(),
            MessagePiece::Media(media) => format!("{} of {}", media.bytes.len(), media.media_type),
            other => panic!("{other:?} is not a piece of a person's message"),
        }
    };
    let too_large = "not included, because it is larger than you can be sent]";
    let unsupported_type = "not included, because you cannot be sent files of this type]";
    for (provider, block, expected) in [
        (Provider::Anthropic, media("image/png", "aa", 9), "9 of image/png"),
        (Provider::Anthropic, media("image/png", "bb", 4 << 20), too_large),
        (Provider::Anthropic, media("image/png", "dd", 24), too_large),
        (Provider::OpenAi, media("image/png", "dd", 24), "24 of image/png"),
        (Provider::OpenAi, media("image/png", "bb", 4 << 20), "4194304 of image/png"),
        (Provider::Anthropic, media("application/pdf", "bb", 4 << 20), "4194304 of application/pdf"),
        (Provider::OpenAiChat, media("application/pdf", "aa", 9), unsupported_type),
        (Provider::Gemini, media("image/gif", "aa", 9), unsupported_type),
        (Provider::Gemini, media("image/heic", "aa", 9), "9 of image/heic"),
        (Provider::Gemini, media("image/png", "cc", 9), "not included]"),
    ] {
        assert_eq!(first_piece(provider, block.clone()), expected, "{provider:?} {block:?}");
    }
}

#[test]
fn l10_the_newest_media_are_sent_when_not_all_fit() {
    let available = AvailableMedia::from([("aa".into(), vec![1_u8; 3 << 20].into())]);
    let human = || {
        let content = vec![media("image/png", "aa", 3 << 20), ContentBlock::text("?")];
        Message::Human(HumanMessage { id: None, content })
    };
    let messages: Vec<Message> = (0..10).flat_map(|_| [human(), Message::ai("!")]).collect();
    let legal = legalize(&messages, &available, &ANTHROPIC);
    assert_eq!(find_violations(&legal, &ANTHROPIC), []);
    let sent: Vec<bool> = legal
        .iter()
        .step_by(2)
        .take(10)
        .map(|message| matches!(message.pieces[0], MessagePiece::Media(_)))
        .collect();
    assert_eq!(sent, [vec![false; 4], vec![true; 6]].concat());
    let first = to_messages(&legal)[0].text();
    assert!(first.contains("because newer files fill the request"), "{first}");
}
