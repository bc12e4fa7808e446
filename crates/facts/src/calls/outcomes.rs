//! Outcomes of tool calls: the last run of each check, and the errors that no later call resolved. A check that failed and
//! later passed is not an error, and neither is an edit that succeeded when it was repeated.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use model::sentence_ranking::split_sentences;
use protocol::{Seq, ToolStatus};

use crate::calls::commits::reports_rejected_push;
use crate::facts::{CheckRun, NameUsage, Quote};
use crate::identifier::{self, NameKind};
use crate::limits::{ERRORS_MAX, PENDING_CALLS_MAX, USES_KEPT_MAX};
use crate::name_counter::NameCounter;
use crate::shell::{self, CheckKind, CheckOutcome};
use crate::tool_use::{ToolUse, head, head_words, tail, tail_words};
use secrets::redact;

/// Maximum bytes searched for errors at each end of a tool's result. Failures are reported first or last, not between.
const RESULT_BYTES_MAX: usize = 4_096;
/// Bytes at the end of a check's output that are searched for its summary.
const CHECK_OUTPUT_BYTES_MAX: usize = 1_536;
/// Maximum lines of one result that are scanned for error types.
const ERROR_LINES_MAX: usize = 12;
/// Length in bytes of a line that may be an error message. A shorter line says too little; a longer one is a dump.
const ERROR_LINE_CHARS: std::ops::RangeInclusive<usize> = 8..=300;

/// Matches the words that mark a line as a possible error, in any case.
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

/// Lowercase texts with which agents and their harnesses report that a call was declined or refused, and so did nothing.
/// It is not an error of the work.
const DECLINED_CUES: &[&str] = &[
    "user doesn't want",
    "user doesn’t want",
    "user rejected",
    "user declined",
    "user denied",
    "user cancelled",
    "user refused",
    "person declined",
    "not condensed:",
    "not compacted:",
    "not done: this call needs approval",
    "tool use was rejected",
    "sibling tool call",
];
/// Lowercase labels before a refusal that is recorded without an error status.
const UNFLAGGED_LABELS: &[&str] = &["[", "<tool_use_error>", "error: ", "tool error: "];
/// Lowercase beginnings of a refusal without an error status that nothing else begins with.
const UNFLAGGED_REFUSALS: &[&str] = &[
    "the user doesn't want to proceed with this tool use",
    "the user doesn’t want to proceed with this tool use",
    "the user doesn't want to take this action",
    "the user doesn’t want to take this action",
    "the person declined this call",
    "not condensed:",
    "not compacted:",
];
/// Lowercase words that name a call in a refusal without an error status.
const CALL_NOUNS: &[&str] = &[
    "tool",
    "call",
    "use",
    "command",
    "edit",
    "operation",
    "action",
    "request",
    "execution",
    "change",
    "changes",
];
/// Lowercase words before a call or a person that say nothing.
const ARTICLES: &[&str] = &["the", "this", "that", "your"];
/// Lowercase words that may follow a refusal without an error status.
const AFTER_REFUSAL: &[&str] = &["and", "with", "for", "because", "before"];
/// Lowercase beginnings of sentences with which a harness instructs the agent after a refusal. The user did not say them.
const REFUSAL_INSTRUCTIONS: &[&str] = &[
    "stop what you are doing",
    "stop and wait",
    "stop and ask",
    "stop here and wait",
    "please stop and wait",
    "please wait",
    "wait for the user",
    "wait for instructions",
    "wait for further",
    "wait for new",
    "await ",
    "ask the user",
    "do not retry this",
    "do not retry the same",
    "do not attempt to",
    "note: the user",
    "the tool use was rejected",
    "the tool call was",
];
/// Participles before "by the user" and the like that report a declined call.
const DECLINED_PARTICIPLES: &[&str] = &[
    "declined",
    "rejected",
    "denied",
    "cancelled",
    "canceled",
    "aborted",
    "refused",
    "interrupted",
    "stopped",
];
/// Agents of [`DECLINED_PARTICIPLES`].
const DECLINING_PERSONS: &[&str] = &[" by user", " by the user", " by the person"];
/// Words that may follow a person who declined a call. Any other word makes the person a part of a name, such as "user
/// policy".
const AFTER_PERSON: &[&str] = &[" for ", " because ", " with ", " at ", " before ", " and ", " ("];
/// Maximum bytes at the beginning of a failed result in which [`DECLINED_CUES`] are searched.
const DECLINED_BYTES_MAX: usize = 400;
/// Lowercase texts of failures that the agent only had to repeat with other arguments. They say nothing about the work.
const TRIVIAL_ERRORS: &[&str] = &[
    "file does not exist",
    "file has not been read",
    "has not been read yet",
    "string to replace not found",
    "string not found",
    "file has been modified since",
    "file has been unexpectedly modified",
    "no changes to make",
    "sibling tool call",
    "inputvalidationerror",
    "exceeds maximum allowed",
    "is a directory",
    "eisdir",
    "matches of the string",
    "was already stopped",
    "read it with read_file first",
    "ls or glob shows what there is",
    "is not a prompt-based skill",
];
/// Lowercase beginnings of lines that a harness or a program puts before its output. They state no failure.
const OUTPUT_LABELS: &[&str] = &[
    "chunk id",
    "wall time",
    "original token count",
    "total output lines",
    "output",
    "stdout",
    "stderr",
    "current command",
    "tokens",
    "commit ",
    "duration",
];
/// Texts after which a harness quotes what the user said when they declined a call.
const CORRECTION_INTRODUCTIONS: &[&str] =
    &["the user said:", "provided the following feedback:", "with the following feedback:", "Reason: "];
