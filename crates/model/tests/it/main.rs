//! Each provider's real client against a server that plays a script: what arrives, what goes out, and what every
//! failure of an endpoint becomes.

mod faults;
mod session;
mod streams;

use std::sync::Arc;

use model::{ChatModel, ChatRequest, Error, Part, Provider, Settings, connect};
use protocol::{AiMessage, Message};
use test_model::{Reply, Script, Server};

/// A key that must never be seen anywhere but in a header.
const KEY: &str = "sk-secret-key-123";

fn serve(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(Script::new(replies)).expect("the server starts")
}

fn settings(server: &Server) -> Settings {
    Settings { api_key: Some(KEY.into()), base_url: Some(server.url().to_owned()), ..Settings::default() }
}

fn model(provider: Provider, settings: Settings) -> Arc<dyn ChatModel> {
    let name = format!("{}/m", provider.as_str()).parse().expect("a name");
    connect(name, settings).expect("the settings can be used")
}

fn question() -> ChatRequest {
    ChatRequest { messages: vec![Message::human("Hello?")].into(), ..ChatRequest::default() }
}

/// Returns every part of an answer but the last, the whole answer, and the error that ended it.
async fn ask(model: &dyn ChatModel, request: &ChatRequest) -> (Vec<Part>, Result<AiMessage, Error>) {
    use futures::StreamExt;
    let mut parts = Vec::new();
    let mut stream = match model.stream(request).await {
        Ok(stream) => stream,
        Err(error) => return (parts, Err(error)),
    };
    while let Some(part) = stream.next().await {
        match part {
            Ok(Part::Done(message)) => {
                assert!(stream.next().await.is_none(), "nothing follows the whole answer");
                return (parts, Ok(message));
            }
            Ok(part) => parts.push(part),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (parts, Err(error));
            }
        }
    }
    unreachable!("a stream ends with the whole answer or an error");
}

fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Thinking(_) | Part::ToolCall { .. } | Part::Done(_) => "",
    });
    texts.collect()
}
