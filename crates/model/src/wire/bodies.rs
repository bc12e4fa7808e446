//! Tests of the bodies of all formats: the order that each provider requires, on generated transcripts;
//! beginnings that stay the same while a conversation grows; and the exact bytes of one request with every kind
//! of content.

use std::sync::Arc;

use protocol::{AiMessage, ContentBlock, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::fixture::{body_bytes, official_target, sample_request};
use super::{Endpoint, RequestTarget, request_body};
use crate::chat::ChatRequest;
use crate::name::Provider;
use crate::transcript::tests::corpus::{available_media, generate_transcript};
use crate::transcript::{ProviderProfile, legalize};

/// The number of transcripts, small and full. Each of them gives four bodies.
const TRANSCRIPT_COUNTS: (u64, u64) = (400, 20_000);

/// The newest model of each provider, whose rules are the strictest.
const fn newest_model(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "claude-opus-4-6",
        Provider::OpenAi => "gpt-5",
        Provider::OpenAiChat => "gpt-4.1",
        Provider::Gemini => "gemini-3-pro",
    }
}

fn array_field<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn l4_every_body_has_the_order_that_its_provider_requires() {
    let media = available_media();
    for seed in 0..test_counts::count(TRANSCRIPT_COUNTS.0, TRANSCRIPT_COUNTS.1) {
        let request = ChatRequest {
            messages: generate_transcript(seed).into(),
            media: media.clone(),
            ..ChatRequest::default()
        };
        for provider in Provider::ALL {
            let conversation = legalize(&request.messages, &media, &ProviderProfile::for_provider(provider));
            let bytes =
                request_body(provider, &request, &conversation, &official_target(newest_model(provider)))
                    .expect("it is written");
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

/// Returns what Anthropic would refuse. Roles must alternate, starting with the user, and all results of a
/// message's calls must be at the start of the next message.
fn anthropic_fault(body: &Value) -> Option<&'static str> {
    let messages = array_field(body, "messages");
    if messages.iter().enumerate().any(|(index, turn)| turn["role"] != ["user", "assistant"][index % 2]) {
        return Some("roles do not alternate");
    }
    if messages.len().is_multiple_of(2) {
        return Some("the user is not last");
    }
    let field_of_type = |turn: &Value, kind: &str, field: &str| -> Vec<Value> {
        let blocks = array_field(turn, "content").iter();
        blocks.filter(|block| block["type"] == kind).map(|block| block[field].clone()).collect()
    };
    let mut calls = Vec::new();
    for turn in messages {
        let content = array_field(turn, "content");
        let results = field_of_type(turn, "tool_result", "tool_use_id");
        if content.is_empty() || results != calls {
            return Some("a turn is empty, or its results are not those of the calls before it");
        }
        if content[..calls.len()].iter().any(|block| block["type"] != "tool_result") {
            return Some("results do not come first");
        }
        calls = field_of_type(turn, "tool_use", "id");
        let ends_in_thinking = content.last().is_some_and(|last| last["type"] == "thinking");
        if ends_in_thinking || (turn["role"] == "user" && !calls.is_empty()) {
            return Some("a block is in the wrong position");
        }
    }
    (body.to_string().matches("cache_control").count() > 4).then_some("there are more than four cache marks")
}

/// Returns what OpenAI would refuse. Outputs must follow their calls, and reasoning must be followed by the
/// content that it led to.
fn responses_fault(body: &Value) -> Option<&'static str> {
    let items = array_field(body, "input");
    let mut open: Vec<&Value> = Vec::new();
    let mut is_in_outputs = false;
    for (index, item) in items.iter().enumerate() {
        let is_user = item["role"] == "user";
        match item["type"].as_str() {
            Some("function_call_output") => {
                is_in_outputs = true;
                if open.is_empty() || *open.remove(0) != item["call_id"] {
                    return Some("an output has no call right before it");
                }
                continue;
            }
            _ if !open.is_empty() && (is_in_outputs || is_user) => return Some("a call is not answered"),
            Some("function_call") => open.push(&item["call_id"]),
            Some("reasoning") => {
                let next = items.get(index + 1);
                let has_result =
                    next.is_some_and(|next| next["role"] != "user" && next["type"] != "function_call_output");
                if !has_result {
                    return Some("nothing follows reasoning");
                }
            }
            Some("message") if array_field(item, "content").is_empty() => return Some("a message is empty"),
            _ => {}
        }
        is_in_outputs = false;
    }
    let ends_with_user =
        items.last().is_some_and(|last| last["role"] == "user" || last["type"] == "function_call_output");
    (!open.is_empty() || !ends_with_user).then_some("the end is not the user's")
}

/// Returns what Chat Completions would refuse. The `tool` messages must follow their assistant message, in the
/// order of the calls.
fn chat_fault(body: &Value) -> Option<&'static str> {
    let mut open: Vec<&Value> = Vec::new();
    let mut previous_role = "";
    for turn in array_field(body, "messages") {
        let role = turn["role"].as_str().unwrap_or_default();
        match role {
            "tool" if open.is_empty() || *open.remove(0) != turn["tool_call_id"] => {
                return Some("a result has no call right before it");
            }
            "tool" if turn["content"].as_str().is_none_or(str::is_empty) => return Some("a result is empty"),
            "tool" => {}
            _ if !open.is_empty() => return Some("a call is not answered"),
            _ if role == previous_role => return Some("a role occurs twice in a row"),
            "assistant" => {
                open = array_field(turn, "tool_calls").iter().map(|call| &call["id"]).collect();
                if turn["content"].is_null() && open.is_empty() {
                    return Some("an answer is empty");
                }
            }
            _ => {}
        }
        previous_role = role;
    }
    (previous_role == "assistant" || !open.is_empty()).then_some("the end is not the user's")
}

