//! Pending handoffs that nobody decides: after a while they are given up, so that a decision about something nobody
//! remembers is not taken. Nothing watches the clock; a handoff is looked at when somebody comes to it.

use jiff::{SignedDuration, Timestamp};
use journal::{ThreadPatch, Transaction, Write};
use protocol::{Handoff, HandoffStatus, ThreadStatus};

use crate::Result;
use crate::agent::Agent;

impl Agent {
    /// Gives up `pending` if it waits for longer than the settings allow and no run works on its thread.
    pub(super) async fn expire(&self, pending: Option<Handoff>) -> Result<()> {
        let (days_max, now) = (self.config.handoff.expires_after_days, Timestamp::now());
        let age_max = SignedDuration::from_hours(i64::from(days_max) * 24);
        let is_old = |handoff: &Handoff| {
            handoff.status == HandoffStatus::AwaitingDecision
                && days_max > 0
                && now.duration_since(handoff.updated_at) > age_max
        };
        let Some(handoff) = pending.filter(is_old) else { return Ok(()) };
        let thread_id = handoff.parent_thread_id;
        if !self.store.active_runs(Some(thread_id)).await?.is_empty() {
            return Ok(());
        }
        let channels = self.store.checkpoint(thread_id).await?.map(|point| point.channels).unwrap_or_default();
        let mut writes = handoff::expired(&handoff, &channels, now)?;
        let mut waiting = self.store.pending_interrupts(thread_id).await?;
        if let Some(at) = waiting.iter().position(|interrupt| super::is_about(interrupt, handoff.handoff_id)) {
            let interrupt_id = waiting.remove(at).interrupt_id;
            writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at: now });
        }
        if waiting.is_empty() {
            let patch = ThreadPatch { status: Some(ThreadStatus::Idle), ..ThreadPatch::default() };
            writes.push(Write::UpdateThread { thread_id, patch });
        }
        match self.store.commit(Transaction { fence: None, writes }).await {
            // Somebody decided at the last moment, and that holds.
            Ok(_) | Err(journal::Error::HandoffMoved { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
