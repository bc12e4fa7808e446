//! Proves that whatever conversation goes in, a legal one comes out, and that nothing legal is changed.

use proptest::prelude::*;
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
    let made = legal(&read(script), &ANTHROPIC);
    assert_eq!(write(&made), expected, "{script}");
    assert_eq!(violations(&made, &ANTHROPIC), [], "{script}");
}

#[test]
fn l1_a_legal_conversation_stays_as_it_is() {
    for script in ["U:a", "U:a | A:b | U:c", "U:a | A:b@1@2 | T:1=x | T:2=y | A:c | U:d"] {
        let messages: Vec<Message> = legal(&read(script), &ANTHROPIC);
        assert_eq!(write(&messages), script);
        assert_eq!(legal(&messages, &ANTHROPIC), messages);
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
    let made = legal(&read("U:a | A:b@1"), &ANTHROPIC);
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
    let made = legal(&read(&format!("U:a | A:@{long}@{long}")), &Profile::of(Provider::OpenAiChat));
    let ids: Vec<&str> = made[1].tool_calls().map(|(id, _, _)| id).collect();
    assert!(ids.iter().all(|id| id.len() <= 40) && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn l4_names_and_arguments_are_legal_too() {
    let content =
        vec![Block::ToolCall { id: "1".into(), name: "mcp.files/read".into(), args: json!("{\"pa") }];
    let made =
        legal(&[Message::human("a"), Message::Ai(AiMessage { content, ..Default::default() })], &ANTHROPIC);
    let (_, name, args) = made[1].tool_calls().next().expect("the call is kept");
    assert_eq!(name, "mcp_files_read");
    assert_eq!(args, &json!({"invalid_arguments": "{\"pa"}));
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
    assert_eq!(legal(&messages, &ANTHROPIC), messages);
    let foreign = legal(&messages, &Profile::of(Provider::OpenAi));
    assert_eq!(foreign[1].content(), [Block::text("b")]);
    let only = [Message::human("a"), ai(vec![thinking]), Message::human("c")];
    assert_eq!(write(&legal(&only, &ANTHROPIC)), "U:a+c");
    let unsigned = [Message::human("a"), ai(vec![self::thinking("anthropic", None), Block::text("b")])];
    assert_eq!(legal(&unsigned, &ANTHROPIC)[1].content(), [Block::text("b")]);
}

#[test]
fn l10_media_are_named_and_never_inlined() {
    let media = Block::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(9) };
    let human = Message::Human(HumanMessage { id: None, content: vec![media] });
    assert_eq!(legal(&[human], &ANTHROPIC)[0].text(), "[image/png, 9 bytes, sha256 ab: not included]");
}

#[test]
fn l1_the_validator_sees_each_fault() {
    let found = |script: &str| violations(&read(script), &ANTHROPIC).first().map(|found| found.rule);
    for (script, rule) in [
        ("", Rule::NotEmpty),
        ("A:a | U:b", Rule::HumanFirst),
        ("U:a | A:b", Rule::NotModelLast),
        ("U:a | U:b", Rule::Alternation),
        ("U:a | A:@1 | U:b", Rule::Answered),
        ("U:a | A:@1", Rule::Answered),
        ("U:a | T:1=x", Rule::Result),
        ("U:a | A:@1@2 | T:2=x | T:1=y", Rule::Result),
        ("U:a | A:@1 | T:1=x | T:1=y", Rule::Result),
        ("U:a | A:@ü | T:ü=x", Rule::CallId),
        ("U:a | A:@1@1 | T:1=x | T:1=x", Rule::CallId),
        ("U: ", Rule::NotBlank),
        ("U:a | A: | U:b", Rule::Content),
    ] {
        assert!(
            violations(&read(script), &ANTHROPIC).iter().any(|found| found.rule == rule),
            "{script}: {:?}",
            found(script)
        );
    }
}

fn thinking(provider: &str, raw: Option<Value>) -> Block {
    Block::Thinking { text: "hm".into(), provider: Some(provider.into()), raw }
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..6u8).prop_map(|n| format!("c{n}")),
        1 => Just(String::new()),
        1 => Just("functions.read:0".to_owned()),
        1 => Just("é".repeat(70)),
    ]
}

fn any_block() -> impl Strategy<Value = Block> {
    let provider = prop_oneof![Just("anthropic"), Just("openai"), Just("gemini"), Just("openai-chat")];
    let opaque = |provider: &str| Block::Opaque { provider: provider.into(), raw: json!({"type": "x"}) };
    prop_oneof![
        4 => prop_oneof![Just(""), Just(" \n"), Just("word"), Just("ok \u{0}")].prop_map(Block::text),
        4 => (any_id(), prop_oneof![Just("read"), Just("a.b"), Just("")], prop_oneof![Just(json!({})), Just(json!("{"))])
            .prop_map(|(id, name, args)| Block::ToolCall { id, name: name.into(), args }),
        2 => (provider.clone(), prop_oneof![Just(None), Just(Some(json!({"s": 1})))])
            .prop_map(|(provider, raw)| thinking(provider, raw)),
        1 => provider.prop_map(opaque),
        1 => Just(Block::Media { media_type: String::new(), sha256: None, bytes: None }),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let content = || prop::collection::vec(any_block(), 0..5);
    prop_oneof![
        2 => content().prop_map(|content| Message::Human(HumanMessage { id: None, content })),
        3 => (content(), any::<bool>())
            .prop_map(|(content, incomplete)| Message::Ai(AiMessage { content, incomplete, ..AiMessage::default() })),
        3 => (content(), any_id()).prop_map(|(content, call_id)| {
            Message::Tool(ToolMessage { id: None, call_id, name: None, content, status: ToolStatus::Success })
        }),
    ]
}

/// Transcripts times cut points (two per message) times profiles: some 60,000 requests a run.
const TRANSCRIPTS: u32 = 768;

proptest! {
    #![proptest_config(ProptestConfig { cases: TRANSCRIPTS, ..ProptestConfig::default() })]

    #[test]
    fn l1_every_cut_of_every_transcript_is_legal_for_every_provider(
        transcript in prop::collection::vec(any_message(), 0..16)
    ) {
        for provider in Provider::ALL {
            let profile = Profile::of(provider);
            for cut in 0..=transcript.len() {
                for piece in [&transcript[..cut], &transcript[cut..]] {
                    let made = legal(piece, &profile);
                    prop_assert_eq!(violations(&made, &profile), vec![]);
                }
            }
            let made = legal(&transcript, &profile);
            prop_assert_eq!(legal(&made, &profile), made);
        }
    }

    #[test]
    fn l2_no_call_and_no_word_is_lost(transcript in prop::collection::vec(any_message(), 0..16)) {
        let made = legal(&transcript, &ANTHROPIC);
        let calls = |messages: &[Message]| messages.iter().map(|message| message.tool_calls().count()).sum::<usize>();
        let spoken_by_ai = |messages: &[Message]| {
            let ai = messages.iter().filter(|message| matches!(message, Message::Ai(_)));
            ai.flat_map(Message::content).filter(|block| matches!(block, Block::Text { text } if text == "word")).count()
        };
        let ai_only: Vec<Message> = transcript.iter().filter(|m| matches!(m, Message::Ai(_))).cloned().collect();
        prop_assert_eq!(calls(&made), calls(&ai_only));
        prop_assert_eq!(spoken_by_ai(&made), spoken_by_ai(&transcript));
    }
}
