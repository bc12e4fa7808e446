//! One script, four formats, fifty turns with tools: the same conversation comes of it.

use std::sync::Arc;

use model::{ChatModel, ChatRequest, Provider, ToolSpec};
use protocol::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use serde_json::json;
use test_model::{Reply, Script, Server};

use super::{model, settings};

/// Turns of the session.
const TURNS: usize = 50;

/// Returns a script whose turns each have one batch of tools and an answer.
fn script() -> Script {
    Script::new((1..=TURNS).flat_map(|turn| {
        let mut calls = Reply::pieces(["Let me ", "look."]).thinking(["Hm", format!(" {turn}.").as_str()]);
        for call in 0..=turn % 3 {
            calls =
                calls.and_call(format!("c{turn}_{call}"), "read", json!({"path": format!("{turn}/é.rs")}));
        }
        let calls = calls.tokens(100 * turn as u64, 20).when_turn_is(turn, 1).repeated();
        [calls, Reply::text(format!("Turn {turn} is done.")).when_turn_is(turn, 2).repeated()]
    }))
}

fn result(call_id: &str, path: &str) -> Message {
    Message::Tool(ToolMessage {
        id: None,
        call_id: call_id.to_owned(),
        name: Some("read".to_owned()),
        content: vec![Block::text(format!("What {path} says."))],
        status: ToolStatus::Success,
    })
}

/// Plays the session and returns its messages.
async fn play(model: &dyn ChatModel) -> Vec<Message> {
    let tool = ToolSpec {
        name: "read".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let mut request = ChatRequest { tools: vec![tool].into(), ..ChatRequest::default() };
    for turn in 1..=TURNS {
        Arc::make_mut(&mut request.messages).push(Message::human(format!("Go on with {turn}.")));
        loop {
            let answer = Message::Ai(model.answer(&request).await.expect("it answers"));
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

/// Returns the message without what is the provider's own: its name, its ids, its signatures.
fn of_nobody(message: Message) -> Message {
    let Message::Ai(ai) = message else { return message };
    let content = ai.content.into_iter().filter_map(|block| match block {
        Block::Thinking { text, .. } if text.is_empty() => None,
        Block::Thinking { text, .. } => Some(Block::Thinking { text, provider: None, raw: None }),
        Block::Text { .. } | Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {
            Some(block)
        }
    });
    Message::Ai(AiMessage { id: None, model: None, content: content.collect(), ..ai })
}

#[tokio::test]
async fn fifty_turns_with_tools_are_the_same_conversation_in_every_format() {
    let server = Server::start(script().keeping(1)).expect("the server starts");
    let mut sessions = Vec::new();
    for provider in Provider::ALL {
        let messages = play(&*model(provider, settings(&server))).await;
        sessions.push(messages.into_iter().map(of_nobody).collect::<Vec<_>>());
    }
    let expected: usize = (1..=TURNS).map(|turn| 3 + turn % 3 + 1).sum();
    assert_eq!(sessions[0].len(), expected);
    for (provider, session) in Provider::ALL.into_iter().zip(&sessions) {
        assert_eq!(session, &sessions[0], "{provider:?}");
    }
    assert_eq!(server.calls(), Provider::ALL.len() * TURNS * 2);
}
