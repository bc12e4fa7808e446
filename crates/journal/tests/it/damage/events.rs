//! Damaged events: any changed byte is noticed, no reader serves changed text, and what is intact stays readable.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use journal::copy::{JournalLocation, LostEvents, copy, salvage};
use journal::view::{HistoryEntry, HistoryItem};
use journal::{
    DamagedEvent, Error, EventQuery, HealthCheckDepth, HistoryFilter, HistoryQuery, RunPatch, SqliteStore,
    Store, SupersededVisibility, TurnQuery, VerificationPosition, Write, history_page,
};
use proptest::prelude::*;
use protocol::{AssistantId, Category, EventType, NewEvent, RunStatus, Seq, ThreadId};
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;
use tempfile::TempDir;

use crate::conformance::fixtures::{
    ai, append, commit, compaction_event, create, event, fork, human, rewind, run, search_for, seqs, thread,
    tool_calls, tool_result,
};
use crate::older;

/// The columns that the checksum of an event covers, and the checksum itself.
const COVERED_COLUMNS: [&str; 8] =
    ["event_id", "run_id", "category", "event_type", "created_at", "metadata", "content", "checksum"];

/// A closed database with one thread.
struct ClosedDatabase {
    /// Deletes the file when it is dropped.
    _folder: TempDir,
    path: PathBuf,
    thread_id: ThreadId,
}

/// The text of the message with the seq 3.
const TEXT: &str = "the kettle leaks at the lid ☕";

/// Creates a database with a thread of six messages of a run. Its last message has the seq 7.
async fn database() -> ClosedDatabase {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let run = run(thread_id, "one");
    let events: Vec<NewEvent> = vec![
        journal_event("started"),
        human("what is wrong with it?").with_metadata(&json!({"origin": "test"})).unwrap(),
        ai(TEXT),
        tool_calls(&["call"]),
        tool_result("call", "a file"),
        ai("it is mended"),
        human("thank you"),
    ];
    let events = events.into_iter().map(|event| event.with_run(run.run_id)).collect();
    commit(&store, vec![Write::AdmitRun(run), Write::Append { thread_id, events }]).await.unwrap();
    store.update_search_index().await.unwrap();
    drop(store);
    checkpoint_log(&path);
    ClosedDatabase { _folder: folder, path, thread_id }
}

fn journal_event(how: &str) -> NewEvent {
    event(EventType::RunStarted, &json!({"how": how, "model": "scripted/one"}))
}

/// Moves the content of the write-ahead log into the file.
fn checkpoint_log(path: &Path) {
    Connection::open(path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

impl ClosedDatabase {
    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path).unwrap()
    }

    /// Flips one bit of a text in the file. Pages that are not in use can contain the text too.
    fn flip_bit_of(&self, text: &str, bit: usize) {
        let mut bytes = fs::read(&self.path).unwrap();
        let positions: Vec<usize> = bytes
            .windows(text.len())
            .enumerate()
            .filter(|(_, window)| *window == text.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!positions.is_empty(), "`{text}` is stored");
        for position in positions {
            bytes[position + bit / 8] ^= 1 << (bit % 8);
        }
        fs::write(&self.path, bytes).unwrap();
    }

    /// Replaces a byte of a column of an event by another one, without a change of the checksum.
    fn change_byte(&self, seq: Seq, column: &str, position: usize, change: u8) {
        let raw = Connection::open(&self.path).unwrap();
        let read = format!("SELECT {column} FROM events WHERE seq = ?1");
        let (value, sql_type) =
            match raw.query_row(&read, [seq.cast_signed()], |row| row.get::<_, Value>(0)).unwrap() {
                Value::Integer(number) => {
                    let mut bytes = number.to_be_bytes();
                    bytes[position % 8] ^= change;
                    (Value::Integer(i64::from_be_bytes(bytes)), "INTEGER")
                }
                Value::Text(text) => (Value::Blob(with_change(text.into_bytes(), position, change)), "TEXT"),
                Value::Blob(bytes) => (Value::Blob(with_change(bytes, position, change)), "BLOB"),
                Value::Null | Value::Real(_) => (Value::Text("{}".to_owned()), "TEXT"),
            };
        let write = format!("UPDATE events SET {column} = CAST(?1 AS {sql_type}) WHERE seq = ?2");
        raw.execute(&write, (value, seq.cast_signed())).unwrap();
    }
}

