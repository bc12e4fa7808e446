//! Reading what was found, and what fits. Which messages match is the journal's answer, their order that of `order`.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;
use journal::{EventQuery, RankQuery, Ranked, Store, ThreadPart};
use model::tokens::{CHARS_PER_TOKEN, weight};
use protocol::{Category, EventId, Seq, ThreadId};

use super::messages::{self, Said};
use super::order::{Match, Weights, newest_first};
use super::passage::{CUT, Finder, shortened};
use super::{Note, Passage, Recall, RecallError, RecallScope, Rest, render, words};

/// Messages that are ranked; of these the best are shown.
const RANKED_MAX: usize = 100;
/// Messages that are shown for words, beside those next to them.
pub(super) const SHOWN_MAX: usize = 12;
/// The part of the best score below which a message is not counted as a match.
const MATCH_SHARE: f64 = 0.25;
/// The best matches come with what was said right before and after, before there is room for others.
const WITH_NEIGHBOURS_FIRST: usize = 3;
/// Characters of a message that matches.
pub(super) const MATCH_CHARS_MAX: usize = 480;
/// Characters of a message next to one that matches.
pub(crate) const NEIGHBOUR_CHARS_MAX: usize = 160;
/// Characters of a line that separates passages.
const SEPARATOR_CHARS: u64 = 3;
/// Messages of a range that are read at a time.
const RANGE_PAGE: usize = 50;

/// One recall being put together.
pub(super) struct Gathering<'a> {
    store: &'a dyn Store,
    /// What is looked through, nearest first.
    parts: Vec<ThreadPart>,
    id_digits: usize,
    /// Plain characters that there is room for.
    room: u64,
    /// The messages that have or get a place.
    seen: HashSet<EventId>,
}

/// A message that matches, read.
struct Found {
    passage: Passage,
    matching: Match<Age>,
}

/// How late something was said: by the clock, then by the thread, then by the place in it.
type Age = (Timestamp, Reverse<usize>, Seq);

/// A match with what was said before and after it, as far as there was room.
#[derive(Default)]
struct Excerpt {
    before: Option<Passage>,
    found: Option<Passage>,
    after: Option<Passage>,
}

/// A message, by its thread and its seq there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageLocation {
    pub(super) thread_id: ThreadId,
    pub(super) seq: Seq,
}

impl<'a> Gathering<'a> {
    /// Returns an empty gathering from these threads, each up to its end.
    pub(super) fn new(store: &'a dyn Store, parts: Vec<ThreadPart>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Conversation, &ids(&parts));
        let room = (tokens_max.saturating_mul(CHARS_PER_TOKEN)).saturating_sub(render::FRAME_CHARS_MAX);
        Self { store, parts, id_digits, room, seen: HashSet::new() }
    }

    /// Returns the gathering from these threads among all of an assistant.
    pub(super) fn of_everything(store: &'a dyn Store, parts: Vec<ThreadPart>, tokens_max: u64) -> Self {
        let id_digits = render::id_digits(RecallScope::Everything, &ids(&parts));
        Self { id_digits, ..Self::new(store, parts, tokens_max) }
    }

    /// Gathers the messages that say most about the words of `text`, but for one.
    pub(super) async fn by_words(
        mut self,
        text: &str,
        except: Option<MessageLocation>,
    ) -> Result<Recall, RecallError> {
        let words = words::of(text);
        if words.is_empty() {
            return Err(RecallError::NoWords);
        }
        let finder = Finder::new(&words);
        let threads = self.parts.clone();
        let mut ranked = self.store.rank(RankQuery { threads, words, limit: RANKED_MAX }).await?;
        let least = ranked.first().map_or(0.0, |best| best.score * MATCH_SHARE);
        ranked.retain(|one| one.score >= least && except != Some(MessageLocation { thread_id: one.thread_id, seq: one.seq }));
        let weights = Weights::of(&ranked.iter().map(|one| one.held).collect::<Vec<_>>());
        let mut found: Vec<Found> = Vec::new();
        let mut left = ranked.len();
        for one in &ranked {
            if found.len() == SHOWN_MAX {
                break;
            }
            left -= 1;
            found.extend(self.found(one, &finder).await?);
        }
        let shown = found.len();
        let order = newest_first(&found.iter().map(|one| one.matching).collect::<Vec<_>>(), &weights);
        let matches = order.into_iter().map(|at| found[at].passage.clone()).collect();
        let excerpts = self.excerpts(matches).await?;
        let hidden = shown - excerpts.len();
        let rest = Rest::Messages((left + hidden) as u64);
        Ok(self.recalled(excerpts, rest))
    }

