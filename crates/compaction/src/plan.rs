//! The plan of a compaction: the cut and the clips, computed from the journal before any model is called.

use facts::TranscriptItem;
use jiff::Timestamp;
use journal::view::context::{ContextStart, summary_message};
use journal::{EventQuery, Store};
use model::tokens;
use model::transcript::TokenBudget;
use protocol::{Category, CompactionTrigger, ContentBlock, Message, Seq, ThreadId};
use runtime::{FailureKind, ModelContext, StepFailure};
use serde::{Deserialize, Serialize};

use crate::clip::{ResultClip, clip_large_results};
use crate::compactor::Compactor;
use crate::cut::{CompactionCut, ContextMessage, find_cut, is_user_request};
use crate::trigger::{KEEP_MESSAGES, KeepPolicy, window_share};

/// The number of events read in a page.
const PAGE_ROWS: usize = 500;

/// The divisor of the request's size that limits the kept part after an overflow of an unknown window: a quarter is
/// kept.
const KEEP_DIVISOR_AFTER_OVERFLOW: u64 = 4;

/// The divisor of the conversation's size that limits the kept part when the user requests a compaction: a quarter is
/// kept.
const KEEP_DIVISOR_ON_REQUEST: u64 = 4;

/// The maximum share of summary and kept part together, in percent of the budget without the frame and the last
/// request. The rest is room for new messages.
const KEPT_PERCENT_MAX: u64 = 60;

/// The divisor of the free budget that gives the maximum size of the summary: a quarter.
const SUMMARY_DIVISOR: u64 = 4;

/// The size of a tool result in tokens below which it is not clipped because of a small keep policy, as long as all
/// kept results fit together.
const CLIP_TOKENS_MIN: u64 = 2_000;

/// The size of a tool result in tokens up to which it is never clipped.
const CLIP_TOKENS_FLOOR: u64 = 250;

/// The size of a tool result in tokens above which it is clipped when the window is unknown.
const CLIP_TOKENS_UNKNOWN_WINDOW: u64 = 20_000;

/// The size of the shortest useful summary in tokens.
const SUMMARY_TOKENS_MIN: u64 = 200;

/// A requested compaction. It is stored in a channel until the node carries it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionRequest {
    /// The trigger: automatic, the user or the agent, or an overflow.
    pub trigger: CompactionTrigger,
    /// The topic that the summary must keep in detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// The size of the kept part; `None` uses the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeepPolicy>,
    /// The estimated tokens of a request without its messages: instructions and tools.
    #[serde(default)]
    pub frame_tokens: u64,
    /// True if the run was started only for the compaction and ends with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole_run: bool,
}

impl CompactionRequest {
    /// Returns a request within a turn, without focus and with the configured kept part.
    pub(crate) const fn new(trigger: CompactionTrigger, frame_tokens: u64) -> Self {
        Self { trigger, focus: None, keep: None, frame_tokens, is_whole_run: false }
    }

    /// Returns the request as part of a turn whose requests have a frame of `frame_tokens` tokens. A request that was
    /// left by an unfinished compaction run must not end the turn that finds it.
    pub(crate) fn within_turn(self, frame_tokens: u64) -> Self {
        Self { frame_tokens, is_whole_run: false, ..self }
    }
}

/// A plan: the messages of the context, and what to do with them.
pub(crate) struct CompactionPlan {
    /// The messages after the opening of the context, in order.
    pub messages: Vec<ContextMessage>,
    /// The cut; `None` when only tool results are too large.
    pub cut: Option<CompactionCut>,
    /// The tool results of the kept part to clip.
    pub clips: Vec<ResultClip>,
    /// The context before the compaction.
    pub context: ModelContext,
    /// The sizes on which the plan is based.
    pub accounting: TokenAccounting,
}

