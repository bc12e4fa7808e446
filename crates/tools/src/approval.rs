//! The hook that stands between the model's calls and the tools: what the rules allow goes through, what they deny gets
//! its refusal as a result, and a person is asked about the rest, in one question an answer. What the rules say is
//! decided in [`crate::permission`].

mod answer;
pub(crate) mod looked;
mod request;
mod visible;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{AiMessage, Block, Decisions, Interrupt};
use runtime::{
    Ask, Channels, Detail, Failure, Hook, NextCall, Point, Rejection, Review, StepContext, Subject, Tool,
    ToolCall, ToolContext, ToolOutput, Update,
};

use crate::files::change;
use crate::permission::{self, Policy, RuleBook, Verdict, decide};
use answer::{Decided, approved, asked, refused};
use looked::Looked;

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
                (Verdict::Ask { rule }, Policy::Allow) => {
                    let looked = Looked::new(&call.id, &review, None);
                    decided.approve(call, ("policy", Some(&rule)), looked)?;
                }
                (Verdict::Ask { rule }, Policy::Deny) => {
                    let reason = format!(
                        "Not done: a person would have to approve this call ({rule}), and nobody is there to ask. Go on \
                         without it, or say what is needed."
                    );
                    decided.refuse(call, ("policy", &rule), &reason)?;
                }
                (Verdict::Ask { rule }, Policy::Ask) => {
                    let (review, looked) = self.look(step, call, review).await;
                    let request = request::request(&self.book.rules(), call, (&review, &rule));
                    requests.push((looked, request));
                }
            }
        }
        let (calls, requests): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let mut update = decided.into_update(step, &calls);
        if !requests.is_empty() {
            update.asks.push(Ask { key: TOOL_APPROVAL.to_owned(), payload: request::payload(requests) });
        }
        Ok(update)
    }

    /// Returns what a person is shown of the call, and what has to be the same when it is made: of a change also the
    /// file, for the call may be made by a process that has not read it.
    async fn look(&self, step: &StepContext<'_>, call: &ToolCall, review: Review) -> (Review, Looked) {
        let ([Subject::Path(path)], Detail::Diff(_)) = (review.subjects.as_slice(), &review.detail) else {
            let looked = Looked::new(&call.id, &review, None);
            return (review, looked);
        };
        let content = change::content(&self.workspace, path).await;
        // If the file changed before it was hashed, this review has nothing to show, and the call does nothing.
        let review = match self.judge(step, call).await {
            Some((again, _)) => again,
            None => review,
        };
        let looked = Looked::new(&call.id, &review, content);
        (review, looked)
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
        let asked = asked(step);
        match step.answer(TOOL_APPROVAL) {
            Some(decisions) if !asked.is_empty() => {
                // The rules may be others by now; what was asked is in the state.
                let mut decided = Decided::default();
                for (looked, decision) in asked.into_iter().zip(&decisions.decisions) {
                    if let Some(call) = calls.iter().find(|call| call.id == looked.call_id) {
                        self.take(step, call, looked, (decision, &mut decided)).await?;
                    }
                }
                Ok(decided.into_update(step, &[]))
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
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        let changed = match self.judge(step, &call).await {
            Some((_, Verdict::Deny { rule })) => return Ok(ToolOutput::error(refused(&rule))),
            Some((review, Verdict::Ask { rule })) => match approved(step, &call.id) {
                Some(looked) => self.changed(&call, &looked.unknown(&review)),
                None => Some(rule),
            },
            Some((_, Verdict::Allow { .. })) | None => None,
        };
        match changed {
            Some(rule) => Ok(ToolOutput::error(format!(
                "Not done: what this call would do has changed since it was looked at, and now a person has to approve \
                 it ({rule}). Make the call again if it is still needed."
            ))),
            None => permission::during(self.book.rules(), next.run(call)).await,
        }
    }
}

impl ToolApproval {
    /// Returns why a person would have to be asked about what the call has come to be about since it was approved.
    fn changed(&self, call: &ToolCall, unknown: &Review) -> Option<String> {
        if unknown.subjects.is_empty() {
            return None;
        }
        match decide(&self.book.rules(), &call.name, unknown) {
            Verdict::Allow { .. } => None,
            Verdict::Ask { rule } | Verdict::Deny { rule } => Some(rule),
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