    fn recalled(&self, excerpts: Vec<Vec<Passage>>, rest: Rest) -> Recall {
        Recall {
            scope: RecallScope::Conversation,
            threads: ids(&self.parts),
            notes: Vec::new(),
            excerpts,
            rest,
            cut: None,
            left_at: None,
        }
    }

    /// Gathers the messages at these places, the best first, and returns for how many there was no room.
    pub(super) async fn at(
        &mut self,
        places: &[(ThreadId, Seq)],
        finder: &Finder,
    ) -> Result<(Vec<Vec<Passage>>, usize), RecallError> {
        let mut matches = Vec::new();
        for (thread_id, seq) in places {
            matches.extend(self.passage(*thread_id, *seq, finder).await?);
        }
        let wanted = matches.len();
        let excerpts = self.excerpts(matches).await?;
        let hidden = wanted - excerpts.len();
        Ok((excerpts, hidden))
    }

    /// Returns those of the notes that there is room for, in so many tokens at most.
    pub(super) fn placed_notes(&mut self, notes: Vec<Note>, tokens_max: u64) -> Vec<Note> {
        let mut room = self.room.min(tokens_max.saturating_mul(CHARS_PER_TOKEN));
        let mut placed = Vec::new();
        for note in notes {
            let size = weight(&render::note(&note)) + SEPARATOR_CHARS;
            if size <= room {
                room -= size;
                self.room -= size;
                placed.push(note);
            }
        }
        placed
    }

    /// Reads a match; `None` for one that only repeats another or what was recalled before.
    async fn found(&mut self, ranked: &Ranked, finder: &Finder) -> Result<Option<Found>, RecallError> {
        let Ranked { thread_id, seq, score, held } = *ranked;
        let Some(passage) = self.passage(thread_id, seq, finder).await? else { return Ok(None) };
        let nearness = self.parts.iter().position(|part| part.thread_id == thread_id).unwrap_or(usize::MAX);
        let age = (passage.at, Reverse(nearness), seq);
        Ok(Some(Found { passage, matching: Match { score, held, age } }))
    }

    /// Reads a message; `None` for one that only repeats another or what was recalled before.
    async fn passage(
        &mut self,
        thread_id: ThreadId,
        seq: Seq,
        finder: &Finder,
    ) -> Result<Option<Passage>, RecallError> {
        let said = messages::at(self.store, thread_id, seq).await?;
        let Some(said) = said.filter(|said| self.seen.insert(said.event_id)) else { return Ok(None) };
        let text = finder.passage(&said.text, MATCH_CHARS_MAX);
        Ok(Some(Passage { is_match: true, text, ..said.passage(thread_id) }))
    }

    /// Returns what there is room for, in the order in which it is to be read: the best matches with their neighbours,
    /// then the other matches, then the neighbours of those.
    async fn excerpts(&mut self, matches: Vec<Passage>) -> Result<Vec<Vec<Passage>>, RecallError> {
        let mut excerpts: Vec<Excerpt> = matches.iter().map(|_| Excerpt::default()).collect();
        let first = matches.len().min(WITH_NEIGHBOURS_FIRST);
        for at in 0..first {
            let whole = matches[at].clone();
            // The best is cut rather than left out: something was found.
            excerpts[at].found = if at == 0 { self.placed_cut(whole) } else { self.placed(whole) };
            self.add_neighbours(&mut excerpts[at]).await?;
        }
        for at in first..matches.len() {
            excerpts[at].found = self.placed(matches[at].clone());
        }
        for excerpt in &mut excerpts[first..] {
            self.add_neighbours(excerpt).await?;
        }
        let passages =
            |one: Excerpt| [one.before, one.found, one.after].into_iter().flatten().collect::<Vec<_>>();
        Ok(excerpts.into_iter().map(passages).filter(|passages| !passages.is_empty()).collect())
    }

