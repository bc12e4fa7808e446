//! The past of a thread beside a tree that is kept by hand: whatever is done, points, parents, messages and numbers are
//! those of the tree, and pages of any size are parts of one whole.

use std::collections::BTreeMap;

use agent::{Agent, StateOrigin, ThreadSnapshot};
use journal::SupersededVisibility;
use proptest::prelude::*;
use protocol::{CheckpointId, RunRequest, RunStatus, ThreadId};
use serde_json::{Value, json};

use super::{all_states, message_ids_and_texts, message_request, run_request, update_state};
use crate::environment::{TestEnvironment, answering_server};

/// One thing a client does; numbers choose among what there is.
#[derive(Debug, Clone)]
enum ClientAction {
    Say,
    SayAfter(usize),
    Regenerate(usize),
    Rewind(usize),
    Change(Option<usize>, StateEdit),
}

#[derive(Debug, Clone)]
enum StateEdit {
    Append,
    Replace(usize),
    Remove(usize),
    Clear,
    Copy,
}

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

/// A point as the tree has it.
#[derive(Debug, Clone, PartialEq)]
struct TreePoint {
    parent: Option<String>,
    messages: Vec<(String, String)>,
    number: i64,
    next: Vec<String>,
}

/// The tree, in the order in which its points came.
#[derive(Default)]
struct PointTree {
    order: Vec<String>,
    nodes: BTreeMap<String, TreePoint>,
    head: Option<String>,
    /// The newest point while it only tells that the thread went back.
    rewound: Option<String>,
    count: usize,
}

impl PointTree {
    fn node(&self, id: &str) -> &TreePoint {
        &self.nodes[id]
    }

    fn path(&self) -> Vec<String> {
        let mut path: Vec<String> = Vec::new();
        let mut at = self.head.clone();
        while let Some(id) = at {
            at = self.node(&id).parent.clone();
            path.push(id);
        }
        path
    }

    fn point_at_index(&self, index: usize) -> Option<String> {
        (!self.order.is_empty()).then(|| self.order[index % self.order.len()].clone())
    }

