//! Which events a summary covers, and how: disjoint ranges that together are everything from the first event to the
//! last, and the numbers that are told of them. It records what selection did and decides nothing.

use protocol::handoff::summary::SeqRange;
use protocol::{Coverage, Seq};

use crate::limits::COVERAGE_RANGES_MAX;

/// How an event reached the summariser; a later variant claims less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Its text, whole.
    Verbatim,
    /// Its text, shortened.
    Truncated,
    /// One line, or an entry of the ledger.
    Summarized,
    /// Not at all.
    Excluded,
}

/// What is told of a coverage in one line. Messages are `verbatim + summarized + truncated + excluded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages among the positions.
    pub messages: u64,
    /// Messages whose text reached the summariser whole.
    pub verbatim: u64,
    /// Messages that reached it condensed.
    pub summarized: u64,
    /// Messages that reached it shortened.
    pub truncated: u64,
    /// Messages that did not reach it.
    pub excluded: u64,
    /// Positions that are no messages: what was noted of runs, and what a rewind took back.
    pub other_events: u64,
}

/// Returns the numbers of a coverage. They are the ledger's: the first three lists hold messages only.
pub fn counts(coverage: &Coverage) -> Counts {
    let positions = |ranges: &[SeqRange]| ranges.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    let (verbatim, summarized, truncated) =
        (positions(&coverage.verbatim), positions(&coverage.summarized), positions(&coverage.truncated));
    let reached = verbatim + summarized + truncated;
    let messages = coverage.messages.max(reached);
    let all = reached + positions(&coverage.excluded);
    Counts {
        messages,
        verbatim,
        summarized,
        truncated,
        excluded: messages - reached,
        other_events: all.saturating_sub(messages),
    }
}

/// Builds a [`Coverage`] from events in order.
#[derive(Debug, Clone, Default)]
pub struct CoverageBuilder {
    runs: Vec<CoverageRun>,
    messages: u64,
}

/// Consecutive positions that reached the summarizer the same way.
#[derive(Debug, Clone, Copy)]
struct CoverageRun {
    first: Seq,
    last: Seq,
    reach: Reach,
}

impl CoverageBuilder {
    /// Records how the next event, a message, reached the summariser. Positions between it and the one before count as
    /// excluded; a position that is not after the last one is ignored.
    pub fn message(&mut self, seq: Seq, reach: Reach) {
        self.messages += u64::from(self.mark(seq, reach));
    }

    /// Records that the next event is no message; see [`CoverageBuilder::message`].
    pub fn other(&mut self, seq: Seq) {
        self.mark(seq, Reach::Excluded);
    }

    /// Records that the positions up to `last` that are not recorded, or from the first of the thread on, are left out,
    /// and how many of them are messages.
    pub(crate) fn left_out(&mut self, last: Seq, messages: u64) {
        let first = self.runs.last().map_or(1, |run| run.last + 1);
        if first <= last {
            self.push(first, last, Reach::Excluded);
            self.messages += messages;
        }
    }

    /// Returns about how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.len() * size_of::<CoverageRun>()
    }

    /// Returns whether the position was taken.
    fn mark(&mut self, seq: Seq, reach: Reach) -> bool {
        if let Some(&CoverageRun { last, .. }) = self.runs.last() {
            if seq <= last {
                return false;
            }
            if seq > last + 1 {
                self.push(last + 1, seq - 1, Reach::Excluded);
            }
        }
        self.push(seq, seq, reach);
        true
    }

    fn push(&mut self, first: Seq, last: Seq, reach: Reach) {
        match self.runs.last_mut() {
            Some(run) if run.reach == reach => run.last = last,
            Some(_) | None => self.runs.push(CoverageRun { first, last, reach }),
        }
        if self.runs.len() > 2 * COVERAGE_RANGES_MAX {
            self.runs = merged(std::mem::take(&mut self.runs));
        }
    }

    /// Returns the ledger of everything recorded, with what is known more exactly of some messages; of two claims for
    /// one of them the weaker counts.
    pub fn finish(&self, mut refined: Vec<(Seq, Reach)>) -> Coverage {
        refined.sort_unstable();
        let mut runs = joined(refine(&self.runs, &refined));
        while runs.len() > COVERAGE_RANGES_MAX {
            runs = merged(runs);
        }
        let mut coverage = Coverage {
            first_seq: runs.first().map_or(0, |run| run.first),
            last_seq: runs.last().map_or(0, |run| run.last),
            messages: self.messages,
            ..Coverage::default()
        };
        for CoverageRun { first, last, reach } in runs {
            list(&mut coverage, reach).push((first, last));
        }
        coverage
    }
}

