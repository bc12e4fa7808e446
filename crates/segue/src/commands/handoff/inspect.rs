//! `segue handoff --list` and `--show`: the pending handoffs of all threads, and one handoff with its drafts. These
//! commands only read.

use agent::{HandoffReview, ListedHandoff};
use jiff::Timestamp;
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, SHORT_ID_CHARS, ThreadId};
use serde::Serialize;
use terminal::{TableColumn, sanitize_line, shorten, summary, table, wrap};

use crate::cli::OutputFormat;
use crate::commands::review::{self, FoldedLists};
use crate::commands::{CommandContext, threads};
use crate::exit::{CliFailure, ExitReason};

/// An entry of `--list --json`.
#[derive(Serialize)]
struct HandoffListEntry<'a> {
    /// The handoff.
    handoff_id: HandoffId,
    /// The thread that is handed off.
    thread_id: ThreadId,
    /// The name of that thread.
    thread_name: Option<&'a str>,
    /// The title of the newest draft.
    title: Option<&'a str>,
    /// The goal that the request named.
    goal: Option<&'a str>,
    /// The status: being drafted, or awaiting a decision.
    status: HandoffStatus,
    /// The iteration of the newest draft, from 0.
    iteration: u32,
    /// The time of the request.
    created_at: Timestamp,
    /// The time of the last change.
    updated_at: Timestamp,
    /// The seconds since the request.
    age_seconds: i64,
}

/// Lists the handoffs that are being drafted or await a decision, newest first.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(super) async fn list_handoffs(context: &CommandContext) -> Result<(), CliFailure> {
    let listed = context.agent.handoffs().undecided().await?;
    let now = Timestamp::now();
    if context.format == OutputFormat::Json {
        let entries: Vec<HandoffListEntry<'_>> = listed.iter().map(|entry| list_entry(entry, now)).collect();
        return context.print_json_with_names(&entries);
    }
    if listed.is_empty() {
        context.screen.print_line("No handoff is pending. `segue handoff THREAD` requests one.")?;
        return Ok(());
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let ids = threads::unique_prefixes(listed.iter().map(|entry| entry.handoff.handoff_id), SHORT_ID_CHARS);
    for (entry, id) in listed.iter().zip(ids) {
        let handoff = &entry.handoff;
        let name = entry.title.as_deref().or(entry.thread_name.as_deref()).unwrap_or("(untitled)");
        rows.push(vec![
            id,
            context.short_id(handoff.parent_thread_id).await,
            status_label(handoff.status).to_owned(),
            (handoff.iteration + 1).to_string(),
            threads::format_age(now, handoff.created_at),
            sanitize_line(&agent::redact(name)),
        ]);
    }
    let columns = [
        TableColumn::Left("ID"),
        TableColumn::Left("THREAD"),
        TableColumn::Left("STATE"),
        TableColumn::Right("DRAFT"),
        TableColumn::Left("REQUESTED"),
        TableColumn::Flexible("TITLE"),
    ];
    context.screen.print_lines(table(&context.screen, &columns, &rows))?;
    let hint = "`segue handoff --show ID` shows a handoff, `--decide ID` answers it.";
    context.screen.print_to_stderr(context.screen.style.dim(hint));
    Ok(())
}

/// Converts a handoff to an entry of the JSON output.
fn list_entry(listed: &ListedHandoff, now: Timestamp) -> HandoffListEntry<'_> {
    let handoff = &listed.handoff;
    HandoffListEntry {
        handoff_id: handoff.handoff_id,
        thread_id: handoff.parent_thread_id,
        thread_name: listed.thread_name.as_deref(),
        title: listed.title.as_deref(),
        goal: handoff.goal.as_deref(),
        status: handoff.status,
        iteration: handoff.iteration,
        created_at: handoff.created_at,
        updated_at: handoff.updated_at,
        age_seconds: now.duration_since(handoff.created_at).as_secs(),
    }
}

/// The output of `--show --json`.
#[derive(Serialize)]
struct HandoffDetail<'a> {
    /// The outcome that the status stands for.
    outcome: &'static str,
    /// The iteration that is pending, or was decided.
    current_iteration: u32,
    /// The handoff with all its proposals.
    #[serde(flatten)]
    review: &'a HandoffReview,
}

