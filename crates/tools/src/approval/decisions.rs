//! The effects of decisions about tool calls: the event of each decision, the result of a call that is not made, and
//! the state channels that record approved calls and edited arguments. The decisions themselves come from the
//! permission rules or from the user.

use std::sync::Arc;

use jiff::Timestamp;
use journal::Store;
use protocol::event::body::{ToolCallDecided, ToolCallDecision};
use protocol::{ContentBlock, Decision, Decisions, Interrupt, Message, NewEvent, ToolMessage, ToolStatus};
use runtime::{
    Channels, DecisionRejection, EDITED_ARGS_CHANNEL, FrameSender, GraphUpdate, StepContext, StepFailure,
    ToolCall, ToolContext,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::ToolApproval;
use super::reviewed_call::{self, APPROVED_CALLS_CHANNEL, PENDING_CALLS_CHANNEL, ReviewedCall};
use crate::permission::PermissionVerdict;

/// The collected decisions about the calls of one answer. They become durable together, as one graph update.
#[derive(Debug, Default)]
pub(super) struct DecisionBatch {
    /// Decision events, and messages with the results of calls that are not made.
    events: Vec<NewEvent>,
    /// Calls that may be made, as they were reviewed.
    approved: Vec<ReviewedCall>,
    /// Edited arguments by call id.
    edited: Map<String, Value>,
    /// Calls that the user left undecided.
    deferred: Vec<ToolCall>,
}

impl DecisionBatch {
    /// Returns a batch for decisions about calls of an answer of which the user has decided other calls before. It
    /// contains the approvals of these calls.
    pub fn after_earlier_decisions(step: &StepContext<'_>) -> Result<Self, StepFailure> {
        let approved = APPROVED_CALLS_CHANNEL.get(step.channels)?.unwrap_or_default();
        Ok(Self { approved, ..Self::default() })
    }

    /// Records that a call may be made although no rule allows it. `by` is `person` or `policy`; `rule` is the reason
    /// why the call needed approval.
    pub fn approve(
        &mut self,
        call: &ToolCall,
        by: &str,
        rule: Option<&str>,
        reviewed: ReviewedCall,
    ) -> Result<(), StepFailure> {
        self.approved.push(reviewed);
        self.record(call, ToolCallDecision::Approve, by, rule)
    }

    /// Records that the user approved a call with edited arguments.
    pub fn edit(&mut self, call: &ToolCall, args: Value, reviewed: ReviewedCall) -> Result<(), StepFailure> {
        self.approved.push(reviewed);
        self.edited.insert(call.id.clone(), args);
        self.record(call, ToolCallDecision::Edit, "person", None)
    }

    /// Records that a rule or the policy refuses a call. `text` becomes the call's result.
    pub fn refuse(&mut self, call: &ToolCall, by: &str, rule: &str, text: &str) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Deny, by, Some(rule))?;
        self.push_result(call, ToolStatus::Error, text)
    }

    /// Records that the user declined a call. The result contains the user's message, if there is one.
    pub fn reject(&mut self, call: &ToolCall, message: Option<&str>) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Reject, "person", None)?;
        let text = match message.map(str::trim).filter(|message| !message.is_empty()) {
            Some(message) => format!("The person declined this call: {message}"),
            None => "The person declined this call.".to_owned(),
        };
        self.push_result(call, ToolStatus::Error, &text)
    }

    /// Records that the user answered instead of the tool. `message` becomes the call's result.
    pub fn respond(&mut self, call: &ToolCall, message: &str) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Respond, "person", None)?;
        self.push_result(call, ToolStatus::Success, message)
    }

    /// Removes and returns the calls that the user left undecided.
    pub fn take_deferred(&mut self) -> Vec<ToolCall> {
        std::mem::take(&mut self.deferred)
    }

    /// Returns the decisions as one update. `pending` are the calls that now need approval. If there is no decision and
    /// the state has no record of an earlier answer, the update is empty.
    pub fn into_update(
        self,
        step: &StepContext<'_>,
        pending: Vec<ReviewedCall>,
    ) -> Result<GraphUpdate, StepFailure> {
        let mut channels = Channels::new();
        reviewed_call::set_calls(&PENDING_CALLS_CHANNEL, &mut channels, pending, step.channels);
        reviewed_call::set_calls(&APPROVED_CALLS_CHANNEL, &mut channels, self.approved, step.channels);
        if !self.edited.is_empty() {
            let mut edited = EDITED_ARGS_CHANNEL.get(step.channels)?.unwrap_or_default();
            edited.extend(self.edited);
            EDITED_ARGS_CHANNEL.set(&mut channels, &edited);
        }
        Ok(GraphUpdate { events: self.events, channels, ..GraphUpdate::default() })
    }

    /// Adds the event of a decision.
    fn record(
        &mut self,
        call: &ToolCall,
        decision: ToolCallDecision,
        by: &str,
        rule: Option<&str>,
    ) -> Result<(), StepFailure> {
        let decided = ToolCallDecided {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            decision,
            by: by.to_owned(),
            rule: rule.map(str::to_owned),
        };
        self.events.push(NewEvent::from_body(&decided, Timestamp::now())?);
        Ok(())
    }

    /// Adds the result of a call that is not made.
    fn push_result(&mut self, call: &ToolCall, status: ToolStatus, text: &str) -> Result<(), StepFailure> {
        let message = Message::Tool(ToolMessage {
            id: None,
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: vec![ContentBlock::text(text)],
            status,
        });
        self.events.push(NewEvent::from_message(&message, Timestamp::now())?);
        Ok(())
    }
}