/// Returns the runs with those of single positions in their place; `refined` is sorted, and its last claim counts.
fn refine(runs: &[CoverageRun], refined: &[(Seq, Reach)]) -> Vec<CoverageRun> {
    let mut out = Vec::with_capacity(runs.len() + 2 * refined.len());
    let mut refined = refined.iter().copied().peekable();
    for &CoverageRun { first, last, reach } in runs {
        let mut from = first;
        while let Some((seq, claim)) = refined.next_if(|(seq, _)| *seq <= last) {
            let is_repeated = refined.peek().is_some_and(|(next, _)| *next == seq);
            if is_repeated || seq < from {
                continue;
            }
            if from < seq {
                out.push(CoverageRun { first: from, last: seq - 1, reach });
            }
            out.push(CoverageRun { first: seq, last: seq, reach: claim });
            from = seq + 1;
        }
        if from <= last {
            out.push(CoverageRun { first: from, last, reach });
        }
    }
    out
}

/// Joins neighbours that reached the summariser the same way.
fn joined(runs: Vec<CoverageRun>) -> Vec<CoverageRun> {
    let mut out: Vec<CoverageRun> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if last.reach == run.reach => last.last = run.last,
            Some(_) | None => out.push(run),
        }
    }
    out
}

/// Makes fewer ranges: half of the shorter ones that claim something claim one step less, so that they join their
/// neighbours. Little of the claim is lost that way, and nothing is claimed that did not happen.
fn merged(mut runs: Vec<CoverageRun>) -> Vec<CoverageRun> {
    let length = |run: &CoverageRun| run.last - run.first;
    let mut lengths: Vec<Seq> = runs.iter().filter(|run| run.reach != Reach::Excluded).map(length).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let mut was_weakened = false;
    for at in 0..runs.len() {
        if runs[at].reach == Reach::Excluded {
            continue;
        }
        // Every other one, so that equally short ones do not all go at once.
        was_weakened = !was_weakened && length(&runs[at]) <= middle;
        if was_weakened {
            let before = at.checked_sub(1).map(|before| runs[before].reach);
            let after = runs.get(at + 1).map(|run| run.reach);
            let weaker = before.into_iter().chain(after).filter(|reach| *reach > runs[at].reach).min();
            runs[at].reach = weaker.unwrap_or(runs[at].reach);
        }
    }
    let before = runs.len();
    let runs = joined(runs);
    if runs.len() < before { runs } else { paired(&runs) }
}

/// Halves the number of ranges: pairs of neighbours become one with the weaker claim.
fn paired(runs: &[CoverageRun]) -> Vec<CoverageRun> {
    let pairs = runs.chunks(2).map(|pair| {
        let reach = pair.iter().map(|run| run.reach).max().unwrap_or(pair[0].reach);
        CoverageRun { first: pair[0].first, last: pair[pair.len() - 1].last, reach }
    });
    joined(pairs.collect())
}

