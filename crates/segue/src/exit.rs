//! How a command ends: exit codes, and the one line with its hint that tells a person what failed. It mends nothing.

use std::error::Error as _;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use agent::{Class, RunEnd};
use protocol::{FailureKind, RunStatus};
use serde_json::json;
use terminal::{columns, one_line, wrap};

use crate::cli::Format;

/// What the exit codes mean; shown by `segue --help`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0    done
  1    failed: a model, a setting, the data, another client, or segue itself; `code` in the JSON error says which
  2    the request names something that is not there, or cannot be read as asked
  3    something waits for a decision
  124  the time was up
  130  stopped by Ctrl-C, SIGTERM or SIGHUP";

/// What a person is told when another process has a run on the thread.
const BUSY: &str = "change this thread: it is being worked on in another terminal";

/// What to do about a session file that cannot be read.
const CHECK_FILE: &str = "check the file; `segue import --discover` lists the sessions of this machine";

/// Why the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    /// Segue is at fault.
    Internal,
    /// The person asked for something that is not there or not possible.
    User,
    /// A setting is wrong.
    Config,
    /// A model could not be used.
    Model,
    /// The data cannot be read or written.
    Store,
    /// Another client was first.
    Conflict,
    /// Another process has a run on the thread: nothing was done.
    Busy,
    /// A run reached a limit other than its time.
    Limit,
    /// Something waits for a decision.
    Undecided,
    /// The time of a run was up.
    Timeout,
    /// A person stopped it.
    Cancelled,
}

impl Code {
    /// Returns the number the process ends with.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Internal
            | Self::Config
            | Self::Model
            | Self::Store
            | Self::Conflict
            | Self::Busy
            | Self::Limit => 1,
            Self::User => 2,
            Self::Undecided => 3,
            Self::Timeout => 124,
            Self::Cancelled => 130,
        }
    }

    /// Returns the name that JSON errors give it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Internal => "internal",
            Self::User => "usage",
            Self::Config => "config",
            Self::Model => "model",
            Self::Store => "store",
            Self::Conflict | Self::Busy => "conflict",
            Self::Limit => "limit",
            Self::Undecided => "undecided",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<Class> for Code {
    fn from(class: Class) -> Self {
        match class {
            Class::User => Self::User,
            Class::Conflict => Self::Conflict,
            Class::Stopped => Self::Cancelled,
            Class::Config => Self::Config,
            Class::Model => Self::Model,
            Class::Store => Self::Store,
            Class::Internal => Self::Internal,
        }
    }
}

/// A command that did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something failed, and a person is told.
    Told(Told),
    /// Whoever read the output went away; nobody is left to tell.
    OutputClosed,
}

/// What a person is told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: Code,
    /// A fragment that reads after "failed to ".
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

/// How a command ended.
pub(crate) type Outcome = Result<Code, Failure>;

impl Failure {
    /// Returns a failure without a hint.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self::Told(Told { code, what: what.into(), hint: None })
    }

    /// Sets what to do about it.
    #[must_use]
    pub(crate) fn with_hint(self, text: impl Into<String>) -> Self {
        match self {
            Self::Told(told) => Self::Told(Told { hint: Some(text.into()), ..told }),
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Returns the failure with `more` behind its hint.
    pub(crate) fn with_more_hint(self, more: &str) -> Self {
        match self {
            Self::Told(told) => {
                let hint = told.hint.map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}"));
                Self::Told(Told { hint: Some(hint), ..told })
            }
            Self::OutputClosed => Self::OutputClosed,
        }
    }

    /// Returns whether nothing was done because another process works on the thread.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Told(told) if told.code == Code::Busy)
    }

    /// Returns whether another client was first, or is.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Told(told) if matches!(told.code, Code::Conflict | Code::Busy))
    }

    /// Returns the failure of a command that a person stopped.
    pub(crate) fn cancelled(what: &str) -> Self {
        Self::new(Code::Cancelled, format!("{what}: it was stopped"))
    }
}

impl From<agent::Error> for Failure {
    fn from(error: agent::Error) -> Self {
        if error.is_busy() {
            return Self::new(Code::Busy, BUSY)
                .with_hint("wait until it is done, or stop it there; then try again");
        }
        let code = Code::from(error.class());
        let (what, hint) = match &error {
            agent::Error::Thread(agent::ThreadError::Transcript(file)) => match file.hint() {
                Some(hint) => (file.problem(), Some(hint)),
                None => (chain(&error), Some(CHECK_FILE.to_owned())),
            },
            error => (chain(error), error.hint()),
        };
        Self::Told(Told { code, what, hint })
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::new(Code::Store, format!("use the terminal or a file: {error}")),
        }
    }
}

