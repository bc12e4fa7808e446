//! How tool calls ended: the last state of each check, and the errors that nothing after them resolved. A failing
//! check that later passed, or an edit that worked the second time, is no error.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use protocol::{Seq, ToolStatus};

use crate::facts::{CheckRun, Quote};
use crate::identifier::{self, NameKind};
use crate::limits::{ERRORS_MAX, PENDING_CALLS_MAX};
use crate::name_counter::NameCounter;
use crate::shell::{self, CheckKind, CheckOutcome};
use crate::text::redaction::redact;
use crate::tool_use::{ToolUse, head, head_words, tail, tail_words};

/// Bytes looked at on each end of a tool's result.
const RESULT_BYTES_MAX: usize = 4_096;
/// Bytes at the end of a check's output in which its summary is looked for.
const CHECK_OUTPUT_BYTES_MAX: usize = 1_536;
/// Lines of one result in which error types are looked for.
const ERROR_LINES_MAX: usize = 12;
/// Characters of a line that may be an error's message.
const ERROR_LINE_CHARS: std::ops::RangeInclusive<usize> = 8..=300;

static ERROR_CUES: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "error",
            "conflict",
            "panic",
            "fatal",
            "cannot ",
            "undefined",
            "not found",
            "permission denied",
            "no such file",
            "failed",
            "traceback",
            "exception",
            "denied",
            "invalid",
            "unable to",
            "timed out",
            "fail:",
        ])
        .expect("the words are constants that the tests build")
});

/// Answers of harnesses to a call that the person declined. They are not errors of the work.
const DECLINED_CUES: [&str; 6] =
    ["user doesn't want", "user rejected", "user declined", "by user", "by the user", "user cancelled"];

/// A call that waits for its result.
#[derive(Debug, Clone)]
struct PendingCall {
    order: u64,
    /// Calls with the same key are attempts at the same thing.
    key: String,
    check: Option<(CheckKind, String)>,
    /// Names of the files it writes, without their folders.
    writes: Vec<String>,
    /// True when the exit status is that of a later program in a pipe.
    is_piped: bool,
}

/// An error and what would resolve it.
#[derive(Debug, Clone)]
struct UnresolvedError {
    key: String,
    quote: Quote,
}

/// Folds calls and results.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolOutcomeTracker {
    pending_calls: HashMap<String, PendingCall>,
    call_count: u64,
    checks: Vec<CheckRun>,
    errors: Vec<UnresolvedError>,
    /// Error types named in failures.
    pub(crate) error_types: NameCounter,
}

impl ToolOutcomeTracker {
    /// Takes a call.
    pub(crate) fn record_call(&mut self, id: &str, tool: &str, usage: &ToolUse) {
        self.call_count += 1;
        let order = self.call_count;
        if self.pending_calls.len() >= PENDING_CALLS_MAX {
            let oldest =
                self.pending_calls.iter().min_by_key(|(_, call)| call.order).map(|(id, _)| id.clone());
            oldest.and_then(|id| self.pending_calls.remove(&id));
        }
        let command = usage.command.as_deref().unwrap_or_default();
        let check = shell::detect_check(command);
        let subject = match &check {
            Some((_, name)) => name.clone(),
            None if !command.is_empty() => shell::invoked_programs(command).join(" "),
            None => usage.writes.first().or(usage.reads.first()).cloned().unwrap_or_default(),
        };
        let is_piped = command.contains('|') || command.contains("; ");
        let writes = usage.writes.iter().map(|path| file_name(path).to_owned()).collect();
        let key = format!("{tool} {subject}");
        self.pending_calls.insert(id.to_owned(), PendingCall { order, key, check, writes, is_piped });
    }

    /// Returns whether a call waits for its result.
    pub(crate) fn has_pending_calls(&self) -> bool {
        !self.pending_calls.is_empty()
    }

    /// Gives up waiting: a new request begins.
    pub(crate) fn abandon_pending_calls(&mut self) {
        self.pending_calls.clear();
    }

