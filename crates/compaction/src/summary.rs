//! The summary of a compaction: a record in sections, written by a model or offline, and the facts that are extracted
//! without a model.
//!
//! The model gets the earlier record and only the newly dropped messages. Nothing here reads the journal or stores
//! anything.

mod carried_facts;
mod model_summary;
mod offline;
mod record;
mod render;
mod response;
mod transcript;

use std::sync::Arc;
use std::time::Duration;

use facts::{FactCollector, GoalMatcher};
use jiff::Timestamp;
use model::ChatModel;
use protocol::{CarriedFacts, Compaction, CondensedSummary, OFFLINE_SUMMARY_MODEL, Usage};
use runtime::{Frame, RunScope};

use crate::cut::ContextMessage;
use model_summary::{ModelSummarizer, ModelSummaryError};

/// The maximum size of a rendered summary in tokens. A larger configured maximum has no effect.
pub(crate) const SUMMARY_TOKENS_MAX: u64 = 16_000;

/// Number of messages between two reports of the progress. They take about a tenth of a second.
const MESSAGES_PER_STEP: usize = 500;
/// The share of the model's record in a summary, in percent.
const RECORD_PERCENT: u64 = 50;
/// The share of the carried-over facts in a summary, in percent.
const CARRY_OVER_PERCENT: u64 = 30;

/// The input of a summary.
#[derive(Clone, Copy)]
pub(crate) struct SummarySource<'a> {
    /// The previous compaction, whose record is updated.
    pub previous: Option<&'a Compaction>,
    /// The messages to summarize beyond it, in order.
    pub dropped_messages: &'a [ContextMessage],
    /// The topic that the user wants kept in detail.
    pub focus: Option<&'a str>,
    /// True if the request that is repeated after the summary was answered; `None` when no request is repeated.
    pub request_answered: Option<bool>,
}

/// The limits of a summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompactionSummaryOptions {
    /// The maximum size of the whole summary in tokens.
    pub max_summary_tokens: u64,
    /// The size to which long messages are trimmed for the model, in tokens; `None` trims nothing.
    pub trim_tokens: Option<u64>,
}

/// A completed model call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummarizerCall {
    /// The name of the model, `provider/name`.
    pub model: String,
    /// The tokens it used; zero if the provider did not report them.
    pub usage: Usage,
    /// The SHA-256 hash of the prompt templates.
    pub prompt_sha256: String,
    /// The reason why it gave no usable record, in one line; `None` when it did.
    pub problem: Option<String>,
    /// The time at which the answer or the failure arrived.
    pub ended_at: Timestamp,
    /// The duration of the call.
    pub duration: Duration,
}

/// A summary, and how it was made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummaryOutcome {
    /// The record in its sections.
    pub sections: CondensedSummary,
    /// The facts of everything that has been compacted so far.
    pub carried: CarriedFacts,
    /// Record and facts as Markdown, for users and for the model.
    pub summary: String,
    /// The name of the model that wrote the record, or [`OFFLINE_SUMMARY_MODEL`].
    pub model: String,
    /// The tokens of all model calls together.
    pub usage: Usage,
    /// All model calls, in order.
    pub calls: Vec<SummarizerCall>,
    /// The SHA-256 hash of the prompt templates; `None` for an offline summary.
    pub prompt_sha256: Option<String>,
    /// For each model that failed, the reason in one line.
    pub problems: Vec<String>,
}

/// The error when the user stops the summary. Nothing is compacted then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("compact the conversation: the user stopped it")]
pub(crate) struct SummaryStopped {
    /// The model calls that had ended before.
    pub calls: Vec<SummarizerCall>,
}

/// Summarizes the dropped messages: calls the models in order until one gives a usable record, otherwise builds the
/// record offline.
///
/// # Errors
///
/// [`SummaryStopped`] if the user stops the summary. A failure of a model is never an error.
pub(crate) async fn summarize_dropped(
    source: &SummarySource<'_>,
    models: &[Arc<dyn ChatModel>],
    options: &CompactionSummaryOptions,
    scope: RunScope<'_>,
) -> Result<SummaryOutcome, SummaryStopped> {
    // With a focus, the collector also retains older messages that are about it.
    let mut collector = FactCollector::with_goal(source.focus.map(|focus| Arc::new(GoalMatcher::new(focus))));
    let total = source.dropped_messages.len();
    for (done, message) in source.dropped_messages.iter().enumerate() {
        if done > 0 && done % MESSAGES_PER_STEP == 0 {
            if scope.cancel.is_cancelled() {
                return Err(SummaryStopped { calls: Vec::new() });
            }
            let what = "compacting the conversation".to_owned();
            scope.frames.send(Frame::Progress { what, done: done as u64, total: Some(total as u64) });
            // The display of the progress and the keys of the user share this task.
            tokio::task::yield_now().await;
        }
        collector.push(&message.item);
    }
    let facts = collector.finish();
    let carried = carried_facts::merge_carried_facts(source, &facts);
    let mut calls = Vec::new();
    let mut problems = Vec::new();
    let mut model_record = None;
    for model in models {
        if scope.cancel.is_cancelled() {
            return Err(SummaryStopped { calls });
        }
        let summarizer = ModelSummarizer { model, source, options, scope };
        match summarizer.summarize(&mut calls).await {
            Ok(record) => {
                model_record = Some((record, model.name().to_string()));
                break;
            }
            Err(ModelSummaryError::Stopped) => return Err(SummaryStopped { calls }),
            Err(ModelSummaryError::Failed(problem)) => problems.push(problem),
        }
    }
    let prompt_sha256 = model_record.as_ref().map(|_| model_summary::prompt_sha256());
    let (record, model) = model_record
        .unwrap_or_else(|| (offline::summarize_offline(source, &facts), OFFLINE_SUMMARY_MODEL.to_owned()));
    let full_record =
        CondensedSummary { user_messages: carried_facts::merge_user_messages(source, &facts), ..record };
    let mut sections = record::normalize_record(full_record);
    if sections.goal.is_empty() {
        sections.goal = offline::goal(source, &facts);
    }
    let tokens_max = options.max_summary_tokens.min(SUMMARY_TOKENS_MAX);
    let last_seq = source.dropped_messages.last().map_or(0, |message| message.item.seq);
    let summary = render::render_within(&sections, &carried, last_seq, source.request_answered, tokens_max);
    let mut usage = Usage::default();
    calls.iter().for_each(|call: &SummarizerCall| usage.add(call.usage));
    Ok(SummaryOutcome { sections, carried, summary, model, usage, calls, prompt_sha256, problems })
}

#[cfg(test)]
mod tests;