/// Maximum bytes at the beginning of a result in which the clause that reports a refusal ends.
const DECLINED_CLAUSE_BYTES_MAX: usize = 120;

/// A call that waits for its result.
#[derive(Debug, Clone)]
struct PendingCall {
    /// The number of the call in the thread. The call with the lowest number is dropped first.
    order: u64,
    /// Tool and subject of the call. A success resolves the errors of earlier calls with the same key.
    key: String,
    /// The kind and name of the check that the call runs, if any.
    check: Option<(CheckKind, String)>,
    /// Names of the files that the call writes, without their folders.
    writes: Vec<String>,
    /// True when the command has several programs in a pipe or sequence, so that its exit status may not be the check's.
    is_piped: bool,
    /// The programs that the call runs and that are worth carrying over.
    programs: Vec<String>,
    /// True when the user sent a message after the call, so that probably no result will follow.
    is_abandoned: bool,
    /// True when the call is to change or verify something, so that its failure leaves the work undone.
    is_consequential: bool,
}

/// The effect of a tool call, as its result reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEffect {
    /// The call was performed.
    Performed,
    /// The call failed.
    Failed,
    /// The user or a rule refused the call.
    Declined,
}

/// Returns the effect of the call that `text` is the result of.
pub(crate) fn call_effect(text: &str, status: ToolStatus) -> CallEffect {
    let lower = head(text.trim_start(), DECLINED_BYTES_MAX).to_lowercase();
    if status != ToolStatus::Error && !reports_rejected_push(text) {
        return if begins_with_decline(&lower) { CallEffect::Declined } else { CallEffect::Performed };
    }
    if reports_decline(&lower) { CallEffect::Declined } else { CallEffect::Failed }
}

