//! The collected facts as plain values, each with the seq of its source event.

use protocol::{CarryOver, Seq, TodoItem};

use crate::formatting::to_single_line;
use crate::goal::TermFrequencies;
use crate::shell::{CheckKind, CheckOutcome};

/// Entries of each list of the carry-over.
const CARRY_OVER_ENTRIES_MAX: usize = 50;

/// Something that was said, shortened at a limit and without secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quote {
    /// The event it is from.
    pub seq: Seq,
    /// Its text.
    pub text: String,
    /// True when the original text was longer.
    pub is_cut: bool,
}

/// A name that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameUsage {
    /// The name.
    pub text: String,
    /// How often it was used.
    pub count: u32,
    /// The last event that used it.
    pub seq: Seq,
}

/// A rule the person gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRule {
    /// The person's words.
    pub quote: Quote,
    /// True for an order, false for a wish.
    pub is_strict: bool,
}

/// A file that was read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    /// Its path, as the tools named it.
    pub path: String,
    /// The last event that read or named it, or 0.
    pub last_read_seq: Seq,
    /// The last event that wrote it, or 0.
    pub last_write_seq: Seq,
}

impl FileUse {
    /// Returns the last event that read, named or wrote it.
    pub(crate) fn last_use_seq(&self) -> Seq {
        self.last_read_seq.max(self.last_write_seq)
    }
}

/// The last run of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// The words that name the check in the command.
    pub name: String,
    /// The event of its result.
    pub seq: Seq,
    /// The line that says what is wrong, when it failed.
    pub detail: Option<String>,
    /// The kind of check.
    pub kind: CheckKind,
    /// How it ended.
    pub outcome: CheckOutcome,
}

impl CheckRun {
    /// Returns whether it found something wrong.
    pub fn has_failed(&self) -> bool {
        self.outcome == CheckOutcome::Failed
    }
}

/// All facts about the processed events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationFacts {
    /// The first event that was seen; 0 when there was none.
    pub first_seq: Seq,
    /// The last event that was seen.
    pub last_seq: Seq,
    /// Messages of the main conversation.
    pub messages: u64,
    /// The first event after the last place where the context was condensed.
    pub recent_from: Seq,
    /// The person's first message in the whole thread.
    pub first_request: Option<Quote>,
    /// The person's messages in order: the first few since `recent_from`, and the last ones whatever was condensed.
    pub requests: Vec<Quote>,
    /// True when the last request was answered and no tool call is open.
    pub is_answered: bool,
    /// Messages of the person that got no answer, in order.
    pub unanswered_requests: Vec<Quote>,
    /// The question the assistant ended on, if it waits for an answer.
    pub open_question: Option<Quote>,
    /// The newest state of the task list.
    pub todos: Vec<TodoItem>,
    /// The event that last changed the task list, or 0.
    pub todos_seq: Seq,
    /// Files by their last use, the latest first.
    pub files: Vec<FileUse>,
    /// Programs with their subcommand, the most used first.
    pub commands: Vec<NameUsage>,
    /// The last run of each check, the latest first.
    pub checks: Vec<CheckRun>,
    /// Errors that nothing after them resolved, the latest first.
    pub errors: Vec<Quote>,
    /// Error types seen in failures, the latest first.
    pub error_types: Vec<NameUsage>,
    /// Rules the person gave, in order.
    pub rules: Vec<UserRule>,
    /// Choices somebody stated, in order.
    pub decisions: Vec<Quote>,
    /// Issues, URLs, versions, hashes and codes that were spoken of, the most used first.
    pub references: Vec<NameUsage>,
    /// Identifiers that were spoken of, the most used first.
    pub identifiers: Vec<NameUsage>,
    /// Ids and codes that tools were called with, the latest first.
    pub argument_values: Vec<NameUsage>,
    /// The assistant's last messages, in order.
    pub statements: Vec<Quote>,
    /// The summary written at the last boundary, or the one the thread was handed over with.
    pub previous_summary: Option<Quote>,
    /// The proven part of `previous_summary`.
    pub grounded_summary: Option<Quote>,
    /// Older messages of the person that the goal is about, the most telling first; empty without a goal.
    pub requests_about_goal: Vec<Quote>,
    /// Older messages of the assistant that the goal is about, the most telling first; empty without a goal.
    pub statements_about_goal: Vec<Quote>,
    /// How much each term of the goal says in this thread.
    pub term_frequencies: TermFrequencies,
}

impl ConversationFacts {
    /// Returns the facts that are carried over with the summary, whatever its text says.
    pub fn carry_over(&self) -> CarryOver {
        let paths = |wanted: fn(&FileUse) -> bool| {
            self.files
                .iter()
                .filter(|file| wanted(file))
                .take(CARRY_OVER_ENTRIES_MAX)
                .map(|file| file.path.clone())
                .collect()
        };
        let failing = self.checks.iter().filter(|run| run.has_failed()).map(|run| match &run.detail {
            Some(detail) => format!("{}: {detail}", run.name),
            None => format!("{} failed", run.name),
        });
        CarryOver {
            last_user_request: self.requests.last().map(|quote| quote.text.clone()),
            last_request_answered: self.requests.last().map(|_| self.is_answered),
            todos: self.todos.clone(),
            files_read: paths(|file| file.last_write_seq == 0),
            files_modified: paths(|file| file.last_write_seq > 0),
            commands: self.commands.iter().map(|name| name.text.clone()).collect(),
            errors: failing
                .chain(self.errors.iter().map(|quote| to_single_line(&quote.text)))
                .take(CARRY_OVER_ENTRIES_MAX)
                .collect(),
            ..CarryOver::default()
        }
    }
}
