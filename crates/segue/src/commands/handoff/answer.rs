//! The answer to a handoff: from the user at the terminal, an option, or a file. The crate `handoff` decides the effect
//! of an answer.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use agent::{Error, ErrorClass, HandoffError, HandoffOutcome, PendingHandoff};
use protocol::{Decision, Decisions};
use terminal::{Audience, TypeAheadBuffer};

use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffArgs;
use crate::commands::handoff::inspect::durable_handoff_id;
use crate::commands::{CommandContext, read_stdin, review};
use crate::exit::{CliFailure, ExitReason};

/// The maximum size of a file with decisions, in bytes. The largest edit of a package is far smaller.
const DECISION_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The source of the answer to a handoff.
pub(super) enum HandoffAnswerSource {
    /// The user at the terminal is asked.
    Ask,
    /// `--preview`: the pending handoff ends without a decision.
    Preview,
    /// `--apply`: the draft is accepted.
    Apply,
    /// `--redraft`: a draft that also covers the newer messages is requested.
    Redraft,
    /// `--decision-file`, with the content of the file.
    FromFile(Decisions),
    /// No option gives an answer, and the command cannot ask without a terminal.
    NoAnswer,
}

/// The result of an answer.
pub(super) enum HandoffAnswerResult {
    /// The handoff is pending, because no answer was given.
    Pending,
    /// The handoff was pending before the command, and was only shown.
    Viewed,
    /// The draft was shown and not stored.
    Previewed,
    /// The handoff was decided, or has another proposal.
    Decided(Box<HandoffOutcome>),
}

/// Returns the source of the answer.
///
/// # Errors
/// Fails if the decision file cannot be read. The file is read before the draft, so that a wrong file costs no model
/// call.
pub(super) fn answer_source(
    context: &CommandContext,
    args: &HandoffArgs,
) -> Result<HandoffAnswerSource, CliFailure> {
    let asks = context.format == OutputFormat::Text && context.screen.audience == Audience::Person;
    Ok(match &args.decision_file {
        Some(path) => HandoffAnswerSource::FromFile(read_decisions(path, DecisionFileKind::Handoff)?),
        None if args.preview => HandoffAnswerSource::Preview,
        None if args.apply => HandoffAnswerSource::Apply,
        None if args.redraft => HandoffAnswerSource::Redraft,
        None if asks => HandoffAnswerSource::Ask,
        None => HandoffAnswerSource::NoAnswer,
    })
}

/// The question that a decision file answers. It selects the hint about the format of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DecisionFileKind {
    /// The question about a handoff.
    Handoff,
    /// The question about one or more tool calls.
    ToolCalls,
}

/// Reads the decisions in a file; `-` is standard input.
///
/// # Errors
/// Fails if the file cannot be read or contains no valid decisions.
pub(crate) fn read_decisions(path: &Path, kind: DecisionFileKind) -> Result<Decisions, CliFailure> {
    let text = match path.as_os_str() == "-" {
        true => read_stdin("the decision")?,
        false => read_decision_file(path).map_err(|error| {
            CliFailure::new(ExitReason::User, format!("read the decision in {}: {error}", path.display()))
                .with_hint("nothing was decided; check the path")
        })?,
    };
    Decisions::parse_request(&text).map_err(|error| {
        let (types, command) = match kind {
            DecisionFileKind::Handoff => ("approve|edit|reject|preview", "segue handoff --help"),
            DecisionFileKind::ToolCalls => ("approve|edit|reject|respond", "segue decide --help"),
        };
        CliFailure::new(ExitReason::User, format!("read the decision: {error}")).with_hint(format!(
            "nothing was decided; the file must contain {{\"decisions\":[{{\"type\":\"{types}\", …}}]}}; `{command}` shows examples"
        ))
    })
}

/// Reads a file of at most [`DECISION_BYTES_MAX`] bytes, which may be a pipe.
fn read_decision_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = File::open(path)?.take(DECISION_BYTES_MAX + 1).read_to_string(&mut text)?;
    match length as u64 > DECISION_BYTES_MAX {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 8 MiB")),
        false => Ok(text),
    }
}

/// Answers a pending handoff.
///
/// # Errors
/// Fails if the answer is invalid (the handoff stays pending), or if another client has decided the handoff.
pub(super) async fn apply_answer(
    context: &CommandContext,
    pending: &PendingHandoff,
    answer: HandoffAnswerSource,
) -> Result<HandoffAnswerResult, CliFailure> {
    let decisions = match answer {
        HandoffAnswerSource::NoAnswer => return Ok(HandoffAnswerResult::Pending),
        HandoffAnswerSource::Ask => {
            let decided = review::ask_for_decision(context, pending, &mut TypeAheadBuffer::default()).await?;
            return Ok(decided.map_or(HandoffAnswerResult::Pending, |decided| {
                HandoffAnswerResult::Decided(Box::new(decided))
            }));
        }
        HandoffAnswerSource::Preview => Decisions { decisions: vec![Decision::Preview {}] },
        HandoffAnswerSource::Apply => Decisions { decisions: vec![review::acceptance(pending)] },
        HandoffAnswerSource::Redraft => Decisions { decisions: vec![review::cover_newer_decision(pending)] },
        HandoffAnswerSource::FromFile(decisions) => decisions,
    };
    match review::decide_handoff(context, pending.handoff.handoff_id, &decisions).await? {
        Ok(decided) => Ok(HandoffAnswerResult::Decided(Box::new(decided))),
        Err(error) if error.class() == ErrorClass::User => {
            let id = durable_handoff_id(context, pending.handoff.handoff_id).await;
            let hint = match error {
                // The thread named by `--into` was used in the meantime, so no other decision can succeed.
                Error::Handoff(HandoffError::NotMergeable { .. }) => format!(
                    "nothing was changed; decline it (`segue handoff --decide {id}`), then request the handoff again without `--into`"
                ),
                _ => format!(
                    "nothing was changed and the handoff is still pending; `segue handoff --show {id}` shows it, `--help` the decisions"
                ),
            };
            Err(CliFailure::from(error).with_hint(hint))
        }
        Err(error) => Err(error.into()),
    }
}
