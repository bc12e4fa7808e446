//! The turn machine as tables: what happened → what is to be done. No driver, no store.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{Checkpoint, CheckpointId, CheckpointSource, PendingActivity, RunId, RunStatus, ThreadId};
use serde_json::{Value, json};

use super::breakpoints::Nodes;
use super::*;
use crate::graph::{Edge, Node};
use crate::step::{Ask, StepContext};
use protocol::FailureKind;

struct Named(&'static str);

#[async_trait]
impl Node for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<Update, Failure> {
        Ok(Update::default())
    }
}

/// A node that has nothing to do unless the state says so.
struct Idle(&'static str);

#[async_trait]
impl Node for Idle {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<Update, Failure> {
        Ok(Update::default())
    }

    fn is_idle(&self, channels: &Channels) -> bool {
        !channels.contains_key(self.0)
    }
}

#[test]
fn a_node_with_nothing_to_do_is_passed_by_and_the_run_may_end_with_the_step_before() {
    let graph = Graph::new(Edge::To("first"))
        .node(Arc::new(Idle("first")), Edge::To("work"))
        .node(Arc::new(Named("work")), Edge::To("idle"))
        .node(Arc::new(Idle("idle")), Edge::To("last"))
        .node(Arc::new(Idle("last")), Edge::End);
    let has = |key: &str| Channels::from_iter([(key.to_owned(), json!(1))]);
    assert_eq!(graph.first(&Channels::new()).unwrap().as_deref(), Some("work"));
    assert_eq!(graph.first(&has("first")).unwrap().as_deref(), Some("first"));
    assert_eq!(graph.after("work", &Channels::new()), Ok(None));
    assert_eq!(graph.after("work", &has("last")).unwrap().as_deref(), Some("last"));
    let circle = Graph::new(Edge::To("idle")).node(Arc::new(Idle("idle")), Edge::To("idle"));
    assert_eq!(circle.first(&Channels::new()), Ok(None));
}

fn graph() -> Graph {
    let again = |channels: &Channels| Ok(channels.contains_key("again").then_some("ask"));
    Graph::new(Edge::To("work"))
        .node(Arc::new(Named("work")), Edge::To("ask"))
        .node(Arc::new(Named("ask")), Edge::When(again))
}

fn at(next: Option<&str>, channels: Value, activities: &[&str]) -> Checkpoint {
    let Value::Object(channels) = channels else { unreachable!("tests give an object") };
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id: ThreadId::generate(),
        run_id: RunId::generate(),
        step: 0,
        head_seq: 0,
        next: next.map(str::to_owned),
        channels,
        activities: activities.iter().map(|name| activity(name)).collect(),
        source: CheckpointSource::Loop,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

fn activity(name: &str) -> PendingActivity {
    PendingActivity { name: name.to_owned(), args: Value::Null }
}

fn asking() -> Update {
    let payload = InterruptPayload {
        schema_version: 1,
        middleware_source: "Test".to_owned(),
        action_requests: Vec::new(),
        review_configs: Vec::new(),
        workspace: None,
    };
    Update { asks: vec![Ask { key: "it".to_owned(), payload }], ..Update::default() }
}

fn setting(key: &str, value: Value) -> Update {
    Update { channels: Channels::from_iter([(key.to_owned(), value)]), ..Update::default() }
}

fn stop(update: Update) -> Input {
    Input::Stop { update, status: RunStatus::Cancelled, why: "it was stopped".to_owned() }
}

/// Returns an effect as one word or two.
fn told(effect: &Effect) -> String {
    match effect {
        Effect::Run { node, answers, entry } => {
            let answered = if answers.is_empty() { "" } else { " with an answer" };
            let again = if *entry == Entry::Recovered { " again" } else { "" };
            format!("run {node}{answered}{again}")
        }
        Effect::Commit { ending: None, .. } => "commit".to_owned(),
        Effect::Commit { ending: Some(ending), .. } => format!("commit, {}", ending.status.as_str()),
        Effect::Perform(activity) => format!("perform {}", activity.name),
        Effect::Rest(ending) => format!("rest, {}", ending.status.as_str()),
    }
}

/// Where nobody wants to look.
static NOWHERE: Breakpoints = Breakpoints { before: Nodes::None, after: Nodes::None };

const fn steps(steps_max: u64) -> Bounds<'static> {
    Bounds { steps_max, breakpoints: &NOWHERE }
}

#[track_caller]
fn check(checkpoint: &Checkpoint, inputs: Vec<Input>, expected: &[&str]) {
    check_within(steps(10), checkpoint, inputs, expected);
}

#[track_caller]
fn check_within(bounds: Bounds<'_>, checkpoint: &Checkpoint, inputs: Vec<Input>, expected: &[&str]) {
    let graph = graph();
    let (mut turn, effect) = Turn::begin(&graph, checkpoint, bounds, Entry::Fresh);
    let mut effects = vec![told(&effect)];
    effects.extend(inputs.into_iter().map(|input| told(&turn.advance(input))));
    assert_eq!(effects, expected);
}

#[test]
fn a_turn_runs_its_nodes_and_commits_after_each() {
    check(
        &at(Some("work"), json!({}), &[]),
        vec![
            Input::Ran(Ok(setting("worked", json!(1)))),
            Input::Committed,
            Input::Ran(Ok(setting("asked", json!(1)))),
            Input::Committed,
        ],
        &["run work", "commit", "run ask", "commit, success", "rest, success"],
    );
}

#[test]
fn a_step_that_changes_nothing_needs_no_commit_unless_it_is_the_last() {
    check(
        &at(Some("work"), json!({}), &[]),
        vec![Input::Ran(Ok(Update::default())), Input::Ran(Ok(Update::default()))],
        &["run work", "run ask", "commit, success"],
    );
}

#[test]
fn a_jump_goes_elsewhere_than_the_edge() {
    let jump = Update { jump: Some("work"), ..Update::default() };
    check(
        &at(Some("ask"), json!({}), &[]),
        vec![Input::Ran(Ok(jump)), Input::Committed],
        &["run ask", "commit", "run work"],
    );
}

#[test]
fn j2_after_a_crash_whatever_follows_a_node_that_only_looks_on_may_have_been_begun() {
    struct LooksOn;

    #[async_trait]
    impl Node for LooksOn {
        fn name(&self) -> &'static str {
            "look"
        }

        async fn run(&self, _step: StepContext<'_>) -> Result<Update, Failure> {
            Ok(Update::default())
        }

        fn acts(&self) -> bool {
            false
        }
    }

    let graph = Graph::new(Edge::To("look"))
        .node(Arc::new(LooksOn), Edge::To("work"))
        .node(Arc::new(Named("work")), Edge::To("ask"))
        .node(Arc::new(Named("ask")), Edge::End);
    let look = at(Some("look"), json!({}), &[]);
    let run = |turn: &mut Turn<'_>, inputs: Vec<Input>| -> Vec<String> {
        inputs.into_iter().map(|input| told(&turn.advance(input))).collect()
    };
    // It passes without a trace, or leaves one.
    let (mut turn, _) = Turn::begin(&graph, &look, steps(10), Entry::Recovered);
    let passed = run(&mut turn, vec![Input::Ran(Ok(Update::default()))]);
    assert_eq!(passed, ["run work again"]);
    let (mut turn, _) = Turn::begin(&graph, &look, steps(10), Entry::Recovered);
    let left = run(&mut turn, vec![Input::Ran(Ok(setting("x", json!(1)))), Input::Committed]);
    assert_eq!(left, ["commit", "run work again"]);
    // It asks, and another process goes on with the answer.
    let (mut turn, _) = Turn::begin(&graph, &look, steps(10), Entry::Recovered);
    assert_eq!(run(&mut turn, vec![Input::Ran(Ok(asking()))]), ["commit, interrupted"]);
    let asked = asked_channel("look").get(&turn.channels).unwrap().unwrap();
    assert_eq!((asked.step, asked.entry), (1, Entry::Recovered));
    let answered = at(Some("look"), json!({"_recovered": true}), &[]);
    let (mut turn, effect) = Turn::begin(&graph, &answered, steps(10), Entry::Fresh);
    assert_eq!(told(&effect), "run look again");
    let done = run(
        &mut turn,
        vec![
            Input::Ran(Ok(setting("answered", json!(1)))),
            Input::Committed,
            Input::Ran(Ok(setting("x", json!(1)))),
            Input::Committed,
        ],
    );
    assert_eq!(done, ["commit", "run work again", "commit", "run ask"]);
}

