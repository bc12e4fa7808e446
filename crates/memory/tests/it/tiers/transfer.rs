//! One transfer: the rows it stores, the rows it leaves, and a repeated transfer.

use journal::Write;
use memory::{SummarizationError, TurnWindow};
use protocol::{ArchiveReason, EventType, InterruptId, MessageRole, ParentKind, Thread, ThreadId};
use serde_json::json;
use test_model::{GatePosition, ScriptedReply};

use super::{TierFixture, agent_id, repeated_reply, timestamp};

const CONVERSATION: [&str; 6] = [
    "U: Which database do we take for the diary?",
    "C: Let me look at what is installed.",
    "T: sqlite3 3.53, psql 18",
    "A: SQLite is there already.",
    "U: Then we take SQLite.",
    "A: Agreed: SQLite for the diary.",
];
const SUMMARY: &str = "They chose SQLite for the diary because it was installed.";

#[tokio::test]
async fn f6_an_empty_window_calls_no_model() {
    let desk = TierFixture::new([]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let stranger = desk.create_thread_of("other", |_| {}).await;
    for window in [
        TurnWindow::default(),
        TurnWindow::from_indexes([]),
        TurnWindow::from_indexes([0]),
        TurnWindow::from_indexes([6, 900]),
        TurnWindow::from_indexes([u64::MAX]),
        TurnWindow::from_indexes([1, 5]).in_thread(stranger),
    ] {
        assert_eq!(desk.summarization().transfer(&agent_id(), &window).await.unwrap(), None, "{window:?}");
    }
    assert_eq!(
        desk.summarization()
            .transfer(&"nobody".parse().unwrap(), &TurnWindow::from_indexes([1, 9]))
            .await
            .unwrap(),
        None
    );
    assert_eq!((desk.server.call_count(), desk.counts().await.summaries), (0, 0));
    assert_eq!(desk.unarchived_texts(thread_id).await.len(), 5);
}

#[tokio::test]
async fn a19_f6_exactly_the_summarized_messages_are_archived() {
    let desk = TierFixture::new([ScriptedReply::text(SUMMARY).with_tokens(700, 30)]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let summary =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([3, 1])).await.unwrap().unwrap();
    assert_eq!((summary.turn_range_start, summary.turn_range_end), (1, 3));
    let head = "2026-03-01, thread \"Which database do we take for the diary?\":";
    assert_eq!(summary.summary_text, format!("{head}\n{SUMMARY}"));
    assert_eq!(
        desk.unarchived_texts(thread_id).await,
        ["Then we take SQLite.", "Agreed: SQLite for the diary."]
    );
    let trace = desk.task_trace(thread_id).await;
    assert!(trace[..3].iter().all(|turn| turn.summary_id == Some(summary.id)), "{trace:?}");
    assert_eq!(trace[0].role, MessageRole::User);
    let archived = desk.archived_events(thread_id).await;
    assert_eq!(archived.len(), 1);
    let archived = &archived[0];
    assert_eq!((archived.reason, archived.first_seq, archived.last_seq), (ArchiveReason::Request, 1, 4));
    assert_eq!((archived.turn_count, archived.usage.input_tokens), (3, 700));
    assert_eq!((archived.summary_id, archived.model.as_str()), (summary.id, "anthropic/small"));
    let called = desk.events(thread_id).await;
    let called: Vec<_> = called.iter().filter(|event| event.kind() == Some(EventType::ModelCalled)).collect();
    assert_eq!(called.len(), 1, "the call is accounted for");
    assert_eq!(called[0].content_value()["purpose"], "transfer");
    // The messages stay in the trace and leave the context.
    assert_eq!(
        desk.context_texts(thread_id).await,
        ["Then we take SQLite.", "Agreed: SQLite for the diary."]
    );
}

#[tokio::test]
async fn f6_no_message_is_summarized_twice_by_repeated_or_overlapping_windows() {
    let desk = TierFixture::new([
        ScriptedReply::text(SUMMARY),
        ScriptedReply::text("They agreed on SQLite at last."),
    ]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let tiers = desk.summarization();
    let first = tiers.transfer(&agent_id(), &TurnWindow::from_indexes([2, 4])).await.unwrap().unwrap();
    for again in [vec![2, 4], vec![4, 3, 2], vec![3]] {
        assert_eq!(tiers.transfer(&agent_id(), &TurnWindow::from_indexes(again)).await.unwrap(), None);
    }
    let second = tiers.transfer(&agent_id(), &TurnWindow::from_indexes([1, 5])).await.unwrap().unwrap();
    assert_eq!((second.turn_range_start, second.turn_range_end), (1, 5));
    let of: Vec<_> = desk.task_trace(thread_id).await.iter().map(|turn| turn.summary_id.unwrap()).collect();
    assert_eq!(of, [second.id, first.id, first.id, first.id, second.id]);
    assert_eq!(desk.server.call_count(), 2);
    let asked = desk.model_prompts();
    assert!(!asked[1].contains("SQLite is there already"), "{}", asked[1]);
    assert_eq!(desk.context_texts(thread_id).await, Vec::<String>::new());
}

#[tokio::test]
async fn f6_messages_of_a_busy_thread_are_not_archived() {
    let desk = TierFixture::new([
        ScriptedReply::text(SUMMARY).with_gate("go", GatePosition::Start),
        ScriptedReply::text(SUMMARY),
    ]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let before = desk.counts().await;
    // A run begins while the model is called.
    let (tiers, window, agent) = (desk.summarization(), TurnWindow::from_indexes([1, 5]), agent_id());
    let (done, run_id) = tokio::join!(tiers.transfer(&agent, &window), async {
        let run_id = desk.begin_run(thread_id).await;
        desk.server.open_gate("go");
        run_id
    });
    assert!(matches!(done, Err(SummarizationError::Busy { thread_id: of }) if of == thread_id), "{done:?}");
    assert_eq!((desk.counts().await, desk.archived_events(thread_id).await.len()), (before, 0));
    // While the run is active, no model is called.
    let calls = desk.server.call_count();
    let busy = tiers.transfer(&agent, &window).await.unwrap_err();
    assert_eq!(busy.to_string(), format!("summarize messages of thread {thread_id}: a run is active"));
    assert_eq!(busy.hint(), "wait until the run has ended");
    assert_eq!(desk.server.call_count(), calls);
    desk.end_run(run_id).await;
    assert!(tiers.transfer(&agent, &window).await.unwrap().is_some());
}

#[tokio::test]
async fn f6_a_window_over_several_threads_is_recorded_in_each() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let (left, right) = (desk.create_thread().await, desk.create_thread().await);
    desk.append_lines(left, &["U: First of one.", "A: Yes, the first."]).await;
    desk.append_lines(right, &["U: First of two.", "A: Yes, another."]).await;
    desk.append_lines(left, &["U: Second of one.", "A: The end of it."]).await;
    let summary =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([2, 5])).await.unwrap().unwrap();
    let head = "2026-03-01, threads \"First of one.\", \"First of two.\":";
    assert!(summary.summary_text.starts_with(head), "{}", summary.summary_text);
    let (of_left, of_right) = (desk.archived_events(left).await, desk.archived_events(right).await);
    assert_eq!((of_left[0].turn_count, of_right[0].turn_count), (2, 2));
    assert_eq!(of_left[0].usage.total_tokens() + of_right[0].usage.total_tokens(), 15, "tokens count once");
    assert_eq!(desk.context_texts(left).await, ["First of one.", "The end of it."]);
    assert_eq!(desk.context_texts(right).await, Vec::<String>::new());
    let trace = desk.task_trace(left).await;
    assert_eq!(trace.iter().map(|turn| turn.turn_index).collect::<Vec<_>>(), [1, 2, 5, 6]);
}

#[tokio::test]
async fn m3_the_heading_does_not_use_the_name_that_a_fork_copied() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let forked = |thread: &mut Thread| {
        thread.parent_kind = Some(ParentKind::Fork);
        thread.name = Some("Title of a handed over summary (fork)".to_owned());
    };
    let fork = desk.create_thread_of("agent", forked).await;
    desk.append_lines(fork, &["U: What of the harbour?", "A: It is open."]).await;
    let summary =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 2])).await.unwrap().unwrap();
    let head = "2026-03-01, thread \"What of the harbour?\":";
    assert!(summary.summary_text.starts_with(head), "{}", summary.summary_text);
}