    /// Adds the messages next to the match, unless they have a place already.
    async fn add_neighbours(&mut self, excerpt: &mut Excerpt) -> Result<(), RecallError> {
        let Some(Passage { thread_id, seq, .. }) = excerpt.found else { return Ok(()) };
        let end = self.parts.iter().find(|part| part.thread_id == thread_id).and_then(|part| part.before);
        let [before, after] = messages::beside(self.store, thread_id, seq, end).await?;
        for (said, slot) in [(before, &mut excerpt.before), (after, &mut excerpt.after)] {
            let Some(said) = said.filter(|said| self.seen.insert(said.event_id)) else { continue };
            let text = shortened(&said.text, NEIGHBOUR_CHARS_MAX);
            *slot = self.placed(Passage { text, ..said.passage(thread_id) });
        }
        Ok(())
    }

    /// Returns the passage when there is room for it, and takes the room.
    fn placed(&mut self, passage: Passage) -> Option<Passage> {
        let size = self.size(&passage);
        (size <= self.room).then(|| {
            self.room -= size;
            passage
        })
    }

    /// Returns the plain characters the passage takes as a model reads it, with a line that separates it.
    fn size(&self, passage: &Passage) -> u64 {
        weight(&render::line(passage, self.id_digits)) + SEPARATOR_CHARS
    }

    /// Gathers the messages of the one thread from one seq, and a character in that message, to another seq, as many as
    /// there is room for.
    pub(super) async fn by_range(
        mut self,
        from: Seq,
        from_char: u64,
        to: Seq,
    ) -> Result<Recall, RecallError> {
        if from > to {
            return Err(RecallError::EmptyRange { from, to });
        }
        let ThreadPart { thread_id, before: left } = self.parts[0];
        let left_at = left.filter(|left| *left <= to);
        let end = left_at.unwrap_or(to.saturating_add(1));
        let mut passages: Vec<Passage> = Vec::new();
        let mut cut = None;
        let mut at = from.saturating_sub(1);
        let next_seq = 'read: loop {
            let query = EventQuery {
                before: Some(end),
                categories: vec![Category::Message],
                ..EventQuery::after(at, RANGE_PAGE)
            };
            let page = self.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { break None };
            at = last.seq;
            for event in &page {
                let Some(said) = Said::of(event) else { continue };
                let passed = if event.seq == from { from_char } else { 0 };
                let whole = Passage { is_match: true, ..said.passage(thread_id) };
                let whole = Passage { text: behind(whole.text, passed), ..whole };
                if whole.text.is_empty() {
                    continue;
                }
                // The first is cut rather than left out, so that reading on always ends.
                let placed = match passages.is_empty() {
                    true => self.placed_cut(whole.clone()),
                    false => self.placed(whole.clone()),
                };
                let Some(passage) = placed else { break 'read Some(event.seq) };
                cut = cut.or_else(|| Some((event.seq, passed + shown_of(&whole.text, &passage.text)?)));
                passages.push(passage);
            }
        };
        let excerpts = if passages.is_empty() { Vec::new() } else { vec![passages] };
        Ok(Recall { cut, left_at, ..self.recalled(excerpts, Rest::Range { next_seq }) })
    }

    /// Returns the passage, cut to what there is room for.
    fn placed_cut(&mut self, mut passage: Passage) -> Option<Passage> {
        let mut chars_max = self.room;
        // What is made inert is longer than what it was.
        while self.size(&passage) > self.room && chars_max > 0 {
            chars_max -= chars_max.div_ceil(8);
            passage.text = shortened(&passage.text, usize::try_from(chars_max).unwrap_or(usize::MAX));
        }
        self.placed(passage)
    }
}

/// Returns what is left of `text` behind so many characters.
fn behind(text: String, chars: u64) -> String {
    let at = text.char_indices().nth(usize::try_from(chars).unwrap_or(usize::MAX));
    match (chars, at) {
        (0, _) => text,
        (_, Some((at, _))) => text[at..].trim_end().to_owned(),
        (_, None) => String::new(),
    }
}

/// Returns how many characters of `whole` a shortened form has; `None` when it is not shortened.
fn shown_of(whole: &str, shortened: &str) -> Option<u64> {
    let kept = shortened.strip_suffix(CUT).filter(|_| whole != shortened)?;
    let blank = whole.len() - whole.trim_start().len();
    Some(whole[..(blank + kept.len()).min(whole.len())].chars().count() as u64)
}

fn ids(parts: &[ThreadPart]) -> Vec<ThreadId> {
    parts.iter().map(|part| part.thread_id).collect()
}
