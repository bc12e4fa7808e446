//! Reads the remaining turns of a window page by page and packs them into chunks for a model. Only the next chunk
//! is kept in memory.

use journal::{Store, TurnQuery};
use model::tokens;
use protocol::{AssistantId, LoggedMessage, ThreadId};

use crate::tiers::offline::format_day;
use crate::tiers::turn_text::SummarizerTurn;
use crate::tiers::window::TurnWindow;

/// Turns that are read at a time.
const PAGE_TURNS: usize = 128;
/// The highest index there can be.
const INDEX_MAX: u64 = i64::MAX.unsigned_abs();

/// The turns that are left of a window, page by page.
pub(super) struct TurnPages<'a> {
    store: &'a dyn Store,
    /// The query for the next page; `None` at the end.
    query: Option<TurnQuery>,
}

impl<'a> TurnPages<'a> {
    /// Returns what is left of the window; nothing of an empty one.
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

    /// Returns the next page; `None` at the end.
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

/// A chunk being filled.
pub(super) struct TurnChunker {
    weight_max: u64,
    chunk: String,
    weight: u64,
    /// The day and the thread of the last turn.
    last: Option<(String, ThreadId)>,
}

impl TurnChunker {
    pub(super) fn new(weight_max: u64) -> Self {
        Self { weight_max, chunk: String::new(), weight: 0, last: None }
    }

    /// Returns the last chunk.
    pub(super) fn into_last_chunk(self) -> String {
        self.chunk
    }

    /// Adds a turn; returns the chunk before it when it is full.
    pub(super) fn add_turn(&mut self, turn: &LoggedMessage, said: &SummarizerTurn) -> Option<String> {
        if said.text.is_empty() {
            return None;
        }
        let mut lines = said.to_lines();
        if tokens::weight(&lines) > self.weight_max {
            // Few characters in many bytes, and a small window.
            lines.truncate(tokens::head_end(&lines, self.weight_max));
            lines.truncate(tokens::floor_grapheme_boundary(&lines, lines.len()));
            lines.push('\n');
        }
        let weight = tokens::weight(&lines);
        let is_full = self.weight > 0 && self.weight + weight > self.weight_max;
        let full = is_full.then(|| {
            (self.weight, self.last) = (0, None);
            std::mem::take(&mut self.chunk)
        });
        self.add_date_line(turn);
        self.chunk.push_str(&lines);
        self.weight += weight;
        full
    }

    /// Says when, and that it is another conversation, where that differs from the turn before.
    fn add_date_line(&mut self, turn: &LoggedMessage) {
        let here = (format_day(turn.created_at.as_second()), turn.thread_id);
        if self.last.as_ref() == Some(&here) {
            return;
        }
        let is_another = self.last.as_ref().is_some_and(|(_, thread_id)| *thread_id != here.1);
        let other = if is_another { ", in another conversation" } else { "" };
        let line = format!("On {}{other}\n", here.0);
        self.weight += tokens::weight(&line);
        self.chunk.push_str(&line);
        self.last = Some(here);
    }
}
