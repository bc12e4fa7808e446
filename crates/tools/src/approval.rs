//! The hook that enforces permission rules on the model's tool calls.
//!
//! After each model answer it judges all calls: allowed calls pass, denied calls get a refusal as their result, and
//! all calls that need approval become one interrupt. The user may decide some of them and defer the others, which then
//! become another interrupt. Before a call is made, the hook judges it again. The verdict on a call comes from
//! [`crate::permission`].

mod decisions;
mod request;
pub(crate) mod reviewed_call;
mod text_warnings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{ActionRequest, AiMessage, ContentBlock, Decisions, Interrupt};
use runtime::{
    CallReview, CallSubject, Channels, DecisionRejection, EDITED_ARGS_CHANNEL, GraphUpdate, Hook, HookPoint,
    InterruptRequest, ReviewDetail, StepContext, StepFailure, Tool, ToolCall, ToolCallHandler, ToolContext,
    ToolOutput,
};

use crate::files::file_change;
use crate::permission::{self, ApprovalPolicy, PermissionVerdict, RuleBook, decide_call};
use decisions::{DecisionBatch, approved_call, pending_calls, refusal_text};
use reviewed_call::{ReviewedCall, WORKSPACE_CHANNEL};

/// Name of the hook, and key of its interrupts.
const TOOL_APPROVAL: &str = "ToolApproval";

/// The hook that decides which tool calls are made.
pub struct ToolApproval {
    /// The tools by name. A call of another tool is left to the runtime, which reports it as unknown.
    tools: HashMap<String, Arc<dyn Tool>>,
    /// The folder in which calls are made.
    workspace: PathBuf,
    /// The workspace as approval requests show it; `None` if the agent has no access to files.
    displayed_workspace: Option<String>,
    rule_book: Arc<RuleBook>,
    /// The policy for calls that need approval.
    policy: ApprovalPolicy,
}

impl ToolApproval {
    /// Returns the hook for these tools. `policy` applies to calls that need approval by the rules.
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

    /// Returns the hook without a workspace in its approval requests, for an agent without access to files.
    #[must_use]
    pub fn without_workspace(self) -> Self {
        Self { displayed_workspace: None, ..self }
    }

    /// Returns the review of a call and the verdict of the rules, or `None` for an unknown tool.
    async fn judge_call(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
    ) -> Option<(CallReview, PermissionVerdict)> {
        self.judge_in_context(&ToolContext::for_call(step, call, &self.workspace), call).await
    }

    /// Does the work of [`Self::judge_call`] with a given context.
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