/// The sizes of a request and of the budget, in tokens as the model counts them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TokenAccounting {
    /// The whole request.
    pub request_tokens: u64,
    /// The part of the request that is not messages: instructions and tools.
    pub frame_tokens: u64,
    /// The maximum size of a request; `None` when the window is unknown.
    pub budget_tokens: Option<u64>,
    /// The number of the model's tokens for one estimated token.
    pub estimate_factor: f64,
    /// The part of `estimate_factor` that is only due to an overflow: the provider refused a request that was
    /// estimated to fit, so it must have been larger than the estimate. It is 1 otherwise.
    pub overflow_factor: f64,
}

impl TokenAccounting {
    /// Returns an estimate in tokens as the model counts them.
    pub(crate) fn scale_estimate(&self, estimated: u64) -> u64 {
        // The conversion truncates a non-negative number, as intended.
        (estimated as f64 * self.estimate_factor) as u64
    }

    /// Returns a size as it is reported to users, without the correction for an overflow.
    pub(crate) fn reported_tokens(&self, tokens: u64) -> u64 {
        // The conversion truncates a non-negative number, as intended.
        (tokens as f64 / self.overflow_factor) as u64
    }
}

/// The result of planning.
pub(crate) enum PlanOutcome {
    /// There is nothing to compact.
    Nothing {
        /// The reason, as a clause.
        reason: String,
        /// The size of the request in tokens.
        request_tokens: u64,
    },
    /// A plan to carry out.
    Ready(Box<CompactionPlan>),
}

impl Compactor {
    /// Returns the plan for `request` in the thread. No model is called.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read. For an automatic compaction also when the parts that must be sent exceed the
    /// budget, because no summary could help then.
    pub(crate) async fn plan_compaction(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        now: Timestamp,
        request: &CompactionRequest,
    ) -> Result<PlanOutcome, StepFailure> {
        let context = self.contexts.read_context(store, thread_id).await?;
        let accounting = self.measure_request(&context, request);
        let messages = read_messages(store, thread_id, &context, accounting).await?;
        let mut plan = CompactionPlan { messages, cut: None, clips: Vec::new(), context, accounting };
        let keep = self.effective_keep(request, &plan);
        let kept_tokens = self.kept_tokens(keep, &accounting, &plan.messages);
        plan.cut = find_cut(&plan.messages, plan.context.beginning.request_seq(), keep, self.window_tokens());
        plan.clips = clip_large_results(
            plan.kept_messages(),
            plan.clip_threshold(kept_tokens),
            accounting.estimate_factor,
            thread_id,
            now,
        );
        // After an overflow the sizes are too uncertain for this check.
        if request.trigger == CompactionTrigger::Auto {
            plan.check_floor().map_err(|failure| match self.too_large_hint.clone() {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            })?;
        }
        if plan.cut.is_none() && plan.clips.is_empty() {
            let reason = no_plan_reason(&plan);
            return Ok(PlanOutcome::Nothing { reason, request_tokens: accounting.request_tokens });
        }
        Ok(PlanOutcome::Ready(Box::new(plan)))
    }

    /// Returns the sizes of the request. After an overflow of a request that was estimated to fit, all estimates are
    /// scaled so that the request fills the budget.
    fn measure_request(&self, context: &ModelContext, request: &CompactionRequest) -> TokenAccounting {
        let model = self.model_name();
        let budget = self.budget();
        let mut request_tokens = context.request_tokens(&model, request.frame_tokens);
        let mut overflow_factor = 1.0;
        if let (CompactionTrigger::Overflow, Some(budget)) = (request.trigger, budget)
            && request_tokens < budget
        {
            overflow_factor = budget as f64 / request_tokens.max(1) as f64;
            request_tokens = budget;
        }
        let estimate_factor = context.calibration_factor(&model) * overflow_factor;
        let mut accounting = TokenAccounting {
            request_tokens,
            frame_tokens: 0,
            budget_tokens: budget,
            estimate_factor,
            overflow_factor,
        };
        accounting.frame_tokens = accounting.scale_estimate(request.frame_tokens);
        accounting
    }

