//! Table tests of the turn machine: inputs and the effects that follow from them, without a driver or a store.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{Checkpoint, CheckpointId, CheckpointSource, PendingActivity, RunId, RunStatus, ThreadId};
use serde_json::{Value, json};

use super::breakpoints::NodeSet;
use super::*;
use crate::graph::{Edge, Node};
use crate::step::{InterruptRequest, StepContext};
use protocol::FailureKind;

/// A node that changes nothing.
struct NoopNode(&'static str);

#[async_trait]
impl Node for NoopNode {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }
}

/// A node that can be skipped unless the state has a channel of its name.
struct IdleNode(&'static str);

#[async_trait]
impl Node for IdleNode {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }

    fn can_skip(&self, channels: &Channels) -> bool {
        !channels.contains_key(self.0)
    }
}

#[test]
fn a_node_that_can_be_skipped_costs_no_step_and_the_run_may_end_with_the_step_before() {
    let graph = Graph::new(Edge::To("first"))
        .with_node(Arc::new(IdleNode("first")), Edge::To("work"))
        .with_node(Arc::new(NoopNode("work")), Edge::To("idle"))
        .with_node(Arc::new(IdleNode("idle")), Edge::To("last"))
        .with_node(Arc::new(IdleNode("last")), Edge::End);
    let has = |key: &str| Channels::from_iter([(key.to_owned(), json!(1))]);
    assert_eq!(graph.first_node(&Channels::new()).unwrap().as_deref(), Some("work"));
    assert_eq!(graph.first_node(&has("first")).unwrap().as_deref(), Some("first"));
    assert_eq!(graph.next_node("work", &Channels::new()), Ok(None));
    assert_eq!(graph.next_node("work", &has("last")).unwrap().as_deref(), Some("last"));
    let cycle = Graph::new(Edge::To("idle")).with_node(Arc::new(IdleNode("idle")), Edge::To("idle"));
    assert_eq!(cycle.first_node(&Channels::new()), Ok(None));
}

/// Returns a graph `work` → `ask`, which repeats `ask` while the channel `again` is set.
fn graph() -> Graph {
    let again = |channels: &Channels| Ok(channels.contains_key("again").then_some("ask"));
    Graph::new(Edge::To("work"))
        .with_node(Arc::new(NoopNode("work")), Edge::To("ask"))
        .with_node(Arc::new(NoopNode("ask")), Edge::Conditional(again))
}

fn checkpoint_at(next: Option<&str>, channels: Value, activities: &[&str]) -> Checkpoint {
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

fn interrupt_update() -> GraphUpdate {
    let payload = InterruptPayload {
        schema_version: 1,
        middleware_source: "Test".to_owned(),
        action_requests: Vec::new(),
        review_configs: Vec::new(),
        workspace: None,
    };
    GraphUpdate {
        interrupts: vec![InterruptRequest { key: "it".to_owned(), payload }],
        ..GraphUpdate::default()
    }
}

fn channel_update(key: &str, value: Value) -> GraphUpdate {
    GraphUpdate { channels: Channels::from_iter([(key.to_owned(), value)]), ..GraphUpdate::default() }
}

fn stop_input(update: GraphUpdate) -> TurnInput {
    TurnInput::Stop { update, status: RunStatus::Cancelled, reason: "it was stopped".to_owned() }
}

/// Describes an effect in a few words.
fn describe_effect(effect: &TurnEffect) -> String {
    match effect {
        TurnEffect::RunNode { node, answers, entry } => {
            let with_answer = if answers.is_empty() { "" } else { " with an answer" };
            let again = if *entry == StepEntry::Recovered { " again" } else { "" };
            format!("run {node}{with_answer}{again}")
        }
        TurnEffect::Commit { ending: None, .. } => "commit".to_owned(),
        TurnEffect::Commit { ending: Some(ending), .. } => format!("commit, {}", ending.status.as_str()),
        TurnEffect::Perform(activity) => format!("perform {}", activity.name),
        TurnEffect::Finish(ending) => format!("finish, {}", ending.status.as_str()),
    }
}

/// The breakpoints of a client that sets none.
static NO_BREAKPOINTS: Breakpoints = Breakpoints { before: NodeSet::None, after: NodeSet::None };

const fn steps(steps_max: u64) -> TurnLimits<'static> {
    TurnLimits { steps_max, breakpoints: &NO_BREAKPOINTS }
}

#[track_caller]
fn check(checkpoint: &Checkpoint, inputs: Vec<TurnInput>, expected: &[&str]) {
    check_within(steps(10), checkpoint, inputs, expected);
}

