//! The JSON shapes of handoffs: the row, its proposals with their differences, and the pending decision. They contain
//! the assistant's name, but not the id under which it is stored, because that contains the owner.

use agent::{
    HandoffCost, HandoffOutcome, HandoffReview, ListedHandoff, PartsEstimate, PendingHandoff, count_coverage,
    count_message_uses,
};
use jiff::Timestamp;
use langgraph::Interrupt;
use protocol::{Handoff, HandoffId, HandoffStatus, HandoffSummary, Proposal, RunId, ThreadId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::threads::shapes::redacted;

/// Lines of context around each change in the diff of two proposals.
const DIFF_CONTEXT_LINES: usize = 2;

/// A handoff: a reviewed summary that starts a new child thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffShape {
    /// The handoff's id, the same through all iterations.
    #[schema(value_type = String, format = Uuid)]
    handoff_id: HandoffId,
    /// The assistant's name.
    assistant_id: String,
    /// The parent thread.
    #[schema(value_type = String, format = Uuid)]
    parent_thread_id: ThreadId,
    /// The child thread; `null` unless the handoff was accepted.
    #[schema(value_type = Option<String>, format = Uuid)]
    child_thread_id: Option<ThreadId>,
    /// `requested`, `drafting`, `awaiting_decision`, `accepted`, `seeded`, `cleaned`, `declined`, `previewed`, `failed`
    /// or `expired`.
    status: &'static str,
    /// The outcome of `status`: `pending`, `accepted`, `declined`, `previewed`, `failed` or `expired`.
    outcome: &'static str,
    /// The iteration of the newest proposal, from 0.
    iteration: u32,
    /// The goal of the new thread.
    goal: Option<String>,
    /// `user`, or `agent` if the agent's tool requested it.
    initiated_by: &'static str,
    /// True if the handoff only shows the summary.
    preview_only: bool,
    /// The thread to which an acceptance adds the summary; `null` if it creates one.
    #[schema(value_type = Option<String>, format = Uuid)]
    into: Option<String>,
    /// Number of the newest messages that are covered, if the handoff is limited to them.
    messages: Option<u64>,
    /// The SHA-256 of the accepted summary, in hex.
    accepted_sha256: Option<String>,
    /// A note on the status, such as the reason of a failure.
    note: Option<String>,
    /// When the handoff was requested.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the handoff last changed.
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
            into: option("into").and_then(Value::as_str).map(str::to_owned),
            messages: option("messages").and_then(Value::as_u64),
            goal: handoff.goal,
            accepted_sha256: handoff.accepted_sha256,
            note: handoff.note,
            created_at: handoff.created_at,
            updated_at: handoff.updated_at,
        }
    }
}

/// Returns whether the status follows from an acceptance, so that the child thread exists.
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
pub(crate) struct HandoffListItem {
    #[serde(flatten)]
    handoff: HandoffShape,
    /// The title of the newest proposal; `null` while the first one is being drafted.
    title: Option<String>,
    /// The name of the parent thread, or the beginning of its first message.
    thread_name: Option<String>,
}

impl From<ListedHandoff> for HandoffListItem {
    fn from(listed: ListedHandoff) -> Self {
        let thread_name = redacted(listed.thread_name.as_deref());
        Self { handoff: listed.handoff.into(), title: listed.title, thread_name }
    }
}

/// A list of handoffs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffList {
    /// The handoffs.
    pub(crate) handoffs: Vec<HandoffListItem>,
}

/// A proposed summary.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProposalShape {
    /// The iteration, from 0.
    iteration: u32,
    /// The summary, as specified in contract §4.
    #[schema(value_type = Object)]
    summary_json: HandoffSummary,
    /// The package as Markdown. This text is accepted, stored and given to the child thread.
    package_md: String,
    /// The text of `package_md`, under its name of version 1.
    summary_md: String,
    /// The SHA-256 of `package_md`, in hex. A decision that names it accepts exactly this text.
    summary_sha256: String,
    /// The feedback that led to this proposal.
    feedback: Option<String>,
    /// How the summary covers the messages of the parent thread.
    coverage: CoverageShape,
    /// Items that contain identifiers which do not occur in the covered messages.
    unverified: Vec<UnverifiedItemShape>,
    /// A unified diff of `package_md` against the previous proposal; `null` for the first one.
    diff: Option<String>,
    /// When the proposal was stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// How a summary covers the messages: `verbatim + summarized + truncated + excluded` is the number of all messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CoverageShape {
    /// Number of messages in the thread.
    messages: u64,
    /// Messages whose whole text was sent to the summarizer.
    verbatim: u64,
    /// Messages that were sent to the summarizer as summaries.
    summarized: u64,
    /// Messages that were sent to the summarizer shortened.
    truncated: u64,
    /// Messages that were not sent to the summarizer.
    excluded: u64,
    /// The use of the messages in the text; `null` for a summary of an earlier version. These counts add up to the
    /// number of messages, too.
    uses: Option<MessageUsesShape>,
}

