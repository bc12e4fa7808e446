//! Going on from somewhere else than the graph's entry: a node at which the thread stopped, a point of its past, or a
//! breakpoint; and what is told of a run under which ids.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use journal::{CheckpointRef, EventQuery, Superseded, Transaction, Write};
use protocol::{
    AssistantId, CheckpointId, EventType, InterruptStatus, Message, NewEvent, RunStatus, Thread, ThreadId,
    ThreadStatus,
};
use runtime::{
    AFTER_MODEL_NODE, Admitted, BackTo, Breakpoints, Channels, Entry, Frame, Frames, Head, Item, Limits,
    MODEL_NODE, Nodes, Repeat, RunEnd, Start, TOOLS_NODE, Update,
};
use serde_json::json;
use test_model::{Place, Reply, Script};
use tokio_util::sync::CancellationToken;

use crate::questions::{AsksOnce, careful, two_questions};
use crate::world::{OWNER, World, decisions, tool};

impl World {
    /// Admits a run that begins with `start`, and drives it.
    async fn begin(&self, start: Start) -> RunEnd {
        let graph = &self.driver.graph;
        let admitted = runtime::admit(&*self.store, graph, &self.admission(), start).await.unwrap();
        let (frames, cancel) = (Frames::default(), CancellationToken::new());
        self.driver.drive(admitted, &frames, &cancel).await.unwrap()
    }

    async fn stands_at(&self) -> Option<String> {
        self.store.checkpoint(self.thread_id).await.unwrap().unwrap().next
    }

    fn looking(mut self, before: &[&str], after: &[&str]) -> Self {
        let these = |names: &[&str]| Nodes::These(names.iter().map(|name| (*name).to_owned()).collect());
        self.driver.breakpoints = Breakpoints { before: these(before), after: these(after) };
        self
    }
}

fn at(node: &str) -> Start {
    Start { node: Some(node.to_owned()), ..Start::default() }
}

fn saying(text: &str) -> Update {
    let message = NewEvent::message(&Message::human(text), Timestamp::now()).unwrap();
    Update { events: vec![message], ..Update::default() }
}

fn back_to(keep_seq: u64) -> Option<BackTo> {
    Some(BackTo { keep_seq, superseded: 2, ..BackTo::default() })
}

/// Returns what was told of messages: the id, and what of it.
fn ids(stream: &mut runtime::Subscription) -> Vec<(String, &'static str)> {
    let mut ids = Vec::new();
    while let Some(Item::Frame(_, frame)) = stream.try_next() {
        match &*frame {
            Frame::Text { message_id, .. } => ids.push((message_id.clone(), "text")),
            Frame::Thinking { message_id, .. } => ids.push((message_id.clone(), "thinking")),
            Frame::ToolCall { message_id, .. } => ids.push((message_id.clone(), "call")),
            Frame::Event(event) => {
                if let Some(Message::Ai(answer)) = event.message() {
                    ids.push((answer.id.unwrap(), "stored"));
                }
            }
            _ => {}
        }
    }
    ids
}

#[tokio::test]
async fn b3_an_answer_is_stored_under_the_id_its_first_words_were_told_with() {
    let (look, _) = tool("look", Repeat::Safe);
    let thinking = Reply::call("c1", "look", json!({})).thinking(["Hm."]);
    let cut = Reply::pieces(["Half ", "an answer"]).then(test_model::Fault::Half);
    let script = Script::new([thinking, Reply::text("Done."), cut]);
    let world = World::new(script, vec![look], vec![]).await;
    let mut known = HashSet::new();
    for (text, expected) in [
        ("Go.", ["thinking", "call", "stored", "text", "stored"].as_slice()),
        ("Again.", ["text", "text", "stored"].as_slice()),
    ] {
        let point = world.admit(text).await;
        let (frames, mut stream) = Frames::channel();
        let admitted = Admitted::at(point.clone(), Entry::Fresh);
        world.driver.drive(admitted, &frames, &CancellationToken::new()).await.unwrap();
        let told = ids(&mut stream);
        assert_eq!(told.iter().map(|(_, what)| *what).collect::<Vec<_>>(), expected);
        let minted: Vec<String> = (0..10).map(|step| point.run_id.message_id(step)).collect();
        for answer in told.split_inclusive(|(_, what)| *what == "stored") {
            assert!(answer.iter().all(|(id, _)| *id == answer[0].0), "{answer:?}");
            assert!(minted.contains(&answer[0].0) && known.insert(answer[0].0.clone()));
        }
    }
    assert_eq!(world.said().await.last().unwrap(), "A: Half an answer", "what broke off has an id too");
}

