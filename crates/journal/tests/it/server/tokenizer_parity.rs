//! Any text can be appended and searched, and a search returns the same hits from SQLite and PostgreSQL.

use std::collections::BTreeSet;

use journal::{HitLocation, SearchQuery, SqliteStore, Store, WordMatchMode, Write};
use protocol::{AssistantId, OwnerScope, Seq, Thread, ThreadId};

use crate::conformance::fixtures::{append, at, commit, create, human, messages, search_for};
use crate::server::races::{check_consistency, open_processes};

/// Fragments from which texts and queries are composed.
const TEXT_FRAGMENTS: [&str; 48] = [
    "heron",
    "herons",
    "running",
    "ran",
    "re-run",
    "run",
    "O'Neil",
    "über",
    "UBER",
    "u\u{308}ber",
    "ß",
    "STRASSE",
    "İi",
    "Σίσυφος",
    "σισυφος",
    "ﬁn",
    "日本",
    "日",
    "本語",
    "日本語",
    "の",
    "한국어",
    "한국",
    "ไทย",
    "ไ",
    "မြန်",
    "🦆",
    "👩‍👩‍👧",
    "a",
    "b",
    "a b",
    "\\",
    "'",
    "\"",
    "''",
    "&",
    "|",
    "!",
    "<->",
    ":*",
    "(a)",
    "\u{1f}",
    "\u{10FFFE}",
    "\u{e000}x",
    "\u{0}",
    "1.5",
    "x_y",
    "é\u{301}",
];

struct StorePair {
    sqlite: SqliteStore,
    postgres: std::sync::Arc<journal::PostgresStore>,
    threads: [ThreadId; 2],
    _database: test_postgres::TestDatabase,
}

impl StorePair {
    async fn new() -> Self {
        let (database, mut stores) = open_processes(1).await;
        let (sqlite, postgres) = (SqliteStore::in_memory().unwrap(), stores.remove(0));
        let threads = [create(&sqlite).await, create(&*postgres).await];
        Self { sqlite, postgres, threads, _database: database }
    }

    async fn append_texts(&self, texts: &[String]) {
        let stores: [&dyn Store; 2] = [&self.sqlite, &*self.postgres];
        for (store, thread_id) in stores.into_iter().zip(self.threads) {
            for texts in texts.chunks(20) {
                append(store, thread_id, texts.iter().map(|text| human(text)).collect()).await.unwrap();
            }
        }
    }
    /// Searches both stores, asserts that they return the same hits, and returns the hits' sequence numbers.
    async fn search_both(&self, query: &SearchQuery) -> BTreeSet<Seq> {
        let stores: [&dyn Store; 2] = [&self.sqlite, &*self.postgres];
        let mut results = Vec::new();
        for store in stores {
            let hits =
                store.search(query.clone()).await.unwrap_or_else(|error| panic!("{query:?}: {error}")).hits;
            let seqs = hits.into_iter().filter_map(|hit| match hit.location {
                journal::HitLocation::Message { seq, .. } => Some(seq),
                _ => None,
            });
            results.push(seqs.collect::<BTreeSet<_>>());
        }
        let [sqlite_hits, postgres_hits] = [results.remove(0), results.remove(0)];
        let short: Vec<String> = query.words.iter().map(|word| word.chars().take(80).collect()).collect();
        assert_eq!(
            sqlite_hits, postgres_hits,
            "{short:?} {:?}: SQLite's hits are on the left",
            query.match_mode
        );
        sqlite_hits
    }
}

