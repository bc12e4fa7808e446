//! What a compaction would do, worked out from the journal before any model is asked.

use facts::Item;
use jiff::Timestamp;
use journal::view::context::{Start, summary_message};
use journal::{EventQuery, Store};
use model::tokens;
use model::transcript::Budget;
use protocol::{Block, Category, CompactionTrigger, Message, Seq, ThreadId};
use runtime::{Context, Failure, FailureKind};
use serde::{Deserialize, Serialize};

use crate::clip::{Clip, clips};
use crate::compactor::Compactor;
use crate::cut::{Cut, Unit, cut, is_request};
use crate::trigger::{KEEP_MESSAGES, Keep, share_of};

/// Events read at a time.
const PAGE_ROWS: usize = 500;

/// The largest part of a request that is kept when the provider refused it and nobody knows the model's window.
const KEPT_PART_AFTER_OVERFLOW: u64 = 4;

/// The largest part of the conversation that is kept when a person asks for it to be condensed.
const KEPT_PART_ASKED_FOR: u64 = 4;

/// Of every hundred tokens that a request leaves beside its frame, those that the summary and what is kept may fill: the
/// rest is for what comes next.
const KEPT_PERCENT_MAX: u64 = 60;

/// The part of those tokens that the summary may have.
const SUMMARY_PART: u64 = 4;

/// Tokens of a result from which on it may be clipped, however little is kept, where they fit.
const CLIP_TOKENS_MIN: u64 = 2_000;

/// Tokens of a result up to which it is never clipped.
const CLIP_TOKENS_LEAST: u64 = 250;

/// Tokens of a result from which on it is clipped where nobody knows the window.
const CLIP_TOKENS_UNKNOWN: u64 = 20_000;

/// Tokens of the shortest summary.
const SUMMARY_TOKENS_MIN: u64 = 200;

/// A compaction that is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Why.
    pub trigger: CompactionTrigger,
    /// What is to be kept above all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// How much stays as it is; `None` follows the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// Tokens of everything in a request but its conversation, by estimate.
    #[serde(default)]
    pub frame_tokens: u64,
    /// Whether the run was begun for it, and ends with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole_run: bool,
}

impl Wanted {
    /// Returns one that nobody asked for.
    pub(crate) const fn unasked(trigger: CompactionTrigger, frame_tokens: u64) -> Self {
        Self { trigger, focus: None, keep: None, frame_tokens, is_whole_run: false }
    }

    /// Returns it as a part of a turn, whose requests have a frame of that size: what was asked for by a run that never
    /// came to its end must not end the turn.
    pub(crate) fn in_turn(self, frame_tokens: u64) -> Self {
        Self { frame_tokens, is_whole_run: false, ..self }
    }
}

/// What is to be done.
pub(crate) struct Plan {
    pub units: Vec<Unit>,
    /// `None` when nothing but results is too large.
    pub cut: Option<Cut>,
    pub clips: Vec<Clip>,
    pub context: Context,
    pub sizes: Measured,
}

/// What a plan is measured by, in tokens as the model counts them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub request: u64,
    /// Everything in it that is no message.
    pub frame: u64,
    /// The most a request may have; `None` when nobody knows.
    pub budget: Option<u64>,
    /// How many times an estimate the model counts.
    pub times: f64,
    /// How much of `times` is there only because the provider refused the request, so that it must be larger than anybody
    /// can tell.
    pub suspected: f64,
}

impl Measured {
    /// Returns an estimate as the model counts it.
    pub(crate) fn counted(&self, estimated: u64) -> u64 {
        // Truncation of a non-negative number is meant.
        (estimated as f64 * self.times) as u64
    }

    /// Returns tokens as people are told them: as far as anybody knows.
    pub(crate) fn told(&self, tokens: u64) -> u64 {
        // Truncation of a non-negative number is meant.
        (tokens as f64 / self.suspected) as u64
    }
}

/// What a look at a thread found.
pub(crate) enum Planned {
    /// There is nothing to condense.
    Nothing {
        reason: String,
        /// Tokens of the request all the same.
        request_tokens: u64,
    },
    Ready(Box<Plan>),
}

