//! Reports about a thread: the size of its next model request and its cost. Reports change nothing.

use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

use journal::EventQuery;
use model::ChatModel;
use model::prices;
use protocol::event::body::{ModelCalled, SubagentEnded};
use protocol::{Category, EventType, Message, RunId, Seq, ThreadId, Usage};
use runtime::RequestPreview;
use serde::Serialize;

use crate::ThreadService;
use crate::{Result, ThreadError};

/// The content of a thread's next model request by size. Token counts are estimates, calibrated by the
/// model's own count for the last request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextReport {
    /// `provider/name` of the model; `None` if no model can be used.
    pub model: Option<String>,
    /// The context window of the model in tokens; `None` if it is unknown.
    pub window_tokens: Option<u64>,
    /// The parts of the request, in the order in which they are sent.
    pub parts: Vec<ContextPart>,
    /// The sum of the parts in tokens.
    pub tokens: u64,
    /// The number of messages in the context, without the summary.
    pub message_count: usize,
    /// The size in tokens at which automatic compaction starts; `None` if it is off.
    pub trigger_tokens: Option<u64>,
    /// The compacted part of the thread; `None` if nothing is compacted.
    pub condensed: Option<CompactedPart>,
}

/// The compacted part of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactedPart {
    /// The seq of the newest compaction boundary.
    pub marker_seq: Seq,
    /// The seq of the last compacted event.
    pub last_seq: Seq,
    /// The name of the report's part that replaces the compacted events.
    pub part: &'static str,
}

/// The name of the part that replaces the compacted events.
const SUMMARY_PART: &str = "summary";

/// The name of the part that holds images and documents.
const MEDIA_PART: &str = "media";

/// The parts that consist of the conversation. All other parts are sent independent of it.
pub(crate) const CONVERSATION_PARTS: [&str; 3] = [SUMMARY_PART, MESSAGES_PART, MEDIA_PART];

/// The name of the part with the messages of the conversation.
const MESSAGES_PART: &str = "messages";

/// One part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// Its name: that of a hook, `tools`, or one of `CONVERSATION_PARTS`.
    pub name: String,
    /// Its estimated size in tokens.
    pub tokens: u64,
}

/// The cost of a thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CostReport {
    /// The cost by model. Sub-agents and internal calls are included.
    pub models: Vec<ModelCost>,
    /// The total in US dollars; `None` if the price of a model is unknown.
    pub dollars: Option<f64>,
    /// The month of the built-in price table.
    pub prices_as_of: &'static str,
}

/// The cost of one model in a thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelCost {
    /// `provider/name`.
    pub model: String,
    /// The number of answers.
    pub calls: u64,
    /// The tokens of all calls.
    pub usage: Usage,
    /// The cost in US dollars; `None` if the model's price is unknown.
    pub dollars: Option<f64>,
}

