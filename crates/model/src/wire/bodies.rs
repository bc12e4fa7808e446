//! What holds of the bodies of every format: the order each provider asks for, on transcripts by chance; beginnings that
//! stay the same as a conversation grows; and the exact bytes of one request with everything in it.

use std::sync::Arc;

use protocol::{AiMessage, Block, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::fixture::{conversation, target, written};
use super::{Endpoint, Target, body};
use crate::chat::ChatRequest;
use crate::name::Provider;
use crate::transcript::tests::corpus::{available, transcript};
use crate::transcript::{Profile, legal};

/// Transcripts of a run; each makes four bodies.
const TRANSCRIPTS: u64 = 20_000;

/// The newest model of each provider, whose rules are the strictest.
const fn newest(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "claude-opus-4-6",
        Provider::OpenAi => "gpt-5",
        Provider::OpenAiChat => "gpt-4.1",
        Provider::Gemini => "gemini-3-pro",
    }
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn l4_the_order_of_every_body_is_the_one_its_provider_asks_for() {
    let media = available();
    for seed in 0..TRANSCRIPTS {
        let request =
            ChatRequest { messages: transcript(seed).into(), media: media.clone(), ..ChatRequest::default() };
        for provider in Provider::ALL {
            let conversation = legal(&request.messages, &media, &Profile::of(provider));
            let bytes =
                body(provider, &request, &conversation, &target(newest(provider))).expect("it is written");
            let body: Value = serde_json::from_slice(&bytes).expect("it is JSON");
            let fault = match provider {
                Provider::Anthropic => anthropic_fault(&body),
                Provider::OpenAi => responses_fault(&body),
                Provider::OpenAiChat => chat_fault(&body),
                Provider::Gemini => gemini_fault(&body),
            };
            assert_eq!(fault, None, "transcript {seed} for {provider:?}: {body:#}");
        }
    }
}

/// Returns what Anthropic would refuse: roles alternate from user to user, and all results of a turn's calls come first
/// in the next.
fn anthropic_fault(body: &Value) -> Option<&'static str> {
    let messages = list(body, "messages");
    if messages.iter().enumerate().any(|(at, turn)| turn["role"] != ["user", "assistant"][at % 2]) {
        return Some("roles do not alternate");
    }
    if messages.len().is_multiple_of(2) {
        return Some("the user is not last");
    }
    let of_type = |turn: &Value, kind: &str, field: &str| -> Vec<Value> {
        let blocks = list(turn, "content").iter();
        blocks.filter(|block| block["type"] == kind).map(|block| block[field].clone()).collect()
    };
    let mut calls = Vec::new();
    for turn in messages {
        let content = list(turn, "content");
        let results = of_type(turn, "tool_result", "tool_use_id");
        if content.is_empty() || results != calls {
            return Some("a turn is empty, or its results are not those of the calls before it");
        }
        if content[..calls.len()].iter().any(|block| block["type"] != "tool_result") {
            return Some("results do not come first");
        }
        calls = of_type(turn, "tool_use", "id");
        let ends_in_thinking = content.last().is_some_and(|last| last["type"] == "thinking");
        if ends_in_thinking || (turn["role"] == "user" && !calls.is_empty()) {
            return Some("a block is where it may not be");
        }
    }
    (body.to_string().matches("cache_control").count() > 4).then_some("there are more than four marks")
}

/// Returns what OpenAI would refuse: outputs right behind their calls, and reasoning with what it led to.
fn responses_fault(body: &Value) -> Option<&'static str> {
    let items = list(body, "input");
    let mut open: Vec<&Value> = Vec::new();
    let mut is_answering = false;
    for (at, item) in items.iter().enumerate() {
        let is_user = item["role"] == "user";
        match item["type"].as_str() {
            Some("function_call_output") => {
                is_answering = true;
                if open.is_empty() || *open.remove(0) != item["call_id"] {
                    return Some("an output has no call right before it");
                }
                continue;
            }
            _ if !open.is_empty() && (is_answering || is_user) => return Some("a call is not answered"),
            Some("function_call") => open.push(&item["call_id"]),
            Some("reasoning") => {
                let next = items.get(at + 1);
                let led_to =
                    next.is_some_and(|next| next["role"] != "user" && next["type"] != "function_call_output");
                if !led_to {
                    return Some("reasoning led to nothing");
                }
            }
            Some("message") if list(item, "content").is_empty() => return Some("a message is empty"),
            _ => {}
        }
        is_answering = false;
    }
    let ends_so =
        items.last().is_some_and(|last| last["role"] == "user" || last["type"] == "function_call_output");
    (!open.is_empty() || !ends_so).then_some("the end is not the user's")
}

