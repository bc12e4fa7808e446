//! What a run is to do: the typed value with which every front end begins a run. How a wire protocol spells it is not known
//! here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{Decisions, HumanMessage, InterruptId, Message, RunFailure, RunRequest, ThreadId};

use super::messages::{Change, InputMessage};

/// Reads a request as a client sent it, for a run on that thread which begins at that moment; what cannot be read is how
/// the run fails.
pub type RequestReader = fn(&RunRequest, ThreadId, Timestamp) -> Result<RunInput, RunFailure>;

/// What goes into a thread with a run, and what the run does.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// What the run does.
    pub action: RunAction,
    /// The messages that are put in first, or that change others.
    pub messages: Vec<InputMessage>,
}

/// What a run does.
#[derive(Debug, Clone, PartialEq)]
pub enum RunAction {
    /// A turn begins.
    BeginTurn,
    /// The thread goes on where it stands.
    Continue,
    /// Questions that wait are answered.
    Answer(Answers),
    /// The run begins at this node.
    GoTo(String),
    /// What waits is dropped.
    DropPending,
    /// The thread moves to the folder of the run, and calls that wait for a decision are asked about again there. A
    /// question that is named has to wait still.
    Rehome(Option<InterruptId>),
}

/// The answers to questions that wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    /// One, to the only question.
    Only(Answer),
    /// Each to the question it names.
    Named(BTreeMap<InterruptId, Answer>),
}

/// An answer, or why it cannot be read: a client is told that once its question is found.
pub type Answer = Result<Decisions, UnreadableAnswer>;

/// Why an answer cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableAnswer(pub String);

impl RunInput {
    /// Returns the input that begins a turn with a person's message.
    pub fn message(message: HumanMessage) -> Self {
        let change = Change::Put(Message::Human(message));
        let messages = vec![InputMessage { id: None, change, artifacts: Vec::new() }];
        Self { action: RunAction::BeginTurn, messages }
    }

    /// Returns the input that answers one question.
    pub fn answer(interrupt_id: InterruptId, decisions: Decisions) -> Self {
        let answers = BTreeMap::from([(interrupt_id, Ok(decisions))]);
        Self { action: RunAction::Answer(Answers::Named(answers)), messages: Vec::new() }
    }

    /// Returns the input that moves the thread to the folder of the run.
    pub const fn rehome(interrupt_id: Option<InterruptId>) -> Self {
        Self { action: RunAction::Rehome(interrupt_id), messages: Vec::new() }
    }
}