#[tokio::test]
async fn f7_recent_summaries_are_the_newest_and_never_turns() {
    let desk = TierFixture::new([repeated_reply("Something was said about the diary.")]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let tiers = desk.summarization();
    let mut stored = Vec::new();
    for index in 1..=5 {
        stored.push(tiers.transfer(&agent_id(), &TurnWindow::from_indexes([index])).await.unwrap().unwrap());
    }
    stored.reverse();
    for (limit, expected) in [(0, 0), (1, 1), (3, 3), (usize::MAX, 5)] {
        let summaries = tiers.retrieve_recent_summaries(&agent_id(), limit).await.unwrap();
        assert_eq!(summaries, stored[..expected], "{limit}");
    }
    assert_eq!(tiers.retrieve_recent_summaries(&"other".parse().unwrap(), 9).await.unwrap(), []);
    // Everything is archived, and everything is in the trace, page by page.
    assert_eq!(desk.context_texts(thread_id).await, Vec::<String>::new());
    let mut traced = Vec::new();
    let mut after = None;
    loop {
        let page = tiers.get_task_trace(thread_id, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.turn_index);
        traced.extend(page.into_iter().map(|turn| turn.content));
    }
    let texts = [0, 1, 3, 4, 5].map(|at: usize| CONVERSATION[at].split_once(": ").unwrap().1);
    assert_eq!(traced, texts);
    assert_eq!(tiers.get_task_trace(thread_id, None, 0).await.unwrap(), []);
    assert_eq!(tiers.get_task_trace(ThreadId::generate(), None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn f10_messages_of_an_agent_are_not_visible_to_another() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let (mine, theirs) = (desk.create_thread().await, desk.create_thread_of("other", |_| {}).await);
    desk.append_lines(mine, &["U: My words.", "A: Mine too."]).await;
    desk.append_lines(theirs, &["U: Their words.", "A: Theirs too."]).await;
    desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 900])).await.unwrap().unwrap();
    assert!(desk.model_prompts().iter().all(|asked| !asked.contains("Their")), "{:?}", desk.model_prompts());
    assert_eq!((desk.unarchived_texts(mine).await.len(), desk.unarchived_texts(theirs).await.len()), (0, 2));
    let other = "other".parse().unwrap();
    let of_theirs =
        desk.summarization().transfer(&other, &TurnWindow::from_indexes([1, 2])).await.unwrap().unwrap();
    assert_eq!(of_theirs.agent_id, other);
    assert_eq!(desk.summarization().retrieve_recent_summaries(&agent_id(), 9).await.unwrap().len(), 1);
    assert_eq!(desk.unarchived_texts(theirs).await.len(), 0);
}

