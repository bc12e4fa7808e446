//! Reads the unarchived messages of a window page by page and packs them into chunks for a model. Only one page and one
//! chunk are in memory at a time.

use journal::{FactSource, Store, TurnQuery};
use model::tokens;
use protocol::{AssistantId, LoggedMessage, ThreadId};

use crate::tiers::model_summary::QuotableTurn;
use crate::tiers::offline::format_day;
use crate::tiers::turn_text::SummarizerTurn;
use crate::tiers::window::TurnWindow;

/// Number of messages that are read at a time.
const PAGE_TURNS: usize = 128;
/// The highest possible index: the databases store indexes as signed 64-bit integers.
const INDEX_MAX: u64 = i64::MAX.unsigned_abs();

/// The unarchived messages of a window, page by page.
pub(super) struct TurnPages<'a> {
    store: &'a dyn Store,
    /// The query for the next page; `None` at the end.
    query: Option<TurnQuery>,
}

impl<'a> TurnPages<'a> {
    /// Returns the pages of the window. An empty window has none.
    pub(super) fn new(store: &'a dyn Store, agent_id: &AssistantId, window: &TurnWindow) -> Self {
        let query = window.bounds().map(|(first, last)| TurnQuery {
            thread_id: window.thread_id,
            first: first.min(INDEX_MAX),
            last: last.min(INDEX_MAX),
            archived: Some(false),
            limit: PAGE_TURNS,
            ..TurnQuery::for_agent(agent_id.clone())
        });
        Self { store, query }
    }

    /// Reads the next page; `None` at the end.
    ///
    /// # Errors
    /// When the journal fails. The following call then returns `None`.
    pub(super) async fn next_page(&mut self) -> journal::Result<Option<Vec<LoggedMessage>>> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let page = self.store.turns(query.clone()).await?;
        if let Some(last) =
            page.last().filter(|last| page.len() == PAGE_TURNS && last.turn_index < query.last)
        {
            self.query = Some(TurnQuery { first: last.turn_index + 1, ..query });
        }
        Ok((!page.is_empty()).then_some(page))
    }
}

/// The text of a chunk, and its messages.
pub(super) type FullChunk = (String, Vec<QuotableTurn>);

/// Packs messages into chunks of limited weight.
pub(super) struct TurnChunker {
    /// Maximum weight of the messages of a chunk in plain characters. Date lines may exceed it slightly.
    weight_max: u64,
    /// The current chunk.
    chunk: String,
    /// The messages of the current chunk, which facts must quote.
    turns: Vec<QuotableTurn>,
    /// The weight of the current chunk.
    weight: u64,
    /// The day and the thread of the last message in the current chunk.
    last: Option<(String, ThreadId)>,
}

impl TurnChunker {
    /// Returns a chunker with an empty current chunk.
    pub(super) fn new(weight_max: u64) -> Self {
        Self { weight_max, chunk: String::new(), turns: Vec::new(), weight: 0, last: None }
    }

    /// Returns the current chunk, which is the last one.
    pub(super) fn into_last_chunk(self) -> FullChunk {
        (self.chunk, self.turns)
    }

    /// Adds a message. If it does not fit the current chunk, it begins a new one, and the full chunk is returned. A
    /// message without text is skipped.
    pub(super) fn add_turn(&mut self, logged: &LoggedMessage, turn: &SummarizerTurn) -> Option<FullChunk> {
        if turn.text.is_empty() {
            return None;
        }
        let mut lines = turn.to_lines();
        if tokens::weight(&lines) > self.weight_max {
            // A single message can exceed the chunk of a small window, if its characters have many bytes. It is cut.
            lines.truncate(tokens::head_end(&lines, self.weight_max));
            lines.truncate(tokens::floor_grapheme_boundary(&lines, lines.len()));
            lines.push('\n');
        }
        let weight = tokens::weight(&lines);
        let is_full = self.weight > 0 && self.weight + weight > self.weight_max;
        let full = is_full.then(|| {
            (self.weight, self.last) = (0, None);
            (std::mem::take(&mut self.chunk), std::mem::take(&mut self.turns))
        });
        self.add_date_line(logged);
        self.chunk.push_str(&lines);
        let source = FactSource { thread_id: logged.thread_id, seq: logged.seq, role: logged.role };
        self.turns.push(QuotableTurn::new(source, turn));
        self.weight += weight;
        full
    }

    /// Adds a line with the day if the day or the thread differs from those of the previous message. The line states
    /// that another conversation begins.
    fn add_date_line(&mut self, logged: &LoggedMessage) {
        let current = (format_day(logged.created_at.as_second()), logged.thread_id);
        if self.last.as_ref() == Some(&current) {
            return;
        }
        let is_other_thread = self.last.as_ref().is_some_and(|(_, thread_id)| *thread_id != current.1);
        let suffix = if is_other_thread { ", in another conversation" } else { "" };
        let line = format!("On {}{suffix}\n", current.0);
        self.weight += tokens::weight(&line);
        self.chunk.push_str(&line);
        self.last = Some(current);
    }
}
