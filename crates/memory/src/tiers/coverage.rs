//! Metadata of a summary's turns: their number, threads and times; and the heading line built from it.

use std::collections::HashMap;

use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::redact_and_count;
use jiff::Timestamp;
use journal::Store;
use model::untrusted_text;
use protocol::{LoggedMessage, ParentKind, Seq, Thread, ThreadId};
use serde::{Deserialize, Serialize};

use super::offline::format_day;

/// Threads that are named in a summary.
const TITLES_MAX: usize = 3;
/// Graphemes of the name of a thread.
const TITLE_GRAPHEMES: usize = 60;
/// Digits of the id of a thread that has no name.
const ID_DIGITS: usize = 8;

/// Which turns of an agent are meant, in the order of their indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TurnSet {
    pub count: u64,
    pub first: u64,
    pub last: u64,
    /// Differs for other turns between the same ends: the FNV hash of all indexes.
    digest: u64,
}

impl TurnSet {
    /// Returns the set with one more turn, which comes after the others.
    pub(super) fn with_turn(set: Option<Self>, index: u64) -> Self {
        let set = set.unwrap_or(Self { count: 0, first: index, last: index, digest: 0xcbf2_9ce4_8422_2325 });
        let digest = (set.digest ^ index).wrapping_mul(0x0100_0000_01b3);
        Self { count: set.count + 1, first: set.first.min(index), last: set.last.max(index), digest }
    }

    /// Returns the set of these turns; `None` of no turns.
    pub(super) fn from_indexes(indexes: impl IntoIterator<Item = u64>) -> Option<Self> {
        indexes.into_iter().fold(None, |set, index| Some(Self::with_turn(set, index)))
    }
}

/// The turns of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SummaryCoverage {
    /// Which they are.
    pub turns: TurnSet,
    /// When the earliest was said.
    pub earliest: Timestamp,
    /// When the latest was.
    pub latest: Timestamp,
    /// The threads they are of, in the order of their first turns here.
    pub threads: Vec<ThreadTurns>,
    thread_indexes: HashMap<ThreadId, usize>,
}

/// The turns of one thread among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadTurns {
    pub thread_id: ThreadId,
    pub first_seq: Seq,
    pub last_seq: Seq,
    pub turns: u64,
}

impl SummaryCoverage {
    /// Adds a turn to what was seen so far.
    pub(super) fn with_turn(seen: Option<Self>, turn: &LoggedMessage) -> Self {
        let at = turn.created_at;
        let turns = TurnSet::with_turn(seen.as_ref().map(|seen| seen.turns), turn.turn_index);
        let mut seen = seen.unwrap_or_else(|| Self {
            turns,
            earliest: at,
            latest: at,
            threads: Vec::new(),
            thread_indexes: HashMap::new(),
        });
        seen.turns = turns;
        (seen.earliest, seen.latest) = (seen.earliest.min(at), seen.latest.max(at));
        let (thread_id, seq) = (turn.thread_id, turn.seq);
        let place = *seen.thread_indexes.entry(thread_id).or_insert(seen.threads.len());
        match seen.threads.get_mut(place) {
            Some(thread) => {
                (thread.first_seq, thread.last_seq) = (thread.first_seq.min(seq), thread.last_seq.max(seq));
                thread.turns += 1;
            }
            None => seen.threads.push(ThreadTurns { thread_id, first_seq: seq, last_seq: seq, turns: 1 }),
        }
        seen
    }

    /// Returns the line a summary of these turns begins with, and how many secrets were withheld from it.
    pub(super) async fn summary_heading(&self, store: &dyn Store) -> journal::Result<(String, u64)> {
        let (first, last) = (format_day(self.earliest.as_second()), format_day(self.latest.as_second()));
        let days = if first == last { first } else { format!("{first} to {last}") };
        let mut titles = Vec::new();
        let mut withheld = 0;
        for thread in self.threads.iter().take(TITLES_MAX) {
            let stored = store.thread(thread.thread_id).await?;
            let title = stored.and_then(thread_title).unwrap_or_default();
            let (safe, secrets) = redact_and_count(&title);
            withheld += secrets;
            titles.push(
                match truncate_with_ellipsis(
                    &to_single_line(&untrusted_text::neutralize_line(&safe)),
                    TITLE_GRAPHEMES,
                ) {
                    title if title.is_empty() => {
                        thread.thread_id.to_string().chars().take(ID_DIGITS).collect::<String>()
                    }
                    title => format!("\"{title}\""),
                },
            );
        }
        let others = self.threads.len().saturating_sub(TITLES_MAX);
        let more = if others > 0 { format!(" and {others} more") } else { String::new() };
        let noun = if self.threads.len() == 1 { "thread" } else { "threads" };
        Ok((format!("{days}, {noun} {}{more}:", titles.join(", ")), withheld))
    }
}

/// Returns what a thread is called by. A child of a handoff has the title of the summary it was handed, and a fork the name
/// of its source, which may be such a child: that title is told to no other thread (M3).
fn thread_title(thread: Thread) -> Option<String> {
    match thread.parent_kind {
        Some(ParentKind::Handoff | ParentKind::Fork) => thread.first_prompt,
        Some(ParentKind::Subagent) | None => thread.name.or(thread.first_prompt),
    }
}
