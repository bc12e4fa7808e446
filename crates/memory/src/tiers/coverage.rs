//! Metadata of a summary's messages: their number, threads and times; and the heading line built from it.

use std::collections::HashMap;

use facts::formatting::{to_single_line, truncate_with_ellipsis};
use jiff::Timestamp;
use journal::Store;
use model::untrusted_text;
use protocol::{LoggedMessage, ParentKind, Seq, Thread, ThreadId};
use secrets::redact_and_count;
use serde::{Deserialize, Serialize};

use super::offline::format_day;

/// Maximum number of threads that the heading of a summary names.
const TITLES_MAX: usize = 3;
/// Maximum length of a thread's title in grapheme clusters.
const TITLE_GRAPHEMES: usize = 60;
/// Number of hex digits of the id of a thread without a title.
const ID_DIGITS: usize = 8;

/// The identity of a set of an agent's messages, in constant space. Equal sets have equal values; it is part of the
/// queue's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TurnSet {
    /// Number of messages.
    pub count: u64,
    /// The lowest index.
    pub first: u64,
    /// The highest index.
    pub last: u64,
    /// FNV-1a hash over all indexes, with one round for each index. It distinguishes sets with the same bounds.
    digest: u64,
}

impl TurnSet {
    /// Returns the set with one more message, whose index must be higher than those before. The constants are the
    /// offset basis and the prime of the 64-bit FNV-1a hash.
    pub(super) fn with_turn(set: Option<Self>, index: u64) -> Self {
        let set = set.unwrap_or(Self { count: 0, first: index, last: index, digest: 0xcbf2_9ce4_8422_2325 });
        let digest = (set.digest ^ index).wrapping_mul(0x0100_0000_01b3);
        Self { count: set.count + 1, first: set.first.min(index), last: set.last.max(index), digest }
    }

    /// Returns the set of the messages with these indexes, in ascending order. Returns `None` when there are none.
    pub(super) fn from_indexes(indexes: impl IntoIterator<Item = u64>) -> Option<Self> {
        indexes.into_iter().fold(None, |set, index| Some(Self::with_turn(set, index)))
    }
}

/// The messages that a summary covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SummaryCoverage {
    /// The set of all messages.
    pub turns: TurnSet,
    /// Time of the earliest message.
    pub earliest: Timestamp,
    /// Time of the latest message.
    pub latest: Timestamp,
    /// The threads of the messages, in the order of their first messages.
    pub threads: Vec<ThreadTurns>,
    /// The index in `threads` of each thread.
    thread_indexes: HashMap<ThreadId, usize>,
}

/// The messages of one thread that a summary covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadTurns {
    pub thread_id: ThreadId,
    /// The seq of the first covered message.
    pub first_seq: Seq,
    /// The seq of the last covered message, or of a later event that belongs to it, such as a tool result.
    pub last_seq: Seq,
    /// Number of covered messages.
    pub turns: u64,
}

impl SummaryCoverage {
    /// Returns the coverage with one more message. `None` stands for a coverage without messages.
    pub(super) fn with_turn(coverage: Option<Self>, turn: &LoggedMessage) -> Self {
        let at = turn.created_at;
        let turns = TurnSet::with_turn(coverage.as_ref().map(|coverage| coverage.turns), turn.turn_index);
        let mut coverage = coverage.unwrap_or_else(|| Self {
            turns,
            earliest: at,
            latest: at,
            threads: Vec::new(),
            thread_indexes: HashMap::new(),
        });
        coverage.turns = turns;
        (coverage.earliest, coverage.latest) = (coverage.earliest.min(at), coverage.latest.max(at));
        let (thread_id, seq) = (turn.thread_id, turn.seq);
        let index = *coverage.thread_indexes.entry(thread_id).or_insert(coverage.threads.len());
        match coverage.threads.get_mut(index) {
            Some(thread) => {
                (thread.first_seq, thread.last_seq) = (thread.first_seq.min(seq), thread.last_seq.max(seq));
                thread.turns += 1;
            }
            None => coverage.threads.push(ThreadTurns { thread_id, first_seq: seq, last_seq: seq, turns: 1 }),
        }
        coverage
    }

    /// Returns the first line of a summary of these messages, with their days and threads, and the number of secrets
    /// that were redacted from it. A thread that was deleted is named by its id.
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

/// Returns the title of a thread, or its first prompt.
///
/// The name of a handoff's child is the title of its summary, and a fork has the name of its source, which may be
/// such a child. That title must not reach another thread (M3), so both are named by their first prompt.
fn thread_title(thread: Thread) -> Option<String> {
    match thread.parent_kind {
        Some(ParentKind::Handoff | ParentKind::Fork) => thread.first_prompt,
        Some(ParentKind::Subagent) | None => thread.name.or(thread.first_prompt),
    }
}