#[track_caller]
fn check_within(limits: TurnLimits<'_>, checkpoint: &Checkpoint, inputs: Vec<TurnInput>, expected: &[&str]) {
    let graph = graph();
    let (mut turn, effect) = TurnMachine::begin(&graph, checkpoint, limits, StepEntry::Fresh);
    let mut effects = vec![describe_effect(&effect)];
    effects.extend(inputs.into_iter().map(|input| describe_effect(&turn.advance(input))));
    assert_eq!(effects, expected);
}

#[test]
fn a_turn_runs_its_nodes_and_commits_after_each() {
    check(
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![
            TurnInput::Ran(Ok(channel_update("worked", json!(1)))),
            TurnInput::Committed,
            TurnInput::Ran(Ok(channel_update("asked", json!(1)))),
            TurnInput::Committed,
        ],
        &["run work", "commit", "run ask", "commit, success", "finish, success"],
    );
}

#[test]
fn a_step_that_changes_nothing_needs_no_commit_unless_it_is_the_last() {
    check(
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(GraphUpdate::default())), TurnInput::Ran(Ok(GraphUpdate::default()))],
        &["run work", "run ask", "commit, success"],
    );
}

#[test]
fn a_jump_replaces_the_edge() {
    let jump = GraphUpdate { jump: Some("work"), ..GraphUpdate::default() };
    check(
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(jump)), TurnInput::Committed],
        &["run ask", "commit", "run work"],
    );
}

#[test]
fn j2_after_a_crash_the_node_after_one_without_effects_may_have_been_started() {
    struct ObservingNode;

    #[async_trait]
    impl Node for ObservingNode {
        fn name(&self) -> &'static str {
            "look"
        }

        async fn run(&self, _step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
            Ok(GraphUpdate::default())
        }

        fn has_effects(&self) -> bool {
            false
        }
    }

    let graph = Graph::new(Edge::To("look"))
        .with_node(Arc::new(ObservingNode), Edge::To("work"))
        .with_node(Arc::new(NoopNode("work")), Edge::To("ask"))
        .with_node(Arc::new(NoopNode("ask")), Edge::End);
    let first_checkpoint = checkpoint_at(Some("look"), json!({}), &[]);
    let run = |turn: &mut TurnMachine<'_>, inputs: Vec<TurnInput>| -> Vec<String> {
        inputs.into_iter().map(|input| describe_effect(&turn.advance(input))).collect()
    };
    // The observing node changes nothing, or something.
    let (mut turn, _) = TurnMachine::begin(&graph, &first_checkpoint, steps(10), StepEntry::Recovered);
    let effects = run(&mut turn, vec![TurnInput::Ran(Ok(GraphUpdate::default()))]);
    assert_eq!(effects, ["run work again"]);
    let (mut turn, _) = TurnMachine::begin(&graph, &first_checkpoint, steps(10), StepEntry::Recovered);
    let effects =
        run(&mut turn, vec![TurnInput::Ran(Ok(channel_update("x", json!(1)))), TurnInput::Committed]);
    assert_eq!(effects, ["commit", "run work again"]);
    // The observing node asks, and another process continues with the answer.
    let (mut turn, _) = TurnMachine::begin(&graph, &first_checkpoint, steps(10), StepEntry::Recovered);
    assert_eq!(run(&mut turn, vec![TurnInput::Ran(Ok(interrupt_update()))]), ["commit, interrupted"]);
    let questions = pending_questions_channel("look").get(&turn.channels).unwrap().unwrap();
    assert_eq!((questions.step, questions.entry), (1, StepEntry::Recovered));
    let answered = checkpoint_at(Some("look"), json!({"_recovered": true}), &[]);
    let (mut turn, effect) = TurnMachine::begin(&graph, &answered, steps(10), StepEntry::Fresh);
    assert_eq!(describe_effect(&effect), "run look again");
    let effects = run(
        &mut turn,
        vec![
            TurnInput::Ran(Ok(channel_update("answered", json!(1)))),
            TurnInput::Committed,
            TurnInput::Ran(Ok(channel_update("x", json!(1)))),
            TurnInput::Committed,
        ],
    );
    assert_eq!(effects, ["commit", "run work again", "commit", "run ask"]);
}

#[test]
fn a_conditional_edge_reads_the_state_after_the_step() {
    check(
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![
            TurnInput::Ran(Ok(channel_update("again", json!(true)))),
            TurnInput::Committed,
            TurnInput::Ran(Ok(channel_update("again", Value::Null))),
        ],
        &["run ask", "commit", "run ask", "commit, success"],
    );
}

#[test]
fn an_interrupt_ends_the_run_in_the_transaction_that_stores_it() {
    check(
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(interrupt_update())), TurnInput::Committed],
        &["run ask", "commit, interrupted", "finish, interrupted"],
    );
}

