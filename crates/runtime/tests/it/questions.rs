//! Questions: several of one step, each by its id, answered in any order, withdrawn when the thread goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::{AiMessage, Block, CheckpointId, InterruptStatus, RunStatus, ThreadStatus};
use runtime::{
    Ask, Channels, Driver, Edge, Entry, Failure, Frames, Graph, Hook, Node, Repeat, Start, StepContext, Tool,
    ToolContext, ToolOutput, Update,
};
use serde_json::{Value, json};
use test_model::{Reply, Script};
use tokio_util::sync::CancellationToken;

use crate::world::{Counting, OWNER, World, decisions, question, tool};

/// Returns a tool that asks before it says which decision it got.
pub fn careful() -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let work = |_: Value, context: ToolContext| async move {
        match context.answers.first() {
            None => ToolOutput::asking(vec![question("Careful", "go_on")]),
            Some(decisions) => ToolOutput::success(decisions.decisions[0].type_name()),
        }
    };
    let tool = Counting { name: "careful", repeat: Repeat::Safe, calls: Arc::clone(&calls), work };
    (Arc::new(tool), calls)
}

pub async fn two_questions() -> (World, Arc<AtomicUsize>, runtime::RunEnd) {
    let both = Reply::call("c1", "careful", json!({})).and_call("c2", "careful", json!({}));
    let both = both.and_call("c3", "look", json!({}));
    let script = Script::new([both, Reply::text("Done.")]);
    let ((careful, _), (look, looks)) = (careful(), tool("look", Repeat::Never));
    let world = World::new(script, vec![careful, look], vec![]).await;
    let asked = world.say("Go.").await;
    assert_eq!((asked.status, asked.interrupts.len()), (RunStatus::Interrupted, 2));
    assert_ne!(asked.interrupts[0].interrupt_id, asked.interrupts[1].interrupt_id);
    (world, looks, asked)
}