fn text_of(numbers: &[usize]) -> String {
    numbers.iter().map(|number| TEXT_FRAGMENTS[number % TEXT_FRAGMENTS.len()]).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_random_texts_are_found_by_the_same_words_in_both_engines() {
    let stores = StorePair::new().await;
    let mut number = 7_usize;
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number >> 33
    };
    let mut some = |most: usize| (0..1 + next() % most).map(|_| next()).collect::<Vec<_>>();
    let texts: Vec<String> = (0..48).map(|_| text_of(&some(9))).collect();
    stores.append_texts(&texts).await;
    let mut hits = 0;
    for question in 0..300 {
        let words: Vec<String> = match TEXT_FRAGMENTS.get(question) {
            Some(piece) => vec![(*piece).to_owned()],
            // Several fragments in one word, or each in its own word.
            None if question % 3 == 0 => vec![text_of(&some(3)).replace(' ', "")],
            None => some(3)
                .into_iter()
                .map(|number| TEXT_FRAGMENTS[number % TEXT_FRAGMENTS.len()].to_owned())
                .collect(),
        };
        let match_mode = if question % 2 == 0 { WordMatchMode::All } else { WordMatchMode::Any };
        hits += stores
            .search_both(&SearchQuery { words, match_mode, limit: 60, ..SearchQuery::default() })
            .await
            .len();
    }
    assert!(hits > 500, "{hits}");
    check_consistency(&stores.postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_texts_beyond_every_index_limit_are_stored_and_found() {
    const KB: usize = 1 << 10;
    let stores = StorePair::new().await;
    let chinese: Vec<char> = (0..21_000).map(|at| char::from_u32(0x4E00 + at * 7 % 5_000).unwrap()).collect();
    let of_few: String = (0..21_000).map(|at| ['山', '水', '火', '木'][at * at % 7 % 4]).collect();
    let texts = [
        "x".repeat(64 * KB),
        format!("{}y", "x".repeat(3 * KB)),
        "a b ".repeat(16 * KB),
        chinese.iter().collect(),
        of_few.clone(),
        format!("{}日の出", "の".repeat(20_000)),
        "\0".repeat(64 * KB),
        "🦆".repeat(16 * KB),
        (0..16 * KB).map(|number| format!("{number:x} ")).collect(),
        "İ".repeat(32 * KB),
        "word, ".repeat(20_000),
        "heron".to_owned(),
    ];
    stores.append_texts(&texts).await;
    let of = |from: usize, many: usize| chinese[from..from + many].iter().collect::<String>();
    let questions = [
        ("x".repeat(3 * KB) + "y", 1),
        ("x".repeat(3 * KB), 0),
        ("x".repeat(64 * KB), 1),
        (of(3, 2), 1),
        (of(20_000, 2), 1),
        (of(20_000, 3), 1),
        (of(20_500, 9), 1),
        (of(20_000, 1) + &of(10, 1), 0),
        ("日の出".to_owned(), 1),
        ("のの".to_owned(), 1),
        ("出の".to_owned(), 0),
        ("山水".to_owned(), usize::MAX),
        ("火木山".to_owned(), usize::MAX),
        ("word-word".to_owned(), 1),
        ("a-b-a".to_owned(), 1),
        ("b-b".to_owned(), 0),
        ("3ffe-3fff".to_owned(), usize::MAX),
        ("10-11-12".to_owned(), 1),
        (of(0, 5_000), usize::MAX),
        ("heron".to_owned(), 1),
    ];
    for (word, expected) in questions {
        let hits = stores.search_both(&search_for(&word)).await.len();
        let shown: String = word.chars().take(20).collect();
        assert!(expected == usize::MAX || hits == expected, "{shown}: {hits}, not {expected}");
    }
    assert_eq!(messages(&*stores.postgres, "word").await.len(), 1);
    check_consistency(&stores.postgres).await;
}

/// Number of threads above which a search no longer filters by single thread ids.
const MANY: usize = 1_010;
/// Threads created in one transaction.
const TOGETHER: usize = 101;

#[tokio::test(flavor = "multi_thread")]
async fn k1_owners_with_few_and_with_many_threads_find_their_own_messages() {
    let (_database, stores) = open_processes(1).await;
    let store = &*stores[0];
    let [ann, bob]: [AssistantId; 2] = ["agent@ann", "agent@bob"].map(|id| id.parse().unwrap());
    let mut created: Vec<(AssistantId, ThreadId)> = Vec::new();
    for first in (0..MANY).step_by(TOGETHER) {
        let mut writes = Vec::new();
        for number in first..first + TOGETHER {
            let assistant_id = if number % 250 == 1 { &ann } else { &bob };
            let thread_id = ThreadId::generate();
            let text = if number % 100 == 1 { "a heron" } else { "a duck" };
            writes.push(Write::CreateThread(Thread::blank(thread_id, assistant_id.clone(), at(1))));
            writes.push(Write::Append { thread_id, events: vec![human(text)] });
            if number % 100 == 1 {
                created.push((assistant_id.clone(), thread_id));
            }
        }
        commit(store, writes).await.unwrap();
    }
    store.update_search_index().await.unwrap();
    for assistant_id in [&ann, &bob] {
        let own: BTreeSet<ThreadId> = created
            .iter()
            .filter(|(creator, _)| creator == assistant_id)
            .map(|(_, thread_id)| *thread_id)
            .collect();
        assert!(own.len() > 2);
        let scope = Some(OwnerScope::Owner(assistant_id.owner()));
        let queries = [
            SearchQuery { scope, ..search_for("heron") },
            SearchQuery { assistant_id: Some(assistant_id.clone()), ..search_for("heron") },
        ];
        for query in queries {
            let found = store.search(query).await.unwrap().hits;
            let found: Vec<ThreadId> = found
                .iter()
                .filter_map(|hit| match &hit.location {
                    HitLocation::Message { thread_id, .. } => Some(*thread_id),
                    _ => None,
                })
                .collect();
            assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (own.len(), own.clone()));
        }
    }
}
