//! Acknowledged events survive a crash of the writing process, and no transaction is partial.

use std::io::{BufRead, BufReader, Read};

use journal::{
    EventQuery, HealthCheckDepth, SqliteStore, Store, SupersededVisibility, ThreadFilter, ThreadSort, Write,
};
use protocol::{EventType, Seq, ThreadId};
use serde_json::json;

use crate::conformance::fixtures::{
    all_events, append, at, commit, create, event, human, seqs, thread, trace_event,
};
use crate::processes::spawn;

const ROUNDS: usize = 25;

/// Returns the seqs that a child reported. An incomplete last line is ignored.
pub fn acknowledged_seqs(output: &str) -> Vec<Seq> {
    output
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.split_once("acknowledged ")?.1.parse().ok())
        .collect()
}

#[tokio::test]
async fn a3_acknowledged_events_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let thread_id = create(&SqliteStore::open(&database).unwrap()).await;
    let mut stored = 0;
    for round in 0..ROUNDS {
        let mut child = spawn("append_until_killed", &database, thread_id);
        let mut reports = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        // Each round kills after a different number of lines, so that the test does not depend on the clock.
        for _ in 0..(round * 37) % 400 + 10 {
            reports.read_line(&mut output).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        reports.read_to_string(&mut output).unwrap();
        let acknowledged = acknowledged_seqs(&output);

        let store = SqliteStore::open(&database).unwrap();
        let events = all_events(&store, thread_id, &[]).await;
        let last = events.last().unwrap().seq;
        assert_eq!(seqs(&events), (1..=last).collect::<Vec<_>>(), "round {round}: a prefix without a gap");
        assert!(acknowledged.iter().all(|seq| (stored + 1..=last).contains(seq)), "round {round}");
        // A transaction has two events with the same number: either both are stored or neither.
        assert!(last.is_multiple_of(2), "round {round}");
        assert!(events.chunks(2).all(|pair| pair[0].content.get() == pair[1].content.get()), "round {round}");
        stored = last;
    }
    let store = SqliteStore::open(&database).unwrap();
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.events, health.problems), (stored, vec![]));
}

/// The task of a child: in an endless loop, appends four messages, rewinds two of them, and copies the others. The rewind
/// and the copy are one transaction each, whose last event states the expected result.
pub async fn rewind_and_copy(store: &dyn Store, thread_id: ThreadId) {
    loop {
        let appended = append(store, thread_id, ["one", "two", "three", "four"].map(human).to_vec()).await;
        let keep_seq = appended.unwrap()[1];
        let rewound = event(EventType::ThreadRewound, &json!({"keep_seq": keep_seq, "superseded": 2}));
        let writes = vec![
            Write::Rewind { thread_id, keep_seq, at: at(3) },
            Write::Append { thread_id, events: vec![rewound] },
        ];
        let last = commit(store, writes).await.unwrap().seqs[0][0];
        let messages = store.thread(thread_id).await.unwrap().unwrap().message_count;
        let fork = thread();
        let into = fork.thread_id;
        let writes = vec![
            Write::CreateThread(fork),
            Write::CopyEvents { from: thread_id, until: Some(last), into },
            Write::Append { thread_id: into, events: vec![trace_event(messages)] },
        ];
        commit(store, writes).await.unwrap();
        println!("acknowledged {last}");
    }
}

#[tokio::test]
async fn a3_a_rewind_or_a_copy_is_atomic() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let thread_id = create(&SqliteStore::open(&database).unwrap()).await;
    for round in 0..ROUNDS {
        let mut child = spawn("rewind_until_killed", &database, thread_id);
        let mut reports = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        for _ in 0..round % 7 + 1 {
            reports.read_line(&mut output).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        reports.read_to_string(&mut output).unwrap();

        let store = SqliteStore::open(&database).unwrap();
        let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
        assert_eq!(health.problems, Vec::<String>::new(), "round {round}");
        let rewinds = check_rewinds(&store, thread_id).await;
        assert!(acknowledged_seqs(&output).iter().all(|seq| rewinds.contains(seq)), "round {round}");
        check_copies(&store, thread_id).await;
    }
}

/// Asserts that exactly the events named by the rewind events are superseded. Returns the seqs of the rewind events.
async fn check_rewinds(store: &SqliteStore, thread_id: ThreadId) -> Vec<Seq> {
    let visible = seqs(&all_events(store, thread_id, &[]).await);
    let query = EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(0, 5_000) };
    let all = store.events(thread_id, query).await.unwrap();
    let rewinds = all.iter().filter(|event| event.kind() == Some(EventType::ThreadRewound));
    let mut expected = seqs(&all);
    for rewind in rewinds.clone() {
        let keep_seq = rewind.content_value()["keep_seq"].as_u64().unwrap();
        expected.retain(|seq| *seq <= keep_seq || *seq >= rewind.seq);
    }
    assert_eq!(visible, expected);
    rewinds.map(|event| event.seq).collect()
}

/// Asserts that every copy has the number of messages that its last event states.
async fn check_copies(store: &SqliteStore, source: ThreadId) {
    let filter = ThreadFilter {
        order: ThreadSort::NEWEST,
        ..ThreadFilter::for_scope(protocol::OwnerScope::Everyone, 1_000)
    };
    for copy in store.threads(filter).await.unwrap() {
        if copy.thread_id == source {
            continue;
        }
        let last_event = all_events(store, copy.thread_id, &[]).await.pop().unwrap();
        assert_eq!(last_event.content_value()["number"].as_u64(), Some(copy.message_count));
    }
}
