//! The commits and pushes that were performed: they prove that a request such as "commit it" is done, and the subject of
//! the last commit names the work.

use std::collections::HashMap;

use protocol::Seq;

use crate::calls::outcomes::CallEffect;
use crate::facts::Quote;
use crate::limits::PENDING_CALLS_MAX;
use crate::shell;
use crate::tool_use::{head_words, tail};
use secrets::redact;

/// Maximum bytes of the subject of a commit. A longer one is no subject.
const SUBJECT_BYTES_MAX: usize = 200;

/// Maximum bytes at the end of the output of a call that are searched for a rejected push.
const PUSH_OUTPUT_BYTES_MAX: usize = 4_096;

/// The commit and the push that a call makes.
#[derive(Debug, Clone, Default)]
struct RepositoryCall {
    commits: bool,
    pushes: bool,
    /// The subject of the commit, redacted.
    subject: Option<String>,
}

/// The commits and pushes whose calls succeeded.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitTracker {
    /// Calls without a result, by call id. At most [`PENDING_CALLS_MAX`].
    pending: HashMap<String, RepositoryCall>,
    /// `seq` of the last commit; 0 if there is none.
    commit_seq: Seq,
    /// `seq` of the last push; 0 if there is none.
    push_seq: Seq,
    /// The subject of the last commit that has one.
    subject: Option<Quote>,
}

impl CommitTracker {
    /// Records a call that runs `command`. It takes effect with its result.
    pub(crate) fn record_call(&mut self, id: &str, command: &str) {
        if !command.contains("commit") && !command.contains("push") {
            return;
        }
        let programs = shell::invoked_programs(command);
        let runs = |subcommand: &str| programs.iter().any(|program| program.ends_with(subcommand));
        let commits = runs("git commit") || runs("jj commit");
        let call = RepositoryCall {
            commits,
            pushes: runs("git push") || command.contains("jj git push"),
            subject: commits.then(|| commit_subject(command)).flatten(),
        };
        if (call.commits || call.pushes) && self.pending.len() < PENDING_CALLS_MAX {
            self.pending.insert(id.to_owned(), call);
        }
    }

    /// Records the result of a call. Only a call that was performed counts.
    pub(crate) fn record_result(&mut self, seq: Seq, id: &str, effect: CallEffect) {
        let Some(call) = self.pending.remove(id).filter(|_| effect == CallEffect::Performed) else { return };
        if call.commits {
            self.commit_seq = seq;
        }
        if call.pushes {
            self.push_seq = seq;
        }
        if let Some(text) = call.subject {
            self.subject = Some(Quote { seq, text, is_cut: false });
        }
    }

    /// Forgets the calls without a result.
    pub(crate) fn abandon_pending(&mut self) {
        self.pending.clear();
    }

    /// Returns whether everything that was ordered was done after `seq`.
    pub(crate) fn fulfils(&self, order: RepositoryOrder, seq: Seq) -> bool {
        (!order.commits || self.commit_seq > seq) && (!order.pushes || self.push_seq > seq)
    }

    /// Returns the subject of the last commit.
    pub(crate) fn last_subject(&self) -> Option<&Quote> {
        self.subject.as_ref()
    }
}

/// An order to commit or to push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RepositoryOrder {
    /// True if a commit is ordered.
    pub commits: bool,
    /// True if a push is ordered.
    pub pushes: bool,
}

/// Lowercase words that may stand in an order to commit or push beside its verb.
const ORDER_WORDS: &[&str] = &[
    "ok",
    "okay",
    "yes",
    "yeah",
    "yep",
    "please",
    "now",
    "then",
    "and",
    "go",
    "ahead",
    "just",
    "it",
    "this",
    "that",
    "these",
    "them",
    "all",
    "the",
    "your",
    "my",
    "our",
    "changes",
    "change",
    "everything",
    "work",
    "to",
    "remote",
    "origin",
    "pr",
    "branch",
    "can",
    "you",
    "could",
    "lets",
    "let's",
    "let’s",
    "great",
    "good",
    "nice",
    "perfect",
    "cool",
    "up",
    "from",
    "worktree",
    "thanks",
    "so",
    "well",
    "file",
    "files",
];

/// Returns the order of a request that orders nothing but a commit or a push.
pub(crate) fn repository_order(request: &str) -> Option<RepositoryOrder> {
    let mut order = RepositoryOrder::default();
    if request.len() > 120 {
        return None;
    }
    let lower = request.to_lowercase();
    for word in
        lower.split(|c: char| !c.is_alphanumeric() && !"'’".contains(c)).filter(|word| !word.is_empty())
    {
        match word {
            "commit" => order.commits = true,
            "push" => order.pushes = true,
            word if ORDER_WORDS.contains(&word) => {}
            _ => return None,
        }
    }
    (order.commits || order.pushes).then_some(order)
}

/// Returns the first line of the message of a commit, redacted: that of the option `-m`, or of the here-document in it.
fn commit_subject(command: &str) -> Option<String> {
    let options = [" -m ", " -am ", " --message ", " --message=", " -m="];
    let after =
        options.iter().find_map(|option| Some(command.split_once("commit")?.1.split_once(option)?.1))?;
    let after = after.trim_start();
    let text = match after.strip_prefix("\"$(cat <<").or_else(|| after.strip_prefix("$(cat <<")) {
        Some(heredoc) => heredoc.split_once('\n')?.1,
        None => {
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            after[1..].split(quote).next()?
        }
    };
    let subject = text.lines().next()?.trim();
    let is_plain = !subject.is_empty() && subject.len() <= SUBJECT_BYTES_MAX && !subject.contains('$');
    is_plain.then(|| head_words(&redact(subject), SUBJECT_BYTES_MAX).to_owned())
}

/// Returns whether the output of git says that the remote rejected a push. Formats without an exit code record it as a success.
pub(crate) fn reports_rejected_push(text: &str) -> bool {
    tail(text, PUSH_OUTPUT_BYTES_MAX).lines().any(|line| line.starts_with("error: failed to push some refs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_to_commit_orders_nothing_else() {
        for (request, expected) in [
            ("commit it", Some((true, false))),
            ("Ok, commit and push please.", Some((true, true))),
            ("please push to PR from worktree", Some((false, true))),
            ("commit it and add a test", None),
            ("are we all committed?", None),
            ("yes", None),
        ] {
            let order = repository_order(request).map(|order| (order.commits, order.pushes));
            assert_eq!(order, expected, "{request:?}");
        }
    }

    #[test]
    fn the_subject_of_a_commit_is_the_first_line_of_its_message() {
        for (command, expected) in [
            ("git add -A && git commit -m \"Port the reader\"", Some("Port the reader")),
            (
                "git commit -m \"$(cat <<'EOF'\nPort the reader\n\nIt lost rows.\nEOF\n)\"",
                Some("Port the reader"),
            ),
            ("git commit -am 'docs: name the flag' && git push", Some("docs: name the flag")),
            ("git commit --amend --no-edit", None),
            ("git commit -m \"$TEXT\"", None),
        ] {
            assert_eq!(commit_subject(command).as_deref(), expected, "{command:?}");
        }
    }
}
