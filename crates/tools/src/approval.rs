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
    Ask, Channels, Detail, EDITED_ARGS_CHANNEL, Failure, Hook, NextCall, Point, Rejection, Review,
    StepContext, Subject, Tool, ToolCall, ToolContext, ToolOutput, Update,
};

use crate::files::change;
use crate::permission::{self, Policy, RuleBook, Verdict, decide};
use answer::{Decided, approved, asked, refused};
use looked::{Looked, WORKSPACE_CHANNEL};

/// The name of the hook, under which its question is answered.
const TOOL_APPROVAL: &str = "ToolApproval";

/// Decides which tool calls are made.
pub struct ToolApproval {
    tools: HashMap<String, Arc<dyn Tool>>,
    workspace: PathBuf,
    /// The workspace as people are shown it; `None` where the agent has no folder.
    named_workspace: Option<String>,
    book: Arc<RuleBook>,
    policy: Policy,
}

impl ToolApproval {
    /// Returns the hook for these tools. `policy` says what becomes of calls that a person would be asked about.
    pub fn new(tools: &[Arc<dyn Tool>], workspace: PathBuf, book: Arc<RuleBook>, policy: Policy) -> Self {
        let tools = tools.iter().map(|tool| (tool.spec().name, Arc::clone(tool))).collect();
        let named_workspace = Some(workspace.to_string_lossy().into_owned());
        Self { tools, workspace, named_workspace, book, policy }
    }

    /// Names no folder in questions: the agent has nothing of this machine.
    #[must_use]
    pub fn without_workspace(self) -> Self {
        Self { named_workspace: None, ..self }
    }

    /// Returns what a call would do and what the rules say about it; `None` for a tool that there is not.
    async fn judge(&self, step: &StepContext<'_>, call: &ToolCall) -> Option<(Review, Verdict)> {
        self.judge_in(&ToolContext::of(step, call, &self.workspace), call).await
    }

    async fn judge_in(&self, context: &ToolContext, call: &ToolCall) -> Option<(Review, Verdict)> {
        let tool = self.tools.get(&call.name)?;
        let review = tool.review(&call.args, context).await;
        let verdict = decide(&self.book.rules(), &call.name, &review);
        Some((review, verdict))
    }

    async fn decide_all(&self, step: &StepContext<'_>, calls: &[ToolCall]) -> Result<Update, Failure> {
        let mut decided = Decided::default();
        let mut requests = Vec::new();
        for call in calls {
            let Some((review, verdict)) = self.judge(step, call).await else { continue };
            match (verdict, self.policy) {
                (Verdict::Allow { .. }, _) => {}
                (Verdict::Deny { rule }, _) => decided.refuse(call, "rule", &rule, &refused(&rule))?,
                (Verdict::Ask { rule }, Policy::Allow) => {
                    let looked = Looked::new(&call.id, &review, None);
                    decided.approve(call, "policy", Some(&rule), looked)?;
                }
                (Verdict::Ask { rule }, Policy::Deny) => {
                    let reason = format!(
                        "Not done: a person would have to approve this call ({rule}), and nobody is there to ask. Go on \
                         without it, or say what is needed."
                    );
                    decided.refuse(call, "policy", &rule, &reason)?;
                }
                (Verdict::Ask { rule }, Policy::Ask) => {
                    let (review, looked) = self.look(step, call, review).await;
                    let request = request::request(&self.book.rules(), call, &review, &rule);
                    requests.push((looked, request));
                }
            }
        }
        let (calls, requests): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        let mut update = decided.into_update(step, calls)?;
        let workspace = self.named_workspace.clone().filter(|_| !requests.is_empty());
        looked::set_workspace(&mut update.channels, workspace.as_ref(), step.channels);
        if !requests.is_empty() {
            let payload = request::payload(requests, workspace);
            update.asks.push(Ask { key: TOOL_APPROVAL.to_owned(), payload });
        }
        Ok(update)
    }

    /// Returns the folder in which the calls of the newest answer were proposed, if that is not the one in which they
    /// would be made here.
    fn other_workspace(&self, step: &StepContext<'_>) -> Result<Option<String>, Failure> {
        let proposed = WORKSPACE_CHANNEL.get(step.channels)?;
        Ok(proposed.filter(|proposed| Some(proposed) != self.named_workspace.as_ref()))
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
            // The edge after the hooks reports a state that cannot be read.
            Point::AfterModel => matches!(runtime::wants_tools(channels), Ok(false)),
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
        let calls = calls(answer, step.channels)?;
        let asked = asked(step)?;
        match step.answer(TOOL_APPROVAL) {
            Some(decisions) if !asked.is_empty() => {
                // The rules may be others by now; what was asked is in the state.
                let mut decided = Decided::default();
                for (looked, decision) in asked.into_iter().zip(&decisions.decisions) {
                    if let Some(call) = calls.iter().find(|call| call.id == looked.call_id) {
                        self.take(step, call, looked, decision, &mut decided).await?;
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
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        if let Some(proposed) = self.other_workspace(step)? {
            return Ok(ToolOutput::error(format!(
                "Not done: this call was proposed in {proposed}, and is not made in another folder. Make it again if it is \
                 still needed."
            )));
        }
        let approved = approved(step, &call.id)?;
        let changed = match self.judge(step, &call).await {
            Some((_, Verdict::Deny { rule })) => return Ok(ToolOutput::error(refused(&rule))),
            Some((review, Verdict::Ask { rule })) => match approved {
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

/// Returns the calls of the answer, with the arguments that were put in place of their own.
fn calls(answer: &AiMessage, channels: &Channels) -> Result<Vec<ToolCall>, Failure> {
    let edited = EDITED_ARGS_CHANNEL.get(channels)?.unwrap_or_default();
    let calls = answer.content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, args } => {
            let args = edited.get(id).unwrap_or(args);
            Some(ToolCall { id: id.clone(), name: name.clone(), args: args.clone() })
        }
        Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
    });
    Ok(calls.collect())
}