impl<'a> ThreadService<'a> {
    /// Returns the content of the thread's next model request by size. Without a usable model it contains
    /// only the conversation.
    ///
    /// # Errors
    /// Fails if the thread does not exist, if the request cannot be previewed, or if the journal fails.
    pub fn context_report(self, thread_id: ThreadId) -> BoxFuture<'a, Result<ContextReport>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            let model = self.agent.models.open_if_usable();
            let context = self.agent.contexts.read_context(&*self.agent.store, thread_id).await?;
            let factor =
                model.as_ref().map_or(1.0, |model| context.calibration_factor(&model.name().to_string()));
            // The cast truncates, which is harmless for a non-negative estimate.
            let calibrated = |tokens: u64| (tokens as f64 * factor) as u64;
            let part = |name: &str, tokens| ContextPart { name: name.to_owned(), tokens: calibrated(tokens) };
            let mut parts: Vec<ContextPart> = Vec::new();
            if let Some(model) = &model {
                let preview = self.preview_request(thread_id, model).await?;
                parts.extend(preview.hooks.iter().map(|(name, tokens)| part(name, *tokens)));
                parts.push(part("tools", preview.tools));
            }
            let (summary_tokens, media) =
                (context.summary_tokens(), model::tokens::media_tokens(&context.media));
            let conversation = [
                (SUMMARY_PART, summary_tokens),
                (MESSAGES_PART, context.tokens - summary_tokens),
                (MEDIA_PART, media),
            ];
            let sent = conversation.iter().filter(|(name, tokens)| *tokens > 0 || *name == MESSAGES_PART);
            parts.extend(sent.map(|(name, tokens)| part(name, *tokens)));
            Ok(ContextReport {
                model: model.as_ref().map(|model| model.name().to_string()),
                window_tokens: model.as_ref().and_then(|model| model.limits().context_tokens),
                tokens: parts.iter().map(|part| part.tokens).sum(),
                parts,
                message_count: context.messages.len() - context.summary_len,
                trigger_tokens: model
                    .as_ref()
                    .and_then(|model| self.agent.compactor(Some(model)).trigger_tokens()),
                condensed: context.beginning.compaction().map(|(marker_seq, compaction)| CompactedPart {
                    marker_seq,
                    last_seq: compaction.last_seq,
                    part: SUMMARY_PART,
                }),
            })
        })
    }

    /// Returns the parts of the thread's next request to `model` other than the conversation.
    ///
    /// # Errors
    /// [`ThreadError::PreviewFailed`] if a hook fails; otherwise fails if the thread does not exist or the
    /// journal fails.
    pub(crate) async fn preview_request(
        self,
        thread_id: ThreadId,
        model: &Arc<dyn ChatModel>,
    ) -> Result<RequestPreview> {
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let model_node = self.agent.turn_model_node(&assistant_id, model).await?;
        let preview = model_node.preview_request(&self.agent.store, thread_id, RunId::generate()).await;
        Ok(preview.map_err(|failure| ThreadError::PreviewFailed { thread_id, reason: failure.message })?)
    }

    /// Returns the cost of the thread, computed from the usage in its events. Rewound events count, because
    /// their calls were paid. Reads all message, trace and sub-agent events, page by page.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn cost_report(self, thread_id: ThreadId) -> BoxFuture<'a, Result<CostReport>> {
        journal::box_future(async move {
            let mut usage_by_model: BTreeMap<String, (u64, Usage)> = BTreeMap::new();
            let categories = vec![Category::Message, Category::Trace, Category::Subagent];
            let superseded = journal::SupersededVisibility::Shown;
            let mut after = 0;
            loop {
                let query = EventQuery {
                    categories: categories.clone(),
                    superseded,
                    ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
                };
                let page = self.agent.store.events(thread_id, query).await?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                for (model, usage) in page.iter().filter_map(model_usage) {
                    let (calls, total) = usage_by_model.entry(model).or_default();
                    *calls += 1;
                    total.add(usage);
                }
            }
            Ok(self.cost_of_usage(usage_by_model))
        })
    }
}

impl<'a> ThreadService<'a> {
    /// Returns the report for the calls and tokens of each model.
    fn cost_of_usage(self, usage_by_model: BTreeMap<String, (u64, Usage)>) -> CostReport {
        let models: Vec<ModelCost> = usage_by_model
            .into_iter()
            .map(|(model, (calls, usage))| {
                let dollars = self.agent.admin().usage_price(&model, &usage);
                ModelCost { model, calls, usage, dollars }
            })
            .collect();
        let dollars = models.iter().map(|model| model.dollars).sum();
        CostReport { models, dollars, prices_as_of: prices::PRICES_MONTH }
    }
}

/// Returns the model that an event names and the tokens that it used; `None` for events without usage.
fn model_usage(event: &protocol::Event) -> Option<(String, Usage)> {
    match event.kind()? {
        // A message that was copied from another branch was paid once, on that branch.
        EventType::AiMessage if event.parsed_metadata().again.is_some() => None,
        EventType::AiMessage => match event.message()? {
            Message::Ai(answer) => Some((answer.model?, answer.usage?)),
            Message::Human(_) | Message::Tool(_) => None,
        },
        EventType::ModelCalled => {
            let called: ModelCalled = event.body().ok()?;
            Some((called.model?, called.usage?))
        }
        EventType::SubagentEnded => {
            let ended: SubagentEnded = event.body().ok()?;
            Some((ended.model?, ended.usage))
        }
        _ => None,
    }
}
