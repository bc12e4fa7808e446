//! Tests of the client against an embedding model at the wire.

use test_model::{Script, ScriptedEmbeddings, ScriptedFault, ScriptedServer};

use super::*;

const TIME_MAX: Duration = Duration::from_secs(20);

fn server(fault: Option<ScriptedFault>) -> ScriptedServer {
    let concepts = vec![vec!["heron".to_owned(), "bird".to_owned()], vec!["train".to_owned()]];
    let embeddings = Some(ScriptedEmbeddings { concepts, words_max: None, fault, answers_before_fault: 0 });
    ScriptedServer::start(Script { embeddings, ..Script::default() }).unwrap()
}

fn settings(base_url: &str) -> EmbeddingSettings {
    EmbeddingSettings {
        base_url: base_url.to_owned(),
        model: "tiny".to_owned(),
        api_key: None,
        dimensions: None,
    }
}

async fn fail(fault: ScriptedFault) -> EmbeddingError {
    let server = server(Some(fault));
    let client = EmbeddingClient::new(EmbeddingSettings {
        api_key: Some("key-in-the-message".into()),
        ..settings(&format!("{}/v1", server.url()))
    });
    client.unwrap().embed(&["a".to_owned()], Duration::from_millis(300)).await.unwrap_err()
}

fn status(status: u16, body: &str, retry_after: &str) -> ScriptedFault {
    let headers = [("retry-after".to_owned(), retry_after.to_owned())].into();
    ScriptedFault::Status { status, headers, body: body.to_owned() }
}

#[tokio::test]
async fn texts_get_vectors_in_their_order() {
    let server = server(None);
    let client = EmbeddingClient::new(EmbeddingSettings {
        api_key: Some("sk-1".into()),
        dimensions: Some(3),
        ..settings(&format!("{}/v1/", server.url()))
    })
    .unwrap();
    let texts = ["a bird".to_owned(), "the train".to_owned()];
    let answer = client.embed(&texts, TIME_MAX).await.unwrap();
    assert_eq!(answer.vectors, [[1.0, 0.0, 0.2], [0.0, 1.0, 0.2]]);
    assert_eq!(answer.tokens, 4);
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/embeddings"));
    assert_eq!(request.headers["authorization"], "Bearer sk-1");
    assert_eq!(request.body["dimensions"], 3);
    assert_eq!(request.body["encoding_format"], "float");
    assert_eq!(client.identity(), "tiny/3");
}

#[tokio::test]
async fn a_url_may_name_the_endpoint_itself() {
    let server = server(None);
    let client = EmbeddingClient::new(settings(&format!("{}/v1/embeddings", server.url()))).unwrap();
    client.embed(&["a".to_owned()], TIME_MAX).await.unwrap();
    assert_eq!(server.requests()[0].path, "/v1/embeddings");
}

#[tokio::test]
async fn failures_say_what_happened_and_whether_to_try_again() {
    let refused = fail(status(401, r#"{"error":{"message":"bad key key-in-the-message"}}"#, "3")).await;
    assert!(!refused.is_transient());
    assert!(refused.to_string().ends_with("it refused the request (401): bad key [redacted]"), "{refused}");
    let limited = fail(status(429, "slow\ndown", "7")).await;
    assert!(limited.is_transient() && limited.to_string().ends_with("(429): slow down"), "{limited}");
    assert!(
        matches!(limited, EmbeddingError::Refused { retry_after: Some(after), .. } if after.as_secs() == 7)
    );
    assert!(matches!(fail(ScriptedFault::Hang).await, EmbeddingError::Timeout { .. }));
    let other_form = fail(status(200, r#"{"data": []}"#, "")).await;
    assert!(
        matches!(&other_form, EmbeddingError::Malformed { reason, .. } if reason == "it has 0 vectors for 1 texts")
    );
    let uneven = fail(status(200, r#"{"data": [{"index": 4, "embedding": [1]}]}"#, "")).await;
    assert!(matches!(uneven, EmbeddingError::Malformed { .. }) && !uneven.is_transient());
    let gone = EmbeddingClient::new(settings("http://127.0.0.1:1/v1")).unwrap();
    let unreachable = gone.embed(&["a".to_owned()], TIME_MAX).await.unwrap_err();
    assert!(unreachable.is_transient() && unreachable.to_string().contains("127.0.0.1:1"), "{unreachable}");
}

#[test]
fn invalid_settings_are_refused_before_anything_is_sent() {
    for (url, model) in [("ftp://a", "m"), ("not a url", "m"), ("http://", "m"), ("http://a", " ")] {
        let settings = EmbeddingSettings { model: model.to_owned(), ..settings(url) };
        assert!(matches!(EmbeddingClient::new(settings), Err(EmbeddingError::Setup { .. })), "{url}");
    }
}

#[tokio::test]
async fn an_impossible_number_of_tokens_counts_as_the_estimate() {
    for reported in ["0", "18446744073709551615"] {
        let body = format!(
            r#"{{"data": [{{"index": 0, "embedding": [1]}}], "usage": {{"prompt_tokens": {reported}}}}}"#
        );
        let server = server(Some(status(200, &body, "")));
        let client = EmbeddingClient::new(settings(server.url())).unwrap();
        let answer = client.embed(&["a text of a few words".to_owned()], TIME_MAX).await.unwrap();
        assert_eq!(answer.tokens, tokens::estimate_tokens("a text of a few words"), "{reported}");
    }
}

#[tokio::test]
async fn an_answer_of_another_form_is_not_repeated() {
    let body = format!(r#"{{"data": "{}"}}"#, "key-in-the-message".repeat(1_000));
    let error = fail(status(200, &body, "")).await.to_string();
    assert!(error.ends_with("it has another form than OpenAI's"), "{error}");
    let error = fail(status(200, "<html>key-in-the-message", "")).await.to_string();
    assert!(error.ends_with("it is not JSON"), "{error}");
    let error = fail(status(307, "", "")).await.to_string();
    assert!(error.ends_with("(307): redirects are not followed"), "{error}");
}
