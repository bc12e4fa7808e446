//! Which events a summary covers, and how: disjoint ranges that together are everything from the first event to the
//! last. It records what selection did and decides nothing.

use protocol::summary::SeqRange;
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

/// Builds a [`Coverage`] from events in order.
#[derive(Debug, Clone, Default)]
pub struct CoverageBuilder {
    runs: Vec<(Seq, Seq, Reach)>,
}

impl CoverageBuilder {
    /// Records how the next event reached the summariser. Positions between it and the one before count as excluded;
    /// a position that is not after the last one is ignored.
    pub fn mark(&mut self, seq: Seq, reach: Reach) {
        if let Some(&(_, last, _)) = self.runs.last() {
            if seq <= last {
                return;
            }
            if seq > last + 1 {
                self.push(last + 1, seq - 1, Reach::Excluded);
            }
        }
        self.push(seq, seq, reach);
    }

    /// Says more exactly how an event that was marked before reached the summariser.
    pub fn refine(&mut self, seq: Seq, reach: Reach) {
        let at = self.runs.partition_point(|&(_, last, _)| last < seq);
        let Some(&(first, last, was)) = self.runs.get(at).filter(|(first, _, _)| *first <= seq) else {
            return;
        };
        let before = (first < seq).then(|| (first, seq - 1, was));
        let after = (seq < last).then(|| (seq + 1, last, was));
        self.runs.splice(at..=at, before.into_iter().chain([(seq, seq, reach)]).chain(after));
    }

    fn push(&mut self, first: Seq, last: Seq, reach: Reach) {
        match self.runs.last_mut() {
            Some(run) if run.2 == reach => run.1 = last,
            _ => self.runs.push((first, last, reach)),
        }
        if self.runs.len() > 2 * COVERAGE_RANGES_MAX {
            self.runs = merged(std::mem::take(&mut self.runs));
        }
    }

    /// Returns the ledger of everything marked.
    pub fn finish(self) -> Coverage {
        let mut runs = joined(self.runs);
        while runs.len() > COVERAGE_RANGES_MAX {
            runs = merged(runs);
        }
        let mut coverage = Coverage {
            first_seq: runs.first().map_or(0, |run| run.0),
            last_seq: runs.last().map_or(0, |run| run.1),
            ..Coverage::default()
        };
        for (first, last, reach) in runs {
            list(&mut coverage, reach).push((first, last));
        }
        coverage
    }
}

/// Joins neighbours that reached the summariser the same way.
fn joined(runs: Vec<(Seq, Seq, Reach)>) -> Vec<(Seq, Seq, Reach)> {
    let mut out: Vec<(Seq, Seq, Reach)> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if last.2 == run.2 => last.1 = run.1,
            _ => out.push(run),
        }
    }
    out
}

/// Makes fewer ranges: half of the shorter ones that claim something claim one step less, so that they join their
/// neighbours. Little of the claim is lost that way, and nothing is claimed that did not happen.
fn merged(mut runs: Vec<(Seq, Seq, Reach)>) -> Vec<(Seq, Seq, Reach)> {
    let length = |run: &(Seq, Seq, Reach)| run.1 - run.0;
    let mut lengths: Vec<Seq> = runs.iter().filter(|run| run.2 != Reach::Excluded).map(length).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let mut was_weakened = false;
    for at in 0..runs.len() {
        if runs[at].2 == Reach::Excluded {
            continue;
        }
        // Every other one, so that equally short ones do not all go at once.
        was_weakened = !was_weakened && length(&runs[at]) <= middle;
        if was_weakened {
            let before = at.checked_sub(1).map(|before| runs[before].2);
            let after = runs.get(at + 1).map(|run| run.2);
            let weaker = before.into_iter().chain(after).filter(|reach| *reach > runs[at].2).min();
            runs[at].2 = weaker.unwrap_or(runs[at].2);
        }
    }
    let before = runs.len();
    let runs = joined(runs);
    if runs.len() < before { runs } else { paired(&runs) }
}

/// Halves the number of ranges: pairs of neighbours become one with the weaker claim.
fn paired(runs: &[(Seq, Seq, Reach)]) -> Vec<(Seq, Seq, Reach)> {
    let pairs = runs.chunks(2).map(|pair| {
        (pair[0].0, pair[pair.len() - 1].1, pair.iter().map(|run| run.2).max().unwrap_or(pair[0].2))
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
            builder.mark(seq, if seq % 7 == 0 { Reach::Excluded } else { Reach::Summarized });
        }
        let coverage = builder.finish();
        let told: u64 = coverage.summarized.iter().map(|(first, last)| last - first + 1).sum();
        assert!(coverage.summarized.len() + coverage.excluded.len() <= COVERAGE_RANGES_MAX);
        assert_eq!(told, 200_000 - 200_000 / 7, "{} ranges", coverage.summarized.len());
    }

    const REACHES: [Reach; 4] = [Reach::Verbatim, Reach::Truncated, Reach::Summarized, Reach::Excluded];

    proptest! {
        #[test]
        fn m5_the_ranges_are_disjoint_and_complete(
            marks in prop::collection::vec((1u64..4, 0usize..4), 1..300),
            refined in prop::collection::vec((1u64..600, 0usize..4), 0..40),
        ) {
            let mut builder = CoverageBuilder::default();
            let mut seq = 0;
            for (step, reach) in &marks {
                seq += step;
                builder.mark(seq, REACHES[*reach]);
            }
            for (seq, reach) in &refined {
                builder.refine(*seq, REACHES[*reach]);
            }
            let coverage = builder.finish();
            let mut all: Vec<SeqRange> =
                [&coverage.verbatim, &coverage.truncated, &coverage.summarized, &coverage.excluded].into_iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all.first().map(|range| range.0), Some(coverage.first_seq));
            prop_assert_eq!(all.last().map(|range| range.1), Some(seq));
            prop_assert!(all.iter().all(|range| range.0 <= range.1));
            prop_assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        }
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut builder = CoverageBuilder::default();
        for seq in 1..=100_000 {
            builder.mark(seq, REACHES[seq as usize % 4]);
        }
        let coverage = builder.finish();
        assert!(coverage.excluded.len() <= COVERAGE_RANGES_MAX);
        assert_eq!((coverage.first_seq, coverage.last_seq), (1, 100_000));
    }
}
