//! Full-text search for messages, summaries, handoffs and items.

pub mod backlog;
pub mod meaning;
pub mod scope;

use std::sync::Arc;

use journal::{
    Error, HandoffPatch, HitLocation, IndexHit, IndexHitKind, PAGE_ROWS_MAX, PartialDate, QUERY_WORDS_MAX,
    SearchQuery, WordMatchMode, Write,
};
use protocol::{HandoffStatus, Message, NewEvent, Proposal, Seq, StoredItem, ThreadId, ToolMessage};
use serde_json::Map;

use super::SharedStore;
use super::fixtures::{
    ai, append, at, commit, create, fork, handoff, human, messages, proposal, rewind, search_for, trace_event,
};
use super::memory::summarization;

async fn find(store: &SharedStore, text: &str) -> Vec<u64> {
    let mut seqs: Vec<u64> = messages(&**store, text).await.into_iter().map(|(_, seq)| seq).collect();
    seqs.sort_unstable();
    seqs
}

/// Returns a query that matches any word of `text` and has no other filter.
fn any_of(text: &str) -> SearchQuery {
    SearchQuery { match_mode: WordMatchMode::Any, ..search_for(text) }
}

/// Searches and returns the seqs of the hits, best first, with 0 for a hit that is not a message.
async fn seqs(store: &SharedStore, query: SearchQuery) -> Vec<Seq> {
    let hits = store.search(query).await.unwrap().hits;
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score) && hits.iter().all(|hit| hit.score > 0.0));
    let seq = |hit: &IndexHit| match hit.location {
        HitLocation::Message { seq, .. } => seq,
        HitLocation::Summary { .. } | HitLocation::Handoff { .. } | HitLocation::Item { .. } => 0,
    };
    hits.iter().map(seq).collect()
}

fn kind(hit: &IndexHit) -> IndexHitKind {
    match hit.location {
        HitLocation::Message { .. } => IndexHitKind::Message,
        HitLocation::Summary { .. } => IndexHitKind::Summary,
        HitLocation::Handoff { .. } => IndexHitKind::Handoff,
        HitLocation::Item { .. } => IndexHitKind::Item,
    }
}

