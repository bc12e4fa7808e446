//! Ranking of the messages of given threads by the words that they contain.

use journal::{Error, PAGE_ROWS_MAX, QUERY_WORDS_MAX, RankQuery, RankedMessage, ThreadPrefix, Write};
use protocol::ThreadId;

use super::SharedStore;
use super::fixtures::{ai, append, commit, create, human, rewind, trace_event};

fn query(threads: &[ThreadId], words: &[&str]) -> RankQuery {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let threads =
        threads.iter().map(|thread_id| ThreadPrefix { thread_id: *thread_id, before: None }).collect();
    RankQuery { threads, words, limit: 50, ..RankQuery::default() }
}

/// Ranks the messages and returns their seqs, best first.
async fn seqs(store: &SharedStore, threads: &[ThreadId], words: &[&str]) -> Vec<u64> {
    let ranked = store.rank_messages(query(threads, words)).await.unwrap().hits;
    assert!(ranked.is_sorted_by(|a, b| a.score >= b.score) && ranked.iter().all(|hit| hit.score > 0.0));
    ranked.iter().map(|hit| hit.seq).collect()
}

pub async fn any_word_matches_and_rare_words_weigh_more(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut events: Vec<_> = (0..40).map(|_| human("the server runs the tests")).collect();
    events.extend([
        ai("staging listens on port 8443"),
        trace_event(0),
        human("a port in the storm"),
        ai("nothing of it"),
        human("the server of staging"),
    ]);
    append(&*store, thread_id, events).await.unwrap();
    assert_eq!(
        seqs(&store, &[thread_id], &["port", "staging", "absent"]).await,
        [41, 43, 45],
        "a message between two matches ranks above the last of them"
    );
    assert_eq!(
        seqs(&store, &[thread_id], &["storm", "server"]).await[..2],
        [43, 45],
        "the rare one is first"
    );
    assert_eq!(seqs(&store, &[thread_id], &["absent"]).await, [0; 0]);
    assert_eq!(seqs(&store, &[thread_id], &[]).await, [0; 0]);
    let ranked = store.rank_messages(query(&[thread_id], &["port", "absent", "STAGING"])).await.unwrap().hits;
    let matched: Vec<(u64, u32)> = ranked.iter().map(|hit| (hit.seq, hit.matched_words)).collect();
    assert_eq!(matched, [(41, 0b101), (43, 0b001), (45, 0b100)]);
    assert!(
        ranked[0].matches_word(0)
            && !ranked[0].matches_word(1)
            && ranked[0].matches_word(2)
            && !ranked[0].matches_word(99)
    );
}

pub async fn equally_ranked_messages_are_newest_first(store: SharedStore) {
    let thread_id = create(&*store).await;
    let events = ["port one", "something else", "port two", "port six"].map(human);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    assert_eq!(seqs(&store, &[thread_id], &["port"]).await, [4, 3, 1]);
    let two = RankQuery { limit: 2, ..query(&[thread_id], &["port"]) };
    let ranked_seqs: Vec<u64> =
        store.rank_messages(two).await.unwrap().hits.iter().map(|hit| hit.seq).collect();
    assert_eq!(ranked_seqs, [4, 3]);
}

pub async fn only_the_requested_threads_are_searched(store: SharedStore) {
    let (one, two, other) = (create(&*store).await, create(&*store).await, create(&*store).await);
    append(&*store, one, vec![human("a word")]).await.unwrap();
    append(&*store, two, vec![human("nothing"), human("a word")]).await.unwrap();
    append(&*store, other, vec![human("a word")]).await.unwrap();
    let locations = |ranked: Vec<RankedMessage>| {
        let mut locations: Vec<_> = ranked.iter().map(|hit| (hit.thread_id, hit.seq)).collect();
        locations.sort_unstable();
        locations
    };
    let unknown = ThreadId::generate();
    for (threads, expected) in [
        (vec![], vec![]),
        (vec![unknown], vec![]),
        (vec![one], vec![(one, 1)]),
        (vec![two, unknown, one, two], vec![(one, 1), (two, 2)]),
    ] {
        let found = locations(store.rank_messages(query(&threads, &["word"])).await.unwrap().hits);
        assert_eq!(found, expected, "{threads:?}");
    }
    commit(&*store, vec![Write::DeleteThread { thread_id: two }]).await.unwrap();
    assert_eq!(locations(store.rank_messages(query(&[one, two], &["word"])).await.unwrap().hits), [(one, 1)]);
    append(&*store, one, vec![human("another word")]).await.unwrap();
    assert_eq!(
        seqs(&store, &[one, two], &["another"]).await,
        [2],
        "messages added since the last search are found"
    );
}