#[test]
fn the_answer_reaches_the_node_that_asked_and_no_other() {
    let answered = checkpoint_at(
        Some("ask"),
        json!({"_answers": [{"key": "it", "decisions": {"decisions": [{"type": "approve"}]}}]}),
        &[],
    );
    check(
        &answered,
        vec![TurnInput::Ran(Ok(channel_update("again", json!(true)))), TurnInput::Committed],
        &["run ask with an answer", "commit", "run ask"],
    );
}

#[test]
fn activities_are_performed_after_the_commit_in_order_and_each_is_confirmed_by_a_commit() {
    let two =
        GraphUpdate { activities: vec![activity("first"), activity("second")], ..GraphUpdate::default() };
    check(
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![
            TurnInput::Ran(Ok(two)),
            TurnInput::Committed,
            TurnInput::Performed(Ok(GraphUpdate::default())),
            TurnInput::Committed,
            TurnInput::Performed(Ok(GraphUpdate::default())),
            TurnInput::Committed,
        ],
        &[
            "run ask",
            "commit",
            "perform first",
            "commit",
            "perform second",
            "commit, success",
            "finish, success",
        ],
    );
}

#[test]
fn m2_a_checkpoint_with_activities_performs_them_before_anything_else() {
    check(
        &checkpoint_at(None, json!({}), &["left_over"]),
        vec![TurnInput::Performed(Ok(GraphUpdate::default())), TurnInput::Committed],
        &["perform left_over", "commit, success", "finish, success"],
    );
}

#[test]
fn a_failed_activity_stays_in_the_checkpoint_to_be_repeated() {
    let graph = graph();
    let (mut turn, _) = TurnMachine::begin(
        &graph,
        &checkpoint_at(None, json!({}), &["left_over"]),
        steps(10),
        StepEntry::Fresh,
    );
    let effect = turn.advance(TurnInput::Performed(Err(StepFailure::new(FailureKind::Store, "no"))));
    assert_eq!(describe_effect(&effect), "commit, error");
    assert_eq!(turn.activities.len(), 1);
}

#[test]
fn a_failed_step_keeps_its_partial_update_and_its_node_runs_again_on_resume() {
    let graph = graph();
    let (mut turn, _) =
        TurnMachine::begin(&graph, &checkpoint_at(Some("work"), json!({}), &[]), steps(10), StepEntry::Fresh);
    let failure = StepFailure::new(FailureKind::Model, "down").with_partial(channel_update("kept", json!(1)));
    let effect = turn.advance(TurnInput::Ran(Err(failure)));
    assert_eq!(describe_effect(&effect), "commit, error");
    assert_eq!((turn.next.as_deref(), turn.channels.get("kept")), (Some("work"), Some(&json!(1))));
}

#[test]
fn a_stop_keeps_the_nodes_update_and_starts_nothing_more() {
    check(
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![stop_input(GraphUpdate::default()), TurnInput::Committed],
        &["run work", "commit, cancelled", "finish, cancelled"],
    );
    check(
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![
            TurnInput::Ran(Ok(channel_update("x", json!(1)))),
            stop_input(GraphUpdate::default()),
            TurnInput::Committed,
        ],
        &["run work", "commit", "commit, cancelled", "finish, cancelled"],
    );
}

#[test]
fn a_stop_does_not_cancel_pending_activities() {
    let one = GraphUpdate { activities: vec![activity("accept")], ..GraphUpdate::default() };
    check(
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![
            TurnInput::Ran(Ok(one)),
            stop_input(GraphUpdate::default()),
            TurnInput::Performed(Ok(GraphUpdate::default())),
            TurnInput::Committed,
        ],
        &["run ask", "commit", "perform accept", "commit, success", "finish, success"],
    );
}

#[test]
fn the_limit_of_steps_ends_the_run_as_timeout() {
    let graph = graph();
    let (mut turn, _) = TurnMachine::begin(
        &graph,
        &checkpoint_at(Some("ask"), json!({"again": true}), &[]),
        steps(1),
        StepEntry::Fresh,
    );
    let effect = turn.advance(TurnInput::Ran(Ok(GraphUpdate::default())));
    assert_eq!(describe_effect(&effect), "commit, timeout");
}