async fn kinds(store: &SharedStore, query: SearchQuery) -> Vec<IndexHitKind> {
    let mut kinds: Vec<IndexHitKind> = store.search(query).await.unwrap().hits.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Returns the snippets of the hits, with the matching words marked.
async fn snippets(store: &SharedStore, text: &str) -> Vec<String> {
    store.search(search_for(text)).await.unwrap().hits.into_iter().map(|hit| hit.snippet).collect()
}

pub async fn a_search_for_all_words_requires_every_word(store: SharedStore) {
    let thread_id = create(&*store).await;
    let tool = ToolMessage {
        id: None,
        call_id: "c".to_owned(),
        name: None,
        content: vec![protocol::ContentBlock::text("error: Timeout while CONNECTING to café")],
        status: protocol::ToolStatus::Error,
    };
    let events = vec![
        human("The parser times out on nested tables"),
        ai("Nested parsers time out; see src/parse_table.rs:42"),
        trace_event(0),
        NewEvent::from_message(&Message::Tool(tool), at(3)).unwrap(),
    ];
    append(&*store, thread_id, events).await.unwrap();
    for (query, expected) in [
        ("parser", vec![1, 2]),
        ("PARSERS nested", vec![1, 2]),
        ("parser tables", vec![1, 2]),
        ("parser connecting", vec![]),
        ("connect", vec![4]),
        ("cafe", vec![4]),
        ("src/parse_table.rs:42", vec![2]),
        ("purpose", vec![]),
    ] {
        assert_eq!(find(&store, query).await, expected, "{query}");
    }
    append(&*store, thread_id, vec![human("connecting again")]).await.unwrap();
    assert_eq!(find(&store, "connect").await, [4, 5], "messages added since the last search are found");
    let one = SearchQuery { limit: 1, ..search_for("connect") };
    assert_eq!(store.search(one).await.unwrap().hits.len(), 1);
    for limit in [0, PAGE_ROWS_MAX + 1] {
        let refused = store.search(SearchQuery { limit, ..search_for("connect") }).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{limit}");
    }
}

pub async fn a_search_for_any_word_ranks_hits_with_more_words_higher(store: SharedStore) {
    let thread_id = create(&*store).await;
    let mut events: Vec<_> = (0..40).map(|_| human("the server runs the tests")).collect();
    events.extend([
        ai("staging listens on port 8443"),
        trace_event(0),
        human("a port in the storm"),
        ai("nothing of it"),
    ]);
    append(&*store, thread_id, events).await.unwrap();
    let hits = store.search(any_of("port absent STAGING")).await.unwrap().hits;
    let matched_words: Vec<u32> = hits.iter().map(|hit| hit.matched_words).collect();
    assert_eq!(matched_words, [0b101, 0b001], "each hit reports the words that it contains");
    assert_eq!(seqs(&store, any_of("storm server")).await[0], 43, "the hit with the rare word is first");
    assert_eq!(seqs(&store, any_of("absent")).await, [0; 0]);
    assert_eq!(seqs(&store, any_of("")).await, [0; 0]);
    let words = (0..=QUERY_WORDS_MAX).map(|number| format!("w{number}")).collect::<Vec<_>>();
    assert!(matches!(store.search(any_of(&words.join(" "))).await, Err(Error::InvalidRequest { .. })));
}

pub async fn words_near_the_other_words_rank_higher(store: SharedStore) {
    let (one, other) = (create(&*store).await, create(&*store).await);
    let lines = [
        "the port is open",
        "which one",
        "staging of course",
        "quiet",
        "quiet",
        "quiet",
        "quiet",
        "quiet",
        "the port is shut",
    ];
    append(&*store, one, lines.map(human).to_vec()).await.unwrap();
    append(&*store, other, vec![human("the port is blue"), human("the port is red")]).await.unwrap();
    let hits = store.search(any_of("port staging")).await.unwrap().hits;
    let first = |thread_id, seq| HitLocation::Message { thread_id, seq, role: "human".to_owned() };
    assert_eq!(hits[0].location, first(one, 3), "it has the rarer word");
    assert_eq!(hits[1].location, first(one, 1), "the other word is near it");
    assert_eq!(hits.len(), 5);
}

pub async fn a_word_of_nearly_all_messages_is_found(store: SharedStore) {
    const MESSAGES: u64 = 9_000;
    let thread_id = create(&*store).await;
    let text = |number: u64| match number {
        4_000 => "the usual heron".to_owned(),
        8_998 => "the usual plain words".to_owned(),
        _ => format!("the usual {number}"),
    };
    for page in 0..9 {
        let events = (page * 1_000 + 1..=page * 1_000 + 1_000).map(|number| human(&text(number))).collect();
        append(&*store, thread_id, events).await.unwrap();
    }
    store.update_search_index().await.unwrap();
    let few = |text: &str| SearchQuery { limit: 3, ..any_of(text) };
    assert_eq!(
        seqs(&store, few("usual")).await,
        [MESSAGES, MESSAGES - 1, MESSAGES - 3],
        "the newest, the short ones first"
    );
    assert_eq!(seqs(&store, few("the usual heron")).await[0], 4_000);
    assert_eq!(seqs(&store, few("the absent usual")).await.len(), 3);
    assert_eq!(store.search(few("heron usual")).await.unwrap().hits[0].matched_words, 0b11);
    let every = SearchQuery { match_mode: WordMatchMode::All, ..few("the usual plain") };
    assert_eq!(seqs(&store, every).await, [8_998]);
}

pub async fn scripts_without_spaces_are_found(store: SharedStore) {
    let thread_id = create(&*store).await;
    let events = ["明日の会議は東京で行います", "오늘 회의를 시작합니다", "การประชุมวันนี้", "会 議"].map(human);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    for (query, expected) in
        [("会議", vec![1, 4]), ("東京", vec![1]), ("京東", vec![]), ("회의", vec![2]), ("ประชุม", vec![3])]
    {
        assert_eq!(find(&store, query).await, expected, "{query}");
    }
    assert_eq!(snippets(&store, "会議は").await, ["明日の\u{2}会議は\u{3}東京で行います"]);
}

pub async fn no_query_is_a_syntax_error(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("say \"hello\" OR NOT text:world* (NEAR) ^a+b-c")]).await.unwrap();
    let long = "x".repeat(10_000);
    let quotes = "\"".repeat(10_000);
    for (query, expected) in [
        ("", vec![]),
        (" \t\n", vec![]),
        ("\"", vec![]),
        ("\"hello", vec![1]),
        ("hello\"world", vec![]),
        ("OR", vec![1]),
        ("NOT", vec![1]),
        ("AND", vec![]),
        ("text:world", vec![1]),
        ("world*", vec![1]),
        ("(NEAR)", vec![1]),
        ("NEAR(hello world, 2)", vec![]),
        ("^ + - * : ( ) { }", vec![]),
        ("hello\0world", vec![]),
        ("hello —", vec![1]),
        ("\u{2}hello\u{3}", vec![1]),
        ("ª º ͅ", vec![]),
        ("'; DROP TABLE events; --", vec![]),
        ("rowid rank search_index", vec![]),
        (&long, vec![]),
        (&quotes, vec![]),
    ] {
        assert_eq!(find(&store, query).await, expected, "{query:?}");
        let any = any_of(query);
        store.search(any).await.unwrap();
    }
    let words = vec!["hello\0there".to_owned(), "\0".to_owned(), "wor\nld*".to_owned()];
    store.search(SearchQuery { words, ..any_of("") }).await.unwrap();
    let long = "word ".repeat(QUERY_WORDS_MAX + 1);
    assert!(matches!(store.search(search_for(&long)).await, Err(Error::InvalidRequest { .. })));
}

