//! Searches by meaning, with embeddings of messages.

use std::sync::Arc;

use async_trait::async_trait;
use journal::{
    DailyTokens, Embedding, EmbeddingCounts, EmbeddingFailure, Error, MeaningComparison, MessageEmbeddings,
    QuestionEmbedder, RankQuery, ScopedStore, SearchQuery, ThreadPrefix, UnembeddedBatch, UnembeddedMessages,
    WordMatchMode, Write,
};
use protocol::{OwnerScope, Seq, ThreadId, UserId};

use super::{any_of, seqs};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{ai, append, at, commit, create, human, rewind, tool_result};

const MODEL: &str = "birds-2d";

/// A model with two dimensions: fishing, and everything else.
struct BirdModel;

fn meaning_of(text: &str) -> Embedding {
    let fishing = ["heron", "kingfisher", "angling"].iter().any(|word| text.contains(word));
    Embedding::from_vector(if fishing { &[1.0, 0.1] } else { &[0.1, 1.0] }).unwrap()
}

#[async_trait]
impl QuestionEmbedder for BirdModel {
    fn model(&self) -> &str {
        MODEL
    }

    async fn embed_question(&self, question: &str) -> Result<Embedding, EmbeddingFailure> {
        match question.contains("offline") {
            true => Err(EmbeddingFailure { reason: "the model does not answer".to_owned() }),
            false => Ok(meaning_of(question)),
        }
    }
}

/// Embeds all messages that need it, with the model of this name.
async fn embed_all(store: &SharedStore, model: &str) -> usize {
    let mut count = 0;
    loop {
        let batch = store.unembedded_messages(model, 2).await.unwrap().threads;
        if batch.is_empty() {
            return count;
        }
        for UnembeddedMessages { thread_id, texts, through_seq } in batch {
            count += texts.len();
            let messages = texts.iter().map(|(seq, text)| (*seq, vec![meaning_of(text)])).collect();
            let model = model.to_owned();
            let (tokens, at) = (10, at(1));
            let embeddings = MessageEmbeddings { thread_id, model, messages, through_seq, tokens, at };
            commit(&**store, vec![Write::PutEmbeddings(embeddings)]).await.unwrap();
        }
    }
}

/// Creates a thread in which only one message is about fishing.
async fn birds(store: &SharedStore) -> ThreadId {
    store.set_embedder(Arc::new(BirdModel));
    let thread_id = create(&**store).await;
    let mut events = vec![human("the heron stands in the shallows"), tool_result("c", "angling output")];
    events.extend((0..20).map(|number| ai(&format!("a finch eats seeds, number {number}"))));
    append(&**store, thread_id, events).await.unwrap();
    thread_id
}

fn question(text: &str) -> SearchQuery {
    SearchQuery { question: text.to_owned(), ..any_of(text) }
}

async fn comparison(store: &SharedStore, query: SearchQuery) -> MeaningComparison {
    store.search(query).await.unwrap().meaning
}

pub async fn a_message_is_found_by_its_meaning_without_a_common_word(store: SharedStore) {
    let thread_id = birds(&store).await;
    let query = question("angling companions");
    assert_eq!(seqs(&store, query.clone()).await, [2], "only words are compared yet");
    assert_eq!(comparison(&store, query.clone()).await, MeaningComparison::Compared { missing: 22 });
    assert_eq!(embed_all(&store, MODEL).await, 21, "all but the result of a tool");
    assert_eq!(seqs(&store, query.clone()).await[0], 1);
    assert_eq!(comparison(&store, query).await, MeaningComparison::Compared { missing: 0 });
    let ranked = RankQuery {
        threads: vec![ThreadPrefix { thread_id, before: None }],
        words: vec!["pastime".to_owned(), "angling".to_owned()],
        question: "the pastime of angling".to_owned(),
        limit: 5,
        ..RankQuery::default()
    };
    let ranked = store.rank_messages(ranked).await.unwrap().hits;
    assert_eq!((ranked[0].seq, ranked[0].matched_words), (1, 0));
    assert!(ranked[0].standard_score > 2.0, "{}", ranked[0].standard_score);
}

pub async fn a_phrase_and_a_single_word_are_not_compared_by_meaning(store: SharedStore) {
    birds(&store).await;
    embed_all(&store, MODEL).await;
    let phrase = SearchQuery { match_mode: WordMatchMode::All, ..question("angling output") };
    assert_eq!(seqs(&store, phrase.clone()).await, [2]);
    assert_eq!(comparison(&store, phrase).await, MeaningComparison::Off);
    assert_eq!(seqs(&store, question("angling")).await, [2]);
    assert_eq!(seqs(&store, question("kingfisher")).await, Vec::<Seq>::new(), "no message has the word");
}

pub async fn a_search_compares_words_if_the_model_fails_and_says_so(store: SharedStore) {
    birds(&store).await;
    embed_all(&store, MODEL).await;
    let query = question("offline heron");
    assert_eq!(seqs(&store, query.clone()).await, [1]);
    let reason = "the model does not answer".to_owned();
    assert_eq!(comparison(&store, query).await, MeaningComparison::Unavailable { reason });
}

pub async fn another_model_embeds_all_messages_again(store: SharedStore) {
    birds(&store).await;
    let everyone = OwnerScope::Everyone;
    assert_eq!(embed_all(&store, "older").await, 21);
    let counts = |embeddings, missing| EmbeddingCounts { embeddings, missing };
    assert_eq!(store.embedding_counts("older", &everyone).await.unwrap(), counts(21, 0));
    assert_eq!(store.embedding_counts(MODEL, &everyone).await.unwrap(), counts(0, 21));
    assert_eq!(
        seqs(&store, question("angling companions")).await,
        [2],
        "vectors of another model say nothing"
    );
    assert_eq!(embed_all(&store, MODEL).await, 21);
    assert_eq!(store.embedding_counts("older", &everyone).await.unwrap().embeddings, 0);
    assert_eq!(store.embedding_counts(MODEL, &everyone).await.unwrap(), counts(21, 0));
}