/// Returns whether a lowercase result without an error status begins with a sentence that reports a refusal, as plain chat
/// messages record it. Ordinary output may contain such words later, or about something else than a call.
fn begins_with_decline(lower: &str) -> bool {
    let line = lower.lines().next().unwrap_or_default();
    let line = UNFLAGGED_LABELS.iter().fold(line, |line, label| line.strip_prefix(label).unwrap_or(line));
    let is_permission = line.starts_with("permission to use ") && line.contains(" has been denied");
    if is_permission || UNFLAGGED_REFUSALS.iter().any(|refusal| line.starts_with(refusal)) {
        return true;
    }
    let clause = line.split_inclusive([':', '.', ';', ',', '!', ']', '(']).next().unwrap_or_default();
    let is_label = clause.ends_with(':');
    let words = clause.trim_end_matches(|c: char| !c.is_alphanumeric()).split_whitespace();
    let words: Vec<&str> = words.filter(|word| !ARTICLES.contains(word)).collect();
    let is_person = |word: &&str| matches!(*word, "user" | "person");
    let nouns = |words: &[&str]| words.iter().take_while(|word| CALL_NOUNS.contains(word)).count();
    let is_end = |words: &[&str]| words.first().is_none_or(|word| AFTER_REFUSAL.contains(word));
    match words.as_slice() {
        // "User rejected the edit". A label such as "User rejected: 3" counts something.
        [person, participle, rest @ ..] if is_person(person) && DECLINED_PARTICIPLES.contains(participle) => {
            let nouns = nouns(rest);
            is_end(&rest[nouns..]) && (nouns > 0 || rest.is_empty() && !is_label)
        }
        // "The command was rejected by the user", "Rejected by the user".
        words => {
            let passive = &words[nouns(words)..];
            let verbs =
                passive.iter().take_while(|word| matches!(**word, "was" | "has" | "been" | "is")).count();
            match &passive[verbs..] {
                [participle, "by", person, rest @ ..] => {
                    DECLINED_PARTICIPLES.contains(participle) && is_person(person) && is_end(rest)
                }
                _ => false,
            }
        }
    }
}

/// Returns whether a lowercase result reports that the user or a rule refused the call, and not an ordinary failure that
/// names a user.
fn reports_decline(lower: &str) -> bool {
    let is_permission =
        || lower.split_once("permission to use").is_some_and(|(_, after)| after.contains("denied"));
    let is_declined_by = |participle: &&str, person: &&str| {
        let phrase = format!("{participle}{person}");
        lower.match_indices(&phrase).any(|(start, phrase)| {
            let after = &lower[start + phrase.len()..];
            after.is_empty()
                || after.starts_with(['.', ',', ';', ':', '!', ')', '"', '\'', ']', '\n', '\r'])
                || AFTER_PERSON.iter().any(|word| after.starts_with(word))
        })
    };
    DECLINED_CUES.iter().any(|cue| lower.contains(cue))
        || is_permission()
        || DECLINED_PARTICIPLES
            .iter()
            .any(|participle| DECLINING_PERSONS.iter().any(|person| is_declined_by(participle, person)))
}

/// Returns what the user said when they declined the call with this result.
pub(crate) fn correction(text: &str) -> Option<&str> {
    let introduced = CORRECTION_INTRODUCTIONS.iter().find_map(|introduction| text.split_once(introduction));
    let (_, said) = introduced.or_else(|| {
        // Without an introduction, the words follow the refusal itself: "Rejected by the user: keep the old name".
        let (refusal, said) = text.split_once(':')?;
        let is_refusal =
            refusal.len() <= DECLINED_CLAUSE_BYTES_MAX && reports_decline(&refusal.to_lowercase());
        is_refusal.then_some((refusal, said))
    })?;
    let said = said.trim();
    let said = said
        .strip_prefix("<feedback>")
        .map_or(said, |said| said.split("</feedback>").next().unwrap_or(said).trim());
    let said = said.strip_prefix('“').map_or(said, |quoted| quoted.split('”').next().unwrap_or(quoted));
    let said = without_instructions(said);
    (!said.is_empty() && !said.starts_with("no reason was given")).then_some(said)
}

/// Returns the part of the text before the first sentence with which a harness instructs the agent.
fn without_instructions(said: &str) -> &str {
    let instruction = split_sentences(said).find(|sentence| {
        let lower = head(sentence, DECLINED_CLAUSE_BYTES_MAX).to_lowercase();
        REFUSAL_INSTRUCTIONS.iter().any(|beginning| lower.starts_with(beginning))
    });
    instruction.and_then(|sentence| said.find(sentence)).map_or(said, |start| said[..start].trim())
}

