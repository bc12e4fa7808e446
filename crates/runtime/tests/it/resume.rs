//! Tests of runs that start elsewhere than at the graph's entry: at the node at which the thread stopped, at a
//! past point, or at a breakpoint. Also tests the ids of a run's messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use journal::{CheckpointRef, EventQuery, SupersededVisibility, Transaction, Write};
use protocol::{
    AssistantId, CheckpointId, EventType, InterruptStatus, Message, NewEvent, RunStatus, Thread, ThreadId,
    ThreadStatus,
};
use runtime::{
    AFTER_MODEL_NODE, AdmittedRun, Breakpoints, Channels, DriverLimits, ExpectedHead, Frame, FrameSender,
    GraphUpdate, MODEL_NODE, NodeSet, RepeatSafety, RewindRequest, RunEnd, RunStart, StepEntry,
    SubscriptionItem, TOOLS_NODE,
};
use serde_json::json;
use test_model::{GatePosition, Script, ScriptedReply};
use tokio_util::sync::CancellationToken;

use crate::harness::{OWNER, RuntimeHarness, counting_tool, parse_decisions};
use crate::interrupts::{AskingOnceHook, careful_tool, harness_with_two_interrupts};

impl RuntimeHarness {
    /// Admits a run with `start` and drives it.
    async fn start_run(&self, start: RunStart) -> RunEnd {
        let graph = &self.driver.graph;
        let admitted = runtime::admit_run(&*self.store, graph, &self.admission(), start).await.unwrap();
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        self.driver.drive(admitted, &frames, &cancel).await.unwrap()
    }

    /// Returns the next node of the thread's checkpoint.
    async fn next_node(&self) -> Option<String> {
        self.store.checkpoint(self.thread_id).await.unwrap().unwrap().next
    }

    /// Sets the nodes before and after which the driver stops.
    fn with_breakpoints(mut self, before: &[&str], after: &[&str]) -> Self {
        let node_set = |names: &[&str]| NodeSet::Named(names.iter().map(|name| (*name).to_owned()).collect());
        self.driver.breakpoints = Breakpoints { before: node_set(before), after: node_set(after) };
        self
    }
}

/// Returns the start of a run at a node.
fn start_at_node(node: &str) -> RunStart {
    RunStart { node: Some(node.to_owned()), ..RunStart::default() }
}

/// Returns a graph update that appends a user message.
fn message_update(text: &str) -> GraphUpdate {
    let message = NewEvent::from_message(&Message::human(text), Timestamp::now()).unwrap();
    GraphUpdate { events: vec![message], ..GraphUpdate::default() }
}

/// Returns a request to rewind the thread to the event `keep_seq`.
fn rewind_request(keep_seq: u64) -> Option<RewindRequest> {
    Some(RewindRequest { keep_seq, superseded: 2, ..RewindRequest::default() })
}

/// Returns the ids of the messages in the stream, each with the kind of frame.
fn message_ids(stream: &mut runtime::FrameSubscription) -> Vec<(String, &'static str)> {
    let mut message_ids = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = stream.try_next() {
        match &*frame {
            Frame::Text { message_id, .. } => message_ids.push((message_id.clone(), "text")),
            Frame::Thinking { message_id, .. } => message_ids.push((message_id.clone(), "thinking")),
            Frame::ToolCall { message_id, .. } => message_ids.push((message_id.clone(), "call")),
            Frame::Event(event) => {
                if let Some(Message::Ai(answer)) = event.message() {
                    message_ids.push((answer.id.unwrap(), "stored"));
                }
            }
            _ => {}
        }
    }
    message_ids
}