impl Compactor {
    /// Works out what `wanted` means for the thread.
    pub(crate) async fn plan(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        now: Timestamp,
        wanted: &Wanted,
    ) -> Result<Planned, Failure> {
        let context = self.contexts.read(store, thread_id).await?;
        let sizes = self.measured(&context, wanted);
        let units = units(store, thread_id, &context, sizes).await?;
        let mut plan = Plan { units, cut: None, clips: Vec::new(), context, sizes };
        let keep = self.kept(wanted, &plan);
        let kept_tokens = self.kept_tokens(keep, &sizes, &plan.units);
        plan.cut = cut(&plan.units, plan.context.beginning.request_seq(), keep, self.window());
        plan.clips = clips(plan.kept(), plan.clip_from(kept_tokens), sizes.times, thread_id, now);
        // What a provider refused is not known well enough to say so.
        if wanted.trigger == CompactionTrigger::Auto {
            plan.check_floor()?;
        }
        if plan.cut.is_none() && plan.clips.is_empty() {
            let reason = nothing(&plan);
            return Ok(Planned::Nothing { reason, request_tokens: sizes.request });
        }
        Ok(Planned::Ready(Box::new(plan)))
    }

    /// Returns how the request is measured. One that the provider refused was larger than it is estimated to be.
    fn measured(&self, context: &Context, wanted: &Wanted) -> Measured {
        let model = self.model_name();
        let budget = self.budget();
        let mut request = context.request_tokens(&model, wanted.frame_tokens);
        let mut suspected = 1.0;
        if let (CompactionTrigger::Overflow, Some(budget)) = (wanted.trigger, budget)
            && request < budget
        {
            suspected = budget as f64 / request.max(1) as f64;
            request = budget;
        }
        let times = context.times(&model) * suspected;
        let mut sizes = Measured { request, frame: 0, budget, times, suspected };
        sizes.frame = sizes.counted(wanted.frame_tokens);
        sizes
    }

    /// Returns how much stays: what was asked for, and never so much that the next request is full again. Who asks for it
    /// without saying how much wants the conversation shorter, however short it is.
    fn kept(&self, wanted: &Wanted, plan: &Plan) -> Keep {
        let (sizes, units) = (&plan.sizes, &plan.units);
        let keep = wanted.keep.unwrap_or_else(|| self.settings.keep(self.window()));
        let tokens = self.kept_tokens(keep, sizes, units);
        let all: u64 = units.iter().map(|unit| unit.tokens).sum();
        // What is kept must not be due again.
        let limit = sizes.budget.into_iter().chain(self.trigger_tokens()).min();
        let room = match (limit, wanted.trigger) {
            (_, CompactionTrigger::Manual) if wanted.keep.is_some() => return keep,
            // Asked for again, it does not eat up what was kept the first time.
            (_, CompactionTrigger::Manual) if plan.context.opening > 0 => return keep,
            (_, CompactionTrigger::Manual) => all / KEPT_PART_ASKED_FOR,
            (None, CompactionTrigger::Overflow) => sizes.request / KEPT_PART_AFTER_OVERFLOW,
            (Some(budget), _) => {
                // The last request is sent whatever stays.
                let free = budget.saturating_sub(sizes.frame + plan.last_request());
                let summary = self.settings.max_summary_tokens.min(free / SUMMARY_PART);
                (free * KEPT_PERCENT_MAX / 100).saturating_sub(summary)
            }
            (None, CompactionTrigger::Auto) => return keep,
        };
        if tokens <= room { keep } else { Keep::Tokens(room) }
    }

    /// Returns how many tokens `keep` means here.
    fn kept_tokens(&self, keep: Keep, sizes: &Measured, units: &[Unit]) -> u64 {
        let newest = |messages: u64| {
            let messages = usize::try_from(messages).unwrap_or(usize::MAX);
            units.iter().rev().take(messages).map(|unit| unit.tokens).sum()
        };
        match (keep, self.window().or(sizes.budget)) {
            (Keep::Tokens(tokens), _) => tokens,
            (Keep::Fraction(share), Some(window)) => share_of(window, share),
            (Keep::Fraction(_), None) => newest(KEEP_MESSAGES),
            (Keep::Messages(messages), _) => newest(messages),
        }
    }

