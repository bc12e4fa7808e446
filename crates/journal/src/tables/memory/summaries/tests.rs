//! What a transfer costs: its statements, and how the engine finds the rows.

use jiff::Timestamp;
use protocol::{AssistantId, Message, NewEvent, SummaryId, Thread};

use super::*;
use crate::tables::memory::turns;
use crate::tables::{database, events, plan, traced};

/// A thread with so many turns, and tool results between them.
fn talk(db: &Connection, turns: usize) -> ThreadId {
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
    threads::create(db, &thread).unwrap();
    let said = |number: usize| {
        NewEvent::message(&Message::human(number.to_string()), Timestamp::UNIX_EPOCH).unwrap()
    };
    events::append(db, thread.thread_id, &(0..turns).map(said).collect::<Vec<_>>()).unwrap();
    thread.thread_id
}

fn window((first, last): (u64, u64), thread_id: Option<ThreadId>, threads: &[ThreadId]) -> Transfer {
    let summary = MediumTermSummary {
        id: SummaryId::generate(),
        agent_id: AssistantId::default(),
        summary_text: "We counted.".to_owned(),
        turn_range_start: first,
        turn_range_end: last,
        created_at: Timestamp::UNIX_EPOCH,
    };
    let planned = |thread_id: &ThreadId| Planned { thread_id: *thread_id, last_seq: 3_000 };
    let threads = threads.iter().map(planned).collect();
    Transfer { summary, thread_id, turns: last + 1 - first, threads }
}

#[test]
fn f6_a_window_of_any_length_is_archived_by_one_statement() {
    let mut database = database();
    let traced = traced(&mut database);
    let db = Connection::Sqlite(&database);
    let (one, two) = (talk(&db, 3_000), talk(&db, 10));
    let windows = [
        window((1, 2_000), None, &[one]),
        window((2_001, 3_000), Some(one), &[one]),
        window((3_001, 3_010), None, &[two]),
    ];
    for transfer in windows {
        traced.lock().unwrap().clear();
        super::transfer(&db, &transfer).unwrap();
        let statements = traced.lock().unwrap();
        let of_turns: Vec<&String> = statements
            .iter()
            .filter(|sql| sql.contains("UPDATE turns") || sql.contains("UPDATE turn_log"))
            .collect();
        assert_eq!(of_turns.len(), 1, "{statements:#?}");
        assert!(of_turns[0].contains("turn_index BETWEEN $3 AND $4"), "{of_turns:?}");
        assert!(statements.len() < 40, "and as few others: {statements:#?}");
    }
    let active = counts(&db, "agent").unwrap();
    assert_eq!((active.active_turns, active.summarised_turns, active.summaries), (0, 3_010, 3));
}

#[test]
fn f6_whatever_is_asked_of_memory_comes_from_an_index() {
    let (of_agent, of_thread) = (turns::page_of_agent(), turns::page_of_thread());
    let archive_of_thread = archive_of_thread(Dialect::Sqlite);
    for sql in [ARCHIVE, &archive_of_thread, LIST, &of_agent, &of_thread] {
        let plan = plan(sql);
        assert!(!plan.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{sql}: {plan:#?}");
    }
    // What is sorted is no more than what is returned.
    let plan_of_threads = plan(NOTE_THREADS);
    assert!(!plan_of_threads.iter().any(|step| step.contains("SCAN")), "{plan_of_threads:#?}");
    let thread = "SEARCH e USING INDEX events_seq (thread_key=? AND seq>? AND seq<?)";
    assert_eq!(plan(&of_thread)[0], thread, "a thread's turns are not looked for among all of its agent's");
    assert!(plan(&archive_of_thread).contains(&thread.to_owned()));
    let markers = "INDEX events_markers (thread_key=? AND seq>?)";
    assert!(plan(&changed_sql()).iter().any(|step| step.ends_with(markers)), "{:?}", plan(&changed_sql()));
}