    /// Returns the size of the kept part: the requested or configured one, limited so that the next request is not
    /// due for compaction again. If the user requests a compaction without a size, even a short conversation is
    /// shortened.
    fn effective_keep(&self, request: &CompactionRequest, plan: &CompactionPlan) -> KeepPolicy {
        let (accounting, messages) = (&plan.accounting, &plan.messages);
        let keep = request.keep.unwrap_or_else(|| self.settings.keep(self.window_tokens()));
        let tokens = self.kept_tokens(keep, accounting, messages);
        let all: u64 = messages.iter().map(|message| message.tokens).sum();
        // The kept part alone must not make the next request due again.
        let limit = accounting.budget_tokens.into_iter().chain(self.trigger_tokens()).min();
        let tokens_max = match (limit, request.trigger) {
            (_, CompactionTrigger::Manual) if request.keep.is_some() => return keep,
            // A repeated request does not compact the messages that the first one has kept.
            (_, CompactionTrigger::Manual) if plan.context.summary_len > 0 => return keep,
            (_, CompactionTrigger::Manual) => all / KEEP_DIVISOR_ON_REQUEST,
            (None, CompactionTrigger::Overflow) => accounting.request_tokens / KEEP_DIVISOR_AFTER_OVERFLOW,
            (Some(budget), _) => {
                // The last request is sent in any case.
                let free = budget.saturating_sub(accounting.frame_tokens + plan.last_request_tokens());
                let summary = self.settings.max_summary_tokens.min(free / SUMMARY_DIVISOR);
                (free * KEPT_PERCENT_MAX / 100).saturating_sub(summary)
            }
            (None, CompactionTrigger::Auto) => return keep,
        };
        if tokens <= tokens_max { keep } else { KeepPolicy::Tokens(tokens_max) }
    }

    /// Returns the size of the kept part in tokens that `keep` gives for these messages.
    fn kept_tokens(&self, keep: KeepPolicy, accounting: &TokenAccounting, all: &[ContextMessage]) -> u64 {
        let newest = |messages: u64| {
            let messages = usize::try_from(messages).unwrap_or(usize::MAX);
            all.iter().rev().take(messages).map(|message| message.tokens).sum()
        };
        match (keep, self.window_tokens().or(accounting.budget_tokens)) {
            (KeepPolicy::Tokens(tokens), _) => tokens,
            (KeepPolicy::Fraction(share), Some(window)) => window_share(window, share),
            (KeepPolicy::Fraction(_), None) => newest(KEEP_MESSAGES),
            (KeepPolicy::Messages(messages), _) => newest(messages),
        }
    }

    /// Returns the maximum size of a request in tokens: the window without the room for the answer; `None` when the
    /// window is unknown.
    pub(crate) fn budget(&self) -> Option<u64> {
        let limits = self.model.as_ref()?.limits();
        TokenBudget::for_request(limits, &model::ChatRequest::default()).map(|budget| budget.tokens_max)
    }
}

impl CompactionPlan {
    /// Checks that the parts which must be sent fit the budget: frame, last request, newest messages and a short
    /// summary.
    ///
    /// # Errors
    ///
    /// When they do not fit. No summary could help then, so no model is called for one.
    fn check_floor(&self) -> Result<(), StepFailure> {
        let Some(budget) =
            self.accounting.budget_tokens.filter(|budget| self.accounting.request_tokens > *budget)
        else {
            return Ok(());
        };
        let request = self.last_request_tokens();
        let newest = self.newest_tokens();
        let has_more = self.cut.is_some() || self.context.summary_len > 0;
        let summary = if has_more { SUMMARY_TOKENS_MIN } else { 0 };
        let floor = self.accounting.frame_tokens + request + newest + summary;
        if floor <= budget {
            return Ok(());
        }
        let message = format!(
            "fit the request into the {budget} tokens that the window has besides the answer: {floor} tokens cannot be \
             compacted: instructions and tools {}, your last message {request}, the messages after it {newest}, a summary \
             of the rest {summary}",
            self.accounting.frame_tokens
        );
        Err(StepFailure::new(FailureKind::Limit, message).with_hint(
            "choose a model with a larger window with `--model`, or `/rewind` and send less at a time",
        ))
    }

