//! Collects the messages of a recall: reads the matches, cuts each to its best passage, adds adjacent messages, and
//! keeps as much as fits the token budget.
//!
//! Not done here: matching words (the journal's index) and ordering matches (`ranking`).

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;
use journal::{
    DamageHandling, EventQuery, IndexAnswer, IndexBacklog, MeaningComparison, RankQuery, RankedMessage,
    Store, ThreadPrefix, is_damaged,
};
use model::tokens::{CHARS_PER_TOKEN, weight};
use protocol::{Category, EventId, Seq, ThreadId};

use super::messages::{self, Utterance};
use super::passage::{ELLIPSIS, QueryWordFinder, truncate_chars};
use super::ranking::{RankedMatch, WordWeights, rank_newest_first};
use crate::search::dates;

use super::{
    RecallError, RecallNote, RecallResult, RecallScope, RecalledMessage, Remaining, query_words, render,
};

/// Maximum number of messages that the journal ranks for one query. Only the best of them are shown, and the others are
/// counted.
const RANKED_MAX: usize = 100;
/// Maximum number of matches that are shown for words if a query does not say another, without the messages adjacent to them.
pub(super) const SHOWN_MAX: usize = 12;
/// Minimum weight of the words of a match, as a share of the greatest weight that a match has. The score is not
/// compared, because it is a probability: one likely match would make all others look irrelevant.
const MATCH_SHARE: f64 = 0.25;
/// Minimum score of a newer statement about the same thing, as a share of the older one's; see [`rank_newest_first`]. It
/// is lower than that of a search, because an agent must not take an outdated statement for the current one: it leaves room for messages whose
/// surroundings differ.
const REVISION_SCORE_SHARE: f64 = 0.05;
/// Number of best matches that get their adjacent messages before any further match gets room.
///
/// Only a few do, because single messages find more for the same number of tokens: with the words of LoCoMo's
/// questions, 1,000 tokens hold 87.0 % of the evidence as single messages and 83.2 % as passages of three
/// (`shared/design/quality.md`, "Search").
const WITH_ADJACENT_FIRST: usize = 3;
/// Maximum characters of a matching message.
pub(super) const MATCH_CHARS_MAX: usize = 480;
/// Maximum characters of a message adjacent to a match.
pub(crate) const ADJACENT_CHARS_MAX: usize = 160;
/// Characters of the line that separates two excerpts.
const SEPARATOR_CHARS: u64 = 3;
/// Number of messages of a range that are read at a time.
const RANGE_PAGE_ROWS: usize = 50;

/// Collects the messages of one recall within a token budget.
pub(super) struct RecallCollector<'a> {
    store: &'a dyn Store,
    /// The thread parts to read, nearest first.
    thread_parts: Vec<ThreadPrefix>,
    /// Number of hex digits by which the answer names a thread; see [`render::id_digits`].
    id_digits: usize,
    /// The most matches of the answer; see [`super::RecallQuery::matches_max`].
    pub(super) matches_max: usize,
    /// The rest of the budget in plain characters, by [`weight`].
    remaining_weight: u64,
    /// Number of messages that were left out because they are damaged.
    pub(super) damaged: u64,
    /// Events that the answer already contains, or that are candidates for it. A fork copies events with their ids, so
    /// that a message and its copy count once.
    placed_events: HashSet<EventId>,
}

/// A matching message that has been read from the journal.
struct MatchedMessage {
    message: RecalledMessage,
    ranked: RankedMatch<Recency>,
}

/// The recency of a message; later is greater. Messages with equal times are ordered by thread, nearer threads later,
/// and then by seq.
type Recency = (Timestamp, Reverse<usize>, Seq);

/// A match with the messages directly before and after it. Each is present only if it fits the budget.
#[derive(Default)]
struct MatchExcerpt {
    before: Option<RecalledMessage>,
    matched: Option<RecalledMessage>,
    after: Option<RecalledMessage>,
}

/// The location of a message: its thread and its seq there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageLocation {
    pub(super) thread_id: ThreadId,
    pub(super) seq: Seq,
}

impl<'a> RecallCollector<'a> {
    /// Returns an empty collector that reads the given parts of threads. Part of the budget of `tokens_max` is
    /// reserved for the text around the passages.
    pub(super) fn new(store: &'a dyn Store, thread_parts: Vec<ThreadPrefix>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Conversation, &thread_ids(&thread_parts));
        let remaining_weight =
            (tokens_max.saturating_mul(CHARS_PER_TOKEN)).saturating_sub(render::FRAME_CHARS_MAX);
        Self {
            store,
            thread_parts,
            id_digits,
            matches_max: SHOWN_MAX,
            remaining_weight,
            damaged: 0,
            placed_events: HashSet::new(),
        }
    }