#[tokio::test]
async fn f6_messages_of_a_thread_with_a_pending_decision_stay() {
    let desk = TierFixture::new([repeated_reply(SUMMARY)]);
    let thread_id = desk.create_thread().await;
    desk.append_lines(thread_id, &CONVERSATION).await;
    let run_id = desk.begin_run(thread_id).await;
    desk.end_run(run_id).await;
    let interrupt = serde_json::from_value(json!({
        "interrupt_id": InterruptId::derive(run_id, 1, "tools"), "thread_id": thread_id, "run_id": run_id,
        "node": "tools", "status": "pending", "decisions": null, "created_at": timestamp(0), "resolved_at": null,
        "payload": {"schema_version": 1, "middleware_source": "Tools", "action_requests": [], "review_configs": []},
    }));
    let interrupt = interrupt.unwrap();
    desk.commit(vec![Write::RaiseInterrupt(interrupt)]).await;
    let waiting =
        desk.summarization().transfer(&agent_id(), &TurnWindow::from_indexes([1, 5])).await.unwrap_err();
    assert!(matches!(waiting, SummarizationError::AwaitingDecision { .. }), "{waiting:?}");
    assert_eq!((desk.unarchived_texts(thread_id).await.len(), desk.server.call_count()), (5, 0));
}
