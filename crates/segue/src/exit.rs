//! Exit codes, and the report of a failure: one line with the problem, and a hint with a remedy. This file does not
//! recover from failures.

use std::error::Error as _;
use std::io::{self, IsTerminal, Write};
use std::num::ParseIntError;
use std::process::ExitCode;

use agent::{ErrorClass, RunEnd};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use protocol::{FailureKind, RunStatus};
use serde_json::json;
use terminal::{detect_columns, sanitize_line, wrap};

use crate::cli::OutputFormat;

/// The meaning of the exit codes, which `segue --help` shows. The lines have at most 80 columns, because clap would
/// break longer lines.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0    success
  1    failure of a model, a setting, the data, another client or segue itself;
       `code` in the JSON error says which
  2    invalid arguments, or something they name does not exist
  3    a decision is pending
  4    `segue doctor --secrets` found secrets
  124  timeout
  130  stopped by Ctrl-C, SIGTERM or SIGHUP";

/// The problem if another process has an active run on the thread. It reads after "failed to ".
const BUSY_MESSAGE: &str = "change this thread: another process has an active run in it";

/// The hint for a session file that cannot be read.
const CHECK_FILE_HINT: &str = "check the file; `segue import --discover` lists the sessions of this machine";

/// The reason why the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// The command succeeded.
    Success,
    /// A bug in Segue.
    Internal,
    /// The request is invalid, or names something that does not exist.
    User,
    /// A setting is invalid.
    Config,
    /// A model cannot be used.
    Model,
    /// Data cannot be read or written.
    Store,
    /// Another client has changed or decided the same object first.
    Conflict,
    /// Another process has an active run on the thread, so the command changed nothing.
    Busy,
    /// A run reached a limit other than its timeout.
    Limit,
    /// A decision is pending.
    Undecided,
    /// A text contains secrets.
    SecretsFound,
    /// A run reached its timeout.
    Timeout,
    /// The user or a signal stopped the program.
    Cancelled,
}

impl ExitReason {
    /// Returns the exit code of the process.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Internal
            | Self::Config
            | Self::Model
            | Self::Store
            | Self::Conflict
            | Self::Busy
            | Self::Limit => 1,
            Self::User => 2,
            Self::Undecided => 3,
            Self::SecretsFound => 4,
            Self::Timeout => 124,
            Self::Cancelled => 130,
        }
    }

    /// Returns the value of `code` in JSON errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Internal => "internal",
            Self::User => "usage",
            Self::Config => "config",
            Self::Model => "model",
            Self::Store => "store",
            Self::Conflict | Self::Busy => "conflict",
            Self::Limit => "limit",
            Self::Undecided => "undecided",
            Self::SecretsFound => "secrets_found",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<ErrorClass> for ExitReason {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::User => Self::User,
            ErrorClass::Conflict => Self::Conflict,
            ErrorClass::Stopped => Self::Cancelled,
            ErrorClass::Config => Self::Config,
            ErrorClass::Model => Self::Model,
            ErrorClass::Store => Self::Store,
            ErrorClass::Internal => Self::Internal,
        }
    }
}

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum CliFailure {
    /// A failure that is reported on stderr.
    Reported(FailureMessage),
    /// The reader has closed the output, as `head` does. Nothing is reported, and the program ends successfully.
    OutputClosed,
}

/// The report of a failure.
#[derive(Debug)]
pub(crate) struct FailureMessage {
    /// The reason, which determines the exit code.
    pub(crate) code: ExitReason,
    /// The problem: a fragment that reads after "failed to ", or a whole sentence, depending on `lead`.
    pub(crate) problem: String,
    /// The beginning of the message.
    pub(crate) lead: FailureLead,
    /// The suggested remedy.
    pub(crate) hint: Option<String>,
}

/// The beginning of the message of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureLead {
    /// "failed to ", for a problem that is a fragment.
    FailedTo,
    /// Nothing, for a problem that is a sentence.
    Sentence,
}

impl FailureMessage {
    /// Returns the whole message as one line without control characters.
    pub(crate) fn message(&self) -> String {
        let problem = sanitize_line(&flatten_message(&self.problem));
        match self.lead {
            FailureLead::FailedTo => format!("failed to {problem}"),
            FailureLead::Sentence => problem,
        }
    }
}

/// The result of a command: the reason for the exit code, or a failure.
pub(crate) type CommandResult = Result<ExitReason, CliFailure>;

impl CliFailure {
    /// Returns a failure without a hint. `problem` reads after "failed to ".
    pub(crate) fn new(code: ExitReason, problem: impl Into<String>) -> Self {
        Self::reported(code, problem.into(), None)
    }

    /// Returns a failure caused by the user's input. Its message is a whole sentence.
    pub(crate) fn usage_sentence(sentence: impl Into<String>) -> Self {
        let (code, lead) = (ExitReason::User, FailureLead::Sentence);
        Self::Reported(FailureMessage { code, problem: sentence.into(), lead, hint: None })
    }