    /// Returns an empty collector for a recall from everything. It names threads by their full ids, because a short
    /// prefix is ambiguous among all threads of an assistant.
    pub(super) fn for_assistant(store: &'a dyn Store, parts: Vec<ThreadPrefix>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Everything, &thread_ids(&parts));
        Self { id_digits, ..Self::new(store, parts, tokens_max) }
    }

    /// Collects the messages that match the words of `text` best, except the message `excluded`.
    ///
    /// # Errors
    /// When the text has no word, and when the journal fails.
    pub(super) async fn collect_by_words(
        mut self,
        text: &str,
        excluded: Option<MessageLocation>,
    ) -> Result<RecallResult, RecallError> {
        let words = query_words::parse_query_words(text);
        if words.is_empty() {
            return Err(RecallError::NoWords);
        }
        let finder = QueryWordFinder::new(&words);
        let threads = self.thread_parts.clone();
        let query = RankQuery {
            threads,
            words,
            dates: dates::parse_dates(text),
            question: text.to_owned(),
            limit: RANKED_MAX,
        };
        let IndexAnswer { hits: mut ranked, backlog, meaning } = self.store.rank_messages(query).await?;
        let all_words: Vec<u32> = ranked.iter().map(|message| message.matched_words).collect();
        let all_weights = WordWeights::from_matches(&all_words);
        let weight_max = all_words.iter().map(|words| all_weights.sum_of(*words)).fold(0.0, f64::max);
        ranked.retain(|message| {
            let location = MessageLocation { thread_id: message.thread_id, seq: message.seq };
            // A match without any word was found by its meaning.
            let has_words = all_weights.sum_of(message.matched_words) >= weight_max * MATCH_SHARE;
            (has_words || message.matched_words == 0) && excluded != Some(location)
        });
        let matched_words: Vec<u32> = ranked.iter().map(|message| message.matched_words).collect();
        let weights = WordWeights::from_matches(&matched_words);
        let mut matches: Vec<MatchedMessage> = Vec::new();
        let mut unread = ranked.len();
        for message in &ranked {
            if matches.len() >= self.matches_max {
                break;
            }
            unread -= 1;
            matches.extend(self.read_match(message, &finder).await?);
        }
        let read = matches.len();
        let ranks: Vec<RankedMatch<Recency>> = matches.iter().map(|one| one.ranked).collect();
        let order = rank_newest_first(&ranks, &weights, REVISION_SCORE_SHARE);
        let messages = order.into_iter().map(|index| matches[index].message.clone()).collect();
        let excerpts = self.build_excerpts(messages).await?;
        let hidden = read - excerpts.len();
        let remaining = Remaining::Messages((unread + hidden) as u64);
        Ok(RecallResult { backlog, meaning, ..self.build_result(excerpts, remaining) })
    }

    /// Returns a result of the scope of a conversation with these excerpts, and without notes.
    fn build_result(&self, excerpts: Vec<Vec<RecalledMessage>>, remaining: Remaining) -> RecallResult {
        RecallResult {
            scope: RecallScope::Conversation,
            threads: thread_ids(&self.thread_parts),
            notes: Vec::new(),
            excerpts,
            remaining,
            damaged: self.damaged,
            backlog: IndexBacklog::default(),
            meaning: MeaningComparison::Off,
            resume_at: None,
            departed_at: None,
        }
    }

    /// Collects the messages at these locations, which are sorted best first. Returns their excerpts and the number of
    /// messages that did not fit.
    pub(super) async fn collect_at(
        &mut self,
        locations: &[(ThreadId, Seq)],
        finder: &QueryWordFinder,
    ) -> Result<(Vec<Vec<RecalledMessage>>, usize), RecallError> {
        let mut matches = Vec::new();
        for (thread_id, seq) in locations {
            matches.extend(self.read_message(*thread_id, *seq, finder).await?);
        }
        let read = matches.len();
        let excerpts = self.build_excerpts(matches).await?;
        let hidden = read - excerpts.len();
        Ok((excerpts, hidden))
    }

    /// Counts a damaged message. The sentence about them takes a part of the budget.
    fn count_damaged(&mut self) {
        if self.damaged == 0 {
            self.remaining_weight = self.remaining_weight.saturating_sub(render::DAMAGED_CHARS_MAX);
        }
        self.damaged += 1;
    }