pub async fn k9_deleted_texts_are_not_found(store: SharedStore) {
    let (deleted, retained) = (create(&*store).await, create(&*store).await);
    append(&*store, deleted, vec![human("secret word"), human("secret again")]).await.unwrap();
    append(&*store, retained, vec![human("no secret")]).await.unwrap();
    let threads =
        async || messages(&*store, "secret").await.into_iter().map(|(thread, _)| thread).collect::<Vec<_>>();
    assert_eq!(threads().await.len(), 3);
    let (child, orphan) = (create(&*store).await, create(&*store).await);
    for child_thread_id in [child, orphan] {
        let handoff =
            protocol::Handoff { child_thread_id, status: HandoffStatus::Declined, ..handoff(deleted, 1) };
        let proposal_row = proposal(&handoff, 0, "secret handoff");
        commit(&*store, vec![Write::CreateHandoff(handoff), Write::PutProposal(proposal_row)]).await.unwrap();
    }
    commit(&*store, vec![Write::SummarizeTurns(summarization(deleted, (1, 2), "secret summary"))])
        .await
        .unwrap();
    assert_eq!(store.search(search_for("secret")).await.unwrap().hits.len(), 6);
    append(&*store, deleted, vec![human("secret not yet indexed")]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id: deleted }]).await.unwrap();
    assert_eq!(threads().await, [retained]);
    assert_eq!(
        kinds(&store, search_for("secret")).await.len(),
        3,
        "handoffs remain as long as their child thread"
    );
    for thread_id in [child, orphan, retained] {
        commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    }
    assert_eq!(store.search(search_for("secret")).await.unwrap().hits, []);
}

