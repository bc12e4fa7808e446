//! The coverage ledger of a summary: for every event from the first to the last, how it reached the summarizer.
//!
//! The ledger consists of disjoint seq ranges that together are complete. It records the work of the selection and
//! makes no decision of its own.

use protocol::handoff::summary::SeqRange;
use protocol::{Coverage, Seq};

use crate::limits::COVERAGE_RANGES_MAX;

/// The way an event reached the summarizer. The order is from the strongest claim to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoverageClass {
    /// The summarizer got the whole text.
    Verbatim,
    /// The summarizer got a part of the text.
    Truncated,
    /// The summarizer got one line about the event, or a fact extracted from it.
    Summarized,
    /// The summarizer got nothing of the event.
    Excluded,
}

/// The number of messages in each coverage class. `messages` is `verbatim + summarized + truncated + excluded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoverageCounts {
    /// All messages in the covered range.
    pub messages: u64,
    /// Messages whose whole text reached the summarizer.
    pub verbatim: u64,
    /// Messages of which a line or a fact reached it.
    pub summarized: u64,
    /// Messages of which a part of the text reached it.
    pub truncated: u64,
    /// Messages that did not reach it.
    pub excluded: u64,
    /// Events in the covered range that are not messages, such as records of runs, and events that a rewind superseded.
    pub other_events: u64,
}

/// Counts the messages of a coverage by class.
///
/// The lists `verbatim`, `summarized` and `truncated` contain messages only, so their lengths are message counts. The
/// remaining messages are excluded ones. A coverage stored without the number of messages counts none as excluded.
pub fn count_coverage(coverage: &Coverage) -> CoverageCounts {
    let count = |ranges: &[SeqRange]| ranges.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    let (verbatim, summarized, truncated) =
        (count(&coverage.verbatim), count(&coverage.summarized), count(&coverage.truncated));
    let included = verbatim + summarized + truncated;
    let messages = coverage.messages.max(included);
    let total = included + count(&coverage.excluded);
    CoverageCounts {
        messages,
        verbatim,
        summarized,
        truncated,
        excluded: messages - included,
        other_events: total.saturating_sub(messages),
    }
}

/// A builder of a [`Coverage`] that takes events in order of their seq.
#[derive(Debug, Clone, Default)]
pub struct CoverageBuilder {
    /// The runs so far, in order and without gaps. There are at most `2 * COVERAGE_RANGES_MAX`.
    runs: Vec<CoverageRun<CoverageClass>>,
    /// The number of messages recorded, including skipped ones.
    messages: u64,
}

/// A run of consecutive seqs of one class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoverageRun<C> {
    /// The first seq.
    pub(crate) first: Seq,
    /// The last seq, inclusive.
    pub(crate) last: Seq,
    /// The class of all events in the run.
    pub(crate) class: C,
}

impl CoverageBuilder {
    /// Records the class of the next message. Seqs between it and the previous event count as excluded. A seq that is
    /// not greater than the previous one is ignored.
    pub fn add_message(&mut self, seq: Seq, class: CoverageClass) {
        self.messages += u64::from(self.add_position(seq, class));
    }

    /// Records the next event that is not a message; it counts as excluded. See [`CoverageBuilder::add_message`].
    pub fn add_other_event(&mut self, seq: Seq) {
        self.add_position(seq, CoverageClass::Excluded);
    }

    /// Records the seqs after the previous event, or from the first of the thread on, up to `last` as excluded.
    /// `messages` of them are messages.
    pub(crate) fn skip_to(&mut self, last: Seq, messages: u64) {
        let first = self.runs.last().map_or(1, |run| run.last + 1);
        if first <= last {
            self.push_run(first, last, CoverageClass::Excluded);
            self.messages += messages;
        }
    }

    /// Returns the approximate size of the builder in bytes.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.runs.len() * size_of::<CoverageRun<CoverageClass>>()
    }

    /// Appends one seq and fills the gap before it. Returns false when the seq was ignored.
    fn add_position(&mut self, seq: Seq, class: CoverageClass) -> bool {
        if let Some(&CoverageRun { last, .. }) = self.runs.last() {
            if seq <= last {
                return false;
            }
            if seq > last + 1 {
                self.push_run(last + 1, seq - 1, CoverageClass::Excluded);
            }
        }
        self.push_run(seq, seq, class);
        true
    }

    /// Appends a run, joins it with the previous one if the class is the same, and coarsens the runs above the limit.
    fn push_run(&mut self, first: Seq, last: Seq, class: CoverageClass) {
        match self.runs.last_mut() {
            Some(run) if run.class == class => run.last = last,
            Some(_) | None => self.runs.push(CoverageRun { first, last, class }),
        }
        if self.runs.len() > 2 * COVERAGE_RANGES_MAX {
            self.runs = coarsen_runs(std::mem::take(&mut self.runs), CoverageClass::Excluded);
        }
    }

    /// Returns the ledger of all recorded events. `refined` replaces the classes of single messages; of two claims
    /// for the same message the weaker one counts. The result has at most `COVERAGE_RANGES_MAX` ranges.
    pub fn finish(&self, mut refined: Vec<(Seq, CoverageClass)>) -> Coverage {
        refined.sort_unstable();
        let runs = limit_runs(refine_runs(&self.runs, &refined), CoverageClass::Excluded);
        let mut coverage = Coverage {
            first_seq: runs.first().map_or(0, |run| run.first),
            last_seq: runs.last().map_or(0, |run| run.last),
            messages: self.messages,
            ..Coverage::default()
        };
        for CoverageRun { first, last, class } in runs {
            class_ranges(&mut coverage, class).push((first, last));
        }
        coverage
    }
}