    /// Returns the notes that fit the budget and together take at most `tokens_max` tokens. A note that does not fit is
    /// skipped, and a shorter one after it may still fit.
    pub(super) fn place_notes(&mut self, notes: Vec<RecallNote>, tokens_max: u64) -> Vec<RecallNote> {
        let mut notes_weight = self.remaining_weight.min(tokens_max.saturating_mul(CHARS_PER_TOKEN));
        let mut placed = Vec::new();
        for note in notes {
            let size = weight(&render::render_note(&note)) + SEPARATOR_CHARS;
            if size <= notes_weight {
                notes_weight -= size;
                self.remaining_weight -= size;
                placed.push(note);
            }
        }
        placed
    }

    /// Reads a ranked message; `None` in the same cases as [`Self::read_message`].
    async fn read_match(
        &mut self,
        ranked: &RankedMessage,
        finder: &QueryWordFinder,
    ) -> Result<Option<MatchedMessage>, RecallError> {
        let RankedMessage { thread_id, seq, score, matched_words, .. } = *ranked;
        let Some(message) = self.read_message(thread_id, seq, finder).await? else { return Ok(None) };
        let distance =
            self.thread_parts.iter().position(|part| part.thread_id == thread_id).unwrap_or(usize::MAX);
        let recency = (message.at, Reverse(distance), seq);
        Ok(Some(MatchedMessage { message, ranked: RankedMatch { score, matched_words, recency } }))
    }

    /// Reads a message and cuts it to its best passage. Returns `None` for a message without text, for the answer of a
    /// recall, for a copy of a message that has been read already, and for a damaged message, which is counted.
    async fn read_message(
        &mut self,
        thread_id: ThreadId,
        seq: Seq,
        finder: &QueryWordFinder,
    ) -> Result<Option<RecalledMessage>, RecallError> {
        let utterance = match messages::read_utterance(self.store, thread_id, seq).await {
            Err(error) if error.is_message_damaged() => {
                self.count_damaged();
                return Ok(None);
            }
            utterance => utterance?,
        };
        let Some(utterance) = utterance.filter(|utterance| self.placed_events.insert(utterance.event_id))
        else {
            return Ok(None);
        };
        let text = finder.best_passage(&utterance.text, MATCH_CHARS_MAX);
        Ok(Some(RecalledMessage { is_match: true, text, ..utterance.into_recalled_message(thread_id) }))
    }

    /// Returns the excerpts that fit the budget, in the order of `matches`.
    ///
    /// Room is given first to the best matches with their adjacent messages, then to the other matches, and last to the
    /// messages adjacent to those.
    async fn build_excerpts(
        &mut self,
        matches: Vec<RecalledMessage>,
    ) -> Result<Vec<Vec<RecalledMessage>>, RecallError> {
        let mut excerpts: Vec<MatchExcerpt> = matches.iter().map(|_| MatchExcerpt::default()).collect();
        let first = matches.len().min(WITH_ADJACENT_FIRST);
        for index in 0..first {
            let whole = matches[index].clone();
            // The best match is cut when it does not fit, so that a query with a match never has an empty answer.
            excerpts[index].matched =
                if index == 0 { self.place_truncated(whole) } else { self.place_message(whole) };
            self.add_adjacent_messages(&mut excerpts[index]).await?;
        }
        for index in first..matches.len() {
            excerpts[index].matched = self.place_message(matches[index].clone());
        }
        for excerpt in &mut excerpts[first..] {
            self.add_adjacent_messages(excerpt).await?;
        }
        let passages = |excerpt: MatchExcerpt| {
            [excerpt.before, excerpt.matched, excerpt.after].into_iter().flatten().collect::<Vec<_>>()
        };
        Ok(excerpts.into_iter().map(passages).filter(|passages| !passages.is_empty()).collect())
    }

    /// Adds the messages directly before and after the match if they fit and the answer does not contain them already.
    /// Does nothing for an excerpt whose match did not fit.
    async fn add_adjacent_messages(&mut self, excerpt: &mut MatchExcerpt) -> Result<(), RecallError> {
        let Some(RecalledMessage { thread_id, seq, .. }) = excerpt.matched else { return Ok(()) };
        let end =
            self.thread_parts.iter().find(|part| part.thread_id == thread_id).and_then(|part| part.before);
        let [before, after] = messages::read_adjacent(self.store, thread_id, seq, end).await?;
        for (adjacent, slot) in [(before, &mut excerpt.before), (after, &mut excerpt.after)] {
            let Some(adjacent) = adjacent.filter(|adjacent| self.placed_events.insert(adjacent.event_id))
            else {
                continue;
            };
            let text = truncate_chars(&adjacent.text, ADJACENT_CHARS_MAX);
            *slot = self.place_message(RecalledMessage { text, ..adjacent.into_recalled_message(thread_id) });
        }
        Ok(())
    }