#[test]
fn a_conditional_edge_reads_the_state_the_step_left() {
    check(
        &at(Some("ask"), json!({}), &[]),
        vec![
            Input::Ran(Ok(setting("again", json!(true)))),
            Input::Committed,
            Input::Ran(Ok(setting("again", Value::Null))),
        ],
        &["run ask", "commit", "run ask", "commit, success"],
    );
}

#[test]
fn an_interrupt_ends_the_run_in_the_transaction_that_stores_it() {
    check(
        &at(Some("ask"), json!({}), &[]),
        vec![Input::Ran(Ok(asking())), Input::Committed],
        &["run ask", "commit, interrupted", "rest, interrupted"],
    );
}

#[test]
fn the_answer_reaches_the_node_that_asked_and_no_other() {
    let answered = at(
        Some("ask"),
        json!({"_answers": [{"key": "it", "decisions": {"decisions": [{"type": "approve"}]}}]}),
        &[],
    );
    check(
        &answered,
        vec![Input::Ran(Ok(setting("again", json!(true)))), Input::Committed],
        &["run ask with an answer", "commit", "run ask"],
    );
}

#[test]
fn activities_are_performed_after_the_commit_in_order_each_confirmed_by_one() {
    let two = Update { activities: vec![activity("first"), activity("second")], ..Update::default() };
    check(
        &at(Some("ask"), json!({}), &[]),
        vec![
            Input::Ran(Ok(two)),
            Input::Committed,
            Input::Performed(Ok(Update::default())),
            Input::Committed,
            Input::Performed(Ok(Update::default())),
            Input::Committed,
        ],
        &[
            "run ask",
            "commit",
            "perform first",
            "commit",
            "perform second",
            "commit, success",
            "rest, success",
        ],
    );
}