/// The use of the messages in the text of a summary.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageUsesShape {
    /// Messages of which the text contains words.
    quoted: u64,
    /// Messages to which an item or a fact refers.
    represented: u64,
    /// Messages that the drafting model received, and of which nothing is in the text.
    read: u64,
    /// Messages from which only facts were extracted, without a model.
    scanned: u64,
    /// Messages that nothing has read.
    unread: u64,
}

/// An item of a summary that could not be verified against the covered messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnverifiedItemShape {
    /// The index of the item in the summary's body, from 0.
    index: usize,
    /// The text of the item.
    text: String,
    /// Identifiers in the item that do not occur in the covered messages.
    unfound: Vec<String>,
}

impl ProposalShape {
    /// Returns the shape of a proposal; `before` is the Markdown of the previous one.
    pub(crate) fn new(mut proposal: Proposal, previous: Option<&str>) -> Self {
        let counts = count_coverage(&proposal.summary_json.coverage);
        proposal.summary_json.assistant_id = proposal.summary_json.assistant_id.with_owner(None);
        let body = proposal.summary_json.body.iter().enumerate();
        let unverified = body.filter(|(_, item)| !item.verified).map(|(index, item)| UnverifiedItemShape {
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
                uses: count_message_uses(&proposal.summary_json.coverage).map(|uses| MessageUsesShape {
                    quoted: uses.quoted,
                    represented: uses.represented,
                    read: uses.read,
                    scanned: uses.scanned,
                    unread: uses.unread,
                }),
            },
            diff: previous.map(|previous| unified_diff(previous, &proposal.package_md)),
            summary_json: proposal.summary_json,
            summary_md: proposal.package_md.clone(),
            package_md: proposal.package_md,
            summary_sha256: proposal.summary_sha256,
            feedback: proposal.feedback,
            created_at: proposal.created_at,
        }
    }
}

/// Returns the unified diff of two texts. The line break at the end of a text is no difference.
fn unified_diff(previous: &str, after: &str) -> String {
    let [previous, after] = [previous, after].map(|text| format!("{}\n", text.trim_end_matches('\n')));
    text_diff::unified_diff(&previous, &after, DIFF_CONTEXT_LINES, None)
}

/// A pending handoff: the proposal to show and the possible decisions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PendingHandoffShape {
    /// The handoff.
    handoff: HandoffShape,
    /// The question, in the form it has in the thread's state and stream.
    interrupt: Interrupt,
    /// The newest proposal.
    proposal: ProposalShape,
    /// The possible decisions: `approve`, `edit`, `reject`, `preview`.
    allowed_decisions: Vec<String>,
    /// Number of messages in the parent thread that are newer than the summary.
    uncovered_messages: u64,
    /// Number of refinements that are still possible.
    remaining_refinements: u32,
    /// The problem with the newest draft, in one line. The shown proposal replaces it.
    problem: Option<String>,
    /// The feedback that the replaced draft was to include.
    unused_feedback: Option<String>,
    /// True if this request drafted the proposal; `false` if it was pending already.
    is_new: bool,
    /// The cost of the handoff, as far as it is known.
    cost: HandoffCostShape,
}

/// The cost of a handoff compared with continuing the parent thread, in tokens, and in dollars if prices are known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffCostShape {
    /// Tokens used by the draft and by the summaries of parts for it; 0 for an offline summary.
    draft_tokens: u64,
    /// The price of the draft.
    draft_dollars: Option<f64>,
    /// Input tokens of the child thread's first request.
    first_turn_tokens: Option<u64>,
    /// The price of that request.
    first_turn_dollars: Option<f64>,
    /// Input tokens of the parent thread's next request.
    continuing_tokens: Option<u64>,
    /// The price of that request.
    continuing_dollars: Option<f64>,
}

