//! The middleware of medium-term memory: it shows the model recent summaries, as delimited, dated, inert reference data
//! within a budget. Which turns became summaries is not decided here.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use journal::{EventQuery, Store, SummaryQuery};
use minijinja::{Environment, UndefinedBehavior};
use model::{ChatRequest, tokens, untrusted_text};
use protocol::{AssistantId, EventType, SummaryId, ThreadId, TurnsArchived};
use runtime::{Channels, FailureKind, GraphUpdate, Hook, HookPoint, StepContext, StepFailure};
use serde::Serialize;

use super::MemorySettings;
use crate::hook::memory_read_event;
use crate::hook::run_cache::RunCache;
use crate::prompt::{PromptSection, PromptSource};

/// The frame around the summaries.
const RECENT_MEMORY_TEMPLATE: &str = include_str!("../../prompts/recent_memory.md");

/// Summaries of other threads that are looked at.
const SUMMARIES_MAX: usize = 50;
/// Summaries of this thread that are looked at: those of its compactions are among them.
const ARCHIVED_EVENTS_MAX: usize = 200;
/// Those that are looked at first, of nearly every thread all: so few are had at once, without another thread that reads.
const ARCHIVED_EVENTS_FIRST: usize = 32;

/// Shows what this thread had said before its context begins, and what was said lately in the agent's other threads.
///
/// It is the same for a whole run, so that a provider's cache holds. A handed-over summary is no summary of this sort, and
/// the summaries of this thread's compactions stand in its context already.
pub struct TieredMemoryHook {
    agent_id: AssistantId,
    /// Tokens of the whole section.
    tokens_max: u64,
    /// The section of each run, if any.
    sections: RunCache<Option<Arc<PromptSection>>>,
}

/// A summary as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct RecentSummaryEntry {
    /// Where its words are.
    place: String,
    text: String,
}

/// The values of the template's fields.
#[derive(Serialize)]
struct RecentSummaryFields<'a> {
    this_thread: &'a [RecentSummaryEntry],
    other_threads: &'a [RecentSummaryEntry],
}

impl TieredMemoryHook {
    /// Returns the hook for the agent's threads.
    pub fn new(settings: &MemorySettings, agent_id: AssistantId) -> Self {
        let tokens_max = if settings.enabled { settings.recent_summaries_tokens } else { 0 };
        Self { agent_id, tokens_max, sections: RunCache::default() }
    }

    async fn cached_section(
        &self,
        step: &StepContext<'_>,
    ) -> Result<Option<Arc<PromptSection>>, StepFailure> {
        let run = step.run_ref();
        if let Some(known) = self.sections.get(run) {
            return Ok(known);
        }
        let section = self.build_section(&**step.store, step.thread_id).await?.map(Arc::new);
        let bytes = section.as_ref().map_or(0, |section| section.text.len());
        self.sections.insert(run, section.clone(), bytes);
        Ok(section)
    }

