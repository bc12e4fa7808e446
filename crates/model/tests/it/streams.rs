//! What arrives when all goes well, and what goes out.

use std::sync::Arc;

use futures::StreamExt;
use model::{ChatRequest, Part, Provider, ToolSpec};
use protocol::{Block, HumanMessage, Message, StopReason, ToolMessage, ToolStatus, Usage};
use serde_json::json;
use test_model::{Fault, Reply, Stop};

use super::{KEY, ask, model, question, serve, settings, text_of};

#[tokio::test]
async fn i4_text_thinking_and_usage_arrive_whole_however_the_bytes_are_cut() {
    for provider in Provider::ALL {
        for bytes in [1, 7, 100_000] {
            let reply = Reply::pieces(["Grü", "ße 🦀", "\n今天"]).thinking(["Hm", ", so."]).tokens(12, 3);
            let server = serve([reply.in_pieces_of(bytes)]);
            let (parts, answer) = ask(&*model(provider, settings(&server)), &question()).await;
            let message = answer.expect("it answers");
            assert_eq!(parts[0], Part::Thinking("Hm".into()), "{provider:?}");
            assert_eq!(text_of(&parts), "Grüße 🦀\n今天", "{provider:?}");
            assert_eq!(Message::Ai(message.clone()).text(), text_of(&parts), "{provider:?}");
            let usage = Usage { input_tokens: 12, output_tokens: 3, ..Usage::default() };
            assert_eq!(
                (message.usage, message.stop),
                (Some(usage), Some(StopReason::EndTurn)),
                "{provider:?}"
            );
            assert_eq!(message.model, Some(format!("{}/m", provider.as_str())));
            assert!(
                matches!(&message.content[0], Block::Thinking { text, .. } if text == "Hm, so."),
                "{provider:?}"
            );
            assert!(message.id.is_some() && !message.incomplete, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn i4_parts_joined_are_the_whole_answer_and_usage_counts_once_however_the_bytes_are_cut() {
    for provider in Provider::ALL {
        for bytes in 1..=23 {
            let reply = Reply::pieces(["日", "本", "語 👨‍👩‍👧‍👦"]).thinking(["Überlegt", " – 🦀"]);
            let reply =
                reply.and_call("c1", "write", json!({"text": "e\u{301} \\ \"日本\"", "n": [1, null]}));
            let reply = reply.and_call("c2", "read", json!({})).tokens(100, 20).cached(60, 30);
            let server = serve([reply.in_pieces_of(bytes)]);
            let (parts, answer) = ask(&*model(provider, settings(&server)), &question()).await;
            let message = answer.expect("it answers");
            let mut streamed: Vec<Block> = Vec::new();
            for part in parts {
                match (part, streamed.last_mut()) {
                    (Part::Text(more), Some(Block::Text { text })) => text.push_str(&more),
                    (Part::Text(text), _) => streamed.push(Block::text(text)),
                    (Part::Thinking(more), Some(Block::Thinking { text, .. })) => text.push_str(&more),
                    (Part::Thinking(text), _) => {
                        streamed.push(Block::Thinking { text, provider: None, raw: None });
                    }
                    (Part::ToolCall { id, name }, _) => {
                        streamed.push(Block::ToolCall { id, name, args: json!(null) });
                    }
                    (Part::Done(_), _) => unreachable!("it is not among the parts"),
                }
            }
            let whole: Vec<Block> = message.content.iter().filter_map(as_streamed).collect();
            assert_eq!(streamed, whole, "{provider:?} in pieces of {bytes}");
            let args: Vec<String> =
                Message::Ai(message.clone()).tool_calls().map(|(_, _, args)| args.to_string()).collect();
            assert_eq!(
                args,
                ["{\"text\":\"e\u{301} \\\\ \\\"日本\\\"\",\"n\":[1,null]}", "{}"],
                "{provider:?}"
            );
            // Only Anthropic tells what was written to its cache.
            let cache_write_tokens = if provider == Provider::Anthropic { 30 } else { 0 };
            let usage =
                Usage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 60, cache_write_tokens };
            assert_eq!(message.usage, Some(usage), "{provider:?} in pieces of {bytes}");
        }
    }
}

/// Returns a block as far as it is streamed: without signatures and arguments.
fn as_streamed(block: &Block) -> Option<Block> {
    match block {
        Block::Text { text } => Some(Block::text(text)),
        Block::Thinking { text, .. } if text.is_empty() => None,
        Block::Thinking { text, .. } => {
            Some(Block::Thinking { text: text.clone(), provider: None, raw: None })
        }
        Block::ToolCall { id, name, .. } => {
            Some(Block::ToolCall { id: id.clone(), name: name.clone(), args: json!(null) })
        }
        Block::Media { .. } | Block::Opaque { .. } => None,
    }
}

#[tokio::test]
async fn the_bytes_that_are_shown_are_those_that_leave() {
    for provider in Provider::ALL {
        let server = serve([Reply::text("Hi.")]);
        let model = model(provider, settings(&server));
        model.answer(&question()).await.expect("it answers");
        let shown = model::encode(model.name(), &question()).expect("it is legal");
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("it is JSON");
        assert_eq!(shown, server.requests()[0].body, "{provider:?}");
    }
}

#[tokio::test]
async fn one_connection_serves_a_whole_conversation() {
    for provider in Provider::ALL {
        let server = serve([Reply::text("Hi.").repeated()]);
        let model = model(provider, settings(&server));
        for _ in 0..5 {
            model.answer(&question()).await.expect("it answers");
            // The end of the body arrives behind the answer, and the client takes the connection back.
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(server.connections(), 1, "{provider:?}");
    }
}

#[tokio::test]
async fn l10_media_leave_in_the_form_of_their_provider() {
    for (provider, pointer) in [
        (Provider::Anthropic, "/messages/0/content/1/source/data"),
        (Provider::OpenAi, "/input/0/content/1/image_url"),
        (Provider::OpenAiChat, "/messages/0/content/1/image_url/url"),
        (Provider::Gemini, "/contents/0/parts/1/inlineData/data"),
    ] {
        let server = serve([Reply::text("A crab.")]);
        let image =
            Block::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(3) };
        let content = vec![Block::text("What is it?"), image];
        let request = ChatRequest {
            messages: vec![Message::Human(HumanMessage { id: None, content })].into(),
            media: [("ab".to_owned(), Arc::from(*b"png"))].into(),
            ..ChatRequest::default()
        };
        model(provider, settings(&server)).answer(&request).await.expect("it answers");
        let sent = server.requests()[0].body.pointer(pointer).cloned().unwrap_or_default();
        assert!(sent.as_str().is_some_and(|sent| sent.ends_with("cG5n")), "{provider:?}: {sent}");
    }
}

#[tokio::test]
async fn l4_parallel_calls_arrive_and_their_results_go_back_in_order() {
    for provider in Provider::ALL {
        let first = Reply::pieces(["Reading."]).thinking(["Hm."]);
        let first = first.and_call("c1", "read", json!({"path": "é"})).and_call("c1", "list", json!({}));
        let server = serve([first, Reply::text("Done.")]);
        let model = model(provider, settings(&server));
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "A tool.".into(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        let mut request = ChatRequest { tools: vec![tool("read"), tool("list")].into(), ..question() };
        let (parts, answer) = ask(&*model, &request).await;
        let message = answer.expect("it answers");
        let ai = Message::Ai(message.clone());
        let calls: Vec<(String, String)> =
            ai.tool_calls().map(|(id, name, _)| (id.to_owned(), name.to_owned())).collect();
        let streamed: Vec<(String, String)> = parts
            .into_iter()
            .filter_map(|part| match part {
                Part::ToolCall { id, name } => Some((id, name)),
                Part::Text(_) | Part::Thinking(_) | Part::Done(_) => None,
            })
            .collect();
        assert_eq!(calls, streamed, "{provider:?}");
        assert_eq!(calls[0], ("c1".to_owned(), "read".to_owned()), "{provider:?}");
        assert!(calls[1].0 != "c1" && calls[1].1 == "list", "{provider:?}: a repeated id is replaced");
        assert_eq!(message.stop, Some(StopReason::ToolCalls), "{provider:?}");
        Arc::make_mut(&mut request.messages).push(ai);
        for (id, text) in [(&calls[1].0, "second"), (&calls[0].0, "first")] {
            Arc::make_mut(&mut request.messages).push(result(id, text));
        }
        ask(&*model, &request).await.1.expect("it answers");
        let sent = server.requests()[1].body.to_string();
        assert!(sent.find("first") < sent.find("second"), "{provider:?}: {sent}");
        let replayed = match provider {
            Provider::Anthropic | Provider::Gemini => "signature-1",
            Provider::OpenAi => "encrypted-1",
            Provider::OpenAiChat => "reasoning_content",
        };
        assert!(sent.contains(replayed), "{provider:?}: {sent}");
    }
}

fn result(call_id: &str, text: &str) -> Message {
    let content = vec![Block::text(text)];
    Message::Tool(ToolMessage {
        id: None,
        call_id: call_id.into(),
        name: None,
        content,
        status: ToolStatus::Success,
    })
}

#[tokio::test]
async fn k4_the_key_travels_in_a_header_and_nowhere_else() {
    for provider in Provider::ALL {
        let server = serve([Reply::text("Hi.")]);
        let headers = vec![("x-proxy".to_owned(), "for-the-proxy".into())];
        let model = model(provider, model::Settings { headers, ..settings(&server) });
        model.answer(&question()).await.expect("it answers");
        let request = &server.requests()[0];
        let header = match provider {
            Provider::Anthropic => "x-api-key",
            Provider::OpenAi | Provider::OpenAiChat => "authorization",
            Provider::Gemini => "x-goog-api-key",
        };
        assert!(request.headers[header].ends_with(KEY), "{provider:?}");
        assert_eq!(request.headers["x-proxy"], "for-the-proxy");
        assert!(!request.path.contains(KEY) && !request.body.to_string().contains(KEY), "{provider:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for provider in Provider::ALL {
        let server = serve([Reply::default()]);
        let (parts, answer) = ask(&*model(provider, settings(&server)), &question()).await;
        assert_eq!(parts, []);
        assert_eq!(answer.expect("it answers").content, [], "{provider:?}");
    }
}

#[tokio::test]
async fn every_provider_says_why_it_stopped() {
    for provider in Provider::ALL {
        for (stop, expected) in
            [(Stop::MaxTokens, StopReason::MaxTokens), (Stop::Refusal, StopReason::Refusal)]
        {
            let server = serve([Reply::text("So").stop(stop)]);
            let answer = model(provider, settings(&server)).answer(&question()).await.expect("it answers");
            assert_eq!(answer.stop, Some(expected), "{provider:?}");
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for provider in Provider::ALL {
        let server = serve([Reply::text("Let me").then(Fault::Stall), Reply::fault(Fault::Hang)]);
        let model = model(provider, settings(&server));
        let mut stream = model.stream(&question()).await.expect("it begins");
        assert_eq!(stream.next().await.expect("a part").expect("text"), Part::Text("Let me".into()));
        drop(stream);
        server.clients_gone(1).await;
        let request = question();
        tokio::select! {
            _ = model.answer(&request) => unreachable!("it never answers"),
            () = server.called(2) => {}
        }
        server.clients_gone(2).await;
    }
}

#[tokio::test]
async fn a_chat_server_of_ones_own_needs_no_key() {
    let server = serve([Reply::text("Hi.")]);
    let model = model(Provider::OpenAiChat, model::Settings { api_key: None, ..settings(&server) });
    model.answer(&question()).await.expect("it answers");
    assert!(!server.requests()[0].headers.contains_key("authorization"));
}
