//! The node that condenses a conversation: plans, summarises, and returns one event. Nothing is stored before the
//! summary is there, so that a crash leaves the conversation as it was.

mod telling;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::Store;
use protocol::event::body::{CallPurpose, ModelCalled};
use protocol::event::metadata::EventMetadata;
use protocol::{Compaction, CompactionFailed, CompactionTrigger, NewEvent, SCHEMA_VERSION, ThreadId};
use runtime::{
    Channel, ChannelError, Channels, Failure, FailureKind, Frame, Node, RunScope, StepContext, Update,
};

use crate::before::{self, BeforeCompaction, DueCompaction, HookEffects, Said};
use crate::compactor::{Compactor, STUCK_CHANNEL, Stuck, TOO_LARGE_HINT};
use crate::plan::{Measured, Plan, Planned, Wanted};
use crate::summary::{self, Called, EXTRACTIVE, Options, Source, Stopped, Told};

use telling::{Outcome, Telling};

/// The name of the node.
pub const COMPACTION_NODE: &str = "compaction";

/// Channel: the compaction that is asked for; see [`Wanted`].
pub(crate) const WANTED_CHANNEL: Channel<Wanted> = Channel::new("_compaction");

/// Percent of a request by which it must shrink; less is no progress (L11).
const SHRINK_PERCENT_MIN: u64 = 10;

/// Returns the channels that ask for a compaction.
pub fn wanted_channels(wanted: &Wanted) -> Channels {
    let mut channels = Channels::new();
    WANTED_CHANNEL.set(&mut channels, wanted);
    channels
}

/// Returns whether a run that stands at the node was begun for it and ends there; otherwise a turn goes on behind it.
///
/// # Errors
/// When what is asked for cannot be read.
pub fn is_whole_run(channels: &Channels) -> Result<bool, ChannelError> {
    Ok(WANTED_CHANNEL.get(channels)?.is_some_and(|wanted| wanted.is_whole_run))
}

/// Condenses.
pub struct CompactionNode {
    /// With what.
    pub compactor: Arc<Compactor>,
    /// Who is asked before a compaction takes effect, in order.
    pub before: Vec<Arc<dyn BeforeCompaction>>,
}

/// What a compaction would be.
#[derive(Debug)]
pub enum Previewed {
    /// There is nothing to condense: why.
    Nothing(String),
    /// It would be this one.
    Ready(Box<Compaction>),
}

/// What came of the work on a plan.
enum Work {
    /// It is worked out.
    Done(Box<Plan>, Box<Worked>),
    /// A person stopped it; the calls that were made until then.
    Stopped(Vec<Called>),
}

/// A compaction that is worked out.
struct Worked {
    compaction: Compaction,
    /// What the next request is, by the plan's own measure.
    tokens_after: u64,
    told: Option<Told>,
}

#[async_trait]
impl Node for CompactionNode {
    fn name(&self) -> &'static str {
        COMPACTION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let Some(wanted) = WANTED_CHANNEL.get(step.channels)? else { return Ok(Update::default()) };
        let mut update = Update::default();
        WANTED_CHANNEL.clear(&mut update.channels);
        let now = Timestamp::now();
        let plan = match self.compactor.plan(&**step.store, step.thread_id, now, &wanted).await? {
            Planned::Nothing { reason, request_tokens } => {
                self.note_stuck(&step, &wanted, &mut update, request_tokens)?;
                return helpless(&wanted, update, &reason);
            }
            Planned::Ready(plan) => *plan,
        };
        let request = plan.sizes.request;
        let mut telling = Telling::begin(step.frames, &plan, wanted.trigger);
        match self.compactor.work(plan, &wanted, step.step, step.scope()).await {
            Work::Stopped(calls) => {
                traced(&mut update, &calls)?;
                telling.came(Outcome::Stopped);
                Ok(update)
            }
            Work::Done(plan, worked) => {
                traced(&mut update, worked.told.as_ref().map_or(&[], |told| &told.calls))?;
                let (plan, worked) = (*plan, *worked);
                let refused = |reason| CompactionFailed { trigger: wanted.trigger, reason, vetoed_by: None };
                let failed = match no_progress(&plan.sizes, worked.tokens_after) {
                    Some(reason) => refused(reason),
                    None => match self.asked(&step, &plan, &worked, now).await {
                        Said::Effect(effects) => {
                            telling.came(Outcome::Condensed);
                            return stored(update, plan, &worked, effects, now);
                        }
                        Said::Vetoed { by, reason } => {
                            CompactionFailed { vetoed_by: Some(by), ..refused(reason) }
                        }
                        Said::Stopped => {
                            telling.came(Outcome::Stopped);
                            return Ok(update);
                        }
                    },
                };
                telling.came(Outcome::Failed(failed.reason.clone()));
                update.events.push(NewEvent::of(&failed, now)?);
                self.note_stuck(&step, &wanted, &mut update, request)?;
                helpless(&wanted, update, &failed.reason)
            }
        }
    }
}