fn list(coverage: &mut Coverage, reach: Reach) -> &mut Vec<SeqRange> {
    match reach {
        Reach::Verbatim => &mut coverage.verbatim,
        Reach::Truncated => &mut coverage.truncated,
        Reach::Summarized => &mut coverage.summarized,
        Reach::Excluded => &mut coverage.excluded,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn m5_a_long_thread_is_not_told_as_left_out() {
        let mut builder = CoverageBuilder::default();
        for seq in 1..=200_000u64 {
            if seq % 7 == 0 { builder.other(seq) } else { builder.message(seq, Reach::Summarized) }
        }
        let coverage = builder.finish(Vec::new());
        assert!(coverage.summarized.len() + coverage.excluded.len() <= COVERAGE_RANGES_MAX);
        let told = counts(&coverage);
        assert_eq!((told.summarized, told.excluded), (200_000 - 200_000 / 7, 0), "{told:?}");
    }

    const REACHES: [Reach; 4] = [Reach::Verbatim, Reach::Truncated, Reach::Summarized, Reach::Excluded];

    /// What is recorded of a thread: how far apart, whether a message, and how it reached the summariser.
    fn marks() -> impl Strategy<Value = Vec<(u64, bool, usize)>> {
        prop::collection::vec((1u64..4, prop::bool::weighted(0.7), 0usize..4), 1..300)
    }

    fn all(coverage: &Coverage) -> Vec<SeqRange> {
        let lists = [&coverage.verbatim, &coverage.truncated, &coverage.summarized, &coverage.excluded];
        let mut all: Vec<SeqRange> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    proptest! {
        #[test]
        fn m5_the_ranges_are_disjoint_and_complete_and_the_numbers_are_theirs(
            marks in marks(), refined in prop::collection::vec((0usize..300, 0usize..4), 0..40), left_out in 0u64..9,
        ) {
            let mut builder = CoverageBuilder::default();
            let mut seq = 0;
            let mut messages = Vec::new();
            for (step, is_message, reach) in &marks {
                seq += step;
                if *is_message {
                    builder.message(seq, REACHES[*reach]);
                    messages.push((seq, REACHES[*reach]));
                } else {
                    builder.other(seq);
                }
            }
            seq += left_out;
            builder.left_out(seq, left_out);
            let mut claims = Vec::new();
            for (at, reach) in &refined {
                let is_first = messages.get(*at).is_some_and(|(seq, _)| claims.iter().all(|(known, _)| known != seq));
                if is_first {
                    messages[*at].1 = REACHES[*reach];
                    claims.push(messages[*at]);
                }
            }
            let coverage = builder.finish(claims);
            let all = all(&coverage);
            prop_assert_eq!(all.first().map(|range| range.0), Some(coverage.first_seq));
            prop_assert_eq!(all.last().map(|range| range.1), Some(seq));
            prop_assert!(all.iter().all(|range| range.0 <= range.1));
            prop_assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            let told = counts(&coverage);
            let expected = |reach| messages.iter().filter(|(_, is)| *is == reach).count() as u64;
            prop_assert_eq!(told.messages, messages.len() as u64 + left_out);
            prop_assert_eq!(told.verbatim, expected(Reach::Verbatim));
            prop_assert_eq!(told.summarized, expected(Reach::Summarized));
            prop_assert_eq!(told.truncated, expected(Reach::Truncated));
            prop_assert_eq!(told.excluded, expected(Reach::Excluded) + left_out);
        }
    }

    #[test]
    fn m5_where_ranges_are_too_many_no_claim_is_made_for_what_is_no_message() {
        let mut builder = CoverageBuilder::default();
        let reach = |seq: u64| REACHES[seq as usize % 3];
        let is_message = |seq: u64| !seq.is_multiple_of(5);
        let last = 4 * COVERAGE_RANGES_MAX as u64;
        for seq in 1..=last {
            if is_message(seq) { builder.message(seq, reach(seq)) } else { builder.other(seq) }
        }
        let coverage = builder.finish(Vec::new());
        assert!(all(&coverage).len() <= COVERAGE_RANGES_MAX);
        assert_eq!((coverage.first_seq, coverage.last_seq), (1, last));
        for (list, weakest) in [
            (&coverage.verbatim, Reach::Verbatim),
            (&coverage.truncated, Reach::Truncated),
            (&coverage.summarized, Reach::Summarized),
        ] {
            let mut claimed = list.iter().flat_map(|(first, last)| *first..=*last);
            assert!(claimed.all(|seq| is_message(seq) && reach(seq) <= weakest), "{weakest:?}");
        }
        let told = counts(&coverage);
        assert_eq!(told.messages, last - last / 5);
        assert_eq!(told.messages, told.verbatim + told.summarized + told.truncated + told.excluded);
    }

    #[test]
    fn a_coverage_without_the_number_of_messages_still_adds_up() {
        let coverage = Coverage {
            first_seq: 1,
            last_seq: 9,
            summarized: vec![(2, 4)],
            excluded: vec![(1, 1), (5, 9)],
            ..Coverage::default()
        };
        let told = counts(&coverage);
        assert_eq!((told.messages, told.excluded, told.other_events), (3, 0, 6));
    }
}
