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
    check.ensure(check.expected.is_empty(), last, Rule::Answered);
    check.ensure(!messages.is_empty(), 0, Rule::NotEmpty);
    check.ensure(!matches!(messages.last(), Some(Message::Ai(_))), last, Rule::NotModelLast);
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
    fn ensure(&mut self, holds: bool, index: usize, rule: Rule) {
        if !holds {
            self.found.push(Violation { index, rule });
        }
    }

    fn message(&mut self, index: usize, message: &'a Message) {
        let role = match message {
            Message::Human(_) => Role::Human,
            Message::Ai(_) => Role::Model,
            Message::Tool(_) => Role::Tool,
        };
        self.ensure(self.previous.is_some() || role == Role::Human, index, Rule::HumanFirst);
        self.ensure(self.previous != Some(role) || role == Role::Tool, index, Rule::Alternation);
        self.previous = Some(role);
        self.ensure(!message.content().is_empty(), index, Rule::Content);
        match message {
            Message::Tool(tool) => {
                let expected = self.expected.pop();
                self.ensure(expected == Some(tool.call_id.as_str()), index, Rule::Result);
            }
            Message::Human(_) | Message::Ai(_) => {
                self.ensure(self.expected.is_empty(), index, Rule::Answered);
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
        self.ensure(!content.iter().all(is_thinking), index, Rule::Content);
        let may_end_so = self.profile.ends_in_thinking();
        self.ensure(may_end_so || !content.last().is_some_and(is_thinking), index, Rule::OwnBlocks);
    }

    fn block(&mut self, index: usize, block: &'a Block, role: Role) {
        let ours = self.profile.provider.as_str();
        match block {
            Block::Text { text } => self.ensure(!text.trim().is_empty(), index, Rule::NotBlank),
            Block::Media { .. } => self.ensure(false, index, Rule::BlockKind),
            Block::Thinking { provider, raw, .. } => {
                self.ensure(role == Role::Model, index, Rule::BlockKind);
                self.ensure(provider.as_deref() == Some(ours) && raw.is_some(), index, Rule::OwnBlocks);
            }
            Block::Opaque { provider, .. } => {
                self.ensure(role == Role::Model, index, Rule::BlockKind);
                self.ensure(provider == ours, index, Rule::OwnBlocks);
            }
            Block::ToolCall { id, name, args } => {
                self.ensure(role == Role::Model, index, Rule::BlockKind);
                let is_new = self.ids.insert(id);
                self.ensure(is_new && is_legal(id, self.profile.call_id_chars_max), index, Rule::CallId);
                self.ensure(is_legal(name, self.profile.tool_name_chars_max), index, Rule::ToolName);
                self.ensure(args.is_object(), index, Rule::Args);
            }
        }
    }
}