#[tokio::test]
async fn b3_an_answer_is_stored_with_the_id_of_its_first_delta() {
    let (look_tool, _) = counting_tool("look", RepeatSafety::Safe);
    let thinking = ScriptedReply::call("c1", "look", json!({})).with_thinking(["Hm."]);
    let truncated =
        ScriptedReply::from_pieces(["Half ", "an answer"]).with_fault(test_model::ScriptedFault::Half);
    let script = Script::new([thinking, ScriptedReply::text("Done."), truncated]);
    let harness = RuntimeHarness::new(script, vec![look_tool], vec![]).await;
    let mut known_ids = HashSet::new();
    for (text, expected) in [
        ("Go.", ["thinking", "call", "stored", "text", "stored"].as_slice()),
        ("Again.", ["text", "text", "stored"].as_slice()),
    ] {
        let checkpoint = harness.admit_message(text).await;
        let (frames, mut stream) = FrameSender::channel();
        let admitted = AdmittedRun::new(checkpoint.clone(), StepEntry::Fresh);
        harness.driver.drive(admitted, &frames, &CancellationToken::new()).await.unwrap();
        let frames_by_id = message_ids(&mut stream);
        assert_eq!(frames_by_id.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), expected);
        let derived_ids: Vec<String> = (0..10).map(|step| checkpoint.run_id.message_id(step)).collect();
        for answer in frames_by_id.split_inclusive(|(_, kind)| *kind == "stored") {
            assert!(answer.iter().all(|(id, _)| *id == answer[0].0), "{answer:?}");
            assert!(derived_ids.contains(&answer[0].0) && known_ids.insert(answer[0].0.clone()));
        }
    }
    assert_eq!(
        harness.message_lines().await.last().unwrap(),
        "A: Half an answer",
        "a truncated answer has an id too"
    );
}

#[tokio::test]
async fn a_run_publishes_its_start_state_unless_it_was_taken_over() {
    let harness =
        RuntimeHarness::new(Script::new([ScriptedReply::text("Done.").with_repeat()]), vec![], vec![]).await;
    for entry in [StepEntry::Fresh, StepEntry::Recovered] {
        let checkpoint = harness.admit_message("Go.").await;
        let (frames, mut stream) = FrameSender::channel();
        let admitted = AdmittedRun::new(checkpoint.clone(), entry);
        harness.driver.drive(admitted, &frames, &CancellationToken::new()).await.unwrap();
        assert!(frames.buffered_bytes() > 0);
        let mut values = Vec::new();
        while let Some(SubscriptionItem::Frame(position, frame)) = stream.try_next() {
            if let Frame::Values { run_id, step, head_seq, .. } = &*frame {
                assert_eq!(*run_id, checkpoint.run_id);
                assert!(position.seq <= *head_seq);
                values.push((*step, *head_seq));
            }
        }
        let human = harness.events().await.into_iter().rfind(|event| event.event_type == "human_message");
        let first = (0, human.unwrap().seq + 1);
        assert_eq!(values.contains(&first), entry == StepEntry::Fresh, "{values:?}");
        assert_eq!(checkpoint.head_seq, first.1);
    }
}

