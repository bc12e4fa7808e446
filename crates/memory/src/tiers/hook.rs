//! The hook of medium-term memory: adds recent summaries to the system prompt, as delimited, dated and inert
//! reference data within a token budget. It does not decide which messages are summarized.

mod archived_summaries;

use std::sync::Arc;

use async_trait::async_trait;
use journal::{Store, SummaryQuery};
use minijinja::{Environment, UndefinedBehavior};
use model::{ChatRequest, tokens, untrusted_text};
use protocol::{AssistantId, RunRef, ThreadId};
use runtime::{Channels, FailureKind, GraphUpdate, Hook, HookPoint, StepContext, StepFailure};
use serde::Serialize;

use super::{MemoryScope, MemorySettings};
use crate::hook::lru_cache::LruCache;
use crate::hook::memory_read_event;
use crate::prompt::{PromptSection, PromptSource};
use archived_summaries::ArchivedSummariesCache;

/// The template of the section.
const RECENT_MEMORY_TEMPLATE: &str = include_str!("../../prompts/recent_memory.md");

/// Maximum number of summaries of other threads that are considered.
const SUMMARIES_MAX: usize = 50;
/// Adds a section to the system prompt with the summaries of messages that left this thread's context, and with recent
/// summaries of the agent's other threads in the same project. With [`MemoryScope::Assistant`], those of all projects.
///
/// The section is the same for a whole run, so that the provider's prompt cache stays valid. Two kinds of summaries
/// are not in it: the summary of a handoff, and the summaries of this thread's compactions, which its context
/// contains already.
pub struct TieredMemoryHook {
    agent_id: AssistantId,
    /// Maximum estimated tokens of the whole section; 0 disables it.
    tokens_max: u64,
    /// The threads whose summaries are added.
    scope: MemoryScope,
    /// The section of each run; `None` for a run without one.
    sections: LruCache<RunRef, Option<Arc<PromptSection>>>,
    /// The summaries of messages that left the threads' contexts.
    archived: ArchivedSummariesCache,
}

/// A summary in the form that the template expects.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct RecentSummaryEntry {
    /// The attributes of its element: the thread and, for this thread, the seqs of the summarized messages.
    place: String,
    /// The summary's text, escaped.
    text: String,
}

/// The values of the template's fields.
#[derive(Serialize)]
struct RecentSummaryFields<'a> {
    this_thread: &'a [RecentSummaryEntry],
    other_threads: &'a [RecentSummaryEntry],
}

impl TieredMemoryHook {
    /// Returns the hook for threads of the agent.
    pub fn new(settings: &MemorySettings, agent_id: AssistantId) -> Self {
        let tokens_max = if settings.enabled { settings.recent_summaries_tokens } else { 0 };
        Self {
            agent_id,
            tokens_max,
            scope: settings.scope,
            sections: LruCache::default(),
            archived: ArchivedSummariesCache::default(),
        }
    }

    /// Returns the section of the step's run, and builds it on the first request of the run.
    async fn cached_section(
        &self,
        step: &StepContext<'_>,
    ) -> Result<Option<Arc<PromptSection>>, StepFailure> {
        let run = step.run_ref();
        if let Some(section) = self.sections.get(run) {
            return Ok(section);
        }
        let section = self.build_section(&**step.store, step.thread_id).await?.map(Arc::new);
        let bytes = section.as_ref().map_or(0, |section| section.text.len());
        self.sections.insert(run, section.clone(), bytes);
        Ok(section)
    }

    /// Builds the section for a thread. Returns `None` when memory is off or no summary fits.
    ///
    /// Summaries of this thread have precedence, because messages that left its context are most likely to be needed.
    /// The rest of the budget is for other threads.
    async fn build_section(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
    ) -> Result<Option<PromptSection>, StepFailure> {
        if self.tokens_max == 0 {
            return Ok(None);
        }
        let query = SummaryQuery {
            agent_id: self.agent_id.clone(),
            project: self.scope.project_scope(thread_id),
            except_thread: Some(thread_id),
            offset: 0,
            limit: SUMMARIES_MAX,
        };
        // Neither depends on the other, and with a remote store each waits for a round trip.
        let (archived, others) = futures::try_join!(
            self.archived.read(store, thread_id, self.tokens_max),
            store.summaries(query)
        )?;
        let this_thread = archived.entries();
        if this_thread.is_empty() && others.is_empty() {
            return Ok(None);
        }
        let frame = tokens::estimate_tokens(&render_section(&[], &[])?);
        let Some(mut left) = self.tokens_max.checked_sub(frame) else { return Ok(None) };
        let own = archived.ids();
        let this_thread = select_fitting(this_thread, &mut left);
        // A fork copies the `turns_archived` events of its source. Summaries in these events are shown as the fork's
        // own or are in its context, so they are not shown again as another thread's.
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
        let to_source = |entry: &RecentSummaryEntry| PromptSource {
            name: "medium_term_memory",
            sha256: protocol::sha256_hex(&entry.text),
        };
        let mut sources: Vec<PromptSource> =
            this_thread.iter().chain(&other_threads).map(to_source).collect();
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

/// Returns the newest entries that fit into `left` tokens, oldest first, and subtracts their tokens. The first entry
/// that does not fit ends the selection, so that the selected time span has no gaps.
fn select_fitting(newest_first: Vec<RecentSummaryEntry>, left: &mut u64) -> Vec<RecentSummaryEntry> {
    let mut fitting: Vec<RecentSummaryEntry> = newest_first
        .into_iter()
        .map_while(|entry| {
            // 12 tokens for the tags of the element and for the heading before the first entry of a group.
            let tokens = tokens::estimate_tokens(&entry.text) + tokens::estimate_tokens(&entry.place) + 12;
            *left = left.checked_sub(tokens)?;
            Some(entry)
        })
        .collect();
    fitting.reverse();
    fitting
}

/// Renders the template with these entries.
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
