//! Handoffs as clients see them: the row, its proposals with what changed between them, and what is to be decided. The
//! id an assistant is stored under does not leave the process; its name does.

use agent::{Decided, HandoffCost, HandoffReview, ListedHandoff, PendingHandoff, coverage_counts};
use jiff::Timestamp;
use langgraph::Interrupt;
use protocol::{Handoff, HandoffId, HandoffStatus, HandoffSummary, Proposal, RunId, ThreadId};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;
use utoipa::ToSchema;

/// Lines around a change that a diff between two proposals shows.
const DIFF_CONTEXT_LINES: usize = 2;

/// A handoff: a reviewed passage from a parent thread to a new child thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffShape {
    /// The handoff's id, the same through all iterations.
    #[schema(value_type = String, format = Uuid)]
    handoff_id: HandoffId,
    /// The assistant's name.
    assistant_id: String,
    /// The thread that is handed off.
    #[schema(value_type = String, format = Uuid)]
    parent_thread_id: ThreadId,
    /// The thread that goes on with it; `null` unless it was accepted.
    #[schema(value_type = Option<String>, format = Uuid)]
    child_thread_id: Option<ThreadId>,
    /// `requested`, `drafting`, `awaiting_decision`, `accepted`, `seeded`, `cleaned`, `declined`, `previewed`, `failed` or `expired`.
    status: &'static str,
    /// The same in one word: `pending`, `accepted`, `declined`, `previewed`, `failed` or `expired`.
    outcome: &'static str,
    /// The newest proposal, counted from 0.
    iteration: u32,
    /// What the next thread is for.
    goal: Option<String>,
    /// `user`, or `agent` when its tool asked.
    initiated_by: &'static str,
    /// Whether it only shows the summary.
    preview_only: bool,
    /// Only the newest messages are covered, this many.
    messages: Option<u64>,
    /// The hash of what was accepted.
    accepted_sha256: Option<String>,
    /// Why it stands as it does.
    note: Option<String>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<Handoff> for HandoffShape {
    fn from(handoff: Handoff) -> Self {
        let option = |key: &str| handoff.options.get(key);
        let by_agent = option("tool_call_id").is_some_and(|id| !id.is_null());
        Self {
            handoff_id: handoff.handoff_id,
            assistant_id: handoff.assistant_id.name().to_owned(),
            parent_thread_id: handoff.parent_thread_id,
            child_thread_id: is_accepted(handoff.status).then_some(handoff.child_thread_id),
            status: handoff.status.as_str(),
            outcome: handoff.status.outcome(),
            iteration: handoff.iteration,
            initiated_by: if by_agent { "agent" } else { "user" },
            preview_only: option("preview_only").and_then(Value::as_bool).unwrap_or_default(),
            messages: option("messages").and_then(Value::as_u64),
            goal: handoff.goal,
            accepted_sha256: handoff.accepted_sha256,
            note: handoff.note,
            created_at: handoff.created_at,
            updated_at: handoff.updated_at,
        }
    }
}

const fn is_accepted(status: HandoffStatus) -> bool {
    match status {
        HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned => true,
        HandoffStatus::Requested
        | HandoffStatus::Drafting
        | HandoffStatus::AwaitingDecision
        | HandoffStatus::Declined
        | HandoffStatus::Previewed
        | HandoffStatus::Failed
        | HandoffStatus::Expired => false,
    }
}

/// A handoff in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedShape {
    #[serde(flatten)]
    handoff: HandoffShape,
    /// The title of its newest proposal; `null` while the first is drafted.
    title: Option<String>,
    /// What its thread is called, or how it begins.
    thread_name: Option<String>,
}

impl From<ListedHandoff> for ListedShape {
    fn from(listed: ListedHandoff) -> Self {
        Self { handoff: listed.handoff.into(), title: listed.title, thread_name: listed.thread_name }
    }
}

/// Handoffs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffList {
    /// The handoffs.
    pub(crate) handoffs: Vec<ListedShape>,
}