impl From<HandoffCost> for HandoffCostShape {
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

/// The model calls that summarize the parts of a long conversation before its draft.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartsEstimateShape {
    /// The number of calls; 0 if the conversation fits into the call that drafts, or its parts are summarized already.
    calls: u64,
    /// The approximate input of one call, in tokens.
    tokens_per_call: u64,
    /// The approximate price of all calls in US dollars; `null` if it is unknown.
    dollars: Option<f64>,
    /// The drafting model; `null` if the summary is made offline.
    model: Option<String>,
    /// A sentence about the calls; `null` if there are none.
    notice: Option<String>,
}

impl From<PartsEstimate> for PartsEstimateShape {
    fn from(estimate: PartsEstimate) -> Self {
        Self {
            notice: estimate.notice(),
            calls: estimate.calls,
            tokens_per_call: estimate.tokens_per_call,
            dollars: estimate.dollars,
            model: estimate.model,
        }
    }
}

impl PendingHandoffShape {
    /// Returns the shape of a pending handoff.
    pub(crate) fn new(pending: PendingHandoff, cost: HandoffCost) -> Self {
        let configs = &pending.interrupt.payload.review_configs;
        let decisions = configs.iter().flat_map(|config| config.allowed_decisions.iter().cloned());
        Self {
            handoff: pending.handoff.into(),
            allowed_decisions: decisions.collect(),
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

/// A handoff with all proposals.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HandoffReviewShape {
    /// The handoff.
    handoff: HandoffShape,
    /// The proposals, in the order of their iterations.
    proposals: Vec<ProposalShape>,
    /// The pending decision; `null` if the handoff is decided.
    pending: Option<PendingHandoffShape>,
}

impl HandoffReviewShape {
    /// Returns the shape of a handoff; `cost` is the cost of the pending proposal.
    pub(crate) fn new(review: HandoffReview, cost: HandoffCost) -> Self {
        let mut previous: Option<String> = None;
        let proposals = review.proposals.into_iter().map(|proposal| {
            let text = proposal.package_md.clone();
            ProposalShape::new(proposal, previous.replace(text).as_deref())
        });
        Self {
            proposals: proposals.collect(),
            handoff: review.handoff.into(),
            pending: review.pending.map(|pending| PendingHandoffShape::new(pending, cost)),
        }
    }
}

/// The result of a decision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecisionResultShape {
    /// `accepted`, `declined`, `previewed`, or `pending` if there is a new proposal.
    outcome: &'static str,
    /// The child thread; `null` unless the handoff was accepted.
    #[schema(value_type = Option<String>, format = Uuid)]
    child_thread_id: Option<ThreadId>,
    /// A first message to offer in the child thread: the next step, or the request that was not answered. It is never
    /// sent by itself. `null` if there is none.
    suggested_message: Option<String>,
    /// The text about the parts of an accepted handoff that are not written yet, because a write failed after the acceptance was
    /// durable, and when they will be; `null` if nothing is missing.
    incomplete_acceptance: Option<String>,
    /// The handoff after the decision.
    handoff: HandoffShape,
    /// The proposal that was decided, or the next one.
    proposal: ProposalShape,
    /// The next proposal, if the decision requested one.
    next: Option<PendingHandoffShape>,
    /// The run that processed the decision.
    run: DecisionRunShape,
}

/// The run that processed a decision. If the agent requested the handoff, the run also continues the agent's turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecisionRunShape {
    /// The id of the run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// The final status, as in `last_run` of the thread; `interrupted` if the run ended with a question.
    status: &'static str,
    /// The reason of a failure.
    error: Option<String>,
    /// The questions with which the run ended.
    interrupts: Vec<Interrupt>,
}

impl DecisionResultShape {
    /// Returns the shape of a decision's result; `cost` is the cost of the next proposal.
    pub(crate) fn new(outcome: HandoffOutcome, cost: HandoffCost) -> Self {
        Self {
            outcome: outcome.handoff.status.outcome(),
            child_thread_id: outcome.child_thread_id,
            suggested_message: outcome.suggested_message,
            incomplete_acceptance: outcome.incomplete_acceptance,
            run: DecisionRunShape {
                run_id: outcome.end.run_id,
                status: outcome.end.status.as_str(),
                error: outcome.end.failure.map(|failure| failure.message),
                interrupts: outcome.end.interrupts.iter().map(Interrupt::from).collect(),
            },
            handoff: outcome.handoff.into(),
            proposal: ProposalShape::new(outcome.proposal, None),
            next: outcome.next.map(|next| PendingHandoffShape::new(next, cost)),
        }
    }
}
