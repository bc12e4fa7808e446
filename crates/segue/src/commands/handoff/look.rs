//! Looking at handoffs: those that wait in all threads, and one with everything that was proposed. Nothing is decided
//! here.

use agent::{HandoffReview, ListedHandoff};
use jiff::Timestamp;
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, ThreadId};
use serde::Serialize;
use terminal::{Column, one_line, shorten, summary, table, wrap};

use crate::cli::Format;
use crate::commands::{Context, review, threads};
use crate::exit::{Code, Failure};

/// Characters of an id that are shown at least: all of its time, so that those that are not listed do not begin so too.
const ID_CHARS_MIN: usize = 13;

/// What `--list --json` prints of each.
#[derive(Serialize)]
struct Listed<'a> {
    handoff_id: HandoffId,
    thread_id: ThreadId,
    thread_name: Option<&'a str>,
    title: Option<&'a str>,
    goal: Option<&'a str>,
    status: HandoffStatus,
    iteration: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Since it was asked for.
    age_seconds: i64,
}

/// Lists the handoffs that are being drafted or wait for a decision, newest first.
pub(super) async fn list(context: &Context) -> Result<(), Failure> {
    let open = context.agent.handoffs().undecided().await?;
    let now = Timestamp::now();
    if context.format == Format::Json {
        let listed: Vec<Listed<'_>> = open.iter().map(|one| listed(one, now)).collect();
        return context.json(&listed);
    }
    if open.is_empty() {
        context.screen.line("No handoff waits. `segue handoff THREAD` begins one.")?;
        return Ok(());
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let ids = threads::beginnings(open.iter().map(|one| one.handoff.handoff_id), ID_CHARS_MIN);
    for (one, id) in open.iter().zip(ids) {
        let handoff = &one.handoff;
        let name = one.title.as_deref().or(one.thread_name.as_deref()).unwrap_or("(untitled)");
        rows.push(vec![
            id,
            context.short_id(handoff.parent_thread_id).await,
            state(handoff.status).to_owned(),
            (handoff.iteration + 1).to_string(),
            threads::ago(now, handoff.created_at),
            one_line(name),
        ]);
    }
    let columns = [
        Column::Left("ID"),
        Column::Left("THREAD"),
        Column::Left("STATE"),
        Column::Right("DRAFT"),
        Column::Left("ASKED FOR"),
        Column::Flexible("TITLE"),
    ];
    context.screen.lines(table(&context.screen, &columns, &rows))?;
    let how = "`segue handoff --show ID` shows one, `--decide ID` answers it.";
    context.screen.note(context.screen.style.dim(how));
    Ok(())
}

fn listed(one: &ListedHandoff, now: Timestamp) -> Listed<'_> {
    let handoff = &one.handoff;
    Listed {
        handoff_id: handoff.handoff_id,
        thread_id: handoff.parent_thread_id,
        thread_name: one.thread_name.as_deref(),
        title: one.title.as_deref(),
        goal: handoff.goal.as_deref(),
        status: handoff.status,
        iteration: handoff.iteration,
        created_at: handoff.created_at,
        updated_at: handoff.updated_at,
        age_seconds: now.duration_since(handoff.created_at).as_secs(),
    }
}

/// What `--show --json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    outcome: &'static str,
    /// The iteration that is to be decided, or was.
    current_iteration: u32,
    #[serde(flatten)]
    review: &'a HandoffReview,
}

/// Shows the handoff with its proposals; `draft`, counted from 1, names another one than the newest.
pub(super) async fn show(context: &Context, id: &str, draft: Option<u32>) -> Result<(), Failure> {
    let found = context.agent.handoffs().find(id).await?;
    let shown = context.agent.handoffs().review(found.handoff_id).await?;
    let proposal = chosen(&shown, draft)?;
    if context.format == Format::Json {
        return context.json(&Shown {
            outcome: shown.handoff.status.outcome(),
            current_iteration: shown.handoff.iteration,
            review: &shown,
        });
    }
    head(context, &shown.handoff).await?;
    let Some(proposal) = proposal else {
        context.screen.line("There is no draft yet.")?;
        return Ok(());
    };
    match &shown.pending {
        Some(pending) if pending.proposal.iteration == proposal.iteration => {
            review::show(context, pending).await?;
        }
        Some(_) | None => {
            let since = shown.handoff.created_at.strftime("%Y-%m-%d %H:%M UTC");
            context.screen.line(context.screen.style.dim(format!("Asked for at {since}.")))?;
            context.screen.line("")?;
            context.screen.line(summary::proposal(&context.screen, proposal, 0))?;
            context.screen.line("")?;
        }
    }
    iterations(context, &shown, proposal).await
}

