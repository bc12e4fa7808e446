//! The collected facts as plain values, each with the `seq` of its source event, so that a summary can cite them.

use protocol::{CarriedFacts, CarriedFiles, Rule, Seq, TodoItem};

use crate::formatting::to_single_line;
use crate::goal::TermFrequencies;
use crate::shell::{CheckKind, CheckOutcome};
use crate::text::known_secrets::KnownSecrets;

/// Maximum entries of each list in [`CarriedFacts`].
const CARRIED_ENTRIES_MAX: usize = 2_000;

/// A verbatim part of a message: redacted, and cut where it exceeds a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quote {
    /// `seq` of the event that the text is quoted from.
    pub seq: Seq,
    /// The quoted text, without secrets.
    pub text: String,
    /// True when the original text was longer.
    pub is_cut: bool,
}

/// A name, and how often and when it was last used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameUsage {
    /// The name.
    pub text: String,
    /// Number of uses counted. It can be too low: names may have been dropped and counted anew under the memory limit.
    pub count: u32,
    /// `seq` of the last event that used the name.
    pub seq: Seq,
}

/// A rule that the user stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRule {
    /// The sentence that states the rule, verbatim.
    pub quote: Quote,
    /// True for an order ("never", "must"), false for a wish ("prefer", "should").
    pub is_strict: bool,
}

/// A file that was read or written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileUse {
    /// The path as it was passed to tools, normalized by [`normalize_path`](crate::tool_use::normalize_path).
    pub path: String,
    /// `seq` of the last event that read the file, or named it in a command; 0 if there is none.
    pub last_read_seq: Seq,
    /// `seq` of the last event that wrote the file; 0 if there is none.
    pub last_write_seq: Seq,
    /// `seq` of the last event that deleted the file or moved it away; 0 if there is none.
    pub deleted_seq: Seq,
    /// Number of calls that read, named or wrote the file.
    pub use_count: u32,
    /// `seq` of the first call that used the file; 0 if there is none.
    pub first_use_seq: Seq,
    /// True if that call wrote the whole file, so that the thread probably created it.
    pub is_created: bool,
}

impl FileUse {
    /// Returns the `seq` of the last event that read, named, wrote or deleted the file.
    pub(crate) fn last_use_seq(&self) -> Seq {
        self.last_read_seq.max(self.last_write_seq).max(self.deleted_seq)
    }

    /// Records a call that uses the file.
    pub(crate) fn record_use(&mut self, seq: Seq) {
        self.use_count += 1;
        if self.first_use_seq == 0 {
            self.first_use_seq = seq;
        }
    }

    /// Adds the uses of the same file under another name.
    pub(crate) fn join_uses(&mut self, other: &Self) {
        self.last_read_seq = self.last_read_seq.max(other.last_read_seq);
        self.last_write_seq = self.last_write_seq.max(other.last_write_seq);
        self.deleted_seq = self.deleted_seq.max(other.deleted_seq);
        self.use_count += other.use_count;
        let is_earlier = self.first_use_seq == 0 || other.first_use_seq < self.first_use_seq;
        if is_earlier && other.first_use_seq > 0 {
            (self.first_use_seq, self.is_created) = (other.first_use_seq, other.is_created);
        }
    }

    /// Returns whether the thread created the file and deleted it again, so that nothing has changed.
    pub fn is_temporary(&self) -> bool {
        self.is_created && self.is_deleted()
    }

    /// Returns whether the file was deleted and not written since.
    pub fn is_deleted(&self) -> bool {
        self.deleted_seq > self.last_write_seq
    }
}

/// The last run of one check, such as a test command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// The part of the command that identifies the check, such as `cargo test`.
    pub name: String,
    /// `seq` of the event with the result.
    pub seq: Seq,
    /// The first line of the output that names a failure, redacted. `None` if the check passed or no line does.
    pub detail: Option<String>,
    /// The kind of check.
    pub kind: CheckKind,
    /// The outcome of the check.
    pub outcome: CheckOutcome,
}

impl CheckRun {
    /// Returns whether the check failed.
    pub fn has_failed(&self) -> bool {
        self.outcome == CheckOutcome::Failed
    }
}

