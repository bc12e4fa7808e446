//! The typed input of a run, which every front end builds. It is independent of any wire protocol.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{Decisions, HumanMessage, InterruptId, Message, RunFailure, RunRequest, ThreadId};

use super::messages::{InputMessage, MessageChange};

/// A function that parses a stored client request for a run of that thread that starts at that time. A
/// failure becomes the failure of the run.
pub type RequestReader = fn(&RunRequest, ThreadId, Timestamp) -> Result<RunInput, RunFailure>;

/// The input of a run: its action, and messages to put into the thread.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput {
    /// The action of the run.
    pub action: RunAction,
    /// Messages that are added first, or that replace or remove others.
    pub messages: Vec<InputMessage>,
}

/// The action of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum RunAction {
    /// Starts a turn.
    BeginTurn,
    /// Continues at the thread's next node.
    Continue,
    /// Answers pending questions.
    Answer(InterruptAnswers),
    /// Starts the run at this node.
    GoToNode(String),
    /// Drops pending questions and steps.
    DiscardPending,
    /// Moves the thread to the folder of the run, where pending calls are proposed again. A named interrupt
    /// must still be pending.
    Rehome(Option<InterruptId>),
}

/// The answers to pending questions.
#[derive(Debug, Clone, PartialEq)]
pub enum InterruptAnswers {
    /// One answer to the only pending question.
    Only(ParsedAnswer),
    /// Answers by interrupt.
    Named(BTreeMap<InterruptId, ParsedAnswer>),
}

/// A parsed answer, or the reason why it cannot be parsed. The reason is reported only after the question was
/// found.
pub type ParsedAnswer = Result<Decisions, UnreadableAnswer>;

/// The reason why an answer cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableAnswer(pub String);

impl RunInput {
    /// Returns the input that starts a turn with a person's message.
    pub fn from_message(message: HumanMessage) -> Self {
        let change = MessageChange::Put(Message::Human(message));
        let messages = vec![InputMessage { id: None, change, artifacts: Vec::new() }];
        Self { action: RunAction::BeginTurn, messages }
    }

    /// Returns the input that answers one interrupt.
    pub fn from_answer(interrupt_id: InterruptId, decisions: Decisions) -> Self {
        let answers = BTreeMap::from([(interrupt_id, Ok(decisions))]);
        Self { action: RunAction::Answer(InterruptAnswers::Named(answers)), messages: Vec::new() }
    }

    /// Returns the input that moves the thread to the folder of the run.
    pub const fn for_rehome(interrupt_id: Option<InterruptId>) -> Self {
        Self { action: RunAction::Rehome(interrupt_id), messages: Vec::new() }
    }
}
