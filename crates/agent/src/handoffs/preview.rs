//! Previews of handoffs: the proposal that a request would store, without any durable effect. The `handoff` crate
//! drafts it.

use futures::future::BoxFuture;
use handoff::{HandoffOptions, HandoffPreview, PartsEstimate, PreparedHandoffRequest};
use jiff::Timestamp;
use protocol::{HandoffId, Interrupt, InterruptId, InterruptStatus, RunId, Thread, ThreadId};
use runtime::{FrameSender, RunScope};
use tokio_util::sync::CancellationToken;

use super::{
    HandoffRequestOptions, PendingHandoff, ProposalPresentation, is_same_request, with_normalized_goal,
};
use crate::{HandoffError, HandoffService, Result};

impl<'a> HandoffService<'a> {
    /// Returns the proposal that [`HandoffService::request`] would store, and stores nothing. If the thread has a
    /// pending proposal, that one is returned, with `is_new` unset. A new one has the status `previewed`, and its
    /// interrupt cannot be answered.
    ///
    /// A model is called at most once, and once for each part of a long conversation. A run that is active on the thread is no obstacle.
    ///
    /// # Errors
    /// Fails as [`HandoffService::request`] does, except that nothing can be busy.
    pub fn preview(
        self,
        thread_id: ThreadId,
        request: HandoffRequestOptions,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<PendingHandoff>> {
        journal::box_future(async move {
            let request = with_normalized_goal(request)?;
            let thread = self.agent.thread(thread_id).await?;
            if handoff::is_blank(&*self.agent.store, &thread).await? {
                return Err(HandoffError::EmptyThread(thread_id).into());
            }
            let stored = self.agent.stored_agent().handoffs();
            if let Some(pending) = stored.pending_for_request(thread_id, &request).await? {
                return Ok(pending);
            }
            let prepared = self.prepare_request(&thread, request).await?;
            let node = self.agent.handoff_approval_node(self.agent.models.open_if_usable().as_ref());
            let scope = RunScope { frames, cancel };
            match node.preview(&self.agent.store, &prepared, scope).await {
                Ok(Some(preview)) => Ok(unstored_proposal(preview)),
                Ok(None) => Err(HandoffError::Stopped(thread_id).into()),
                Err(failure) => Err(HandoffError::NotDrafted { thread_id, reason: failure.message }.into()),
            }
        })
    }

    /// Returns the model calls that [`HandoffService::request`] would make for the parts of a long conversation
    /// before its draft. No model is called and nothing is stored.
    ///
    /// # Errors
    /// Fails if the thread does not exist or the journal cannot be read.
    pub fn estimate_parts(
        self,
        thread_id: ThreadId,
        request: HandoffRequestOptions,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<PartsEstimate>> {
        journal::box_future(async move {
            let request = with_normalized_goal(request)?;
            let thread = self.agent.thread(thread_id).await?;
            let prepared = self.prepare_request(&thread, request).await?;
            let node = self.agent.handoff_approval_node(self.agent.models.open_if_usable().as_ref());
            let estimate = node.estimate_parts(&self.agent.store, &prepared, frames).await;
            let not_drafted = |failure: runtime::StepFailure| HandoffError::NotDrafted {
                thread_id,
                reason: failure.message,
            };
            Ok(estimate.map_err(not_drafted)?)
        })
    }

    /// Returns a request with new ids for its handoff and its child thread.
    pub(super) async fn prepare_request(
        self,
        thread: &Thread,
        request: HandoffRequestOptions,
    ) -> Result<PreparedHandoffRequest> {
        self.check_merge_target(thread.thread_id, request.into).await?;
        Ok(PreparedHandoffRequest {
            handoff_id: HandoffId::generate(),
            child_thread_id: request.into.unwrap_or_else(ThreadId::generate),
            parent_thread_id: thread.thread_id,
            assistant_id: thread.assistant_id.clone(),
            now: Timestamp::now(),
            // The workspace and the calling tool are set here, because a client must not choose them.
            options: HandoffOptions {
                workspace: self.agent.threads().thread_workspace(thread).await?,
                tool_call_id: None,
                ..request
            },
        })
    }

    /// Returns the proposal of the thread that awaits a decision; `None` if there is none, or if it is past its time
    /// limit.
    ///
    /// # Errors
    /// [`journal::Error::HandoffPending`] if it was requested with another goal or window.
    async fn pending_for_request(
        self,
        thread_id: ThreadId,
        request: &HandoffRequestOptions,
    ) -> Result<Option<PendingHandoff>> {
        let pending = handoff::find_pending_handoff(&*self.agent.store, thread_id).await?;
        let Some(handoff) = pending.filter(|handoff| !self.is_past_expiry(handoff)) else { return Ok(None) };
        let Some(interrupt) = self.handoff_interrupt(&handoff).await? else { return Ok(None) };
        if !is_same_request(request, &handoff) {
            let (parent_thread_id, handoff_id) = (thread_id, handoff.handoff_id);
            return Err(journal::Error::HandoffPending { parent_thread_id, handoff_id }.into());
        }
        self.pending_handoff(handoff, interrupt, ProposalPresentation::Repeated).await.map(Some)
    }
}

/// Returns a previewed proposal in the form of a pending one.
fn unstored_proposal(HandoffPreview { handoff, proposal, payload, usage }: HandoffPreview) -> PendingHandoff {
    let run_id = handoff.run_id.unwrap_or_else(RunId::generate);
    let interrupt = Interrupt {
        interrupt_id: InterruptId::derive(run_id, 1, handoff::APPROVAL_NODE),
        thread_id: handoff.parent_thread_id,
        run_id,
        node: handoff::APPROVAL_NODE.to_owned(),
        payload,
        status: InterruptStatus::Withdrawn,
        decisions: None,
        created_at: proposal.created_at,
        resolved_at: None,
    };
    let presented = PendingHandoff::new(handoff, interrupt, proposal, ProposalPresentation::First);
    PendingHandoff { draft_usage: Some(usage), ..presented }
}