    /// Takes a result.
    pub(crate) fn record_result(&mut self, seq: Seq, call_id: &str, text: &str, status: ToolStatus) {
        let call = self.pending_calls.remove(call_id);
        let failed = status == ToolStatus::Error;
        match call {
            Some(PendingCall { check: Some((check, name)), key, is_piped, .. }) => {
                let told = shell::detect_check_outcome(tail(text, CHECK_OUTPUT_BYTES_MAX));
                let outcome = match (failed, told, is_piped) {
                    (true, _, _) => CheckOutcome::Failed,
                    (false, Some(told), _) => told,
                    (false, None, false) => CheckOutcome::Passed,
                    (false, None, true) => return,
                };
                self.record_check(CheckRun { name, seq, detail: None, kind: check, outcome }, &key, text);
            }
            Some(call) if failed => self.record_failure(seq, call.key, text),
            Some(call) => {
                // A file that was written after an error named it is taken as mended; a check tells if it is not.
                let mends =
                    |error: &UnresolvedError| call.writes.iter().any(|name| error.quote.text.contains(name));
                self.errors.retain(|error| error.key != call.key && !mends(error));
            }
            None if failed => self.record_failure(seq, String::new(), text),
            None => {}
        }
    }

    fn record_check(&mut self, mut run: CheckRun, key: &str, text: &str) {
        self.checks.retain(|known| known.name != run.name);
        self.errors.retain(|error| error.key != *key);
        if run.has_failed() {
            run.detail = first_error_line(text).map(|line| redact(&line).into_owned());
            self.count_error_types(run.seq, text);
        }
        self.checks.insert(0, run);
        self.checks.truncate(ERRORS_MAX);
    }

    fn record_failure(&mut self, seq: Seq, key: String, text: &str) {
        self.count_error_types(seq, text);
        let line = first_error_line(text)
            .or_else(|| text.lines().map(str::trim).find(|line| is_informative(line)).map(str::to_owned));
        let Some(line) = line.filter(|line| !DECLINED_CUES.iter().any(|cue| line.contains(cue))) else {
            return;
        };
        let line = redact(&line).into_owned();
        self.errors.retain(|error| (error.key != key || key.is_empty()) && error.quote.text != line);
        self.errors.insert(0, UnresolvedError { key, quote: Quote { seq, text: line, is_cut: false } });
        self.errors.truncate(ERRORS_MAX);
    }

    fn count_error_types(&mut self, seq: Seq, text: &str) {
        for line in error_lines(text).take(ERROR_LINES_MAX) {
            identifier::scan_names(line, |kind, name| {
                if kind == NameKind::Error {
                    self.error_types.count_use(name, seq);
                }
            });
        }
    }

    /// Returns the last run of each check, the latest first.
    pub(crate) fn checks(&self) -> &[CheckRun] {
        &self.checks
    }

    /// Returns the open errors, the latest first.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Quote> {
        self.errors.iter().map(|error| &error.quote)
    }
}

/// Returns a path's last part.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns the two ends of a text, or the whole when it is short.
fn head_and_tail(text: &str) -> impl Iterator<Item = &str> {
    let long = text.len() > 2 * RESULT_BYTES_MAX;
    let first = if long { head_words(text, RESULT_BYTES_MAX) } else { text };
    std::iter::once(first).chain(long.then(|| tail_words(text, RESULT_BYTES_MAX)))
}

/// Returns the lines with an error's words.
fn error_lines(text: &str) -> impl Iterator<Item = &str> {
    head_and_tail(text).flat_map(|part| {
        let mut from = 0;
        std::iter::from_fn(move || {
            let hit = ERROR_CUES.find(part.get(from..)?)?;
            let start = part[..from + hit.start()].rfind('\n').map_or(0, |at| at + 1);
            let end = part[from + hit.end()..].find('\n').map_or(part.len(), |at| from + hit.end() + at);
            from = end + 1;
            Some(part[start..end].trim())
        })
    })
}

/// Returns the first line that says what went wrong.
fn first_error_line(text: &str) -> Option<String> {
    error_lines(text)
        .find(|line| ERROR_LINE_CHARS.contains(&line.len()) && is_informative(line))
        .map(str::to_owned)
}

/// Returns whether a line is more than an exit status, a heading or a link.
fn is_informative(line: &str) -> bool {
    let lower = head(line, 40).to_ascii_lowercase();
    let is_status = ["exit code", "exit status", "process exited", "command failed with exit code"]
        .iter()
        .any(|p| lower.starts_with(p));
    let is_pointer = line.starts_with(['#', '>', '$']) || lower.starts_with("http") || line.ends_with(':');
    line.len() > 3 && !is_pointer && !(is_status && line.len() < 40)
}
