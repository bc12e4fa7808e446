//! What arrives when all goes well, and what goes out.

use futures::StreamExt;
use model::{ChatRequest, Part, Provider, ToolSpec};
use protocol::{Block, Message, StopReason, ToolMessage, ToolStatus, Usage};
use scripted::{Fault, Reply, Stop};
use serde_json::json;

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
        let mut request = ChatRequest { tools: vec![tool("read"), tool("list")], ..question() };
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
        request.messages.push(ai);
        for (id, text) in [(&calls[1].0, "second"), (&calls[0].0, "first")] {
            request.messages.push(result(id, text));
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
