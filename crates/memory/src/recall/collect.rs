//! Reading what was found, and what fits. Which messages match is the journal's answer, their order that of `order`.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;
use journal::{EventQuery, RankQuery, RankedMessage, Store, ThreadPrefix};
use model::tokens::{CHARS_PER_TOKEN, weight};
use protocol::{Category, EventId, Seq, ThreadId};

use super::messages::{self, Utterance};
use super::passage::{ELLIPSIS, QueryWordFinder, truncate_chars};
use super::ranking::{RankedMatch, WordWeights, rank_newest_first};
use super::{
    RecallError, RecallNote, RecallResult, RecallScope, RecalledMessage, Remaining, query_words, render,
};

/// Messages that are ranked; of these the best are shown.
const RANKED_MAX: usize = 100;
/// Messages that are shown for words, beside those next to them.
pub(super) const SHOWN_MAX: usize = 12;
/// The part of the best score below which a message is not counted as a match.
const MATCH_SHARE: f64 = 0.25;
/// The best matches come with what was said right before and after, before there is room for others.
const WITH_ADJACENT_FIRST: usize = 3;
/// Characters of a message that matches.
pub(super) const MATCH_CHARS_MAX: usize = 480;
/// Characters of a message next to one that matches.
pub(crate) const ADJACENT_CHARS_MAX: usize = 160;
/// Characters of a line that separates passages.
const SEPARATOR_CHARS: u64 = 3;
/// Messages of a range that are read at a time.
const RANGE_PAGE_ROWS: usize = 50;

/// One recall being put together.
pub(super) struct RecallCollector<'a> {
    store: &'a dyn Store,
    /// The thread parts to read, nearest first.
    thread_parts: Vec<ThreadPrefix>,
    id_digits: usize,
    /// Plain characters that there is room for.
    remaining_weight: u64,
    /// The messages that have or get a place.
    placed_events: HashSet<EventId>,
}

/// A message that matches, read.
struct FoundMessage {
    message: RecalledMessage,
    ranked: RankedMatch<Recency>,
}

/// How late something was said: by the clock, then by the thread, then by the place in it.
type Recency = (Timestamp, Reverse<usize>, Seq);

/// A match with what was said before and after it, as far as there was room.
#[derive(Default)]
struct MatchExcerpt {
    before: Option<RecalledMessage>,
    matched: Option<RecalledMessage>,
    after: Option<RecalledMessage>,
}

/// A message, by its thread and its seq there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageLocation {
    pub(super) thread_id: ThreadId,
    pub(super) seq: Seq,
}

impl<'a> RecallCollector<'a> {
    /// Returns an empty gathering from these threads, each up to its end.
    pub(super) fn new(store: &'a dyn Store, thread_parts: Vec<ThreadPrefix>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Conversation, &thread_ids(&thread_parts));
        let remaining_weight =
            (tokens_max.saturating_mul(CHARS_PER_TOKEN)).saturating_sub(render::FRAME_CHARS_MAX);
        Self { store, thread_parts, id_digits, remaining_weight, placed_events: HashSet::new() }
    }

    /// Returns the gathering from these threads among all of an assistant.
    pub(super) fn for_assistant(store: &'a dyn Store, parts: Vec<ThreadPrefix>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Everything, &thread_ids(&parts));
        Self { id_digits, ..Self::new(store, parts, tokens_max) }
    }

    /// Gathers the messages that say most about the words of `text`, but for one.
    pub(super) async fn collect_by_words(
        mut self,
        text: &str,
        except: Option<MessageLocation>,
    ) -> Result<RecallResult, RecallError> {
        let words = query_words::parse_query_words(text);
        if words.is_empty() {
            return Err(RecallError::NoWords);
        }
        let finder = QueryWordFinder::new(&words);
        let threads = self.thread_parts.clone();
        let mut ranked = self.store.rank_messages(RankQuery { threads, words, limit: RANKED_MAX }).await?;
        let least = ranked.first().map_or(0.0, |best| best.score * MATCH_SHARE);
        ranked.retain(|one| {
            one.score >= least && except != Some(MessageLocation { thread_id: one.thread_id, seq: one.seq })
        });
        let weights =
            WordWeights::from_matches(&ranked.iter().map(|one| one.matched_words).collect::<Vec<_>>());
        let mut found: Vec<FoundMessage> = Vec::new();
        let mut left = ranked.len();
        for one in &ranked {
            if found.len() == SHOWN_MAX {
                break;
            }
            left -= 1;
            found.extend(self.read_match(one, &finder).await?);
        }
        let shown = found.len();
        let order = rank_newest_first(&found.iter().map(|one| one.ranked).collect::<Vec<_>>(), &weights);
        let matches = order.into_iter().map(|at| found[at].message.clone()).collect();
        let excerpts = self.build_excerpts(matches).await?;
        let hidden = shown - excerpts.len();
        let rest = Remaining::Messages((left + hidden) as u64);
        Ok(self.build_result(excerpts, rest))
    }

