//! Pending handoffs that nobody decides: after a while they are given up, so that a decision about something nobody
//! remembers is not taken. Nothing watches the clock; a handoff is looked at when somebody comes to it.

use jiff::{SignedDuration, Timestamp};
use journal::{ThreadPatch, Transaction, Write};
use protocol::{Handoff, HandoffStatus, Interrupt, ThreadStatus};
use runtime::Channels;

use crate::agent::services::HandoffService;
use crate::{Error, Result};

impl HandoffService<'_> {
    /// Returns whether the handoff waits for longer than the settings allow. Looking at it changes nothing.
    pub(super) fn is_old(self, handoff: &Handoff) -> bool {
        let days_max = self.agent.config.handoff.expires_after_days;
        let age_max = SignedDuration::from_hours(i64::from(days_max) * 24);
        handoff.status == HandoffStatus::AwaitingDecision
            && days_max > 0
            && Timestamp::now().duration_since(handoff.updated_at) > age_max
    }

    /// Checks that the interrupt is not the question of a handoff that waits for too long, and gives that one up.
    ///
    /// # Errors
    /// [`crate::HandoffError::Expired`] when it is.
    pub(crate) async fn check_age(self, interrupt: &Interrupt) -> Result<()> {
        let Some(handoff_id) = super::look::handoff_of(interrupt) else { return Ok(()) };
        let Some(handoff) = self.agent.store.handoff(handoff_id).await? else { return Ok(()) };
        match self.unexpired(Some(handoff)).await? {
            Some(_) => Ok(()),
            None => Err(super::expired(handoff_id, None).into()),
        }
    }

    /// Returns `pending`, or nothing when it waited for longer than the settings allow: it is given up then, unless a run
    /// works on its thread.
    pub(super) async fn unexpired(self, pending: Option<Handoff>) -> Result<Option<Handoff>> {
        let Some(handoff) = pending else { return Ok(None) };
        if !self.is_old(&handoff)
            || !self.agent.store.active_runs(Some(handoff.parent_thread_id)).await?.is_empty()
        {
            return Ok(Some(handoff));
        }
        match self.expire(&handoff).await {
            Ok(()) => Ok(None),
            // Somebody decided at the last moment, and that holds.
            Err(Error::Journal(journal::Error::HandoffMoved { .. })) => {
                Ok(self.agent.store.handoff(handoff.handoff_id).await?)
            }
            Err(error) => Err(error),
        }
    }

    async fn expire(self, handoff: &Handoff) -> Result<()> {
        let now = Timestamp::now();
        let thread_id = handoff.parent_thread_id;
        let (mut next, channels) = match self.agent.store.checkpoint(thread_id).await? {
            Some(point) => (point.next, point.channels),
            None => (None, Channels::new()),
        };
        let mut writes = handoff::expired(handoff, &channels, now)?;
        let mut waiting = self.agent.store.pending_interrupts(thread_id).await?;
        if let Some(at) = waiting.iter().position(|interrupt| super::is_about(interrupt, handoff.handoff_id))
        {
            let asked = waiting.remove(at);
            let interrupt_id = asked.interrupt_id;
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at: now });
            next = next.filter(|node| *node != asked.node);
        }
        if waiting.is_empty() && next.is_none() {
            let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}