#[tokio::test]
async fn b12_the_admission_of_a_rewinding_run_supersedes_the_later_events() {
    let harness =
        RuntimeHarness::new(Script::new([ScriptedReply::text("Done.").with_repeat()]), vec![], vec![]).await;
    harness.send_message("One.").await;
    let keep_seq = harness.events().await.last().unwrap().seq;
    harness.send_message("Two.").await;
    let checkpoint_id = CheckpointId::generate();
    let channels = Channels::from_iter([("colour".to_owned(), json!("red"))]);
    let rewind =
        RewindRequest { channels, checkpoint_id: Some(checkpoint_id), ..rewind_request(keep_seq).unwrap() };
    let start =
        || RunStart { update: message_update("Three."), rewind: Some(rewind.clone()), ..RunStart::default() };
    // While another run is active, nothing is rewound.
    let active = harness.admit_message("Wait.").await;
    let refused = runtime::admit_run(&*harness.store, &harness.driver.graph, &harness.admission(), start())
        .await
        .unwrap_err();
    assert!(matches!(refused, runtime::Error::Journal(journal::Error::Busy { .. })), "{refused:?}");
    harness.drive(&active, StepEntry::Fresh).await;
    assert_eq!(harness.message_lines().await.len(), 6);

    assert_eq!(harness.start_run(start()).await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: One.", "A: Done.", "U: Three.", "A: Done."]);
    let sent = harness.server.requests().last().unwrap().body.to_string();
    assert!(sent.contains("One.") && !sent.contains("Two.") && sent.contains("Three."), "{sent}");
    let events = harness.events().await;
    let rewound = events.iter().find(|event| event.kind() == Some(EventType::ThreadRewound)).unwrap();
    let content = json!({"keep_seq": keep_seq, "superseded": 2, "checkpoint_id": checkpoint_id});
    assert_eq!(rewound.content_value(), content);
    let message = events.iter().find(|event| event.content.get().contains("Three.")).unwrap();
    assert_eq!(message.seq, rewound.seq + 1, "the message is the first event after the superseded ones");
    let checkpoint = harness.store.checkpoint(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(checkpoint.channels.get("colour"), Some(&json!("red")), "the channels are those of the point");
}

#[tokio::test]
async fn a_rewind_to_the_tools_node_makes_the_calls_although_a_later_question_is_pending() {
    let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::call("c2", "careful", json!({})),
        ScriptedReply::text("Done."),
    ]);
    let harness = RuntimeHarness::new(script, vec![careful_tool().0, look_tool], vec![]).await;
    let interrupted = harness.send_message("Go.").await;
    assert_eq!((interrupted.status, look_calls.load(Ordering::SeqCst)), (RunStatus::Interrupted, 1));
    let answer =
        harness.events().await.into_iter().find(|event| event.message().is_some_and(is_call)).unwrap();
    let checkpoint = CheckpointRef::Seq(answer.seq);
    let checkpoint = harness
        .store
        .checkpoint_at(harness.thread_id, checkpoint, SupersededVisibility::Hidden)
        .await
        .unwrap();
    let rewind = RewindRequest { channels: checkpoint.unwrap().1, ..rewind_request(answer.seq).unwrap() };
    let end = harness.start_run(RunStart { rewind: Some(rewind), ..start_at_node(TOOLS_NODE) }).await;
    assert_eq!(
        (end.status, look_calls.load(Ordering::SeqCst)),
        (RunStatus::Success, 2),
        "{:?}",
        harness.message_lines().await
    );
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: look#c1", "T#c1: look", "A: Done."]);
    let old = harness.store.interrupt(interrupted.interrupts[0].interrupt_id).await.unwrap().unwrap();
    assert_eq!(old.status, InterruptStatus::Withdrawn);
}

fn is_call(message: Message) -> bool {
    message.tool_calls().next().is_some()
}

#[tokio::test]
async fn after_a_rewind_to_the_tools_node_the_calls_are_reviewed_again() {
    let is_asking = Arc::new(AtomicBool::new(true));
    let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("Done.").with_repeat(),
    ]);
    let harness =
        RuntimeHarness::new(script, vec![look_tool], vec![Arc::new(AskingOnceHook(Arc::clone(&is_asking)))])
            .await;
    let interrupted = harness.send_message("Go.").await;
    let answer = harness.events().await.into_iter().rfind(|event| event.event_type == "ai_message").unwrap();
    harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(look_calls.load(Ordering::SeqCst), 1);
    let again =
        harness.start_run(RunStart { rewind: rewind_request(answer.seq), ..start_at_node(TOOLS_NODE) }).await;
    assert_eq!(
        again.status,
        RunStatus::Interrupted,
        "an earlier approval does not apply; the question is asked again"
    );
    assert_eq!(again.interrupts[0].node, AFTER_MODEL_NODE);
    assert_eq!(look_calls.load(Ordering::SeqCst), 1);
    // A rewind together with a message leaves no call without a result.
    let start = RunStart {
        update: message_update("Other."),
        rewind: rewind_request(answer.seq),
        ..RunStart::default()
    };
    assert_eq!(harness.start_run(start).await.status, RunStatus::Success);
    let lines = harness.message_lines().await;
    assert!(lines[2].starts_with("T#c1: Not done: "), "{lines:?}");
    assert_eq!(lines[3..], ["U: Other.", "A: Done."]);
}