    /// Returns the size in tokens above which a kept tool result is clipped: `kept`, the size of the kept part,
    /// reduced so that all kept results can be sent together.
    fn clip_threshold(&self, kept: u64) -> u64 {
        let upper = kept.max(CLIP_TOKENS_MIN);
        let Some(budget) = self.accounting.budget_tokens else {
            return upper.min(CLIP_TOKENS_UNKNOWN_WINDOW);
        };
        let required = self.accounting.frame_tokens + self.last_request_tokens() + SUMMARY_TOKENS_MIN;
        let available = budget.saturating_sub(required);
        let is_result = |message: &&ContextMessage| {
            matches!(message.item.kind, facts::TranscriptItemKind::Message(Message::Tool(_)))
        };
        let results = self.kept_messages().iter().filter(is_result);
        let (count, tokens) =
            results.fold((0, 0), |(count, tokens), message| (count + 1, tokens + message.tokens));
        if tokens <= available / 2 {
            return upper;
        }
        upper.min((available / (2 * count).max(1)).max(CLIP_TOKENS_FLOOR))
    }

    /// Returns the maximum size of the summary in estimated tokens: `configured`, or less if the kept part leaves
    /// less room.
    pub(crate) fn summary_tokens(&self, configured: u64) -> u64 {
        let Some(budget) = self.accounting.budget_tokens else { return configured };
        let others = self.tokens_after("");
        let free = budget.saturating_sub(self.accounting.frame_tokens) / SUMMARY_DIVISOR;
        let counted = free.min(budget.saturating_sub(others)).max(SUMMARY_TOKENS_MIN);
        // The conversion truncates a non-negative number, as intended.
        configured.min((counted as f64 / self.accounting.estimate_factor) as u64)
    }

    /// Returns the size of the user's last request in tokens, also when an earlier compaction repeats it; 0 without
    /// one.
    fn last_request_tokens(&self) -> u64 {
        let last = self.messages.iter().rev().find(|message| is_user_request(&message.item));
        match (last, self.context.beginning.request_seq()) {
            (Some(message), _) => message.tokens,
            (None, Some(seq)) => self.carried_request_tokens(seq),
            (None, None) => 0,
        }
    }

    /// Returns the size in tokens of a request in the opening of the context.
    fn carried_request_tokens(&self, seq: Seq) -> u64 {
        let index = self.context.seqs.iter().position(|context_seq| *context_seq == seq);
        index.map_or(0, |index| self.accounting.scale_estimate(message_tokens(&self.context)[index]))
    }

    /// Returns the size in tokens of the newest assistant message with its tool results; 0 when the newest message is a
    /// request.
    fn newest_tokens(&self) -> u64 {
        let mut newest = 0;
        for message in self.messages.iter().rev() {
            let facts::TranscriptItemKind::Message(content) = &message.item.kind else { break };
            match content {
                Message::Tool(_) => newest += self.tokens_after_clipping(message),
                Message::Ai(_) => return newest + message.tokens,
                Message::Human(_) => break,
            }
        }
        newest
    }

    /// Returns the size of a message in tokens after it has been clipped, if the plan clips it.
    fn tokens_after_clipping(&self, message: &ContextMessage) -> u64 {
        let clip = self.clips.iter().find(|clip| clip.clipped_result.seq == message.item.seq);
        clip.map_or(message.tokens, |clip| self.accounting.scale_estimate(clip.tokens_after))
    }

    /// Returns the messages that the summary replaces.
    pub(crate) fn dropped_messages(&self) -> &[ContextMessage] {
        let last = self.cut.as_ref().map_or(0, |cut| cut.last_seq);
        &self.messages[..self.messages.partition_point(|message| message.item.seq <= last)]
    }

    /// Returns the messages that stay in the context verbatim.
    fn kept_messages(&self) -> &[ContextMessage] {
        &self.messages[self.dropped_messages().len()..]
    }