/// A proposed summary.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProposalShape {
    /// Counted from 0.
    iteration: u32,
    /// The summary, as contract §4 has it.
    #[schema(value_type = Object)]
    summary_json: HandoffSummary,
    /// The summary as Markdown: what is accepted, stored and given to the child thread.
    summary_md: String,
    /// SHA-256 of `summary_md`, in hex; name it in a decision to accept no other text.
    summary_sha256: String,
    /// The feedback it was made after.
    feedback: Option<String>,
    /// How many messages of the parent it covers, and how.
    coverage: CoverageShape,
    /// The items that name something the covered messages do not contain.
    unverified: Vec<UnverifiedShape>,
    /// What changed from the proposal before it, as a unified diff of `summary_md`; `null` for the first.
    diff: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// How many messages a summary covers: `verbatim + summarized + truncated + excluded` is all of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CoverageShape {
    /// Messages of the thread.
    messages: u64,
    /// Those whose text reached the summariser whole.
    verbatim: u64,
    /// Those that reached it condensed.
    summarized: u64,
    /// Those that reached it shortened.
    truncated: u64,
    /// Those that did not reach it.
    excluded: u64,
}

/// An item of a summary that could not be verified.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnverifiedShape {
    /// Its place in the summary's body, from 0.
    index: usize,
    /// The item.
    text: String,
    /// What it names that the covered messages do not contain.
    unfound: Vec<String>,
}

impl ProposalShape {
    /// Returns a proposal as clients see it, compared with the one before it.
    pub(crate) fn new(mut proposal: Proposal, before: Option<&str>) -> Self {
        let counts = coverage_counts(&proposal.summary_json.coverage);
        proposal.summary_json.assistant_id = proposal.summary_json.assistant_id.owned_by(None);
        let body = proposal.summary_json.body.iter().enumerate();
        let unverified = body.filter(|(_, item)| !item.verified).map(|(index, item)| UnverifiedShape {
            index,
            text: item.text.clone(),
            unfound: item.unfound.clone(),
        });
        Self {
            iteration: proposal.iteration,
            unverified: unverified.collect(),
            coverage: CoverageShape {
                messages: counts.messages,
                verbatim: counts.verbatim,
                summarized: counts.summarized,
                truncated: counts.truncated,
                excluded: counts.excluded,
            },
            diff: before.map(|before| diff(before, &proposal.summary_md)),
            summary_json: proposal.summary_json,
            summary_md: proposal.summary_md,
            summary_sha256: proposal.summary_sha256,
            feedback: proposal.feedback,
            created_at: proposal.created_at,
        }
    }
}

fn diff(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(DIFF_CONTEXT_LINES).to_string()
}

/// A handoff that waits: what to show, and what may be answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PendingShape {
    /// The handoff.
    handoff: HandoffShape,
    /// The question, as it stands in the thread's state and stream.
    interrupt: Interrupt,
    /// The newest proposal.
    proposal: ProposalShape,
    /// What may be answered: `approve`, `edit`, `reject`, `preview`.
    allowed_decisions: Vec<String>,
    /// Messages of the parent that came after what the summary covers.
    uncovered_messages: u64,
    /// Refinements that are still possible.
    remaining_refinements: u32,
    /// What was wrong with the newest draft, in one line: what is shown stands in for it.
    problem: Option<String>,
    /// The feedback that was not worked in then.
    unused_feedback: Option<String>,
    /// Whether this request had it drafted; `false` when it waited already and is shown again.
    is_new: bool,
    /// What it costs, as far as that can be told.
    cost: CostShape,
}

/// What a handoff costs, and what going on would: tokens, and dollars where prices are known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CostShape {
    /// Tokens that the draft took; 0 for an extract.
    draft_tokens: u64,
    /// Their price.
    draft_dollars: Option<f64>,
    /// Input tokens of the child's first request.
    first_turn_tokens: Option<u64>,
    /// Their price.
    first_turn_dollars: Option<f64>,
    /// Input tokens of the parent's next request.
    continuing_tokens: Option<u64>,
    /// Their price.
    continuing_dollars: Option<f64>,
}