impl CompactionNode {
    /// Asks everyone who has a say before the marker is stored. Where only results are clipped there is no marker.
    async fn asked(&self, step: &StepContext<'_>, plan: &Plan, worked: &Worked, now: Timestamp) -> Said {
        if plan.cut.is_none() {
            return Said::Effect(HookEffects::default());
        }
        let compaction = &worked.compaction;
        let due = DueCompaction {
            thread_id: step.thread_id,
            run_id: step.run_id,
            compaction,
            store: step.store,
            now,
        };
        before::ask(&self.before, &due, step.scope()).await
    }

    /// Notes that it did not help, so that it is not done again and again. What was asked for does not count: it says
    /// nothing of what is due.
    fn note_stuck(
        &self,
        step: &StepContext<'_>,
        wanted: &Wanted,
        update: &mut Update,
        tokens: u64,
    ) -> Result<(), ChannelError> {
        if wanted.trigger == CompactionTrigger::Manual {
            return Ok(());
        }
        let window = self.compactor.window();
        let attempts = Stuck::of(step.channels, window)?.attempts + 1;
        let stuck = Stuck { attempts, tokens, window };
        STUCK_CHANNEL.set(&mut update.channels, &stuck);
        Ok(())
    }
}

/// Returns the update of a compaction that came to nothing. A request that the provider refused is not sent again then.
fn helpless(wanted: &Wanted, update: Update, reason: &str) -> Result<Update, Failure> {
    match wanted.trigger {
        CompactionTrigger::Auto | CompactionTrigger::Manual => Ok(update),
        CompactionTrigger::Overflow => {
            let message = format!("send the request: the provider refused it as too large, and {reason}");
            Err(Failure::new(FailureKind::Overflow, message).with_hint(TOO_LARGE_HINT).keeping(update))
        }
    }
}

impl Plan {
    /// Returns why a person has nothing to condense although results are too large.
    fn only_clips(&self) -> Option<String> {
        let reason = "only results of tools are large, and they are clipped before the model is sent them";
        self.cut.is_none().then(|| reason.to_owned())
    }
}

/// Returns the update that makes it durable, with what others want written together with it.
fn stored(
    mut update: Update,
    plan: Plan,
    worked: &Worked,
    effects: HookEffects,
    now: Timestamp,
) -> Result<Update, Failure> {
    STUCK_CHANNEL.clear(&mut update.channels);
    let is_condensed = plan.cut.is_some();
    for clip in plan.clips {
        let (write, event) = clip.store()?;
        update.writes.push(write);
        update.events.push(event);
    }
    if is_condensed {
        let marker = NewEvent::of(&worked.compaction, now)?;
        update.events.push(match effects.failed {
            failed if failed.is_empty() => marker,
            hooks_failed => {
                marker.with_metadata(&EventMetadata { hooks_failed, ..EventMetadata::default() })?
            }
        });
        update.writes.extend(effects.writes);
    }
    Ok(update)
}

/// Returns why a request that would have `after` tokens is not small enough to be worth it.
fn no_progress(sizes: &Measured, after: u64) -> Option<String> {
    let before = sizes.request;
    let is_enough = after * 100 <= before * (100 - SHRINK_PERCENT_MIN);
    let fits_at_last = sizes.budget.is_some_and(|budget| before > budget && after <= budget);
    (!is_enough && !fits_at_last)
        .then(|| format!("the request would hardly be smaller: {after} tokens instead of {before}"))
}

/// Adds what model calls took, and what is traced of them (A19).
fn traced(update: &mut Update, calls: &[Called]) -> Result<(), Failure> {
    for call in calls {
        let called = ModelCalled {
            purpose: CallPurpose::Compaction,
            handoff_id: None,
            model: Some(call.model.clone()),
            usage: Some(call.usage),
            prompt_sha256: Some(call.prompt_sha256.clone()),
            problem: call.problem.clone(),
            trace: None,
        };
        update.events.push(NewEvent::of(&called, call.ended)?.that_took(call.took)?);
        update.usage.add(call.usage);
    }
    Ok(())
}