/// An error that no later call has resolved.
#[derive(Debug, Clone)]
struct UnresolvedError {
    /// The key of the call that failed. Empty when the call is unknown; nothing but a write can resolve the error then.
    key: String,
    /// The redacted error message.
    quote: Quote,
}

/// Folds tool calls and their results into checks and errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolOutcomeTracker {
    /// Calls without a result, by call id. At most [`PENDING_CALLS_MAX`].
    pending_calls: HashMap<String, PendingCall>,
    /// Number of calls recorded.
    call_count: u64,
    /// The last run of each check, the latest first. At most [`ERRORS_MAX`].
    checks: Vec<CheckRun>,
    /// Errors, the latest first. At most [`ERRORS_MAX`].
    errors: Vec<UnresolvedError>,
    /// Errors that a later call resolved, the latest first. At most [`ERRORS_MAX`].
    resolved_errors: Vec<Quote>,
    /// Error types named in failed results.
    pub(crate) error_types: NameCounter,
    /// Programs that shell commands ran, with their subcommand.
    commands: NameCounter,
    /// `seq` of the last result of a consequential call, if that call failed.
    last_failure_seq: Option<Seq>,
    /// `seq` of the last result, if its call was declined.
    last_declined_seq: Option<Seq>,
}

impl ToolOutcomeTracker {
    /// Records a call of `tool` with the call id `id` by the event `seq`. The oldest pending call is dropped when too many
    /// wait.
    pub(crate) fn record_call(&mut self, seq: Seq, id: &str, tool: &str, usage: &ToolUse) {
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
        let mut programs = shell::invoked_programs(command);
        let is_consequential =
            check.is_some() || !usage.writes.is_empty() || !usage.deletes.is_empty() || !programs.is_empty();
        programs.retain(|program| shell::is_characteristic(program));
        programs.iter().for_each(|program| self.commands.count_use(program, seq));
        let call = PendingCall {
            order,
            key,
            check,
            writes,
            is_piped,
            programs,
            is_abandoned: false,
            is_consequential,
        };
        self.pending_calls.insert(id.to_owned(), call);
    }

    /// Returns whether the work is left undone after `seq`: a check failed and did not pass since, or the last call that
    /// should change something failed.
    pub(crate) fn has_failure_since(&self, seq: Seq) -> bool {
        self.last_failure_seq.is_some_and(|failure| failure > seq)
            || self.checks.iter().any(|run| run.seq > seq && run.has_failed() && !self.is_superseded(run))
    }

    /// Returns whether another build or lint passed after this one. A test is only superseded by itself.
    fn is_superseded(&self, failed: &CheckRun) -> bool {
        let mut later = self.checks.iter().filter(|run| run.kind == failed.kind && run.seq > failed.seq);
        failed.kind != CheckKind::Test && later.any(|run| !run.has_failed())
    }

    /// Returns whether the last call after `seq` was declined.
    pub(crate) fn was_declined_since(&self, seq: Seq) -> bool {
        self.last_declined_seq.is_some_and(|declined| declined > seq)
    }

    /// Returns whether a call waits for its result.
    pub(crate) fn has_pending_calls(&self) -> bool {
        self.pending_calls.values().any(|call| !call.is_abandoned)
    }

    /// Marks all pending calls as abandoned, because a new request of the user began.
    pub(crate) fn abandon_pending_calls(&mut self) {
        self.pending_calls.values_mut().for_each(|call| call.is_abandoned = true);
    }

    /// Lets the calls without a result count as performed, because their format records no results.
    pub(crate) fn confirm_pending(&mut self) {
        self.pending_calls.clear();
    }

