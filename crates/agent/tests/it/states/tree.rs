//! The past of a thread beside a tree that is kept by hand: whatever is done, points, parents, messages and numbers are
//! those of the tree, and pages of any size are parts of one whole.

use std::collections::BTreeMap;

use agent::{Agent, State, StateOrigin};
use journal::Superseded;
use proptest::prelude::*;
use protocol::{CheckpointId, RunRequest, RunStatus, ThreadId};
use serde_json::{Value, json};

use super::{all, run, said, saying, update};
use crate::world::{World, answering};

/// One thing a client does; numbers choose among what there is.
#[derive(Debug, Clone)]
enum Act {
    Say,
    SayBehind(usize),
    Regenerate(usize),
    Rewind(usize),
    Change(Option<usize>, Edit),
}

#[derive(Debug, Clone)]
enum Edit {
    Append,
    Replace(usize),
    Remove(usize),
    Clear,
    Copy,
}

fn act() -> impl Strategy<Value = Act> {
    let any = || any::<prop::sample::Index>().prop_map(|index| index.index(1_000_000));
    let edit = prop_oneof![
        3 => Just(Edit::Append),
        3 => any().prop_map(Edit::Replace),
        3 => any().prop_map(Edit::Remove),
        1 => Just(Edit::Clear),
        1 => Just(Edit::Copy),
    ];
    prop_oneof![
        3 => Just(Act::Say),
        4 => any().prop_map(Act::SayBehind),
        3 => any().prop_map(Act::Regenerate),
        2 => any().prop_map(Act::Rewind),
        3 => (prop::option::of(any()), edit).prop_map(|(at, edit)| Act::Change(at, edit)),
    ]
}

/// A point as the tree has it.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    parent: Option<String>,
    messages: Vec<(String, String)>,
    number: i64,
    next: Vec<String>,
}

/// The tree, in the order in which its points came.
#[derive(Default)]
struct Tree {
    order: Vec<String>,
    nodes: BTreeMap<String, Node>,
    head: Option<String>,
    /// The newest point while it only tells that the thread went back.
    rewound: Option<String>,
    count: usize,
}

