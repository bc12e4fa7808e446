//! The use of each covered message in a summary: whether the text quotes it or refers to it, and if neither, whether the
//! drafting model read it or only the extraction of facts did.
//!
//! [`super::coverage`] says how much of a message reached the summarizer; this module says what is left of it in the text.

use std::collections::{HashMap, HashSet};

use protocol::handoff::summary::SeqRange;
use protocol::{CarriedFacts, Coverage, HandoffSummary, Seq};

use crate::summary::coverage::{CoverageRun, count_coverage, limit_runs, refine_runs};

/// The number of successive words that make a text a quotation.
const QUOTED_WORDS: usize = 6;

/// The use of a message in the text of a summary. The order is from the strongest claim to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageUse {
    /// The text contains words of it.
    Quoted,
    /// An item or a fact refers to it.
    Represented,
    /// The drafting model received it, and nothing of it is in the text.
    Read,
    /// Only facts were extracted from it, without a model.
    Scanned,
    /// Nothing has read it.
    Unread,
}

/// The number of messages of each use. They add up to the covered messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageUseCounts {
    /// Messages of which the text contains words.
    pub quoted: u64,
    /// Messages to which an item or a fact refers.
    pub represented: u64,
    /// Messages that the drafting model received, and of which nothing is in the text.
    pub read: u64,
    /// Messages from which only facts were extracted.
    pub scanned: u64,
    /// Messages that nothing has read.
    pub unread: u64,
}

/// Counts the messages of a coverage by use; `None` for a coverage of an earlier version, which does not contain it.
pub fn count_message_uses(coverage: &Coverage) -> Option<MessageUseCounts> {
    if !has_uses(coverage) {
        return None;
    }
    let count = |ranges: &[SeqRange]| ranges.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    let counts = MessageUseCounts {
        quoted: count(&coverage.quoted),
        represented: count(&coverage.represented),
        read: count(&coverage.read),
        scanned: count(&coverage.scanned),
        unread: 0,
    };
    let used = counts.quoted + counts.represented + counts.read + counts.scanned;
    // The range also contains events that are no messages. They count as unread, as they count as excluded.
    Some(MessageUseCounts { unread: count_coverage(coverage).messages.saturating_sub(used), ..counts })
}

/// Returns whether the coverage contains uses.
const fn has_uses(coverage: &Coverage) -> bool {
    !(coverage.quoted.is_empty()
        && coverage.represented.is_empty()
        && coverage.read.is_empty()
        && coverage.scanned.is_empty()
        && coverage.unread.is_empty())
}

/// The places of a draft's sources.
#[derive(Debug, Default)]
pub(crate) struct DraftSources {
    /// The seqs that the drafting model received; empty for the offline summary.
    pub(crate) read: Vec<Seq>,
    /// The texts of messages that are at hand, by seq. A message has one text for each of its parts.
    pub(crate) texts: HashMap<Seq, Vec<String>>,
    /// The seq of the request that is carried over as the last one.
    pub(crate) last_request: Option<Seq>,
}

/// Records in the coverage of a drafted summary what became of each message.
pub(crate) fn classify_messages(summary: &mut HandoffSummary, sources: &DraftSources) {
    let mut uses: HashMap<Seq, MessageUse> = HashMap::new();
    let mut add = |seq: Seq, class: MessageUse| {
        let known = uses.entry(seq).or_insert(class);
        *known = class.min(*known);
    };
    sources.read.iter().for_each(|seq| add(*seq, MessageUse::Read));
    for item in &summary.body {
        for seq in &item.refs {
            let texts = sources.texts.get(seq).map(Vec::as_slice).unwrap_or_default();
            let is_quoted = texts.iter().any(|text| is_quotation(&item.text, text));
            add(*seq, if is_quoted { MessageUse::Quoted } else { MessageUse::Represented });
        }
    }
    // Rules, pins and the last request are carried over verbatim.
    carried_refs(summary).chain(&sources.last_request).for_each(|seq| add(*seq, MessageUse::Quoted));
    let coverage = &mut summary.coverage;
    let uses: Vec<(Seq, MessageUse)> =
        uses.into_iter().filter(|(seq, _)| is_covered_message(coverage, *seq)).collect();
    let base = [&coverage.verbatim, &coverage.truncated, &coverage.summarized].into_iter().flatten();
    let base = base.map(|range| (*range, MessageUse::Scanned));
    let unread = coverage.excluded.iter().map(|range| (*range, MessageUse::Unread));
    let runs = base.chain(unread).collect();
    store_uses(coverage, runs, uses);
}