pub async fn the_tokens_of_a_day_are_counted_for_all_models(store: SharedStore) {
    let thread_id = birds(&store).await;
    let daily = async |model: &str| {
        store
            .unembedded_messages(model, 1)
            .await
            .unwrap()
            .daily_tokens
            .map(|DailyTokens { day, tokens }| (day.to_string(), tokens))
    };
    assert_eq!(daily(MODEL).await, None);
    for (model, time, tokens) in [
        (MODEL, "2026-03-01T10:00:00Z", 5),
        ("other", "2026-03-01T10:00:00Z", 70),
        (MODEL, "2026-03-01T23:59:59Z", 6),
    ] {
        let (model, messages, at) = (model.to_owned(), Vec::new(), time.parse().unwrap());
        let embeddings = MessageEmbeddings { thread_id, model, messages, through_seq: 1, tokens, at };
        commit(&*store, vec![Write::PutEmbeddings(embeddings)]).await.unwrap();
    }
    assert_eq!(daily(MODEL).await, Some(("2026-03-01".to_owned(), 81)));
    let next = MessageEmbeddings {
        thread_id,
        model: MODEL.to_owned(),
        messages: Vec::new(),
        through_seq: 2,
        tokens: 3,
        at: "2026-03-02T00:00:00Z".parse().unwrap(),
    };
    commit(&*store, vec![Write::PutEmbeddings(next)]).await.unwrap();
    assert_eq!(daily(MODEL).await, Some(("2026-03-02".to_owned(), 3)));
    assert_eq!(daily("other").await, Some(("2026-03-02".to_owned(), 3)));
}

pub async fn a_new_message_is_embedded_and_a_superseded_one_is_not_found(store: SharedStore) {
    let thread_id = birds(&store).await;
    embed_all(&store, MODEL).await;
    append(&*store, thread_id, vec![human("a kingfisher dives")]).await.unwrap();
    assert_eq!(embed_all(&store, MODEL).await, 1);
    let query = question("angling companions");
    let found = seqs(&store, query.clone()).await;
    assert!(found.contains(&1) && found.contains(&23), "{found:?}");
    rewind(&*store, thread_id, 22).await.unwrap();
    assert!(!seqs(&store, query).await.contains(&23));
}

pub async fn embeddings_are_deleted_with_their_thread(store: SharedStore) {
    let thread_id = birds(&store).await;
    let other = birds(&store).await;
    embed_all(&store, MODEL).await;
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    let counts = store.embedding_counts(MODEL, &OwnerScope::Everyone).await.unwrap();
    assert_eq!(counts, EmbeddingCounts { embeddings: 21, missing: 0 });
    let late = MessageEmbeddings {
        thread_id,
        model: MODEL.to_owned(),
        messages: vec![(1, vec![meaning_of("heron")])],
        through_seq: 1,
        tokens: 1,
        at: at(1),
    };
    let refused = commit(&*store, vec![Write::PutEmbeddings(late)]).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    assert!(store.unembedded_messages(MODEL, 9).await.unwrap().threads.is_empty());
    let hits = store.search(question("angling companions")).await.unwrap().hits;
    assert!(hits.iter().all(
        |hit| matches!(hit.location, journal::HitLocation::Message { thread_id, .. } if thread_id == other)
    ));
}

pub async fn k1_meaning_finds_no_message_of_another_owner(store: SharedStore) {
    birds(&store).await;
    embed_all(&store, MODEL).await;
    let alice: UserId = "alice".parse().unwrap();
    let own = ScopedStore::new(store.clone(), OwnerScope::Owner(Some(alice)));
    let answer = journal::Store::search(&own, question("angling companions")).await.unwrap();
    assert_eq!((answer.hits.len(), answer.meaning), (0, MeaningComparison::Compared { missing: 0 }));
    let counts = journal::Store::embedding_counts(&own, MODEL, &OwnerScope::Everyone).await.unwrap();
    assert_eq!(counts, EmbeddingCounts::default());
    let unembedded = journal::Store::unembedded_messages(&own, MODEL, 9).await.unwrap();
    assert_eq!(unembedded, UnembeddedBatch::default());
}

pub async fn embeddings_of_another_length_are_refused_and_not_compared(store: SharedStore) {
    let thread_id = birds(&store).await;
    let longer = MessageEmbeddings {
        thread_id,
        model: MODEL.to_owned(),
        messages: vec![(1, vec![Embedding::from_vector(&[1.0, 2.0, 3.0]).unwrap()])],
        through_seq: 1,
        tokens: 1,
        at: at(1),
    };
    commit(&*store, vec![Write::PutEmbeddings(longer)]).await.unwrap();
    let meaning = comparison(&store, question("angling companions")).await;
    assert!(
        matches!(&meaning, MeaningComparison::Unavailable { reason } if reason.contains("another length")),
        "{meaning:?}"
    );
    let shorter = MessageEmbeddings {
        thread_id,
        model: MODEL.to_owned(),
        messages: vec![(1, vec![meaning_of("heron")])],
        through_seq: 22,
        tokens: 1,
        at: at(1),
    };
    let refused = commit(&*store, vec![Write::PutEmbeddings(shorter)]).await;
    assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{refused:?}");
    let summaries =
        SearchQuery { kinds: vec![journal::IndexHitKind::Summary], ..question("angling companions") };
    assert_eq!(comparison(&store, summaries).await, MeaningComparison::Off, "only messages have embeddings");
}