    /// Judges all calls of an answer and returns one update: events and results of decided calls, and at most one
    /// interrupt for the calls that need approval.
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
                    let reviewed = ReviewedCall::new(&call.id, &review, None);
                    decided.approve(call, "policy", Some(&rule), reviewed)?;
                }
                (PermissionVerdict::Ask { rule }, ApprovalPolicy::Deny) => {
                    let reason = format!(
                        "Not done: this call needs approval by the user ({rule}), and no user is available. Continue \
                         without it, or say what is needed."
                    );
                    decided.refuse(call, "policy", &rule, &reason)?;
                }
                (PermissionVerdict::Ask { rule }, ApprovalPolicy::Ask | ApprovalPolicy::Sandboxed) => {
                    requests.push(self.approval_request(step, call, review, &rule).await);
                }
            }
        }
        self.build_update(step, decided, requests)
    }

    /// Applies the user's decisions about the `pending` calls. Calls that the user deferred are judged again, because
    /// files and rules may have changed, and become another interrupt. The policy does not answer them, because the user
    /// does.
    async fn apply_decisions(
        &self,
        step: &StepContext<'_>,
        calls: &[ToolCall],
        pending: Vec<ReviewedCall>,
        decisions: &Decisions,
    ) -> Result<GraphUpdate, StepFailure> {
        let mut decided = DecisionBatch::after_earlier_decisions(step)?;
        for (reviewed, decision) in pending.into_iter().zip(&decisions.decisions) {
            if let Some(call) = calls.iter().find(|call| call.id == reviewed.call_id) {
                self.apply_decision(step, call, reviewed, decision, &mut decided).await?;
            }
        }
        let mut requests = Vec::new();
        for call in &decided.take_deferred() {
            match self.judge_call(step, call).await {
                Some((review, PermissionVerdict::Ask { rule })) => {
                    requests.push(self.approval_request(step, call, review, &rule).await);
                }
                Some((_, PermissionVerdict::Deny { rule })) => {
                    decided.refuse(call, "rule", &rule, &refusal_text(&rule))?;
                }
                Some((_, PermissionVerdict::Allow { .. })) | None => {}
            }
        }
        match requests.is_empty() {
            // The folder in which the calls were proposed stays in the state, because they are made there.
            true => decided.into_update(step, Vec::new()),
            false => self.build_update(step, decided, requests),
        }
    }

    /// Returns the record of a call's review, and the request to approve the call. `rule` is the reason why the call
    /// needs approval.
    async fn approval_request(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        review: CallReview,
        rule: &str,
    ) -> (ReviewedCall, ActionRequest) {
        let (review, reviewed) = self.record_review(step, call, review).await;
        let request = request::action_request(&self.rule_book.rules(), call, &review, rule);
        (reviewed, request)
    }

    /// Returns the update with the decisions and, if there are any requests, one interrupt for all of them.
    fn build_update(
        &self,
        step: &StepContext<'_>,
        decided: DecisionBatch,
        requests: Vec<(ReviewedCall, ActionRequest)>,
    ) -> Result<GraphUpdate, StepFailure> {
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

    /// Returns the workspace in which the calls of the newest answer were proposed, if it differs from this hook's
    /// workspace. A thread may have moved to another folder while it waited for approval.
    fn proposed_workspace(&self, step: &StepContext<'_>) -> Result<Option<String>, StepFailure> {
        let proposed = WORKSPACE_CHANNEL.get(step.channels)?;
        Ok(proposed.filter(|proposed| Some(proposed) != self.displayed_workspace.as_ref()))
    }

    /// Returns the review that the user is shown, and the record that the call is compared with when it is made. For a
    /// change of a file, the record contains the hash of the file, because a process that has not read the file may
    /// make the call.
    async fn record_review(
        &self,
        step: &StepContext<'_>,
        call: &ToolCall,
        review: CallReview,
    ) -> (CallReview, ReviewedCall) {
        let ([CallSubject::Path(path)], ReviewDetail::Diff(_)) = (review.subjects.as_slice(), &review.detail)
        else {
            let reviewed = ReviewedCall::new(&call.id, &review, None);
            return (review, reviewed);
        };
        let content = file_change::current_content_hash(&self.workspace, path).await;
        // The call is reviewed again after the file was hashed. If the file changed in between, the second review has
        // no diff, and the call has no effect.
        let review = match self.judge_call(step, call).await {
            Some((second_review, _)) => second_review,
            None => review,
        };
        let reviewed = ReviewedCall::new(&call.id, &review, content);
        (review, reviewed)
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
            // A state that cannot be read is not skipped; the edge after the hooks reports its error.
            HookPoint::AfterModel => matches!(runtime::has_tool_calls(channels), Ok(false)),
        }
    }

    /// Checks the user's decisions before they are stored, so that an invalid one leaves the interrupt pending.
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

    /// Applies the user's decisions if there are any for pending calls; otherwise judges the calls of the answer.
    async fn after_model(
        &self,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        let calls = calls_with_edits(answer, step.channels)?;
        // The pending calls come from the state, not from a new judgement: the rules may have changed since.
        let pending = pending_calls(step)?;
        match step.answer(TOOL_APPROVAL) {
            Some(decisions) if !pending.is_empty() => {
                self.apply_decisions(step, &calls, pending, decisions).await
            }
            Some(_) | None => self.decide_all(step, &calls).await,
        }
    }

    /// Makes a call only if a rule or the user allowed it. The call is judged again at this moment, because files and
    /// rules may have changed since the review. The tool runs within `permission::with_rules`, so that a search
    /// leaves out the files that these rules hide.
    async fn wrap_tool_call(
        &self,
        step: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        if let Some(proposed) = self.proposed_workspace(step)? {
            return Ok(ToolOutput::error(format!(
                "Not done: this call was proposed in {proposed}, and is not made in another folder. Make the call again if \
                 it is still needed."
            )));
        }
        let approved = approved_call(step, &call.id)?;
        let changed = match self.judge_call(step, &call).await {
            Some((_, PermissionVerdict::Deny { rule })) => return Ok(ToolOutput::error(refusal_text(&rule))),
            Some((review, PermissionVerdict::Ask { rule })) => match approved {
                Some(reviewed) => self.changed_since_approval(&call, &reviewed.unreviewed_subjects(&review)),
                None => Some(rule),
            },
            Some((_, PermissionVerdict::Allow { .. })) | None => None,
        };
        match changed {
            Some(rule) => Ok(ToolOutput::error(format!(
                "Not done: the effect of this call has changed since it was reviewed, and it needs approval by the user \
                 ({rule}). Make the call again if it is still needed."
            ))),
            None => permission::with_rules(self.rule_book.rules(), next.run(call)).await,
        }
    }
}

impl ToolApproval {
    /// Returns the rule because of which an approved call needs approval again, or `None` if it may be made. `new` is
    /// the review of the subjects that were not part of the approved review.
    fn changed_since_approval(&self, call: &ToolCall, new: &CallReview) -> Option<String> {
        if new.subjects.is_empty() {
            return None;
        }
        match decide_call(&self.rule_book.rules(), &call.name, new) {
            PermissionVerdict::Allow { .. } => None,
            PermissionVerdict::Ask { rule } | PermissionVerdict::Deny { rule } => Some(rule),
        }
    }
}

/// Returns the calls of the answer. Arguments that the user edited replace the model's.
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