    /// Returns a failure with an optional hint. `problem` reads after "failed to ".
    fn reported(code: ExitReason, problem: String, hint: Option<String>) -> Self {
        Self::Reported(FailureMessage { code, problem, lead: FailureLead::FailedTo, hint })
    }

    /// Sets the hint, replacing an earlier one.
    #[must_use]
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Reported(failure) => Self::Reported(FailureMessage { hint: Some(hint.into()), ..failure }),
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Appends a text to the hint, after a semicolon.
    pub(crate) fn with_extra_hint(self, extra: &str) -> Self {
        match self {
            Self::Reported(failure) => {
                let hint = failure.hint.map_or_else(|| extra.to_owned(), |hint| format!("{hint}; {extra}"));
                Self::Reported(FailureMessage { hint: Some(hint), ..failure })
            }
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Returns whether the command changed nothing because another process has an active run on the thread.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Reported(failure) if failure.code == ExitReason::Busy)
    }

    /// Returns whether another client acted first, or has an active run on the thread.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Reported(failure) if matches!(failure.code, ExitReason::Conflict | ExitReason::Busy))
    }

    /// Returns the failure of a command that the user stopped. `action` reads after "failed to ".
    pub(crate) fn cancelled(action: &str) -> Self {
        Self::new(ExitReason::Cancelled, format!("{action}: it was stopped"))
    }
}

impl From<agent::Error> for CliFailure {
    fn from(error: agent::Error) -> Self {
        if error.is_busy() {
            return Self::new(ExitReason::Busy, BUSY_MESSAGE)
                .with_hint("wait until the run ends, or stop it with `segue threads stop`; then try again");
        }
        let code = ExitReason::from(error.class());
        let (problem, hint) = match &error {
            agent::Error::Thread(agent::ThreadError::Transcript(file)) => match file.hint() {
                Some(hint) => (file.problem(), Some(hint)),
                None => (error_chain(&error), Some(CHECK_FILE_HINT.to_owned())),
            },
            error => (error_chain(error), error.hint()),
        };
        Self::reported(code, problem, hint)
    }
}

impl From<io::Error> for CliFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::new(ExitReason::Store, format!("use the terminal or a file: {error}")),
        }
    }
}

impl From<terminal::Error> for CliFailure {
    fn from(error: terminal::Error) -> Self {
        use terminal::Error;
        match error {
            Error::Io(error) => error.into(),
            Error::NoEditor | Error::EditorNotStarted { .. } => {
                Self::new(ExitReason::Config, error.to_string())
                    .with_hint("set EDITOR to the editor you use, such as `nano`")
            }
            Error::EditorFailed { .. } => Self::new(ExitReason::User, error.to_string())
                .with_hint("nothing was changed; set EDITOR to another editor, such as `nano`"),
            Error::Aborted => Self::new(ExitReason::Cancelled, error.to_string()),
        }
    }
}

impl From<serde_json::Error> for CliFailure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(io::ErrorKind::BrokenPipe) => Self::OutputClosed,
            _ => Self::new(ExitReason::Internal, format!("write JSON: {error}")),
        }
    }
}

/// Returns the message of an error followed by the messages of its sources, separated by colons. A message that the
/// text already contains is omitted.
pub(crate) fn error_chain(error: &agent::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

/// Returns the result of a command from the end of its run.
///
/// # Errors
/// Fails if the run failed, timed out or was cancelled.
pub(crate) fn result_of_run(end: &RunEnd) -> CommandResult {
    let code = match end.status {
        RunStatus::Success | RunStatus::Pending | RunStatus::Running => return Ok(ExitReason::Success),
        RunStatus::Interrupted => return Ok(ExitReason::Undecided),
        RunStatus::Cancelled => ExitReason::Cancelled,
        RunStatus::Timeout => ExitReason::Timeout,
        RunStatus::Error => {
            end.failure.as_ref().map_or(ExitReason::Internal, |failure| reason_of_failure(&failure.kind))
        }
    };
    let failure = end.failure.as_ref();
    let reason = failure.map_or_else(
        || format!("the run ended as {}", end.status.as_str()),
        |failure| failure.message.clone(),
    );
    let hint = failure.and_then(|failure| failure.hint.clone());
    Err(CliFailure::reported(code, format!("complete the turn: {reason}"), hint))
}

/// Returns the reason for the exit code from the kind of a run's failure.
const fn reason_of_failure(kind: &FailureKind) -> ExitReason {
    match kind {
        FailureKind::Limit | FailureKind::Overflow => ExitReason::Limit,
        FailureKind::Config => ExitReason::Config,
        FailureKind::Model => ExitReason::Model,
        FailureKind::Store => ExitReason::Store,
        FailureKind::Timeout | FailureKind::StepLimit => ExitReason::Timeout,
        FailureKind::Cancelled => ExitReason::Cancelled,
        FailureKind::Internal
        | FailureKind::EmptyInput
        | FailureKind::UnknownInterrupt
        | FailureKind::AmbiguousResume
        | FailureKind::InvalidDecision
        | FailureKind::InvalidUpdate
        | FailureKind::UnknownCheckpoint
        | FailureKind::Request
        | FailureKind::Workspace
        | FailureKind::Unclassified
        | FailureKind::Other(_) => ExitReason::Internal,
    }
}

/// Reports a failure on stderr, and returns the exit code of the process.
pub(crate) fn report_result(outcome: CommandResult, format: OutputFormat) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(CliFailure::OutputClosed) => ExitReason::Success,
        Err(CliFailure::Reported(failure)) => {
            print_failure(&failure, format);
            failure.code
        }
    };
    ExitCode::from(code.exit_code())
}