    /// Returns the most tokens a request may have.
    pub(crate) fn budget(&self) -> Option<u64> {
        let limits = self.model.as_ref()?.limits();
        Budget::of(limits, &model::ChatRequest::default()).map(|budget| budget.tokens_max)
    }
}

impl Plan {
    /// Fails when not even the least that must be sent fits: no summary helps then, and no model is asked for one.
    fn check_floor(&self) -> Result<(), Failure> {
        let Some(budget) = self.sizes.budget.filter(|budget| self.sizes.request > *budget) else {
            return Ok(());
        };
        let request = self.last_request();
        let newest = self.newest_tokens();
        let has_more = self.cut.is_some() || self.context.opening > 0;
        let summary = if has_more { SUMMARY_TOKENS_MIN } else { 0 };
        let floor = self.sizes.frame + request + newest + summary;
        if floor <= budget {
            return Ok(());
        }
        let message = format!(
            "fit the request into {budget} tokens, which the window has beside the answer: {floor} cannot be condensed: \
             instructions and tools {}, your last message {request}, what followed it {newest}, a summary of the rest \
             {summary}",
            self.sizes.frame
        );
        Err(Failure::new(FailureKind::Limit, message).with_hint(
            "choose a model with a larger window by `--model`, or `/rewind` and send less at a time",
        ))
    }

    /// Returns the tokens from which on a result that is kept is clipped: `kept`, but no more than lets all of the newest
    /// ones be sent together.
    fn clip_from(&self, kept: u64) -> u64 {
        let most = kept.max(CLIP_TOKENS_MIN);
        let Some(budget) = self.sizes.budget else { return most.min(CLIP_TOKENS_UNKNOWN) };
        let least = self.sizes.frame + self.last_request() + SUMMARY_TOKENS_MIN;
        let room = budget.saturating_sub(least);
        let is_result = |unit: &&Unit| matches!(unit.item.what, facts::What::Message(Message::Tool(_)));
        let results = self.kept().iter().filter(is_result);
        let (count, tokens) = results.fold((0, 0), |(count, tokens), unit| (count + 1, tokens + unit.tokens));
        if tokens <= room / 2 {
            return most;
        }
        most.min((room / (2 * count).max(1)).max(CLIP_TOKENS_LEAST))
    }

    /// Returns the tokens the summary may have, by estimate: `configured`, or as many as leave room for what is kept.
    pub(crate) fn summary_tokens(&self, configured: u64) -> u64 {
        let Some(budget) = self.sizes.budget else { return configured };
        let beside = self.tokens_after("");
        let free = budget.saturating_sub(self.sizes.frame) / SUMMARY_PART;
        let counted = free.min(budget.saturating_sub(beside)).max(SUMMARY_TOKENS_MIN);
        // Truncation of a non-negative number is meant.
        configured.min((counted as f64 / self.sizes.times) as u64)
    }

    /// Returns the tokens of the person's last request.
    fn last_request(&self) -> u64 {
        let last = self.units.iter().rev().find(|unit| is_request(&unit.item));
        match (last, self.context.beginning.request_seq()) {
            (Some(unit), _) => unit.tokens,
            (None, Some(seq)) => self.carried(seq),
            (None, None) => 0,
        }
    }

    fn carried(&self, seq: Seq) -> u64 {
        let at = self.context.seqs.iter().position(|at| *at == seq);
        at.map_or(0, |at| self.sizes.counted(sent_tokens(&self.context)[at]))
    }

    /// Returns the tokens of the newest messages that belong together, when they are no request.
    fn newest_tokens(&self) -> u64 {
        let mut newest = 0;
        for unit in self.units.iter().rev() {
            let facts::What::Message(message) = &unit.item.what else { break };
            match message {
                Message::Tool(_) => newest += self.after_clipping(unit),
                Message::Ai(_) => return newest + unit.tokens,
                Message::Human(_) => break,
            }
        }
        newest
    }

