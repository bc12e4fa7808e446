//! The parent's tool calls that wait for an approval when a handoff is accepted: how a package lists them, and what becomes
//! of them in the parent.
//!
//! The parent changes in the transaction of the decision, so a crash leaves either all of it or nothing. Its run is not
//! continued: the calls get results, and the model reads them when the person sends the next message.

use std::collections::HashSet;

use jiff::Timestamp;
use journal::Store;
use protocol::{Handoff, Interrupt, Proposal, ThreadId};
use runtime::{GraphUpdate, OpenCall, StepFailure};
use secrets::redact;
use serde_json::Value;

use crate::review::approval::APPROVAL_NODE;
use crate::summary::render;

/// The treatment of the calls that wait for an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WaitingCalls {
    /// The package lists them, and they wait in the parent too.
    #[default]
    Copy,
    /// The package lists them, and they are closed in the parent: the child asks about them anew.
    Transfer,
    /// The package does not list them, and they are closed in the parent.
    Cancel,
    /// The package does not list them, and they wait in the parent.
    Leave,
}

impl WaitingCalls {
    /// All choices, in the order in which errors list them.
    const ALL: [Self; 4] = [Self::Copy, Self::Transfer, Self::Cancel, Self::Leave];

    /// Returns the value on the wire.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Transfer => "transfer",
            Self::Cancel => "cancel",
            Self::Leave => "leave",
        }
    }

    /// Returns the choice of that value.
    ///
    /// # Errors
    ///
    /// The values, when it is none of them.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|choice| value.as_str() == Some(choice.as_str()));
        named.ok_or_else(|| Self::ALL.map(|choice| format!("`{}`", choice.as_str())).join(", "))
    }

    /// Returns whether the package lists the calls.
    pub(crate) const fn is_listed(self) -> bool {
        match self {
            Self::Copy | Self::Transfer => true,
            Self::Cancel | Self::Leave => false,
        }
    }

    /// Returns whether the calls are closed in the parent.
    pub(crate) const fn closes_calls(self) -> bool {
        match self {
            Self::Transfer | Self::Cancel => true,
            Self::Copy | Self::Leave => false,
        }
    }
}

/// Returns the tool calls of the thread that wait for an approval, each on one line as a package lists it.
pub(crate) async fn waiting_call_lines(
    store: &dyn Store,
    thread_id: ThreadId,
) -> journal::Result<Vec<String>> {
    let questions = call_questions(store, thread_id).await?;
    let actions = questions.iter().flat_map(|question| &question.payload.action_requests);
    Ok(actions.map(|action| call_line(&action.name, &action.args)).collect())
}

/// Returns the first call that waits in the parent and is in none of the proposals, so that the reviewer has not seen it.
pub(crate) async fn unseen_call(
    store: &dyn Store,
    proposals: &[Proposal],
) -> journal::Result<Option<String>> {
    let Some(newest) = proposals.last() else { return Ok(None) };
    let seen = seen_calls(proposals);
    let waiting = waiting_call_lines(store, newest.summary_json.parent_thread_id).await?;
    Ok(waiting.into_iter().find(|line| !seen.contains(line.as_str())))
}

/// Returns the update that closes the waiting calls in the parent of an accepted handoff, by `choice`; an empty one if they
/// are not to be closed, or if one of them is in no proposal. `accepted` is the proposal that was accepted, and
/// `waiting_call` is the id of the call that requested the handoff, which gets its own result.
///
/// # Errors
///
/// When the journal cannot be read or a result cannot be serialized.
pub(crate) async fn closing_update(
    store: &dyn Store,
    acceptance: &AcceptedPackage<'_>,
    choice: WaitingCalls,
    at: Timestamp,
) -> Result<GraphUpdate, StepFailure> {
    let AcceptedPackage { handoff, accepted, proposals, waiting_call } = *acceptance;
    let questions = call_questions(store, handoff.parent_thread_id).await?;
    if !choice.closes_calls() || questions.is_empty() || unseen_call(store, proposals).await?.is_some() {
        return Ok(GraphUpdate::default());
    }
    let (seen, listed) = (seen_calls(proposals), &accepted.summary_json.carried.pending_approvals);
    let result_text = |call: OpenCall<'_>| {
        let line = call_line(call.name, call.args);
        // A seen call that is not listed was taken out by the reviewer.
        let is_moved =
            choice == WaitingCalls::Transfer && (listed.contains(&line) || !seen.contains(line.as_str()));
        let text = if is_moved { moved_text(handoff) } else { CANCELLED_TEXT.to_owned() };
        (Some(call.id) != waiting_call).then_some(text)
    };
    runtime::withdraw_calls(store, handoff.parent_thread_id, &questions, &result_text, at).await
}

/// The package of an accepted handoff, with the proposals before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedPackage<'a> {
    /// The handoff's row.
    pub(crate) handoff: &'a Handoff,
    /// The accepted proposal.
    pub(crate) accepted: &'a Proposal,
    /// All proposals that were shown.
    pub(crate) proposals: &'a [Proposal],
    /// The id of the tool call that requested the handoff, if the agent did.
    pub(crate) waiting_call: Option<&'a str>,
}

/// The result of a call that was cancelled.
const CANCELLED_TEXT: &str =
    "Not done: the person cancelled this call when they handed the thread off. Do not make it again unasked.";

/// Returns the result of a call that moved to the child thread.
fn moved_text(handoff: &Handoff) -> String {
    format!(
        "Not done here: the thread was handed off, and this call moved to thread {}, which asks for it anew.",
        handoff.child_thread_id
    )
}

/// Returns the pending interrupts of the thread about tool calls.
async fn call_questions(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Vec<Interrupt>> {
    let mut questions = store.pending_interrupts(thread_id).await?;
    questions.retain(|question| question.node != APPROVAL_NODE);
    Ok(questions)
}

/// Returns the calls that the proposals list.
fn seen_calls(proposals: &[Proposal]) -> HashSet<&str> {
    let lists = proposals.iter().map(|proposal| &proposal.summary_json.carried.pending_approvals);
    lists.flatten().map(String::as_str).collect()
}

/// Returns a call with its arguments on one line, redacted.
fn call_line(name: &str, args: &Value) -> String {
    render::normalize_line(&redact(&format!("{name}: {args}")))
}
