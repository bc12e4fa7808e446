//! The size of each transaction of a deletion, and what is found between them.

use jiff::Timestamp;
use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};

use super::*;
use crate::tables::consistency::CONSISTENCY_QUERIES;
use crate::tables::search::{IndexPass, index_batch};
use crate::tables::threads::{self, DeletionReceipt};
use crate::tables::{events, query_plan, test_database};
use crate::{EventQuery, SearchQuery};

/// Number of events of a long thread: two parts and a rest.
const LONG: i64 = 2 * PURGED_EVENTS_MAX + 7;

/// Creates a thread with this many messages, all of which are in the search index.
fn create_thread(db: &SqlConnection, messages: i64) -> ThreadId {
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    threads::create_thread(db, &thread).unwrap();
    append(db, thread.thread_id, messages);
    // Three batches hold more messages than any thread of these tests has.
    for _ in 0..3 {
        index_batch(db, IndexPass::default()).unwrap();
    }
    thread.thread_id
}

/// Appends messages to a thread.
fn append(db: &SqlConnection, thread_id: ThreadId, messages: i64) {
    let message = |number: i64| {
        NewEvent::from_message(&Message::human(format!("heron {number}")), Timestamp::UNIX_EPOCH).unwrap()
    };
    events::append(db, thread_id, &(0..messages).map(message).collect::<Vec<_>>()).unwrap();
}

/// Deletes threads as one transaction does, and returns the keys of those whose purge is pending.
fn delete(db: &SqlConnection, thread_ids: &[ThreadId]) -> Vec<i64> {
    let mut receipt = DeletionReceipt::default();
    for thread_id in thread_ids {
        threads::delete_thread(db, *thread_id, &mut receipt).unwrap();
    }
    receipt.unpurged_threads
}

/// Returns the number of rows of a table.
fn count_rows(db: &SqlConnection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    db.prepare(&sql).unwrap().query_row((), |row| row.get(0)).unwrap()
}

/// Returns the numbers of events and of rows of the search index.
fn remaining_rows(db: &SqlConnection) -> (i64, i64) {
    (count_rows(db, "events"), count_rows(db, "search_index_docsize"))
}

/// Asserts that no read finds anything of a deleted thread, and that no row contradicts another.
fn check_invisible(db: &SqlConnection, thread_id: ThreadId) {
    assert!(threads::find(db, thread_id).unwrap().is_none());
    assert!(events::thread_page(db, thread_id, &EventQuery::after(0, 10)).unwrap().is_empty());
    assert_eq!(events::thread_size(db, thread_id).unwrap(), crate::ThreadSize::default());
    let query = SearchQuery { words: vec!["heron".to_owned()], limit: 10, ..SearchQuery::default() };
    for thread_id in [None, Some(thread_id)] {
        let query = SearchQuery { thread_id, ..query.clone() };
        assert!(search::search(db, &query, None).unwrap().is_empty());
    }
    for sql in CONSISTENCY_QUERIES {
        let problems: Vec<String> = db.prepare(sql).unwrap().query_map((), |row| row.get(0)).unwrap();
        assert_eq!(problems, Vec::<String>::new());
    }
}

#[test]
fn a26_a_long_thread_is_removed_in_parts_and_found_by_no_read_meanwhile() {
    let sqlite = test_database();
    let db = SqlConnection::Sqlite(&sqlite);
    let thread_id = create_thread(&db, LONG);
    assert_eq!(remaining_rows(&db), (LONG, LONG));
    let pending = delete(&db, &[thread_id]);
    assert_eq!(remaining_rows(&db), (LONG, LONG), "the first transaction removes no event");
    assert_eq!((count_rows(&db, "turns"), count_rows(&db, "threads")), (0, 0));
    assert_eq!(pending.len(), 1);
    let thread_key = pending[0];
    let mut states = Vec::new();
    for removed in [PURGED_EVENTS_MAX, 2 * PURGED_EVENTS_MAX, LONG] {
        check_invisible(&db, thread_id);
        states.push(purge_part(&db, thread_key).unwrap());
        assert_eq!(remaining_rows(&db), (LONG - removed, LONG - removed));
    }
    check_invisible(&db, thread_id);
    assert_eq!(states, [PurgeState::Incomplete, PurgeState::Incomplete, PurgeState::Complete]);
    assert_eq!(next_purge(&db).unwrap(), None);
    assert_eq!(purge_part(&db, thread_key).unwrap(), PurgeState::Complete, "a repetition changes nothing");
}

#[test]
fn h3_a_thread_that_gets_the_id_of_one_that_is_not_purged_yet_starts_empty() {
    let sqlite = test_database();
    let db = SqlConnection::Sqlite(&sqlite);
    let thread_id = create_thread(&db, LONG);
    let pending = delete(&db, &[thread_id]);
    purge_part(&db, pending[0]).unwrap();
    let again = Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH);
    threads::create_thread(&db, &again).unwrap();
    assert_eq!((count_rows(&db, "events"), next_purge(&db).unwrap()), (0, None));
    append(&db, thread_id, 2);
    assert_eq!(purge_part(&db, pending[0]).unwrap(), PurgeState::Complete);
    let page = events::thread_page(&db, thread_id, &EventQuery::after(0, 10)).unwrap();
    let last_seq = LONG.unsigned_abs();
    assert_eq!(page.iter().map(|event| event.seq).collect::<Vec<_>>(), [last_seq + 1, last_seq + 2]);
}

#[test]
fn a_transaction_that_deletes_many_threads_removes_a_limited_number_of_events() {
    let sqlite = test_database();
    let db = SqlConnection::Sqlite(&sqlite);
    let short = PURGED_EVENTS_MAX / 2;
    let threads = [(); 5].map(|()| create_thread(&db, short));
    let pending = delete(&db, &threads);
    assert_eq!((pending.len(), count_rows(&db, "events")), (3, 3 * short));
    threads.iter().for_each(|thread_id| check_invisible(&db, *thread_id));
    while purge_next_part(&db).unwrap() == PurgeState::Incomplete {}
    assert_eq!(remaining_rows(&db), (0, 0));
    let thread_id = create_thread(&db, PURGED_EVENTS_MAX);
    assert!(delete(&db, &[thread_id]).is_empty(), "a short thread is deleted by one transaction");
    assert_eq!(remaining_rows(&db), (0, 0));
}

#[test]
fn a_part_is_found_and_removed_by_the_index_of_seqs() {
    let by_seq = "INDEX events_seq (thread_key=? AND seq<?)";
    for sql in [PART_SQL, DELETE_EVENTS_SQL] {
        let plan = query_plan(sql);
        assert!(plan.iter().any(|step| step.ends_with(by_seq)), "{sql}: {plan:?}");
        assert!(plan.iter().all(|step| !step.contains("TEMP B-TREE")), "{sql}: {plan:?}");
    }
    let next = query_plan(NEXT_PURGE_SQL);
    assert_eq!(next, ["SEARCH outbox USING COVERING INDEX outbox_oldest (kind=?)"]);
}