#[test]
fn m2_a_checkpoint_with_activities_performs_them_before_anything_else() {
    check(
        &at(None, json!({}), &["left_over"]),
        vec![Input::Performed(Ok(Update::default())), Input::Committed],
        &["perform left_over", "commit, success", "rest, success"],
    );
}

#[test]
fn a_failed_activity_stays_in_the_checkpoint_to_be_repeated() {
    let graph = graph();
    let (mut turn, _) = Turn::begin(&graph, &at(None, json!({}), &["left_over"]), steps(10), Entry::Fresh);
    let effect = turn.advance(Input::Performed(Err(Failure::new(FailureKind::Store, "no"))));
    assert_eq!(told(&effect), "commit, error");
    assert_eq!(turn.activities.len(), 1);
}

#[test]
fn a_failed_step_keeps_what_it_had_and_its_node_runs_again_on_resume() {
    let graph = graph();
    let (mut turn, _) = Turn::begin(&graph, &at(Some("work"), json!({}), &[]), steps(10), Entry::Fresh);
    let failure = Failure::new(FailureKind::Model, "down").keeping(setting("kept", json!(1)));
    let effect = turn.advance(Input::Ran(Err(failure)));
    assert_eq!(told(&effect), "commit, error");
    assert_eq!((turn.next.as_deref(), turn.channels.get("kept")), (Some("work"), Some(&json!(1))));
}

#[test]
fn a_stop_keeps_what_the_node_returned_and_begins_nothing_more() {
    check(
        &at(Some("work"), json!({}), &[]),
        vec![stop(Update::default()), Input::Committed],
        &["run work", "commit, cancelled", "rest, cancelled"],
    );
    check(
        &at(Some("work"), json!({}), &[]),
        vec![Input::Ran(Ok(setting("x", json!(1)))), stop(Update::default()), Input::Committed],
        &["run work", "commit", "commit, cancelled", "rest, cancelled"],
    );
}

#[test]
fn a_stop_does_not_undo_what_was_decided() {
    let one = Update { activities: vec![activity("accept")], ..Update::default() };
    check(
        &at(Some("ask"), json!({}), &[]),
        vec![
            Input::Ran(Ok(one)),
            stop(Update::default()),
            Input::Performed(Ok(Update::default())),
            Input::Committed,
        ],
        &["run ask", "commit", "perform accept", "commit, success", "rest, success"],
    );
}

#[test]
fn the_limit_of_steps_ends_the_run_with_its_reason() {
    let graph = graph();
    let (mut turn, _) =
        Turn::begin(&graph, &at(Some("ask"), json!({"again": true}), &[]), steps(1), Entry::Fresh);
    let effect = turn.advance(Input::Ran(Ok(Update::default())));
    assert_eq!(told(&effect), "commit, timeout");
}