pub async fn a_thread_is_searched_up_to_the_given_seq(store: SharedStore) {
    let (one, two) = (create(&*store).await, create(&*store).await);
    for thread_id in [one, two] {
        append(&*store, thread_id, vec![human("word one"), human("word two")]).await.unwrap();
    }
    for (before, expected) in [
        (None, vec![1, 1, 2, 2]),
        (Some(0), vec![1, 2]),
        (Some(1), vec![1, 2]),
        (Some(2), vec![1, 1, 2]),
        (Some(3), vec![1, 1, 2, 2]),
        (Some(u64::MAX), vec![1, 1, 2, 2]),
    ] {
        let part = |thread_id, before| ThreadPrefix { thread_id, before };
        let threads = vec![part(one, before), part(two, None)];
        let ranked = store.rank_messages(RankQuery { threads, ..query(&[], &["word"]) }).await.unwrap().hits;
        let mut seqs: Vec<u64> = ranked.iter().map(|hit| hit.seq).collect();
        seqs.sort_unstable();
        assert_eq!(seqs, expected, "{before:?}");
    }
}

pub async fn superseded_messages_are_not_ranked(store: SharedStore) {
    let thread_id = create(&*store).await;
    let events = ["word one", "word two", "word three", "word four"].map(human);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    assert_eq!(seqs(&store, &[thread_id], &["word"]).await.len(), 4);
    rewind(&*store, thread_id, 1).await.unwrap();
    append(&*store, thread_id, vec![human("word five")]).await.unwrap();
    assert_eq!(seqs(&store, &[thread_id], &["word"]).await, [6, 1]);
    let both = RankQuery { limit: 2, ..query(&[thread_id], &["word"]) };
    assert_eq!(
        store.rank_messages(both).await.unwrap().hits.len(),
        2,
        "hidden messages do not count against the limit"
    );
}

pub async fn ranking_normalizes_words_like_a_search(store: SharedStore) {
    let thread_id = create(&*store).await;
    let events = ["明日の会議は東京で行います", "we were Running src/parse_table.rs:42", "café \"NEAR\" x*"]
        .map(human);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    for (word, expected) in [
        ("会議", vec![1]),
        ("京東", vec![]),
        ("runs", vec![2]),
        ("parse_table.rs", vec![2]),
        ("table.src", vec![]),
        ("CAFE", vec![3]),
        ("NEAR(", vec![3]),
        ("x*", vec![3]),
        ("\"", vec![]),
        ("two words", vec![]),
        ("were running", vec![2]),
        ("", vec![]),
        ("\u{2}x\u{3}", vec![3]),
    ] {
        assert_eq!(seqs(&store, &[thread_id], &[word]).await, expected, "{word:?}");
    }
}

pub async fn a_ranking_has_its_limits(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("last word")]).await.unwrap();
    let words = |count: usize| (0..count).map(|number| format!("w{number}")).collect::<Vec<_>>();
    let full = RankQuery {
        words: [words(QUERY_WORDS_MAX - 1), vec!["last".to_owned()]].concat(),
        ..query(&[thread_id], &[])
    };
    assert!(store.rank_messages(full).await.unwrap().hits[0].matches_word(QUERY_WORDS_MAX - 1));
    let long = RankQuery { words: words(QUERY_WORDS_MAX + 1), ..query(&[thread_id], &[]) };
    assert!(matches!(store.rank_messages(long).await, Err(Error::InvalidRequest { .. })));
    for limit in [0, PAGE_ROWS_MAX + 1] {
        let invalid = RankQuery { limit, ..query(&[thread_id], &["word"]) };
        assert!(matches!(store.rank_messages(invalid).await, Err(Error::InvalidRequest { .. })), "{limit}");
    }
}