pub async fn snippets_mark_the_matching_words(store: SharedStore) {
    let thread_id = create(&*store).await;
    let filler = "lorem ipsum ".repeat(2_000);
    let events = vec![
        human("We are running\nthe tests"),
        ai(&format!("{filler} the needle is here {filler}")),
        human(&format!("{} haystack", "x".repeat(5_000))),
        human("forged \u{2}mark\u{3} pin"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let hits = store.search(search_for("run")).await.unwrap().hits;
    let expected = IndexHit {
        location: HitLocation::Message { thread_id, seq: 1, role: "human".to_owned() },
        score: hits[0].score,
        matched_words: 1,
        standard_score: 0.0,
        snippet: "We are \u{2}running\u{3} the tests".to_owned(),
        text: String::new(),
        created_at: at(1),
    };
    assert_eq!(hits, [expected]);
    let hits = store.search(search_for("needle")).await.unwrap().hits;
    assert!(hits[0].snippet.contains("the \u{2}needle\u{3} is here"), "{}", hits[0].snippet);
    assert_eq!(hits[0].location, HitLocation::Message { thread_id, seq: 2, role: "ai".to_owned() });
    let hits = snippets(&store, "haystack").await;
    assert!(hits[0].contains("\u{2}haystack\u{3}"), "{}", hits[0]);
    assert!(hits[0].chars().count() <= 402);
    assert_eq!(snippets(&store, "pin").await, ["forged  mark  \u{2}pin\u{3}"]);
}

/// Creates a thread of two turns with a summary, a handoff and an item that all contain the same word.
async fn everything(store: &SharedStore) -> (ThreadId, ThreadId) {
    let (parent, child) = (create(&**store).await, create(&**store).await);
    append(&**store, parent, vec![human("a heron"), ai("another heron")]).await.unwrap();
    commit(&**store, vec![Write::SummarizeTurns(summarization(parent, (1, 2), "two herons were seen"))])
        .await
        .unwrap();
    let handoff = protocol::Handoff { child_thread_id: child, ..handoff(parent, 1) };
    let proposal_row = proposal(&handoff, 0, "count the herons");
    let item = StoredItem {
        namespace: vec!["birds".to_owned(), "grey".to_owned()],
        key: "heron".to_owned(),
        value: Map::new(),
        created_at: at(1),
        updated_at: at(9),
    };
    let writes = vec![Write::CreateHandoff(handoff), Write::PutProposal(proposal_row), Write::PutItem(item)];
    commit(&**store, writes).await.unwrap();
    (parent, child)
}

pub async fn every_kind_of_hit_has_its_location(store: SharedStore) {
    use IndexHitKind::{Handoff, Item, Message, Summary};
    let (parent, child) = everything(&store).await;
    let all = || search_for("heron");
    assert_eq!(
        kinds(&store, all()).await,
        [Message, Message, Summary, Handoff],
        "items are found only on request"
    );
    let with = |kinds: &[IndexHitKind]| SearchQuery { kinds: kinds.to_vec(), ..all() };
    for expected_kind in
        [vec![Message, Message], vec![Summary], vec![Handoff], vec![Item], vec![Summary, Handoff, Item]]
    {
        assert_eq!(kinds(&store, with(&expected_kind)).await, expected_kind);
    }
    let hits = store.search(with(&[Summary, Handoff, Item])).await.unwrap().hits;
    for hit in hits {
        match hit.location {
            HitLocation::Summary { thread_id, first_turn, last_turn, .. } => {
                assert_eq!((thread_id, first_turn, last_turn), (Some(parent), 1, 2));
                assert_eq!((&*hit.snippet, hit.created_at), ("two \u{2}herons\u{3} were seen", at(5)));
                assert_eq!(hit.text, "two herons were seen");
            }
            HitLocation::Handoff { parent_thread_id, child_thread_id, .. } => {
                assert_eq!((parent_thread_id, child_thread_id), (parent, child));
                assert!(hit.snippet.contains("count the \u{2}herons\u{3}"), "{}", hit.snippet);
            }
            HitLocation::Item { namespace, key } => {
                assert_eq!((&*namespace.join("/"), &*key, hit.created_at), ("birds/grey", "heron", at(9)));
            }
            HitLocation::Message { .. } => panic!("it was not asked for"),
        }
    }
}

pub async fn messages_at_a_named_date_rank_higher(store: SharedStore) {
    let thread_id = create(&*store).await;
    let message_at = |text: &str, time: &str| {
        NewEvent::from_message(&Message::human(text), time.parse().unwrap()).unwrap()
    };
    let trace_events = (0..8).map(|_| trace_event(0));
    let events =
        [message_at("the port of march", "2026-03-14T10:00:00Z")].into_iter().chain(trace_events.clone());
    let events = events.chain([message_at("the port of old", "2025-03-02T10:00:00Z")]).chain(trace_events);
    let events = events.chain([message_at("the port of may", "2026-05-14T10:00:00Z")]).collect();
    append(&*store, thread_id, events).await.unwrap();
    let at =
        |year, month, day| SearchQuery { dates: vec![PartialDate { year, month, day }], ..any_of("port") };
    assert_eq!(seqs(&store, any_of("port")).await, [19, 10, 1]);
    assert_eq!(seqs(&store, at(None, Some(3), None)).await, [10, 1, 19]);
    assert_eq!(seqs(&store, at(Some(2026), Some(3), None)).await, [1, 19, 10]);
    assert_eq!(seqs(&store, at(None, Some(3), Some(14))).await, [1, 10, 19]);
    assert_eq!(seqs(&store, at(Some(2025), None, None)).await, [10, 19, 1]);
    assert_eq!(seqs(&store, at(None, None, None)).await, [19, 10, 1], "an empty date changes no rank");
}

pub async fn of_a_handoff_only_the_latest_or_accepted_proposal_is_found(store: SharedStore) {
    let parent = create(&*store).await;
    let handoff = protocol::Handoff { status: HandoffStatus::AwaitingDecision, ..handoff(parent, 1) };
    let accept = |handoff: &protocol::Handoff, proposal: &Proposal| Write::TransitionHandoff {
        handoff_id: handoff.handoff_id,
        from: HandoffStatus::AwaitingDecision,
        to: HandoffStatus::Accepted,
        patch: HandoffPatch {
            accepted_sha256: Some(proposal.summary_sha256.clone()),
            ..HandoffPatch::default()
        },
        at: at(3),
    };
    let first = proposal(&handoff, 0, "a first heron");
    let writes = vec![Write::CreateHandoff(handoff.clone()), Write::PutProposal(first.clone())];
    commit(&*store, writes).await.unwrap();
    assert_eq!(kinds(&store, search_for("first heron")).await, [IndexHitKind::Handoff]);
    let second = proposal(&handoff, 1, "a second, quite different egret");
    commit(&*store, vec![Write::PutProposal(second)]).await.unwrap();
    assert_eq!(kinds(&store, search_for("heron")).await, [], "only the latest proposal is found");
    assert_eq!(kinds(&store, search_for("egret")).await, [IndexHitKind::Handoff]);
    commit(&*store, vec![accept(&handoff, &first)]).await.unwrap();
    assert_eq!(
        kinds(&store, search_for("heron")).await,
        [IndexHitKind::Handoff],
        "the accepted proposal is found"
    );
    assert_eq!(kinds(&store, search_for("egret")).await, []);
}

pub async fn superseded_messages_are_in_no_search_result(store: SharedStore) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, ["word one", "word two", "word three"].map(human).to_vec()).await.unwrap();
    assert_eq!(seqs(&store, any_of("word")).await.len(), 3);
    rewind(&*store, thread_id, 1).await.unwrap();
    append(&*store, thread_id, vec![human("word four")]).await.unwrap();
    assert_eq!(seqs(&store, any_of("word")).await, [5, 1]);
    let fork = fork(&*store, thread_id, None).await;
    let of_fork = SearchQuery { thread_id: Some(fork), ..any_of("word") };
    assert_eq!(seqs(&store, of_fork).await, [5, 1], "a copy is found in its own thread");
}

pub async fn searches_and_appends_do_not_block_each_other(store: SharedStore) {
    const WRITERS: u64 = 4;
    const EVENTS: u64 = 50;
    let thread_id = create(&*store).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            for number in 0..EVENTS {
                append(&*store, thread_id, vec![human(&format!("heron {writer} {number}"))]).await.unwrap();
                let own = SearchQuery { limit: 5, ..search_for(&format!("heron {writer} {number}")) };
                assert!(!store.search(own).await.unwrap().hits.is_empty(), "an appended message is found");
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    store.update_search_index().await.unwrap();
    let all = SearchQuery { limit: 1_000, ..search_for("heron") };
    assert_eq!(store.search(all).await.unwrap().hits.len() as u64, WRITERS * EVENTS);
}
