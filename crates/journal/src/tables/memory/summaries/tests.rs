//! The cost of storing summaries: the number of statements and their query plans.

use jiff::Timestamp;
use protocol::{AssistantId, Message, NewEvent, SummaryId, Thread};

use super::*;
use crate::TurnQuery;
use crate::tables::memory::turns;
use crate::tables::{count_machine_steps, events, query_plan, test_database, trace_statements};

/// Creates a thread with `turns` messages.
fn create_thread_with_turns(db: &SqlConnection, turns: usize) -> ThreadId {
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    threads::create_thread(db, &thread).unwrap();
    let message = |number: usize| {
        NewEvent::from_message(&Message::human(number.to_string()), Timestamp::UNIX_EPOCH).unwrap()
    };
    events::append(db, thread.thread_id, &(0..turns).map(message).collect::<Vec<_>>()).unwrap();
    thread.thread_id
}

fn summarization(
    first: u64,
    last: u64,
    thread_id: Option<ThreadId>,
    threads: &[ThreadId],
) -> TurnSummarization {
    let summary = MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: "We counted.".to_owned(),
        turn_range_start: first,
        turn_range_end: last,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let version = |thread_id: &ThreadId| ThreadVersion { thread_id: *thread_id, last_seq: 3_000 };
    let threads = threads.iter().map(version).collect();
    TurnSummarization { summary, thread_id, turns: last + 1 - first, thread_versions: threads }
}

#[test]
fn f6_a_window_of_any_length_is_archived_by_one_statement() {
    let mut database = test_database();
    let traced = trace_statements(&mut database);
    let db = SqlConnection::Sqlite(&database);
    let (large, small) = (create_thread_with_turns(&db, 3_000), create_thread_with_turns(&db, 10));
    let windows = [
        summarization(1, 2_000, None, &[large]),
        summarization(2_001, 3_000, Some(large), &[large]),
        summarization(3_001, 3_010, None, &[small]),
    ];
    for window in windows {
        traced.lock().unwrap().clear();
        super::summarize_turns(&db, &window).unwrap();
        let statements = traced.lock().unwrap();
        let turn_updates: Vec<&String> = statements
            .iter()
            .filter(|sql| sql.contains("UPDATE turns") || sql.contains("UPDATE turn_log"))
            .collect();
        assert_eq!(turn_updates.len(), 1, "{statements:#?}");
        assert!(turn_updates[0].contains("turn_index BETWEEN $3 AND $4"), "{turn_updates:?}");
        assert!(statements.len() < 40, "too many other statements: {statements:#?}");
    }
    let active = memory_counts(&db, "agent").unwrap();
    assert_eq!((active.active_turns, active.summarised_turns, active.summaries), (0, 3_010, 3));
}

#[test]
fn f6_queries_of_memory_are_answered_from_an_index() {
    let (agent_page, thread_page) = (turns::agent_page_sql(), turns::thread_page_sql(SqlDialect::Sqlite));
    let archive_thread = archive_thread_turns_sql(SqlDialect::Sqlite);
    let (list, list_project) = (list_sql(), list_project_sql());
    for sql in [ARCHIVE_TURNS_SQL, &archive_thread, &list, &list_project, &agent_page, &thread_page] {
        let plan = query_plan(sql);
        assert!(!plan.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{sql}: {plan:#?}");
    }
    // Only the rows of the result are sorted.
    let threads_plan = query_plan(RECORD_THREADS_SQL);
    assert!(!threads_plan.iter().any(|step| step.contains("SCAN")), "{threads_plan:#?}");
    let seq_index = "SEARCH e USING INDEX events_seq (thread_key=? AND seq>? AND seq<?)";
    assert_eq!(
        query_plan(&thread_page)[0],
        seq_index,
        "the messages of a seq_index are not searched among all messages of its agent"
    );
    assert!(query_plan(&archive_thread).contains(&seq_index.to_owned()));
    let markers = "INDEX events_markers (thread_key=? AND seq>?)";
    assert!(
        query_plan(&context_changed_sql()).iter().any(|step| step.ends_with(markers)),
        "{:?}",
        query_plan(&context_changed_sql())
    );
}

#[test]
fn b7_a_window_of_messages_is_read_without_those_behind_it() {
    let steps_of = |length: usize| {
        let mut database = test_database();
        let steps = count_machine_steps(&mut database);
        let db = SqlConnection::Sqlite(&database);
        let thread_id = create_thread_with_turns(&db, length);
        let query = TurnQuery {
            thread_id: Some(thread_id),
            first: 11,
            last: 40,
            archived: Some(false),
            limit: 128,
            ..TurnQuery::for_agent(AssistantId::default())
        };
        let before = steps.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(turns::turn_page(&db, &query).unwrap().len(), 30);
        steps.load(std::sync::atomic::Ordering::Relaxed) - before
    };
    assert_eq!(steps_of(60), steps_of(3_000));
}
