//! The rules that find a stale line. Each compares one line with facts of the later work, and claims something only if the
//! line names exactly what the fact is about.

use facts::formatting::to_single_line;
use facts::{ConversationFacts, FileUse};
use model::sentence_ranking::split_sentences;
use protocol::{Seq, SummaryItemKind, ThreadId, TodoStatus};

use super::{CUT_TASK_BYTES_MIN, ELLIPSIS, StaleLine, StaleReason};
use crate::review::edit::plain_text;
use crate::summary::render;
use crate::summary::render::facts::{DONE, FactSection, IN_PROGRESS, OPEN};
use crate::summary::rules::is_contradicted_by;

/// The facts of the work after an acceptance.
pub(super) struct LaterFacts<'a> {
    /// The child, with the facts of its whole work.
    pub(super) child: (ThreadId, &'a ConversationFacts),
    /// The parent, with the facts of its newer messages.
    pub(super) parent: Option<(ThreadId, &'a ConversationFacts)>,
    /// The last event of the parent that the package covers.
    pub(super) covered: Seq,
}

/// A contradiction of a line: the place of the later work, and the line to put in its place.
struct Finding {
    reason: StaleReason,
    thread_id: ThreadId,
    seq: Seq,
    replacement: Option<String>,
}

impl LaterFacts<'_> {
    /// Returns the stale lines of a package.
    pub(super) fn stale_lines(&self, package_md: &str) -> Vec<StaleLine> {
        let mut heading = String::new();
        let mut stale: Vec<StaleLine> = Vec::new();
        for (number, line) in render::block::statements(package_md) {
            if let Some(text) = line.strip_prefix("### ") {
                text.clone_into(&mut heading);
                continue;
            }
            let Some(text) = line.strip_prefix("- ") else { continue };
            let found = self.find(&heading, text);
            stale.extend(found.map(|Finding { reason, thread_id, seq, replacement }| StaleLine {
                line: line.clone(),
                number,
                reason,
                thread_id,
                seq,
                replacement,
                also_removed: Vec::new(),
                also_added: Vec::new(),
            }));
        }
        stale
    }

    /// Returns the first finding about a line under a heading.
    fn find(&self, heading: &str, text: &str) -> Option<Finding> {
        let is_in = |section: FactSection| heading.starts_with(section.heading());
        if let Some(task) = text.strip_prefix(OPEN) {
            return self.done_task(task);
        }
        if is_in(FactSection::FilesChanged) || is_in(FactSection::FilesRead) {
            return self.deleted_file(text);
        }
        if is_in(FactSection::LastRequest) {
            return self.newer_request(text);
        }
        if is_in(FactSection::Rules) || heading == render::heading(SummaryItemKind::Decision) {
            return self.contradiction(text);
        }
        is_in(FactSection::Errors).then(|| self.resolved_error(text)).flatten()
    }

    /// The threads with later work, the child first.
    fn threads(&self) -> impl Iterator<Item = (ThreadId, &ConversationFacts)> {
        [Some(self.child), self.parent].into_iter().flatten()
    }

    /// A task that a later task list shows as done.
    fn done_task(&self, task: &str) -> Option<Finding> {
        let task = task.strip_suffix(IN_PROGRESS).unwrap_or(task);
        let is_cut = task.ends_with(ELLIPSIS);
        let name = task.trim_end_matches(ELLIPSIS).trim_end();
        let is_named = |text: &str| {
            let text = to_single_line(text);
            text == name || is_cut && name.len() >= CUT_TASK_BYTES_MIN && text.starts_with(name)
        };
        self.threads().find_map(|(thread_id, facts)| {
            let is_done =
                facts.todos.iter().any(|todo| todo.status == TodoStatus::Completed && is_named(&todo.text));
            is_done.then(|| Finding {
                reason: StaleReason::TaskDone,
                thread_id,
                seq: facts.todos_seq,
                replacement: Some(format!("- {DONE}{task}")),
            })
        })
    }

    /// A file that was deleted since. A path counts as the same with or without the folder of the work before it.
    fn deleted_file(&self, path: &str) -> Option<Finding> {
        let is_same = |file: &FileUse| {
            let (longer, shorter) = if file.path.len() > path.len() {
                (file.path.as_str(), path)
            } else {
                (path, file.path.as_str())
            };
            longer == shorter || longer.strip_suffix(shorter).is_some_and(|folder| folder.ends_with('/'))
        };
        self.threads().find_map(|(thread_id, facts)| {
            let deleted = facts.files.iter().find(|file| file.is_deleted() && is_same(file))?;
            Some(Finding {
                reason: StaleReason::FileDeleted,
                thread_id,
                seq: deleted.deleted_seq,
                replacement: None,
            })
        })
    }

    /// A request in the parent that is newer than the package and was not answered there.
    fn newer_request(&self, text: &str) -> Option<Finding> {
        let (thread_id, facts) = self.parent?;
        let newest = facts.requests.last().filter(|quote| quote.seq > self.covered)?;
        // What was answered in the parent is not to be done in the child.
        if facts.request_answered == Some(true) {
            return None;
        }
        let request = to_single_line(&newest.text);
        (request != plain_text(&to_single_line(text))).then(|| Finding {
            reason: StaleReason::NewerRequest,
            thread_id,
            seq: newest.seq,
            replacement: Some(format!("- {request}")),
        })
    }

    /// The newest message of the user after the package that contradicts a rule or decision. Of several rules on a line,
    /// those that the message does not contradict stay.
    fn contradiction(&self, text: &str) -> Option<Finding> {
        let rule = plain_text(text);
        self.threads().find_map(|(thread_id, facts)| {
            let first = if thread_id == self.child.0 { 0 } else { self.covered + 1 };
            let mut later = facts.requests.iter().rev().filter(|quote| quote.seq >= first);
            let message = later.find(|quote| is_contradicted_by(&rule, &quote.text))?;
            Some(Finding {
                reason: StaleReason::Contradicted,
                thread_id,
                seq: message.seq,
                replacement: uncontradicted_part(&rule, &message.text).map(|part| format!("- {part}")),
            })
        })
    }

    /// An error of a check that has passed since.
    fn resolved_error(&self, text: &str) -> Option<Finding> {
        self.threads().find_map(|(thread_id, facts)| {
            let passed =
                facts.checks.iter().find(|check| !check.has_failed() && text.contains(&check.name))?;
            Some(Finding {
                reason: StaleReason::ErrorResolved,
                thread_id,
                seq: passed.seq,
                replacement: None,
            })
        })
    }
}

