//! Figures about many handoffs: by outcome, how often they were drafted, what that took, how much of the conversation the
//! summary covers, what in it is unverified, and how long a decision took. The views over the mirror give the same of those
//! that were accepted. Nothing is read here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::{Handoff, HandoffStatus, HandoffSummary};
use serde::Serialize;

use super::coverage::{Counts, counts};

/// What is counted of a handoff.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The handoff.
    pub handoff: &'a Handoff,
    /// The summary that was decided about, or else the newest; `None` before there is one.
    pub summary: Option<&'a HandoffSummary>,
    /// Tokens that all drafts took together.
    pub tokens_drafting: u64,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
}

/// Figures of all handoffs that were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// How many there are.
    pub handoffs: u64,
    /// Those of each outcome that there is, in the order of its name.
    pub outcomes: BTreeMap<&'static str, Figures>,
}

/// Figures of the handoffs of one outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// How many there are.
    pub handoffs: u64,
    /// Iterations after the first draft, of all together.
    pub iterations: u64,
    /// The most of one.
    pub iterations_max: u64,
    /// Tokens that their summaries took.
    pub tokens_used: u64,
    /// Tokens that all their drafts took.
    pub tokens_drafting: u64,
    /// Items of their summaries.
    pub items: u64,
    /// Items that name something the conversation does not contain.
    pub unverified_items: u64,
    /// Messages that their conversations have.
    pub messages: u64,
    /// Messages whose text reached the summariser whole.
    pub verbatim: u64,
    /// Messages that reached it condensed.
    pub summarized: u64,
    /// Messages that reached it shortened.
    pub truncated: u64,
    /// Messages that did not reach it.
    pub excluded: u64,
    /// Milliseconds from the request to the decision that half of the decided ones did not exceed.
    pub decision_ms_p50: Option<u64>,
    /// The same of nine in ten.
    pub decision_ms_p90: Option<u64>,
    /// Each of them.
    #[serde(skip)]
    decision_ms: Vec<u64>,
}

impl Statistics {
    /// Counts a handoff as one that stands at `status`: nobody gave up yet what is too old.
    pub fn count(&mut self, status: HandoffStatus, counted: Counted<'_>) {
        self.handoffs += 1;
        self.outcomes.entry(status.outcome()).or_default().count(counted);
    }

    /// Works out what needs all of them.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.outcomes.values_mut().for_each(Figures::finish);
        self
    }
}

impl Figures {
    fn count(&mut self, counted: Counted<'_>) {
        self.handoffs += 1;
        self.tokens_drafting += counted.tokens_drafting;
        if let Some(at) = counted.decided_at {
            let took = at.duration_since(counted.handoff.created_at);
            // A clock that was put back makes no decision earlier than its request.
            self.decision_ms.push(u64::try_from(round_millis(took)).unwrap_or(0));
        }
        let Some(summary) = counted.summary else { return };
        let iteration = u64::from(summary.iteration);
        self.iterations += iteration;
        self.iterations_max = self.iterations_max.max(iteration);
        self.tokens_used += summary.tokens_used;
        self.items += summary.body.len() as u64;
        self.unverified_items += summary.body.iter().filter(|item| !item.verified).count() as u64;
        let Counts { messages, verbatim, summarized, truncated, excluded, other_events: _ } =
            counts(&summary.coverage);
        self.messages += messages;
        self.verbatim += verbatim;
        self.summarized += summarized;
        self.truncated += truncated;
        self.excluded += excluded;
    }

    fn finish(&mut self) {
        self.decision_ms.sort_unstable();
        self.decision_ms_p50 = percentile(&self.decision_ms, 50);
        self.decision_ms_p90 = percentile(&self.decision_ms, 90);
    }
}

fn round_millis(duration: jiff::SignedDuration) -> i128 {
    (duration.as_nanos() + 500_000).div_euclid(1_000_000)
}

/// Returns the first of the sorted values that `percent` of them do not exceed, as SQL's `percentile_disc` does.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
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
