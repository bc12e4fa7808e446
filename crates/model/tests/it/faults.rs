//! Tests of failures of an endpoint: the resulting errors and the number of retries.

use std::net::TcpListener;
use std::time::Duration;

use model::{AnswerPart, Error, ModelName, Provider, ProviderSettings, connect};
use protocol::Message;
use serde_json::json;
use test_model::{ScriptedFault, ScriptedReply};

use super::{KEY, collect_answer, model, question, settings, start_server};

/// The maximum number of retries in the tests that count requests.
const RETRIES: usize = 2;

/// Returns the name of the error's variant.
fn kind(error: &Error) -> String {
    format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn l11_every_status_becomes_the_error_that_a_caller_acts_on_and_only_transient_ones_are_retried() {
    let too_long = r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    for provider in Provider::ALL {
        for (status, body, expected, calls) in [
            (401, r#"{"error":{"message":"bad key"}}"#, "Unauthorized", 1),
            (403, "", "Unauthorized", 1),
            (429, r#"{"error":{"message":"slow down"}}"#, "RateLimited", 1 + RETRIES),
            (503, "", "RateLimited", 1 + RETRIES),
            (529, "", "RateLimited", 1 + RETRIES),
            (500, "oops", "Failed", 1 + RETRIES),
            (502, "<html>Bad gateway</html>", "Failed", 1 + RETRIES),
            (413, "", "ContextOverflow", 1),
            (400, too_long, "ContextOverflow", 1),
            (400, "{}", "Refused", 1),
            (404, "<html>Not found</html>", "Refused", 1),
            (200, "<html>Please log in</html>", "MalformedAnswer", 1),
            (200, r#"{"choices":[]}"#, "MalformedAnswer", 1),
            (200, r#"{"error":{"type":"overloaded_error","message":"x"}}"#, "MalformedAnswer", 1),
        ] {
            // A server of Chat Completions may refuse `stream_options`, so the request is sent once more without it.
            let calls = if (provider, status, body) == (Provider::OpenAiChat, 400, "{}") { 2 } else { calls };
            let server = start_server([json_typed(status, body).with_repeat()]);
            let model = model(provider, ProviderSettings { retries_max: RETRIES, ..settings(&server) });
            let (parts, answer) = collect_answer(&*model, &question()).await;
            let error = answer.expect_err("it fails");
            assert_eq!(parts, []);
            // A response with status 200 that is no stream but reports a failure becomes the error of that
            // failure.
            if body.contains("overloaded_error") {
                assert_eq!(kind(&error), "RateLimited", "{provider:?} {status}");
                continue;
            }
            assert_eq!(
                (kind(&error).as_str(), server.call_count()),
                (expected, calls),
                "{provider:?} {status} {body}"
            );
        }
    }
}

/// Returns a reply with the content type that its body looks like, because a response with status 200 must not
/// count as a stream.
fn json_typed(status: u16, body: &str) -> ScriptedReply {
    let mut reply = ScriptedReply::status(status, body);
    if let Some(ScriptedFault::Status { headers, .. }) = &mut reply.fault {
        let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
        headers.insert("content-type".to_owned(), kind.to_owned());
    }
    reply
}

#[tokio::test]
async fn a_transient_failure_is_retried_until_a_request_succeeds() {
    for provider in Provider::ALL {
        let server = start_server([
            ScriptedReply::status(429, ""),
            ScriptedReply::status(500, ""),
            ScriptedReply::text("Hi."),
        ]);
        let answer =
            model(provider, settings(&server)).answer(&question()).await.expect("it answers at last");
        assert_eq!(answer.content, [protocol::ContentBlock::text("Hi.")]);
        assert_eq!(server.call_count(), 3, "{provider:?}");
        assert_eq!(server.requests()[0].body, server.requests()[2].body, "{provider:?}");
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_its_first_part_is_retried() {
    let server = start_server([ScriptedReply::fault(ScriptedFault::Overloaded), ScriptedReply::text("Hi.")]);
    model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect("it answers at last");
    assert_eq!(server.call_count(), 2);
}

#[tokio::test]
async fn a_request_is_not_retried_if_the_wait_would_be_too_long() {
    let mut reply = ScriptedReply::status(429, "");
    if let Some(ScriptedFault::Status { headers, .. }) = &mut reply.fault {
        headers.insert("retry-after".to_owned(), "3600".to_owned());
    }
    let server = start_server([reply]);
    let error =
        model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect_err("it fails");
    let requested = Some(Duration::from_secs(3600));
    assert!(
        matches!(error, Error::RateLimited { status: 429, retry_after, .. } if retry_after == requested),
        "{error:?}"
    );
    assert_eq!(server.call_count(), 1);
}

#[tokio::test]
async fn parts_before_a_failure_are_kept_and_the_failure_is_reported() {
    for provider in Provider::ALL {
        for (fault, expected) in [
            (ScriptedFault::Half, "MalformedAnswer"),
            (ScriptedFault::Cut, "MalformedAnswer"),
            (ScriptedFault::BrokenJson, "MalformedAnswer"),
            (ScriptedFault::Overloaded, "RateLimited"),
            (ScriptedFault::Stall, "IdleTimeout"),
        ] {
            let server = start_server([ScriptedReply::from_pieces(["Let ", "me"]).with_fault(fault.clone())]);
            let idle_timeout = Duration::from_millis(300);
            let model =
                model(provider, ProviderSettings { idle_timeout, retries_max: 0, ..settings(&server) });
            let (parts, answer) = collect_answer(&*model, &question()).await;
            assert_eq!(
                parts,
                [AnswerPart::Text("Let ".into()), AnswerPart::Text("me".into())],
                "{provider:?} {fault:?}"
            );
            assert_eq!(kind(&answer.expect_err("it fails")), expected, "{provider:?} {fault:?}");
            assert_eq!(server.call_count(), 1, "{provider:?} {fault:?}: no part is sent twice");
        }
    }
}

#[tokio::test]
async fn failures_before_the_first_part_have_their_own_errors() {
    for provider in Provider::ALL {
        for (fault, expected) in [
            (ScriptedFault::Half, "MalformedAnswer"),
            (ScriptedFault::Cut, "MalformedAnswer"),
            (ScriptedFault::Empty, "MalformedAnswer"),
            (ScriptedFault::BrokenJson, "MalformedAnswer"),
            (ScriptedFault::Overloaded, "RateLimited"),
            (ScriptedFault::Hang, "IdleTimeout"),
            (ScriptedFault::Stall, "IdleTimeout"),
        ] {
            let server = start_server([ScriptedReply::fault(fault.clone())]);
            let idle_timeout = Duration::from_millis(300);
            let model =
                model(provider, ProviderSettings { idle_timeout, retries_max: 0, ..settings(&server) });
            let (parts, answer) = collect_answer(&*model, &question()).await;
            assert_eq!(parts, [], "{provider:?} {fault:?}");
            assert_eq!(kind(&answer.expect_err("it fails")), expected, "{provider:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_with_too_many_calls_fails_and_is_not_requested_again() {
    let calls = |count: usize| {
        let add_call =
            |reply: ScriptedReply, number: usize| reply.with_call(format!("c{number}"), "read", json!({}));
        (0..count).fold(ScriptedReply::default(), add_call)
    };
    for provider in Provider::ALL {
        let server = start_server([calls(500), calls(10_000)]);
        let model = model(provider, ProviderSettings { retries_max: RETRIES, ..settings(&server) });
        let answer = model.answer(&question()).await.expect("it answers");
        assert_eq!(Message::Ai(answer).tool_calls().count(), 500, "{provider:?}");
        let (parts, answer) = collect_answer(&*model, &question()).await;
        let error = answer.expect_err("it fails");
        assert!(
            matches!(&error, Error::MalformedAnswer { reason, .. } if reason.contains("exceeds the size limit")),
            "{provider:?}: {error:?}"
        );
        assert!(parts.len() < 10_000, "{provider:?}: the rest is not read");
        assert_eq!(server.call_count(), 2, "{provider:?}");
    }
}

#[tokio::test]
async fn an_endpoint_of_this_machine_that_is_down_is_unreachable_at_once() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let base_url = Some(format!("http://user:{KEY}@127.0.0.1:{port}"));
    let settings = ProviderSettings { api_key: Some(KEY.into()), base_url, ..ProviderSettings::default() };
    for provider in Provider::ALL {
        let error = model(provider, settings.clone()).answer(&question()).await.expect_err("it fails");
        assert_eq!(kind(&error), "Unreachable", "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("http://127.0.0.1:{port}: ")) && text.contains("refused"), "{text}");
        assert!(!format!("{text} {error:?}").contains(KEY), "{text}");
    }
}

#[tokio::test]
async fn m16_the_key_is_never_in_an_error() {
    let body = format!(r#"{{"error":{{"message":"Incorrect key {KEY}\nprovided","type":"x"}}}}"#);
    for provider in Provider::ALL {
        for status in [401, 404, 500] {
            let server = start_server([ScriptedReply::status(status, body.clone())]);
            let model = model(provider, ProviderSettings { retries_max: 0, ..settings(&server) });
            let error = model.answer(&question()).await.expect_err("it fails");
            let text = format!("{error} {error:?}");
            assert!(text.contains("Incorrect key [secret] provided") && !text.contains(KEY), "{text}");
        }
    }
}

#[tokio::test]
async fn the_providers_id_of_a_failed_request_is_reported() {
    for (header, status) in [("request-id", 400), ("x-request-id", 500)] {
        let mut reply = ScriptedReply::status(status, "no");
        if let Some(ScriptedFault::Status { headers, .. }) = &mut reply.fault {
            headers.insert(header.to_owned(), "req_1".to_owned());
        }
        let server = start_server([reply]);
        let settings = ProviderSettings { retries_max: 0, ..settings(&server) };
        let error = model(Provider::OpenAi, settings).answer(&question()).await.expect_err("it fails");
        match error {
            Error::Refused { request_id, .. } | Error::Failed { request_id, .. } => {
                assert_eq!(request_id.as_deref(), Some("req_1"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let other_server = start_server([ScriptedReply::text("I have your key.")]);
    let mut reply = ScriptedReply::status(307, "");
    if let Some(ScriptedFault::Status { headers, .. }) = &mut reply.fault {
        headers.insert("location".to_owned(), format!("{}/v1/messages", other_server.url()));
    }
    let server = start_server([reply]);
    let error =
        model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect_err("it fails");
    assert!(
        matches!(&error, Error::Refused { status: 307, message, .. } if message.contains("base URL")),
        "{error}"
    );
    assert_eq!(other_server.call_count(), 0);
}

#[test]
fn invalid_settings_are_refused_before_anything_is_sent() {
    let setup_error = |settings: ProviderSettings| {
        let name: ModelName = "anthropic/m".parse().expect("a name");
        connect(name, settings).err().expect("they are refused").to_string()
    };
    let key = Some(KEY.into());
    let cases = [
        (ProviderSettings::default(), "set up anthropic: there is no key; set ANTHROPIC_API_KEY"),
        (
            ProviderSettings { api_key: Some("  ".into()), ..ProviderSettings::default() },
            "set up anthropic: there is no key; set ANTHROPIC_API_KEY",
        ),
        (
            ProviderSettings { api_key: Some("a\nb".into()), ..ProviderSettings::default() },
            "set up anthropic: the key contains characters that are not allowed in a key",
        ),
        (
            ProviderSettings {
                api_key: key.clone(),
                base_url: Some("localhost:80".into()),
                ..ProviderSettings::default()
            },
            "set up the base URL of anthropic: it is not an http or https URL",
        ),
        (
            ProviderSettings {
                api_key: key,
                headers: vec![("a b".into(), "c".into())],
                ..ProviderSettings::default()
            },
            "set up the header a b: it contains characters that are not allowed in a header",
        ),
    ];
    for (settings, expected) in cases {
        assert_eq!(setup_error(settings), expected);
    }
}
