//! Figures about the handoffs of one person. What is counted, and how, is decided in the `handoff` room.

use handoff::{Counted, Statistics};
use jiff::Timestamp;
use journal::HandoffFilter;
use protocol::{Handoff, HandoffStatus, Proposal};

use crate::Result;
use crate::agent::services::HandoffService;

impl HandoffService<'_> {
    /// Returns figures about the handoffs that were asked for at `since` or later, or about all. One that nobody decided about
    /// in time counts as expired, though nobody gave it up yet.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn statistics(self, since: Option<Timestamp>) -> Result<Statistics> {
        let mut statistics = Statistics::default();
        for handoff in self.agent.store.handoffs(HandoffFilter::default()).await? {
            // The newest come first.
            if since.is_some_and(|since| handoff.created_at < since) {
                break;
            }
            let status = if self.is_old(&handoff) { HandoffStatus::Expired } else { handoff.status };
            let proposals = self.agent.store.proposals(handoff.handoff_id).await?;
            let counted = Counted {
                handoff: &handoff,
                summary: decided_about(&handoff, &proposals).map(|proposal| &proposal.summary_json),
                tokens_drafting: proposals.iter().map(|proposal| proposal.summary_json.tokens_used).sum(),
                decided_at: handoff::mirror::decided_at(&*self.agent.store, &handoff).await?,
            };
            statistics.count(status, counted);
        }
        Ok(statistics.finish())
    }
}

/// Returns the proposal that was accepted, or else the newest.
fn decided_about<'a>(handoff: &Handoff, proposals: &'a [Proposal]) -> Option<&'a Proposal> {
    let accepted = |proposal: &&Proposal| Some(&proposal.summary_sha256) == handoff.accepted_sha256.as_ref();
    proposals.iter().find(accepted).or(proposals.last())
}
