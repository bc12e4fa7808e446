//! Statistics about the handoffs of one owner. The `handoff` crate defines the metrics.

use futures::future::BoxFuture;
use handoff::{HandoffSample, HandoffStatistics};
use jiff::Timestamp;
use journal::HandoffFilter;
use protocol::{Handoff, HandoffStatus, Proposal};

use crate::HandoffService;
use crate::Result;

impl<'a> HandoffService<'a> {
    /// Returns statistics about the handoffs that were requested at or after `since`, or about all. A handoff
    /// past its time limit counts as expired, even if it has not been expired yet.
    ///
    /// Reads the proposals of each handoff. The cost is linear in the number of handoffs since `since`.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn statistics(self, since: Option<Timestamp>) -> BoxFuture<'a, Result<HandoffStatistics>> {
        journal::box_future(async move {
            let mut statistics = HandoffStatistics::default();
            for handoff in self.agent.store.handoffs(HandoffFilter::default()).await? {
                // The list is sorted from newest to oldest.
                if since.is_some_and(|since| handoff.created_at < since) {
                    break;
                }
                let status =
                    if self.is_past_expiry(&handoff) { HandoffStatus::Expired } else { handoff.status };
                let proposals = self.agent.store.proposals(handoff.handoff_id).await?;
                let sample = HandoffSample {
                    handoff: &handoff,
                    summary: accepted_or_newest_proposal(&handoff, &proposals)
                        .map(|proposal| &proposal.summary_json),
                    tokens_drafting: proposals.iter().map(|proposal| proposal.summary_json.tokens_used).sum(),
                    decided_at: handoff::mirror::decided_at(&*self.agent.store, &handoff).await?,
                };
                statistics.add_handoff(status, sample);
            }
            Ok(statistics.with_percentiles())
        })
    }
}

/// Returns the accepted proposal, or else the newest one.
fn accepted_or_newest_proposal<'a>(handoff: &Handoff, proposals: &'a [Proposal]) -> Option<&'a Proposal> {
    let accepted = |proposal: &&Proposal| Some(&proposal.summary_sha256) == handoff.accepted_sha256.as_ref();
    proposals.iter().find(accepted).or(proposals.last())
}
