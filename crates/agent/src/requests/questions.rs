//! Questions: the interrupts of a thread that wait for a person, and the answers to them. What an answer does is
//! decided by the node that asked.

use jiff::Timestamp;
use journal::{ThreadPatch, Write};
use protocol::{Decisions, Interrupt, InterruptId, InterruptStatus, RunStatus, ThreadId, ThreadStatus};
use runtime::{Frames, RunEnd};
use tokio_util::sync::CancellationToken;

use super::What;
use super::action::RunInput;
use crate::Result;
use crate::agent::services::RunService;

impl RunService<'_> {
    /// Returns what waits for an answer in the thread, oldest first: tool calls, handoffs.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn pending_interrupts(self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        Ok(self.agent.store.pending_interrupts(thread_id).await?)
    }

    /// Returns the interrupt, which must exist.
    ///
    /// # Errors
    /// When it does not, or the journal fails.
    pub async fn interrupt(self, interrupt_id: InterruptId) -> Result<Interrupt> {
        let found = self.agent.store.interrupt(interrupt_id).await?;
        found.ok_or_else(|| {
            journal::Error::NotFound { what: "interrupt", id: interrupt_id.to_string() }.into()
        })
    }

    /// Answers a question. The run goes on once every question of its step is answered; `None` says that others still
    /// wait. A handoff's question is better answered by [`crate::HandoffService::decide`], which also tells what came of it.
    ///
    /// # Errors
    /// [`crate::HandoffError::Expired`] for a handoff that waits for too long; [`crate::RunError::WorkspaceGone`] when a call is approved whose
    /// folder does not exist here; [`journal::Error::AlreadyDecided`] when someone else was first;
    /// [`runtime::Error::Rejected`] when the answer cannot be taken, and the question still waits then.
    pub async fn resume(
        self,
        interrupt_id: InterruptId,
        decisions: &Decisions,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let thread_id = self.interrupt(interrupt_id).await?.thread_id;
        self.take_up(thread_id, frames, cancel).await?;
        self.answer(&self.interrupt(interrupt_id).await?, decisions, frames, cancel).await
    }

    /// Answers a question, and drives the run that goes on with the answer.
    pub(crate) async fn answer(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let interrupt_id = interrupt.interrupt_id;
        if interrupt.status != InterruptStatus::Pending {
            let rejection = runtime::Rejection::NotPending(interrupt.status);
            return Err(runtime::Error::Rejected { interrupt_id, rejection }.into());
        }
        let input = RunInput::answer(interrupt_id, decisions.clone());
        let end = self.run_here(interrupt.thread_id, What::Given(&input), frames, cancel).await?;
        let is_waiting = end.status == RunStatus::Interrupted
            && self
                .agent
                .store
                .checkpoint(interrupt.thread_id)
                .await?
                .is_some_and(|point| point.run_id != end.run_id);
        Ok((!is_waiting).then_some(end))
    }

    /// Returns the writes that take back what sub-agents ask through these questions of their parent: a new message
    /// leaves nobody to answer them.
    pub(crate) async fn taken_back(self, questions: &[Interrupt], at: Timestamp) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for request in questions.iter().flat_map(|question| &question.payload.action_requests) {
            let Some(asked) = request.subagent().map(|question| question.interrupt_id) else { continue };
            match self.agent.store.interrupt(asked).await? {
                Some(inner) if inner.status == InterruptStatus::Pending => {
                    writes.push(Write::ResolveInterrupt { interrupt_id: asked, decisions: None, at });
                    let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
                    writes.push(Write::UpdateThread { thread_id: inner.thread_id, patch });
                }
                Some(_) | None => {}
            }
        }
        Ok(writes)
    }
}
