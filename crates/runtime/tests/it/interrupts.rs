//! Tests of questions: several in one step, each with its own id, answered in any order, and withdrawn when the
//! thread continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{AiMessage, CheckpointId, ContentBlock, InterruptStatus, RunStatus, ThreadStatus};
use runtime::{
    Channels, Driver, Edge, FrameSender, Graph, GraphUpdate, Hook, InterruptRequest, Node, RepeatSafety,
    RunStart, StepContext, StepEntry, StepFailure, Tool, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply};
use tokio_util::sync::CancellationToken;

use crate::harness::{
    CountingTool, OWNER, RuntimeHarness, counting_tool, interrupt_payload, parse_decisions,
};

/// Returns a tool that asks first and then returns the decision it got.
pub fn careful_tool() -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let call_result = |_: Value, context: ToolContext| async move {
        match context.answers.first() {
            None => ToolOutput::with_interrupts(vec![interrupt_payload("Careful", "go_on")]),
            Some(decisions) => ToolOutput::success(decisions.decisions[0].type_name()),
        }
    };
    let tool =
        CountingTool { name: "careful", repeat: RepeatSafety::Safe, calls: Arc::clone(&calls), call_result };
    (Arc::new(tool), calls)
}

pub async fn harness_with_two_interrupts() -> (RuntimeHarness, Arc<AtomicUsize>, runtime::RunEnd) {
    let both = ScriptedReply::call("c1", "careful", json!({})).with_call("c2", "careful", json!({}));
    let both = both.with_call("c3", "look", json!({}));
    let script = Script::new([both, ScriptedReply::text("Done.")]);
    let ((asking_tool, _), (look_tool, look_calls)) =
        (careful_tool(), counting_tool("look", RepeatSafety::Unsafe));
    let harness = RuntimeHarness::new(script, vec![asking_tool, look_tool], vec![]).await;
    let interrupted = harness.send_message("Go.").await;
    assert_eq!((interrupted.status, interrupted.interrupts.len()), (RunStatus::Interrupted, 2));
    assert_ne!(interrupted.interrupts[0].interrupt_id, interrupted.interrupts[1].interrupt_id);
    (harness, look_calls, interrupted)
}

