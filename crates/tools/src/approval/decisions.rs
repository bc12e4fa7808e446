//! The consequences of a decision about a tool call: its event, its result when the call is not made, and the channel
//! that the tools node reads. Who decides, and why, is not known here.

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

/// The decisions about the calls of one answer.
#[derive(Debug, Default)]
pub(super) struct DecisionBatch {
    events: Vec<NewEvent>,
    approved: Vec<ReviewedCall>,
    edited: Map<String, Value>,
}

impl DecisionBatch {
    /// Takes down that a call may be made although no rule allows it.
    pub fn approve(
        &mut self,
        call: &ToolCall,
        by: &str,
        rule: Option<&str>,
        looked: ReviewedCall,
    ) -> Result<(), StepFailure> {
        self.approved.push(looked);
        self.record(call, ToolCallDecision::Approve, by, rule)
    }

    /// Takes down that a call is made with other arguments.
    pub fn edit(&mut self, call: &ToolCall, args: Value, looked: ReviewedCall) -> Result<(), StepFailure> {
        self.approved.push(looked);
        self.edited.insert(call.id.clone(), args);
        self.record(call, ToolCallDecision::Edit, "person", None)
    }

    /// Takes down that a rule or policy refuses a call; `text` is its result.
    pub fn refuse(&mut self, call: &ToolCall, by: &str, rule: &str, text: &str) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Deny, by, Some(rule))?;
        self.push_result(call, ToolStatus::Error, text)
    }

    /// Takes down that a person declined a call.
    pub fn reject(&mut self, call: &ToolCall, message: Option<&str>) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Reject, "person", None)?;
        let text = match message.map(str::trim).filter(|message| !message.is_empty()) {
            Some(message) => format!("The person declined this call: {message}"),
            None => "The person declined this call.".to_owned(),
        };
        self.push_result(call, ToolStatus::Error, &text)
    }

    /// Takes down that a person answered in the tool's place.
    pub fn respond(&mut self, call: &ToolCall, message: &str) -> Result<(), StepFailure> {
        self.record(call, ToolCallDecision::Respond, "person", None)?;
        self.push_result(call, ToolStatus::Success, message)
    }

    /// Returns all of it as one update; `asked` are the calls that a person is asked about now. When nothing was
    /// decided and nothing is left over from before, the update is empty.
    pub fn into_update(
        self,
        step: &StepContext<'_>,
        asked: Vec<ReviewedCall>,
    ) -> Result<GraphUpdate, StepFailure> {
        let mut channels = Channels::new();
        reviewed_call::set_calls(&PENDING_CALLS_CHANNEL, &mut channels, asked, step.channels);
        reviewed_call::set_calls(&APPROVED_CALLS_CHANNEL, &mut channels, self.approved, step.channels);
        if !self.edited.is_empty() {
            let mut edited = EDITED_ARGS_CHANNEL.get(step.channels)?.unwrap_or_default();
            edited.extend(self.edited);
            EDITED_ARGS_CHANNEL.set(&mut channels, &edited);
        }
        Ok(GraphUpdate { events: self.events, channels, ..GraphUpdate::default() })
    }

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
    /// Checks that no rule forbids what a person made of a call, and that the tool can read its arguments.
    ///
    /// # Errors
    /// When a rule does, or the tool cannot.
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

    /// Takes a person's decision about a call. Arguments that a person wrote are held against the rules, too.
    pub(super) async fn apply_decision(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        looked: ReviewedCall,
        decision: &Decision,
        decided: &mut DecisionBatch,
    ) -> Result<(), StepFailure> {
        match decision {
            Decision::Approve { .. } => decided.approve(call, "person", None, looked),
            Decision::Reject { message } => decided.reject(call, message.as_deref()),
            Decision::Respond { message } => decided.respond(call, message),
            Decision::Preview {} => decided.reject(call, None),
            Decision::Edit { edited_action } => {
                let args = Value::Object(edited_action.args.clone());
                let edited = ToolCall { args: args.clone(), ..call.clone() };
                match self.judge_call(step, &edited).await {
                    Some((_, PermissionVerdict::Deny { rule })) => {
                        decided.refuse(call, "rule", &rule, &refusal_text(&rule))
                    }
                    Some((review, PermissionVerdict::Allow { .. } | PermissionVerdict::Ask { .. })) => {
                        let edited = ReviewedCall {
                            content: looked.content,
                            ..ReviewedCall::new(&call.id, &review, None)
                        };
                        decided.edit(call, args, edited)
                    }
                    None => decided.edit(call, args, looked),
                }
            }
        }
    }
}

/// Checks an answer to the hook's question before it is stored: an approval changes nothing, and an edit is one of the
/// same tool.
///
/// # Errors
/// When a decision says something that would not be done.
pub(super) fn check_decisions(interrupt: &Interrupt, decisions: &Decisions) -> Result<(), DecisionRejection> {
    for (request, decision) in interrupt.payload.action_requests.iter().zip(&decisions.decisions) {
        match decision {
            Decision::Approve { args: None, summary_sha256: None }
            | Decision::Reject { .. }
            | Decision::Respond { .. }
            | Decision::Preview {} => {}
            Decision::Approve { .. } => {
                let reason = "an approval of a tool call takes no arguments; use an edit to change them";
                return Err(DecisionRejection::Invalid(reason.to_owned()));
            }
            Decision::Edit { edited_action } if edited_action.name == request.name => {}
            Decision::Edit { edited_action } => {
                return Err(DecisionRejection::Invalid(format!(
                    "the call is one of `{}` and cannot become one of `{}`",
                    request.name, edited_action.name
                )));
            }
        }
    }
    Ok(())
}

/// Returns the calls that were asked about.
pub(super) fn pending_calls(step: &StepContext<'_>) -> Result<Vec<ReviewedCall>, StepFailure> {
    Ok(PENDING_CALLS_CHANNEL.get(step.channels)?.unwrap_or_default())
}

/// Returns the call as a person or the policy approved it.
pub(super) fn approved_call(
    step: &StepContext<'_>,
    call_id: &str,
) -> Result<Option<ReviewedCall>, StepFailure> {
    let calls = APPROVED_CALLS_CHANNEL.get(step.channels)?.unwrap_or_default();
    Ok(calls.into_iter().find(|looked| looked.call_id == call_id))
}

/// Returns what the model is told of a call that a rule refuses.
pub(super) fn refusal_text(rule: &str) -> String {
    format!(
        "Not done: a rule forbids this call ({rule}). Do not try to get around it; say so if it is needed."
    )
}