/// Words with which a further rule begins after "and" in the same sentence.
const RULE_BEGINNINGS: [&str; 8] = ["don't", "don’t", "do not", "never", "always", "avoid", "no", "only"];

/// Returns the sentences of a rule, and its parts joined by "and", that the message does not contradict; `None` if none is
/// left.
fn uncontradicted_part(rule: &str, message: &str) -> Option<String> {
    let mut kept = Vec::new();
    for sentence in split_sentences(rule) {
        if !is_contradicted_by(sentence, message) {
            kept.push(sentence.to_owned());
            continue;
        }
        let parts = split_rules(sentence);
        let others = parts.iter().filter(|part| parts.len() > 1 && !is_contradicted_by(part, message));
        kept.extend(others.map(|part| format!("{}.", part.trim_end_matches(['.', ',', ' ']))));
    }
    // An introduction such as "Two rules:" introduces nothing any more.
    kept.retain(|part| !part.trim_end().ends_with(':'));
    (!kept.is_empty()).then(|| kept.join(" "))
}

/// Splits a sentence before each "and" that a further rule follows.
fn split_rules(sentence: &str) -> Vec<&str> {
    let begins_rule = |after: &str| {
        RULE_BEGINNINGS.iter().any(|beginning| {
            let follows = |text: &str| text.starts_with(' ');
            after.get(..beginning.len()).is_some_and(|word| word.eq_ignore_ascii_case(beginning))
                && follows(&after[beginning.len()..])
        })
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, joint) in sentence.match_indices(" and ") {
        if begins_rule(&sentence[at + joint.len()..]) {
            parts.push(&sentence[start..at]);
            start = at + joint.len();
        }
    }
    parts.push(&sentence[start..]);
    parts
}
