//! Says what a provider would refuse in a conversation. It is written apart from the step that makes a conversation
//! legal, so that each checks the other.

use std::collections::HashSet;

use protocol::{Block, Message};

use super::Profile;
use super::rename::is_legal;

/// A rule that a message breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The message; 0 for an empty conversation.
    pub index: usize,
    /// The rule.
    pub rule: Rule,
}

/// What every provider asks of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// There is a message.
    NotEmpty,
    /// A person speaks first.
    HumanFirst,
    /// The model does not speak last.
    NotModelLast,
    /// No two messages in a row are of one role, results of one batch aside.
    Alternation,
    /// A message has content.
    Content,
    /// Text is not blank.
    NotBlank,
    /// Every call is answered, in call order, right behind its message.
    Answered,
    /// Every result answers a call right before it.
    Result,
    /// A call's id is legal and unique.
    CallId,
    /// A tool's name is legal.
    ToolName,
    /// A call's arguments are an object.
    Args,
    /// Reasoning and opaque blocks are the provider's own, whole, and not the end of a message where they may not be.
    OwnBlocks,
    /// Each kind of block is in a message that may hold it; media are not sent.
    BlockKind,
}

/// Returns every rule that the conversation breaks, in order; nothing for a legal one.
pub fn violations(messages: &[Message], profile: &Profile) -> Vec<Violation> {
    let mut check =
        Check { profile, found: Vec::new(), ids: HashSet::new(), expected: Vec::new(), previous: None };
    for (index, message) in messages.iter().enumerate() {
        check.message(index, message);
    }
    let last = messages.len().saturating_sub(1);
    let is_open = !check.expected.is_empty();
    check.note(last, is_open.then_some(Rule::Answered));
    check.note(0, messages.is_empty().then_some(Rule::NotEmpty));
    check.note(last, matches!(messages.last(), Some(Message::Ai(_))).then_some(Rule::NotModelLast));
    check.found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Human,
    Model,
    Tool,
}

struct Check<'a> {
    profile: &'a Profile,
    found: Vec<Violation>,
    ids: HashSet<&'a str>,
    /// Ids of the open batch's unanswered calls, the next one last.
    expected: Vec<&'a str>,
    previous: Option<Role>,
}

impl<'a> Check<'a> {
    fn note(&mut self, index: usize, broken: Option<Rule>) {
        self.found.extend(broken.map(|rule| Violation { index, rule }));
    }

    fn message(&mut self, index: usize, message: &'a Message) {
        let role = match message {
            Message::Human(_) => Role::Human,
            Message::Ai(_) => Role::Model,
            Message::Tool(_) => Role::Tool,
        };
        self.note(index, (self.previous.is_none() && role != Role::Human).then_some(Rule::HumanFirst));
        let repeats = self.previous == Some(role) && role != Role::Tool;
        self.note(index, repeats.then_some(Rule::Alternation));
        self.previous = Some(role);
        self.note(index, message.content().is_empty().then_some(Rule::Content));
        match message {
            Message::Tool(tool) => {
                let answers_another = self.expected.pop() != Some(tool.call_id.as_str());
                self.note(index, answers_another.then_some(Rule::Result));
            }
            Message::Human(_) | Message::Ai(_) => {
                let is_open = !self.expected.is_empty();
                self.note(index, is_open.then_some(Rule::Answered));
                self.expected = message.tool_calls().map(|(id, _, _)| id).collect();
                self.expected.reverse();
            }
        }
        for block in message.content() {
            self.block(index, block, role);
        }
        if role == Role::Model {
            self.model_message(index, message.content());
        }
    }

    fn model_message(&mut self, index: usize, content: &[Block]) {
        let is_thinking = |block: &Block| matches!(block, Block::Thinking { .. });
        self.note(index, content.iter().all(is_thinking).then_some(Rule::Content));
        let ends_so = content.last().is_some_and(is_thinking) && !self.profile.ends_in_thinking();
        self.note(index, ends_so.then_some(Rule::OwnBlocks));
    }

    fn block(&mut self, index: usize, block: &'a Block, role: Role) {
        let ours = self.profile.provider.as_str();
        let misplaced = (role != Role::Model).then_some(Rule::BlockKind);
        match block {
            Block::Text { text } => self.note(index, text.trim().is_empty().then_some(Rule::NotBlank)),
            Block::Media { .. } => self.note(index, Some(Rule::BlockKind)),
            Block::Thinking { provider, raw, .. } => {
                self.note(index, misplaced);
                let foreign = provider.as_deref() != Some(ours) || raw.is_none();
                self.note(index, foreign.then_some(Rule::OwnBlocks));
            }
            Block::Opaque { provider, .. } => {
                self.note(index, misplaced);
                self.note(index, (provider != ours).then_some(Rule::OwnBlocks));
            }
            Block::ToolCall { id, name, args } => {
                self.note(index, misplaced);
                let repeated = !self.ids.insert(id);
                let illegal = !is_legal(id, self.profile.call_id_chars_max);
                self.note(index, (repeated || illegal).then_some(Rule::CallId));
                let illegal = !is_legal(name, self.profile.tool_name_chars_max);
                self.note(index, illegal.then_some(Rule::ToolName));
                self.note(index, (!args.is_object()).then_some(Rule::Args));
            }
        }
    }
}
