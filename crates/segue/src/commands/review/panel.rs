//! The panel that stands above the question: how the handoff came to wait, what went wrong, the proposal, what it costs,
//! and what can still be done about it. It asks nothing.

use agent::{EXTRACTIVE, PendingHandoff};
use terminal::{one_line, summary, wrap};

use super::asked;
use super::choices::Asked;
use crate::commands::Context;
use crate::exit::Failure;

/// Shows the proposal.
///
/// # Errors
/// When stdout cannot be written to, or the journal fails.
pub(crate) async fn show(context: &Context, pending: &PendingHandoff) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.text_columns();
    for note in notes(pending) {
        screen.line(style.dim(wrap(&note, columns, "", "  ")))?;
    }
    if let Some(problem) = &pending.problem {
        screen.line(style.bad(wrap(&one_line(problem), columns, "", "  ")))?;
        screen.line(style.warn(wrap(&stands_in(pending), columns, "", "  ")))?;
    }
    screen.line("")?;
    screen.line(summary::proposal(screen, &pending.proposal, pending.uncovered_messages))?;
    let cost = summary::cost(screen, &context.agent.handoffs().cost(pending).await?);
    if !cost.is_empty() {
        screen.line(cost)?;
    }
    screen.line(style.dim(wrap(&refinements(pending), columns, "", "  ")))?;
    // Above a long proposal it would have scrolled away by the time the question stands there.
    if let Some(problem) = &pending.problem {
        screen.line(style.bad(wrap(&one_line(problem), columns, "", "  ")))?;
    }
    Ok(screen.line("")?)
}

/// How the handoff came to be asked about.
fn notes(pending: &PendingHandoff) -> Vec<String> {
    let mut notes = Vec::new();
    let asks = match asked(pending) {
        Asked::Person => None,
        Asked::Agent => Some("The agent asks to hand this thread over; nothing happens unless you accept."),
        Asked::AgentToPreview => Some(
            "The agent asks only for a preview: Preview changes nothing, and it goes on here. Accept hands this thread over \
             all the same.",
        ),
    };
    notes.extend(asks.map(str::to_owned));
    if !pending.is_new {
        let since = pending.handoff.created_at.strftime("%Y-%m-%d %H:%M UTC");
        notes.push(format!(
            "This handoff was asked for at {since} and still waits; it is shown again as it was."
        ));
    }
    notes.extend(pending.handoff.goal.as_ref().map(|goal| format!("Goal: {}", one_line(goal))));
    notes
}

/// What is shown in the place of a draft that failed.
fn stands_in(pending: &PendingHandoff) -> String {
    let is_extract = pending.proposal.summary_json.model == EXTRACTIVE;
    let shown = match pending.proposal.iteration {
        0 if is_extract => "Shown is the offline extract, which needs no model.",
        _ => "Shown is the last proposal, as it was.",
    };
    match &pending.unused_feedback {
        Some(feedback) => format!("{shown} Not worked in yet: {}", one_line(feedback)),
        None => shown.to_owned(),
    }
}

/// How often it can still be refined, and why not where it cannot.
fn refinements(pending: &PendingHandoff) -> String {
    let mut configs = pending.interrupt.payload.review_configs.iter();
    let is_capped = !configs.any(|config| config.allowed_decisions.iter().any(|allowed| allowed == "edit"));
    match pending.remaining_refinements {
        0 if is_capped => {
            "No refinement is left: accept, edit the text yourself, go back to an earlier draft or decline."
                .to_owned()
        }
        0 => "It cannot be refined: no model is configured. Edit the text yourself, or see `segue models`."
            .to_owned(),
        1 => "1 refinement is left.".to_owned(),
        count => format!("{count} refinements are left."),
    }
}