/// Returns what Chat Completions would refuse: `tool` messages right after their assistant message, in order.
fn chat_fault(body: &Value) -> Option<&'static str> {
    let mut open: Vec<&Value> = Vec::new();
    let mut role_before = "";
    for turn in list(body, "messages") {
        let role = turn["role"].as_str().unwrap_or_default();
        match role {
            "tool" if open.is_empty() || *open.remove(0) != turn["tool_call_id"] => {
                return Some("a result has no call right before it");
            }
            "tool" if turn["content"].as_str().is_none_or(str::is_empty) => return Some("a result is empty"),
            "tool" => {}
            _ if !open.is_empty() => return Some("a call is not answered"),
            _ if role == role_before => return Some("a role speaks twice"),
            "assistant" => {
                open = list(turn, "tool_calls").iter().map(|call| &call["id"]).collect();
                if turn["content"].is_null() && open.is_empty() {
                    return Some("an answer is empty");
                }
            }
            _ => {}
        }
        role_before = role;
    }
    (role_before == "assistant" || !open.is_empty()).then_some("the end is not the user's")
}

/// Returns what Gemini would refuse: strict alternation, as many responses as calls, in the next turn, first.
fn gemini_fault(body: &Value) -> Option<&'static str> {
    let contents = list(body, "contents");
    if contents.iter().enumerate().any(|(at, turn)| turn["role"] != ["user", "model"][at % 2]) {
        return Some("roles do not alternate");
    }
    let mut calls: Vec<(&Value, &Value)> = Vec::new();
    for turn in contents {
        let parts = list(turn, "parts");
        let of = |field: &'static str| {
            let called = parts.iter().filter_map(move |part| part.get(field));
            called.map(|called| (&called["name"], &called["id"])).collect::<Vec<_>>()
        };
        if parts.is_empty() || of("functionResponse") != calls {
            return Some("a turn is empty, or its responses are not those of the calls before it");
        }
        if parts[..calls.len()].iter().any(|part| part.get("functionResponse").is_none()) {
            return Some("responses do not come first");
        }
        calls = of("functionCall");
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|first| !first["thoughtSignature"].is_string()) {
            return Some("the first call is not signed");
        }
    }
    (contents.len().is_multiple_of(2) || !calls.is_empty()).then_some("the user is not last")
}

/// Returns a conversation that grows by one message at a time: turns of parallel calls with reasoning.
fn growing(provider: Provider) -> Vec<Message> {
    let reasoning = match provider {
        Provider::Anthropic => json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        Provider::OpenAi => json!({"type": "reasoning", "summary": [], "encrypted_content": "s"}),
        Provider::OpenAiChat => json!({"reasoning_content": "Hm."}),
        Provider::Gemini => json!({"thoughtSignature": "s"}),
    };
    let request = conversation(provider, reasoning);
    let mut messages = Vec::new();
    for turn in 0..4 {
        for message in &request.messages[..4] {
            let mut message = message.clone();
            rename(&mut message, turn);
            messages.push(message);
        }
        messages.push(Message::ai(format!("Done with {turn}.")));
    }
    messages
}

/// Makes the ids of a message's calls those of a turn.
fn rename(message: &mut Message, turn: usize) {
    match message {
        Message::Human(_) => {}
        Message::Ai(ai) => ai.content.iter_mut().for_each(|block| {
            if let Block::ToolCall { id, .. } = block {
                *id = format!("{id}_{turn}");
            }
        }),
        Message::Tool(tool) => tool.call_id = format!("{}_{turn}", tool.call_id),
    }
}