fn with_change(mut bytes: Vec<u8>, position: usize, change: u8) -> Vec<u8> {
    let length = bytes.len();
    bytes[position % length] ^= change;
    bytes
}

fn is_damaged<T: std::fmt::Debug>(result: &journal::Result<T>, expected: Seq) -> bool {
    matches!(result, Err(error @ Error::DamagedEvent { seq, .. }) if *seq == expected && error.is_corruption())
}

async fn whole_history(store: &SqliteStore, thread_id: ThreadId) -> Vec<HistoryEntry> {
    let query = HistoryQuery { limit: 50, ..HistoryQuery::default() };
    history_page(store, thread_id, &query).await.unwrap().entries
}

fn damaged_seqs(entries: &[HistoryEntry]) -> Vec<Seq> {
    let damaged = entries.iter().filter(|entry| matches!(entry.item, HistoryItem::Damaged(_)));
    damaged.map(|entry| entry.seq).collect()
}

proptest! {
    #[test]
    fn a4_any_changed_byte_of_a_stored_event_is_noticed(
        seq in 2_u64..=7, column in 0..COVERED_COLUMNS.len(), position in 0_usize..1_000, change in 1_u8..=255,
    ) {
        let column = COVERED_COLUMNS[column];
        // Only one message has metadata.
        let seq = if column == "metadata" { 2 } else { seq };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let database = database().await;
            database.change_byte(seq, column, position, change);
            let store = database.open();
            let thread_id = database.thread_id;
            let read = store.events(thread_id, EventQuery::after(0, 50)).await;
            prop_assert!(is_damaged(&read, seq), "{read:?}");
            let single = EventQuery { before: Some(seq + 1), ..EventQuery::after(seq - 1, 1) };
            prop_assert!(is_damaged(&store.events(thread_id, single).await, seq));
            let before = store.events(thread_id, EventQuery { before: Some(seq), ..EventQuery::after(0, 50) }).await;
            prop_assert_eq!(before.unwrap().len() as u64, seq - 1);
            let verified = store.verify_events(VerificationPosition::OLDEST, 50).await.unwrap();
            prop_assert_eq!(verified.damaged, vec![DamagedEvent { thread_id, seq }]);
            prop_assert_eq!((verified.events, verified.unchecked), (7, 0));
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn events_are_verified_batch_by_batch_in_both_directions() {
    let database = database().await;
    for seq in [2, 6] {
        database.change_byte(seq, "content", 20, 1);
    }
    let store = database.open();
    for (start, expected) in
        [(VerificationPosition::OLDEST, [2_u64, 6]), (VerificationPosition::NEWEST, [6, 2])]
    {
        let (mut position, mut events, mut damaged) = (Some(start), 0, Vec::new());
        while let Some(current) = position {
            let batch = store.verify_events(current, 3).await.unwrap();
            events += batch.events;
            damaged.extend(batch.damaged.iter().map(|event| event.seq));
            position = batch.next;
        }
        assert_eq!((events, &damaged[..]), (7, &expected[..]), "{start:?}");
    }
}

#[tokio::test]
async fn a4_a_flipped_bit_of_stored_text_is_served_by_no_reader() {
    for bit in (0..TEXT.len() * 8).step_by(17) {
        let database = database().await;
        database.flip_bit_of(TEXT, bit);
        let store = database.open();
        let thread_id = database.thread_id;
        let newest = store.events(thread_id, EventQuery { limit: 9, ..EventQuery::default() }).await;
        assert!(is_damaged(&newest, 3), "bit {bit}: {newest:?}");
        let run_id = store.newest_run(thread_id).await.unwrap().unwrap();
        assert!(is_damaged(&store.run_events(thread_id, run_id, 0, 50).await, 3), "bit {bit}");
        let turns = TurnQuery::for_agent(AssistantId::default());
        assert!(is_damaged(&store.turns(turns.clone()).await, 3), "bit {bit}");
        let of_thread = TurnQuery { thread_id: Some(thread_id), ..turns };
        assert!(is_damaged(&store.turns(of_thread).await, 3), "bit {bit}");
        let found = store.search(search_for("kettle")).await.unwrap();
        let snippets: Vec<&str> = found.hits.iter().map(|hit| hit.snippet.as_str()).collect();
        assert_eq!(snippets, ["(the stored message is damaged)"], "bit {bit}");
        let entries = whole_history(&store, thread_id).await;
        assert_eq!(damaged_seqs(&entries), [3], "bit {bit}");
        let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
        // A text that is not JSON any more is a problem of its own.
        let expected = format!("damaged events of thread {thread_id}: 3");
        assert_eq!(health.problems.last(), Some(&expected), "bit {bit}: {:?}", health.problems);
    }
}

#[tokio::test]
async fn a4_copies_of_a_damaged_event_are_damaged_too() {
    let database = database().await;
    database.flip_bit_of(TEXT, 9);
    let store = database.open();
    // The fork ends after the damaged message. Its first prompt is read from the messages before it.
    let forked = thread();
    let fork_id = forked.thread_id;
    let copy_events = Write::CopyEvents { from: database.thread_id, until: Some(3), into: fork_id };
    let refused = commit(&store, vec![Write::CreateThread(forked.clone()), copy_events]).await;
    assert!(is_damaged(&refused, 3), "{refused:?}");
    let intact = fork(&store, database.thread_id, Some(2)).await;
    assert_eq!(store.events(intact, EventQuery::after(0, 9)).await.unwrap().len(), 1);
    drop(store);
    let target = database.path.with_extension("copy");
    let (from, to) = (JournalLocation::File(database.path.clone()), JournalLocation::File(target.clone()));
    copy(from, to, Box::new(|_| ControlFlow::Continue(()))).await.unwrap();
    let copied = SqliteStore::open(&target).unwrap();
    let read = copied.events(database.thread_id, EventQuery::after(0, 50)).await;
    assert!(is_damaged(&read, 3), "{read:?}");
}

fn query_for(categories: &[Category], types: &[EventType]) -> EventQuery {
    EventQuery { categories: categories.to_vec(), types: types.to_vec(), limit: 50, ..EventQuery::default() }
}

#[tokio::test]
async fn a4_a_damaged_category_or_type_hides_no_event_from_a_filtered_read() {
    use Category::{Message, Middleware};
    for (column, position) in [("category", 0), ("category", 6), ("event_type", 0), ("event_type", 9)] {
        let database = database().await;
        database.change_byte(3, column, position, 1);
        let store = database.open();
        let thread_id = database.thread_id;
        for query in [
            query_for(&[Message], &[]),
            query_for(&[Message, Middleware], &[]),
            query_for(&[], &[EventType::AiMessage]),
            query_for(&[Message], &[EventType::AiMessage, EventType::HumanMessage]),
        ] {
            for query in [query.clone(), EventQuery { after: Some(0), ..query }] {
                let read = store.events(thread_id, query.clone()).await;
                assert!(is_damaged(&read, 3), "{column} {position} {query:?}: {read:?}");
            }
        }
        let newest = EventQuery { limit: 2, ..query_for(&[Message], &[]) };
        let newest = store.events(thread_id, newest).await.unwrap();
        assert_eq!(seqs(&newest), [6, 7], "only the events that are read count");
        let entries = whole_history(&store, thread_id).await;
        assert_eq!(damaged_seqs(&entries), [3], "{column} {position}");
    }
}

#[tokio::test]
async fn damage_of_an_event_that_is_no_message_leaves_the_messages_readable() {
    for column in ["category", "event_type", "content"] {
        let database = database().await;
        database.change_byte(1, column, 3, 1);
        let store = database.open();
        let thread_id = database.thread_id;
        let messages = store.events(thread_id, query_for(&[Category::Message], &[])).await.unwrap();
        assert_eq!(seqs(&messages), [2, 3, 4, 5, 6, 7], "{column}");
        let started = store.events(thread_id, query_for(&[], &[EventType::RunStarted])).await;
        assert!(is_damaged(&started, 1), "{column}: {started:?}");
    }
}

/// Markers and pins are found by indexes of their own, so the damage is in the row and not in the index. The index of pins
/// has the only type of its events, which SQLite takes from there: the event is served as it was.
#[tokio::test]
async fn a4_a_damaged_type_hides_neither_markers_nor_pins() {
    let pins = event(EventType::PinsChanged, &json!({"pins": []}));
    for (event, names) in [
        (compaction_event((1, 2), None, "S"), "middlewaremiddleware:summarize"),
        (pins, "contextpins_changed"),
    ] {
        let database = database().await;
        let store = database.open();
        let event_type = event.event_type;
        assert_eq!(append(&store, database.thread_id, vec![event]).await.unwrap(), [8]);
        drop(store);
        checkpoint_log(&database.path);
        database.flip_bit_of(names, names.len() * 8 - 3);
        let store = database.open();
        let query = query_for(&[], &[event_type]);
        for query in [EventQuery { limit: 1, ..query.clone() }, EventQuery { after: Some(0), ..query }] {
            let read = store.events(database.thread_id, query).await;
            let is_served = event_type == EventType::PinsChanged
                && matches!(&read, Ok(events) if events.iter().map(|event| event.seq).eq([8]));
            assert!(is_served || is_damaged(&read, 8), "{names}: {read:?}");
        }
    }
}

#[tokio::test]
async fn a4_a_fork_leaves_out_no_message_whose_category_is_damaged() {
    let database = database().await;
    database.change_byte(3, "category", 0, 1);
    let store = database.open();
    let forked = thread();
    let copy_events = Write::CopyEvents { from: database.thread_id, until: Some(3), into: forked.thread_id };
    let refused = commit(&store, vec![Write::CreateThread(forked), copy_events]).await;
    assert!(is_damaged(&refused, 3), "{refused:?}");
}

/// Gives these events of a thread names that only a later version knows.
pub fn later_version_sql(seqs: &str) -> String {
    format!(
        "UPDATE events SET category = 'later', event_type = 'later_message', checksum = NULL WHERE seq IN ({seqs})"
    )
}

/// Checks the pages of a thread of ten messages, of which a later version has stored the second, the third and the seventh.
pub async fn check_pages_without_later_events(store: &dyn Store, thread_id: ThreadId) {
    let messages = |limit| EventQuery { limit, ..query_for(&[Category::Message], &[]) };
    for (query, expected) in [
        (EventQuery { after: Some(0), ..messages(3) }, vec![1, 4, 5]),
        (EventQuery { after: Some(1), ..messages(1) }, vec![4]),
        (EventQuery { before: Some(8), ..messages(3) }, vec![4, 5, 6]),
        (EventQuery { before: Some(4), ..messages(9) }, vec![1]),
        (messages(8), vec![1, 4, 5, 6, 8, 9, 10]),
        (EventQuery { limit: 6, ..query_for(&[], &[EventType::HumanMessage]) }, vec![4, 5, 6, 8, 9, 10]),
        (messages(50), vec![1, 4, 5, 6, 8, 9, 10]),
    ] {
        let events = store.events(thread_id, query.clone()).await.unwrap();
        assert_eq!(seqs(&events), expected, "{query:?}");
    }
    assert_eq!(store.events(thread_id, EventQuery::after(0, 50)).await.unwrap().len(), 10);
}

/// Appends nine messages, of which rewinds leave the first, the fourth and the seventh.
pub async fn append_between_rewinds(store: &dyn Store, thread_id: ThreadId) {
    for keep_seq in [1, 4, 7] {
        append(store, thread_id, vec![human("kept"), human("superseded"), human("superseded")])
            .await
            .unwrap();
        commit(store, vec![Write::Rewind { thread_id, keep_seq, at: jiff::Timestamp::UNIX_EPOCH }])
            .await
            .unwrap();
    }
}

/// Checks the pages of the thread of [`append_between_rewinds`], of which a later version has stored the fourth message.
pub async fn check_rewound_pages_without_later_events(store: &dyn Store, thread_id: ThreadId) {
    for (after, limit) in [(Some(0), 2), (Some(0), 50), (None, 2), (None, 50)] {
        let query = EventQuery { after, limit, ..query_for(&[Category::Message], &[]) };
        assert_eq!(seqs(&store.events(thread_id, query).await.unwrap()), [1, 7], "{after:?} {limit}");
    }
}

#[tokio::test]
async fn a23_events_of_a_later_version_take_the_place_of_no_others_on_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, (1..=10).map(|number| human(&number.to_string())).collect()).await.unwrap();
    Connection::open(&path).unwrap().execute_batch(&later_version_sql("2, 3, 7")).unwrap();
    check_pages_without_later_events(&store, thread_id).await;
    let path = folder.path().join("rewound.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append_between_rewinds(&store, thread_id).await;
    Connection::open(&path).unwrap().execute_batch(&later_version_sql("4")).unwrap();
    check_rewound_pages_without_later_events(&store, thread_id).await;
}

#[tokio::test]
async fn a_thread_can_be_used_again_after_a_rewind_to_before_its_damage() {
    let database = database().await;
    database.change_byte(4, "content", 20, 1);
    let store = database.open();
    let run = store.active_runs(None).await.unwrap().remove(0);
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    commit(&store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    rewind(&store, database.thread_id, 3).await.unwrap();
    append(&store, database.thread_id, vec![human("again")]).await.unwrap();
    let events = store.events(database.thread_id, EventQuery::after(0, 50)).await.unwrap();
    assert!(events.iter().any(|event| event.seq == 3) && events.iter().all(|event| event.seq != 4));
}

#[tokio::test]
async fn b14_the_history_of_a_damaged_thread_shows_what_is_intact() {
    let database = database().await;
    for seq in [3, 4, 7] {
        database.change_byte(seq, "content", 20, 1);
    }
    let store = database.open();
    let thread_id = database.thread_id;
    let entries = whole_history(&store, thread_id).await;
    let seqs: Vec<Seq> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!((seqs, damaged_seqs(&entries)), (vec![2, 3, 4, 5, 6, 7], vec![3, 4, 7]));
    assert!(entries[3].message().is_some() && entries[3].call.is_none(), "the call is damaged");
    // Pages of one entry, in both directions, have the same entries.
    let mut forwards = Vec::new();
    let mut backwards = Vec::new();
    loop {
        let after_seq = Some(forwards.last().map_or(0, |entry: &HistoryEntry| entry.seq));
        let query = HistoryQuery { after_seq, limit: 1, ..HistoryQuery::default() };
        let page = history_page(&store, thread_id, &query).await.unwrap();
        forwards.extend(page.entries);
        if !page.has_more_after {
            break;
        }
    }
    loop {
        let before_seq = backwards.first().map(|entry: &HistoryEntry| entry.seq);
        let query = HistoryQuery { before_seq, limit: 1, ..HistoryQuery::default() };
        let page = history_page(&store, thread_id, &query).await.unwrap();
        backwards.splice(0..0, page.entries);
        if !page.has_more_before {
            break;
        }
    }
    let all_seqs = |entries: &[HistoryEntry]| entries.iter().map(|entry| entry.seq).collect::<Vec<_>>();
    assert_eq!((all_seqs(&forwards), all_seqs(&backwards)), (all_seqs(&entries), all_seqs(&entries)));
    let shown = HistoryQuery {
        limit: 50,
        superseded: SupersededVisibility::Shown,
        feedback: Some("local".to_owned()),
        ..HistoryQuery::default()
    };
    let page = history_page(&store, thread_id, &shown).await.unwrap();
    assert_eq!(damaged_seqs(&page.entries), [3, 4, 7]);
    assert!(page.entries.iter().all(|entry| !entry.is_superseded));
    let markers = HistoryQuery { filter: HistoryFilter::Markers, limit: 50, ..HistoryQuery::default() };
    assert_eq!(history_page(&store, thread_id, &markers).await.unwrap().entries, []);
    let json = serde_json::to_value(&entries[1]).unwrap();
    assert_eq!((&json["type"], &json["seq"]), (&json!("event_damaged"), &json!(3)), "{json}");
    assert!(!json.to_string().contains("kettle"), "{json}");
}

#[tokio::test]
async fn events_of_an_earlier_version_are_read_without_a_checksum() {
    let database = database().await;
    older::make(&database.path, 10);
    let store = database.open();
    assert_eq!(append(&store, database.thread_id, vec![human("a kettle")]).await.unwrap(), [8]);
    assert_eq!(store.events(database.thread_id, EventQuery::after(0, 50)).await.unwrap().len(), 8);
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.problems, health.unchecked_events), (Vec::new(), 7));
    drop(store);
    // Damage of their form is noticed in any case.
    database.change_byte(3, "content", 0, 1);
    database.change_byte(8, "content", 0, 1);
    let store = database.open();
    assert!(is_damaged(&store.events(database.thread_id, EventQuery::after(0, 7)).await, 3));
    assert!(is_damaged(&store.events(database.thread_id, EventQuery::after(3, 9)).await, 8));
}