    /// Returns the programs that shell commands ran, with their subcommand, the most used first. Calls without a result
    /// are left out: they may wait for an approval.
    pub(crate) fn commands(&self) -> Vec<NameUsage> {
        let unconfirmed: Vec<&String> = self.pending_calls.values().flat_map(|call| &call.programs).collect();
        let mut commands = match unconfirmed.is_empty() {
            true => self.commands.most_used_names(),
            false => {
                let mut confirmed = self.commands.clone();
                unconfirmed.into_iter().for_each(|program| confirmed.remove_use(program));
                confirmed.most_used_names()
            }
        };
        commands.truncate(USES_KEPT_MAX);
        commands
    }

    /// Records the result of a call. A success resolves earlier errors; a failure becomes an error or a failed check.
    ///
    /// The output of a check counts more than its exit status, because agents often pipe a check into `tail`. A check in a
    /// pipe whose output is inconclusive is not recorded.
    pub(crate) fn record_result(&mut self, seq: Seq, call_id: &str, text: &str, status: ToolStatus) {
        let call = self.pending_calls.remove(call_id);
        let effect = call_effect(text, status);
        self.last_declined_seq = (effect == CallEffect::Declined).then_some(seq);
        if effect == CallEffect::Declined {
            let programs = call.map(|call| call.programs).unwrap_or_default();
            programs.iter().for_each(|program| self.commands.remove_use(program));
            return;
        }
        let failed = effect == CallEffect::Failed;
        if call.as_ref().is_none_or(|call| call.is_consequential) {
            self.last_failure_seq = failed.then_some(seq);
        }
        match call {
            Some(PendingCall { check: Some((check, name)), key, is_piped, .. }) => {
                let reported = shell::detect_check_outcome(tail(text, CHECK_OUTPUT_BYTES_MAX));
                if failed && reported.is_none() && shell::reports_abort(text) {
                    return;
                }
                let outcome = match (failed, reported, is_piped) {
                    (true, _, _) => CheckOutcome::Failed,
                    (false, Some(reported), _) => reported,
                    (false, None, false) => CheckOutcome::Passed,
                    (false, None, true) => {
                        // The output does not say that the check passed. It says that an older failure is not the newest.
                        if first_error_line(text).is_none() {
                            self.checks.retain(|known| known.name != name || !known.has_failed());
                        }
                        return;
                    }
                };
                self.record_check(CheckRun { name, seq, detail: None, kind: check, outcome }, &key, text);
            }
            Some(call) if failed => self.record_failure(seq, call.key, text),
            Some(call) => {
                // A write to a file that an error names counts as its fix. If it is not one, the next check fails.
                let fixes =
                    |error: &UnresolvedError| call.writes.iter().any(|name| error.quote.text.contains(name));
                let is_resolved = |error: &mut UnresolvedError| error.key == call.key || fixes(error);
                let resolved: Vec<UnresolvedError> = self.errors.extract_if(.., is_resolved).collect();
                self.record_resolved(resolved.into_iter().map(|error| error.quote).collect());
            }
            None if failed => self.record_failure(seq, String::new(), text),
            None => {}
        }
    }

    /// Records the run of a check in place of the earlier run with the same name, with the error line of a failed one.
    fn record_check(&mut self, mut run: CheckRun, key: &str, text: &str) {
        let earlier: Vec<CheckRun> = self.checks.extract_if(.., |known| known.name == run.name).collect();
        if !run.has_failed() {
            let details = earlier
                .into_iter()
                .filter_map(|known| Some(Quote { seq: known.seq, text: known.detail?, is_cut: false }));
            self.record_resolved(details.collect());
        }
        self.errors.retain(|error| error.key != *key);
        if run.has_failed() {
            run.detail = first_error_line(text).map(|line| redact(&line).into_owned());
            self.count_error_types(run.seq, text);
        }
        self.checks.insert(0, run);
        self.checks.truncate(ERRORS_MAX);
    }

