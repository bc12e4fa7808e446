//! Sizes and prices around a handoff: what a draft took, what the child's first turn will take against going on, and
//! whether a thread is so full that a handoff is worth proposing.

use journal::{EventQuery, ThreadPatch, Transaction, Write};
use protocol::event::body::{DraftTrace, ModelCalled};
use protocol::{Category, EventType, ThreadId, Usage};
use serde::Serialize;
use serde_json::Value;

use super::PendingHandoff;
use crate::Result;
use crate::agent::services::HandoffService;
use crate::reports::{CONVERSATION_PARTS, ContextPart};

/// The key of a thread's metadata that says at which size a handoff was last proposed, in tokens.
const PROPOSED_KEY: &str = "handoff_proposed_at_tokens";

/// Model calls among which that of a draft is looked for: behind it there are those of turns that began since.
const CALLS_LOOKED_AT: usize = 200;

/// What a handoff costs, and what going on would.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HandoffCost {
    /// Tokens that the shown draft took; 0 for an extract.
    pub draft_tokens: u64,
    /// Its price in dollars; `None` when it is not known.
    pub draft_dollars: Option<f64>,
    /// Input tokens of the child's first request, before the person's message; `None` without a model.
    pub first_turn_tokens: Option<u64>,
    /// Their price.
    pub first_turn_dollars: Option<f64>,
    /// Input tokens of the parent's next request, before the person's message.
    pub continuing_tokens: Option<u64>,
    /// Their price.
    pub continuing_dollars: Option<f64>,
}

/// How full a thread's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fullness {
    /// Tokens of the next request, by estimate.
    pub tokens: u64,
    /// Tokens of the model's window.
    pub window_tokens: u64,
    /// Whether it is time to propose something, once for this size.
    pub is_due: bool,
}

impl HandoffService<'_> {
    /// Returns what a pending handoff costs, as far as that can be told.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn cost(self, pending: &PendingHandoff) -> Result<HandoffCost> {
        let model = &pending.proposal.summary_json.model;
        let spent = self.draft_usage(pending).await?;
        let mut cost = HandoffCost {
            draft_tokens: spent.total_tokens(),
            draft_dollars: self.agent.admin().price_of(model, &spent),
            ..HandoffCost::default()
        };
        let Ok(context) = self.agent.threads().context_report(pending.handoff.parent_thread_id).await else {
            return Ok(cost);
        };
        let stays = |part: &&ContextPart| !CONVERSATION_PARTS.contains(&part.name.as_str());
        let frame: u64 = context.parts.iter().filter(stays).map(|part| part.tokens).sum();
        let first = frame + model::tokens::estimate(&pending.proposal.summary_md);
        let Some(asked) = &context.model else { return Ok(cost) };
        let price =
            |tokens| self.agent.admin().price_of(asked, &Usage { input_tokens: tokens, ..Usage::default() });
        cost.first_turn_tokens = Some(first);
        cost.first_turn_dollars = price(first);
        cost.continuing_tokens = Some(context.tokens);
        cost.continuing_dollars = price(context.tokens);
        Ok(cost)
    }

    /// Returns what the draft that is shown took; nothing for one that no model wrote just then.
    async fn draft_usage(self, pending: &PendingHandoff) -> Result<Usage> {
        let (handoff_id, iteration) = (pending.handoff.handoff_id, pending.proposal.iteration);
        if pending.proposal.summary_json.tokens_used == 0 {
            return Ok(Usage::default());
        }
        let categories = vec![Category::Trace];
        let query = EventQuery { categories, limit: CALLS_LOOKED_AT, ..EventQuery::default() };
        let events = self.agent.store.events(pending.handoff.parent_thread_id, query).await?;
        let is_draft = |call: &ModelCalled| {
            let drafted = call.trace.as_ref().and_then(DraftTrace::iteration);
            call.handoff_id == Some(handoff_id) && drafted == Some(u64::from(iteration))
        };
        for event in events.iter().rev().filter(|event| event.kind() == Some(EventType::ModelCalled)) {
            let call: ModelCalled = event.body()?;
            if is_draft(&call) {
                return Ok(call.usage.unwrap_or_default());
            }
        }
        Ok(Usage::default())
    }

    /// Returns how full the thread's context is; `None` when no model is configured or its window is not known. Growing
    /// smaller again is noted, so that the next growth counts.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn fullness(self, thread_id: ThreadId) -> Result<Option<Fullness>> {
        let Ok(context) = self.agent.threads().context_report(thread_id).await else { return Ok(None) };
        let Some(window_tokens) = context.window_tokens.filter(|window| *window > 0) else { return Ok(None) };
        let metadata = self.agent.thread(thread_id).await?.metadata;
        let proposed = metadata.get(PROPOSED_KEY).and_then(Value::as_u64);
        let share = self.agent.config.handoff.propose_at;
        // Where a small window is condensed earlier, it is proposed earlier in the same measure.
        let usual = compaction::TRIGGER_FRACTION;
        let full = match context.trigger_tokens {
            // Truncation of a non-negative number is meant.
            Some(trigger) => window_tokens.min((trigger as f64 / usual) as u64),
            None => window_tokens,
        };
        let due = handoff::proposal_due(context.tokens, full, share, proposed);
        if due == handoff::Due::NoLonger {
            self.note_proposed(thread_id, None).await?;
        }
        let is_due = due == handoff::Due::Now;
        Ok(Some(Fullness { tokens: context.tokens, window_tokens, is_due }))
    }

    /// Remembers that something was proposed when the context had `tokens`: it is not proposed again before it has
    /// really grown.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn proposed_at(self, thread_id: ThreadId, tokens: u64) -> Result<()> {
        self.note_proposed(thread_id, Some(tokens)).await
    }

    async fn note_proposed(self, thread_id: ThreadId, tokens: Option<u64>) -> Result<()> {
        let mut patch = ThreadPatch::default();
        match tokens {
            Some(tokens) => drop(patch.metadata.insert(PROPOSED_KEY.to_owned(), tokens.into())),
            None => patch.remove.push(PROPOSED_KEY.to_owned()),
        }
        let writes = vec![Write::UpdateThread { thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }
}
