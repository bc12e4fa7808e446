//! Reports: what a thread's next request holds, what a thread has cost, which tools there are, what was said. They change
//! nothing.

pub(crate) mod doctor;

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::EventQuery;
use memory::{Recall, RecallQuery};
use model::ChatModel;
use model::prices::{self, Price};
use protocol::event::body::{ModelCalled, SubagentEnded};
use protocol::{Category, EventType, Message, RunId, Seq, ThreadId, Usage};
use runtime::Preview;
use serde::Serialize;

use crate::agent::services::{AdminService, MemoryService, ThreadService};
use crate::{Result, ThreadError};

/// What a thread's next request would hold, in tokens by estimate and by how the model counted the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextReport {
    /// `provider/name` of the model; `None` without one.
    pub model: Option<String>,
    /// The model's window, if known.
    pub window_tokens: Option<u64>,
    /// The parts, in the order they are sent.
    pub parts: Vec<ContextPart>,
    /// Their sum.
    pub tokens: u64,
    /// How many messages the conversation has.
    pub message_count: usize,
    /// Tokens from which on the conversation is condensed without being asked; `None` when it is not.
    pub trigger_tokens: Option<u64>,
    /// What is condensed.
    pub condensed: Option<CondensedPart>,
}

/// What of a thread is condensed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CondensedPart {
    /// The marker of the newest compaction.
    pub marker_seq: Seq,
    /// The last event that is condensed.
    pub last_seq: Seq,
    /// The part of the report that stands for it.
    pub part: &'static str,
}

/// The name of the part that stands for what is condensed.
const SUMMARY_PART: &str = "summary";

/// The name of the part that holds images and documents.
const MEDIA_PART: &str = "media";

/// The parts that are the conversation; the others are sent whatever was said.
pub(crate) const CONVERSATION_PARTS: [&str; 3] = [SUMMARY_PART, MESSAGES_PART, MEDIA_PART];

/// The name of the part that holds the conversation.
const MESSAGES_PART: &str = "messages";

/// One part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextPart {
    /// What it is.
    pub name: String,
    /// Its size.
    pub tokens: u64,
}

/// What a thread has cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CostReport {
    /// By model, those of sub-agents and internal calls included.
    pub models: Vec<ModelCost>,
    /// Dollars in all; `None` when a model's price is not known.
    pub dollars: Option<f64>,
    /// The month the built-in prices are of.
    pub prices_as_of: &'static str,
}

/// What one model has cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelCost {
    /// `provider/name`.
    pub model: String,
    /// How often it answered.
    pub calls: u64,
    /// The tokens.
    pub usage: Usage,
    /// Dollars; `None` when its price is not known.
    pub dollars: Option<f64>,
}

impl ThreadService<'_> {
    /// Returns what the thread's next request would hold; without a usable model, what there is of the conversation.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn context_report(self, thread_id: ThreadId) -> Result<ContextReport> {
        self.agent.thread(thread_id).await?;
        let model = self.agent.models.usable();
        let context = self.agent.contexts.read(&*self.agent.store, thread_id).await?;
        let times = model.as_ref().map_or(1.0, |model| context.times(&model.name().to_string()));
        // Truncation of a non-negative number is meant.
        let counted = |tokens: u64| (tokens as f64 * times) as u64;
        let part = |name: &str, tokens| ContextPart { name: name.to_owned(), tokens: counted(tokens) };
        let mut parts: Vec<ContextPart> = Vec::new();
        if let Some(model) = &model {
            let preview = self.preview(thread_id, model).await?;
            parts.extend(preview.hooks.iter().map(|(name, tokens)| part(name, *tokens)));
            parts.push(part("tools", preview.tools));
        }
        let (opening, media) = (context.opening_tokens(), model::tokens::of_media(&context.media));
        let own = [(SUMMARY_PART, opening), (MESSAGES_PART, context.tokens - opening), (MEDIA_PART, media)];
        let sent = own.iter().filter(|(name, tokens)| *tokens > 0 || *name == MESSAGES_PART);
        parts.extend(sent.map(|(name, tokens)| part(name, *tokens)));
        Ok(ContextReport {
            model: model.as_ref().map(|model| model.name().to_string()),
            window_tokens: model.as_ref().and_then(|model| model.limits().context_tokens),
            tokens: parts.iter().map(|part| part.tokens).sum(),
            parts,
            message_count: context.messages.len() - context.opening,
            trigger_tokens: model
                .as_ref()
                .and_then(|model| self.agent.compactor(Some(model)).trigger_tokens()),
            condensed: context.beginning.compaction().map(|(marker_seq, compaction)| CondensedPart {
                marker_seq,
                last_seq: compaction.last_seq,
                part: SUMMARY_PART,
            }),
        })
    }

    /// Returns what the thread's next request to the model would hold besides the conversation.
    pub(crate) async fn preview(self, thread_id: ThreadId, model: &Arc<dyn ChatModel>) -> Result<Preview> {
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let asking = self.agent.asking_node(&assistant_id, model).await?;
        let preview = asking.preview(&self.agent.store, thread_id, RunId::generate()).await;
        Ok(preview.map_err(|failure| ThreadError::Preview { thread_id, reason: failure.message })?)
    }

    /// Returns what the thread has cost, from the usage its events report; what was rewound counts, for it was paid.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn cost_report(self, thread_id: ThreadId) -> Result<CostReport> {
        let mut spent: BTreeMap<String, (u64, Usage)> = BTreeMap::new();
        let categories = vec![Category::Message, Category::Trace, Category::Subagent];
        let superseded = journal::Superseded::Shown;
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
            for (model, usage) in page.iter().filter_map(spending) {
                let (calls, total) = spent.entry(model).or_default();
                *calls += 1;
                total.add(usage);
            }
        }
        Ok(self.priced(spent))
    }
}

impl MemoryService<'_> {
    /// Returns what the thread and those it came from hold of what is wanted, in the original messages.
    ///
    /// # Errors
    /// When there is no word to look for, the range is empty, the thread named is not of the lineage, or the journal
    /// fails.
    pub async fn recall(self, thread_id: ThreadId, query: &RecallQuery) -> Result<Recall> {
        Ok(memory::recall(&*self.agent.store, thread_id, query).await?)
    }
}

impl AdminService<'_> {
    /// Returns what tokens of a model cost in dollars; `None` when its price is not known.
    pub fn price_of(self, model: &str, usage: &Usage) -> Option<f64> {
        let price: Option<Price> = prices::price(model, &self.agent.config.prices);
        price.map(|price| prices::cost(usage, &price))
    }
}

impl ThreadService<'_> {
    fn priced(self, spent: BTreeMap<String, (u64, Usage)>) -> CostReport {
        let models: Vec<ModelCost> = spent
            .into_iter()
            .map(|(model, (calls, usage))| {
                let dollars = self.agent.admin().price_of(&model, &usage);
                ModelCost { model, calls, usage, dollars }
            })
            .collect();
        let dollars = models.iter().map(|model| model.dollars).sum();
        CostReport { models, dollars, prices_as_of: prices::AS_OF }
    }
}

/// Returns the model an event names, and the tokens it took.
fn spending(event: &protocol::Event) -> Option<(String, Usage)> {
    match event.kind()? {
        // What is said again, because a thread went on from another branch, was paid for once.
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