#[tokio::test]
async fn several_questions_of_a_step_are_answered_in_any_order_and_the_run_goes_on_with_the_last() {
    let (world, looks, asked) = two_questions().await;
    assert!(world.answer(&asked, 1, r#"{"type":"reject"}"#).await.is_none());
    let thread = world.store.thread(world.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.status, ThreadStatus::Interrupted);
    let end = world.answer(&asked, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    let calls = "A: careful#c1 careful#c2 look#c3";
    assert_eq!(
        world.said().await,
        ["U: Go.", calls, "T#c3: look", "T#c1: approve", "T#c2: reject", "A: Done."]
    );
    assert_eq!(looks.load(Ordering::SeqCst), 1, "a call that has its result is not made again");
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let (world, _, asked) = two_questions().await;
    world.answer(&asked, 0, r#"{"type":"approve"}"#).await;
    let interrupt = &asked.interrupts[0];
    let again = decisions(r#"{"type":"reject"}"#);
    let refused = runtime::resume(
        &*world.store,
        &world.driver.graph,
        &world.admission(),
        &[(interrupt, &again)],
        Update::default(),
    )
    .await;
    let error = refused.unwrap_err();
    assert!(matches!(error, runtime::Error::Journal(journal::Error::AlreadyDecided { .. })), "{error:?}");
}

#[tokio::test]
async fn two_last_answers_at_the_same_time_begin_one_run() {
    for _ in 0..20 {
        let (world, _, asked) = two_questions().await;
        let yes = decisions(r#"{"type":"approve"}"#);
        let (first, second) = (world.admission(), world.admission());
        let graph = &world.driver.graph;
        let answers = [[(&asked.interrupts[0], &yes)], [(&asked.interrupts[1], &yes)]];
        let (first, second) = tokio::join!(
            runtime::resume(&*world.store, graph, &first, &answers[0], Update::default()),
            runtime::resume(&*world.store, graph, &second, &answers[1], Update::default()),
        );
        let begun = [first.unwrap(), second.unwrap()].into_iter().flatten().count();
        assert_eq!(begun, 1);
    }
}

#[tokio::test]
async fn answers_whose_run_was_never_begun_are_taken_up() {
    let (world, _, asked) = two_questions().await;
    for interrupt in &asked.interrupts {
        // The process ended between storing the last answer and admitting the run.
        let resolve = journal::Write::ResolveInterrupt {
            interrupt_id: interrupt.interrupt_id,
            decisions: Some(decisions(r#"{"type":"approve"}"#)),
            at: Timestamp::now(),
        };
        world.store.commit(journal::Transaction { fence: None, writes: vec![resolve] }).await.unwrap();
    }
    let admission = world.admission();
    let begun = runtime::begin_answered(&*world.store, &admission, &asked.interrupts[0]).await.unwrap();
    let end = world.drive(&begun.unwrap().checkpoint, runtime::Entry::Fresh).await;
    assert_eq!(end.status, RunStatus::Success);
    let again = runtime::begin_answered(&*world.store, &admission, &asked.interrupts[0]).await.unwrap();
    assert!(again.is_none());
}

#[tokio::test]
async fn a_new_message_withdraws_the_questions_of_the_turn_before() {
    let (world, _, asked) = two_questions().await;
    assert_eq!(world.say("Never mind.").await.status, RunStatus::Success);
    for interrupt in &asked.interrupts {
        let now = world.store.interrupt(interrupt.interrupt_id).await.unwrap().unwrap();
        assert_eq!(now.status, InterruptStatus::Withdrawn);
    }
    let sent = world.server.requests();
    let sent = sent.last().unwrap().body.to_string();
    assert_eq!(sent.matches("Not finished: the person went on").count(), 2, "each has a result: {sent}");
}

/// Asks about an answer with calls once it is told to, as after a change of the rules.
pub struct AsksOnce(pub Arc<AtomicBool>);

#[async_trait]
impl Hook for AsksOnce {
    fn name(&self) -> &'static str {
        "asks"
    }

    async fn after_model(&self, step: &StepContext<'_>, answer: &AiMessage) -> Result<Update, Failure> {
        let has_calls = answer.content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        let asks = match self.0.load(Ordering::SeqCst) && has_calls && step.answer("asks").is_none() {
            true => vec![Ask { key: "asks".to_owned(), payload: question("Asks", "go_on") }],
            false => Vec::new(),
        };
        Ok(Update { asks, ..Update::default() })
    }
}

/// A node of another purpose, such as a handoff's.
struct Other;

#[async_trait]
impl Node for Other {
    fn name(&self) -> &'static str {
        "other"
    }

    async fn run(&self, _: StepContext<'_>) -> Result<Update, Failure> {
        let channels = Channels::from_iter([("other".to_owned(), json!(true))]);
        Ok(Update { channels, ..Update::default() })
    }
}

/// Lets a process die in a call with an effect; the one that takes the run over asks about the call.
async fn asked_after_a_death() -> (World, Arc<AtomicUsize>, runtime::RunEnd) {
    let (calls, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let started = Arc::clone(&begun);
    let work = move |_: Value, _: ToolContext| {
        let started = Arc::clone(&started);
        async move {
            started.notify_one();
            std::future::pending().await
        }
    };
    let deploy = Counting { name: "deploy", repeat: Repeat::Never, calls: Arc::clone(&calls), work };
    let script = Script::new([Reply::call("c1", "deploy", json!({})), Reply::text("Done.").repeated()]);
    let asks = Arc::new(AtomicBool::new(false));
    let world = World::new(script, vec![Arc::new(deploy)], vec![Arc::new(AsksOnce(Arc::clone(&asks)))]).await;
    let point = world.admit("Deploy it.").await;
    tokio::select! {
        end = world.drive(&point, Entry::Fresh) => unreachable!("the call never ends: {end:?}"),
        () = begun.notified() => {}
    }
    asks.store(true, Ordering::SeqCst);
    let run = world.store.run(point.run_id).await.unwrap().unwrap();
    let later = Timestamp::now() + jiff::SignedDuration::from_mins(5);
    let point = runtime::reclaim(&*world.store, &run, &OWNER.into(), runtime::Taken::Ended(later))
        .await
        .unwrap()
        .checkpoint;
    let asked = world.drive(&point, Entry::Recovered).await;
    assert_eq!((asked.status, asked.interrupts.len()), (RunStatus::Interrupted, 1));
    (world, calls, asked)
}

#[tokio::test]
async fn j2_a_call_that_may_have_been_made_is_not_made_again_because_somebody_approved_it() {
    for other_run_between in [false, true] {
        let (world, calls, asked) = asked_after_a_death().await;
        if other_run_between {
            let graph = Graph::new(Edge::To("other")).node(Arc::new(Other), Edge::End);
            let start = Start::default();
            let admitted = runtime::admit(&*world.store, &graph, &world.admission(), start).await.unwrap();
            let driver = Driver { graph: Arc::new(graph), ..world.driver.clone() };
            let (frames, cancel) = (Frames::default(), CancellationToken::new());
            driver.drive(admitted, &frames, &cancel).await.unwrap();
        }
        let end = world.answer(&asked, 0, r#"{"type":"approve"}"#).await.unwrap();
        assert_eq!((end.status, calls.load(Ordering::SeqCst)), (RunStatus::Success, 1));
        let said = world.said().await;
        assert!(said[2].contains("It may have had its effect or not"), "{said:?}");
    }
}

#[tokio::test]
async fn j2_a_call_that_may_have_been_made_is_never_told_as_not_done() {
    let (world, calls, _) = asked_after_a_death().await;
    assert_eq!(world.say("Never mind.").await.status, RunStatus::Success);
    let said = world.said().await;
    assert!(said[2].contains("It may have had its effect or not"), "{said:?}");
    assert_eq!((calls.load(Ordering::SeqCst), said.last().unwrap().as_str()), (1, "A: Done."));
}

#[tokio::test]
async fn a_question_whose_record_cannot_be_read_takes_no_answer_and_leaves_the_thread_usable() {
    let (world, looks, asked) = two_questions().await;
    let mut point = world.store.checkpoint(world.thread_id).await.unwrap().unwrap();
    point.channels.insert("_asked:tools".to_owned(), json!({"step": "first"}));
    point.checkpoint_id = CheckpointId::generate();
    let writes = vec![Write::PutCheckpoint(point)];
    world.store.commit(Transaction { fence: None, writes }).await.unwrap();
    let (interrupt, yes) = (&asked.interrupts[0], decisions(r#"{"type":"approve"}"#));
    let answers = [(interrupt, &yes)];
    let (graph, admission) = (&world.driver.graph, world.admission());
    let refused = runtime::resume(&*world.store, graph, &admission, &answers, Update::default()).await;
    let error = refused.unwrap_err();
    assert!(matches!(&error, runtime::Error::Channel(error) if error.key == "_asked:tools"), "{error:?}");
    let pending = world.store.pending_interrupts(world.thread_id).await.unwrap();
    assert_eq!(pending.len(), 2, "nothing is used up");
    assert_eq!(world.say("Go on without it.").await.status, RunStatus::Success);
    assert_eq!(looks.load(Ordering::SeqCst), 1, "no call is made again");
}