    /// Takes the points that came since, which must be a chain behind `parent`.
    fn append_points(&mut self, mut new: Vec<ThreadSnapshot>, from: Option<String>) {
        new.reverse();
        assert!(!new.is_empty(), "something came of it");
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

/// A thread and its tree.
struct TreeFixture {
    agent: Agent,
    thread: ThreadId,
    tree: PointTree,
}

impl TreeFixture {
    async fn new_states(&self) -> Vec<ThreadSnapshot> {
        let states = all_states(&self.agent, self.thread).await;
        states.into_iter().filter(|state| !self.tree.nodes.contains_key(&id(state))).collect()
    }

    async fn perform(&mut self, act: &ClientAction) {
        self.tree.count += 1;
        let text = format!("m{}", self.tree.count);
        match act {
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

    async fn say(&mut self, behind: Option<String>, text: &str) {
        let request =
            RunRequest { checkpoint_id: behind.as_deref().map(point), ..message_request(text, text) };
        let end = run_request(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let parent = behind.or_else(|| self.tree.head.clone());
        let before = self.tree.messages(parent.as_deref());
        let new = self.new_states().await;
        let (head, first) = (&new[0], new.last().unwrap());
        assert_eq!((first.origin, first.next.len()), (StateOrigin::Input, 0));
        assert_eq!(message_ids_and_texts(first), before, "the input does not hold the message");
        let (held, answer) = message_ids_and_texts(head).split_at(before.len()).to_owned_pair();
        assert_eq!(held, before);
        assert_eq!(answer[0], (text.to_owned(), text.to_owned()));
        assert_eq!((answer.len(), head.next.len()), (2, 0));
        self.tree.append_points(new, parent);
    }

    /// Has the node run again that was next at a point.
    async fn regenerate(&mut self, index: usize) {
        let pending: Vec<&String> = self.tree.order.iter().filter(|id| self.is_pending(id)).collect();
        let Some(at) = pending.get(index % pending.len().max(1)).map(|id| (*id).clone()) else { return };
        let request = RunRequest { checkpoint_id: Some(point(&at)), ..RunRequest::default() };
        let end = run_request(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let before = self.tree.messages(Some(&at));
        let new = self.new_states().await;
        let first = new.last().unwrap();
        // Where the thread stands, it goes on.
        let is_head = self.tree.head.as_ref() == Some(&at) && self.tree.rewound.is_none();
        assert_eq!(
            (first.origin, message_ids_and_texts(first)),
            (if is_head { StateOrigin::Step } else { StateOrigin::Rewind }, before)
        );
        self.tree.append_points(new, Some(at));
    }

    fn is_pending(&self, id: &str) -> bool {
        matches!(self.tree.node(id).next.first().map(String::as_str), Some("model" | "before_agent"))
    }

    /// Takes the thread back to a point of the branch it is on.
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
        // The newest one that has seen nothing else.
        let to = heads.iter().find(|(head, _)| *head <= keep).unwrap().1.clone();
        self.agent.threads().rewind(self.thread, keep).await.unwrap();
        let new = self.new_states().await;
        assert_eq!(new.len(), 1, "one point tells of it, as long as nothing follows");
        assert_eq!(parent(&new[0]).as_ref(), Some(&to));
        assert_eq!(message_ids_and_texts(&new[0]), self.tree.messages(Some(&to)));
        self.tree.head = Some(to);
        self.tree.rewound = Some(id(&new[0]));
    }

    async fn change(&mut self, at: Option<String>, edit: &StateEdit, text: &str) {
        let known = at.clone().or_else(|| self.tree.head.clone());
        let mut expected = self.tree.messages(known.as_deref());
        let Some(messages) = apply_edit(&mut expected, edit, text) else { return };
        let is_copy = matches!(edit, StateEdit::Copy);
        let values = if is_copy { Value::Null } else { json!({"messages": messages}) };
        let (as_node, at_point) = (is_copy.then_some("__copy__"), at.as_deref().map(point));
        let changed = update_state(&self.agent, self.thread, values, as_node, at_point).await.unwrap();
        let new = self.new_states().await;
        assert_eq!(new.len(), 1, "{new:?}");
        assert_eq!((new[0].checkpoint_id, new[0].origin), (changed, StateOrigin::Change));
        assert_eq!(message_ids_and_texts(&new[0]), expected);
        let is_head = at.is_none() || (known == self.tree.head && self.tree.rewound.is_none());
        let parent = match is_copy && !is_head {
            true => self.tree.node(&known.clone().unwrap()).parent.clone().or(known),
            false => known,
        };
        self.tree.append_points(new, parent);
    }

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

/// Returns the id of the point, as clients have it.
fn id(state: &ThreadSnapshot) -> String {
    state.checkpoint_id.to_string()
}

fn point(id: &str) -> CheckpointId {
    id.parse().unwrap()
}

fn parent(state: &ThreadSnapshot) -> Option<String> {
    state.parent_id.map(|id| id.to_string())
}

trait ToOwnedPair<T> {
    fn to_owned_pair(self) -> (Vec<T>, Vec<T>);
}

impl<T: Clone> ToOwnedPair<T> for (&[T], &[T]) {
    fn to_owned_pair(self) -> (Vec<T>, Vec<T>) {
        (self.0.to_vec(), self.1.to_vec())
    }
}

/// Returns what a client sends for the edit, and does it to `held`; nothing where there is nothing to do it to.
fn apply_edit(held: &mut Vec<(String, String)>, edit: &StateEdit, text: &str) -> Option<Value> {
    let human = |id: &str| json!([{"type": "human", "id": id, "content": text}]);
    match edit {
        StateEdit::Append => {
            held.push((text.to_owned(), text.to_owned()));
            Some(human(text))
        }
        StateEdit::Replace(index) | StateEdit::Remove(index) if held.is_empty() => {
            let _ = index;
            None
        }
        StateEdit::Replace(index) => {
            let at = index % held.len();
            held[at].1 = text.to_owned();
            Some(human(&held[at].0))
        }
        StateEdit::Remove(index) => {
            let (id, _) = held.remove(index % held.len());
            Some(json!([{"type": "remove", "id": id}]))
        }
        StateEdit::Clear => {
            held.clear();
            Some(json!([{"type": "remove", "id": "__remove_all__"}]))
        }
        StateEdit::Copy => Some(json!([])),
    }
}

async fn check_actions(acts: Vec<ClientAction>) {
    let world = TestEnvironment::new();
    let server = answering_server("An answer.");
    let agent = world.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let mut garden = TreeFixture { agent, thread, tree: PointTree::default() };
    for act in &acts {
        garden.perform(act).await;
        if garden.tree.count.is_multiple_of(4) {
            garden.check().await;
        }
    }
    garden.check().await;
}

#[tokio::test]
async fn b12_an_answer_is_said_anew_behind_what_was_added_to_a_blank_thread() {
    check_actions(vec![ClientAction::Change(None, StateEdit::Append), ClientAction::Regenerate(0)]).await;
}

#[tokio::test]
async fn b12_of_two_points_that_saw_the_same_a_thread_goes_back_to_the_one_of_its_branch() {
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

/// As many cases as `PROPTEST_CASES` says, and otherwise few: each is a conversation.
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(24),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn b12_whatever_is_done_the_past_is_a_tree_that_everybody_sees_alike(
        acts in prop::collection::vec(action_strategy(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_actions(acts));
    }
}