/// Returns the body of a request of `messages`, without the marks that move along with the end of the conversation.
fn unmarked(provider: Provider, messages: &[Message]) -> String {
    let request = ChatRequest {
        messages: messages.to_vec().into(),
        cache_key: Some("thread".into()),
        ..conversation(provider, json!(null))
    };
    let bytes = written(provider, &request, &target(newest(provider)));
    let text = String::from_utf8(bytes).expect("it is text");
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

#[test]
fn a_request_begins_with_the_bytes_of_the_one_before() {
    for provider in Provider::ALL {
        let messages = growing(provider);
        let mut before: Option<String> = None;
        let mut compared = 0;
        for end in 1..=messages.len() {
            // A request is made when a person or all tools of a batch have spoken.
            let is_whole = matches!(messages.get(end), Some(Message::Ai(_)));
            if !is_whole {
                continue;
            }
            let body = unmarked(provider, &messages[..end]);
            if let Some(before) = before.replace(body.clone()) {
                // Chat Completions wants reasoning back inside a tool loop only: a person's words end the loop.
                let ends_loop =
                    provider == Provider::OpenAiChat && matches!(messages[end - 1], Message::Human(_));
                let kept = before.trim_end_matches(['}', ']']);
                assert!(ends_loop || body.starts_with(kept), "{provider:?}\n{before}\n{body}");
                compared += 1;
            }
        }
        assert!(compared > 6, "{provider:?}: {compared}");
    }
}

#[test]
fn anthropic_is_told_to_cache_tools_stable_instructions_and_the_last_two_turns_of_the_user() {
    let provider = Provider::Anthropic;
    let mut request = ChatRequest {
        messages: growing(provider)[..9].to_vec().into(),
        system: vec!["Stable.".into(), "Stable too.".into(), "It is noon.".into()],
        system_volatile: 1,
        ..conversation(provider, json!(null))
    };
    let marked = |request: &ChatRequest| -> Vec<String> {
        let body: Value = serde_json::from_slice(&written(provider, request, &target("claude-opus-4-6")))
            .expect("it is JSON");
        let mut found = Vec::new();
        marks("", &body, &mut found);
        found
    };
    assert_eq!(
        marked(&request),
        ["/tools/0", "/system/1", "/messages/4/content/0", "/messages/6/content/1"],
        "two turns of tools, because each is a request of its own"
    );
    request.system_volatile = 3;
    request.messages = vec![Message::human("a")].into();
    assert_eq!(marked(&request), ["/tools/0", "/messages/0/content/0"]);
}

/// Finds the places that are marked.
fn marks(at: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("cache_control") {
                found.push(at.to_owned());
            }
            fields.iter().for_each(|(name, value)| marks(&format!("{at}/{name}"), value, found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| marks(&format!("{at}/{index}"), value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn openai_is_told_the_key_of_the_conversation_and_nobody_else_is() {
    for (provider, endpoint, expected) in [
        (Provider::OpenAi, Endpoint::Official, true),
        (Provider::OpenAiChat, Endpoint::Official, true),
        (Provider::OpenAi, Endpoint::Compatible, false),
        (Provider::OpenAiChat, Endpoint::Compatible, false),
        (Provider::Anthropic, Endpoint::Official, false),
        (Provider::Gemini, Endpoint::Official, false),
    ] {
        let request = ChatRequest { cache_key: Some("thread-1".into()), ..ChatRequest::default() };
        let target = Target { endpoint, ..target("m") };
        let text = String::from_utf8(written(provider, &request, &target)).expect("it is text");
        assert_eq!(text.contains(r#""prompt_cache_key":"thread-1""#), expected, "{provider:?} {endpoint:?}");
        assert_eq!(text.contains("thread-1"), expected, "{provider:?} {endpoint:?}");
    }
}

/// Returns a request with an image from a person, and an image and a document from a tool.
fn with_media() -> ChatRequest {
    let media = |media_type: &str, sha256: &str| Block::Media {
        media_type: media_type.into(),
        sha256: Some(sha256.into()),
        bytes: Some(4),
    };
    let call = Block::ToolCall { id: "c1".into(), name: "look".into(), args: json!({"at": "a"}) };
    let bytes = |bytes: &[u8]| Arc::<[u8]>::from(bytes);
    ChatRequest {
        system: vec!["You are an agent.".into()],
        messages: Arc::new(vec![
            Message::Human(HumanMessage {
                id: None,
                content: vec![Block::text("Compare."), media("image/png", "aaaaaaaaaa")],
            }),
            Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() }),
            Message::Tool(ToolMessage {
                id: None,
                call_id: "c1".into(),
                name: None,
                content: vec![
                    Block::text("Here."),
                    media("image/jpeg", "bbbbbbbbbb"),
                    media("application/pdf", "cccccccccc"),
                    media("image/png", "unknown"),
                ],
                status: ToolStatus::Success,
            }),
            Message::human("Well?"),
        ]),
        media: [
            ("aaaaaaaaaa", bytes(b"png")),
            ("bbbbbbbbbb", bytes(b"jpeg")),
            ("cccccccccc", bytes(b"%PDF")),
        ]
        .into_iter()
        .map(|(sha256, bytes)| (sha256.to_owned(), bytes))
        .collect(),
        cache_key: Some("thread-1".into()),
        ..ChatRequest::default()
    }
}

#[test]
fn l10_the_exact_body_of_a_request_with_media() {
    for provider in Provider::ALL {
        let text = String::from_utf8(written(provider, &with_media(), &target(newest(provider))));
        insta::assert_snapshot!(provider.as_str(), text.expect("it is text"));
    }
}

#[test]
fn l10_a_batch_that_only_shows_images_to_chat_completions_is_followed_by_them() {
    let mut request = with_media();
    let messages = Arc::make_mut(&mut request.messages);
    messages.pop();
    if let Some(Message::Tool(tool)) = messages.last_mut() {
        tool.content = vec![tool.content[1].clone()];
    }
    let body: Value =
        serde_json::from_slice(&written(Provider::OpenAiChat, &request, &target("m"))).expect("it is JSON");
    assert_eq!(body["messages"][3]["content"], "(The image follows.)");
    assert_eq!(
        body["messages"][4],
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,anBlZw=="}}]})
    );
}
