//! Property test of a thread's past: after any sequence of client actions, the checkpoints, parents, messages and step
//! numbers equal those of a model tree, and pages of any size concatenate to the whole list.

use std::collections::BTreeMap;

use agent::{Agent, StateOrigin, ThreadSnapshot};
use journal::SupersededVisibility;
use proptest::prelude::*;
use protocol::{CheckpointId, RunRequest, RunStatus, ThreadId};
use serde_json::{Value, json};

use super::{all_states, message_ids_and_texts, message_request, run_request, update_state};
use crate::environment::{TestEnvironment, answering_server};

/// One action of a client. Each number selects an existing checkpoint or message, modulo their count.
#[derive(Debug, Clone)]
enum ClientAction {
    Say,
    SayAfter(usize),
    Regenerate(usize),
    Rewind(usize),
    Change(Option<usize>, StateEdit),
}

/// An edit of the messages of a state.
#[derive(Debug, Clone)]
enum StateEdit {
    Append,
    Replace(usize),
    Remove(usize),
    Clear,
    Copy,
}

/// Generates client actions. Frequent actions have a greater weight.
fn action_strategy() -> impl Strategy<Value = ClientAction> {
    let any = || any::<prop::sample::Index>().prop_map(|index| index.index(1_000_000));
    let edit = prop_oneof![
        3 => Just(StateEdit::Append),
        3 => any().prop_map(StateEdit::Replace),
        3 => any().prop_map(StateEdit::Remove),
        1 => Just(StateEdit::Clear),
        1 => Just(StateEdit::Copy),
    ];
    prop_oneof![
        3 => Just(ClientAction::Say),
        4 => any().prop_map(ClientAction::SayAfter),
        3 => any().prop_map(ClientAction::Regenerate),
        2 => any().prop_map(ClientAction::Rewind),
        3 => (prop::option::of(any()), edit).prop_map(|(at, edit)| ClientAction::Change(at, edit)),
    ]
}

/// A checkpoint of the model tree.
#[derive(Debug, Clone, PartialEq)]
struct TreePoint {
    parent: Option<String>,
    messages: Vec<(String, String)>,
    number: i64,
    next: Vec<String>,
}

/// The model tree, with its checkpoints in the order of their creation.
#[derive(Default)]
struct PointTree {
    order: Vec<String>,
    nodes: BTreeMap<String, TreePoint>,
    head: Option<String>,
    /// The checkpoint of the newest rewind, as long as nothing follows it.
    rewound: Option<String>,
    /// The number of performed actions.
    count: usize,
}

impl PointTree {
    fn node(&self, id: &str) -> &TreePoint {
        &self.nodes[id]
    }

    /// Returns the branch of the head, newest checkpoint first.
    fn path(&self) -> Vec<String> {
        let mut path: Vec<String> = Vec::new();
        let mut at = self.head.clone();
        while let Some(id) = at {
            at = self.node(&id).parent.clone();
            path.push(id);
        }
        path
    }

    /// Returns the checkpoint that an action's number selects, or `None` in an empty tree.
    fn point_at_index(&self, index: usize) -> Option<String> {
        (!self.order.is_empty()).then(|| self.order[index % self.order.len()].clone())
    }

    /// Adds the new checkpoints, newest first in `new`, which must be a chain whose first parent is `from`.
    fn append_points(&mut self, mut new: Vec<ThreadSnapshot>, from: Option<String>) {
        new.reverse();
        assert!(!new.is_empty(), "the action adds a checkpoint");
        let mut before = from;
        for state in new {
            let first = if state.origin == StateOrigin::Input { -1 } else { 0 };
            let number = before.as_ref().map_or(first, |id| self.node(id).number + 1);
            assert_eq!(parent(&state), before, "{state:?}");
            assert_eq!(state.number, number, "{state:?}");
            let node = TreePoint {
                parent: before,
                messages: message_ids_and_texts(&state),
                number,
                next: state.next.clone(),
            };
            self.order.push(id(&state));
            self.nodes.insert(id(&state), node);
            before = Some(id(&state));
        }
        self.head = before;
        self.rewound = None;
    }

    fn messages(&self, id: Option<&str>) -> Vec<(String, String)> {
        id.map(|id| self.node(id).messages.clone()).unwrap_or_default()
    }

    fn head_messages(&self) -> Vec<(String, String)> {
        self.messages(self.head.as_deref())
    }
}

/// A thread and its model tree.
struct TreeFixture {
    agent: Agent,
    thread: ThreadId,
    tree: PointTree,
}

impl TreeFixture {
    /// Returns the states that the tree does not have yet, newest first.
    async fn new_states(&self) -> Vec<ThreadSnapshot> {
        let states = all_states(&self.agent, self.thread).await;
        states.into_iter().filter(|state| !self.tree.nodes.contains_key(&id(state))).collect()
    }

