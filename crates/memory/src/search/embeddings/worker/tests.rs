//! Tests of the worker against an embedding model at the wire: what is sent, stored and found.

use journal::{MeaningComparison, SqliteStore};
use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};
use runtime::FrameSender;
use test_model::{Script, ScriptedEmbeddings, ScriptedFault, ScriptedServer};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{EmbeddingConfig, SearchHitSource, SearchRequest, search};

const SECRET: &str = "ghp_1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2wX";

struct Fixture {
    store: Arc<dyn Store>,
    server: ScriptedServer,
    thread_id: ThreadId,
}

fn concepts(fault: Option<ScriptedFault>) -> Script {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let concepts = vec![words(&["heron", "angling", "fish"]), words(&["train", "railway"])];
    Script {
        embeddings: Some(ScriptedEmbeddings {
            concepts,
            words_max: Some(120),
            fault,
            answers_before_fault: 0,
        }),
        ..Script::default()
    }
}

impl Fixture {
    async fn new(texts: &[&str]) -> Self {
        Self::with_script(concepts(None), texts).await
    }

    async fn with_script(script: Script, texts: &[&str]) -> Self {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
        let thread_id = ThreadId::generate();
        let now = Timestamp::now();
        let thread = Thread::blank(thread_id, AssistantId::default(), now);
        let event = |text: &&str| NewEvent::from_message(&Message::human(*text), now).unwrap();
        let events = texts.iter().map(event).collect();
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        Self { store, server: ScriptedServer::start(script).unwrap(), thread_id }
    }

    fn embedder(&self, daily_tokens: u64) -> Arc<EmbeddingModel> {
        let config = EmbeddingConfig {
            url: format!("{}/v1", self.server.url()),
            model: "tiny".to_owned(),
            key_variable: None,
            dimensions: None,
            daily_tokens,
            message_prefix: "passage: ".to_owned(),
            question_prefix: "query: ".to_owned(),
        };
        Arc::new(EmbeddingModel::new(config, None).unwrap())
    }

    async fn embed(&self, daily_tokens: u64) -> Result<EmbeddingOutcome, EmbeddingWorkError> {
        let embedder = self.embedder(daily_tokens);
        self.store.set_embedder(Arc::clone(&embedder) as Arc<dyn QuestionEmbedder>);
        let worker = EmbeddingWorker { store: Arc::clone(&self.store), embedder };
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        worker.embed_messages(RunScope { frames: &frames, cancel: &cancel }).await
    }

    async fn find(&self, text: &str) -> (Vec<Seq>, MeaningComparison) {
        let results = search(&*self.store, &SearchRequest::new(text)).await.unwrap();
        let seq = |hit: &crate::SearchHit| match hit.source {
            SearchHitSource::Message { seq, .. } => Some(seq),
            _ => None,
        };
        (results.hits.iter().filter_map(seq).collect(), results.meaning)
    }