    fn after_clipping(&self, unit: &Unit) -> u64 {
        let clip = self.clips.iter().find(|clip| clip.clipped.seq == unit.item.seq);
        clip.map_or(unit.tokens, |clip| self.sizes.counted(clip.tokens))
    }

    /// Returns what is condensed.
    pub(crate) fn dropped(&self) -> &[Unit] {
        let last = self.cut.as_ref().map_or(0, |cut| cut.last_seq);
        &self.units[..self.units.partition_point(|unit| unit.item.seq <= last)]
    }

    /// Returns what stays.
    fn kept(&self) -> &[Unit] {
        &self.units[self.dropped().len()..]
    }

    /// Returns the tokens of the next request once `summary` stands for what is condensed.
    pub(crate) fn tokens_after(&self, summary: &str) -> u64 {
        let kept: u64 = self.kept().iter().map(|unit| self.after_clipping(unit)).sum();
        let opening = match &self.cut {
            Some(cut) => {
                let request = cut.last_request_seq.map_or(0, |seq| {
                    let unit = self.units.iter().find(|unit| unit.item.seq == seq);
                    unit.map_or_else(|| self.carried(seq), |unit| unit.tokens)
                });
                request + self.sizes.counted(tokens::of_message(&summary_message(summary)))
            }
            None => self.opening_tokens(),
        };
        self.sizes.frame + opening + kept
    }

    fn opening_tokens(&self) -> u64 {
        self.sizes.counted(self.context.opening_tokens())
    }
}

/// Returns why there is nothing to condense.
fn nothing(plan: &Plan) -> String {
    let since = match &plan.context.beginning.start {
        Some(Start::Compacted { .. }) => " since it was last condensed",
        Some(Start::Boundary { .. }) => " since the original agent condensed it",
        None => "",
    };
    match plan.units.len() {
        0 => format!("nothing was said{since}"),
        1 => format!("there is one message{since}"),
        count => format!("the {count} messages{since} are kept as they are"),
    }
}

/// Returns what each message of a context is by estimate, with the media that are sent for it: each with the newest
/// message that names it.
fn sent_tokens(context: &Context) -> Vec<u64> {
    let mut left = context.media.clone();
    let with_media = |message: &Message| {
        let named = message.content().iter().filter_map(|block| match block {
            Block::Media { sha256, .. } => left.remove_entry(sha256.as_ref()?),
            Block::Text { .. } | Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => {
                None
            }
        });
        tokens::of_media(&named.collect()) + tokens::of_message(message)
    };
    let mut sent: Vec<u64> = context.messages.iter().rev().map(with_media).collect();
    sent.reverse();
    sent
}

/// Reads what a context holds behind its opening, with what the journal says of where each message came from.
async fn units(
    store: &dyn Store,
    thread_id: ThreadId,
    context: &Context,
    sizes: Measured,
) -> Result<Vec<Unit>, Failure> {
    let sent = sent_tokens(context);
    let (seqs, sent) = (&context.seqs[context.opening..], &sent[context.opening..]);
    let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else { return Ok(Vec::new()) };
    let mut units = Vec::with_capacity(seqs.len());
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
            let Ok(at) = seqs.binary_search(&event.seq) else { continue };
            let tokens = sizes.counted(sent[at]);
            units.push(Unit { item: Item::from_event(&event), tokens });
        }
    }
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{is_whole_run, wanted_channels};

    #[test]
    fn e9_what_a_run_that_never_ended_left_to_do_does_not_end_a_turn() {
        let asked = Wanted { is_whole_run: true, ..Wanted::unasked(CompactionTrigger::Manual, 0) };
        assert_eq!(is_whole_run(&wanted_channels(&asked)), Ok(true));
        let within = asked.in_turn(3_000);
        assert_eq!(within.frame_tokens, 3_000);
        assert_eq!(is_whole_run(&wanted_channels(&within)), Ok(false));
    }
}
