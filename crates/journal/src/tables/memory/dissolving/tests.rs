//! What it costs when summaries go, and how the engine finds the rows.

use crate::engines::sql::Connection;
use jiff::Timestamp;
use protocol::{
    ArchiveReason, AssistantId, EventType, MediumTermSummary, Message, Thread, TurnsArchived, Usage,
};

use super::*;
use crate::tables::memory::summaries;
use crate::tables::{database, plan, threads, traced};
use crate::{Planned, Transfer};

/// Stores a summary of one turn, and tells the thread, in whose context nothing is before the next.
fn leave(db: &Connection, thread_id: ThreadId, turn: u64) {
    let summary = MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: "We counted.".to_owned(),
        turn_range_start: turn,
        turn_range_end: turn,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let told = TurnsArchived {
        schema_version: 1,
        summary_id: summary.id,
        reason: ArchiveReason::Budget,
        first_seq: turn,
        last_seq: turn,
        context_from: Some(turn + 1),
        turn_count: 1,
        turn_range_start: turn,
        turn_range_end: turn,
        summary: "We counted.".to_owned(),
        model: "extractive".to_owned(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq: None,
    };
    let planned = Planned { thread_id, last_seq: threads::find(db, thread_id).unwrap().unwrap().last_seq };
    let transfer = Transfer { summary, thread_id: Some(thread_id), turns: 1, threads: vec![planned] };
    summaries::transfer(db, &transfer).unwrap();
    let event = NewEvent::new(EventType::TurnsArchived, &told, Timestamp::UNIX_EPOCH).unwrap();
    events::append(db, thread_id, &[event]).unwrap();
}

#[test]
fn f7_a_thousand_summaries_go_one_by_one_and_not_each_with_all() {
    const SUMMARIES: u64 = 1_000;
    let mut database = database();
    let statements = traced(&mut database);
    let db = Connection::Sqlite(&database);
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    threads::create(&db, &thread).unwrap();
    let said =
        |turn: u64| NewEvent::message(&Message::human(turn.to_string()), Timestamp::UNIX_EPOCH).unwrap();
    events::append(&db, thread_id, &(0..=SUMMARIES).map(said).collect::<Vec<_>>()).unwrap();
    database.execute_batch("BEGIN").unwrap();
    (1..=SUMMARIES).for_each(|turn| leave(&db, thread_id, turn));
    statements.lock().unwrap().clear();
    rewinds::rewind(&db, thread_id, 0, Timestamp::UNIX_EPOCH).unwrap();
    let statements = std::mem::take(&mut *statements.lock().unwrap());
    let of_markers =
        statements.iter().filter(|sql| sql.contains("FROM events e") && sql.contains(MARKER_EVENTS));
    assert_eq!(of_markers.count(), 2, "the markers are read once for all of them");
    let each = statements.len() as u64 / SUMMARIES;
    assert!(each < 25, "{each} statements a summary");
    let left: i64 = database.query_row("SELECT count(*) FROM summaries", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn f7_what_goes_is_found_through_indexes() {
    for sql in [told_sql(Dialect::Sqlite), told_after_sql(Dialect::Sqlite), unrely_sql(Dialect::Sqlite)] {
        let plan = plan(&sql);
        assert!(!plan.iter().any(|step| step.contains("SCAN")), "{sql}: {plan:#?}");
        assert!(
            plan.iter().any(|step| step.contains("USING INDEX events_markers (thread_key=?")),
            "{plan:#?}"
        );
    }
    let markers = "SCAN e USING INDEX events_markers";
    assert_eq!(plan(&elsewhere_sql(Dialect::Sqlite))[0], markers, "of all events only where contexts change");
}
