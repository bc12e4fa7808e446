//! Tests of each provider's client against a scripted server: the answer that arrives, the request that is sent,
//! and the error for each failure of an endpoint.

mod faults;
mod optional_fields;
mod retries;
mod session;
mod streams;

use std::sync::Arc;

use model::{AnswerPart, ChatModel, ChatRequest, Error, Provider, ProviderSettings, connect};
use protocol::{AiMessage, Message};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// The API key, which must only appear in a header.
const KEY: &str = "sk-secret-key-123";

/// Starts a server that plays `replies` in order.
fn start_server(replies: impl IntoIterator<Item = ScriptedReply>) -> ScriptedServer {
    ScriptedServer::start(Script::new(replies)).expect("the server starts")
}

/// Returns settings with the API key and the URL of `server`.
fn settings(server: &ScriptedServer) -> ProviderSettings {
    ProviderSettings {
        api_key: Some(KEY.into()),
        base_url: Some(server.url().to_owned()),
        ..ProviderSettings::default()
    }
}

/// Returns a client of `provider` for a model named `m`.
fn model(provider: Provider, settings: ProviderSettings) -> Arc<dyn ChatModel> {
    let name = format!("{}/m", provider.as_str()).parse().expect("a name");
    connect(name, settings).expect("the settings can be used")
}

/// Returns a request with one human message.
fn question() -> ChatRequest {
    ChatRequest { messages: vec![Message::human("Hello?")].into(), ..ChatRequest::default() }
}

/// Returns the parts of an answer except the last one and the announced retries, and the complete answer or the error
/// that ended it.
async fn collect_answer(
    model: &dyn ChatModel,
    request: &ChatRequest,
) -> (Vec<AnswerPart>, Result<AiMessage, Error>) {
    use futures::StreamExt;
    let mut parts = Vec::new();
    let mut stream = match model.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return (parts, Err(error)),
    };
    while let Some(part) = stream.next().await {
        match part {
            Ok(AnswerPart::Done(message)) => {
                assert!(stream.next().await.is_none(), "nothing follows the complete answer");
                return (parts, Ok(message));
            }
            Ok(AnswerPart::Retry(_)) => {}
            Ok(part) => parts.push(part),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (parts, Err(error));
            }
        }
    }
    unreachable!("a stream ends with the complete answer or an error");
}

/// Returns the text of all parts, without reasoning and tool calls.
fn text_of(parts: &[AnswerPart]) -> String {
    let texts = parts.iter().map(|part| match part {
        AnswerPart::Text(text) => text.as_str(),
        AnswerPart::Thinking(_)
        | AnswerPart::ToolCall { .. }
        | AnswerPart::Retry(_)
        | AnswerPart::Done(_) => "",
    });
    texts.collect()
}
