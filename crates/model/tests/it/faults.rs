//! What every failure of an endpoint becomes, and how often it is tried again.

use std::net::TcpListener;
use std::time::Duration;

use model::{Error, ModelName, Part, Provider, Settings, connect};
use test_model::{Fault, Reply};

use super::{KEY, ask, model, question, serve, settings};

const RETRIES: usize = 2;

/// Returns the error's name.
fn kind(error: &Error) -> String {
    format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn l11_every_status_is_the_error_a_caller_acts_on_and_only_passing_ones_are_retried() {
    let too_long = r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    for provider in Provider::ALL {
        for (status, body, expected, calls) in [
            (401, r#"{"error":{"message":"bad key"}}"#, "Unauthorized", 1),
            (403, "", "Unauthorized", 1),
            (429, r#"{"error":{"message":"slow down"}}"#, "Limited", 1 + RETRIES),
            (503, "", "Limited", 1 + RETRIES),
            (529, "", "Limited", 1 + RETRIES),
            (500, "oops", "Failed", 1 + RETRIES),
            (502, "<html>Bad gateway</html>", "Failed", 1 + RETRIES),
            (413, "", "Overflow", 1),
            (400, too_long, "Overflow", 1),
            (400, "{}", "Refused", 1),
            (404, "<html>Not found</html>", "Refused", 1),
            (200, "<html>Please log in</html>", "Broken", 1),
            (200, r#"{"choices":[]}"#, "Broken", 1),
            (200, r#"{"error":{"type":"overloaded_error","message":"x"}}"#, "Broken", 1),
        ] {
            let server = serve([json_typed(status, body).repeated()]);
            let model = model(provider, Settings { retries_max: RETRIES, ..settings(&server) });
            let (parts, answer) = ask(&*model, &question()).await;
            let error = answer.expect_err("it fails");
            assert_eq!(parts, []);
            // A 200 that is no stream but reports a failure is that failure; it has no kind of its own.
            if body.contains("overloaded_error") {
                assert_eq!(kind(&error), "Limited", "{provider:?} {status}");
                continue;
            }
            assert_eq!(
                (kind(&error).as_str(), server.calls()),
                (expected, calls),
                "{provider:?} {status} {body}"
            );
        }
    }
}

/// Returns a reply whose body has the type it looks like; one of 200 must not pass for a stream.
fn json_typed(status: u16, body: &str) -> Reply {
    let mut reply = Reply::status(status, body);
    if let Some(Fault::Status { headers, .. }) = &mut reply.fault {
        let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
        headers.insert("content-type".to_owned(), kind.to_owned());
    }
    reply
}

#[tokio::test]
async fn a_passing_failure_is_retried_until_it_passes() {
    for provider in Provider::ALL {
        let server = serve([Reply::status(429, ""), Reply::status(500, ""), Reply::text("Hi.")]);
        let answer =
            model(provider, settings(&server)).answer(&question()).await.expect("it answers at last");
        assert_eq!(answer.content, [protocol::Block::text("Hi.")]);
        assert_eq!(server.calls(), 3, "{provider:?}");
        assert_eq!(server.requests()[0].body, server.requests()[2].body, "{provider:?}");
    }
}

#[tokio::test]
async fn a_stream_that_fails_before_its_first_part_is_retried() {
    let server = serve([Reply::fault(Fault::Overloaded), Reply::text("Hi.")]);
    model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect("it answers at last");
    assert_eq!(server.calls(), 2);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_begun() {
    let mut reply = Reply::status(429, "");
    if let Some(Fault::Status { headers, .. }) = &mut reply.fault {
        headers.insert("retry-after".to_owned(), "3600".to_owned());
    }
    let server = serve([reply]);
    let error =
        model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect_err("it fails");
    let asked = Some(Duration::from_secs(3600));
    assert!(
        matches!(error, Error::Limited { status: 429, retry_after, .. } if retry_after == asked),
        "{error:?}"
    );
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn what_arrived_before_a_failure_is_kept_and_the_failure_is_told() {
    for provider in Provider::ALL {
        for (fault, expected) in [
            (Fault::Half, "Broken"),
            (Fault::Cut, "Broken"),
            (Fault::BrokenJson, "Broken"),
            (Fault::Overloaded, "Limited"),
            (Fault::Stall, "Silent"),
        ] {
            let server = serve([Reply::pieces(["Let ", "me"]).then(fault.clone())]);
            let silence_max = Duration::from_millis(300);
            let model = model(provider, Settings { silence_max, ..settings(&server) });
            let (parts, answer) = ask(&*model, &question()).await;
            assert_eq!(parts, [Part::Text("Let ".into()), Part::Text("me".into())], "{provider:?} {fault:?}");
            assert_eq!(kind(&answer.expect_err("it fails")), expected, "{provider:?} {fault:?}");
            assert_eq!(server.calls(), 1, "{provider:?} {fault:?}: nobody reads the beginning twice");
        }
    }
}

#[tokio::test]
async fn an_endpoint_without_an_answer_is_told_apart() {
    for provider in Provider::ALL {
        for (fault, expected) in [
            (Fault::Half, "Broken"),
            (Fault::Cut, "Broken"),
            (Fault::Empty, "Broken"),
            (Fault::BrokenJson, "Broken"),
            (Fault::Overloaded, "Limited"),
            (Fault::Hang, "Silent"),
            (Fault::Stall, "Silent"),
        ] {
            let server = serve([Reply::fault(fault.clone())]);
            let silence_max = Duration::from_millis(300);
            let model = model(provider, Settings { silence_max, retries_max: 0, ..settings(&server) });
            let (parts, answer) = ask(&*model, &question()).await;
            assert_eq!(parts, [], "{provider:?} {fault:?}");
            assert_eq!(kind(&answer.expect_err("it fails")), expected, "{provider:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_of_this_machine_that_is_down_is_unreachable_at_once() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let base_url = Some(format!("http://user:{KEY}@127.0.0.1:{port}"));
    let settings = Settings { api_key: Some(KEY.into()), base_url, ..Settings::default() };
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
            let server = serve([Reply::status(status, body.clone())]);
            let model = model(provider, Settings { retries_max: 0, ..settings(&server) });
            let error = model.answer(&question()).await.expect_err("it fails");
            let shown = format!("{error} {error:?}");
            assert!(shown.contains("Incorrect key [secret] provided") && !shown.contains(KEY), "{shown}");
        }
    }
}

#[tokio::test]
async fn the_providers_id_of_a_failed_request_is_kept() {
    for (header, status) in [("request-id", 400), ("x-request-id", 500)] {
        let mut reply = Reply::status(status, "no");
        if let Some(Fault::Status { headers, .. }) = &mut reply.fault {
            headers.insert(header.to_owned(), "req_1".to_owned());
        }
        let server = serve([reply]);
        let settings = Settings { retries_max: 0, ..settings(&server) };
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
    let elsewhere = serve([Reply::text("I have your key.")]);
    let mut reply = Reply::status(307, "");
    if let Some(Fault::Status { headers, .. }) = &mut reply.fault {
        headers.insert("location".to_owned(), format!("{}/v1/messages", elsewhere.url()));
    }
    let server = serve([reply]);
    let error =
        model(Provider::Anthropic, settings(&server)).answer(&question()).await.expect_err("it fails");
    assert!(
        matches!(&error, Error::Refused { status: 307, message, .. } if message.contains("base URL")),
        "{error}"
    );
    assert_eq!(elsewhere.calls(), 0);
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_sent() {
    let with = |settings: Settings| {
        let name: ModelName = "anthropic/m".parse().expect("a name");
        connect(name, settings).err().expect("they are refused").to_string()
    };
    let key = Some(KEY.into());
    let cases = [
        (Settings::default(), "set up anthropic: there is no key; set ANTHROPIC_API_KEY"),
        (
            Settings { api_key: Some("  ".into()), ..Settings::default() },
            "set up anthropic: there is no key; set ANTHROPIC_API_KEY",
        ),
        (
            Settings { api_key: Some("a\nb".into()), ..Settings::default() },
            "set up anthropic: the key holds characters that no key has",
        ),
        (
            Settings { api_key: key.clone(), base_url: Some("localhost:80".into()), ..Settings::default() },
            "set up the base URL of anthropic: it is not an http or https URL",
        ),
        (
            Settings { api_key: key, headers: vec![("a b".into(), "c".into())], ..Settings::default() },
            "set up the header a b: it holds characters that no header has",
        ),
    ];
    for (settings, expected) in cases {
        assert_eq!(with(settings), expected);
    }
}