    fn build_result(&self, excerpts: Vec<Vec<RecalledMessage>>, rest: Remaining) -> RecallResult {
        RecallResult {
            scope: RecallScope::Conversation,
            threads: thread_ids(&self.thread_parts),
            notes: Vec::new(),
            excerpts,
            remaining: rest,
            resume_at: None,
            departed_at: None,
        }
    }

    /// Gathers the messages at these places, the best first, and returns for how many there was no room.
    pub(super) async fn collect_at(
        &mut self,
        places: &[(ThreadId, Seq)],
        finder: &QueryWordFinder,
    ) -> Result<(Vec<Vec<RecalledMessage>>, usize), RecallError> {
        let mut matches = Vec::new();
        for (thread_id, seq) in places {
            matches.extend(self.read_message(*thread_id, *seq, finder).await?);
        }
        let wanted = matches.len();
        let excerpts = self.build_excerpts(matches).await?;
        let hidden = wanted - excerpts.len();
        Ok((excerpts, hidden))
    }

    /// Returns those of the notes that there is room for, in so many tokens at most.
    pub(super) fn place_notes(&mut self, notes: Vec<RecallNote>, tokens_max: u64) -> Vec<RecallNote> {
        let mut room = self.remaining_weight.min(tokens_max.saturating_mul(CHARS_PER_TOKEN));
        let mut placed = Vec::new();
        for note in notes {
            let size = weight(&render::render_note(&note)) + SEPARATOR_CHARS;
            if size <= room {
                room -= size;
                self.remaining_weight -= size;
                placed.push(note);
            }
        }
        placed
    }

    /// Reads a match; `None` for one that only repeats another or what was recalled before.
    async fn read_match(
        &mut self,
        ranked: &RankedMessage,
        finder: &QueryWordFinder,
    ) -> Result<Option<FoundMessage>, RecallError> {
        let RankedMessage { thread_id, seq, score, matched_words: held } = *ranked;
        let Some(passage) = self.read_message(thread_id, seq, finder).await? else { return Ok(None) };
        let nearness =
            self.thread_parts.iter().position(|part| part.thread_id == thread_id).unwrap_or(usize::MAX);
        let age = (passage.at, Reverse(nearness), seq);
        Ok(Some(FoundMessage {
            message: passage,
            ranked: RankedMatch { score, matched_words: held, recency: age },
        }))
    }

    /// Reads a message; `None` for one that only repeats another or what was recalled before.
    async fn read_message(
        &mut self,
        thread_id: ThreadId,
        seq: Seq,
        finder: &QueryWordFinder,
    ) -> Result<Option<RecalledMessage>, RecallError> {
        let said = messages::read_utterance(self.store, thread_id, seq).await?;
        let Some(said) = said.filter(|said| self.placed_events.insert(said.event_id)) else {
            return Ok(None);
        };
        let text = finder.best_passage(&said.text, MATCH_CHARS_MAX);
        Ok(Some(RecalledMessage { is_match: true, text, ..said.into_recalled_message(thread_id) }))
    }

    /// Returns what there is room for, in the order in which it is to be read: the best matches with their neighbours,
    /// then the other matches, then the neighbours of those.
    async fn build_excerpts(
        &mut self,
        matches: Vec<RecalledMessage>,
    ) -> Result<Vec<Vec<RecalledMessage>>, RecallError> {
        let mut excerpts: Vec<MatchExcerpt> = matches.iter().map(|_| MatchExcerpt::default()).collect();
        let first = matches.len().min(WITH_ADJACENT_FIRST);
        for at in 0..first {
            let whole = matches[at].clone();
            // The best is cut rather than left out: something was found.
            excerpts[at].matched =
                if at == 0 { self.place_truncated(whole) } else { self.place_message(whole) };
            self.add_adjacent_messages(&mut excerpts[at]).await?;
        }
        for at in first..matches.len() {
            excerpts[at].matched = self.place_message(matches[at].clone());
        }
        for excerpt in &mut excerpts[first..] {
            self.add_adjacent_messages(excerpt).await?;
        }
        let passages = |one: MatchExcerpt| {
            [one.before, one.matched, one.after].into_iter().flatten().collect::<Vec<_>>()
        };
        Ok(excerpts.into_iter().map(passages).filter(|passages| !passages.is_empty()).collect())
    }

