//! Condenses a stretch of conversation: a record of it in sections, written by a model that is shown the record so far
//! and only what is new, and the facts that are known without one. It reads no journal and stores nothing.

mod answer;
mod ask;
mod carry;
mod extract;
mod record;
mod render;
mod transcript;

use std::sync::Arc;
use std::time::Duration;

use facts::{Goal, Ledger};
use jiff::Timestamp;
use model::ChatModel;
use protocol::{CarryOver, Compaction, CondensedSummary, Usage};
use runtime::RunScope;

use crate::cut::Unit;
use ask::{Asking, Unusable};

/// The name of the deterministic extract in the place of a model's.
pub const EXTRACTIVE: &str = "extractive";

/// Tokens of a rendered summary, whatever is configured.
pub(crate) const SUMMARY_TOKENS_MAX: u64 = 16_000;

/// Of every hundred tokens of a summary: what a model may write, and the facts that are carried over.
const WRITTEN_PERCENT: u64 = 50;
const CARRIED_PERCENT: u64 = 30;

/// What is condensed.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The compaction that is brought up to date, if there is one.
    pub previous: Option<&'a Compaction>,
    /// What is condensed beyond it, in order.
    pub dropped: &'a [Unit],
    /// What the person wants kept above all.
    pub focus: Option<&'a str>,
    /// Whether the request that is repeated behind the summary is answered; `None` when none is repeated.
    pub answered: Option<bool>,
}

/// How it is condensed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Tokens of the whole summary at most.
    pub max_summary_tokens: u64,
    /// Tokens of one message that a model is shown, its beginning and its end; `None` shows all of it.
    pub trim_tokens: Option<u64>,
}

/// One call of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    /// `provider/name`.
    pub model: String,
    /// Tokens it took; nothing where the provider did not say.
    pub usage: Usage,
    /// SHA-256 of the prompt's instructions.
    pub prompt_sha256: String,
    /// Why nothing came of it, in one line.
    pub problem: Option<String>,
    /// When it was answered, or failed.
    pub ended: Timestamp,
    pub took: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    /// The record in its sections.
    pub sections: CondensedSummary,
    /// The facts over everything that is condensed so far.
    pub carry_over: CarryOver,
    /// Both, as people are shown them and the model is sent them.
    pub summary: String,
    /// `provider/name` of the model that wrote the record, or [`EXTRACTIVE`].
    pub model: String,
    /// Tokens of all calls together.
    pub usage: Usage,
    /// Every call that was made, in order.
    pub calls: Vec<Called>,
    /// SHA-256 of the prompt's instructions; `None` for an extract.
    pub prompt_sha256: Option<String>,
    /// Why each model that was passed over was, in one line.
    pub problems: Vec<String>,
}

/// The person stopped it: nothing is condensed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("condense the conversation: the person stopped it")]
pub(crate) struct Stopped {
    /// The calls that were made until then.
    pub calls: Vec<Called>,
}

/// Condenses: asks the models in order until one gives a usable record, and else extracts one.
///
/// # Errors
/// When the person stops it; nothing else keeps a summary from being made.
pub(crate) async fn summarise(
    source: &Source<'_>,
    models: &[Arc<dyn ChatModel>],
    options: &Options,
    scope: RunScope<'_>,
) -> Result<Told, Stopped> {
    // What a person wants kept above all is looked for in what is older than is kept otherwise.
    let mut ledger = Ledger::for_goal(source.focus.map(|focus| Arc::new(Goal::of(focus))));
    source.dropped.iter().for_each(|unit| ledger.push(&unit.item));
    let facts = ledger.finish();
    let carry_over = carry::merged(source, &facts);
    let mut calls = Vec::new();
    let mut problems = Vec::new();
    let mut written = None;
    for model in models {
        if scope.cancel.is_cancelled() {
            return Err(Stopped { calls });
        }
        let asking = Asking { model, source, options, scope };
        match asking.ask(&mut calls).await {
            Ok(record) => {
                written = Some((record, model.name().to_string()));
                break;
            }
            Err(Unusable::Stopped) => return Err(Stopped { calls }),
            Err(Unusable::Failed(problem)) => problems.push(problem),
        }
    }
    let prompt_sha256 = written.as_ref().map(|_| ask::prompt_sha256());
    let (record, model) =
        written.unwrap_or_else(|| (extract::extract(source, &facts), EXTRACTIVE.to_owned()));
    let told = CondensedSummary { user_messages: carry::user_messages(source, &facts), ..record };
    let mut sections = record::settled(told);
    if sections.goal.is_empty() {
        sections.goal = extract::goal(source, &facts);
    }
    let tokens_max = options.max_summary_tokens.min(SUMMARY_TOKENS_MAX);
    let last_seq = source.dropped.last().map_or(0, |unit| unit.item.seq);
    let summary = render::fit(&sections, &carry_over, last_seq, source.answered, tokens_max);
    let mut usage = Usage::default();
    calls.iter().for_each(|call: &Called| usage.add(call.usage));
    Ok(Told { sections, carry_over, summary, model, usage, calls, prompt_sha256, problems })
}

#[cfg(test)]
mod tests;