/// Writes a failure to stderr: as text with its hint on a separate line, or as one line of JSON.
pub(crate) fn print_failure(failure: &FailureMessage, format: OutputFormat) {
    let mut stderr = io::stderr().lock();
    // A terminal would break lines within words. In a file, each failure is one line.
    let columns = if stderr.is_terminal() { detect_columns(&stderr) } else { usize::MAX };
    // If stderr is closed, the exit code is the only report.
    let _ = match format {
        OutputFormat::Text => {
            let hint = failure.hint.as_ref();
            let hint = hint.map(|hint| wrap(&sanitize_line(hint), columns, "  hint: ", "    ") + "\n");
            let text = wrap(&failure.message(), columns, "segue: ", "  ");
            write!(stderr, "{text}\n{}", hint.unwrap_or_default())
        }
        OutputFormat::Json => writeln!(stderr, "{}", json!({"error": failure_json(failure)})),
    };
}

/// Returns a failure as an object for JSON reports.
pub(crate) fn failure_json(failure: &FailureMessage) -> serde_json::Value {
    let code = failure.code;
    json!({"code": code.name(), "exit_code": code.exit_code(), "message": failure.message(), "hint": failure.hint})
}

/// Reports invalid arguments, or prints the help or the version that the arguments request; returns the exit code. The
/// arguments were not parsed, so `--json` is searched in them directly.
pub(crate) fn report_usage_error(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let format = if wants_json { OutputFormat::Json } else { OutputFormat::Text };
    if let Some(problem) = value_problem(error) {
        let failure = FailureMessage {
            code: ExitReason::User,
            problem,
            lead: FailureLead::FailedTo,
            hint: Some("`--help` after the command describes its options".to_owned()),
        };
        print_failure(&failure, format);
        return ExitCode::from(failure.code.exit_code());
    }
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        // Clap names missing arguments in the lines below the first one.
        let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let reason = lines.collect::<Vec<_>>().join(" ");
        let failure = FailureMessage {
            code: ExitReason::User,
            problem: format!("read the arguments: {}", reason.trim_start_matches("error: ")),
            lead: FailureLead::FailedTo,
            hint: Some("`segue --help` lists the commands and options".to_owned()),
        };
        print_failure(&failure, OutputFormat::Json);
        return ExitCode::from(failure.code.exit_code());
    }
    // If the reader has closed the output, the text is not needed.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() {
        ExitReason::User.exit_code()
    } else {
        ExitReason::Success.exit_code()
    })
}

/// Returns the problem with the value of an argument, which reads after "failed to "; `None` for another error.
fn value_problem(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(_) | None => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    match error.kind() {
        ErrorKind::InvalidValue if value.is_empty() => Some(format!("read `{argument}`: the value is empty")),
        ErrorKind::ValueValidation => {
            let source = error.source();
            let reason = source.map(ToString::to_string).unwrap_or_default();
            let is_number = source.is_some_and(|source| source.is::<ParseIntError>());
            Some(match is_number {
                true => format!("read `{argument}`: `{value}` is not a whole number"),
                false => format!("read `{argument}`: {reason}"),
            })
        }
        _ => None,
    }
}

/// Returns a message of several lines as one line, without the lines in which a TOML error points to the position of a
/// mistake.
fn flatten_message(text: &str) -> String {
    let is_drawing =
        |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    let lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_drawing(line)).collect();
    lines.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_lines_is_reported_as_one_line() {
        let toml =
            "read config.toml: TOML parse error at line 1, column 3\n  |\n1 | a b\n  |   ^\nexpected `=`\n";
        assert_eq!(
            flatten_message(toml),
            "read config.toml: TOML parse error at line 1, column 3: expected `=`"
        );
        assert_eq!(flatten_message("find a thread `x`"), "find a thread `x`");
    }

    #[test]
    fn every_exit_code_is_documented_with_its_number() {
        let codes = [
            ExitReason::Success,
            ExitReason::Internal,
            ExitReason::User,
            ExitReason::Config,
            ExitReason::Model,
            ExitReason::Store,
            ExitReason::Conflict,
            ExitReason::Busy,
            ExitReason::Limit,
            ExitReason::Undecided,
            ExitReason::Timeout,
            ExitReason::Cancelled,
        ];
        for code in codes {
            assert!(EXIT_CODES.contains(&format!("\n  {} ", code.exit_code())), "{code:?}");
        }
    }
}
