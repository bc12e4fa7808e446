//! Statistics about handoffs, grouped by outcome: iterations, tokens, coverage, unverified items, and the time to a
//! decision.
//!
//! The views of the mirror (`mirror/views.sql`) compute the same for accepted handoffs. The functions here are pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{Handoff, HandoffStatus, HandoffSummary};
use serde::Serialize;

use super::coverage::{CoverageCounts, count_coverage};
use super::message_use::count_message_uses;

/// The data of one handoff that the statistics use.
#[derive(Debug, Clone, Copy)]
pub struct HandoffSample<'a> {
    /// The handoff.
    pub handoff: &'a Handoff,
    /// The summary that was decided about, or else the newest; `None` when there is none yet.
    pub summary: Option<&'a HandoffSummary>,
    /// The tokens that all drafts of the handoff used.
    pub tokens_drafting: u64,
    /// The time of the decision; `None` when there is none.
    pub decided_at: Option<Timestamp>,
}

/// Statistics of a set of handoffs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HandoffStatistics {
    /// The number of handoffs.
    pub handoffs: u64,
    /// The statistics of each outcome that occurs, in the order of the outcomes' names.
    pub outcomes: BTreeMap<&'static str, OutcomeStatistics>,
}

/// Statistics of the handoffs of one outcome. Counts are sums over all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeStatistics {
    /// The number of handoffs.
    pub handoffs: u64,
    /// The number of iterations after the first drafts.
    pub iterations: u64,
    /// The largest number of iterations of a single handoff.
    pub iterations_max: u64,
    /// The tokens used by the drafts of the summaries.
    pub tokens_used: u64,
    /// The tokens used by all drafts.
    pub tokens_drafting: u64,
    /// The items of the summaries.
    pub items: u64,
    /// The items with a name that the covered messages do not contain.
    pub unverified_items: u64,
    /// The messages of the covered ranges.
    pub messages: u64,
    /// The messages that the summaries quote.
    pub quoted: u64,
    /// The messages to which items or facts of the summaries refer, without a quotation.
    pub represented: u64,
    /// The messages whose whole text reached the summarizer.
    pub verbatim: u64,
    /// The messages of which a line or a fact reached it.
    pub summarized: u64,
    /// The messages of which a part of the text reached it.
    pub truncated: u64,
    /// The messages that did not reach it.
    pub excluded: u64,
    /// The median time from the request to the decision, in milliseconds; `None` without a decided handoff.
    pub decision_ms_p50: Option<u64>,
    /// The 90th percentile of that time, in milliseconds.
    pub decision_ms_p90: Option<u64>,
    /// The time of each decided handoff, in milliseconds.
    #[serde(skip)]
    decision_ms: Vec<u64>,
}

impl HandoffStatistics {
    /// Adds a handoff under the outcome of `status`. The caller passes the status, because a handoff that is too old
    /// counts as expired before its row says so.
    pub fn add_handoff(&mut self, status: HandoffStatus, sample: HandoffSample<'_>) {
        self.handoffs += 1;
        self.outcomes.entry(status.outcome()).or_default().add_handoff(sample);
    }

    /// Returns the statistics with the percentiles computed. Call it after the last handoff was added.
    #[must_use]
    pub fn with_percentiles(mut self) -> Self {
        self.outcomes.values_mut().for_each(OutcomeStatistics::compute_percentiles);
        self
    }
}

impl OutcomeStatistics {
    /// Adds the counts of one handoff.
    fn add_handoff(&mut self, sample: HandoffSample<'_>) {
        self.handoffs += 1;
        self.tokens_drafting += sample.tokens_drafting;
        if let Some(decided_at) = sample.decided_at {
            let duration = decided_at.duration_since(sample.handoff.created_at);
            // The duration is negative if the system clock was set back between request and decision.
            self.decision_ms.push(u64::try_from(round_millis(duration)).unwrap_or(0));
        }
        let Some(summary) = sample.summary else { return };
        let iteration = u64::from(summary.iteration);
        self.iterations += iteration;
        self.iterations_max = self.iterations_max.max(iteration);
        self.tokens_used += summary.tokens_used;
        self.items += summary.body.len() as u64;
        self.unverified_items += summary.body.iter().filter(|item| !item.verified).count() as u64;
        let CoverageCounts { messages, verbatim, summarized, truncated, excluded, other_events: _ } =
            count_coverage(&summary.coverage);
        if let Some(uses) = count_message_uses(&summary.coverage) {
            self.quoted += uses.quoted;
            self.represented += uses.represented;
        }
        self.messages += messages;
        self.verbatim += verbatim;
        self.summarized += summarized;
        self.truncated += truncated;
        self.excluded += excluded;
    }

    /// Computes the percentiles from the collected times.
    fn compute_percentiles(&mut self) {
        self.decision_ms.sort_unstable();
        self.decision_ms_p50 = percentile(&self.decision_ms, 50);
        self.decision_ms_p90 = percentile(&self.decision_ms, 90);
    }
}

/// Returns the duration in milliseconds, rounded to the nearest one.
fn round_millis(duration: jiff::SignedDuration) -> i128 {
    (duration.as_nanos() + 500_000).div_euclid(1_000_000)
}

/// Returns the discrete percentile of sorted values: the smallest value that `percent` percent of them do not exceed,
/// as `percentile_disc` in SQL. Returns `None` for no values.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_always_one_of_the_values() {
        let check = |sorted: &[u64], expected: [Option<u64>; 2]| {
            assert_eq!([percentile(sorted, 50), percentile(sorted, 90)], expected, "{sorted:?}");
        };
        check(&[], [None, None]);
        check(&[7], [Some(7), Some(7)]);
        check(&[1, 2], [Some(1), Some(2)]);
        check(&[1, 2, 3], [Some(2), Some(3)]);
        check(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [Some(5), Some(9)]);
    }
}
