//! Questions: several of one step, each by its id, answered in any order, withdrawn when the thread goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use protocol::{InterruptStatus, RunStatus, ThreadStatus};
use runtime::{Repeat, Tool, ToolContext, ToolOutput};
use scripted::{Reply, Script};
use serde_json::{Value, json};

use crate::world::{Counting, World, decisions, question, tool};

/// Returns a tool that asks before it says which decision it got.
fn careful() -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
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

async fn two_questions() -> (World, Arc<AtomicUsize>, runtime::RunEnd) {
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
    let refused = runtime::resume(&*world.store, &world.admission(), interrupt, &again).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, runtime::Error::Journal(journal::Error::AlreadyDecided { .. })), "{error:?}");
}

#[tokio::test]
async fn two_last_answers_at_the_same_time_begin_one_run() {
    for _ in 0..20 {
        let (world, _, asked) = two_questions().await;
        let yes = decisions(r#"{"type":"approve"}"#);
        let (first, second) = (world.admission(), world.admission());
        let (first, second) = tokio::join!(
            runtime::resume(&*world.store, &first, &asked.interrupts[0], &yes),
            runtime::resume(&*world.store, &second, &asked.interrupts[1], &yes),
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
    let end = world.drive(&begun.unwrap(), runtime::Entry::Fresh).await;
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
    assert_eq!(sent.matches("went on without answering").count(), 2, "each call has a result: {sent}");
}