fn named_nodes(names: &[&str]) -> NodeSet {
    NodeSet::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_run_stops_at_a_breakpoint_before_a_node() {
    let breakpoints = Breakpoints { before: named_nodes(&["ask"]), after: NodeSet::None };
    let limits = TurnLimits { steps_max: 10, breakpoints: &breakpoints };
    let worked = || TurnInput::Ran(Ok(channel_update("worked", json!(1))));
    check_within(
        limits,
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![worked(), TurnInput::Committed],
        &["run work", "commit, interrupted", "finish, interrupted"],
    );
    // The step before changed nothing, or there is no step before.
    let no_change = TurnInput::Ran(Ok(GraphUpdate::default()));
    check_within(
        limits,
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![no_change],
        &["run work", "commit, interrupted"],
    );
    check_within(limits, &checkpoint_at(Some("ask"), json!({}), &[]), vec![], &["commit, interrupted"]);
}

#[test]
fn a_run_that_resumes_at_a_breakpoint_does_not_stop_there_again() {
    let breakpoints = Breakpoints { before: NodeSet::All, after: NodeSet::None };
    let limits = TurnLimits { steps_max: 10, breakpoints: &breakpoints };
    let again = || TurnInput::Ran(Ok(channel_update("again", json!(true))));
    for channels in [
        json!({"_goes_on": true}),
        json!({"_answers": [{"key": "it", "decisions": {"decisions": [{"type": "approve"}]}}]}),
    ] {
        let graph = graph();
        let (mut turn, effect) =
            TurnMachine::begin(&graph, &checkpoint_at(Some("ask"), channels, &[]), limits, StepEntry::Fresh);
        assert!(describe_effect(&effect).starts_with("run ask"));
        assert_eq!(describe_effect(&turn.advance(again())), "commit, interrupted", "the next round stops");
        assert_eq!(turn.channels, Channels::from_iter([("again".to_owned(), json!(true))]));
    }
}

#[test]
fn a_run_stops_after_a_node_unless_nothing_follows() {
    let breakpoints = Breakpoints { before: NodeSet::None, after: NodeSet::All };
    let limits = TurnLimits { steps_max: 10, breakpoints: &breakpoints };
    check_within(
        limits,
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(channel_update("x", json!(1))))],
        &["run work", "commit, interrupted"],
    );
    check_within(
        limits,
        &checkpoint_at(Some("ask"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(channel_update("x", json!(1))))],
        &["run ask", "commit, success"],
    );
}

#[test]
fn m2_activities_are_performed_before_a_run_stops_at_a_breakpoint() {
    let breakpoints = Breakpoints { before: NodeSet::None, after: named_nodes(&["work"]) };
    let limits = TurnLimits { steps_max: 10, breakpoints: &breakpoints };
    let one = GraphUpdate { activities: vec![activity("accept")], ..GraphUpdate::default() };
    check_within(
        limits,
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![TurnInput::Ran(Ok(one)), TurnInput::Committed, TurnInput::Performed(Ok(GraphUpdate::default()))],
        &["run work", "commit", "perform accept", "commit, interrupted"],
    );
}

#[test]
fn an_input_that_does_not_fit_the_effect_is_an_internal_failure_not_a_panic() {
    check(
        &checkpoint_at(Some("work"), json!({}), &[]),
        vec![TurnInput::Committed],
        &["run work", "commit, error"],
    );
}

#[test]
fn unreadable_answers_fail_the_run_and_never_count_as_no_answer() {
    let graph = graph();
    let unreadable = checkpoint_at(Some("ask"), json!({"_answers": "approve", "kept": 1}), &[]);
    let (turn, effect) = TurnMachine::begin(&graph, &unreadable, steps(10), StepEntry::Fresh);
    let TurnEffect::Commit { ending: Some(ending), .. } = &effect else { panic!("{effect:?}") };
    let RunFailure { kind, message, hint } = ending.failure.clone().unwrap();
    assert_eq!((ending.status, kind), (RunStatus::Error, FailureKind::Store));
    assert!(message.contains("`_answers`") && hint.is_some(), "{message}");
    assert_eq!(turn.next.as_deref(), Some("ask"), "the node can ask again");
    assert_eq!(turn.channels, Channels::from_iter([("kept".to_owned(), json!(1))]));
}

#[test]
fn an_edge_with_an_unreadable_state_fails_the_run_and_keeps_the_step() {
    const AGAIN: Channel<bool> = Channel::new("again");
    let again = |channels: &Channels| Ok(AGAIN.get(channels)?.and(Some("ask")));
    let graph = Graph::new(Edge::To("ask")).with_node(Arc::new(NoopNode("ask")), Edge::Conditional(again));
    let checkpoint = checkpoint_at(Some("ask"), json!({"again": "perhaps"}), &[]);
    let (mut turn, _) = TurnMachine::begin(&graph, &checkpoint, steps(10), StepEntry::Fresh);
    let effect = turn.advance(TurnInput::Ran(Ok(channel_update("x", json!(1)))));
    assert_eq!(describe_effect(&effect), "commit, error");
    let TurnEffect::Commit { update, .. } = effect else { panic!("it commits") };
    assert_eq!(update.channels["x"], json!(1));
    assert_eq!(turn.channels, Channels::from_iter([("x".to_owned(), json!(1))]));
}