    /// Adds the messages next to the match, unless they have a place already.
    async fn add_adjacent_messages(&mut self, excerpt: &mut MatchExcerpt) -> Result<(), RecallError> {
        let Some(RecalledMessage { thread_id, seq, .. }) = excerpt.matched else { return Ok(()) };
        let end =
            self.thread_parts.iter().find(|part| part.thread_id == thread_id).and_then(|part| part.before);
        let [before, after] = messages::read_adjacent(self.store, thread_id, seq, end).await?;
        for (said, slot) in [(before, &mut excerpt.before), (after, &mut excerpt.after)] {
            let Some(said) = said.filter(|said| self.placed_events.insert(said.event_id)) else { continue };
            let text = truncate_chars(&said.text, ADJACENT_CHARS_MAX);
            *slot = self.place_message(RecalledMessage { text, ..said.into_recalled_message(thread_id) });
        }
        Ok(())
    }

    /// Returns the passage when there is room for it, and takes the room.
    fn place_message(&mut self, passage: RecalledMessage) -> Option<RecalledMessage> {
        let size = self.rendered_weight(&passage);
        (size <= self.remaining_weight).then(|| {
            self.remaining_weight -= size;
            passage
        })
    }

    /// Returns the plain characters the passage takes as a model reads it, with a line that separates it.
    fn rendered_weight(&self, passage: &RecalledMessage) -> u64 {
        weight(&render::render_message(passage, self.id_digits)) + SEPARATOR_CHARS
    }

    /// Gathers the messages of the one thread from one seq, and a character in that message, to another seq, as many as
    /// there is room for.
    pub(super) async fn collect_range(
        mut self,
        from: Seq,
        from_char: u64,
        to: Seq,
    ) -> Result<RecallResult, RecallError> {
        if from > to {
            return Err(RecallError::EmptyRange { from, to });
        }
        let ThreadPrefix { thread_id, before: left } = self.thread_parts[0];
        let left_at = left.filter(|left| *left <= to);
        let end = left_at.unwrap_or(to.saturating_add(1));
        let mut passages: Vec<RecalledMessage> = Vec::new();
        let mut cut = None;
        let mut at = from.saturating_sub(1);
        let next_seq = 'read: loop {
            let query = EventQuery {
                before: Some(end),
                categories: vec![Category::Message],
                ..EventQuery::after(at, RANGE_PAGE_ROWS)
            };
            let page = self.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { break None };
            at = last.seq;
            for event in &page {
                let Some(said) = Utterance::from_event(event) else { continue };
                let passed = if event.seq == from { from_char } else { 0 };
                let whole = RecalledMessage { is_match: true, ..said.into_recalled_message(thread_id) };
                let whole = RecalledMessage { text: skip_chars(whole.text, passed), ..whole };
                if whole.text.is_empty() {
                    continue;
                }
                // The first is cut rather than left out, so that reading on always ends.
                let placed = match passages.is_empty() {
                    true => self.place_truncated(whole.clone()),
                    false => self.place_message(whole.clone()),
                };
                let Some(passage) = placed else { break 'read Some(event.seq) };
                cut = cut.or_else(|| Some((event.seq, passed + shown_chars(&whole.text, &passage.text)?)));
                passages.push(passage);
            }
        };
        let excerpts = if passages.is_empty() { Vec::new() } else { vec![passages] };
        Ok(RecallResult {
            resume_at: cut,
            departed_at: left_at,
            ..self.build_result(excerpts, Remaining::Range { next_seq })
        })
    }

    /// Returns the passage, cut to what there is room for.
    fn place_truncated(&mut self, mut passage: RecalledMessage) -> Option<RecalledMessage> {
        let mut chars_max = self.remaining_weight;
        // What is made inert is longer than what it was.
        while self.rendered_weight(&passage) > self.remaining_weight && chars_max > 0 {
            chars_max -= chars_max.div_ceil(8);
            passage.text = truncate_chars(&passage.text, usize::try_from(chars_max).unwrap_or(usize::MAX));
        }
        self.place_message(passage)
    }
}

/// Returns what is left of `text` behind so many characters.
fn skip_chars(text: String, chars: u64) -> String {
    let at = text.char_indices().nth(usize::try_from(chars).unwrap_or(usize::MAX));
    match (chars, at) {
        (0, _) => text,
        (_, Some((at, _))) => text[at..].trim_end().to_owned(),
        (_, None) => String::new(),
    }
}

/// Returns how many characters of `whole` a shortened form has; `None` when it is not shortened.
fn shown_chars(whole: &str, shortened: &str) -> Option<u64> {
    let kept = shortened.strip_suffix(ELLIPSIS).filter(|_| whole != shortened)?;
    let blank = whole.len() - whole.trim_start().len();
    Some(whole[..(blank + kept.len()).min(whole.len())].chars().count() as u64)
}

fn thread_ids(parts: &[ThreadPrefix]) -> Vec<ThreadId> {
    parts.iter().map(|part| part.thread_id).collect()
}
