//! The hook that stands between the model's calls and the tools: what the rules allow goes through, what they deny gets
//! its refusal as a result, and a person is asked about the rest, in one question an answer. What the rules say is
//! decided in [`crate::permission`].

mod decisions;
mod request;
pub(crate) mod reviewed_call;
mod text_warnings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{AiMessage, ContentBlock, Decisions, Interrupt};
use runtime::{
    CallReview, CallSubject, Channels, DecisionRejection, EDITED_ARGS_CHANNEL, GraphUpdate, Hook, HookPoint,
    InterruptRequest, ReviewDetail, StepContext, StepFailure, Tool, ToolCall, ToolCallHandler, ToolContext,
    ToolOutput,
};

use crate::files::file_change;
use crate::permission::{self, ApprovalPolicy, PermissionVerdict, RuleBook, decide_call};
use decisions::{DecisionBatch, approved_call, pending_calls, refusal_text};
use reviewed_call::{ReviewedCall, WORKSPACE_CHANNEL};

/// The name of the hook, under which its question is answered.
const TOOL_APPROVAL: &str = "ToolApproval";

/// Decides which tool calls are made.
pub struct ToolApproval {
    tools: HashMap<String, Arc<dyn Tool>>,
    workspace: PathBuf,
    /// The workspace as people are shown it; `None` where the agent has no folder.
    displayed_workspace: Option<String>,
    rule_book: Arc<RuleBook>,
    policy: ApprovalPolicy,
}

impl ToolApproval {
    /// Returns the hook for these tools. `policy` says what becomes of calls that a person would be asked about.
    pub fn new(
        tools: &[Arc<dyn Tool>],
        workspace: PathBuf,
        rule_book: Arc<RuleBook>,
        policy: ApprovalPolicy,
    ) -> Self {
        let tools = tools.iter().map(|tool| (tool.spec().name, Arc::clone(tool))).collect();
        let displayed_workspace = Some(workspace.to_string_lossy().into_owned());
        Self { tools, workspace, displayed_workspace, rule_book, policy }
    }

    /// Names no folder in questions: the agent has nothing of this machine.
    #[must_use]
    pub fn without_workspace(self) -> Self {
        Self { displayed_workspace: None, ..self }
    }

    /// Returns what a call would do and what the rules say about it; `None` for a tool that there is not.
    async fn judge_call(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
    ) -> Option<(CallReview, PermissionVerdict)> {
        self.judge_in_context(&ToolContext::for_call(step, call, &self.workspace), call).await
    }

    async fn judge_in_context(
        &self,
        context: &ToolContext,
        call: &ToolCall,
    ) -> Option<(CallReview, PermissionVerdict)> {
        let tool = self.tools.get(&call.name)?;
        let review = tool.review(&call.args, context).await;
        let verdict = decide_call(&self.rule_book.rules(), &call.name, &review);
        Some((review, verdict))
    }

    async fn decide_all(
        &self,
        step: &StepContext<'_>,
        calls: &[ToolCall],
    ) -> Result<GraphUpdate, StepFailure> {
        let mut decided = DecisionBatch::default();
        let mut requests = Vec::new();
        for call in calls {
            let Some((review, verdict)) = self.judge_call(step, call).await else { continue };
            match (verdict, self.policy) {
                (PermissionVerdict::Allow { .. }, _) => {}
                (PermissionVerdict::Deny { rule }, _) => {
                    decided.refuse(call, "rule", &rule, &refusal_text(&rule))?
                }
                (PermissionVerdict::Ask { rule }, ApprovalPolicy::Allow) => {
                    let looked = ReviewedCall::new(&call.id, &review, None);
                    decided.approve(call, "policy", Some(&rule), looked)?;
                }
                (PermissionVerdict::Ask { rule }, ApprovalPolicy::Deny) => {
                    let reason = format!(
                        "Not done: a person would have to approve this call ({rule}), and nobody is there to ask. Go on \
                         without it, or say what is needed."
                    );
                    decided.refuse(call, "policy", &rule, &reason)?;
                }
                (PermissionVerdict::Ask { rule }, ApprovalPolicy::Ask) => {
                    let (review, looked) = self.record_review(step, call, review).await;
                    let request = request::action_request(&self.rule_book.rules(), call, &review, &rule);
                    requests.push((looked, request));
                }
            }
        }
        let (calls, requests): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let mut update = decided.into_update(step, calls)?;
        let workspace = self.displayed_workspace.clone().filter(|_| !requests.is_empty());
        reviewed_call::set_workspace(&mut update.channels, workspace.as_ref(), step.channels);
        if !requests.is_empty() {
            let payload = request::interrupt_payload(requests, workspace);
            update.interrupts.push(InterruptRequest { key: TOOL_APPROVAL.to_owned(), payload });
        }
        Ok(update)
    }

