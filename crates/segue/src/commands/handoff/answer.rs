//! Where the answer to a handoff comes from: a person, an option, a file, or nobody. What an answer means is decided by the
//! `handoff` room.

use std::io::Read;
use std::path::Path;

use agent::{Class, Decided, PendingHandoff};
use protocol::{Decision, Decisions};
use terminal::{Audience, Typed};

use crate::cli::Format;
use crate::cli::handoff::Handoff;
use crate::commands::handoff::look::id_to_keep;
use crate::commands::{Context, review};
use crate::exit::{Code, Failure};

/// Where the answer comes from.
pub(super) enum Answer {
    /// The person at the terminal.
    Ask,
    Preview,
    Apply,
    /// `--decision-file`: what it holds.
    Given(Decisions),
    Nobody,
}

/// How far a handoff came.
pub(super) enum Reached {
    /// It waits for a decision.
    Pending,
    /// It waited before and was only looked at.
    LookedAt,
    /// It was decided, or there is another proposal.
    Decided(Box<Decided>),
}

/// Returns where the answer comes from.
///
/// # Errors
/// When the decision's file cannot be read. That is found before anything is drafted, so that it costs nothing.
pub(super) fn answer(context: &Context, args: &Handoff) -> Result<Answer, Failure> {
    Ok(match (&args.decision_file, args.preview, args.apply) {
        (Some(path), _, _) => Answer::Given(read(path, "approve|edit|reject|preview")?),
        (None, true, _) => Answer::Preview,
        (None, false, true) => Answer::Apply,
        (None, false, false)
            if context.format == Format::Text && context.screen.audience == Audience::Person =>
        {
            Answer::Ask
        }
        (None, false, false) => Answer::Nobody,
    })
}

/// Reads the decisions in a file, `-` being standard input; `types` are those that may be given.
///
/// # Errors
/// When there is no such file, or it holds something else.
pub(crate) fn read(path: &Path, types: &str) -> Result<Decisions, Failure> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|content| text = content),
    };
    read.map_err(|error| {
        Failure::new(Code::User, format!("read the decision in {}: {error}", path.display()))
            .with_hint("nothing was decided; check the path")
    })?;
    Decisions::from_request(&text).map_err(|error| {
        Failure::new(Code::User, format!("read the decision: {error}")).with_hint(format!(
            "nothing was decided; the file holds {{\"decisions\":[{{\"type\":\"{types}\", …}}]}}, as `--help` shows"
        ))
    })
}

/// Answers a handoff that was drafted or found again.
///
/// # Errors
/// When the answer cannot be taken, and the handoff still waits, or was decided elsewhere.
pub(super) async fn settle(
    context: &Context,
    pending: &PendingHandoff,
    answer: Answer,
) -> Result<Reached, Failure> {
    let decisions = match answer {
        Answer::Nobody => return Ok(Reached::Pending),
        Answer::Ask => {
            let decided = review::ask_person(context, pending, &mut Typed::default()).await?;
            return Ok(decided.map_or(Reached::Pending, |decided| Reached::Decided(Box::new(decided))));
        }
        // One that waited before belongs to whoever asked for it: a look does not end it.
        Answer::Preview if !pending.is_new => return Ok(Reached::LookedAt),
        Answer::Preview => Decisions { decisions: vec![Decision::Preview {}] },
        Answer::Apply => Decisions { decisions: vec![review::acceptance(pending)] },
        Answer::Given(decisions) => decisions,
    };
    match review::decide(context, pending.handoff.handoff_id, &decisions).await? {
        Ok(decided) => Ok(Reached::Decided(Box::new(decided))),
        Err(error) if error.class() == Class::User => {
            let id = id_to_keep(context, pending.handoff.handoff_id).await;
            Err(Failure::from(error).with_hint(format!(
                "nothing was changed and it still waits; `segue handoff --show {id}` shows it, `--help` the decisions"
            )))
        }
        Err(error) => Err(error.into()),
    }
}