/// Returns the references of the facts that are carried over verbatim.
fn carried_refs(summary: &HandoffSummary) -> impl Iterator<Item = &Seq> {
    let CarriedFacts { rules, pins, .. } = &summary.carried;
    let of_rules = rules.iter().flat_map(|rule| &rule.refs);
    of_rules.chain(pins.iter().flat_map(|pin| &pin.refs))
}

/// Records in the coverage of an edited summary what became of each message: what only removed items referred to is not in
/// the text any more.
pub(crate) fn reclassify_messages(shown: &HandoffSummary, edited: &mut HandoffSummary) {
    if !has_uses(&shown.coverage) {
        return;
    }
    let refs = |summary: &HandoffSummary| -> HashSet<Seq> {
        summary.body.iter().flat_map(|item| &item.refs).chain(carried_refs(summary)).copied().collect()
    };
    let (before, after) = (refs(shown), refs(edited));
    let is_used =
        |seq: Seq| use_of(&shown.coverage, seq).is_some_and(|class| class <= MessageUse::Represented);
    let is_request_removed =
        shown.carried.last_user_request.is_some() && edited.carried.last_user_request.is_none();
    let requests = if is_request_removed { last_request_seqs(shown, &before) } else { Vec::new() };
    let removed = before.iter().chain(&requests).filter(|seq| !after.contains(seq));
    // The text of the messages is not at hand, so an added reference counts as represented.
    let added = after.iter().filter(|seq| !before.contains(seq));
    let coverage = &mut edited.coverage;
    // A draft by a model received what its items refer to.
    let unused = if coverage.read.is_empty() { MessageUse::Scanned } else { MessageUse::Read };
    let removed = removed.filter(|seq| is_used(**seq)).map(|seq| (*seq, unused));
    let added = added.filter(|seq| !is_used(**seq) && is_covered_message(&shown.coverage, **seq));
    let uses = removed.chain(added.map(|seq| (*seq, MessageUse::Represented))).collect();
    let runs = USES
        .into_iter()
        .flat_map(|class| use_ranges(&shown.coverage, class).iter().map(move |range| (*range, class)));
    store_uses(coverage, runs.collect(), uses);
}

/// Returns the messages that a summary quotes only as the last request: those that no item and no rule refers to.
fn last_request_seqs(summary: &HandoffSummary, refs: &HashSet<Seq>) -> Vec<Seq> {
    let quoted = summary.coverage.quoted.iter().flat_map(|(first, last)| *first..=*last);
    quoted.filter(|seq| !refs.contains(seq)).collect()
}

/// All uses, from the strongest claim to the weakest.
const USES: [MessageUse; 5] =
    [MessageUse::Quoted, MessageUse::Represented, MessageUse::Read, MessageUse::Scanned, MessageUse::Unread];

/// Stores the uses of `ranges`, in which `refined` replaces the uses of single messages.
fn store_uses(
    coverage: &mut Coverage,
    mut ranges: Vec<(SeqRange, MessageUse)>,
    mut refined: Vec<(Seq, MessageUse)>,
) {
    ranges.sort_unstable_by_key(|(range, _)| range.0);
    refined.sort_unstable();
    let runs: Vec<CoverageRun<MessageUse>> =
        ranges.into_iter().map(|((first, last), class)| CoverageRun { first, last, class }).collect();
    for class in USES {
        use_ranges_mut(coverage, class).clear();
    }
    for CoverageRun { first, last, class } in limit_runs(refine_runs(&runs, &refined), MessageUse::Unread) {
        use_ranges_mut(coverage, class).push((first, last));
    }
}

/// Returns whether the seq is that of a covered message, and not of a gap or of another event.
pub(crate) fn is_covered_message(coverage: &Coverage, seq: Seq) -> bool {
    let lists = [&coverage.verbatim, &coverage.truncated, &coverage.summarized];
    lists.into_iter().any(|ranges| contains_seq(ranges, seq))
}

/// Returns the recorded use of an event.
fn use_of(coverage: &Coverage, seq: Seq) -> Option<MessageUse> {
    USES.into_iter().find(|class| contains_seq(use_ranges(coverage, *class), seq))
}

/// Returns whether one of the ascending ranges contains the seq.
fn contains_seq(ranges: &[SeqRange], seq: Seq) -> bool {
    let index = ranges.partition_point(|(_, last)| *last < seq);
    ranges.get(index).is_some_and(|(first, _)| *first <= seq)
}

/// Returns the list of the coverage with the ranges of a use.
fn use_ranges(coverage: &Coverage, class: MessageUse) -> &Vec<SeqRange> {
    match class {
        MessageUse::Quoted => &coverage.quoted,
        MessageUse::Represented => &coverage.represented,
        MessageUse::Read => &coverage.read,
        MessageUse::Scanned => &coverage.scanned,
        MessageUse::Unread => &coverage.unread,
    }
}