/// Shows a handoff with one of its drafts. `draft` is the number of the draft, from 1; `None` is the newest.
///
/// # Errors
/// Fails if there is no such handoff or draft.
pub(super) async fn show_handoff(
    context: &CommandContext,
    id: &str,
    draft: Option<u32>,
) -> Result<(), CliFailure> {
    let handoff = context.agent.handoffs().find(id).await?;
    let review = context.agent.handoffs().review(handoff.handoff_id).await?;
    let proposal = find_draft(&review, draft)?;
    if context.format == OutputFormat::Json {
        return context.print_json_with_names(&HandoffDetail {
            outcome: review.handoff.status.outcome(),
            current_iteration: review.handoff.iteration,
            review: &review,
        });
    }
    print_heading(context, &review.handoff).await?;
    let Some(proposal) = proposal else {
        context.screen.print_line("There is no draft yet.")?;
        return Ok(());
    };
    match &review.pending {
        Some(pending) if pending.proposal.iteration == proposal.iteration => {
            review::show_proposal(context, pending, FoldedLists::JsonOption).await?;
        }
        Some(_) | None => {
            let time = review.handoff.created_at.strftime("%Y-%m-%d %H:%M UTC");
            context.screen.print_line(context.screen.style.dim(format!("Requested at {time}.")))?;
            context.screen.print_line("")?;
            context.screen.print_line(summary::render_proposal(&context.screen, proposal))?;
            context.screen.print_line("")?;
        }
    }
    print_iterations(context, &review, proposal).await
}

/// Returns the proposal with the number `draft`, or the newest; `None` if there is no proposal yet.
///
/// # Errors
/// Fails if no proposal has this number.
fn find_draft(review: &HandoffReview, draft: Option<u32>) -> Result<Option<&Proposal>, CliFailure> {
    let Some(draft) = draft else { return Ok(review.proposals.last()) };
    let proposal = review.proposals.iter().find(|proposal| proposal.iteration.checked_add(1) == Some(draft));
    let newest = review.proposals.last().map(|proposal| proposal.iteration);
    match (proposal, newest) {
        (Some(proposal), _) => Ok(Some(proposal)),
        (None, newest) => {
            let problem = format!("find draft {draft} of handoff {}", review.handoff.handoff_id);
            Err(CliFailure::new(ExitReason::User, problem).with_hint(newest.map_or_else(
                || "there is no draft yet".to_owned(),
                |newest| format!("drafts 1 to {} exist; without `--draft` the newest is shown", newest + 1),
            )))
        }
    }
}

/// Prints the id of a handoff, its thread and status, and its note.
async fn print_heading(context: &CommandContext, handoff: &Handoff) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let thread = context.short_id(handoff.parent_thread_id).await;
    screen.print_line(shorten(&format!("Handoff {}", handoff.handoff_id), screen.columns))?;
    let mut description = format!("of thread {thread} · {}", status_label(handoff.status));
    if matches!(handoff.status, HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned) {
        description.push_str(&format!(", thread {}", context.short_id(handoff.child_thread_id).await));
    }
    screen.print_line(style.dim(wrap(&description, screen.text_columns(), "", "  ")))?;
    if let Some(note) = &handoff.note {
        screen.print_line(style.dim(wrap(
            &format!("note: {}", sanitize_line(note)),
            screen.text_columns(),
            "",
            "  ",
        )))?;
    }
    Ok(())
}

/// Lists the drafts, if there are several, with a mark at the draft that is shown; and prints the command that decides
/// a pending handoff.
async fn print_iterations(
    context: &CommandContext,
    review: &HandoffReview,
    shown: &Proposal,
) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let id = durable_handoff_id(context, review.handoff.handoff_id).await;
    if review.proposals.len() > 1 {
        for proposal in &review.proposals {
            let mark = if proposal.iteration == shown.iteration { "▸" } else { " " };
            let current = if proposal.iteration == review.handoff.iteration { " (current)" } else { "" };
            let origin = review::draft_origin(&review.proposals, proposal);
            let line = format!("{mark} draft {}{current}  {origin}", proposal.iteration + 1);
            screen.print_line(style.dim(shorten(&line, screen.columns)))?;
        }
        let hint = format!("`segue handoff --show {id} --draft N` shows another draft.");
        screen.print_line(style.dim(wrap(&hint, screen.text_columns(), "", "")))?;
    }
    if review.pending.is_some() {
        screen.print_line(format!("Decide with: {}", style.code(format!("segue handoff --decide {id}"))))?;
    }
    Ok(())
}

/// Returns the label of a handoff's status for text output.
const fn status_label(status: HandoffStatus) -> &'static str {
    match status {
        HandoffStatus::Requested | HandoffStatus::Drafting => "drafting",
        HandoffStatus::AwaitingDecision => "pending",
        HandoffStatus::Accepted
        | HandoffStatus::Seeded
        | HandoffStatus::Cleaned
        | HandoffStatus::Declined
        | HandoffStatus::Previewed
        | HandoffStatus::Failed
        | HandoffStatus::Expired => status.outcome(),
    }
}

/// Returns a prefix of the id that still identifies the handoff when more handoffs exist, for commands that the user
/// runs later. Falls back to the whole id if the prefix is ambiguous.
pub(crate) async fn durable_handoff_id(context: &CommandContext, handoff_id: HandoffId) -> String {
    let full = handoff_id.to_string();
    let prefix = &full[..crate::commands::DURABLE_ID_CHARS];
    if context.agent.handoffs().find(prefix).await.is_ok() { prefix.to_owned() } else { full }
}
