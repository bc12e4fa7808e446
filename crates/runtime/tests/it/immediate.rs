//! Steps that another one follows at once: both become durable together, and a run that resumes at such a step with it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{CheckpointRef, ThreadPatch, Write};
use protocol::{InterruptStatus, Message, NewEvent, RunStatus};
use runtime::{
    Ask, Driver, Edge, Failure, Frame, Frames, Graph, Item, Node, Question, RunEnd, Start, StepContext,
    Update,
};
use test_model::Script;
use tokio_util::sync::CancellationToken;

use crate::world::{World, decisions, question};

/// Renames the thread, and says so.
struct Work;

#[async_trait]
impl Node for Work {
    fn name(&self) -> &'static str {
        "work"
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let patch = ThreadPatch { name: Some("Worked".to_owned()), ..ThreadPatch::default() };
        let events = vec![NewEvent::message(&Message::ai("worked"), Timestamp::now())?];
        let writes = vec![Write::UpdateThread { thread_id: step.thread_id, patch }];
        Ok(Update { events, writes, ..Update::default() })
    }
}

/// Asks about the work, and says what the answer was.
struct Approve;

#[async_trait]
impl Node for Approve {
    fn name(&self) -> &'static str {
        "approve"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn question(&self) -> Question {
        Question::OfThread
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let Some(answer) = step.answer("approve") else {
            let unwritten = step.unwritten.iter().any(|write| matches!(write, Write::UpdateThread { .. }));
            let stored = step.store.thread(step.thread_id).await?.and_then(|thread| thread.name);
            assert_eq!((unwritten, stored), (true, None), "the work is seen, and not durable yet");
            let payload = question("Approve", "go_on");
            return Ok(Update {
                asks: vec![Ask { key: "approve".to_owned(), payload }],
                ..Update::default()
            });
        };
        let said = Message::ai(answer.decisions[0].type_name());
        Ok(Update { events: vec![NewEvent::message(&said, Timestamp::now())?], ..Update::default() })
    }
}

async fn asked() -> (World, Driver, RunEnd, Vec<String>) {
    let world = World::new(Script::new([]), vec![], vec![]).await;
    let graph = Graph::new(Edge::To("work"))
        .node(Arc::new(Work), Edge::To("approve"))
        .node(Arc::new(Approve), Edge::End);
    let driver = Driver { graph: Arc::new(graph), ..world.driver.clone() };
    let (frames, mut stream) = Frames::channel();
    let admitted = runtime::admit(&*world.store, &driver.graph, &world.admission(), Start::default()).await;
    let end = driver.drive(admitted.unwrap(), &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1));
    let mut told = Vec::new();
    while let Some(Item::Frame(_, frame)) = stream.try_next() {
        match &*frame {
            Frame::StepStarted { node, .. } => told.push(format!("begins {node}")),
            Frame::Updates { node, .. } => told.push(format!("ends {node}")),
            Frame::Values { checkpoint_id, head_seq, .. } => {
                let at = CheckpointRef::Id(*checkpoint_id);
                let point = world.store.checkpoint_at(world.thread_id, at, journal::Superseded::Hidden).await;
                let (point, _) = point.unwrap().expect("a state that is told is a point of the past");
                assert_eq!(point.head_seq, *head_seq, "after {told:?}");
            }
            _ => {}
        }
    }
    (world, driver, end, told)
}

#[tokio::test]
async fn a_step_and_the_question_about_it_are_durable_together_and_told_in_order() {
    let (world, _, end, told) = asked().await;
    assert_eq!(told, ["begins work", "ends work", "begins approve", "ends approve"]);
    let thread = world.store.thread(world.thread_id).await.unwrap().unwrap();
    assert_eq!(thread.name.as_deref(), Some("Worked"));
    assert_eq!(world.said().await, ["A: worked"]);
    assert_eq!(world.store.pending_interrupts(world.thread_id).await.unwrap(), end.interrupts);
    // Each step has its own point in the past.
    assert_eq!(
        world.store.checkpoints(world.thread_id, None, 10, journal::Superseded::Hidden).await.unwrap().len(),
        3
    );
}

#[tokio::test]
async fn g20_of_two_answers_worked_out_at_the_same_time_one_is_taken_and_the_other_leaves_nothing() {
    let (world, driver, end, _) = asked().await;
    let interrupt = &end.interrupts[0];
    let (yes, no) = (decisions(r#"{"type":"approve"}"#), decisions(r#"{"type":"reject"}"#));
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let resume = async |admission, answer| {
        let resumed = runtime::resume(
            &*world.store,
            &driver.graph,
            &admission,
            &[(interrupt, answer)],
            Update::default(),
        )
        .await;
        resumed.unwrap().expect("a run goes on")
    };
    let first = resume(world.admission(), &yes).await;
    let late = world.admission();
    let late_run = late.run_id;
    let second = resume(late, &no).await;
    let pending = world.store.interrupt(interrupt.interrupt_id).await.unwrap().unwrap();
    assert_eq!(pending.status, InterruptStatus::Pending, "an answer is durable with its step only");
    assert_eq!(driver.drive(first, &frames, &cancel).await.unwrap().status, RunStatus::Success);
    let refused = driver.drive(second, &frames, &cancel).await.unwrap_err();
    assert!(matches!(refused, runtime::Error::Journal(journal::Error::AlreadyDecided { .. })), "{refused:?}");
    assert_eq!(world.store.run(late_run).await.unwrap(), None);
    assert_eq!(world.said().await, ["A: worked", "A: approve"]);
}

#[tokio::test]
async fn an_answer_that_was_outrun_changes_nothing_and_can_be_given_again() {
    let (world, driver, end, _) = asked().await;
    let yes = decisions(r#"{"type":"approve"}"#);
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    let (graph, answer) = (&driver.graph, [(&end.interrupts[0], &yes)]);
    let resume = || async {
        let resumed =
            runtime::resume(&*world.store, graph, &world.admission(), &answer, Update::default()).await;
        resumed.unwrap().expect("a run goes on")
    };
    let admitted = resume().await;
    let none = Graph::new(Edge::End);
    let other = runtime::admit(&*world.store, &none, &world.admission(), Start::default()).await.unwrap();
    let between = Driver { graph: Arc::new(none), ..driver.clone() };
    between.drive(other, &frames, &cancel).await.unwrap();
    let outrun = driver.drive(admitted, &frames, &cancel).await.unwrap_err();
    assert!(matches!(outrun, runtime::Error::Outrun), "{outrun:?}");
    assert_eq!(world.said().await, ["A: worked"]);
    let end = driver.drive(resume().await, &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    assert_eq!(world.said().await, ["A: worked", "A: approve"]);
}