#[tokio::test]
async fn a_salvage_saves_everything_that_is_intact() {
    let database = database().await;
    let store = database.open();
    let other = create(&store).await;
    append(&store, other, vec![human("another kettle"), ai("is intact")]).await.unwrap();
    let before = store.events(database.thread_id, EventQuery::after(0, 50)).await.unwrap();
    drop(store);
    checkpoint_log(&database.path);
    database.change_byte(3, "content", 30, 1);
    database.change_byte(4, "event_id", 3, 1);
    let bytes = fs::read(&database.path).unwrap();
    let to = database.path.with_extension("saved");
    let never_stop = || Box::new(|_: &journal::copy::CopyProgress| ControlFlow::Continue(()));
    let report = salvage(database.path.clone(), to.clone(), never_stop()).await.unwrap().unwrap();
    let lost = vec![LostEvents { thread_id: database.thread_id, ranges: vec![(3, 4)] }];
    assert_eq!((report.threads, report.events, &report.lost_events), (2, 7, &lost), "{report:?}");
    assert_eq!((report.lost_rows, report.problems), (Vec::new(), Vec::<String>::new()));
    assert!(fs::read(&database.path).unwrap() == bytes, "the damaged file is not changed");
    let saved = SqliteStore::open(&to).unwrap();
    let read = saved.events(database.thread_id, EventQuery::after(0, 50)).await.unwrap();
    let intact: Vec<_> = before.into_iter().filter(|event| ![3, 4].contains(&event.seq)).collect();
    assert_eq!(read, intact);
    assert_eq!(saved.events(other, EventQuery::after(0, 50)).await.unwrap().len(), 2);
    assert_eq!(append(&saved, database.thread_id, vec![human("go on")]).await.unwrap(), [8]);
    assert_eq!(saved.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    let refused = salvage(database.path.clone(), to.clone(), never_stop()).await;
    assert!(matches!(refused, Err(Error::UnsuitableTarget { .. })), "{refused:?}");
    let names =
        fs::read_dir(database.path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("salvage")), "no copy remains");
}

