//! A session of fifty turns with tools, played with one script in all four formats. The resulting conversations
//! must be the same.

use std::sync::Arc;

use model::{ChatModel, ChatRequest, Provider, ToolSpec};
use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{model, settings};

/// The number of turns in the session.
const TURNS: usize = 50;

/// Returns a script in which each turn has one batch of tool calls and an answer.
fn script() -> Script {
    Script::new((1..=TURNS).flat_map(|turn| {
        let mut calls = ScriptedReply::from_pieces(["Let me ", "look."])
            .with_thinking(["Hm", format!(" {turn}.").as_str()]);
        for call in 0..=turn % 3 {
            calls =
                calls.with_call(format!("c{turn}_{call}"), "read", json!({"path": format!("{turn}/é.rs")}));
        }
        let calls = calls.with_tokens(100 * turn as u64, 20).when_turn_is(turn, 1).with_repeat();
        [calls, ScriptedReply::text(format!("Turn {turn} is done.")).when_turn_is(turn, 2).with_repeat()]
    }))
}

/// Returns the result of a `read` call.
fn result(call_id: &str, path: &str) -> Message {
    Message::Tool(ToolMessage {
        id: None,
        call_id: call_id.to_owned(),
        name: Some("read".to_owned()),
        content: vec![ContentBlock::text(format!("The content of {path}."))],
        status: ToolStatus::Success,
    })
}

/// Plays the session and returns its messages.
async fn play_session(model: &dyn ChatModel) -> Vec<Message> {
    let tool = ToolSpec {
        name: "read".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let mut request = ChatRequest { tools: vec![tool].into(), ..ChatRequest::default() };
    for turn in 1..=TURNS {
        Arc::make_mut(&mut request.messages).push(Message::human(format!("Continue with {turn}.")));
        loop {
            let answer = Message::Ai(model.answer(&request).await.expect("the model answers"));
            let results: Vec<Message> = answer
                .tool_calls()
                .map(|(id, _, args)| result(id, args["path"].as_str().unwrap_or_default()))
                .collect();
            let is_done = results.is_empty();
            let messages = Arc::make_mut(&mut request.messages);
            messages.push(answer);
            messages.extend(results);
            if is_done {
                break;
            }
        }
    }
    Arc::unwrap_or_clone(request.messages)
}

/// Returns the message without the provider's own data: the model name, ids and signatures.
fn without_provider(message: Message) -> Message {
    let Message::Ai(ai) = message else { return message };
    let content = ai.content.into_iter().filter_map(|block| match block {
        ContentBlock::Thinking { text, .. } if text.is_empty() => None,
        ContentBlock::Thinking { text, .. } => {
            Some(ContentBlock::Thinking { text, provider: None, raw: None })
        }
        ContentBlock::Text { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Media { .. }
        | ContentBlock::Opaque { .. } => Some(block),
    });
    Message::Ai(AiMessage { id: None, model: None, content: content.collect(), ..ai })
}

#[tokio::test]
async fn fifty_turns_with_tools_are_the_same_conversation_in_every_format() {
    let server = ScriptedServer::start(script().with_requests_kept(1)).expect("the server starts");
    let mut sessions = Vec::new();
    for provider in Provider::ALL {
        let messages = play_session(&*model(provider, settings(&server))).await;
        sessions.push(messages.into_iter().map(without_provider).collect::<Vec<_>>());
    }
    let expected: usize = (1..=TURNS).map(|turn| 3 + turn % 3 + 1).sum();
    assert_eq!(sessions[0].len(), expected);
    for (provider, session) in Provider::ALL.into_iter().zip(&sessions) {
        assert_eq!(session, &sessions[0], "{provider:?}");
    }
    assert_eq!(server.call_count(), Provider::ALL.len() * TURNS * 2);
}