/// Returns the list of the coverage that holds the ranges of a use.
const fn use_ranges_mut(coverage: &mut Coverage, class: MessageUse) -> &mut Vec<SeqRange> {
    match class {
        MessageUse::Quoted => &mut coverage.quoted,
        MessageUse::Represented => &mut coverage.represented,
        MessageUse::Read => &mut coverage.read,
        MessageUse::Scanned => &mut coverage.scanned,
        MessageUse::Unread => &mut coverage.unread,
    }
}

/// Returns whether `text` contains [`QUOTED_WORDS`] successive words of `message`, or is a shorter text that `message`
/// contains.
fn is_quotation(text: &str, message: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (text, message) = (words(text), words(message));
    let length = QUOTED_WORDS.min(text.len());
    if length == 0 {
        return false;
    }
    let quoted: HashSet<&[String]> = text.windows(length).collect();
    message.windows(length).any(|run| quoted.contains(run))
}

#[cfg(test)]
mod tests {
    use protocol::Rule;

    use super::*;
    use crate::review::edit::tests::shown_summary;

    /// Returns a summary of messages 1 to 8 whose event 4 is no message. Item 0 refers to message 2, item 1 to message 5.
    fn summary() -> HandoffSummary {
        let mut summary = shown_summary();
        summary.coverage = Coverage {
            first_seq: 1,
            last_seq: 9,
            summarized: vec![(1, 3), (5, 8)],
            excluded: vec![(4, 4), (9, 9)],
            messages: 8,
            ..Coverage::default()
        };
        summary.body.iter_mut().for_each(|item| item.refs.clear());
        summary.body[0].refs = vec![2];
        "Port the importer to the new reader soon.".clone_into(&mut summary.body[0].text);
        summary.body[1].refs = vec![5];
        summary.carried.rules = vec![Rule { text: "Never sleep.".to_owned(), refs: vec![6] }];
        summary
    }

    fn sources(read: Vec<Seq>) -> DraftSources {
        let text = "Please PORT the importer to the `new` reader, and test it.".to_owned();
        DraftSources { read, texts: HashMap::from([(2, vec![text])]), last_request: Some(8) }
    }

    #[test]
    fn m5_every_message_is_quoted_represented_read_scanned_or_unread() {
        let mut drafted = summary();
        assert_eq!(count_message_uses(&drafted.coverage), None);
        classify_messages(&mut drafted, &sources(vec![2, 3]));
        let counts = MessageUseCounts { quoted: 3, represented: 1, read: 1, scanned: 2, unread: 1 };
        assert_eq!(count_message_uses(&drafted.coverage), Some(counts));
        let coverage = &drafted.coverage;
        assert_eq!((&coverage.quoted, &coverage.represented), (&vec![(2, 2), (6, 6), (8, 8)], &vec![(5, 5)]));
        assert_eq!((&coverage.read, &coverage.scanned), (&vec![(3, 3)], &vec![(1, 1), (7, 7)]));
        assert_eq!(coverage.unread, [(4, 4), (9, 9)]);
    }

    #[test]
    fn m5_an_edit_moves_the_messages_of_removed_and_added_items() {
        let mut drafted = summary();
        classify_messages(&mut drafted, &sources(vec![2, 3]));
        let mut edited = drafted.clone();
        edited.body[0].refs = Vec::new();
        edited.body[1].refs = vec![5, 7, 9];
        reclassify_messages(&drafted, &mut edited);
        let coverage = &edited.coverage;
        assert_eq!((&coverage.quoted, &coverage.represented), (&vec![(6, 6), (8, 8)], &vec![(5, 5), (7, 7)]));
        assert_eq!((&coverage.read, &coverage.scanned), (&vec![(2, 3)], &vec![(1, 1)]));
    }

    #[test]
    fn m5_a_removed_last_request_is_not_quoted_any_more() {
        let mut drafted = summary();
        drafted.carried.last_user_request = Some("Test it.".to_owned());
        classify_messages(&mut drafted, &sources(vec![2, 3]));
        let mut edited = drafted.clone();
        edited.carried.last_user_request = None;
        reclassify_messages(&drafted, &mut edited);
        assert_eq!(edited.coverage.quoted, [(2, 2), (6, 6)], "the rule and the item are still in the text");
        assert_eq!(edited.coverage.read, [(3, 3), (8, 8)]);
    }

    #[test]
    fn a_quotation_has_six_successive_words_or_is_short_and_whole() {
        let message = "We keep the old importer until the first of May, then it goes.";
        for (text, expected) in [
            ("Keep the old importer until the first of May.", true),
            ("The old importer", true),
            ("The old importer goes in May when the new one is there", false),
            ("", false),
        ] {
            assert_eq!(is_quotation(text, message), expected, "{text}");
        }
    }
}