    /// Returns the folder in which the calls of the newest answer were proposed, if that is not the one in which they
    /// would be made here.
    fn proposed_workspace(&self, step: &StepContext<'_>) -> Result<Option<String>, StepFailure> {
        let proposed = WORKSPACE_CHANNEL.get(step.channels)?;
        Ok(proposed.filter(|proposed| Some(proposed) != self.displayed_workspace.as_ref()))
    }

    /// Returns what a person is shown of the call, and what has to be the same when it is made: of a change also the
    /// file, for the call may be made by a process that has not read it.
    async fn record_review(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        review: CallReview,
    ) -> (CallReview, ReviewedCall) {
        let ([CallSubject::Path(path)], ReviewDetail::Diff(_)) = (review.subjects.as_slice(), &review.detail)
        else {
            let looked = ReviewedCall::new(&call.id, &review, None);
            return (review, looked);
        };
        let content = file_change::current_content_hash(&self.workspace, path).await;
        // If the file changed before it was hashed, this review has nothing to show, and the call does nothing.
        let review = match self.judge_call(step, call).await {
            Some((again, _)) => again,
            None => review,
        };
        let looked = ReviewedCall::new(&call.id, &review, content);
        (review, looked)
    }
}

#[async_trait]
impl Hook for ToolApproval {
    fn name(&self) -> &'static str {
        TOOL_APPROVAL
    }

    fn can_skip(&self, point: HookPoint, channels: &Channels) -> bool {
        match point {
            HookPoint::BeforeAgent | HookPoint::AfterAgent => true,
            // The edge after the hooks reports a state that cannot be read.
            HookPoint::AfterModel => matches!(runtime::has_tool_calls(channels), Ok(false)),
        }
    }

    async fn validate_decisions(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        if interrupt.payload.middleware_source != request::MIDDLEWARE_SOURCE {
            return Ok(());
        }
        decisions::check_decisions(interrupt, decisions)?;
        self.check_edits(interrupt, decisions, store).await
    }

    async fn after_model(
        &self,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        let calls = calls_with_edits(answer, step.channels)?;
        let asked = pending_calls(step)?;
        match step.answer(TOOL_APPROVAL) {
            Some(decisions) if !asked.is_empty() => {
                // The rules may be others by now; what was asked is in the state.
                let mut decided = DecisionBatch::default();
                for (looked, decision) in asked.into_iter().zip(&decisions.decisions) {
                    if let Some(call) = calls.iter().find(|call| call.id == looked.call_id) {
                        self.apply_decision(step, call, looked, decision, &mut decided).await?;
                    }
                }
                decided.into_update(step, Vec::new())
            }
            Some(_) | None => self.decide_all(step, &calls).await,
        }
    }

    /// No call is made that neither a rule nor a person allowed: it is judged again at the moment it is made, for the
    /// world may have changed since it was looked at.
    async fn wrap_tool_call(
        &self,
        step: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        if let Some(proposed) = self.proposed_workspace(step)? {
            return Ok(ToolOutput::error(format!(
                "Not done: this call was proposed in {proposed}, and is not made in another folder. Make it again if it is \
                 still needed."
            )));
        }
        let approved = approved_call(step, &call.id)?;
        let changed = match self.judge_call(step, &call).await {
            Some((_, PermissionVerdict::Deny { rule })) => return Ok(ToolOutput::error(refusal_text(&rule))),
            Some((review, PermissionVerdict::Ask { rule })) => match approved {
                Some(looked) => self.changed_since_approval(&call, &looked.unreviewed_subjects(&review)),
                None => Some(rule),
            },
            Some((_, PermissionVerdict::Allow { .. })) | None => None,
        };
        match changed {
            Some(rule) => Ok(ToolOutput::error(format!(
                "Not done: what this call would do has changed since it was looked at, and now a person has to approve \
                 it ({rule}). Make the call again if it is still needed."
            ))),
            None => permission::with_rules(self.rule_book.rules(), next.run(call)).await,
        }
    }
}

impl ToolApproval {
    /// Returns why a person would have to be asked about what the call has come to be about since it was approved.
    fn changed_since_approval(&self, call: &ToolCall, unknown: &CallReview) -> Option<String> {
        if unknown.subjects.is_empty() {
            return None;
        }
        match decide_call(&self.rule_book.rules(), &call.name, unknown) {
            PermissionVerdict::Allow { .. } => None,
            PermissionVerdict::Ask { rule } | PermissionVerdict::Deny { rule } => Some(rule),
        }
    }
}

/// Returns the calls of the answer, with the arguments that were put in place of their own.
fn calls_with_edits(answer: &AiMessage, channels: &Channels) -> Result<Vec<ToolCall>, StepFailure> {
    let edited = EDITED_ARGS_CHANNEL.get(channels)?.unwrap_or_default();
    let calls = answer.content.iter().filter_map(|block| match block {
        ContentBlock::ToolCall { id, name, args } => {
            let args = edited.get(id).unwrap_or(args);
            Some(ToolCall { id: id.clone(), name: name.clone(), args: args.clone() })
        }
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::Media { .. }
        | ContentBlock::Opaque { .. } => None,
    });
    Ok(calls.collect())
}