/// Joins adjacent runs of the same class and coarsens them to at most [`COVERAGE_RANGES_MAX`]. `weakest` is the class that
/// claims nothing.
pub(crate) fn limit_runs<C: Copy + Ord>(runs: Vec<CoverageRun<C>>, weakest: C) -> Vec<CoverageRun<C>> {
    let mut runs = join_runs(runs);
    while runs.len() > COVERAGE_RANGES_MAX {
        runs = coarsen_runs(runs, weakest);
    }
    runs
}

/// Splits runs so that each seq in `refined` has the class given there. `refined` is sorted, and of several claims
/// for a seq the last one counts.
pub(crate) fn refine_runs<C: Copy>(runs: &[CoverageRun<C>], refined: &[(Seq, C)]) -> Vec<CoverageRun<C>> {
    let mut out = Vec::with_capacity(runs.len() + 2 * refined.len());
    let mut refined = refined.iter().copied().peekable();
    for &CoverageRun { first, last, class } in runs {
        let mut from = first;
        while let Some((seq, claim)) = refined.next_if(|(seq, _)| *seq <= last) {
            let is_repeated = refined.peek().is_some_and(|(next, _)| *next == seq);
            if is_repeated || seq < from {
                continue;
            }
            if from < seq {
                out.push(CoverageRun { first: from, last: seq - 1, class });
            }
            out.push(CoverageRun { first: seq, last: seq, class: claim });
            from = seq + 1;
        }
        if from <= last {
            out.push(CoverageRun { first: from, last, class });
        }
    }
    out
}

/// Joins adjacent runs of the same class.
fn join_runs<C: Copy + Eq>(runs: Vec<CoverageRun<C>>) -> Vec<CoverageRun<C>> {
    let mut out: Vec<CoverageRun<C>> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if last.class == run.class => last.last = run.last,
            Some(_) | None => out.push(run),
        }
    }
    out
}

/// Reduces the number of runs: every other one of the shorter half of the runs takes the class of a neighbor with a
/// weaker claim and joins it.
///
/// Short runs are chosen so that few events lose their claim. A claim only ever becomes weaker, so the ledger never
/// states more than what happened. If no run can be joined this way, adjacent runs are merged in pairs.
fn coarsen_runs<C: Copy + Ord>(mut runs: Vec<CoverageRun<C>>, weakest: C) -> Vec<CoverageRun<C>> {
    let length = |run: &CoverageRun<C>| run.last - run.first;
    let mut lengths: Vec<Seq> = runs.iter().filter(|run| run.class != weakest).map(length).collect();
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let mut was_weakened = false;
    for index in 0..runs.len() {
        if runs[index].class == weakest {
            continue;
        }
        // Every other run, so that runs of the same length are not all weakened at once.
        was_weakened = !was_weakened && length(&runs[index]) <= median;
        if was_weakened {
            let before = index.checked_sub(1).map(|before| runs[before].class);
            let after = runs.get(index + 1).map(|run| run.class);
            let weaker = before.into_iter().chain(after).filter(|class| *class > runs[index].class).min();
            runs[index].class = weaker.unwrap_or(runs[index].class);
        }
    }
    let before = runs.len();
    let runs = join_runs(runs);
    if runs.len() < before { runs } else { pair_runs(&runs) }
}

/// Halves the number of runs: each pair of adjacent runs becomes one run with the weaker claim of the two.
fn pair_runs<C: Copy + Ord>(runs: &[CoverageRun<C>]) -> Vec<CoverageRun<C>> {
    let pairs = runs.chunks(2).map(|pair| {
        let class = pair.iter().map(|run| run.class).max().unwrap_or(pair[0].class);
        CoverageRun { first: pair[0].first, last: pair[pair.len() - 1].last, class }
    });
    join_runs(pairs.collect())
}