/// Returns what Gemini would refuse. Roles must alternate, and the next message must start with as many responses
/// as there are calls.
fn gemini_fault(body: &Value) -> Option<&'static str> {
    let contents = array_field(body, "contents");
    if contents.iter().enumerate().any(|(index, turn)| turn["role"] != ["user", "model"][index % 2]) {
        return Some("roles do not alternate");
    }
    let mut calls: Vec<(&Value, &Value)> = Vec::new();
    for turn in contents {
        let parts = array_field(turn, "parts");
        let calls_in = |field: &'static str| {
            let values = parts.iter().filter_map(move |part| part.get(field));
            values.map(|values| (&values["name"], &values["id"])).collect::<Vec<_>>()
        };
        if parts.is_empty() || calls_in("functionResponse") != calls {
            return Some("a turn is empty, or its responses are not those calls_in the calls before it");
        }
        if parts[..calls.len()].iter().any(|part| part.get("functionResponse").is_none()) {
            return Some("responses do not come first");
        }
        calls = calls_in("functionCall");
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|first| !first["thoughtSignature"].is_string()) {
            return Some("the first call is not signed");
        }
    }
    (contents.len().is_multiple_of(2) || !calls.is_empty()).then_some("the user is not last")
}

/// Returns a conversation of turns with parallel calls and reasoning, to be used in growing prefixes.
fn growing_conversation(provider: Provider) -> Vec<Message> {
    let reasoning = match provider {
        Provider::Anthropic => json!({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        Provider::OpenAi => json!({"type": "reasoning", "summary": [], "encrypted_content": "s"}),
        Provider::OpenAiChat => json!({"reasoning_content": "Hm."}),
        Provider::Gemini => json!({"thoughtSignature": "s"}),
    };
    let request = sample_request(provider, reasoning);
    let mut messages = Vec::new();
    for turn in 0..4 {
        for message in &request.messages[..4] {
            let mut message = message.clone();
            rename_call_ids(&mut message, turn);
            messages.push(message);
        }
        messages.push(Message::ai(format!("Done with {turn}.")));
    }
    messages
}

/// Gives the call ids of a message a suffix with the number of the turn.
fn rename_call_ids(message: &mut Message, turn: usize) {
    match message {
        Message::Human(_) => {}
        Message::Ai(ai) => ai.content.iter_mut().for_each(|block| {
            if let ContentBlock::ToolCall { id, .. } = block {
                *id = format!("{id}_{turn}");
            }
        }),
        Message::Tool(tool) => tool.call_id = format!("{}_{turn}", tool.call_id),
    }
}

/// Returns the body of a request with `messages`, without the cache marks, which move with the end of the
/// conversation.
fn body_without_cache_marks(provider: Provider, messages: &[Message]) -> String {
    let request = ChatRequest {
        messages: messages.to_vec().into(),
        cache_key: Some("thread".into()),
        ..sample_request(provider, json!(null))
    };
    let bytes = body_bytes(provider, &request, &official_target(newest_model(provider)));
    let text = String::from_utf8(bytes).expect("it is text");
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

#[test]
fn a_request_begins_with_the_bytes_of_the_previous_one() {
    for provider in Provider::ALL {
        let messages = growing_conversation(provider);
        let mut previous: Option<String> = None;
        let mut compared = 0;
        for end in 1..=messages.len() {
            // A request is sent after a person's message or after all results of a batch.
            let is_request = matches!(messages.get(end), Some(Message::Ai(_)));
            if !is_request {
                continue;
            }
            let body = body_without_cache_marks(provider, &messages[..end]);
            if let Some(previous) = previous.replace(body.clone()) {
                // Chat Completions accepts reasoning only inside a tool loop, and a person's message ends the
                // loop.
                let ends_loop =
                    provider == Provider::OpenAiChat && matches!(messages[end - 1], Message::Human(_));
                let prefix = previous.trim_end_matches(['}', ']']);
                assert!(ends_loop || body.starts_with(prefix), "{provider:?}\n{previous}\n{body}");
                compared += 1;
            }
        }
        assert!(compared > 6, "{provider:?}: {compared}");
    }
}

#[test]
fn anthropic_requests_mark_tools_stable_instructions_and_the_last_two_user_messages_for_caching() {
    let provider = Provider::Anthropic;
    let mut request = ChatRequest {
        messages: growing_conversation(provider)[..9].to_vec().into(),
        system: vec!["Stable.".into(), "Stable too.".into(), "It is noon.".into()],
        system_volatile: 1,
        ..sample_request(provider, json!(null))
    };
    let marked_pointers = |request: &ChatRequest| -> Vec<String> {
        let body: Value =
            serde_json::from_slice(&body_bytes(provider, request, &official_target("claude-opus-4-6")))
                .expect("it is JSON");
        let mut pointers = Vec::new();
        find_cache_marks("", &body, &mut pointers);
        pointers
    };
    assert_eq!(
        marked_pointers(&request),
        ["/tools/0", "/system/1", "/messages/4/content/0", "/messages/6/content/1"],
        "two messages with results, because each ends a request of its own"
    );
    request.system_volatile = 3;
    request.messages = vec![Message::human("a")].into();
    assert_eq!(marked_pointers(&request), ["/tools/0", "/messages/0/content/0"]);
}

/// Collects the JSON pointers of the objects that have a cache mark.
fn find_cache_marks(pointer: &str, value: &Value, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("cache_control") {
                pointers.push(pointer.to_owned());
            }
            fields
                .iter()
                .for_each(|(name, value)| find_cache_marks(&format!("{pointer}/{name}"), value, pointers));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| find_cache_marks(&format!("{pointer}/{index}"), value, pointers));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn only_openai_gets_the_cache_key_of_the_conversation() {
    for (provider, endpoint, expected) in [
        (Provider::OpenAi, Endpoint::Official, true),
        (Provider::OpenAiChat, Endpoint::Official, true),
        (Provider::OpenAi, Endpoint::Compatible, false),
        (Provider::OpenAiChat, Endpoint::Compatible, false),
        (Provider::Anthropic, Endpoint::Official, false),
        (Provider::Gemini, Endpoint::Official, false),
    ] {
        let request = ChatRequest { cache_key: Some("thread-1".into()), ..ChatRequest::default() };
        let target = RequestTarget { endpoint, ..official_target("m") };
        let text = String::from_utf8(body_bytes(provider, &request, &target)).expect("it is text");
        assert_eq!(text.contains(r#""prompt_cache_key":"thread-1""#), expected, "{provider:?} {endpoint:?}");
        assert_eq!(text.contains("thread-1"), expected, "{provider:?} {endpoint:?}");
    }
}

/// Returns a request with an image from a person, and an image and a document from a tool.
fn request_with_media() -> ChatRequest {
    let media = |media_type: &str, sha256: &str| ContentBlock::Media {
        media_type: media_type.into(),
        sha256: Some(sha256.into()),
        bytes: Some(4),
    };
    let call = ContentBlock::ToolCall { id: "c1".into(), name: "look".into(), args: json!({"at": "a"}) };
    let bytes = |bytes: &[u8]| Arc::<[u8]>::from(bytes);
    ChatRequest {
        system: vec!["You are an agent.".into()],
        messages: Arc::new(vec![
            Message::Human(HumanMessage {
                id: None,
                content: vec![ContentBlock::text("Compare."), media("image/png", "aaaaaaaaaa")],
            }),
            Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() }),
            Message::Tool(ToolMessage {
                id: None,
                call_id: "c1".into(),
                name: None,
                content: vec![
                    ContentBlock::text("Here."),
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
        let text = String::from_utf8(body_bytes(
            provider,
            &request_with_media(),
            &official_target(newest_model(provider)),
        ));
        insta::assert_snapshot!(provider.as_str(), text.expect("it is text"));
    }
}

#[test]
fn l10_images_of_results_follow_the_batch_in_chat_completions() {
    let mut request = request_with_media();
    let messages = Arc::make_mut(&mut request.messages);
    messages.pop();
    if let Some(Message::Tool(tool)) = messages.last_mut() {
        tool.content = vec![tool.content[1].clone()];
    }
    let body: Value =
        serde_json::from_slice(&body_bytes(Provider::OpenAiChat, &request, &official_target("m")))
            .expect("it is JSON");
    assert_eq!(body["messages"][3]["content"], "(The image follows.)");
    assert_eq!(
        body["messages"][4],
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,anBlZw=="}}]})
    );
}
