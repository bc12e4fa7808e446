//! The panel above the question of a review: the requester of the handoff, the reason why a draft failed, the proposal,
//! its cost, and the remaining refinements. It asks nothing.

use agent::{OFFLINE_SUMMARY_MODEL, PendingHandoff};
use serde_json::Value;
use terminal::{facts, sanitize_line, summary, wrap};

use super::choices::HandoffRequester;
use super::requester;
use crate::commands::CommandContext;
use crate::exit::CliFailure;

/// The way to the whole of the lists that a panel folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldedLists {
    /// A review follows, whose key `l` lists all.
    ReviewKey,
    /// The command prints all with `--json`.
    JsonOption,
    /// There is no other way here.
    OnlyFolded,
}

/// Prints the panel of a pending handoff. `lists` is named if it folds a list.
///
/// # Errors
/// Fails if stdout cannot be written or the journal cannot be read.
pub(crate) async fn show_proposal(
    context: &CommandContext,
    pending: &PendingHandoff,
    lists: FoldedLists,
) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.text_columns();
    for note in request_notes(pending) {
        screen.print_line(style.dim(wrap(&note, columns, "", "  ")))?;
    }
    if let Some(problem) = &pending.problem {
        screen.print_line(style.bad(wrap(&sanitize_line(problem), columns, "", "  ")))?;
        screen.print_line(style.warn(wrap(&fallback_note(pending), columns, "", "  ")))?;
    }
    screen.print_line("")?;
    screen.print_line(summary::render_proposal(screen, &pending.proposal))?;
    if let Some(note) = outdated_note(pending.uncovered_messages) {
        screen.print_line(style.warn(wrap(&note, columns, "", "  ")))?;
    }
    if facts::is_any_folded(screen, &pending.proposal) {
        let way = match lists {
            FoldedLists::ReviewKey => " `l` lists all.",
            FoldedLists::JsonOption => " `--json` prints all.",
            FoldedLists::OnlyFolded => "",
        };
        let note = format!("Long lists are folded here; the new thread reads every line of them.{way}");
        screen.print_line(style.dim(wrap(&note, columns, "", "  ")))?;
    }
    let cost = summary::render_cost(screen, &context.agent.handoffs().cost(pending).await?);
    if !cost.is_empty() {
        screen.print_line(cost)?;
    }
    screen.print_line(style.dim(wrap(&refinements_note(pending), columns, "", "  ")))?;
    // The problem is printed again below the proposal: a long proposal scrolls the first print off the screen.
    if let Some(problem) = &pending.problem {
        screen.print_line(style.bad(wrap(&sanitize_line(problem), columns, "", "  ")))?;
    }
    Ok(screen.print_line("")?)
}

/// Returns notes about the request: that the agent requested the handoff, that it was already pending, and its goal.
fn request_notes(pending: &PendingHandoff) -> Vec<String> {
    let mut notes = Vec::new();
    let request = match requester(pending) {
        HandoffRequester::Person => None,
        HandoffRequester::Agent => {
            Some("The agent requests a handoff of this thread. Nothing happens unless you accept.")
        }
        HandoffRequester::AgentForPreview => Some(
            "The agent requests only a preview: Preview creates no thread, and the agent continues here. Accept hands this \
             thread off.",
        ),
    };
    notes.extend(request.map(str::to_owned));
    if !pending.is_new {
        let time = pending.handoff.created_at.strftime("%Y-%m-%d %H:%M UTC");
        notes.push(match pending.proposal.iteration {
            0 => {
                format!("This handoff was requested at {time} and is still pending, with the same proposal.")
            }
            draft => format!(
                "This handoff was requested at {time} and is still pending. Its newest draft is number {}.",
                draft + 1
            ),
        });
    }
    if let Some(into) = pending.handoff.options.get("into").and_then(Value::as_str) {
        notes.push(format!("Accepting adds this summary to thread {into}; no new thread is created."));
    }
    notes.extend(pending.handoff.goal.as_ref().map(|goal| format!("Goal: {}", sanitize_line(goal))));
    notes
}

/// Returns a note about the proposal that replaces a failed draft, and the feedback that was not used.
fn fallback_note(pending: &PendingHandoff) -> String {
    let is_offline_summary = pending.proposal.summary_json.model == OFFLINE_SUMMARY_MODEL;
    let replacement = match pending.proposal.iteration {
        0 if is_offline_summary => "The offline summary is shown, which needs no model.",
        _ => "The last proposal is shown, unchanged.",
    };
    match &pending.unused_feedback {
        Some(feedback) => {
            format!("{replacement} Your feedback was not used yet: {}", sanitize_line(feedback))
        }
        None => replacement.to_owned(),
    }
}

/// Returns the note on messages that the proposal does not cover, with the key that drafts again; `None` if it covers all.
fn outdated_note(uncovered_messages: u64) -> Option<String> {
    match uncovered_messages {
        0 => None,
        1 => Some("1 newer message is not covered: `n` redrafts with it.".to_owned()),
        count => Some(format!("{count} newer messages are not covered: `n` redrafts with them.")),
    }
}

/// Returns the number of remaining refinements; if no refinement remains, the reason and the alternatives.
/// The interrupt does not allow `edit` if the limit of refinements is reached. If it allows `edit` and no refinement
/// remains, no model drafts handoffs.
fn refinements_note(pending: &PendingHandoff) -> String {
    let mut configs = pending.interrupt.payload.review_configs.iter();
    let is_capped = !configs.any(|config| config.allowed_decisions.iter().any(|allowed| allowed == "edit"));
    match pending.remaining_refinements {
        0 if is_capped => {
            "No refinement remains: accept, edit the text yourself, return to an earlier draft, or decline."
                .to_owned()
        }
        0 => "Refining needs a model that drafts handoffs: see `segue models` and `handoff.model`. Or edit the text yourself."
            .to_owned(),
        1 => "1 refinement remains.".to_owned(),
        count => format!("{count} refinements remain."),
    }
}
