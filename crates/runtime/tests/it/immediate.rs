//! Tests of immediate nodes: the step before such a node becomes durable together with it, and so does the
//! admission of a run that resumes at it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{CheckpointRef, ThreadPatch, Write};
use protocol::{InterruptStatus, Message, NewEvent, RunStatus};
use runtime::{
    Driver, Edge, Frame, FrameSender, Graph, GraphUpdate, InterruptRequest, Node, QuestionLifetime, RunEnd,
    RunStart, StepContext, StepFailure, SubscriptionItem,
};
use test_model::Script;
use tokio_util::sync::CancellationToken;

use crate::harness::{RuntimeHarness, interrupt_payload, parse_decisions};

/// A node that renames the thread and appends a message.
struct WorkNode;

#[async_trait]
impl Node for WorkNode {
    fn name(&self) -> &'static str {
        "work"
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let patch = ThreadPatch { name: Some("Worked".to_owned()), ..ThreadPatch::default() };
        let events = vec![NewEvent::from_message(&Message::ai("worked"), Timestamp::now())?];
        let writes = vec![Write::UpdateThread { thread_id: step.thread_id, patch }];
        Ok(GraphUpdate { events, writes, ..GraphUpdate::default() })
    }
}

/// A node that asks about the work and appends the answer as a message.
struct ApprovalNode;

#[async_trait]
impl Node for ApprovalNode {
    fn name(&self) -> &'static str {
        "approve"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn question_lifetime(&self) -> QuestionLifetime {
        QuestionLifetime::Thread
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let Some(answer) = step.answer("approve") else {
            let is_deferred =
                step.deferred_writes.iter().any(|write| matches!(write, Write::UpdateThread { .. }));
            let stored = step.store.thread(step.thread_id).await?.and_then(|thread| thread.name);
            assert_eq!((is_deferred, stored), (true, None), "the work is visible and not durable yet");
            let payload = interrupt_payload("Approve", "go_on");
            return Ok(GraphUpdate {
                interrupts: vec![InterruptRequest { key: "approve".to_owned(), payload }],
                ..GraphUpdate::default()
            });
        };
        let message = Message::ai(answer.decisions[0].type_name());
        Ok(GraphUpdate {
            events: vec![NewEvent::from_message(&message, Timestamp::now())?],
            ..GraphUpdate::default()
        })
    }
}

async fn interrupted_harness() -> (RuntimeHarness, Driver, RunEnd, Vec<String>) {
    let harness = RuntimeHarness::new(Script::new([]), vec![], vec![]).await;
    let graph = Graph::new(Edge::To("work"))
        .with_node(Arc::new(WorkNode), Edge::To("approve"))
        .with_node(Arc::new(ApprovalNode), Edge::End);
    let driver = Driver { graph: Arc::new(graph), ..harness.driver.clone() };
    let (frames, mut stream) = FrameSender::channel();
    let admitted =
        runtime::admit_run(&*harness.store, &driver.graph, &harness.admission(), RunStart::default()).await;
    let end = driver.drive(admitted.unwrap(), &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1));
    let mut notices = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = stream.try_next() {
        match &*frame {
            Frame::StepStarted { node, .. } => notices.push(format!("begins {node}")),
            Frame::Updates { node, .. } => notices.push(format!("ends {node}")),
            Frame::Values { checkpoint_id, head_seq, .. } => {
                let checkpoint_ref = CheckpointRef::Id(*checkpoint_id);
                let checkpoint = harness
                    .store
                    .checkpoint_at(harness.thread_id, checkpoint_ref, journal::SupersededVisibility::Hidden)
                    .await;
                let (checkpoint, _) = checkpoint.unwrap().expect("a published state has a checkpoint");
                assert_eq!(checkpoint.head_seq, *head_seq, "after {notices:?}");
            }
            _ => {}
        }
    }
    (harness, driver, end, notices)
}

#[tokio::test]
async fn a_step_and_the_question_about_it_are_durable_together_and_published_in_order() {
    let (harness, _, end, notices) = interrupted_harness().await;
    assert_eq!(notices, ["begins work", "ends work", "begins approve", "ends approve"]);
    let thread = harness.store.thread(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.name.as_deref(), Some("Worked"));
    assert_eq!(harness.message_lines().await, ["A: worked"]);
    assert_eq!(harness.store.pending_interrupts(harness.thread_id).await.unwrap(), end.interrupts);
    // Each step has its own checkpoint.
    assert_eq!(
        harness
            .store
            .checkpoints(harness.thread_id, None, 10, journal::SupersededVisibility::Hidden)
            .await
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test]
async fn g20_of_two_concurrent_answers_one_is_stored_and_the_other_leaves_nothing() {
    let (harness, driver, end, _) = interrupted_harness().await;
    let interrupt = &end.interrupts[0];
    let (yes, no) = (parse_decisions(r#"{"type":"approve"}"#), parse_decisions(r#"{"type":"reject"}"#));
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let resume = async |admission, answer| {
        let resumed = runtime::resume_run(
            &*harness.store,
            &driver.graph,
            &admission,
            &[(interrupt, answer)],
            GraphUpdate::default(),
        )
        .await;
        resumed.unwrap().expect("a run resumes")
    };
    let first = resume(harness.admission(), &yes).await;
    let late = harness.admission();
    let late_run = late.run_id;
    let second = resume(late, &no).await;
    let pending = harness.store.interrupt(interrupt.interrupt_id).await.unwrap().unwrap();
    assert_eq!(pending.status, InterruptStatus::Pending, "an answer is durable with its step only");
    assert_eq!(driver.drive(first, &frames, &cancel).await.unwrap().status, RunStatus::Success);
    let refused = driver.drive(second, &frames, &cancel).await.unwrap_err();
    assert!(matches!(refused, runtime::Error::Journal(journal::Error::AlreadyDecided { .. })), "{refused:?}");
    assert_eq!(harness.store.run(late_run).await.unwrap(), None);
    assert_eq!(harness.message_lines().await, ["A: worked", "A: approve"]);
}

#[tokio::test]
async fn an_answer_that_another_run_preceded_changes_nothing_and_can_be_given_again() {
    let (harness, driver, end, _) = interrupted_harness().await;
    let yes = parse_decisions(r#"{"type":"approve"}"#);
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let (graph, answer) = (&driver.graph, [(&end.interrupts[0], &yes)]);
    let resume = || async {
        let resumed = runtime::resume_run(
            &*harness.store,
            graph,
            &harness.admission(),
            &answer,
            GraphUpdate::default(),
        )
        .await;
        resumed.unwrap().expect("a run resumes")
    };
    let admitted = resume().await;
    let empty_graph = Graph::new(Edge::End);
    let other = runtime::admit_run(&*harness.store, &empty_graph, &harness.admission(), RunStart::default())
        .await
        .unwrap();
    let other_driver = Driver { graph: Arc::new(empty_graph), ..driver.clone() };
    other_driver.drive(other, &frames, &cancel).await.unwrap();
    let error = driver.drive(admitted, &frames, &cancel).await.unwrap_err();
    assert!(matches!(error, runtime::Error::HeadConflict), "{error:?}");
    assert_eq!(harness.message_lines().await, ["A: worked"]);
    let end = driver.drive(resume().await, &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["A: worked", "A: approve"]);
}