    /// Charges the passage to the budget and returns it; `None` when it does not fit.
    fn place_message(&mut self, passage: RecalledMessage) -> Option<RecalledMessage> {
        let size = self.rendered_weight(&passage);
        (size <= self.remaining_weight).then(|| {
            self.remaining_weight -= size;
            passage
        })
    }

    /// Returns the weight of the rendered passage and of a separator line, in plain characters.
    fn rendered_weight(&self, passage: &RecalledMessage) -> u64 {
        weight(&render::render_message(passage, self.id_digits)) + SEPARATOR_CHARS
    }

    /// Collects the messages of the collector's only thread part from the seq `from` to the seq `to`, both included,
    /// until the budget is used. Of the first message, `from_char` characters are skipped.
    ///
    /// # Errors
    /// When the range is empty, and when the journal fails.
    pub(super) async fn collect_range(
        mut self,
        from: Seq,
        from_char: u64,
        to: Seq,
    ) -> Result<RecallResult, RecallError> {
        if from > to {
            return Err(RecallError::EmptyRange { from, to });
        }
        let ThreadPrefix { thread_id, before } = self.thread_parts[0];
        let departed_at = before.filter(|before| *before <= to);
        let end = departed_at.unwrap_or(to.saturating_add(1));
        let mut passages: Vec<RecalledMessage> = Vec::new();
        let mut resume_at = None;
        let mut cursor = from.saturating_sub(1);
        let next_seq = 'read: loop {
            let query = EventQuery {
                before: Some(end),
                categories: vec![Category::Message],
                damage: DamageHandling::Mark,
                ..EventQuery::after(cursor, RANGE_PAGE_ROWS)
            };
            let page = self.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { break None };
            cursor = last.seq;
            for event in &page {
                if is_damaged(event) {
                    self.count_damaged();
                    continue;
                }
                let Some(utterance) = Utterance::from_event(event) else { continue };
                let skipped = if event.seq == from { from_char } else { 0 };
                let whole = RecalledMessage { is_match: true, ..utterance.into_recalled_message(thread_id) };
                let whole = RecalledMessage { text: skip_chars(whole.text, skipped), ..whole };
                if whole.text.is_empty() {
                    continue;
                }
                // The first message is cut when it does not fit. Every call then returns some text, so a caller that
                // reads on from where an answer ends reaches the end of the range.
                let placed = match passages.is_empty() {
                    true => self.place_truncated(whole.clone()),
                    false => self.place_message(whole.clone()),
                };
                let Some(passage) = placed else { break 'read Some(event.seq) };
                resume_at = resume_at
                    .or_else(|| Some((event.seq, skipped + shown_chars(&whole.text, &passage.text)?)));
                passages.push(passage);
            }
        };
        let excerpts = if passages.is_empty() { Vec::new() } else { vec![passages] };
        Ok(RecallResult {
            resume_at,
            departed_at,
            ..self.build_result(excerpts, Remaining::Range { next_seq })
        })
    }

    /// Places the passage, cut to the remaining budget if necessary. Returns `None` when not even the frame of the
    /// passage fits.
    fn place_truncated(&mut self, mut passage: RecalledMessage) -> Option<RecalledMessage> {
        let mut chars_max = self.remaining_weight;
        // Rendering escapes the text and makes it longer, by an amount that is known only afterwards. So the text is
        // cut by an eighth until it fits.
        while self.rendered_weight(&passage) > self.remaining_weight && chars_max > 0 {
            chars_max -= chars_max.div_ceil(8);
            passage.text = truncate_chars(&passage.text, usize::try_from(chars_max).unwrap_or(usize::MAX));
        }
        self.place_message(passage)
    }
}

/// Returns `text` without its first `chars` characters. Returns an empty string when the text has no more.
fn skip_chars(text: String, chars: u64) -> String {
    let position = text.char_indices().nth(usize::try_from(chars).unwrap_or(usize::MAX));
    match (chars, position) {
        (0, _) => text,
        (_, Some((start, _))) => text[start..].trim_end().to_owned(),
        (_, None) => String::new(),
    }
}

/// Returns the number of characters of `whole` that its shortened form covers, leading blanks included. Returns `None`
/// when the text was not shortened.
fn shown_chars(whole: &str, shortened: &str) -> Option<u64> {
    let shown = shortened.strip_suffix(ELLIPSIS).filter(|_| whole != shortened)?;
    let leading_blanks = whole.len() - whole.trim_start().len();
    Some(whole[..(leading_blanks + shown.len()).min(whole.len())].chars().count() as u64)
}

fn thread_ids(parts: &[ThreadPrefix]) -> Vec<ThreadId> {
    parts.iter().map(|part| part.thread_id).collect()
}
