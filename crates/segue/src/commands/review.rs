//! The review of a handoff, the same for `segue handoff` and the chat: show the proposal, take the person's answer,
//! pass it on. What an answer means is decided by the `handoff` room.

use agent::{Agent, Class, Decided, Frame, PendingHandoff};
use protocol::{Decision, Decisions, HandoffId, HandoffStatus};
use serde_json::{Map, json};

use crate::commands::Context;
use crate::exit::{Failure, chain};
use crate::terminal::ask::question::{Choice, ask_amid, ask_line};
use crate::terminal::editor::{self, Edited};
use crate::terminal::show::summary;
use crate::terminal::text::safe::one_line;
use crate::terminal::text::wrap;
use crate::terminal::work::typed::Typed;
use crate::terminal::work::watch::{Seen, Then, watch};

/// What the person wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Accept,
    Edit,
    Decline,
    Preview,
}

const CHOICES: [Choice<Answer>; 4] = [
    Choice { key: 'a', label: "Accept", answer: Answer::Accept },
    Choice { key: 'e', label: "Edit", answer: Answer::Edit },
    Choice { key: 'd', label: "Decline", answer: Answer::Decline },
    Choice { key: 'p', label: "Preview only", answer: Answer::Preview },
];

/// Shows the proposal.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn show(context: &Context, pending: &PendingHandoff) -> Result<(), Failure> {
    let screen = &context.screen;
    if !pending.is_new {
        let since = pending.handoff.created_at.strftime("%Y-%m-%d %H:%M UTC");
        let text =
            format!("This handoff was asked for at {since} and still waits; it is shown again as it was.");
        screen.line(screen.style.dim(wrap::wrap(&text, screen.text_columns(), "", "")))?;
    }
    if let Some(goal) = &pending.handoff.goal {
        screen.line(screen.style.dim(wrap::wrap(
            &format!("Goal: {}", one_line(goal)),
            screen.text_columns(),
            "",
            "  ",
        )))?;
    }
    screen.line("")?;
    screen.line(summary::proposal(screen, &pending.proposal, pending.uncovered_messages))?;
    screen.line("")?;
    Ok(())
}

/// Returns the answer that accepts exactly what was shown.
pub(crate) fn acceptance(pending: &PendingHandoff) -> Decision {
    Decision::Approve { args: None, summary_sha256: Some(pending.proposal.summary_sha256.clone()) }
}

/// Passes an answer on, and shows what a person should know of its consequences.
///
/// # Errors
/// The inner one when the answer was not taken: the handoff still waits, or was decided by someone else.
pub(crate) async fn decide(
    context: &Context,
    handoff_id: HandoffId,
    decisions: &Decisions,
) -> Result<agent::Result<Decided>, Failure> {
    let agent: &Agent = &context.agent;
    watch(
        async |frames, cancel| agent.decide_handoff(handoff_id, decisions, &frames, &cancel).await,
        |seen| {
            if let Seen::Frame(_, Frame::Notice { text }) = seen {
                context.notice(text);
            }
            Ok(Then::GoOn)
        },
    )
    .await
}

/// Asks the person until the handoff is decided; `None` when they leave it for later. What they go on to type as a
/// message goes to `typed`.
///
/// # Errors
/// When the terminal fails, or the answer could not be taken.
pub(crate) async fn ask_person(
    context: &Context,
    pending: &PendingHandoff,
    typed: &mut Typed,
) -> Result<Option<Decided>, Failure> {
    // What the person wrote last, so that nothing of it is lost between two visits of the editor.
    let mut draft = pending.proposal.summary_md.clone();
    loop {
        let Some(answer) = ask_amid(&context.screen, &CHOICES, "Decide later", typed)? else {
            return Ok(None);
        };
        let decision = match answer {
            Answer::Accept => acceptance(pending),
            Answer::Preview => Decision::Preview {},
            Answer::Decline => match ask_line(&context.screen, "Reason (Enter for none)")? {
                Some(reason) => Decision::Reject {
                    message: Some(reason.trim().to_owned()).filter(|text| !text.is_empty()),
                },
                None => continue,
            },
            Answer::Edit => match edit(context, pending, &mut draft).await? {
                Some(decided) => return Ok(Some(decided)),
                None => continue,
            },
        };
        let decisions = Decisions { decisions: vec![decision] };
        return Ok(Some(decide(context, pending.handoff.handoff_id, &decisions).await??));
    }
}

/// Lets the person edit the text until it is taken, or they leave it as it is.
async fn edit(
    context: &Context,
    pending: &PendingHandoff,
    draft: &mut String,
) -> Result<Option<Decided>, Failure> {
    let mut refused: Option<String> = None;
    loop {
        let head = head(refused.as_deref());
        let text = match editor::edit(context.agent.home().root(), &head, draft) {
            Ok(Edited::Text(text)) => text,
            Ok(Edited::Unchanged) if refused.is_none() && *draft != pending.proposal.summary_md => {
                draft.clone()
            }
            Ok(Edited::Unchanged) => {
                context.screen.line("The text was not changed.")?;
                return Ok(None);
            }
            Err(Failure::Told(told)) => {
                crate::exit::tell(&told, context.format);
                return Ok(None);
            }
            Err(closed @ Failure::OutputClosed) => return Err(closed),
        };
        *draft = text;
        let decisions = Decisions { decisions: vec![edited(pending, draft)] };
        match decide(context, pending.handoff.handoff_id, &decisions).await? {
            Ok(decided) => return Ok(Some(decided)),
            Err(error) if error.class() == Class::User => {
                let why = one_line(&chain(&error));
                context.notice(&format!("failed to {why}"));
                refused = Some(why);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn edited(pending: &PendingHandoff, text: &str) -> Decision {
    Decision::Approve {
        args: Some(Map::from_iter([("summary_md".to_owned(), json!(text))])),
        summary_sha256: Some(pending.proposal.summary_sha256.clone()),
    }
}

fn head(refused: Option<&str>) -> String {
    let how = "This is what the new thread will be told. Change it, save, and close the editor: that accepts it.\n\
               Leave it as it is to go back to the question. This comment is not part of it.";
    match refused {
        Some(why) => format!("The text was not taken: {why}\n\n{how}"),
        None => how.to_owned(),
    }
}

/// The outcome of a decision, by the name reports give it.
pub(crate) const fn outcome(status: HandoffStatus) -> &'static str {
    match status {
        HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => "accepted",
        HandoffStatus::Declined => "declined",
        HandoffStatus::Previewed => "previewed",
        HandoffStatus::Requested | HandoffStatus::Drafting | HandoffStatus::AwaitingDecision => "pending",
        HandoffStatus::Failed => "failed",
        HandoffStatus::Expired => "expired",
    }
}