/// The facts about the events that a [`FactCollector`](crate::FactCollector) has processed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationFacts {
    /// `seq` of the first processed event; 0 when there was none.
    pub first_seq: Seq,
    /// `seq` of the last processed event; 0 when there was none.
    pub last_seq: Seq,
    /// Number of messages of the main conversation, by any role.
    pub messages: u64,
    /// `seq` of the first event after the last compaction boundary. Without a boundary, `first_seq`.
    pub recent_from: Seq,
    /// The user's first message in the whole thread.
    pub first_request: Option<Quote>,
    /// Messages of the user, oldest first: the first few since `recent_from`, and the latest ones, which may be older than
    /// `recent_from`.
    pub requests: Vec<Quote>,
    /// The secrets in messages and results, to be redacted wherever a summary contains them.
    pub known_secrets: KnownSecrets,
    /// The last of the requests as it is carried over: whole, unless it is longer than any person writes.
    pub last_request_text: Option<String>,
    /// True when the last request was answered with a result and nothing is known to be left; false when no answer came,
    /// or the answer, a failed call or an open task says that something is left; `None` when it shows neither.
    pub request_answered: Option<bool>,
    /// The last message of the answer to the last request, after its last tool call, at most its last
    /// [`ANSWER_BYTES_MAX`](crate::limits::ANSWER_BYTES_MAX) bytes; `None` before there is one.
    pub last_answer: Option<Quote>,
    /// The sentences of the answer to the last request that say what is left.
    pub left_open: Vec<Quote>,
    /// Messages of the user after the last message of the assistant, oldest first.
    pub unanswered_requests: Vec<Quote>,
    /// The question at the end of the assistant's last message. `None` while the last request is unanswered.
    pub open_question: Option<Quote>,
    /// The newest state of the task list.
    pub todos: Vec<TodoItem>,
    /// `seq` of the event that last changed the task list; 0 if there is none.
    pub todos_seq: Seq,
    /// Files by their last use, the latest first.
    pub files: Vec<FileUse>,
    /// Programs with their subcommand, the most used first.
    pub commands: Vec<NameUsage>,
    /// The last run of each check, the latest first.
    pub checks: Vec<CheckRun>,
    /// The subject of the last commit that a call made.
    pub last_commit: Option<Quote>,
    /// Errors that no later call resolved, the latest first.
    pub errors: Vec<Quote>,
    /// Errors that a later call resolved, the latest first.
    pub resolved_errors: Vec<Quote>,
    /// Error types named in failed results, the latest first.
    pub error_types: Vec<NameUsage>,
    /// Rules that the user stated, oldest first.
    pub rules: Vec<UserRule>,
    /// The user's standing rules, whole, in the order in which they were stated.
    pub standing_rules: Vec<Rule>,
    /// Decisions that the user or the assistant stated, oldest first.
    pub decisions: Vec<Quote>,
    /// Issues, URLs, versions, hashes and codes in messages since the last boundary, the most used first.
    pub references: Vec<NameUsage>,
    /// Identifiers in messages since the last boundary, the most used first.
    pub identifiers: Vec<NameUsage>,
    /// Paths in messages since the last boundary, the most used first.
    pub mentioned_paths: Vec<NameUsage>,
    /// Identifiers and references in the arguments of tool calls since the last boundary, the most used first.
    pub argument_names: Vec<NameUsage>,
    /// Paths in the arguments of tool calls since the last boundary, of files that the call does not use itself, such as a
    /// module that a written file imports; the most used first.
    pub argument_paths: Vec<NameUsage>,
    /// Ids and codes in the arguments of tool calls, the latest first.
    pub argument_values: Vec<NameUsage>,
    /// Sentences of the user that change, permit or revoke something and concern no rule of this thread, in their order. They may
    /// concern a rule that the thread inherited.
    pub rule_changes: Vec<Rule>,
    /// The tasks that were given to other agents, each with its outcome, newest first.
    pub delegations: Vec<String>,
    /// The names of the loaded skills, newest first.
    pub skills: Vec<String>,
    /// The assistant's latest messages, oldest first.
    pub statements: Vec<Quote>,
    /// The summary written at the last boundary, or the handoff summary that the thread began with.
    pub previous_summary: Option<Quote>,
    /// The grounded part of `previous_summary`: the items that name nothing that is absent from their source.
    pub grounded_summary: Option<Quote>,
    /// Older messages of the user that mention the goal, the most relevant first. Empty without a goal.
    pub requests_about_goal: Vec<Quote>,
    /// Older messages of the assistant that mention the goal, the most relevant first. Empty without a goal.
    pub statements_about_goal: Vec<Quote>,
    /// Document frequency of each term of the goal in this thread.
    pub term_frequencies: TermFrequencies,
}

impl ConversationFacts {
    /// Returns the facts that are stored with a summary independently of its text, so that a model cannot lose them.
    ///
    /// The lists of files and errors have at most 2,000 entries each. Fields that the collector does not cover, such as pins,
    /// have their default value.
    pub fn carried_facts(&self) -> CarriedFacts {
        let paths = |is_included: fn(&FileUse) -> bool| {
            self.files
                .iter()
                .filter(|file| is_included(file))
                .take(CARRIED_ENTRIES_MAX)
                .map(|file| file.path.clone())
                .collect()
        };
        let failing = self.checks.iter().filter(|run| run.has_failed()).map(|run| match &run.detail {
            Some(detail) => format!("{}: {detail}", run.name),
            None => format!("{} failed", run.name),
        });
        CarriedFacts {
            last_user_request: self.last_request_text.clone(),
            last_request_answered: self.requests.last().and(self.request_answered),
            rules: self.standing_rules.clone(),
            todos: self.todos.clone(),
            files: CarriedFiles {
                changed: paths(|file| file.last_write_seq > 0 && !file.is_deleted()),
                read: paths(|file| file.last_write_seq == 0 && !file.is_deleted()),
                deleted: paths(|file| file.is_deleted() && !file.is_temporary()),
            },
            commands: self.commands.iter().map(|name| name.text.clone()).collect(),
            errors: failing
                .chain(self.errors.iter().map(|quote| to_single_line(&quote.text)))
                .take(CARRIED_ENTRIES_MAX)
                .collect(),
            skills: self.skills.clone(),
            delegations: self.delegations.clone(),
            ..CarriedFacts::default()
        }
    }
}
