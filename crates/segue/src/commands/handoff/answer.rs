//! The answer to a handoff: from the person at the terminal, an option, or a file. The `handoff` crate decides what an answer
//! means.

use std::io::Read;
use std::path::Path;

use agent::{ErrorClass, HandoffOutcome, PendingHandoff};
use protocol::{Decision, Decisions};
use terminal::{Audience, TypeAheadBuffer};

use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffArgs;
use crate::commands::handoff::inspect::durable_handoff_id;
use crate::commands::{CommandContext, review};
use crate::exit::{CliFailure, ExitReason};

/// The source of the answer.
pub(super) enum HandoffAnswerSource {
    /// The person at the terminal is asked.
    Ask,
    /// `--preview`.
    Preview,
    /// `--apply`.
    Apply,
    /// `--decision-file`, with the content of the file.
    FromFile(Decisions),
    /// There is no answer, and no terminal to ask on.
    NoAnswer,
}

/// The result of an answer.
pub(super) enum HandoffAnswerResult {
    /// The handoff is pending, because there was no answer.
    Pending,
    /// The handoff was pending before the command, and was only shown.
    Viewed,
    /// The handoff was decided, or has another proposal.
    Decided(Box<HandoffOutcome>),
}

/// Returns the source of the answer.
///
/// # Errors
/// Fails if the decision file cannot be read. This happens before a draft, so that the mistake costs no model call.
pub(super) fn answer_source(
    context: &CommandContext,
    args: &HandoffArgs,
) -> Result<HandoffAnswerSource, CliFailure> {
    Ok(match (&args.decision_file, args.preview, args.apply) {
        (Some(path), _, _) => {
            HandoffAnswerSource::FromFile(read_decisions(path, "approve|edit|reject|preview")?)
        }
        (None, true, _) => HandoffAnswerSource::Preview,
        (None, false, true) => HandoffAnswerSource::Apply,
        (None, false, false)
            if context.format == OutputFormat::Text && context.screen.audience == Audience::Person =>
        {
            HandoffAnswerSource::Ask
        }
        (None, false, false) => HandoffAnswerSource::NoAnswer,
    })
}

/// Reads the decisions in a file; `-` is standard input. `types` lists the allowed decision types for the hint.
///
/// # Errors
/// Fails if the file cannot be read or contains no valid decisions.
pub(crate) fn read_decisions(path: &Path, types: &str) -> Result<Decisions, CliFailure> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|content| text = content),
    };
    read.map_err(|error| {
        CliFailure::new(ExitReason::User, format!("read the decision in {}: {error}", path.display()))
            .with_hint("nothing was decided; check the path")
    })?;
    Decisions::parse_request(&text).map_err(|error| {
        CliFailure::new(ExitReason::User, format!("read the decision: {error}")).with_hint(format!(
            "nothing was decided; the file must contain {{\"decisions\":[{{\"type\":\"{types}\", …}}]}}, as `--help` shows"
        ))
    })
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
        // A preview must not end a handoff that was pending before: another client may have requested it.
        HandoffAnswerSource::Preview if !pending.is_new => return Ok(HandoffAnswerResult::Viewed),
        HandoffAnswerSource::Preview => Decisions { decisions: vec![Decision::Preview {}] },
        HandoffAnswerSource::Apply => Decisions { decisions: vec![review::acceptance(pending)] },
        HandoffAnswerSource::FromFile(decisions) => decisions,
    };
    match review::decide_handoff(context, pending.handoff.handoff_id, &decisions).await? {
        Ok(decided) => Ok(HandoffAnswerResult::Decided(Box::new(decided))),
        Err(error) if error.class() == ErrorClass::User => {
            let id = durable_handoff_id(context, pending.handoff.handoff_id).await;
            Err(CliFailure::from(error).with_hint(format!(
                "nothing was changed and the handoff is still pending; `segue handoff --show {id}` shows it, `--help` the decisions"
            )))
        }
        Err(error) => Err(error.into()),
    }
}