impl Tree {
    fn node(&self, id: &str) -> &Node {
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

    fn any(&self, index: usize) -> Option<String> {
        (!self.order.is_empty()).then(|| self.order[index % self.order.len()].clone())
    }

    /// Takes the points that came since, which must be a chain behind `parent`.
    fn grow(&mut self, mut new: Vec<State>, from: Option<String>) {
        new.reverse();
        assert!(!new.is_empty(), "something came of it");
        let mut before = from;
        for state in new {
            let first = if state.origin == StateOrigin::Input { -1 } else { 0 };
            let number = before.as_ref().map_or(first, |id| self.node(id).number + 1);
            assert_eq!(parent(&state), before, "{state:?}");
            assert_eq!(state.number, number, "{state:?}");
            let node = Node { parent: before, messages: said(&state), number, next: state.next.clone() };
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
struct Garden {
    agent: Agent,
    thread: ThreadId,
    tree: Tree,
}

impl Garden {
    async fn new_states(&self) -> Vec<State> {
        let states = all(&self.agent, self.thread).await;
        states.into_iter().filter(|state| !self.tree.nodes.contains_key(&id(state))).collect()
    }

    async fn act(&mut self, act: &Act) {
        self.tree.count += 1;
        let text = format!("m{}", self.tree.count);
        match act {
            Act::Say => self.say(None, &text).await,
            Act::SayBehind(index) => self.say(self.tree.any(*index), &text).await,
            Act::Regenerate(index) => self.regenerate(*index).await,
            Act::Rewind(index) => self.rewind(*index).await,
            Act::Change(index, edit) => {
                let at = index.and_then(|index| self.tree.any(index));
                self.change(at, edit, &text).await;
            }
        }
    }

    async fn say(&mut self, behind: Option<String>, text: &str) {
        let request = RunRequest { checkpoint_id: behind.as_deref().map(point), ..saying(text, text) };
        let end = run(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let parent = behind.or_else(|| self.tree.head.clone());
        let before = self.tree.messages(parent.as_deref());
        let new = self.new_states().await;
        let (head, first) = (&new[0], new.last().unwrap());
        assert_eq!((first.origin, first.next.len()), (StateOrigin::Input, 0));
        assert_eq!(said(first), before, "the input does not hold the message");
        let (held, answer) = said(head).split_at(before.len()).to_owned_pair();
        assert_eq!(held, before);
        assert_eq!(answer[0], (text.to_owned(), text.to_owned()));
        assert_eq!((answer.len(), head.next.len()), (2, 0));
        self.tree.grow(new, parent);
    }

    /// Has the node run again that was next at a point.
    async fn regenerate(&mut self, index: usize) {
        let pending: Vec<&String> = self.tree.order.iter().filter(|id| self.is_pending(id)).collect();
        let Some(at) = pending.get(index % pending.len().max(1)).map(|id| (*id).clone()) else { return };
        let request = RunRequest { checkpoint_id: Some(point(&at)), ..RunRequest::default() };
        let end = run(&self.agent, self.thread, &request).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        let before = self.tree.messages(Some(&at));
        let new = self.new_states().await;
        let first = new.last().unwrap();
        // Where the thread stands, it goes on.
        let is_head = self.tree.head.as_ref() == Some(&at) && self.tree.rewound.is_none();
        assert_eq!(
            (first.origin, said(first)),
            (if is_head { StateOrigin::Step } else { StateOrigin::Rewind }, before)
        );
        self.tree.grow(new, Some(at));
    }

    fn is_pending(&self, id: &str) -> bool {
        matches!(self.tree.node(id).next.first().map(String::as_str), Some("model" | "before_agent"))
    }

    /// Takes the thread back to a point of the branch it is on.
    async fn rewind(&mut self, index: usize) {
        let store = self.agent.store();
        let stored = store.checkpoints(self.thread, None, 1_000, Superseded::Hidden).await.unwrap();
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
        assert_eq!(said(&new[0]), self.tree.messages(Some(&to)));
        self.tree.head = Some(to);
        self.tree.rewound = Some(id(&new[0]));
    }

    async fn change(&mut self, at: Option<String>, edit: &Edit, text: &str) {
        let known = at.clone().or_else(|| self.tree.head.clone());
        let mut expected = self.tree.messages(known.as_deref());
        let Some(messages) = edited(&mut expected, edit, text) else { return };
        let is_copy = matches!(edit, Edit::Copy);
        let values = if is_copy { Value::Null } else { json!({"messages": messages}) };
        let (as_node, at_point) = (is_copy.then_some("__copy__"), at.as_deref().map(point));
        let changed = update(&self.agent, self.thread, values, as_node, at_point).await.unwrap();
        let new = self.new_states().await;
        assert_eq!(new.len(), 1, "{new:?}");
        assert_eq!((new[0].checkpoint_id, new[0].origin), (changed, StateOrigin::Change));
        assert_eq!(said(&new[0]), expected);
        let is_head = at.is_none() || (known == self.tree.head && self.tree.rewound.is_none());
        let parent = match is_copy && !is_head {
            true => self.tree.node(&known.clone().unwrap()).parent.clone().or(known),
            false => known,
        };
        self.tree.grow(new, parent);
    }

    async fn check(&self) {
        let whole = all(&self.agent, self.thread).await;
        let shown: Vec<String> = whole.iter().map(id).collect();
        let mut order = self.tree.order.clone();
        order.extend(self.tree.rewound.clone());
        order.reverse();
        assert_eq!(shown, order, "all branches, newest first");
        assert!(shown.is_sorted_by(|newer, older| newer > older), "ids sort in the order of creation");
        for state in &whole {
            let Some(node) = self.tree.nodes.get(&id(state)) else { continue };
            assert_eq!(said(state), node.messages, "{}", state.checkpoint_id);
            assert_eq!(parent(state), node.parent, "{}", state.checkpoint_id);
            assert_eq!(state.number, node.number, "{}", state.checkpoint_id);
            assert_eq!(
                &self.agent.threads().state_at(self.thread, state.checkpoint_id).await.unwrap(),
                state
            );
        }
        for limit in [1, 2, 3, 7, whole.len().max(1)] {
            let mut paged: Vec<State> = Vec::new();
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
            assert_eq!(head.map(|head| said(&head)).unwrap_or_default(), self.tree.head_messages());
        }
    }
}

/// Returns the id of the point, as clients have it.
fn id(state: &State) -> String {
    state.checkpoint_id.to_string()
}

fn point(id: &str) -> CheckpointId {
    id.parse().unwrap()
}

fn parent(state: &State) -> Option<String> {
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
fn edited(held: &mut Vec<(String, String)>, edit: &Edit, text: &str) -> Option<Value> {
    let human = |id: &str| json!([{"type": "human", "id": id, "content": text}]);
    match edit {
        Edit::Append => {
            held.push((text.to_owned(), text.to_owned()));
            Some(human(text))
        }
        Edit::Replace(index) | Edit::Remove(index) if held.is_empty() => {
            let _ = index;
            None
        }
        Edit::Replace(index) => {
            let at = index % held.len();
            held[at].1 = text.to_owned();
            Some(human(&held[at].0))
        }
        Edit::Remove(index) => {
            let (id, _) = held.remove(index % held.len());
            Some(json!([{"type": "remove", "id": id}]))
        }
        Edit::Clear => {
            held.clear();
            Some(json!([{"type": "remove", "id": "__remove_all__"}]))
        }
        Edit::Copy => Some(json!([])),
    }
}

async fn grow(acts: Vec<Act>) {
    let world = World::new();
    let server = answering("An answer.");
    let agent = world.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let mut garden = Garden { agent, thread, tree: Tree::default() };
    for act in &acts {
        garden.act(act).await;
        if garden.tree.count.is_multiple_of(4) {
            garden.check().await;
        }
    }
    garden.check().await;
}

#[tokio::test]
async fn b12_an_answer_is_said_anew_behind_what_was_added_to_a_blank_thread() {
    grow(vec![Act::Change(None, Edit::Append), Act::Regenerate(0)]).await;
}

#[tokio::test]
async fn b12_of_two_points_that_saw_the_same_a_thread_goes_back_to_the_one_of_its_branch() {
    for index in 0..6 {
        let clear = || Act::Change(None, Edit::Clear);
        grow(vec![clear(), clear(), Act::SayBehind(0), Act::Say, Act::Rewind(index)]).await;
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
        acts in prop::collection::vec(act(), 1..14),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(grow(acts));
    }
}