#[tokio::test]
async fn a_salvage_skips_pages_that_cannot_be_read() {
    const MESSAGES: u64 = 4_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let messages = (0..MESSAGES).map(|number| human(&format!("{number} {}", "words ".repeat(40))));
    append(&store, thread_id, messages.collect()).await.unwrap();
    drop(store);
    checkpoint_log(&path);
    // Two groups of pages in the middle of the file have events.
    let mut bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4_096;
    for page in [pages / 3, pages / 3 + 1, pages / 2] {
        bytes[page * 4_096..(page + 1) * 4_096].fill(0xFF);
    }
    fs::write(&path, &bytes).unwrap();
    let to = folder.path().join("saved.db");
    let report = salvage(path, to.clone(), Box::new(|_| ControlFlow::Continue(()))).await.unwrap().unwrap();
    let lost: u64 =
        report.lost_events.iter().flat_map(|lost| &lost.ranges).map(|(first, last)| last - first + 1).sum();
    assert_eq!(report.events + lost, MESSAGES, "{report:?}");
    assert!(lost > 0 && lost < 400, "{report:?}");
    assert_eq!(report.problems, Vec::<String>::new());
    let saved = SqliteStore::open(&to).unwrap();
    assert_eq!(saved.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    assert_eq!(append(&saved, thread_id, vec![human("go on")]).await.unwrap(), [MESSAGES + 1]);
}