impl Compactor {
    /// Returns why there is nothing to condense, as far as that can be told without asking a model; `None` when there is.
    pub async fn nothing_to_do(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        wanted: &Wanted,
    ) -> Result<Option<String>, Failure> {
        Ok(match self.plan(store, thread_id, Timestamp::now(), wanted).await? {
            Planned::Nothing { reason, .. } => Some(reason),
            Planned::Ready(plan) => plan.only_clips(),
        })
    }

    /// Returns what a compaction that a person asks for would be. Nothing is stored.
    pub async fn preview(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        wanted: &Wanted,
        scope: RunScope<'_>,
    ) -> Result<Option<Previewed>, Failure> {
        let plan = match self.plan(store, thread_id, Timestamp::now(), wanted).await? {
            Planned::Nothing { reason, .. } => return Ok(Some(Previewed::Nothing(reason))),
            Planned::Ready(plan) => *plan,
        };
        if let Some(reason) = plan.only_clips() {
            return Ok(Some(Previewed::Nothing(reason)));
        }
        let sizes = plan.sizes;
        Ok(match self.work(plan, wanted, 0, scope).await {
            Work::Stopped(_) => None,
            Work::Done(_, worked) => Some(match no_progress(&sizes, worked.tokens_after) {
                Some(reason) => Previewed::Nothing(reason),
                None => Previewed::Ready(Box::new(worked.compaction)),
            }),
        })
    }

    /// Summarises what the plan condenses.
    async fn work(&self, plan: Plan, wanted: &Wanted, step: u64, scope: RunScope<'_>) -> Work {
        let begun = Instant::now();
        let previous = plan.context.beginning.compaction();
        let focus = wanted.focus.as_deref().map(str::trim).filter(|focus| !focus.is_empty());
        let told = match &plan.cut {
            Some(cut) => {
                let source = Source {
                    previous: previous.map(|(_, compaction)| compaction),
                    dropped: plan.dropped(),
                    focus,
                    answered: cut.request_answered,
                };
                let options = Options {
                    max_summary_tokens: plan.summary_tokens(self.settings.max_summary_tokens),
                    trim_tokens: Some(self.settings.trim_tokens).filter(|tokens| *tokens > 0),
                };
                let told = summary::summarise(&source, &self.summarisers, &options, scope).await;
                match told {
                    Ok(told) => Some(told),
                    Err(Stopped { calls }) => return Work::Stopped(calls),
                }
            }
            None => None,
        };
        if let Some(told) = &told {
            let instead = match told.model.as_str() {
                EXTRACTIVE => "an extract is used instead".to_owned(),
                model => format!("{model} wrote the summary"),
            };
            for problem in self.problem.iter().chain(&told.problems) {
                let text = format!("failed to {problem}; {instead}");
                scope.frames.send(Frame::Notice { text });
            }
        }
        let summary = told.as_ref().map(|told| told.summary.clone()).unwrap_or_default();
        let tokens_after = plan.tokens_after(&summary);
        let cut = plan.cut.as_ref();
        // What memory took out of the context meanwhile is not condensed here.
        let first = plan.context.beginning.first_seq().filter(|_| previous.is_some());
        let first = first.or_else(|| plan.units.first().map(|unit| unit.item.seq)).unwrap_or(0);
        let compaction = Compaction {
            schema_version: SCHEMA_VERSION,
            trigger: wanted.trigger,
            first_seq: first,
            last_seq: cut.map_or(0, |cut| cut.last_seq),
            replaced_count: cut.map_or(0, |cut| cut.replaced),
            kept_count: cut.map_or(plan.units.len() as u64, |cut| cut.kept),
            tokens_before: plan.sizes.told(plan.sizes.request),
            tokens_after: plan.sizes.told(tokens_after),
            model: told.as_ref().map_or_else(String::new, |told| told.model.clone()),
            summary,
            sections: told.as_ref().map(|told| told.sections.clone()).unwrap_or_default(),
            carry_over: told.as_ref().map(|told| told.carry_over.clone()).unwrap_or_default(),
            last_request_seq: cut.and_then(|cut| cut.last_request_seq),
            previous_seq: previous.map(|(seq, _)| seq),
            focus: focus.map(str::to_owned),
            duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            step,
            usage: told.as_ref().map(|told| told.usage).unwrap_or_default(),
            prompt_sha256: told.as_ref().and_then(|told| told.prompt_sha256.clone()),
        };
        Work::Done(Box::new(plan), Box::new(Worked { compaction, tokens_after, told }))
    }
}
