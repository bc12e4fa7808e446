//! What follows from a decision about a call: its event, its result when it is not made, and what the tools node is
//! told. Who decides, and why, is not known here.

use std::sync::Arc;

use jiff::Timestamp;
use journal::Store;
use protocol::event::body::{CallDecision, ToolCallDecided};
use protocol::{Block, Decision, Decisions, Interrupt, Message, NewEvent, ToolMessage, ToolStatus};
use runtime::{
    Channels, EDITED_ARGS_CHANNEL, Failure, Frames, Rejection, StepContext, ToolCall, ToolContext, Update,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::ToolApproval;
use super::looked::{self, APPROVED_CHANNEL, ASKED_CHANNEL, Looked};
use crate::permission::Verdict;

/// What was decided about the calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Decided {
    events: Vec<NewEvent>,
    approved: Vec<Looked>,
    edited: Map<String, Value>,
}

impl Decided {
    /// Takes down that a call may be made although no rule allows it.
    pub fn approve(
        &mut self,
        call: &ToolCall,
        by: &str,
        rule: Option<&str>,
        looked: Looked,
    ) -> Result<(), Failure> {
        self.approved.push(looked);
        self.record(call, CallDecision::Approve, by, rule)
    }

    /// Takes down that a call is made with other arguments.
    pub fn edit(&mut self, call: &ToolCall, args: Value, looked: Looked) -> Result<(), Failure> {
        self.approved.push(looked);
        self.edited.insert(call.id.clone(), args);
        self.record(call, CallDecision::Edit, "person", None)
    }

    /// Takes down that a rule or policy refuses a call; `text` is its result.
    pub fn refuse(&mut self, call: &ToolCall, by: &str, rule: &str, text: &str) -> Result<(), Failure> {
        self.record(call, CallDecision::Deny, by, Some(rule))?;
        self.result(call, ToolStatus::Error, text)
    }

    /// Takes down that a person declined a call.
    pub fn reject(&mut self, call: &ToolCall, message: Option<&str>) -> Result<(), Failure> {
        self.record(call, CallDecision::Reject, "person", None)?;
        let text = match message.map(str::trim).filter(|message| !message.is_empty()) {
            Some(message) => format!("The person declined this call: {message}"),
            None => "The person declined this call.".to_owned(),
        };
        self.result(call, ToolStatus::Error, &text)
    }

    /// Takes down that a person answered in the tool's place.
    pub fn respond(&mut self, call: &ToolCall, message: &str) -> Result<(), Failure> {
        self.record(call, CallDecision::Respond, "person", None)?;
        self.result(call, ToolStatus::Success, message)
    }

    /// Returns all of it as one update; `asked` are the calls that a person is asked about now. When nothing was
    /// decided and nothing is left over from before, the update is empty.
    pub fn into_update(self, step: &StepContext<'_>, asked: Vec<Looked>) -> Result<Update, Failure> {
        let mut channels = Channels::new();
        looked::set(&ASKED_CHANNEL, &mut channels, asked, step.channels);
        looked::set(&APPROVED_CHANNEL, &mut channels, self.approved, step.channels);
        if !self.edited.is_empty() {
            let mut edited = EDITED_ARGS_CHANNEL.get(step.channels)?.unwrap_or_default();
            edited.extend(self.edited);
            EDITED_ARGS_CHANNEL.set(&mut channels, &edited);
        }
        Ok(Update { events: self.events, channels, ..Update::default() })
    }

    fn record(
        &mut self,
        call: &ToolCall,
        decision: CallDecision,
        by: &str,
        rule: Option<&str>,
    ) -> Result<(), Failure> {
        let decided = ToolCallDecided {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            decision,
            by: by.to_owned(),
            rule: rule.map(str::to_owned),
        };
        self.events.push(NewEvent::of(&decided, Timestamp::now())?);
        Ok(())
    }

    fn result(&mut self, call: &ToolCall, status: ToolStatus, text: &str) -> Result<(), Failure> {
        let message = Message::Tool(ToolMessage {
            id: None,
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: vec![Block::text(text)],
            status,
        });
        self.events.push(NewEvent::message(&message, Timestamp::now())?);
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
    ) -> Result<(), Rejection> {
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
                frames: Frames::default(),
                channels: Arc::default(),
                answers: Vec::new(),
            };
            if let Some((_, Verdict::Deny { rule })) = self.judge_in(&context, &edited).await {
                return Err(Rejection::Invalid(format!("a rule forbids the edited call ({rule})")));
            }
            if let Some(tool) = self.tools.get(&edited.name) {
                tool.check_args(&edited.args).map_err(|reason| {
                    Rejection::Invalid(format!("`{}` cannot be called: {reason}", edited.name))
                })?;
            }
        }
        Ok(())
    }

    /// Takes a person's decision about a call. Arguments that a person wrote are held against the rules, too.
    pub(super) async fn take(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        looked: Looked,
        decision: &Decision,
        decided: &mut Decided,
    ) -> Result<(), Failure> {
        match decision {
            Decision::Approve { .. } => decided.approve(call, "person", None, looked),
            Decision::Reject { message } => decided.reject(call, message.as_deref()),
            Decision::Respond { message } => decided.respond(call, message),
            Decision::Preview {} => decided.reject(call, None),
            Decision::Edit { edited_action } => {
                let args = Value::Object(edited_action.args.clone());
                let edited = ToolCall { args: args.clone(), ..call.clone() };
                match self.judge(step, &edited).await {
                    Some((_, Verdict::Deny { rule })) => decided.refuse(call, "rule", &rule, &refused(&rule)),
                    Some((review, Verdict::Allow { .. } | Verdict::Ask { .. })) => {
                        let edited =
                            Looked { content: looked.content, ..Looked::new(&call.id, &review, None) };
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
pub(super) fn check(interrupt: &Interrupt, decisions: &Decisions) -> Result<(), Rejection> {
    for (request, decision) in interrupt.payload.action_requests.iter().zip(&decisions.decisions) {
        match decision {
            Decision::Approve { args: None, summary_sha256: None }
            | Decision::Reject { .. }
            | Decision::Respond { .. }
            | Decision::Preview {} => {}
            Decision::Approve { .. } => {
                let reason = "an approval of a tool call takes no arguments; use an edit to change them";
                return Err(Rejection::Invalid(reason.to_owned()));
            }
            Decision::Edit { edited_action } if edited_action.name == request.name => {}
            Decision::Edit { edited_action } => {
                return Err(Rejection::Invalid(format!(
                    "the call is one of `{}` and cannot become one of `{}`",
                    request.name, edited_action.name
                )));
            }
        }
    }
    Ok(())
}

/// Returns the calls that were asked about.
pub(super) fn asked(step: &StepContext<'_>) -> Result<Vec<Looked>, Failure> {
    Ok(ASKED_CHANNEL.get(step.channels)?.unwrap_or_default())
}

/// Returns the call as a person or the policy approved it.
pub(super) fn approved(step: &StepContext<'_>, call_id: &str) -> Result<Option<Looked>, Failure> {
    let calls = APPROVED_CHANNEL.get(step.channels)?.unwrap_or_default();
    Ok(calls.into_iter().find(|looked| looked.call_id == call_id))
}

/// Returns what the model is told of a call that a rule refuses.
pub(super) fn refused(rule: &str) -> String {
    format!(
        "Not done: a rule forbids this call ({rule}). Do not try to get around it; say so if it is needed."
    )
}
