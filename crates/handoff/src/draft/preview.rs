//! A preview of a handoff: what its first draft would propose, without storing anything.
//!
//! The same nodes draft as in a run. Nodes return values and only the driver commits, so a node without a driver has no
//! durable effect.

use std::sync::Arc;

use futures::future::BoxFuture;
use journal::{Store, Write};
use protocol::{Handoff, HandoffStatus, InterruptPayload, Proposal, RunId, Usage};
use runtime::{
    Channels, EarlyCommitSender, FailureKind, FrameSender, GraphUpdate, Node, RunScope, StepContext,
    StepEntry, StepFailure,
};

use crate::draft::parts::estimate::PartsEstimate;
use crate::draft::parts::{PartLimits, PartPlan};
use crate::draft::summarization::HandoffSummarization;
use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::ScanRequest;
use crate::request::{PreparedHandoffRequest, handoff_run_start, requested_handoff};
use crate::review::approval::HandoffApproval;

/// A proposal that was drafted only to be shown. Neither it nor its handoff is stored.
#[derive(Debug, Clone)]
pub struct HandoffPreview {
    /// The handoff as its row would read after the decision `preview`.
    pub handoff: Handoff,
    /// The proposal.
    pub proposal: Proposal,
    /// The question that a run would raise about the proposal.
    pub payload: InterruptPayload,
    /// The tokens that the draft used.
    pub usage: Usage,
}

impl HandoffApproval {
    /// Returns the calls that the first draft of `request` needs for the parts of a long conversation. No model is called.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn estimate_parts<'a>(
        &'a self,
        store: &'a Arc<dyn Store>,
        request: &'a PreparedHandoffRequest,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<PartsEstimate, StepFailure>> {
        journal::box_future(async move {
            let Some(model) = &self.drafting.model else { return Ok(PartsEstimate::default()) };
            let tokens_max = self.drafting.input_tokens_max(model);
            let Some(limits) = PartLimits::new(tokens_max, self.drafting.max_part_calls) else {
                return Ok(PartsEstimate::default());
            };
            let thread = ThreadSource { store: &**store, thread_id: request.parent_thread_id, frames };
            let goal = request.options.goal.as_deref().map(secrets::redact);
            let scan = ScanRequest { messages: request.options.messages, goal: goal.as_deref(), tokens_max };
            let scan = self.drafting.scan_cache.scan_thread(thread, scan).await?;
            let plan = PartPlan::new(thread, &scan, model, limits).await?;
            Ok(PartsEstimate::from_plan(&plan, model, &*self.drafting.price))
        })
    }

    /// Returns the first proposal that `request` leads to; `None` when the person stopped the draft. A model may be
    /// called, once for the draft and once for each part of a long conversation, but nothing is stored.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn preview<'a>(
        &'a self,
        store: &'a Arc<dyn Store>,
        request: &'a PreparedHandoffRequest,
        scope: RunScope<'a>,
    ) -> BoxFuture<'a, Result<Option<HandoffPreview>, StepFailure>> {
        journal::box_future(async move {
            let run_id = RunId::generate();
            let handoff = Handoff {
                status: HandoffStatus::Drafting,
                run_id: Some(run_id),
                ..requested_handoff(request)?
            };
            let mut preview = PreviewRun {
                store,
                scope,
                request,
                run_id,
                channels: handoff_run_start(request)?.channels,
                writes: vec![Write::CreateHandoff(handoff.clone())],
            };
            let drafted = preview.run_node(&HandoffSummarization { drafting: self.drafting.clone() }).await?;
            let proposal = preview.writes.iter().find_map(|write| {
                let Write::PutProposal(proposal) = write else { return None };
                Some(proposal.clone())
            });
            let Some(proposal) = proposal else { return Ok(None) };
            let asked = preview.run_node(self).await?;
            let question = asked.interrupts.into_iter().next();
            let payload = question.ok_or_else(missing_question_failure)?.payload;
            let handoff =
                Handoff { status: HandoffStatus::Previewed, updated_at: proposal.created_at, ..handoff };
            Ok(Some(HandoffPreview { handoff, proposal, payload, usage: drafted.usage }))
        })
    }
}

/// The nodes of a handoff run outside of a driver.
struct PreviewRun<'a> {
    /// The store that holds the thread. It is only read.
    store: &'a Arc<dyn Store>,
    /// The stream and the cancellation token of the preview.
    scope: RunScope<'a>,
    /// The request that is previewed.
    request: &'a PreparedHandoffRequest,
    /// The id of a run that does not exist. The draft carries it as a draft of a run carries the run's id.
    run_id: RunId,
    /// The state after the nodes so far.
    channels: Channels,
    /// The writes of the nodes so far, which are never applied.
    writes: Vec<Write>,
}

impl PreviewRun<'_> {
    /// Runs a node and adds its channels and writes to those of the nodes before it.
    async fn run_node(&mut self, node: &dyn Node) -> Result<GraphUpdate, StepFailure> {
        let early_commits = EarlyCommitSender::discarding();
        let step = StepContext {
            thread_id: self.request.parent_thread_id,
            run_id: self.run_id,
            step: 1,
            channels: &self.channels,
            entry: StepEntry::Fresh,
            start_seq: 0,
            answers: &[],
            store: self.store,
            frames: self.scope.frames,
            cancel: self.scope.cancel,
            early_commits: &early_commits,
            deferred_writes: &self.writes,
            context: None,
        };
        let mut update = node.run(step).await?;
        self.channels.extend(std::mem::take(&mut update.channels));
        self.writes.append(&mut update.writes);
        Ok(update)
    }
}

/// Returns the failure for an approval node that asks nothing about a proposal.
fn missing_question_failure() -> StepFailure {
    StepFailure::new(FailureKind::Internal, "find the question about the previewed proposal")
}
