//! Pending handoffs that nobody decides: after a while they are given up, so that a decision about something nobody
//! remembers is not taken. Nothing watches the clock; a handoff is looked at when somebody comes to it.

use jiff::{SignedDuration, Timestamp};
use journal::{ThreadPatch, Transaction, Write};
use protocol::{Handoff, HandoffStatus, ThreadStatus};

use crate::agent::Agent;
use crate::{Error, Result};

impl Agent {
    /// Returns `pending`, or nothing when it waited for longer than the settings allow: it is given up then, unless a run
    /// works on its thread.
    pub(super) async fn unexpired(&self, pending: Option<Handoff>) -> Result<Option<Handoff>> {
        let (days_max, now) = (self.config.handoff.expires_after_days, Timestamp::now());
        let age_max = SignedDuration::from_hours(i64::from(days_max) * 24);
        let Some(handoff) = pending else { return Ok(None) };
        let is_old = handoff.status == HandoffStatus::AwaitingDecision
            && days_max > 0
            && now.duration_since(handoff.updated_at) > age_max;
        if !is_old || !self.store.active_runs(Some(handoff.parent_thread_id)).await?.is_empty() {
            return Ok(Some(handoff));
        }
        match self.give_up(&handoff, now).await {
            Ok(()) => Ok(None),
            // Somebody decided at the last moment, and that holds.
            Err(Error::Journal(journal::Error::HandoffMoved { .. })) => {
                Ok(self.store.handoff(handoff.handoff_id).await?)
            }
            Err(error) => Err(error),
        }
    }

    async fn give_up(&self, handoff: &Handoff, now: Timestamp) -> Result<()> {
        let thread_id = handoff.parent_thread_id;
        let channels = self.store.checkpoint(thread_id).await?.map(|point| point.channels).unwrap_or_default();
        let mut writes = handoff::expired(handoff, &channels, now)?;
        let mut waiting = self.store.pending_interrupts(thread_id).await?;
        if let Some(at) = waiting.iter().position(|interrupt| super::is_about(interrupt, handoff.handoff_id)) {
            let interrupt_id = waiting.remove(at).interrupt_id;
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at: now });
        }
        if waiting.is_empty() {
            let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}
