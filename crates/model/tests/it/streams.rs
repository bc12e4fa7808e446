//! Tests of successful streams and of the requests that are sent.

use std::sync::Arc;

use futures::StreamExt;
use model::{AnswerPart, ChatRequest, Provider, ToolSpec};
use protocol::{ContentBlock, HumanMessage, Message, StopReason, ToolMessage, ToolStatus, Usage};
use serde_json::json;
use test_model::{ScriptedFault, ScriptedReply, ScriptedStop};

use super::{KEY, collect_answer, model, question, settings, start_server, text_of};

#[tokio::test]
async fn i4_text_thinking_and_usage_arrive_completely_for_every_size_of_chunks() {
    for provider in Provider::ALL {
        for bytes in [1, 7, 100_000] {
            let reply = ScriptedReply::from_pieces(["Grü", "ße 🦀", "\n今天"])
                .with_thinking(["Hm", ", so."])
                .with_tokens(12, 3);
            let server = start_server([reply.with_piece_bytes(bytes)]);
            let (parts, answer) = collect_answer(&*model(provider, settings(&server)), &question()).await;
            let message = answer.expect("the model answers");
            assert_eq!(parts[0], AnswerPart::Thinking("Hm".into()), "{provider:?}");
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
                matches!(&message.content[0], ContentBlock::Thinking { text, .. } if text == "Hm, so."),
                "{provider:?}"
            );
            assert!(message.id.is_some() && !message.incomplete, "{provider:?}");
        }
    }
}

#[tokio::test]
async fn i4_joined_parts_equal_the_answer_and_usage_counts_once_for_every_size_of_chunks() {
    for provider in Provider::ALL {
        for bytes in 1..=23 {
            let reply =
                ScriptedReply::from_pieces(["日", "本", "語 👨‍👩‍👧‍👦"]).with_thinking(["Überlegt", " – 🦀"]);
            let reply =
                reply.with_call("c1", "write", json!({"text": "e\u{301} \\ \"日本\"", "n": [1, null]}));
            let reply =
                reply.with_call("c2", "read", json!({})).with_tokens(100, 20).with_cached_tokens(60, 30);
            let server = start_server([reply.with_piece_bytes(bytes)]);
            let (parts, answer) = collect_answer(&*model(provider, settings(&server)), &question()).await;
            let message = answer.expect("the model answers");
            let mut streamed: Vec<ContentBlock> = Vec::new();
            for part in parts {
                match (part, streamed.last_mut()) {
                    (AnswerPart::Text(more), Some(ContentBlock::Text { text })) => text.push_str(&more),
                    (AnswerPart::Text(text), _) => streamed.push(ContentBlock::text(text)),
                    (AnswerPart::Thinking(more), Some(ContentBlock::Thinking { text, .. })) => {
                        text.push_str(&more)
                    }
                    (AnswerPart::Thinking(text), _) => {
                        streamed.push(ContentBlock::Thinking { text, provider: None, raw: None });
                    }
                    (AnswerPart::ToolCall { id, name }, _) => {
                        streamed.push(ContentBlock::ToolCall { id, name, args: json!(null) });
                    }
                    (AnswerPart::Retry(_) | AnswerPart::Done(_), _) => {
                        unreachable!("the last part is not among the others")
                    }
                }
            }
            let expected: Vec<ContentBlock> = message.content.iter().filter_map(as_streamed).collect();
            assert_eq!(streamed, expected, "{provider:?} in pieces of {bytes}");
            let args: Vec<String> =
                Message::Ai(message.clone()).tool_calls().map(|(_, _, args)| args.to_string()).collect();
            assert_eq!(
                args,
                ["{\"text\":\"e\u{301} \\\\ \\\"日本\\\"\",\"n\":[1,null]}", "{}"],
                "{provider:?}"
            );
            // Only Anthropic reports the tokens that were written to its cache.
            let cache_write_tokens = if provider == Provider::Anthropic { 30 } else { 0 };
            let usage =
                Usage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 60, cache_write_tokens };
            assert_eq!(message.usage, Some(usage), "{provider:?} in pieces of {bytes}");
        }
    }
}

/// Returns a block in the form in which it is streamed: without signatures and arguments.
fn as_streamed(block: &ContentBlock) -> Option<ContentBlock> {
    match block {
        ContentBlock::Text { text } => Some(ContentBlock::text(text)),
        ContentBlock::Thinking { text, .. } if text.is_empty() => None,
        ContentBlock::Thinking { text, .. } => {
            Some(ContentBlock::Thinking { text: text.clone(), provider: None, raw: None })
        }
        ContentBlock::ToolCall { id, name, .. } => {
            Some(ContentBlock::ToolCall { id: id.clone(), name: name.clone(), args: json!(null) })
        }
        ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => None,
    }
}

#[tokio::test]
async fn encode_request_returns_the_bytes_that_are_sent() {
    for provider in Provider::ALL {
        let server = start_server([ScriptedReply::text("Hi.")]);
        let model = model(provider, settings(&server));
        model.answer(&question()).await.expect("it answers");
        let encoded = model::encode_request(model.name(), &question()).expect("it is legal");
        let encoded: serde_json::Value = serde_json::from_slice(&encoded).expect("it is JSON");
        assert_eq!(encoded, server.requests()[0].body, "{provider:?}");
    }
}

