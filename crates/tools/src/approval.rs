//! The hook that stands between the model's calls and the tools: what the rules allow goes through, what they deny gets
//! its refusal as a result, and a person is asked about the rest, in one question an answer. What the rules say is
//! decided in [`crate::permission`].

mod answer;
mod request;
mod visible;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{AiMessage, Block, Decisions, Interrupt};
use runtime::{
    Ask, Channels, Failure, Hook, NextCall, Point, Rejection, Review, StepContext, Tool, ToolCall,
    ToolContext, ToolOutput, Update,
};

use crate::permission::{Policy, RuleBook, Verdict, decide};
use answer::{Decided, approved, asked, refused};

/// The name of the hook, under which its question is answered.
const TOOL_APPROVAL: &str = "ToolApproval";

/// Decides which tool calls are made.
pub struct ToolApproval {
    tools: HashMap<String, Arc<dyn Tool>>,
    workspace: PathBuf,
    book: Arc<RuleBook>,
    policy: Policy,
}

impl ToolApproval {
    /// Returns the hook for these tools. `policy` says what becomes of calls that a person would be asked about.
    pub fn new(tools: &[Arc<dyn Tool>], workspace: PathBuf, book: Arc<RuleBook>, policy: Policy) -> Self {
        let tools = tools.iter().map(|tool| (tool.spec().name, Arc::clone(tool))).collect();
        Self { tools, workspace, book, policy }
    }

    /// Returns what a call would do and what the rules say about it; `None` for a tool that there is not.
    async fn judge(&self, step: &StepContext<'_>, call: &ToolCall) -> Option<(Review, Verdict)> {
        self.judge_in(&self.context(step, call), call).await
    }

    async fn judge_in(&self, context: &ToolContext, call: &ToolCall) -> Option<(Review, Verdict)> {
        let tool = self.tools.get(&call.name)?;
        let review = tool.review(&call.args, context).await;
        let verdict = decide(&self.book.rules(), &call.name, &review);
        Some((review, verdict))
    }

    fn context(&self, step: &StepContext<'_>, call: &ToolCall) -> ToolContext {
        ToolContext {
            thread_id: step.thread_id,
            run_id: step.run_id,
            call_id: call.id.clone(),
            workspace: self.workspace.clone(),
            cancel: step.cancel.clone(),
            store: Arc::clone(step.store),
            frames: step.frames.clone(),
            channels: Arc::new(step.channels.clone()),
            answers: Vec::new(),
        }
    }

    async fn decide_all(&self, step: &StepContext<'_>, calls: &[ToolCall]) -> Result<Update, Failure> {
        let mut decided = Decided::default();
        let mut requests = Vec::new();
        for call in calls {
            let Some((review, verdict)) = self.judge(step, call).await else { continue };
            match (verdict, self.policy) {
                (Verdict::Allow { .. }, _) => {}
                (Verdict::Deny { rule }, _) => decided.refuse(call, ("rule", &rule), &refused(&rule))?,
                (Verdict::Ask { rule }, Policy::Allow) => decided.approve(call, ("policy", Some(&rule)))?,
                (Verdict::Ask { rule }, Policy::Deny) => {
                    let reason = format!(
                        "Not done: a person would have to approve this call ({rule}), and nobody is there to ask. Go on \
                         without it, or say what is needed."
                    );
                    decided.refuse(call, ("policy", &rule), &reason)?;
                }
                (Verdict::Ask { rule }, Policy::Ask) => {
                    let request = request::request(&self.book.rules(), call, (&review, &rule));
                    requests.push((call.id.clone(), request));
                }
            }
        }
        let (ids, requests): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let mut update = decided.into_update(step, &ids);
        if !requests.is_empty() {
            update.asks.push(Ask { key: TOOL_APPROVAL.to_owned(), payload: request::payload(requests) });
        }
        Ok(update)
    }
}

#[async_trait]
impl Hook for ToolApproval {
    fn name(&self) -> &'static str {
        TOOL_APPROVAL
    }

    fn is_idle(&self, point: Point, channels: &Channels) -> bool {
        match point {
            Point::BeforeAgent | Point::AfterAgent => true,
            Point::AfterModel => !runtime::wants_tools(channels),
        }
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        if interrupt.payload.middleware_source != request::MIDDLEWARE_SOURCE {
            return Ok(());
        }
        answer::check(interrupt, decisions)?;
        self.check_edits(interrupt, decisions, store).await
    }

    async fn after_model(&self, step: &StepContext<'_>, answer: &AiMessage) -> Result<Update, Failure> {
        let calls = calls(answer);
        match (step.answer(TOOL_APPROVAL), asked(step)) {
            (Some(decisions), Some(ids)) => {
                // The rules may be others by now; what was asked is in the state.
                let asked = ids.iter().map(|id| calls.iter().find(|call| call.id == *id));
                let mut decided = Decided::default();
                for (call, decision) in asked.zip(&decisions.decisions) {
                    if let Some(call) = call {
                        self.take(step, call, (decision, &mut decided)).await?;
                    }
                }
                Ok(decided.into_update(step, &[]))
            }
            _ => self.decide_all(step, &calls).await,
        }
    }

    /// No call is made that neither a rule nor a person allowed: it is judged again at the moment it is made, for the
    /// world may have changed since it was looked at.
    async fn wrap_tool_call(
        &self,
        step: &StepContext<'_>,
        call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        match self.judge(step, &call).await {
            Some((_, Verdict::Deny { rule })) => Ok(ToolOutput::error(refused(&rule))),
            Some((_, Verdict::Ask { rule })) if !approved(step, &call.id) => Ok(ToolOutput::error(format!(
                "Not done: what this call would do has changed since it was looked at, and now a person has to approve \
                 it ({rule}). Make the call again if it is still needed."
            ))),
            Some((_, Verdict::Ask { .. } | Verdict::Allow { .. })) | None => next.run(call).await,
        }
    }
}

fn calls(answer: &AiMessage) -> Vec<ToolCall> {
    let calls = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, args } => {
            Some(ToolCall { id: id.clone(), name: name.clone(), args: args.clone() })
        }
        Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
    });
    calls.collect()
}
