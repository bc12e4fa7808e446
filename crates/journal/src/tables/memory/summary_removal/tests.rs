//! The cost of removing summaries: the number of statements and their query plans.

use crate::engines::sql::SqlConnection;
use jiff::Timestamp;
use protocol::{
    ArchiveReason, AssistantId, EventType, MediumTermSummary, Message, Thread, TurnsArchived, Usage,
};

use super::*;
use crate::tables::memory::summaries;
use crate::tables::{query_plan, test_database, threads, trace_statements};
use crate::{ThreadVersion, TurnSummarization};

/// Stores a summary of one message, and appends the event that removes the message and all earlier ones from the
/// context.
fn archive_turn(db: &SqlConnection, thread_id: ThreadId, turn: u64) {
    let summary = MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: "We counted.".to_owned(),
        turn_range_start: turn,
        turn_range_end: turn,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let archived = TurnsArchived {
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
    let version =
        ThreadVersion { thread_id, last_seq: threads::find(db, thread_id).unwrap().unwrap().last_seq };
    let summarization =
        TurnSummarization { summary, thread_id: Some(thread_id), turns: 1, thread_versions: vec![version] };
    summaries::summarize_turns(db, &summarization).unwrap();
    let event = NewEvent::new(EventType::TurnsArchived, &archived, Timestamp::UNIX_EPOCH).unwrap();
    events::append(db, thread_id, &[event]).unwrap();
}

#[test]
fn f7_removing_a_thousand_summaries_takes_a_constant_number_of_statements_each() {
    const SUMMARIES: u64 = 1_000;
    let mut database = test_database();
    let statements = trace_statements(&mut database);
    let db = SqlConnection::Sqlite(&database);
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    threads::create_thread(&db, &thread).unwrap();
    let message =
        |turn: u64| NewEvent::from_message(&Message::human(turn.to_string()), Timestamp::UNIX_EPOCH).unwrap();
    events::append(&db, thread_id, &(0..=SUMMARIES).map(message).collect::<Vec<_>>()).unwrap();
    database.execute_batch("BEGIN").unwrap();
    (1..=SUMMARIES).for_each(|turn| archive_turn(&db, thread_id, turn));
    statements.lock().unwrap().clear();
    rewinds::rewind(&db, thread_id, 0, Timestamp::UNIX_EPOCH).unwrap();
    let statements = std::mem::take(&mut *statements.lock().unwrap());
    let marker_queries =
        statements.iter().filter(|sql| sql.contains("FROM events e") && sql.contains(CONTEXT_CHANGE_EVENTS));
    assert_eq!(marker_queries.count(), 2, "the summary events are read once for all summaries");
    let each = statements.len() as u64 / SUMMARIES;
    assert!(each < 25, "{each} statements a summary");
    let remaining: i64 = database.query_row("SELECT count(*) FROM summaries", [], |row| row.get(0)).unwrap();
    assert_eq!(remaining, 0);
}

#[test]
fn f7_rows_to_be_removed_are_found_through_indexes() {
    for sql in [
        summary_events_sql(SqlDialect::Sqlite),
        summaries_after_sql(SqlDialect::Sqlite),
        dependents_sql(SqlDialect::Sqlite),
    ] {
        let plan = query_plan(&sql);
        assert!(!plan.iter().any(|step| step.contains("SCAN")), "{sql}: {plan:#?}");
        assert!(
            plan.iter().any(|step| step.contains("USING INDEX events_markers (thread_key=?")),
            "{plan:#?}"
        );
    }
    let markers = "SCAN e USING INDEX events_markers";
    assert_eq!(
        query_plan(&foreign_mentions_sql(SqlDialect::Sqlite))[0],
        markers,
        "only events that change a context are scanned"
    );
}