#[tokio::test]
async fn one_connection_serves_a_whole_conversation() {
    for provider in Provider::ALL {
        let server = start_server([ScriptedReply::text("Hi.").with_repeat()]);
        let model = model(provider, settings(&server));
        for _ in 0..5 {
            model.answer(&question()).await.expect("it answers");
            // The end of the body arrives after the answer. Then the client can reuse the connection.
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(server.connection_count(), 1, "{provider:?}");
    }
}

#[tokio::test]
async fn l10_media_are_sent_in_the_form_of_their_provider() {
    for (provider, pointer) in [
        (Provider::Anthropic, "/messages/0/content/1/source/data"),
        (Provider::OpenAi, "/input/0/content/1/image_url"),
        (Provider::OpenAiChat, "/messages/0/content/1/image_url/url"),
        (Provider::Gemini, "/contents/0/parts/1/inlineData/data"),
    ] {
        let server = start_server([ScriptedReply::text("A crab.")]);
        let image =
            ContentBlock::Media { media_type: "image/png".into(), sha256: Some("ab".into()), bytes: Some(3) };
        let content = vec![ContentBlock::text("What is it?"), image];
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
        let first = ScriptedReply::from_pieces(["Reading."]).with_thinking(["Hm."]);
        let first = first.with_call("c1", "read", json!({"path": "é"})).with_call("c1", "list", json!({}));
        let server = start_server([first, ScriptedReply::text("Done.")]);
        let model = model(provider, settings(&server));
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "A tool.".into(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        let mut request = ChatRequest { tools: vec![tool("read"), tool("list")].into(), ..question() };
        let (parts, answer) = collect_answer(&*model, &request).await;
        let message = answer.expect("it answers");
        let ai = Message::Ai(message.clone());
        let calls: Vec<(String, String)> =
            ai.tool_calls().map(|(id, name, _)| (id.to_owned(), name.to_owned())).collect();
        let streamed: Vec<(String, String)> = parts
            .into_iter()
            .filter_map(|part| match part {
                AnswerPart::ToolCall { id, name } => Some((id, name)),
                AnswerPart::Text(_)
                | AnswerPart::Thinking(_)
                | AnswerPart::Retry(_)
                | AnswerPart::Done(_) => None,
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
        collect_answer(&*model, &request).await.1.expect("it answers");
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

/// Returns the result of a tool call.
fn result(call_id: &str, text: &str) -> Message {
    let content = vec![ContentBlock::text(text)];
    Message::Tool(ToolMessage {
        id: None,
        call_id: call_id.into(),
        name: None,
        content,
        status: ToolStatus::Success,
    })
}

#[tokio::test]
async fn k4_the_key_is_sent_in_a_header_and_nowhere_else() {
    for provider in Provider::ALL {
        let server = start_server([ScriptedReply::text("Hi.")]);
        let headers = vec![("x-proxy".to_owned(), "for-the-proxy".into())];
        let model = model(provider, model::ProviderSettings { headers, ..settings(&server) });
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
async fn an_empty_answer_is_no_error() {
    for provider in Provider::ALL {
        let server = start_server([ScriptedReply::default()]);
        let (parts, answer) = collect_answer(&*model(provider, settings(&server)), &question()).await;
        assert_eq!(parts, []);
        assert_eq!(answer.expect("it answers").content, [], "{provider:?}");
    }
}

#[tokio::test]
async fn the_stop_reason_of_every_provider_is_read() {
    for provider in Provider::ALL {
        for (stop, expected) in
            [(ScriptedStop::MaxTokens, StopReason::MaxTokens), (ScriptedStop::Refusal, StopReason::Refusal)]
        {
            let server = start_server([ScriptedReply::text("So").with_stop(stop)]);
            let answer = model(provider, settings(&server)).answer(&question()).await.expect("it answers");
            assert_eq!(answer.stop, Some(expected), "{provider:?}");
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for provider in Provider::ALL {
        let server = start_server([
            ScriptedReply::text("Let me").with_fault(ScriptedFault::Stall),
            ScriptedReply::fault(ScriptedFault::Hang),
        ]);
        let model = model(provider, settings(&server));
        let mut stream = model.stream(&question()).await.expect("the stream starts");
        assert_eq!(stream.next().await.expect("a part").expect("text"), AnswerPart::Text("Let me".into()));
        drop(stream);
        server.wait_for_disconnects(1).await;
        let request = question();
        tokio::select! {
            _ = model.answer(&request) => unreachable!("it never answers"),
            () = server.wait_for_calls(2) => {}
        }
        server.wait_for_disconnects(2).await;
    }
}

#[tokio::test]
async fn a_custom_chat_server_needs_no_key() {
    let server = start_server([ScriptedReply::text("Hi.")]);
    let model = model(Provider::OpenAiChat, model::ProviderSettings { api_key: None, ..settings(&server) });
    model.answer(&question()).await.expect("it answers");
    assert!(!server.requests()[0].headers.contains_key("authorization"));
}