/// Returns the proposal that is asked for; `None` while there is none.
fn chosen(shown: &HandoffReview, draft: Option<u32>) -> Result<Option<&Proposal>, Failure> {
    let Some(draft) = draft else { return Ok(shown.proposals.last()) };
    let found = shown.proposals.iter().find(|proposal| proposal.iteration.checked_add(1) == Some(draft));
    let newest = shown.proposals.last().map(|proposal| proposal.iteration);
    match (found, newest) {
        (Some(found), _) => Ok(Some(found)),
        (None, newest) => {
            let what = format!("find draft {draft} of handoff {}", shown.handoff.handoff_id);
            Err(Failure::new(Code::User, what).with_hint(newest.map_or_else(
                || "there is no draft yet".to_owned(),
                |newest| format!("there are 1 to {}; without `--draft` the newest is shown", newest + 1),
            )))
        }
    }
}

/// Says which handoff it is and how it stands.
async fn head(context: &Context, handoff: &Handoff) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let thread = context.short_id(handoff.parent_thread_id).await;
    screen.line(shorten(&format!("Handoff {}", handoff.handoff_id), screen.columns))?;
    let mut about = format!("of thread {thread} · {}", state(handoff.status));
    if matches!(handoff.status, HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned) {
        about.push_str(&format!(", thread {}", context.short_id(handoff.child_thread_id).await));
    }
    screen.line(style.dim(wrap(&about, screen.text_columns(), "", "  ")))?;
    if let Some(note) = &handoff.note {
        screen.line(style.dim(wrap(
            &format!("note: {}", one_line(note)),
            screen.text_columns(),
            "",
            "  ",
        )))?;
    }
    Ok(())
}

/// Says what there is beside the proposal that is shown.
async fn iterations(context: &Context, shown: &HandoffReview, proposal: &Proposal) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let id = id_to_keep(context, shown.handoff.handoff_id).await;
    if shown.proposals.len() > 1 {
        for other in &shown.proposals {
            let mark = if other.iteration == proposal.iteration { "▸" } else { " " };
            let current = if other.iteration == shown.handoff.iteration { " (the current one)" } else { "" };
            let how = review::came_about(&shown.proposals, other);
            let line = format!("{mark} draft {}{current}  {how}", other.iteration + 1);
            screen.line(style.dim(shorten(&line, screen.columns)))?;
        }
        let others = format!("`segue handoff --show {id} --draft N` shows another one.");
        screen.line(style.dim(wrap(&others, screen.text_columns(), "", "")))?;
    }
    if shown.pending.is_some() {
        screen.line(format!("Decide with: {}", style.code(format!("segue handoff --decide {id}"))))?;
    }
    Ok(())
}

/// Returns how a handoff stands, in a word or two.
const fn state(status: HandoffStatus) -> &'static str {
    match status {
        HandoffStatus::Requested | HandoffStatus::Drafting => "drafting",
        HandoffStatus::AwaitingDecision => "waits",
        HandoffStatus::Accepted
        | HandoffStatus::Seeded
        | HandoffStatus::Cleaned
        | HandoffStatus::Declined
        | HandoffStatus::Previewed
        | HandoffStatus::Failed
        | HandoffStatus::Expired => status.outcome(),
    }
}

/// Returns a beginning of the id that a person may come back with later, when there are more handoffs.
pub(crate) async fn id_to_keep(context: &Context, handoff_id: HandoffId) -> String {
    let full = handoff_id.to_string();
    let lasting = &full[..crate::commands::LASTING_ID];
    if context.agent.handoffs().find(lasting).await.is_ok() { lasting.to_owned() } else { full }
}