    /// The texts that were sent.
    fn sent(&self) -> Vec<String> {
        let inputs = self.server.requests().into_iter().map(|request| request.body["input"].clone());
        inputs.flat_map(|input| serde_json::from_value::<Vec<String>>(input).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_message_is_embedded_once_and_found_by_its_meaning() {
    let fixture = Fixture::new(&[
        "a heron in the reeds",
        "the railway timetable",
        "some tea for me",
        "more tea for you",
    ])
    .await;
    assert_eq!(fixture.embed(1_000).await.unwrap(), EmbeddingOutcome::Complete { messages: 4 });
    assert_eq!(fixture.embed(1_000).await.unwrap(), EmbeddingOutcome::Complete { messages: 0 });
    assert_eq!(fixture.server.call_count(), 1);
    assert_eq!(fixture.sent()[0], "passage: a heron in the reeds");
    let (found, meaning) = fixture.find("who goes angling").await;
    assert_eq!((found[0], meaning), (1, MeaningComparison::Compared { missing: 0 }));
    assert_eq!(fixture.find("who goes angling").await.0[0], 1);
    assert_eq!(fixture.sent()[4..], ["query: who goes angling"], "the embedding of a question is kept");
}

#[tokio::test]
async fn m16_secrets_are_neither_sent_in_messages_nor_in_questions() {
    let fixture = Fixture::new(&[&format!("the heron token is {SECRET}"), "tea for two"]).await;
    fixture.embed(1_000).await.unwrap();
    fixture.find(&format!("angling with {SECRET}")).await;
    let sent = fixture.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|text| !text.contains("1aB2cD3eF4")), "{sent:?}");
}

#[tokio::test]
async fn the_budget_of_the_day_stops_the_worker_and_the_next_call_reads_it() {
    let texts: Vec<String> = (0..100).map(|number| format!("message {number} about tea")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let fixture = Fixture::new(&texts).await;
    // The model counts words as tokens: five for each message with its prefix.
    let EmbeddingOutcome::BudgetUsed { messages, tokens, .. } = fixture.embed(100).await.unwrap() else {
        panic!("the budget is used");
    };
    assert!(messages > 5 && tokens == 5 * messages && tokens <= 100, "{messages} {tokens}");
    let missing = 100 - messages;
    assert_eq!(fixture.find("angling trips").await.1, MeaningComparison::Compared { missing });
    assert_eq!(fixture.embed(10_000).await.unwrap(), EmbeddingOutcome::Complete { messages: missing });
    assert_eq!(fixture.embed(1).await.unwrap(), EmbeddingOutcome::Complete { messages: 0 });
}

#[tokio::test]
async fn a_search_compares_words_while_the_model_fails() {
    let fault = ScriptedFault::Status { status: 500, headers: [].into(), body: "out of memory".to_owned() };
    let fixture = Fixture::with_script(concepts(Some(fault)), &["a heron there", "tea for two"]).await;
    let error = fixture.embed(1_000).await.unwrap_err();
    assert!(error.to_string().ends_with("(500): out of memory"), "{error}");
    let (found, meaning) = fixture.find("the heron, please").await;
    assert_eq!(found, [1]);
    assert!(matches!(meaning, MeaningComparison::Unavailable { reason } if reason.contains("out of memory")));
    fixture.find("another heron").await;
    assert_eq!(fixture.server.call_count(), 2, "a failing model is not asked again at once");
}

#[tokio::test]
async fn a_text_that_the_endpoint_refuses_does_not_stop_the_others() {
    let long = "heron ".repeat(200);
    let fixture = Fixture::new(&["a heron there", &long, "tea for two"]).await;
    let embedder = fixture.embedder(1_000_000);
    assert_eq!(fixture.embed(1_000_000).await.unwrap(), EmbeddingOutcome::Complete { messages: 3 });
    let found = fixture.find("who goes angling").await.0;
    assert!(found.contains(&1) && found.contains(&2), "{found:?}");
    assert!(embedder.display_name().starts_with("tiny at http://127.0.0.1:"));
}

#[tokio::test]
async fn a_cancelled_call_stops_between_batches() {
    let fixture = Fixture::new(&["a heron there"]).await;
    let worker = EmbeddingWorker { store: Arc::clone(&fixture.store), embedder: fixture.embedder(9) };
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    cancel.cancel();
    let outcome = worker.embed_messages(RunScope { frames: &frames, cancel: &cancel }).await.unwrap();
    assert_eq!((outcome, fixture.server.call_count()), (EmbeddingOutcome::Stopped { messages: 0 }, 0));
}

#[tokio::test]
async fn a_thread_that_is_deleted_meanwhile_gets_no_embeddings() {
    let fixture = Fixture::new(&["a heron there"]).await;
    fixture.embed(1_000).await.unwrap();
    let writes = vec![Write::DeleteThread { thread_id: fixture.thread_id }];
    fixture.store.commit(Transaction { fence: None, writes }).await.unwrap();
    assert_eq!(fixture.embed(1_000).await.unwrap(), EmbeddingOutcome::Complete { messages: 0 });
    assert_eq!(fixture.find("who goes angling").await.0, Vec::<Seq>::new());
}

#[tokio::test]
async fn vectors_without_a_direction_are_a_failure_and_are_embedded_later() {
    let body = r#"{"data": [{"index": 0, "embedding": [0, 0]}]}"#.to_owned();
    let fault = ScriptedFault::Status { status: 200, headers: [].into(), body };
    let fixture = Fixture::with_script(concepts(Some(fault)), &["a heron there"]).await;
    let error = fixture.embed(1_000).await.unwrap_err();
    assert!(error.to_string().ends_with("the vector is zero or not finite"), "{error}");
    let identity = fixture.embedder(1).model().to_owned();
    let counts = fixture.store.embedding_counts(&identity, &OwnerScope::Everyone).await.unwrap();
    assert_eq!((counts.embeddings, counts.missing), (0, 1));
}

#[tokio::test]
async fn m16_a_secret_in_the_message_of_a_refusal_is_redacted() {
    let body = format!("bad key {SECRET}");
    let fault = ScriptedFault::Status { status: 401, headers: [].into(), body };
    let fixture = Fixture::with_script(concepts(Some(fault)), &["a heron there"]).await;
    let error = fixture.embed(1_000).await.unwrap_err().to_string();
    assert!(error.contains("bad key") && !error.contains("1aB2cD3eF4"), "{error}");
    let MeaningComparison::Unavailable { reason } = fixture.find("who goes angling").await.1 else {
        panic!("the model fails");
    };
    assert!(reason.contains("bad key") && !reason.contains("1aB2cD3eF4"), "{reason}");
}

#[tokio::test]
async fn a_single_word_is_looked_for_as_a_word_and_not_sent() {
    let fixture = Fixture::new(&["a heron in the reeds", "the railway timetable", "some tea for me"]).await;
    fixture.embed(1_000).await.unwrap();
    assert_eq!(fixture.find("angling").await, (Vec::new(), MeaningComparison::Off));
    assert_eq!(fixture.server.call_count(), 1);
}

#[tokio::test]
async fn what_a_model_read_before_it_failed_is_stored_and_counted() {
    let texts: Vec<String> = (0..60).map(|number| format!("message {number} about tea")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let fault = ScriptedFault::Status { status: 500, headers: [].into(), body: "out of memory".to_owned() };
    let mut script = concepts(Some(fault));
    script.embeddings.as_mut().unwrap().answers_before_fault = 1;
    let fixture = Fixture::with_script(script, &texts).await;
    fixture.embed(10_000).await.unwrap_err();
    let identity = fixture.embedder(1).model().to_owned();
    let counts = fixture.store.embedding_counts(&identity, &OwnerScope::Everyone).await.unwrap();
    assert_eq!((counts.embeddings, counts.missing), (32, 28));
    let batch = fixture.store.unembedded_messages(&identity, 9).await.unwrap();
    assert_eq!(batch.daily_tokens.map(|daily| daily.tokens), Some(160), "five words each");
    assert_eq!(batch.threads[0].texts[0].0, 33);
}

#[tokio::test]
async fn a_model_whose_vectors_cannot_be_stored_reads_no_message() {
    let fixture = Fixture::new(&["a heron there", "tea for two"]).await;
    let embeddings = MessageEmbeddings {
        thread_id: fixture.thread_id,
        model: fixture.embedder(1).model().to_owned(),
        messages: vec![(1, vec![Embedding::from_vector(&[1.0, 2.0]).unwrap()])],
        through_seq: 1,
        tokens: 0,
        at: Timestamp::now(),
    };
    let writes = vec![Write::PutEmbeddings(embeddings)];
    fixture.store.commit(Transaction { fence: None, writes }).await.unwrap();
    let error = fixture.embed(1_000).await.unwrap_err();
    assert!(error.to_string().contains("another length than the stored ones"), "{error}");
    assert_eq!(fixture.sent(), [PROBE]);
}