fn these(names: &[&str]) -> Nodes {
    Nodes::These(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_run_stops_before_a_node_its_client_wants_to_look_at() {
    let breakpoints = Breakpoints { before: these(&["ask"]), after: Nodes::None };
    let bounds = Bounds { steps_max: 10, breakpoints: &breakpoints };
    let worked = || Input::Ran(Ok(setting("worked", json!(1))));
    check_within(
        bounds,
        &at(Some("work"), json!({}), &[]),
        vec![worked(), Input::Committed],
        &["run work", "commit, interrupted", "rest, interrupted"],
    );
    // The step before changed nothing, or there is none.
    let nothing = Input::Ran(Ok(Update::default()));
    check_within(
        bounds,
        &at(Some("work"), json!({}), &[]),
        vec![nothing],
        &["run work", "commit, interrupted"],
    );
    check_within(bounds, &at(Some("ask"), json!({}), &[]), vec![], &["commit, interrupted"]);
}

#[test]
fn a_run_that_goes_on_where_it_stopped_does_not_stop_there_again() {
    let breakpoints = Breakpoints { before: Nodes::All, after: Nodes::None };
    let bounds = Bounds { steps_max: 10, breakpoints: &breakpoints };
    let again = || Input::Ran(Ok(setting("again", json!(true))));
    for channels in [
        json!({"_goes_on": true}),
        json!({"_answers": [{"key": "it", "decisions": {"decisions": [{"type": "approve"}]}}]}),
    ] {
        let graph = graph();
        let (mut turn, effect) = Turn::begin(&graph, &at(Some("ask"), channels, &[]), bounds, Entry::Fresh);
        assert!(told(&effect).starts_with("run ask"));
        assert_eq!(told(&turn.advance(again())), "commit, interrupted", "the next round stops");
        assert_eq!(turn.channels, Channels::from_iter([("again".to_owned(), json!(true))]));
    }
}

#[test]
fn a_run_stops_after_a_node_unless_nothing_follows() {
    let breakpoints = Breakpoints { before: Nodes::None, after: Nodes::All };
    let bounds = Bounds { steps_max: 10, breakpoints: &breakpoints };
    check_within(
        bounds,
        &at(Some("work"), json!({}), &[]),
        vec![Input::Ran(Ok(setting("x", json!(1))))],
        &["run work", "commit, interrupted"],
    );
    check_within(
        bounds,
        &at(Some("ask"), json!({}), &[]),
        vec![Input::Ran(Ok(setting("x", json!(1))))],
        &["run ask", "commit, success"],
    );
}

#[test]
fn m2_activities_are_performed_before_a_run_stops_at_a_breakpoint() {
    let breakpoints = Breakpoints { before: Nodes::None, after: these(&["work"]) };
    let bounds = Bounds { steps_max: 10, breakpoints: &breakpoints };
    let one = Update { activities: vec![activity("accept")], ..Update::default() };
    check_within(
        bounds,
        &at(Some("work"), json!({}), &[]),
        vec![Input::Ran(Ok(one)), Input::Committed, Input::Performed(Ok(Update::default()))],
        &["run work", "commit", "perform accept", "commit, interrupted"],
    );
}

#[test]
fn an_answer_to_nothing_is_an_internal_failure_not_a_panic() {
    check(&at(Some("work"), json!({}), &[]), vec![Input::Committed], &["run work", "commit, error"]);
}

#[test]
fn what_a_person_answered_fails_the_run_when_it_cannot_be_read_and_never_counts_as_no_answer() {
    let graph = graph();
    let unreadable = at(Some("ask"), json!({"_answers": "approve", "kept": 1}), &[]);
    let (turn, effect) = Turn::begin(&graph, &unreadable, steps(10), Entry::Fresh);
    let Effect::Commit { ending: Some(ending), .. } = &effect else { panic!("{effect:?}") };
    let RunFailure { kind, message, hint } = ending.failure.clone().unwrap();
    assert_eq!((ending.status, kind), (RunStatus::Error, FailureKind::Store));
    assert!(message.contains("`_answers`") && hint.is_some(), "{message}");
    assert_eq!(turn.next.as_deref(), Some("ask"), "the node can ask again");
    assert_eq!(turn.channels, Channels::from_iter([("kept".to_owned(), json!(1))]));
}

#[test]
fn an_edge_over_a_state_that_cannot_be_read_fails_the_run_and_keeps_the_step() {
    const AGAIN: Channel<bool> = Channel::new("again");
    let again = |channels: &Channels| Ok(AGAIN.get(channels)?.and(Some("ask")));
    let graph = Graph::new(Edge::To("ask")).node(Arc::new(Named("ask")), Edge::When(again));
    let begun = at(Some("ask"), json!({"again": "perhaps"}), &[]);
    let (mut turn, _) = Turn::begin(&graph, &begun, steps(10), Entry::Fresh);
    let effect = turn.advance(Input::Ran(Ok(setting("x", json!(1)))));
    assert_eq!(told(&effect), "commit, error");
    let Effect::Commit { update, .. } = effect else { panic!("it commits") };
    assert_eq!(update.channels["x"], json!(1));
    assert_eq!(turn.channels, Channels::from_iter([("x".to_owned(), json!(1))]));
}