/// Returns the list of `coverage` that holds the ranges of `class`.
fn class_ranges(coverage: &mut Coverage, class: CoverageClass) -> &mut Vec<SeqRange> {
    match class {
        CoverageClass::Verbatim => &mut coverage.verbatim,
        CoverageClass::Truncated => &mut coverage.truncated,
        CoverageClass::Summarized => &mut coverage.summarized,
        CoverageClass::Excluded => &mut coverage.excluded,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn m5_the_limit_of_ranges_does_not_make_a_long_thread_count_as_excluded() {
        let mut builder = CoverageBuilder::default();
        for seq in 1..=200_000u64 {
            if seq % 7 == 0 {
                builder.add_other_event(seq)
            } else {
                builder.add_message(seq, CoverageClass::Summarized)
            }
        }
        let coverage = builder.finish(Vec::new());
        assert!(coverage.summarized.len() + coverage.excluded.len() <= COVERAGE_RANGES_MAX);
        let counts = count_coverage(&coverage);
        assert_eq!((counts.summarized, counts.excluded), (200_000 - 200_000 / 7, 0), "{counts:?}");
    }

    const CLASSES: [CoverageClass; 4] = [
        CoverageClass::Verbatim,
        CoverageClass::Truncated,
        CoverageClass::Summarized,
        CoverageClass::Excluded,
    ];

    /// Generates the recorded events of a thread: the distance to the previous seq, whether the event is a message,
    /// and the index of its class.
    fn recorded_events() -> impl Strategy<Value = Vec<(u64, bool, usize)>> {
        prop::collection::vec((1u64..4, prop::bool::weighted(0.7), 0usize..4), 1..300)
    }

    fn all_ranges(coverage: &Coverage) -> Vec<SeqRange> {
        let lists = [&coverage.verbatim, &coverage.truncated, &coverage.summarized, &coverage.excluded];
        let mut ranges: Vec<SeqRange> = lists.into_iter().flatten().copied().collect();
        ranges.sort_unstable();
        ranges
    }

    proptest! {
        #[test]
        fn m5_the_ranges_are_disjoint_and_complete_and_the_counts_follow_from_them(
            recorded in recorded_events(),
            refined in prop::collection::vec((0usize..300, 0usize..4), 0..40),
            skipped in 0u64..9,
        ) {
            let mut builder = CoverageBuilder::default();
            let mut seq = 0;
            let mut messages = Vec::new();
            for (step, is_message, class) in &recorded {
                seq += step;
                if *is_message {
                    builder.add_message(seq, CLASSES[*class]);
                    messages.push((seq, CLASSES[*class]));
                } else {
                    builder.add_other_event(seq);
                }
            }
            seq += skipped;
            builder.skip_to(seq, skipped);
            let mut claims = Vec::new();
            for (index, class) in &refined {
                let is_first =
                    messages.get(*index).is_some_and(|(seq, _)| claims.iter().all(|(known, _)| known != seq));
                if is_first {
                    messages[*index].1 = CLASSES[*class];
                    claims.push(messages[*index]);
                }
            }
            let coverage = builder.finish(claims);
            let ranges = all_ranges(&coverage);
            prop_assert_eq!(ranges.first().map(|range| range.0), Some(coverage.first_seq));
            prop_assert_eq!(ranges.last().map(|range| range.1), Some(seq));
            prop_assert!(ranges.iter().all(|range| range.0 <= range.1));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            let counts = count_coverage(&coverage);
            let expected = |class| messages.iter().filter(|(_, own)| *own == class).count() as u64;
            prop_assert_eq!(counts.messages, messages.len() as u64 + skipped);
            prop_assert_eq!(counts.verbatim, expected(CoverageClass::Verbatim));
            prop_assert_eq!(counts.summarized, expected(CoverageClass::Summarized));
            prop_assert_eq!(counts.truncated, expected(CoverageClass::Truncated));
            prop_assert_eq!(counts.excluded, expected(CoverageClass::Excluded) + skipped);
        }
    }

    #[test]
    fn m5_merging_too_many_ranges_makes_no_claim_for_events_that_are_not_messages() {
        let mut builder = CoverageBuilder::default();
        let class = |seq: u64| CLASSES[seq as usize % 3];
        let is_message = |seq: u64| !seq.is_multiple_of(5);
        let last = 4 * COVERAGE_RANGES_MAX as u64;
        for seq in 1..=last {
            if is_message(seq) { builder.add_message(seq, class(seq)) } else { builder.add_other_event(seq) }
        }
        let coverage = builder.finish(Vec::new());
        assert!(all_ranges(&coverage).len() <= COVERAGE_RANGES_MAX);
        assert_eq!((coverage.first_seq, coverage.last_seq), (1, last));
        for (list, weakest) in [
            (&coverage.verbatim, CoverageClass::Verbatim),
            (&coverage.truncated, CoverageClass::Truncated),
            (&coverage.summarized, CoverageClass::Summarized),
        ] {
            let mut claimed = list.iter().flat_map(|(first, last)| *first..=*last);
            assert!(claimed.all(|seq| is_message(seq) && class(seq) <= weakest), "{weakest:?}");
        }
        let counts = count_coverage(&coverage);
        assert_eq!(counts.messages, last - last / 5);
        assert_eq!(counts.messages, counts.verbatim + counts.summarized + counts.truncated + counts.excluded);
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
        let counts = count_coverage(&coverage);
        assert_eq!((counts.messages, counts.excluded, counts.other_events), (3, 0, 6));
    }
}