#[tokio::test]
async fn a_run_tells_what_it_begins_with_unless_it_was_taken_over() {
    let world = World::new(Script::new([Reply::text("Done.").repeated()]), vec![], vec![]).await;
    for entry in [Entry::Fresh, Entry::Recovered] {
        let point = world.admit("Go.").await;
        let (frames, mut stream) = Frames::channel();
        let admitted = Admitted::at(point.clone(), entry);
        world.driver.drive(admitted, &frames, &CancellationToken::new()).await.unwrap();
        assert!(frames.bytes() > 0);
        let mut values = Vec::new();
        while let Some(Item::Frame(position, frame)) = stream.try_next() {
            if let Frame::Values { run_id, step, head_seq, .. } = &*frame {
                assert_eq!(*run_id, point.run_id);
                assert!(position.seq <= *head_seq);
                values.push((*step, *head_seq));
            }
        }
        let human = world.events().await.into_iter().rfind(|event| event.event_type == "human_message");
        let first = (0, human.unwrap().seq + 1);
        assert_eq!(values.contains(&first), entry == Entry::Fresh, "{values:?}");
        assert_eq!(point.head_seq, first.1);
    }
}

#[tokio::test]
async fn b12_a_run_that_goes_back_supersedes_what_came_after_in_its_admission() {
    let world = World::new(Script::new([Reply::text("Done.").repeated()]), vec![], vec![]).await;
    world.say("One.").await;
    let keep_seq = world.events().await.last().unwrap().seq;
    world.say("Two.").await;
    let point = CheckpointId::generate();
    let kept = Channels::from_iter([("colour".to_owned(), json!("red"))]);
    let back_to = BackTo { channels: kept, checkpoint_id: Some(point), ..back_to(keep_seq).unwrap() };
    let start = || Start { update: saying("Three."), back_to: Some(back_to.clone()), ..Start::default() };
    // While another run works nothing is taken back.
    let working = world.admit("Wait.").await;
    let refused =
        runtime::admit(&*world.store, &world.driver.graph, &world.admission(), start()).await.unwrap_err();
    assert!(matches!(refused, runtime::Error::Journal(journal::Error::Busy { .. })), "{refused:?}");
    world.drive(&working, Entry::Fresh).await;
    assert_eq!(world.said().await.len(), 6);

    assert_eq!(world.begin(start()).await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: One.", "A: Done.", "U: Three.", "A: Done."]);
    let sent = world.server.requests().last().unwrap().body.to_string();
    assert!(sent.contains("One.") && !sent.contains("Two.") && sent.contains("Three."), "{sent}");
    let events = world.events().await;
    let rewound = events.iter().find(|event| event.kind() == Some(EventType::ThreadRewound)).unwrap();
    let content = json!({"keep_seq": keep_seq, "superseded": 2, "checkpoint_id": point});
    assert_eq!(rewound.content_value(), content);
    let said = events.iter().find(|event| event.content.get().contains("Three.")).unwrap();
    assert_eq!(said.seq, rewound.seq + 1, "it is the first event behind what is superseded");
    let now = world.store.checkpoint(world.thread_id).await.unwrap().unwrap();
    assert_eq!(now.channels.get("colour"), Some(&json!("red")), "the state is that of the point");
}

#[tokio::test]
async fn going_back_to_where_tools_were_due_makes_the_calls_though_a_later_question_waits() {
    let (look, looks) = tool("look", Repeat::Never);
    let script = Script::new([
        Reply::call("c1", "look", json!({})),
        Reply::call("c2", "careful", json!({})),
        Reply::text("Done."),
    ]);
    let world = World::new(script, vec![careful().0, look], vec![]).await;
    let asked = world.say("Go.").await;
    assert_eq!((asked.status, looks.load(Ordering::SeqCst)), (RunStatus::Interrupted, 1));
    let answer = world.events().await.into_iter().find(|event| event.message().is_some_and(is_call)).unwrap();
    let point = CheckpointRef::Seq(answer.seq);
    let point = world.store.checkpoint_at(world.thread_id, point, Superseded::Hidden).await.unwrap();
    let back_to = BackTo { channels: point.unwrap().1, ..back_to(answer.seq).unwrap() };
    let end = world.begin(Start { back_to: Some(back_to), ..at(TOOLS_NODE) }).await;
    assert_eq!(
        (end.status, looks.load(Ordering::SeqCst)),
        (RunStatus::Success, 2),
        "{:?}",
        world.said().await
    );
    assert_eq!(world.said().await, ["U: Go.", "A: look#c1", "T#c1: look", "A: Done."]);
    let old = world.store.interrupt(asked.interrupts[0].interrupt_id).await.unwrap().unwrap();
    assert_eq!(old.status, InterruptStatus::Withdrawn);
}

fn is_call(message: Message) -> bool {
    message.tool_calls().next().is_some()
}

#[tokio::test]
async fn a_point_at_which_tools_were_due_is_gone_back_to_before_they_were_looked_at() {
    let asks = Arc::new(AtomicBool::new(true));
    let (look, looks) = tool("look", Repeat::Never);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.").repeated()]);
    let world = World::new(script, vec![look], vec![Arc::new(AsksOnce(Arc::clone(&asks)))]).await;
    let asked = world.say("Go.").await;
    let answer = world.events().await.into_iter().rfind(|event| event.event_type == "ai_message").unwrap();
    world.answer(&asked, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    let again = world.begin(Start { back_to: back_to(answer.seq), ..at(TOOLS_NODE) }).await;
    assert_eq!(again.status, RunStatus::Interrupted, "what was approved then is asked again");
    assert_eq!(again.interrupts[0].node, AFTER_MODEL_NODE);
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    // Going back with a message leaves no call without a result.
    let start = Start { update: saying("Other."), back_to: back_to(answer.seq), ..Start::default() };
    assert_eq!(world.begin(start).await.status, RunStatus::Success);
    let said = world.said().await;
    assert!(said[2].starts_with("T#c1: Not done: "), "{said:?}");
    assert_eq!(said[3..], ["U: Other.", "A: Done."]);
}

#[tokio::test]
async fn a_cancelled_run_keeps_the_node_it_was_at_and_another_goes_on_from_there() {
    let held = Reply::pieces(["Half"]).gated("never", Place::Start);
    let world = World::new(Script::new([held, Reply::text("Whole.")]), vec![], vec![]).await;
    let point = world.admit("Go.").await;
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let admitted = Admitted::at(point, Entry::Fresh);
    let run = world.driver.drive(admitted, &frames, &cancel);
    let stop = async {
        world.server.called(1).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(run, stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(world.stands_at().await.as_deref(), Some(MODEL_NODE));
    let thread = world.store.thread(world.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted, "there is something to go on with");
    assert_eq!(world.begin(at(MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: Go.", "A: Whole."]);
    assert_eq!(world.stands_at().await, None);
}

#[tokio::test]
async fn a_run_stops_at_a_breakpoint_and_another_goes_on_from_it() {
    let (look, looks) = tool("look", Repeat::Never);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.").repeated()]);
    let world = World::new(script, vec![look], vec![]).await.looking(&[TOOLS_NODE], &[TOOLS_NODE]);
    let end = world.say("Go.").await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 0));
    assert_eq!(world.stands_at().await.as_deref(), Some(TOOLS_NODE));
    let thread = world.store.thread(world.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted);
    let events = world.events().await;
    let stopped = events.iter().rfind(|event| event.kind() == Some(EventType::RunInterrupted)).unwrap();
    let content = json!({"interrupt_ids": [], "actions": [], "next": "tools"});
    assert_eq!((stopped.content_value(), looks.load(Ordering::SeqCst)), (content, 0));

    assert_eq!(world.begin(at(TOOLS_NODE)).await.status, RunStatus::Interrupted, "it stops behind it");
    assert_eq!((world.stands_at().await.as_deref(), looks.load(Ordering::SeqCst)), (Some(MODEL_NODE), 1));
    assert_eq!(world.begin(at(MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: Go.", "A: look#c1", "T#c1: look", "A: Done."]);
}

#[tokio::test]
async fn g2_a_call_the_run_was_stopped_before_has_a_result_when_the_person_goes_on_without_it() {
    for brings_result in [false, true] {
        let (look, looks) = tool("look", Repeat::Never);
        let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.")]);
        let world = World::new(script, vec![look], vec![]).await.looking(&[TOOLS_NODE], &[]);
        world.say("Go.").await;
        let mut update = saying("Never mind.");
        if brings_result {
            let result =
                json!({"type": "tool", "call_id": "c1", "content": [{"type": "text", "text": "Mine."}]});
            let result: Message = serde_json::from_value(result).unwrap();
            update.events.insert(0, NewEvent::message(&result, Timestamp::now()).unwrap());
        }
        assert_eq!(world.begin(Start { update, ..Start::default() }).await.status, RunStatus::Success);
        let said = world.said().await;
        let results: Vec<&String> = said.iter().filter(|line| line.starts_with("T#c1")).collect();
        assert_eq!((results.len(), looks.load(Ordering::SeqCst)), (1, 0), "{said:?}");
        assert_eq!(results[0] == "T#c1: Mine.", brings_result);
        assert_eq!(said.last().unwrap(), "A: Done.");
    }
}

#[tokio::test]
async fn a_question_of_the_node_a_run_goes_on_at_is_asked_again() {
    let (look, _) = tool("look", Repeat::Safe);
    let script = Script::new([Reply::call("c1", "careful", json!({})), Reply::text("Done.")]);
    let world = World::new(script, vec![careful().0, look], vec![]).await;
    let asked = world.say("Go.").await;
    let again = world.begin(at(TOOLS_NODE)).await;
    assert_eq!((again.status, again.interrupts.len()), (RunStatus::Interrupted, 1));
    let old = world.store.interrupt(asked.interrupts[0].interrupt_id).await.unwrap().unwrap();
    assert_eq!(old.status, InterruptStatus::Withdrawn);
    assert_eq!(world.said().await, ["U: Go.", "A: careful#c1"], "nothing is told of the call yet");
    let end = world.answer(&again, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(world.said().await[2..], ["T#c1: approve", "A: Done."]);
}

#[tokio::test]
async fn an_answer_whose_run_ended_before_its_step_was_done_is_not_asked_for_again() {
    let asks = Arc::new(AtomicBool::new(true));
    let (look, looks) = tool("look", Repeat::Never);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.")]);
    let mut world = World::new(script, vec![look], vec![Arc::new(AsksOnce(asks))]).await;
    let asked = world.say("Go.").await;
    world.driver.limits = Limits { steps_max: 0, ..Limits::default() };
    let ended = world.answer(&asked, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(
        (ended.status, ended.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Timeout, Some("steps"))
    );
    world.driver.limits = Limits::default();
    assert_eq!(world.begin(at(AFTER_MODEL_NODE)).await.status, RunStatus::Success);
    assert_eq!(looks.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn several_answers_become_durable_together_with_what_comes_with_them() {
    let (world, _, asked) = two_questions().await;
    let (yes, no) = (decisions(r#"{"type":"approve"}"#), decisions(r#"{"type":"reject"}"#));
    let answers = [(&asked.interrupts[0], &yes), (&asked.interrupts[1], &no)];
    let note = NewEvent::new(EventType::MemoryRead, &json!({"text": "so"}), Timestamp::now());
    let with = Update {
        channels: Channels::from_iter([("colour".to_owned(), json!("red"))]),
        events: note.into_iter().collect(),
        ..Update::default()
    };
    let graph = &world.driver.graph;
    let resumed = runtime::resume(&*world.store, graph, &world.admission(), &answers, with).await.unwrap();
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let end = world.driver.drive(resumed.unwrap(), &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(world.said().await[3..], ["T#c1: approve", "T#c2: reject", "A: Done."]);
    let now = world.store.checkpoint(world.thread_id).await.unwrap().unwrap();
    assert_eq!(now.channels.get("colour"), Some(&json!("red")));
}

#[tokio::test]
async fn what_comes_with_an_answer_is_not_stored_without_the_run_it_is_of() {
    let (world, _, asked) = two_questions().await;
    let yes = decisions(r#"{"type":"approve"}"#);
    let admission = world.admission();
    let (run_id, thread_id) = (admission.run_id, world.thread_id);
    let with = || Update {
        writes: vec![Write::PutRunRequest { run_id, thread_id, request: Box::default() }],
        ..Update::default()
    };
    let (graph, answers) = (&world.driver.graph, [0, 1].map(|index| (&asked.interrupts[index], &yes)));
    let resumed = runtime::resume(&*world.store, graph, &admission, &answers[..1], with()).await.unwrap();
    assert!(resumed.is_none());
    assert_eq!(world.store.pending_interrupts(thread_id).await.unwrap(), asked.interrupts);
    let resumed = runtime::resume(&*world.store, graph, &admission, &answers, with()).await.unwrap();
    assert!(resumed.is_some() && world.store.run_requests(&[run_id]).await.unwrap().len() == 1);
}

#[tokio::test]
async fn a_thread_may_begin_with_its_first_run() {
    let mut world = World::new(Script::new([Reply::text("Done.").repeated()]), vec![], vec![]).await;
    world.thread_id = ThreadId::generate();
    // The second time it is there already.
    for text in ["One.", "Two."] {
        let thread = Thread::blank(world.thread_id, AssistantId::default(), Timestamp::now());
        let mut update = saying(text);
        update.writes.push(Write::CreateThread(thread));
        assert_eq!(world.begin(Start { update, ..Start::default() }).await.status, RunStatus::Success);
    }
    assert_eq!(world.said().await, ["U: One.", "A: Done.", "U: Two.", "A: Done."]);
}

#[tokio::test]
async fn an_admission_at_a_node_is_refused_when_a_run_came_and_went_meanwhile() {
    let (look, _) = tool("look", Repeat::Never);
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.").repeated()]);
    let world = World::new(script, vec![look], vec![]).await.looking(&[TOOLS_NODE], &[]);
    world.say("Go.").await;
    let seen = world.store.checkpoint(world.thread_id).await.unwrap().unwrap();
    world.say("Other.").await;
    let read = || Head::Read(Some(Box::new(seen.clone())));
    for start in [at(TOOLS_NODE), Start { update: saying("Late."), ..Start::default() }] {
        let start = Start { head: read(), ..start };
        let admission = world.admission();
        let graph = &world.driver.graph;
        let refused = runtime::admit(&*world.store, graph, &admission, start).await.unwrap_err();
        assert!(matches!(refused, runtime::Error::Outrun), "{refused:?}");
        assert_eq!(world.store.run(admission.run_id).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_else_an_admission_expected_is_not_taken_for_a_run_that_came_and_went() {
    let world = World::new(Script::new([]), vec![], vec![]).await;
    let mut update = saying("Go.");
    let taken = Thread::blank(
        world.thread_id,
        AssistantId::default().owned_by(Some(&"alice".parse().unwrap())),
        Timestamp::now(),
    );
    update.writes.push(Write::CreateThread(taken));
    let start = Start { update, ..Start::default() };
    let refused =
        runtime::admit(&*world.store, &world.driver.graph, &world.admission(), start).await.unwrap_err();
    let is_thread =
        matches!(refused, runtime::Error::Journal(journal::Error::Differs { what: "thread", .. }));
    assert!(is_thread, "{refused:?}");
}

#[tokio::test]
async fn j2_whoever_goes_on_from_a_run_that_was_given_up_does_not_repeat_a_call_with_an_effect() {
    for goes_on in [true, false] {
        let (look, looks) = tool("look", Repeat::Never);
        let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.")]);
        let world = World::new(script, vec![look], vec![]).await.looking(&[TOOLS_NODE], &[]);
        world.say("Go.").await;
        // The next run's process ends in the call.
        let graph = &world.driver.graph;
        let admitted =
            runtime::admit(&*world.store, graph, &world.admission(), at(TOOLS_NODE)).await.unwrap();
        let run = world.store.run(admitted.checkpoint.run_id).await.unwrap().unwrap();
        let later = Timestamp::now() + SignedDuration::from_mins(5);
        runtime::give_up(&*world.store, &run, &OWNER.into(), later).await.unwrap();
        let start = match goes_on {
            true => at(TOOLS_NODE),
            false => Start { update: saying("Well?"), ..Start::default() },
        };
        assert_eq!(world.begin(start).await.status, RunStatus::Success);
        let said = world.said().await;
        assert!(said[2].contains("It may have had its effect or not"), "{said:?}");
        assert_eq!(looks.load(Ordering::SeqCst), 0);
        let query = EventQuery::after(0, 100);
        let events = world.store.events(world.thread_id, query).await.unwrap();
        assert!(events.iter().any(|event| event.kind() == Some(EventType::RunFailed)));
        world.store.commit(Transaction::default()).await.unwrap();
    }
}