    /// Performs an action in the thread and in the tree.
    async fn perform(&mut self, action: &ClientAction) {
        self.tree.count += 1;
        let text = format!("m{}", self.tree.count);
        match action {
            ClientAction::Say => self.say(None, &text).await,
            ClientAction::SayAfter(index) => self.say(self.tree.point_at_index(*index), &text).await,
            ClientAction::Regenerate(index) => self.regenerate(*index).await,
            ClientAction::Rewind(index) => self.rewind(*index).await,
            ClientAction::Change(index, edit) => {
                let at = index.and_then(|index| self.tree.point_at_index(index));
                self.change(at, edit, &text).await;
            }
        }
    }

    async fn say(&mut self, after: Option<String>, text: &str) {
        let request =
            RunRequest { checkpoint_id: after.as_deref().map(point), ..message_request(text, text) };
        let end = run_request(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let parent = after.or_else(|| self.tree.head.clone());
        let before = self.tree.messages(parent.as_deref());
        let new = self.new_states().await;
        let (head, first) = (&new[0], new.last().unwrap());
        assert_eq!((first.origin, first.next.len()), (StateOrigin::Input, 0));
        assert_eq!(
            message_ids_and_texts(first),
            before,
            "the checkpoint of the input does not have the message"
        );
        let (messages, answer) = message_ids_and_texts(head).split_at(before.len()).to_owned_pair();
        assert_eq!(messages, before);
        assert_eq!(answer[0], (text.to_owned(), text.to_owned()));
        assert_eq!((answer.len(), head.next.len()), (2, 0));
        self.tree.append_points(new, parent);
    }

    /// Runs the pending node of an earlier checkpoint again.
    async fn regenerate(&mut self, index: usize) {
        let pending: Vec<&String> = self.tree.order.iter().filter(|id| self.is_pending(id)).collect();
        let Some(at) = pending.get(index % pending.len().max(1)).map(|id| (*id).clone()) else { return };
        let request = RunRequest { checkpoint_id: Some(point(&at)), ..RunRequest::default() };
        let end = run_request(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let before = self.tree.messages(Some(&at));
        let new = self.new_states().await;
        let first = new.last().unwrap();
        // At the newest checkpoint the run resumes; elsewhere it starts a branch.
        let is_head = self.tree.head.as_ref() == Some(&at) && self.tree.rewound.is_none();
        assert_eq!(
            (first.origin, message_ids_and_texts(first)),
            (if is_head { StateOrigin::Step } else { StateOrigin::Rewind }, before)
        );
        self.tree.append_points(new, Some(at));
    }

    /// Returns whether the next node of the checkpoint is the model or the start of a turn.
    fn is_pending(&self, id: &str) -> bool {
        matches!(self.tree.node(id).next.first().map(String::as_str), Some("model" | "before_agent"))
    }

    /// Rewinds the thread to a checkpoint of its current branch.
    async fn rewind(&mut self, index: usize) {
        let store = self.agent.store();
        let stored = store.checkpoints(self.thread, None, 1_000, SupersededVisibility::Hidden).await.unwrap();
        let path = self.tree.path();
        let heads: Vec<(u64, String)> = stored
            .iter()
            .map(|point| (point.head_seq, point.checkpoint_id.to_string()))
            .filter(|(_, id)| path.contains(id))
            .collect();
        if heads.is_empty() {
            return;
        }
        let keep = heads[index % heads.len()].0;
        // The newest checkpoint without later events.
        let to = heads.iter().find(|(head, _)| *head <= keep).unwrap().1.clone();
        self.agent.threads().rewind(self.thread, keep).await.unwrap();
        let new = self.new_states().await;
        assert_eq!(new.len(), 1, "a rewind adds one checkpoint, as long as nothing follows it");
        assert_eq!(parent(&new[0]).as_ref(), Some(&to));
        assert_eq!(message_ids_and_texts(&new[0]), self.tree.messages(Some(&to)));
        self.tree.head = Some(to);
        self.tree.rewound = Some(id(&new[0]));
    }

    /// Edits the state at a checkpoint, or at the newest one.
    async fn change(&mut self, at: Option<String>, edit: &StateEdit, text: &str) {
        let base = at.clone().or_else(|| self.tree.head.clone());
        let mut expected = self.tree.messages(base.as_deref());
        let Some(messages) = apply_edit(&mut expected, edit, text) else { return };
        let is_copy = matches!(edit, StateEdit::Copy);
        let values = if is_copy { Value::Null } else { json!({"messages": messages}) };
        let (as_node, at_point) = (is_copy.then_some("__copy__"), at.as_deref().map(point));
        let changed = update_state(&self.agent, self.thread, values, as_node, at_point).await.unwrap();
        let new = self.new_states().await;
        assert_eq!(new.len(), 1, "{new:?}");
        assert_eq!((new[0].checkpoint_id, new[0].origin), (changed, StateOrigin::Change));
        assert_eq!(message_ids_and_texts(&new[0]), expected);
        let is_head = at.is_none() || (base == self.tree.head && self.tree.rewound.is_none());
        let parent = match is_copy && !is_head {
            true => self.tree.node(&base.clone().unwrap()).parent.clone().or(base),
            false => base,
        };
        self.tree.append_points(new, parent);
    }

    /// Compares all states and pages of the thread with the tree.
    async fn check(&self) {
        let whole = all_states(&self.agent, self.thread).await;
        let shown: Vec<String> = whole.iter().map(id).collect();
        let mut order = self.tree.order.clone();
        order.extend(self.tree.rewound.clone());
        order.reverse();
        assert_eq!(shown, order, "all branches, newest first");
        assert!(shown.is_sorted_by(|newer, older| newer > older), "ids sort in the order of creation");
        for state in &whole {
            let Some(node) = self.tree.nodes.get(&id(state)) else { continue };
            assert_eq!(message_ids_and_texts(state), node.messages, "{}", state.checkpoint_id);
            assert_eq!(parent(state), node.parent, "{}", state.checkpoint_id);
            assert_eq!(state.number, node.number, "{}", state.checkpoint_id);
            assert_eq!(
                &self.agent.threads().state_at(self.thread, state.checkpoint_id).await.unwrap(),
                state
            );
        }
        for limit in [1, 2, 3, 7, whole.len().max(1)] {
            let mut paged: Vec<ThreadSnapshot> = Vec::new();
            loop {
                let before = paged.last().map(id);
                let page = self
                    .agent
                    .threads()
                    .states(self.thread, before.as_deref().map(point), limit)
                    .await
                    .unwrap();
                if page.is_empty() {
                    break;
                }
                paged.extend(page);
            }
            assert_eq!(paged, whole, "pages of {limit}");
        }
        let head = self.agent.threads().state(self.thread).await.unwrap();
        assert_eq!(head.as_ref(), whole.first());
        if self.tree.rewound.is_none() {
            assert_eq!(
                head.map(|head| message_ids_and_texts(&head)).unwrap_or_default(),
                self.tree.head_messages()
            );
        }
    }
}

/// Returns the checkpoint id of a state in its text form.
fn id(state: &ThreadSnapshot) -> String {
    state.checkpoint_id.to_string()
}

/// Parses a checkpoint id.
fn point(id: &str) -> CheckpointId {
    id.parse().unwrap()
}

fn parent(state: &ThreadSnapshot) -> Option<String> {
    state.parent_id.map(|id| id.to_string())
}

/// Conversion of a pair of slices into a pair of vectors.
trait ToOwnedPair<T> {
    fn to_owned_pair(self) -> (Vec<T>, Vec<T>);
}

impl<T: Clone> ToOwnedPair<T> for (&[T], &[T]) {
    fn to_owned_pair(self) -> (Vec<T>, Vec<T>) {
        (self.0.to_vec(), self.1.to_vec())
    }
}

/// Applies the edit to `messages` and returns the messages that a client sends for it, or `None` if there is no message
/// to edit.
fn apply_edit(messages: &mut Vec<(String, String)>, edit: &StateEdit, text: &str) -> Option<Value> {
    let human = |id: &str| json!([{"type": "human", "id": id, "content": text}]);
    match edit {
        StateEdit::Append => {
            messages.push((text.to_owned(), text.to_owned()));
            Some(human(text))
        }
        StateEdit::Replace(index) | StateEdit::Remove(index) if messages.is_empty() => {
            let _ = index;
            None
        }
        StateEdit::Replace(index) => {
            let at = index % messages.len();
            messages[at].1 = text.to_owned();
            Some(human(&messages[at].0))
        }
        StateEdit::Remove(index) => {
            let (id, _) = messages.remove(index % messages.len());
            Some(json!([{"type": "remove", "id": id}]))
        }
        StateEdit::Clear => {
            messages.clear();
            Some(json!([{"type": "remove", "id": "__remove_all__"}]))
        }
        StateEdit::Copy => Some(json!([])),
    }
}

/// Performs the actions in a new thread and compares it with the tree after every fourth action and at the end.
async fn check_actions(actions: Vec<ClientAction>) {
    let environment = TestEnvironment::new();
    let server = answering_server("An answer.");
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let mut fixture = TreeFixture { agent, thread, tree: PointTree::default() };
    for action in &actions {
        fixture.perform(action).await;
        if fixture.tree.count.is_multiple_of(4) {
            fixture.check().await;
        }
    }
    fixture.check().await;
}

#[tokio::test]
async fn b12_a_message_added_to_an_empty_thread_can_be_answered_again() {
    check_actions(vec![ClientAction::Change(None, StateEdit::Append), ClientAction::Regenerate(0)]).await;
}

#[tokio::test]
async fn b12_a_rewind_selects_the_checkpoint_of_its_branch_among_equal_ones() {
    for index in 0..6 {
        let clear = || ClientAction::Change(None, StateEdit::Clear);
        check_actions(vec![
            clear(),
            clear(),
            ClientAction::SayAfter(0),
            ClientAction::Say,
            ClientAction::Rewind(index),
        ])
        .await;
    }
}

proptest! {
    // Each case is a whole conversation.
    #![proptest_config(ProptestConfig::with_cases(test_counts::count(4, 24)))]

    #[test]
    fn b12_any_sequence_of_actions_leaves_a_tree_that_every_view_agrees_on(
        actions in prop::collection::vec(action_strategy(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_actions(actions));
    }
}