    async fn build_section(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
    ) -> Result<Option<PromptSection>, StepFailure> {
        if self.tokens_max == 0 {
            return Ok(None);
        }
        let archived = read_archived_turns(store, thread_id).await?;
        let query = SummaryQuery {
            agent_id: self.agent_id.clone(),
            except_thread: Some(thread_id),
            offset: 0,
            limit: SUMMARIES_MAX,
        };
        let others = store.summaries(query).await?;
        if archived.is_empty() && others.is_empty() {
            return Ok(None);
        }
        let frame = tokens::estimate_tokens(&render_section(&[], &[])?);
        let Some(mut left) = self.tokens_max.checked_sub(frame) else { return Ok(None) };
        let own: HashSet<SummaryId> = archived.iter().map(|archived| archived.summary_id).collect();
        let this_thread = select_fitting(departed_entries(archived, thread_id), &mut left);
        // A fork has been told of turns of its source: what it has of them is in its own events, or in its context.
        let others = others.into_iter().filter(|stored| !own.contains(&stored.summary.id)).map(|stored| {
            let place = match stored.thread_id {
                Some(thread_id) => format!("thread=\"{thread_id}\""),
                None => "thread=\"deleted\"".to_owned(),
            };
            RecentSummaryEntry { place, text: untrusted_text::neutralize(stored.summary.summary_text.trim()) }
        });
        let other_threads = select_fitting(others.collect(), &mut left);
        if this_thread.is_empty() && other_threads.is_empty() {
            return Ok(None);
        }
        let of = |entry: &RecentSummaryEntry| PromptSource {
            name: "medium_term_memory",
            sha256: protocol::sha256_hex(&entry.text),
        };
        let mut sources: Vec<PromptSource> = this_thread.iter().chain(&other_threads).map(of).collect();
        sources.push(PromptSource {
            name: "prompts/recent_memory.md",
            sha256: protocol::sha256_hex(RECENT_MEMORY_TEMPLATE),
        });
        Ok(Some(PromptSection { text: render_section(&this_thread, &other_threads)?, sources }))
    }
}

#[async_trait]
impl Hook for TieredMemoryHook {
    fn name(&self) -> &'static str {
        "TieredMemory"
    }

    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let Some(section) = self.cached_section(step).await? else { return Ok(GraphUpdate::default()) };
        let event = memory_read_event(&section)?;
        request.system.push(section.text.clone());
        request.system_volatile += 1;
        Ok(GraphUpdate { events: vec![event], ..GraphUpdate::default() })
    }
}

/// Returns what the thread was told of summaries of its turns, the newest first.
async fn read_archived_turns(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Vec<TurnsArchived>> {
    let newest = |limit| EventQuery { types: vec![EventType::TurnsArchived], limit, ..EventQuery::default() };
    let mut events = store.events(thread_id, newest(ARCHIVED_EVENTS_FIRST)).await?;
    if events.len() == ARCHIVED_EVENTS_FIRST {
        events = store.events(thread_id, newest(ARCHIVED_EVENTS_MAX)).await?;
    }
    Ok(events.iter().rev().filter_map(|event| event.body().ok()).collect())
}

/// Returns the summaries of what left the thread's context without a compaction.
fn departed_entries(archived: Vec<TurnsArchived>, thread_id: ThreadId) -> Vec<RecentSummaryEntry> {
    let left = archived.into_iter().filter(|archived| archived.reason.is_removed_from_context());
    let entries = left.map(|archived| RecentSummaryEntry {
        place: format!("thread=\"{thread_id}\" seqs=\"{}-{}\"", archived.first_seq, archived.last_seq),
        text: untrusted_text::neutralize(archived.summary.trim()),
    });
    entries.collect()
}

/// Returns as many of the entries, the newest first, as fit, in the order of time.
fn select_fitting(newest_first: Vec<RecentSummaryEntry>, left: &mut u64) -> Vec<RecentSummaryEntry> {
    let mut fitting: Vec<RecentSummaryEntry> = newest_first
        .into_iter()
        .map_while(|entry| {
            // The tags of its element, and a line of its own for the first of its sort.
            let tokens = tokens::estimate_tokens(&entry.text) + tokens::estimate_tokens(&entry.place) + 12;
            *left = left.checked_sub(tokens)?;
            Some(entry)
        })
        .collect();
    fitting.reverse();
    fitting
}

fn render_section(
    this_thread: &[RecentSummaryEntry],
    other_threads: &[RecentSummaryEntry],
) -> Result<String, StepFailure> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = RecentSummaryFields { this_thread, other_threads };
    let fields = minijinja::Value::from(minijinja::value::Serde(&fields));
    let failed =
        |error: minijinja::Error| StepFailure::new(FailureKind::Internal, format!("write a prompt: {error}"));
    environment.render_str(RECENT_MEMORY_TEMPLATE, fields).map_err(failed)
}

#[cfg(test)]
mod tests;
