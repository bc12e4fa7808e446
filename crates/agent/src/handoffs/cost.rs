//! Sizes and prices around a handoff: the cost of a draft, the size of the child's first turn compared with
//! the parent's next one, and whether the context is large enough to suggest a handoff.

use futures::future::BoxFuture;
use journal::{EventQuery, ThreadPatch, Transaction, Write};
use protocol::event::body::{DraftTrace, ModelCalled};
use protocol::{Category, EventType, ThreadId, Usage};
use serde::Serialize;
use serde_json::Value;

use super::PendingHandoff;
use crate::HandoffService;
use crate::Result;
use crate::threads::reports::{CONVERSATION_PARTS, ContextPart};

/// The metadata key with the size in tokens at which a handoff was last suggested for the thread.
const PROPOSED_AT_KEY: &str = "handoff_proposed_at_tokens";

/// The most model calls that are searched for that of a draft. Later turns add calls after it.
const MODEL_CALLS_SCANNED_MAX: usize = 200;

/// The cost of a handoff, compared with the cost of continuing in the parent thread. Prices are in US dollars
/// and `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HandoffCost {
    /// Tokens of the call that wrote the draft, with those of the calls that summarized parts of a long conversation
    /// for it; 0 for an offline summary.
    pub draft_tokens: u64,
    /// The price of these calls.
    pub draft_dollars: Option<f64>,
    /// Input tokens of the child's first request, without the person's message; `None` if no model is usable.
    pub first_turn_tokens: Option<u64>,
    /// The price of those tokens.
    pub first_turn_dollars: Option<f64>,
    /// Input tokens of the parent's next request, without the person's message; `None` if no model is usable.
    pub continuing_tokens: Option<u64>,
    /// The price of those tokens.
    pub continuing_dollars: Option<f64>,
}

/// The share of the model's window that a thread's context occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ContextUsage {
    /// The estimated tokens of the next request.
    pub tokens: u64,
    /// The context window of the model in tokens.
    pub window_tokens: u64,
    /// True if a handoff should be suggested now. It is suggested once for a size.
    pub is_due: bool,
}

impl<'a> HandoffService<'a> {
    /// Returns the cost of a pending handoff. Values that cannot be determined are `None`.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn cost(self, pending: &'a PendingHandoff) -> BoxFuture<'a, Result<HandoffCost>> {
        journal::box_future(async move {
            let model = &pending.proposal.summary_json.model;
            let draft_usage = self.draft_usage(pending).await?;
            let mut cost = HandoffCost {
                draft_tokens: draft_usage.total_tokens(),
                draft_dollars: self.agent.admin().usage_price(model, &draft_usage),
                ..HandoffCost::default()
            };
            let Ok(context) = self.agent.threads().context_report(pending.handoff.parent_thread_id).await
            else {
                return Ok(cost);
            };
            let is_outside_conversation =
                |part: &&ContextPart| !CONVERSATION_PARTS.contains(&part.name.as_str());
            let frame_tokens: u64 =
                context.parts.iter().filter(is_outside_conversation).map(|part| part.tokens).sum();
            let first_turn_tokens =
                frame_tokens + model::tokens::estimate_tokens(&pending.proposal.package_md);
            let Some(model) = &context.model else { return Ok(cost) };
            let price = |tokens| {
                self.agent.admin().usage_price(model, &Usage { input_tokens: tokens, ..Usage::default() })
            };
            cost.first_turn_tokens = Some(first_turn_tokens);
            cost.first_turn_dollars = price(first_turn_tokens);
            cost.continuing_tokens = Some(context.tokens);
            cost.continuing_dollars = price(context.tokens);
            Ok(cost)
        })
    }

    /// Returns the usage of the calls for the current draft. It is zero for an offline summary and for
    /// calls that are no longer found.
    async fn draft_usage(self, pending: &PendingHandoff) -> Result<Usage> {
        let (handoff_id, iteration) = (pending.handoff.handoff_id, pending.proposal.iteration);
        if let Some(usage) = pending.draft_usage {
            return Ok(usage);
        }
        if pending.proposal.summary_json.tokens_used == 0 {
            return Ok(Usage::default());
        }
        let categories = vec![Category::Trace];
        let query = EventQuery { categories, limit: MODEL_CALLS_SCANNED_MAX, ..EventQuery::default() };
        let events = self.agent.store.events(pending.handoff.parent_thread_id, query).await?;
        let is_draft = |call: &ModelCalled| {
            let drafted = call.trace.as_ref().and_then(DraftTrace::iteration);
            call.handoff_id == Some(handoff_id) && drafted == Some(u64::from(iteration))
        };
        let mut total = Usage::default();
        for event in events.iter().filter(|event| event.kind() == Some(EventType::ModelCalled)) {
            let call: ModelCalled = event.body()?;
            if is_draft(&call) {
                total.add(call.usage.unwrap_or_default());
            }
        }
        Ok(total)
    }

    /// Returns the share of the model's window that the thread's context occupies; `None` if no model is
    /// usable or its window is unknown.
    ///
    /// If the context has shrunk since the last suggestion, that suggestion is forgotten, so that a handoff
    /// is suggested again when the context grows.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn context_usage(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Option<ContextUsage>>> {
        journal::box_future(async move {
            let Ok(context) = self.agent.threads().context_report(thread_id).await else { return Ok(None) };
            let Some(window_tokens) = context.window_tokens.filter(|window| *window > 0) else {
                return Ok(None);
            };
            let metadata = self.agent.thread(thread_id).await?.metadata;
            let proposed = metadata.get(PROPOSED_AT_KEY).and_then(Value::as_u64);
            let share = self.agent.config.handoff.propose_at;
            // A model whose conversations are compacted earlier than usual gets the suggestion earlier by the
            // same ratio.
            let usual_trigger = compaction::TRIGGER_FRACTION;
            let full_tokens = match context.trigger_tokens {
                // The cast truncates, which is harmless for a non-negative estimate.
                Some(trigger) => window_tokens.min((trigger as f64 / usual_trigger) as u64),
                None => window_tokens,
            };
            let timing = handoff::proposal_timing(context.tokens, full_tokens, share, proposed);
            if timing == handoff::ProposalTiming::NoLonger {
                self.write_proposed_size(thread_id, None).await?;
            }
            let is_due = timing == handoff::ProposalTiming::Now;
            Ok(Some(ContextUsage { tokens: context.tokens, window_tokens, is_due }))
        })
    }

    /// Records that a handoff was suggested at this context size. It is not suggested again before the
    /// context has grown substantially.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn record_proposed_size(self, thread_id: ThreadId, tokens: u64) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move { self.write_proposed_size(thread_id, Some(tokens)).await })
    }

    /// Stores the size of the last suggestion in the thread's metadata, or removes it.
    async fn write_proposed_size(self, thread_id: ThreadId, tokens: Option<u64>) -> Result<()> {
        let mut patch = ThreadPatch::default();
        match tokens {
            Some(tokens) => drop(patch.metadata.insert(PROPOSED_AT_KEY.to_owned(), tokens.into())),
            None => patch.remove_metadata.push(PROPOSED_AT_KEY.to_owned()),
        }
        let writes = vec![Write::UpdateThread { thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}
