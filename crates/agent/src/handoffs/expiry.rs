//! Expiry of pending handoffs. A handoff that is not decided in time expires, because a late decision would concern
//! a conversation that its participants no longer remember. A handoff is checked when it is read, expires when a command or
//! client wants to decide it, and at the start of a server.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use journal::{HandoffFilter, ThreadPatch, Transaction, Write};
use protocol::{Handoff, HandoffStatus, Interrupt, ThreadStatus};
use runtime::Channels;

use crate::HandoffService;
use crate::{Error, Result};

impl<'a> HandoffService<'a> {
    /// Expires all handoffs that are past their time limit and returns their number.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn expire_overdue(self) -> BoxFuture<'a, Result<usize>> {
        journal::box_future(async move {
            let filter =
                HandoffFilter { statuses: vec![HandoffStatus::AwaitingDecision], ..HandoffFilter::default() };
            let mut expired = 0;
            for handoff in self.agent.store.handoffs(filter).await? {
                let is_overdue = self.is_past_expiry(&handoff);
                if is_overdue && self.expire_if_due(Some(handoff)).await?.is_none() {
                    expired += 1;
                }
            }
            Ok(expired)
        })
    }

    /// Returns whether the handoff has been awaiting a decision for longer than `handoff.expires_after_days`.
    /// Changes nothing.
    pub(super) fn is_past_expiry(self, handoff: &Handoff) -> bool {
        let days_max = self.agent.config.handoff.expires_after_days;
        let age_max = SignedDuration::from_hours(i64::from(days_max) * 24);
        handoff.status == HandoffStatus::AwaitingDecision
            && days_max > 0
            && Timestamp::now().duration_since(handoff.updated_at) > age_max
    }

    /// Checks that the interrupt does not belong to a handoff that is past its time limit, and expires such a
    /// handoff.
    ///
    /// # Errors
    /// [`crate::HandoffError::Expired`] if the handoff has expired; otherwise fails only if the journal does.
    pub(crate) async fn check_not_expired(self, interrupt: &Interrupt) -> Result<()> {
        let Some(handoff_id) = super::queries::handoff_id_of(interrupt) else { return Ok(()) };
        let Some(handoff) = self.agent.store.handoff(handoff_id).await? else { return Ok(()) };
        match self.expire_if_due(Some(handoff)).await? {
            Some(_) => Ok(()),
            None => Err(super::expired_error(handoff_id, None).into()),
        }
    }

    /// Returns `pending`, or `None` if it is past its time limit and was expired by this call. A handoff does not
    /// expire while a run is active on its thread.
    pub(super) async fn expire_if_due(self, pending: Option<Handoff>) -> Result<Option<Handoff>> {
        let Some(handoff) = pending else { return Ok(None) };
        if !self.is_past_expiry(&handoff)
            || !self.agent.store.active_runs(Some(handoff.parent_thread_id)).await?.is_empty()
        {
            return Ok(Some(handoff));
        }
        match self.expire_handoff(&handoff).await {
            Ok(()) => Ok(None),
            // Another client decided at the same time. Its decision takes precedence.
            Err(Error::Journal(journal::Error::HandoffStatusChanged { .. })) => {
                Ok(self.agent.store.handoff(handoff.handoff_id).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// Expires a handoff in one transaction: its status, its interrupt, and the thread's status if nothing
    /// else is pending.
    async fn expire_handoff(self, handoff: &Handoff) -> Result<()> {
        let now = Timestamp::now();
        let thread_id = handoff.parent_thread_id;
        let (mut next, channels) = match self.agent.store.checkpoint(thread_id).await? {
            Some(checkpoint) => (checkpoint.next, checkpoint.channels),
            None => (None, Channels::new()),
        };
        let mut writes = handoff::expiry_writes(handoff, &channels, now)?;
        let mut interrupts = self.agent.store.pending_interrupts(thread_id).await?;
        if let Some(index) =
            interrupts.iter().position(|interrupt| super::is_about_handoff(interrupt, handoff.handoff_id))
        {
            let interrupt = interrupts.remove(index);
            let interrupt_id = interrupt.interrupt_id;
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at: now });
            next = next.filter(|node| *node != interrupt.node);
        }
        if interrupts.is_empty() && next.is_none() {
            let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}