#[tokio::test]
async fn a_cancelled_run_keeps_its_node_and_another_run_continues_there() {
    let blocked_reply = ScriptedReply::from_pieces(["Half"]).with_gate("never", GatePosition::Start);
    let harness =
        RuntimeHarness::new(Script::new([blocked_reply, ScriptedReply::text("Whole.")]), vec![], vec![])
            .await;
    let checkpoint = harness.admit_message("Go.").await;
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let admitted = AdmittedRun::new(checkpoint, StepEntry::Fresh);
    let run = harness.driver.drive(admitted, &frames, &cancel);
    let stop = async {
        harness.server.wait_for_calls(1).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(harness.next_node().await.as_deref(), Some(MODEL_NODE));
    let thread = harness.store.thread(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted, "the thread can be resumed");
    assert_eq!(harness.start_run(start_at_node(MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: Whole."]);
    assert_eq!(harness.next_node().await, None);
}

#[tokio::test]
async fn a_run_stops_at_a_breakpoint_and_another_continues_from_it() {
    let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("Done.").with_repeat(),
    ]);
    let harness = RuntimeHarness::new(script, vec![look_tool], vec![])
        .await
        .with_breakpoints(&[TOOLS_NODE], &[TOOLS_NODE]);
    let end = harness.send_message("Go.").await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 0));
    assert_eq!(harness.next_node().await.as_deref(), Some(TOOLS_NODE));
    let thread = harness.store.thread(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted);
    let events = harness.events().await;
    let stopped = events.iter().rfind(|event| event.kind() == Some(EventType::RunInterrupted)).unwrap();
    let content = json!({"interrupt_ids": [], "actions": [], "next": "tools"});
    assert_eq!((stopped.content_value(), look_calls.load(Ordering::SeqCst)), (content, 0));

    assert_eq!(
        harness.start_run(start_at_node(TOOLS_NODE)).await.status,
        RunStatus::Interrupted,
        "the run stops after the node"
    );
    assert_eq!(
        (harness.next_node().await.as_deref(), look_calls.load(Ordering::SeqCst)),
        (Some(MODEL_NODE), 1)
    );
    assert_eq!(harness.start_run(start_at_node(MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: look#c1", "T#c1: look", "A: Done."]);
}

#[tokio::test]
async fn g2_a_call_that_was_not_made_gets_a_result_when_the_person_continues_without_it() {
    for start_has_result in [false, true] {
        let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
        let script =
            Script::new([ScriptedReply::call("c1", "look", json!({})), ScriptedReply::text("Done.")]);
        let harness =
            RuntimeHarness::new(script, vec![look_tool], vec![]).await.with_breakpoints(&[TOOLS_NODE], &[]);
        harness.send_message("Go.").await;
        let mut update = message_update("Never mind.");
        if start_has_result {
            let result =
                json!({"type": "tool", "call_id": "c1", "content": [{"type": "text", "text": "Mine."}]});
            let result: Message = serde_json::from_value(result).unwrap();
            update.events.insert(0, NewEvent::from_message(&result, Timestamp::now()).unwrap());
        }
        assert_eq!(
            harness.start_run(RunStart { update, ..RunStart::default() }).await.status,
            RunStatus::Success
        );
        let lines = harness.message_lines().await;
        let results: Vec<&String> = lines.iter().filter(|line| line.starts_with("T#c1")).collect();
        assert_eq!((results.len(), look_calls.load(Ordering::SeqCst)), (1, 0), "{lines:?}");
        assert_eq!(results[0] == "T#c1: Mine.", start_has_result);
        assert_eq!(lines.last().unwrap(), "A: Done.");
    }
}

#[tokio::test]
async fn a_question_of_the_node_at_which_a_run_starts_is_asked_again() {
    let (look_tool, _) = counting_tool("look", RepeatSafety::Safe);
    let script = Script::new([ScriptedReply::call("c1", "careful", json!({})), ScriptedReply::text("Done.")]);
    let harness = RuntimeHarness::new(script, vec![careful_tool().0, look_tool], vec![]).await;
    let interrupted = harness.send_message("Go.").await;
    let again = harness.start_run(start_at_node(TOOLS_NODE)).await;
    assert_eq!((again.status, again.interrupts.len()), (RunStatus::Interrupted, 1));
    let old = harness.store.interrupt(interrupted.interrupts[0].interrupt_id).await.unwrap().unwrap();
    assert_eq!(old.status, InterruptStatus::Withdrawn);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: careful#c1"], "the call has no result yet");
    let end = harness.answer_interrupt(&again, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await[2..], ["T#c1: approve", "A: Done."]);
}

#[tokio::test]
async fn a_question_is_not_asked_again_if_the_answered_run_ended_before_its_step() {
    let is_asking = Arc::new(AtomicBool::new(true));
    let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([ScriptedReply::call("c1", "look", json!({})), ScriptedReply::text("Done.")]);
    let mut harness =
        RuntimeHarness::new(script, vec![look_tool], vec![Arc::new(AskingOnceHook(is_asking))]).await;
    let interrupted = harness.send_message("Go.").await;
    harness.driver.limits = DriverLimits { steps_max: 0, ..DriverLimits::default() };
    let end = harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Timeout, Some("steps"))
    );
    harness.driver.limits = DriverLimits::default();
    assert_eq!(harness.start_run(start_at_node(AFTER_MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(look_calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn several_answers_and_the_callers_update_become_durable_together() {
    let (harness, _, interrupted) = harness_with_two_interrupts().await;
    let (yes, no) = (parse_decisions(r#"{"type":"approve"}"#), parse_decisions(r#"{"type":"reject"}"#));
    let answers = [(&interrupted.interrupts[0], &yes), (&interrupted.interrupts[1], &no)];
    let note = NewEvent::new(EventType::MemoryRead, &json!({"text": "so"}), Timestamp::now());
    let update = GraphUpdate {
        channels: Channels::from_iter([("colour".to_owned(), json!("red"))]),
        events: note.into_iter().collect(),
        ..GraphUpdate::default()
    };
    let graph = &harness.driver.graph;
    let resumed =
        runtime::resume_run(&*harness.store, graph, &harness.admission(), &answers, update).await.unwrap();
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let end = harness.driver.drive(resumed.unwrap(), &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await[3..], ["T#c1: approve", "T#c2: reject", "A: Done."]);
    let checkpoint = harness.store.checkpoint(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(checkpoint.channels.get("colour"), Some(&json!("red")));
}

#[tokio::test]
async fn the_callers_update_is_not_stored_without_the_run_that_it_belongs_to() {
    let (harness, _, interrupted) = harness_with_two_interrupts().await;
    let yes = parse_decisions(r#"{"type":"approve"}"#);
    let admission = harness.admission();
    let (run_id, thread_id) = (admission.run_id, harness.thread_id);
    let update = || GraphUpdate {
        writes: vec![Write::PutRunRequest { run_id, thread_id, request: Box::default() }],
        ..GraphUpdate::default()
    };
    let (graph, answers) =
        (&harness.driver.graph, [0, 1].map(|index| (&interrupted.interrupts[index], &yes)));
    let resumed =
        runtime::resume_run(&*harness.store, graph, &admission, &answers[..1], update()).await.unwrap();
    assert!(resumed.is_none());
    assert_eq!(harness.store.pending_interrupts(thread_id).await.unwrap(), interrupted.interrupts);
    let resumed = runtime::resume_run(&*harness.store, graph, &admission, &answers, update()).await.unwrap();
    assert!(resumed.is_some() && harness.store.run_requests(&[run_id]).await.unwrap().len() == 1);
}

#[tokio::test]
async fn a_thread_may_be_created_with_its_first_run() {
    let mut harness =
        RuntimeHarness::new(Script::new([ScriptedReply::text("Done.").with_repeat()]), vec![], vec![]).await;
    harness.thread_id = ThreadId::generate();
    // The second time, the thread exists already.
    for text in ["One.", "Two."] {
        let thread = Thread::blank(harness.thread_id, AssistantId::default(), Timestamp::now());
        let mut update = message_update(text);
        update.writes.push(Write::CreateThread(thread));
        assert_eq!(
            harness.start_run(RunStart { update, ..RunStart::default() }).await.status,
            RunStatus::Success
        );
    }
    assert_eq!(harness.message_lines().await, ["U: One.", "A: Done.", "U: Two.", "A: Done."]);
}

#[tokio::test]
async fn an_admission_at_a_node_is_refused_when_another_run_changed_the_thread() {
    let (look_tool, _) = counting_tool("look", RepeatSafety::Unsafe);
    let script = Script::new([
        ScriptedReply::call("c1", "look", json!({})),
        ScriptedReply::text("Done.").with_repeat(),
    ]);
    let harness =
        RuntimeHarness::new(script, vec![look_tool], vec![]).await.with_breakpoints(&[TOOLS_NODE], &[]);
    harness.send_message("Go.").await;
    let checkpoint = harness.store.checkpoint(harness.thread_id).await.unwrap().unwrap();
    harness.send_message("Other.").await;
    let expected_head = || ExpectedHead::Read(Some(Box::new(checkpoint.clone())));
    for start in
        [start_at_node(TOOLS_NODE), RunStart { update: message_update("Late."), ..RunStart::default() }]
    {
        let start = RunStart { head: expected_head(), ..start };
        let admission = harness.admission();
        let graph = &harness.driver.graph;
        let refused = runtime::admit_run(&*harness.store, graph, &admission, start).await.unwrap_err();
        assert!(matches!(refused, runtime::Error::HeadConflict), "{refused:?}");
        assert_eq!(harness.store.run(admission.run_id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn other_conflicts_of_an_admission_are_not_reported_as_head_conflicts() {
    let harness = RuntimeHarness::new(Script::new([]), vec![], vec![]).await;
    let mut update = message_update("Go.");
    let thread_of_alice = Thread::blank(
        harness.thread_id,
        AssistantId::default().with_owner(Some(&"alice".parse().unwrap())),
        Timestamp::now(),
    );
    update.writes.push(Write::CreateThread(thread_of_alice));
    let start = RunStart { update, ..RunStart::default() };
    let refused = runtime::admit_run(&*harness.store, &harness.driver.graph, &harness.admission(), start)
        .await
        .unwrap_err();
    let is_thread_conflict =
        matches!(refused, runtime::Error::Journal(journal::Error::Conflict { what: "thread", .. }));
    assert!(is_thread_conflict, "{refused:?}");
}

#[tokio::test]
async fn j2_a_run_after_an_abandoned_one_does_not_repeat_a_call_with_an_effect() {
    for at_tools_node in [true, false] {
        let (look_tool, look_calls) = counting_tool("look", RepeatSafety::Unsafe);
        let script =
            Script::new([ScriptedReply::call("c1", "look", json!({})), ScriptedReply::text("Done.")]);
        let harness =
            RuntimeHarness::new(script, vec![look_tool], vec![]).await.with_breakpoints(&[TOOLS_NODE], &[]);
        harness.send_message("Go.").await;
        // The process of the next run ends during the call.
        let graph = &harness.driver.graph;
        let admitted =
            runtime::admit_run(&*harness.store, graph, &harness.admission(), start_at_node(TOOLS_NODE))
                .await
                .unwrap();
        let run = harness.store.run(admitted.checkpoint.run_id).await.unwrap().unwrap();
        let later = Timestamp::now() + SignedDuration::from_mins(5);
        runtime::abandon_run(&*harness.store, &run, &OWNER.into(), later).await.unwrap();
        let start = match at_tools_node {
            true => start_at_node(TOOLS_NODE),
            false => RunStart { update: message_update("Well?"), ..RunStart::default() },
        };
        assert_eq!(harness.start_run(start).await.status, RunStatus::Success);
        let lines = harness.message_lines().await;
        assert!(lines[2].contains("It may have had its effect or not"), "{lines:?}");
        assert_eq!(look_calls.load(Ordering::SeqCst), 0);
        let query = EventQuery::after(0, 100);
        let events = harness.store.events(harness.thread_id, query).await.unwrap();
        assert!(events.iter().any(|event| event.kind() == Some(EventType::RunFailed)));
        harness.store.commit(Transaction::default()).await.unwrap();
    }
}
