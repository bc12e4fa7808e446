//! Questions: the interrupts of a thread that wait for a person, and the answers to them. What an answer does is
//! decided by the node that asked.

use jiff::Timestamp;
use journal::{ThreadPatch, Write};
use protocol::{Decisions, Interrupt, InterruptId, InterruptStatus, ThreadId, ThreadStatus};
use runtime::{Frames, RunEnd, Update};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::turns::admission;
use crate::{Error, Result};

impl Agent {
    /// Returns what waits for an answer in the thread, oldest first: tool calls, handoffs.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn pending(&self, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
        Ok(self.store.pending_interrupts(thread_id).await?)
    }

    /// Returns the interrupt, which must exist.
    ///
    /// # Errors
    /// When it does not, or the journal fails.
    pub async fn interrupt(&self, interrupt_id: InterruptId) -> Result<Interrupt> {
        let found = self.store.interrupt(interrupt_id).await?;
        found.ok_or_else(|| {
            journal::Error::NotFound { what: "interrupt", id: interrupt_id.to_string() }.into()
        })
    }

    /// Answers a question. The run goes on once every question of its step is answered; `None` says that others still
    /// wait. A handoff's question is better answered by [`Agent::decide_handoff`], which also tells what came of it.
    ///
    /// # Errors
    /// [`Error::Expired`] for a handoff that waits for too long; [`Error::OtherWorkspace`] when what was shown belongs to
    /// another folder;
    /// [`journal::Error::AlreadyDecided`] when someone else was first; [`runtime::Error::Rejected`] when the answer
    /// cannot be taken, and the question still waits then.
    pub async fn resume(
        &self,
        interrupt_id: InterruptId,
        decisions: &Decisions,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let interrupt = self.interrupt(interrupt_id).await?;
        self.recover(interrupt.thread_id, frames, cancel).await?;
        let interrupt = self.interrupt(interrupt_id).await?;
        self.check_age(&interrupt).await?;
        let end = self.answer(&interrupt, decisions, (frames, cancel)).await?;
        if let Some(end) = &end {
            self.end_stopped(interrupt.thread_id, end, frames).await?;
        }
        Ok(end)
    }

    /// Checks the answer, stores it, and drives the run that goes on with it.
    pub(crate) async fn answer(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<Option<RunEnd>> {
        let (thread_id, interrupt_id) = (interrupt.thread_id, interrupt.interrupt_id);
        let assistant_id = self.thread(thread_id).await?.assistant_id;
        let model = self.models.open()?;
        let checkpoint = self.store.checkpoint(thread_id).await?;
        let purpose = self.purpose(thread_id, Some(&interrupt.node), checkpoint.as_ref()).await?;
        let driver = self.driver(&assistant_id, model.as_ref(), purpose).await?;
        let rejected = |rejection| runtime::Error::Rejected { interrupt_id, rejection };
        let Some(node) = driver.graph.get(&interrupt.node) else { return Err(Error::NoModel { thread_id }) };
        runtime::check_decisions(&**node, interrupt, decisions).map_err(rejected)?;
        node.check(interrupt, decisions, &self.store).await.map_err(rejected)?;
        let mut attempts = 0;
        loop {
            let admission = admission(thread_id, assistant_id.clone(), model.as_ref(), &driver.lease);
            let answer = [(interrupt, decisions)];
            let with = Update::default();
            let resumed = runtime::resume(&*self.store, &driver.graph, &admission, &answer, with).await?;
            let Some(admitted) = resumed else { return Ok(None) };
            match self.drive(&driver, admitted, (frames, cancel)).await {
                Err(runtime::Error::Outrun) if attempts < runtime::ATTEMPTS_MAX => attempts += 1,
                ended => return Ok(Some(ended?)),
            }
        }
    }

    /// Returns the writes that take back what sub-agents ask through these questions of their parent: a new message
    /// leaves nobody to answer them.
    pub(crate) async fn taken_back(&self, questions: &[Interrupt], at: Timestamp) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for request in questions.iter().flat_map(|question| &question.payload.action_requests) {
            let asked = request.details.as_ref().map(|details| details["subagent"]["interrupt_id"].clone());
            let Some(asked) = asked.and_then(|id| serde_json::from_value(id).ok()) else { continue };
            match self.store.interrupt(asked).await? {
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