    /// Records errors that a later call resolved, the latest first.
    fn record_resolved(&mut self, quotes: Vec<Quote>) {
        self.resolved_errors.retain(|known| quotes.iter().all(|quote| quote.text != known.text));
        self.resolved_errors.splice(0..0, quotes);
        self.resolved_errors.truncate(ERRORS_MAX);
    }

    /// Records the failure of a call that is not a check. The message is the first line that looks like an error, else the
    /// first informative line if the call is known. Without such a line, or for one of [`TRIVIAL_ERRORS`], nothing is
    /// recorded.
    fn record_failure(&mut self, seq: Seq, key: String, text: &str) {
        let lower = head(text, DECLINED_BYTES_MAX).to_lowercase();
        if TRIVIAL_ERRORS.iter().any(|trivial| lower.contains(trivial)) {
            return;
        }
        self.count_error_types(seq, text);
        let is_shown = |line: &&str| !key.is_empty() && is_informative(line) && !is_output_label(line);
        let line =
            first_error_line(text).or_else(|| text.lines().map(str::trim).find(is_shown).map(str::to_owned));
        let Some(line) = line else { return };
        let line = crate::formatting::strip_tags(&redact(&line)).trim().to_owned();
        self.errors.retain(|error| (error.key != key || key.is_empty()) && error.quote.text != line);
        self.errors.insert(0, UnresolvedError { key, quote: Quote { seq, text: line, is_cut: false } });
        self.errors.truncate(ERRORS_MAX);
    }

    /// Counts the error types named in the error lines of a failed result.
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

    /// Returns the unresolved errors, the latest first.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Quote> {
        self.errors.iter().map(|error| &error.quote)
    }

    /// Returns the errors that a later call resolved, the latest first.
    pub(crate) fn resolved_errors(&self) -> &[Quote] {
        &self.resolved_errors
    }
}

/// Returns the last component of a path.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns both ends of a text, each of at most [`RESULT_BYTES_MAX`] bytes, or the whole text when it is short.
fn head_and_tail(text: &str) -> impl Iterator<Item = &str> {
    let is_long = text.len() > 2 * RESULT_BYTES_MAX;
    let head = if is_long { head_words(text, RESULT_BYTES_MAX) } else { text };
    std::iter::once(head).chain(is_long.then(|| tail_words(text, RESULT_BYTES_MAX)))
}

/// Returns the trimmed lines at both ends of a text that contain one of [`ERROR_CUES`].
fn error_lines(text: &str) -> impl Iterator<Item = &str> {
    head_and_tail(text).flat_map(|part| {
        let mut from = 0;
        std::iter::from_fn(move || {
            let hit = ERROR_CUES.find(part.get(from..)?)?;
            let start = part[..from + hit.start()].rfind('\n').map_or(0, |newline| newline + 1);
            let end =
                part[from + hit.end()..].find('\n').map_or(part.len(), |newline| from + hit.end() + newline);
            from = end + 1;
            Some(part[start..end].trim())
        })
    })
}

/// Returns the first line that states an error, or `None` if there is none of a suitable length.
fn first_error_line(text: &str) -> Option<String> {
    error_lines(text)
        .find(|line| ERROR_LINE_CHARS.contains(&line.len()) && is_informative(line) && !is_output_label(line))
        .map(str::to_owned)
}

/// Returns whether a line is a label before the output of a command, such as the number of its tokens.
fn is_output_label(line: &str) -> bool {
    let lower = head(line, 24).to_ascii_lowercase();
    OUTPUT_LABELS.iter().any(|label| lower.starts_with(label))
}

/// Returns whether a line is more than an exit status, a heading, a prompt or a link.
fn is_informative(line: &str) -> bool {
    let lower = head(line, 40).to_ascii_lowercase();
    let is_status = ["exit code", "exit status", "process exited", "command failed with exit code"]
        .iter()
        .any(|p| lower.starts_with(p));
    let is_pointer = line.starts_with(['#', '>', '$']) || lower.starts_with("http") || line.ends_with(':');
    line.len() > 3 && !is_pointer && !(is_status && line.len() < 40)
}