#[tokio::test]
async fn questions_of_a_step_are_answered_in_any_order_and_the_last_answer_resumes_the_run() {
    let (harness, look_calls, interrupted) = harness_with_two_interrupts().await;
    assert!(harness.answer_interrupt(&interrupted, 1, r#"{"type":"reject"}"#).await.is_none());
    let thread = harness.store.thread(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted);
    let end = harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    let calls = "A: careful#c1 careful#c2 look#c3";
    assert_eq!(
        harness.message_lines().await,
        ["U: Go.", calls, "T#c3: look", "T#c1: approve", "T#c2: reject", "A: Done."]
    );
    assert_eq!(look_calls.load(Ordering::SeqCst), 1, "a call that has its result is not made again");
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let (harness, _, interrupted) = harness_with_two_interrupts().await;
    harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await;
    let interrupt = &interrupted.interrupts[0];
    let again = parse_decisions(r#"{"type":"reject"}"#);
    let refused = runtime::resume_run(
        &*harness.store,
        &harness.driver.graph,
        &harness.admission(),
        &[(interrupt, &again)],
        GraphUpdate::default(),
    )
    .await;
    let error = refused.unwrap_err();
    assert!(matches!(error, runtime::Error::Journal(journal::Error::AlreadyDecided { .. })), "{error:?}");
}

#[tokio::test]
async fn two_last_answers_at_the_same_time_start_one_run() {
    for _ in 0..20 {
        let (harness, _, interrupted) = harness_with_two_interrupts().await;
        let yes = parse_decisions(r#"{"type":"approve"}"#);
        let (first, second) = (harness.admission(), harness.admission());
        let graph = &harness.driver.graph;
        let answers = [[(&interrupted.interrupts[0], &yes)], [(&interrupted.interrupts[1], &yes)]];
        let (first, second) = tokio::join!(
            runtime::resume_run(&*harness.store, graph, &first, &answers[0], GraphUpdate::default()),
            runtime::resume_run(&*harness.store, graph, &second, &answers[1], GraphUpdate::default()),
        );
        let started = [first.unwrap(), second.unwrap()].into_iter().flatten().count();
        assert_eq!(started, 1);
    }
}

#[tokio::test]
async fn answers_whose_run_never_started_are_resumed() {
    let (harness, _, interrupted) = harness_with_two_interrupts().await;
    for interrupt in &interrupted.interrupts {
        // The process ended between storing the last answer and admitting the run.
        let resolve = journal::Write::ResolveInterrupt {
            interrupt_id: interrupt.interrupt_id,
            decisions: Some(parse_decisions(r#"{"type":"approve"}"#)),
            at: Timestamp::now(),
        };
        harness.store.commit(journal::Transaction { fence: None, writes: vec![resolve] }).await.unwrap();
    }
    let admission = harness.admission();
    let admitted =
        runtime::resume_answered(&*harness.store, &admission, &interrupted.interrupts[0]).await.unwrap();
    let end = harness.drive(&admitted.unwrap().checkpoint, runtime::StepEntry::Fresh).await;
    assert_eq!(end.status, RunStatus::Success);
    let again =
        runtime::resume_answered(&*harness.store, &admission, &interrupted.interrupts[0]).await.unwrap();
    assert!(again.is_none());
}

#[tokio::test]
async fn a_new_message_withdraws_the_questions_of_the_previous_turn() {
    let (harness, _, interrupted) = harness_with_two_interrupts().await;
    assert_eq!(harness.send_message("Never mind.").await.status, RunStatus::Success);
    for interrupt in &interrupted.interrupts {
        let withdrawn = harness.store.interrupt(interrupt.interrupt_id).await.unwrap().unwrap();
        assert_eq!(withdrawn.status, InterruptStatus::Withdrawn);
    }
    let sent = harness.server.requests();
    let sent = sent.last().unwrap().body.to_string();
    assert_eq!(
        sent.matches("Not finished: the person continued").count(),
        2,
        "each call has a result: {sent}"
    );
}

/// A hook that asks about answers with calls once the flag is set, for example after a change of the rules.
pub struct AskingOnceHook(pub Arc<AtomicBool>);

#[async_trait]
impl Hook for AskingOnceHook {
    fn name(&self) -> &'static str {
        "asks"
    }

    async fn after_model(
        &self,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        let has_calls = answer.content.iter().any(|block| matches!(block, ContentBlock::ToolCall { .. }));
        let interrupts = match self.0.load(Ordering::SeqCst) && has_calls && step.answer("asks").is_none() {
            true => {
                vec![InterruptRequest { key: "asks".to_owned(), payload: interrupt_payload("Asks", "go_on") }]
            }
            false => Vec::new(),
        };
        Ok(GraphUpdate { interrupts, ..GraphUpdate::default() })
    }
}

/// A node for another purpose, such as a handoff.
struct OtherNode;

#[async_trait]
impl Node for OtherNode {
    fn name(&self) -> &'static str {
        "other"
    }

    async fn run(&self, _: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let channels = Channels::from_iter([("other".to_owned(), json!(true))]);
        Ok(GraphUpdate { channels, ..GraphUpdate::default() })
    }
}

/// Returns a harness in which a process ended during a call with an effect, and the process that took the run
/// over asks about the call.
async fn harness_interrupted_after_crash() -> (RuntimeHarness, Arc<AtomicUsize>, runtime::RunEnd) {
    let (calls, call_started) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let notify_started = Arc::clone(&call_started);
    let call_result = move |_: Value, _: ToolContext| {
        let notify_started = Arc::clone(&notify_started);
        async move {
            notify_started.notify_one();
            std::future::pending().await
        }
    };
    let deploy =
        CountingTool { name: "deploy", repeat: RepeatSafety::Unsafe, calls: Arc::clone(&calls), call_result };
    let script = Script::new([
        ScriptedReply::call("c1", "deploy", json!({})),
        ScriptedReply::text("Done.").with_repeat(),
    ]);
    let is_asking = Arc::new(AtomicBool::new(false));
    let harness = RuntimeHarness::new(
        script,
        vec![Arc::new(deploy)],
        vec![Arc::new(AskingOnceHook(Arc::clone(&is_asking)))],
    )
    .await;
    let checkpoint = harness.admit_message("Deploy it.").await;
    tokio::select! {
        end = harness.drive(&checkpoint, StepEntry::Fresh) => unreachable!("the call never ends: {end:?}"),
        () = call_started.notified() => {}
    }
    is_asking.store(true, Ordering::SeqCst);
    let run = harness.store.run(checkpoint.run_id).await.unwrap().unwrap();
    let later = Timestamp::now() + jiff::SignedDuration::from_mins(5);
    let checkpoint = runtime::take_over_run(
        &*harness.store,
        &run,
        &OWNER.into(),
        runtime::TakeoverReason::LeaseExpired(later),
    )
    .await
    .unwrap()
    .checkpoint;
    let interrupted = harness.drive(&checkpoint, StepEntry::Recovered).await;
    assert_eq!((interrupted.status, interrupted.interrupts.len()), (RunStatus::Interrupted, 1));
    (harness, calls, interrupted)
}

#[tokio::test]
async fn j2_a_call_that_may_have_been_made_is_not_repeated_when_it_is_approved() {
    for other_run_between in [false, true] {
        let (harness, calls, interrupted) = harness_interrupted_after_crash().await;
        if other_run_between {
            let graph = Graph::new(Edge::To("other")).with_node(Arc::new(OtherNode), Edge::End);
            let start = RunStart::default();
            let admitted =
                runtime::admit_run(&*harness.store, &graph, &harness.admission(), start).await.unwrap();
            let driver = Driver { graph: Arc::new(graph), ..harness.driver.clone() };
            let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
            driver.drive(admitted, &frames, &cancel).await.unwrap();
        }
        let end = harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await.unwrap();
        assert_eq!((end.status, calls.load(Ordering::SeqCst)), (RunStatus::Success, 1));
        let lines = harness.message_lines().await;
        assert!(lines[2].contains("It may have had its effect or not"), "{lines:?}");
    }
}

#[tokio::test]
async fn j2_a_call_that_may_have_been_made_is_never_reported_as_not_done() {
    let (harness, calls, _) = harness_interrupted_after_crash().await;
    assert_eq!(harness.send_message("Never mind.").await.status, RunStatus::Success);
    let lines = harness.message_lines().await;
    assert!(lines[2].contains("It may have had its effect or not"), "{lines:?}");
    assert_eq!((calls.load(Ordering::SeqCst), lines.last().unwrap().as_str()), (1, "A: Done."));
}

#[tokio::test]
async fn a_question_with_an_unreadable_record_accepts_no_answer_and_leaves_the_thread_usable() {
    let (harness, look_calls, interrupted) = harness_with_two_interrupts().await;
    let mut checkpoint = harness.store.checkpoint(harness.thread_id).await.unwrap().unwrap();
    checkpoint.channels.insert("_asked:tools".to_owned(), json!({"step": "first"}));
    checkpoint.checkpoint_id = CheckpointId::generate();
    let writes = vec![Write::PutCheckpoint(checkpoint)];
    harness.store.commit(Transaction { fence: None, writes }).await.unwrap();
    let (interrupt, yes) = (&interrupted.interrupts[0], parse_decisions(r#"{"type":"approve"}"#));
    let answers = [(interrupt, &yes)];
    let (graph, admission) = (&harness.driver.graph, harness.admission());
    let refused =
        runtime::resume_run(&*harness.store, graph, &admission, &answers, GraphUpdate::default()).await;
    let error = refused.unwrap_err();
    assert!(matches!(&error, runtime::Error::Channel(error) if error.key == "_asked:tools"), "{error:?}");
    let pending = harness.store.pending_interrupts(harness.thread_id).await.unwrap();
    assert_eq!(pending.len(), 2, "no question was answered");
    assert_eq!(harness.send_message("Go on without it.").await.status, RunStatus::Success);
    assert_eq!(look_calls.load(Ordering::SeqCst), 1, "no call is made again");
}