impl From<terminal::Error> for Failure {
    fn from(error: terminal::Error) -> Self {
        use terminal::Error;
        match error {
            Error::Io(error) => error.into(),
            Error::NoEditor | Error::EditorNotStarted { .. } => Self::new(Code::Config, error.to_string())
                .with_hint("set EDITOR to the editor you use, such as `nano`"),
            Error::EditorFailed { .. } => Self::new(Code::User, error.to_string())
                .with_hint("nothing was taken over; set EDITOR to another editor, such as `nano`"),
            Error::GivenUp => Self::new(Code::Cancelled, error.to_string()),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(io::ErrorKind::BrokenPipe) => Self::OutputClosed,
            _ => Self::new(Code::Internal, format!("write JSON: {error}")),
        }
    }
}

/// Returns the error and its sources, each said once.
pub(crate) fn chain(error: &agent::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

/// Returns how a program ends whose run came to rest as `end`.
pub(crate) fn of_run(end: &RunEnd) -> Outcome {
    let code = match end.status {
        RunStatus::Success | RunStatus::Pending | RunStatus::Running => return Ok(Code::Done),
        RunStatus::Interrupted => return Ok(Code::Undecided),
        RunStatus::Cancelled => Code::Cancelled,
        RunStatus::Timeout => Code::Timeout,
        RunStatus::Error => end.failure.as_ref().map_or(Code::Internal, |failure| of_kind(&failure.kind)),
    };
    let failure = end.failure.as_ref();
    let reason = failure.map_or_else(
        || format!("the run ended as {}", end.status.as_str()),
        |failure| failure.message.clone(),
    );
    let what = format!("complete the turn: {reason}");
    Err(Failure::Told(Told { code, what, hint: failure.and_then(|failure| failure.hint.clone()) }))
}

/// Returns how a program ends whose run failed in this way.
const fn of_kind(kind: &FailureKind) -> Code {
    match kind {
        FailureKind::Limit | FailureKind::Overflow => Code::Limit,
        FailureKind::Config => Code::Config,
        FailureKind::Model => Code::Model,
        FailureKind::Store => Code::Store,
        FailureKind::Timeout | FailureKind::StepLimit => Code::Timeout,
        FailureKind::Cancelled => Code::Cancelled,
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
        | FailureKind::Other(_) => Code::Internal,
    }
}

/// Tells what failed on stderr, and returns what the process ends with.
pub(crate) fn report(outcome: Outcome, format: Format) -> ExitCode {
    let code = match outcome {
        Ok(code) => code,
        Err(Failure::OutputClosed) => Code::Done,
        Err(Failure::Told(told)) => {
            tell(&told, format);
            told.code
        }
    };
    ExitCode::from(code.number())
}

/// Writes one failure to stderr: a line with its hint, or a JSON object.
pub(crate) fn tell(told: &Told, format: Format) {
    let text = format!("failed to {}", one_line(&flat(&told.what)));
    let mut stderr = io::stderr().lock();
    // A terminal would break within words; in a file one line is one failure.
    let columns = if stderr.is_terminal() { columns(&stderr) } else { usize::MAX };
    // A closed stderr leaves only the exit code to tell.
    let _ = match format {
        Format::Text => {
            let hint =
                told.hint.as_ref().map(|hint| wrap(&one_line(hint), columns, "  hint: ", "    ") + "\n");
            let text = wrap(&text, columns, "segue: ", "  ");
            write!(stderr, "{text}\n{}", hint.unwrap_or_default())
        }
        Format::Json => writeln!(stderr, "{}", json!({"error": json(told)})),
    };
}

/// Returns a failure as JSON reports have it.
pub(crate) fn json(told: &Told) -> serde_json::Value {
    let message = format!("failed to {}", one_line(&flat(&told.what)));
    json!({"code": told.code.name(), "exit_code": told.code.number(), "message": message, "hint": told.hint})
}

/// Reports arguments that cannot be read, a request for help or for the version.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        // What is missing is named in the lines below the first one.
        let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let why = lines.collect::<Vec<_>>().join(" ");
        let what = format!("read the arguments: {}", why.trim_start_matches("error: "));
        let told =
            Told { code: Code::User, what, hint: Some("`segue --help` shows what there is".to_owned()) };
        tell(&told, Format::Json);
        return ExitCode::from(told.code.number());
    }
    // A reader that went away needs no help text.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Code::User.number() } else { Code::Done.number() })
}

/// Returns a message of several lines as one, without the lines that draw the place of a mistake.
fn flat(text: &str) -> String {
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
    fn a_message_of_several_lines_is_told_as_one() {
        let toml =
            "read config.toml: TOML parse error at line 1, column 3\n  |\n1 | a b\n  |   ^\nexpected `=`\n";
        assert_eq!(flat(toml), "read config.toml: TOML parse error at line 1, column 3: expected `=`");
        assert_eq!(flat("find a thread `x`"), "find a thread `x`");
    }

    #[test]
    fn every_exit_code_is_documented_with_its_number() {
        let codes = [
            Code::Done,
            Code::Internal,
            Code::User,
            Code::Config,
            Code::Model,
            Code::Store,
            Code::Conflict,
            Code::Busy,
            Code::Limit,
            Code::Undecided,
            Code::Timeout,
            Code::Cancelled,
        ];
        for code in codes {
            assert!(EXIT_CODES.contains(&format!("\n  {} ", code.number())), "{code:?}");
        }
    }
}