impl ToolApproval {
    /// Checks the edited calls: no rule denies them, and the tool accepts their arguments.
    ///
    /// # Errors
    /// Returns [`DecisionRejection::Invalid`] with the reason for the first edited call that fails a check.
    pub(super) async fn check_edits(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        for (request, decision) in interrupt.payload.action_requests.iter().zip(&decisions.decisions) {
            let Decision::Edit { edited_action } = decision else { continue };
            let args = Value::Object(edited_action.args.clone());
            let edited = ToolCall { id: String::new(), name: request.name.clone(), args };
            let context = ToolContext {
                thread_id: interrupt.thread_id,
                run_id: interrupt.run_id,
                call_id: edited.id.clone(),
                workspace: self.workspace.clone(),
                cancel: CancellationToken::new(),
                store: Arc::clone(store),
                frames: FrameSender::default(),
                channels: Arc::default(),
                answers: Vec::new(),
            };
            if let Some((_, PermissionVerdict::Deny { rule })) =
                self.judge_in_context(&context, &edited).await
            {
                return Err(DecisionRejection::Invalid(format!("a rule forbids the edited call ({rule})")));
            }
            if let Some(tool) = self.tools.get(&edited.name) {
                tool.check_args(&edited.args).map_err(|reason| {
                    DecisionRejection::Invalid(format!("`{}` cannot be called: {reason}", edited.name))
                })?;
            }
        }
        Ok(())
    }

    /// Adds the user's decision about a call to `batch`. An edited call is judged by the rules again: a rule that
    /// denies it refuses the call. `reviewed` is the record of the review that the user was shown.
    pub(super) async fn apply_decision(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        reviewed: ReviewedCall,
        decision: &Decision,
        batch: &mut DecisionBatch,
    ) -> Result<(), StepFailure> {
        match decision {
            Decision::Approve { .. } => batch.approve(call, "person", None, reviewed),
            Decision::Reject { message } => batch.reject(call, message.as_deref()),
            Decision::Respond { message } => batch.respond(call, message),
            Decision::Preview {} => batch.reject(call, None),
            Decision::Defer {} => {
                batch.deferred.push(call.clone());
                Ok(())
            }
            Decision::Edit { edited_action } => {
                let args = Value::Object(edited_action.args.clone());
                let edited = ToolCall { args: args.clone(), ..call.clone() };
                match self.judge_call(step, &edited).await {
                    Some((_, PermissionVerdict::Deny { rule })) => {
                        batch.refuse(call, "rule", &rule, &refusal_text(&rule))
                    }
                    Some((review, PermissionVerdict::Allow { .. } | PermissionVerdict::Ask { .. })) => {
                        let edited = ReviewedCall {
                            content: reviewed.content,
                            ..ReviewedCall::new(&call.id, &review, None)
                        };
                        batch.edit(call, args, edited)
                    }
                    None => batch.edit(call, args, reviewed),
                }
            }
        }
    }
}

/// Checks decisions about tool calls before they are stored. An approval must not have arguments, an edit must keep the
/// tool, and at least one call must be decided.
///
/// # Errors
/// Returns [`DecisionRejection::Invalid`] for the first decision that would not be carried out as given.
pub(super) fn check_decisions(interrupt: &Interrupt, decisions: &Decisions) -> Result<(), DecisionRejection> {
    if decisions.decisions.iter().all(|decision| matches!(decision, Decision::Defer {})) {
        let reason = "no call is decided; decide at least one of them and defer the others";
        return Err(DecisionRejection::Invalid(reason.to_owned()));
    }
    for (request, decision) in interrupt.payload.action_requests.iter().zip(&decisions.decisions) {
        match decision {
            Decision::Approve { args: None, summary_sha256: None }
            | Decision::Reject { .. }
            | Decision::Respond { .. }
            | Decision::Preview {}
            | Decision::Defer {} => {}
            Decision::Approve { .. } => {
                let reason = "an approval of a tool call takes no arguments; use an edit to change them";
                return Err(DecisionRejection::Invalid(reason.to_owned()));
            }
            Decision::Edit { edited_action } if edited_action.name == request.name => {}
            Decision::Edit { edited_action } => {
                return Err(DecisionRejection::Invalid(format!(
                    "a call of `{}` cannot become a call of `{}`",
                    request.name, edited_action.name
                )));
            }
        }
    }
    Ok(())
}

/// Returns the calls that the pending interrupt asks about, in the order of its requests.
pub(super) fn pending_calls(step: &StepContext<'_>) -> Result<Vec<ReviewedCall>, StepFailure> {
    Ok(PENDING_CALLS_CHANNEL.get(step.channels)?.unwrap_or_default())
}

/// Returns the record of a call that the user or the policy approved, or `None` if it was not approved.
pub(super) fn approved_call(
    step: &StepContext<'_>,
    call_id: &str,
) -> Result<Option<ReviewedCall>, StepFailure> {
    let calls = APPROVED_CALLS_CHANNEL.get(step.channels)?.unwrap_or_default();
    Ok(calls.into_iter().find(|reviewed| reviewed.call_id == call_id))
}

/// Returns the result of a call that a rule denies.
pub(super) fn refusal_text(rule: &str) -> String {
    format!(
        "Not done: a rule forbids this call ({rule}). Do not try to work around it; say so if the call is needed."
    )
}
