//! Questions: the pending interrupts of a thread, and the answers to them. The node that raised an interrupt
//! defines the effect of an answer.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::Write;
use protocol::{Decisions, Interrupt, InterruptId, InterruptStatus, RunStatus, ThreadId};
use runtime::{FrameSender, RunEnd};
use tokio_util::sync::CancellationToken;

use super::RunStartContent;
use crate::Result;
use crate::RunService;
use crate::runs::request::action::RunInput;

impl<'a> RunService<'a> {
    /// Returns the pending interrupts of the thread, oldest first. They ask about tool calls or handoffs.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn pending_interrupts(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<Interrupt>>> {
        journal::box_future(async move { Ok(self.agent.store.pending_interrupts(thread_id).await?) })
    }

    /// Returns an interrupt.
    ///
    /// # Errors
    /// [`journal::Error::NotFound`] if it does not exist or belongs to another owner.
    pub fn interrupt(self, interrupt_id: InterruptId) -> BoxFuture<'a, Result<Interrupt>> {
        journal::box_future(async move {
            let interrupt = self.agent.store.interrupt(interrupt_id).await?;
            interrupt.ok_or_else(|| {
                journal::Error::NotFound { what: "interrupt", id: interrupt_id.to_string() }.into()
            })
        })
    }

    /// Answers an interrupt, and drives the run that resumes with the answer. Returns `None` if other
    /// interrupts of the same step are still pending: the run resumes once all of them are answered.
    ///
    /// For the interrupt of a handoff, prefer [`crate::HandoffService::decide`], which also returns the
    /// outcome of the handoff.
    ///
    /// # Errors
    /// [`crate::HandoffError::Expired`] for a handoff past its time limit. [`crate::RunError::WorkspaceGone`]
    /// if an approved call's folder does not exist here. [`crate::HandoffError::NotMergeable`] if the child of
    /// the handoff cannot get its summary. [`journal::Error::AlreadyDecided`] if another client
    /// answered first. [`runtime::Error::Rejected`] if the answer is invalid; the interrupt stays pending in
    /// that case.
    pub fn resume(
        self,
        interrupt_id: InterruptId,
        decisions: &'a Decisions,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<RunEnd>>> {
        journal::box_future(async move {
            let thread_id = self.interrupt(interrupt_id).await?.thread_id;
            self.recover_before_run(thread_id, frames, cancel).await?;
            self.answer_interrupt(&self.interrupt(interrupt_id).await?, decisions, frames, cancel).await
        })
    }

    /// Answers an interrupt, and drives the run that resumes with the answer, without recovering the thread
    /// first.
    pub(crate) async fn answer_interrupt(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let interrupt_id = interrupt.interrupt_id;
        if interrupt.status != InterruptStatus::Pending {
            let rejection = runtime::DecisionRejection::NotPending(interrupt.status);
            return Err(runtime::Error::Rejected { interrupt_id, rejection }.into());
        }
        let input = RunInput::from_answer(interrupt_id, decisions.clone());
        let ended =
            self.run_in_workspace(interrupt.thread_id, RunStartContent::Input(&input), frames, cancel).await;
        let end = self.agent.handoffs().explain_merge_race(interrupt, decisions, ended).await?;
        let is_waiting = end.status == RunStatus::Interrupted
            && self
                .agent
                .store
                .checkpoint(interrupt.thread_id)
                .await?
                .is_some_and(|point| point.run_id != end.run_id);
        Ok((!is_waiting).then_some(end))
    }

    /// Returns the writes that withdraw the questions of sub-agents that these questions of their parent
    /// relay. They are needed when a new message withdraws the parent's questions, because nobody can answer
    /// the sub-agents' questions after that.
    pub(crate) async fn withdrawal_writes(
        self,
        questions: &[Interrupt],
        at: Timestamp,
    ) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for question in questions {
            writes.extend(runtime::relayed_withdrawals(&*self.agent.store, question, at).await?);
        }
        Ok(writes)
    }
}
