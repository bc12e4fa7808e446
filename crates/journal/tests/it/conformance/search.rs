//! Finding messages by their words.

use journal::{Error, SearchHit, Write};
use protocol::{Message, NewEvent, ThreadId, ToolMessage};

use super::Subject;
use super::fixtures::{ai, append, at, commit, create, human, trace};

async fn find(store: &Subject, text: &str) -> Vec<u64> {
    let mut seqs: Vec<u64> = store.search(text, 50).await.unwrap().iter().map(|hit| hit.seq).collect();
    seqs.sort_unstable();
    seqs
}

pub async fn every_word_must_be_there(store: Subject) {
    let thread_id = create(&*store).await;
    let tool = ToolMessage {
        id: None,
        call_id: "c".to_owned(),
        name: None,
        content: vec![protocol::Block::text("error: Timeout while CONNECTING to café")],
        status: protocol::ToolStatus::Error,
    };
    let events = vec![
        human("The parser times out on nested tables"),
        ai("Nested parsers time out; see src/parse_table.rs:42"),
        trace(0),
        NewEvent::message(&Message::Tool(tool), at(3)).unwrap(),
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
    assert_eq!(find(&store, "connect").await, [4, 5], "what was said since is found");
    assert_eq!(store.search("connect", 1).await.unwrap().len(), 1);
    assert!(matches!(store.search("connect", 0).await, Err(Error::Invalid { .. })));
}

pub async fn scripts_without_spaces_are_found(store: Subject) {
    let thread_id = create(&*store).await;
    let events = ["明日の会議は東京で行います", "오늘 회의를 시작합니다", "การประชุมวันนี้", "会 議"].map(human);
    append(&*store, thread_id, events.to_vec()).await.unwrap();
    for (query, expected) in
        [("会議", vec![1, 4]), ("東京", vec![1]), ("京東", vec![]), ("회의", vec![2]), ("ประชุม", vec![3])]
    {
        assert_eq!(find(&store, query).await, expected, "{query}");
    }
    let hits = store.search("会議は", 5).await.unwrap();
    assert_eq!(hits[0].snippet, "明日の\u{2}会議は\u{3}東京で行います");
}

pub async fn no_query_is_a_syntax_error(store: Subject) {
    let thread_id = create(&*store).await;
    append(&*store, thread_id, vec![human("say \"hello\" OR NOT text:world* (NEAR) ^a+b-c")]).await.unwrap();
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
        ("hello\0world", vec![1]),
        ("hello —", vec![1]),
        ("\u{2}hello\u{3}", vec![1]),
        ("ª º ͅ", vec![]),
        ("'; DROP TABLE events; --", vec![]),
    ] {
        assert_eq!(find(&store, query).await, expected, "{query:?}");
    }
    let long = "word ".repeat(33);
    assert!(matches!(store.search(&long, 5).await, Err(Error::Invalid { .. })));
}

pub async fn what_was_deleted_is_not_found(store: Subject) {
    let (gone, stays) = (create(&*store).await, create(&*store).await);
    append(&*store, gone, vec![human("secret word"), human("secret again")]).await.unwrap();
    append(&*store, stays, vec![human("no secret")]).await.unwrap();
    let threads = |hits: Vec<SearchHit>| hits.iter().map(|hit| hit.thread_id).collect::<Vec<ThreadId>>();
    assert_eq!(threads(store.search("secret", 9).await.unwrap()).len(), 3);
    append(&*store, gone, vec![human("secret not yet indexed")]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id: gone }]).await.unwrap();
    assert_eq!(threads(store.search("secret", 9).await.unwrap()), [stays]);
}

pub async fn passages_mark_what_was_found(store: Subject) {
    let thread_id = create(&*store).await;
    let filler = "lorem ipsum ".repeat(2_000);
    let events = vec![
        human("We are running\nthe tests"),
        ai(&format!("{filler} the needle is here {filler}")),
        human(&format!("{} haystack", "x".repeat(5_000))),
        human("forged \u{2}mark\u{3} pin"),
    ];
    append(&*store, thread_id, events).await.unwrap();
    let hits = store.search("run", 5).await.unwrap();
    let expected = SearchHit {
        thread_id,
        seq: 1,
        role: "human".to_owned(),
        snippet: "We are \u{2}running\u{3} the tests".to_owned(),
        created_at: at(1),
    };
    assert_eq!(hits, [expected]);
    let hits = store.search("needle", 5).await.unwrap();
    assert!(hits[0].snippet.contains("the \u{2}needle\u{3} is here"), "{}", hits[0].snippet);
    assert_eq!(hits[0].role, "ai");
    let hits = store.search("haystack", 5).await.unwrap();
    assert!(hits[0].snippet.contains("\u{2}haystack\u{3}"), "{}", hits[0].snippet);
    assert!(hits[0].snippet.chars().count() <= 402);
    assert_eq!(store.search("pin", 5).await.unwrap()[0].snippet, "forged  mark  \u{2}pin\u{3}");
}