impl From<HandoffCost> for CostShape {
    fn from(cost: HandoffCost) -> Self {
        Self {
            draft_tokens: cost.draft_tokens,
            draft_dollars: cost.draft_dollars,
            first_turn_tokens: cost.first_turn_tokens,
            first_turn_dollars: cost.first_turn_dollars,
            continuing_tokens: cost.continuing_tokens,
            continuing_dollars: cost.continuing_dollars,
        }
    }
}

impl PendingShape {
    /// Returns what waits as clients see it.
    pub(crate) fn new(pending: PendingHandoff, cost: HandoffCost) -> Self {
        let configs = &pending.interrupt.payload.review_configs;
        let allowed = configs.iter().flat_map(|config| config.allowed_decisions.iter().cloned());
        Self {
            handoff: pending.handoff.into(),
            allowed_decisions: allowed.collect(),
            interrupt: Interrupt::from(&pending.interrupt),
            proposal: ProposalShape::new(pending.proposal, None),
            uncovered_messages: pending.uncovered_messages,
            remaining_refinements: pending.remaining_refinements,
            problem: pending.problem,
            unused_feedback: pending.unused_feedback,
            is_new: pending.is_new,
            cost: cost.into(),
        }
    }
}

/// A handoff with everything that was proposed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReviewShape {
    /// The handoff.
    handoff: HandoffShape,
    /// Its proposals, in order of iteration.
    proposals: Vec<ProposalShape>,
    /// What is to be decided; `null` unless it waits.
    pending: Option<PendingShape>,
}

impl ReviewShape {
    /// Returns a handoff as clients see it; `cost` is that of what waits.
    pub(crate) fn new(review: HandoffReview, cost: HandoffCost) -> Self {
        let mut before: Option<String> = None;
        let proposals = review.proposals.into_iter().map(|proposal| {
            let text = proposal.summary_md.clone();
            ProposalShape::new(proposal, before.replace(text).as_deref())
        });
        Self {
            proposals: proposals.collect(),
            handoff: review.handoff.into(),
            pending: review.pending.map(|pending| PendingShape::new(pending, cost)),
        }
    }
}

/// What a decision led to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecidedShape {
    /// `accepted`, `declined`, `previewed`, or `pending` when there is another proposal.
    outcome: &'static str,
    /// The thread that goes on; `null` unless it was accepted.
    #[schema(value_type = Option<String>, format = Uuid)]
    child_thread_id: Option<ThreadId>,
    /// The handoff as it stands.
    handoff: HandoffShape,
    /// The proposal that was decided about, or the next one.
    proposal: ProposalShape,
    /// The next proposal, when the decision asked for one.
    next: Option<PendingShape>,
    /// The run that took the decision.
    run: DecidingRun,
}

/// The run that took a decision; of a handoff the agent asked for, that is the rest of its turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecidingRun {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// How it ended, as `last_run` of the thread has it: `interrupted` when it asks the next question.
    status: &'static str,
    /// Why it failed.
    error: Option<String>,
    /// What it asks.
    interrupts: Vec<Interrupt>,
}

impl DecidedShape {
    /// Returns what a decision led to; `cost` is that of the next proposal.
    pub(crate) fn new(decided: Decided, cost: HandoffCost) -> Self {
        Self {
            outcome: decided.handoff.status.outcome(),
            child_thread_id: decided.child_thread_id,
            run: DecidingRun {
                run_id: decided.end.run_id,
                status: decided.end.status.as_str(),
                error: decided.end.failure.map(|failure| failure.message),
                interrupts: decided.end.interrupts.iter().map(Interrupt::from).collect(),
            },
            handoff: decided.handoff.into(),
            proposal: ProposalShape::new(decided.proposal, None),
            next: decided.next.map(|next| PendingShape::new(next, cost)),
        }
    }
}