    /// Returns the size of the next request in tokens when `summary` has replaced the dropped messages.
    pub(crate) fn tokens_after(&self, summary: &str) -> u64 {
        let kept: u64 = self.kept_messages().iter().map(|message| self.tokens_after_clipping(message)).sum();
        let opening = match &self.cut {
            Some(cut) => {
                let request = cut.last_request_seq.map_or(0, |seq| {
                    let message = self.messages.iter().find(|message| message.item.seq == seq);
                    message.map_or_else(|| self.carried_request_tokens(seq), |message| message.tokens)
                });
                request + self.accounting.scale_estimate(tokens::message_tokens(&summary_message(summary)))
            }
            None => self.opening_tokens(),
        };
        self.accounting.frame_tokens + opening + kept
    }

    /// Returns the size in tokens of the present opening of the context: an earlier summary and the repeated request.
    fn opening_tokens(&self) -> u64 {
        self.accounting.scale_estimate(self.context.summary_tokens())
    }
}

/// Returns the reason why there is nothing to compact, as a clause.
fn no_plan_reason(plan: &CompactionPlan) -> String {
    let since = match &plan.context.beginning.start {
        Some(ContextStart::Compacted { .. }) => " since the last compaction",
        Some(ContextStart::ImportedBoundary { .. }) => " since the original agent's compaction",
        None => "",
    };
    match plan.messages.len() {
        0 => format!("there are no messages{since}"),
        1 => format!("there is only one message{since}"),
        count => format!("the {count} messages{since} are kept unchanged"),
    }
}

/// Returns the estimated tokens of each message of a context. Media count for the newest message that refers to them,
/// with which they are sent.
fn message_tokens(context: &ModelContext) -> Vec<u64> {
    let mut remaining = context.media.clone();
    let with_media = |message: &Message| {
        let media = message.content().iter().filter_map(|block| match block {
            ContentBlock::Media { sha256, .. } => remaining.remove_entry(sha256.as_ref()?),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        tokens::media_tokens(&media.collect()) + tokens::message_tokens(message)
    };
    let mut estimates: Vec<u64> = context.messages.iter().rev().map(with_media).collect();
    estimates.reverse();
    estimates
}

/// Returns the messages of a context after its opening, each with its size and with its origin from the journal.
/// Reads the journal page by page.
async fn read_messages(
    store: &dyn Store,
    thread_id: ThreadId,
    context: &ModelContext,
    accounting: TokenAccounting,
) -> Result<Vec<ContextMessage>, StepFailure> {
    let estimates = message_tokens(context);
    let (seqs, estimates) = (&context.seqs[context.summary_len..], &estimates[context.summary_len..]);
    let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else { return Ok(Vec::new()) };
    let mut messages = Vec::with_capacity(seqs.len());
    let mut after = first - 1;
    while after < *last {
        let query = EventQuery {
            before: Some(last + 1),
            categories: vec![Category::Message, Category::Middleware],
            ..EventQuery::after(after, PAGE_ROWS)
        };
        let page = store.events(thread_id, query).await?;
        let Some(newest) = page.last() else { break };
        after = newest.seq;
        for event in page {
            let Ok(index) = seqs.binary_search(&event.seq) else { continue };
            let tokens = accounting.scale_estimate(estimates[index]);
            messages.push(ContextMessage { item: TranscriptItem::from_event(&event), tokens });
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{compaction_request_channels, is_compaction_only_run};

    #[test]
    fn e9_the_request_of_an_unfinished_compaction_run_does_not_end_a_later_turn() {
        let request =
            CompactionRequest { is_whole_run: true, ..CompactionRequest::new(CompactionTrigger::Manual, 0) };
        assert_eq!(is_compaction_only_run(&compaction_request_channels(&request)), Ok(true));
        let within = request.within_turn(3_000);
        assert_eq!(within.frame_tokens, 3_000);
        assert_eq!(is_compaction_only_run(&compaction_request_channels(&within)), Ok(false));
    }
}
