//! The node that compacts a conversation: it plans, summarizes, and returns one event.
//!
//! Nothing is stored before the summary is complete, so a crash does not change the context.

mod progress;

use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::Store;
use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::event::metadata::EventMetadata;
use protocol::{Compaction, CompactionFailed, CompactionTrigger, NewEvent, SCHEMA_VERSION, ThreadId};
use runtime::{
    Channel, ChannelError, Channels, FailureKind, Frame, GraphUpdate, Node, RunScope, StepContext,
    StepFailure,
};

use crate::before_hooks::{self, BeforeCompactionHook, CombinedVerdict, HookEffects, PendingCompaction};
use crate::compactor::{BACKOFF_CHANNEL, CompactionBackoff, Compactor};
use crate::plan::{CompactionPlan, CompactionRequest, PlanOutcome, TokenAccounting};
use crate::summary::{
    self, CompactionSummaryOptions, SummarizerCall, SummaryOutcome, SummarySource, SummaryStopped,
};

use progress::{CompactionOutcome, ProgressGuard};

/// The name of the node.
pub const COMPACTION_NODE: &str = "compaction";

/// The channel that holds the requested compaction; see [`CompactionRequest`].
pub(crate) const COMPACTION_REQUEST_CHANNEL: Channel<CompactionRequest> = Channel::new("_compaction");

/// The minimum reduction of a request in percent. A smaller one counts as no progress (L11), and the compaction is not
/// committed.
const SHRINK_PERCENT_MIN: u64 = 10;

/// Returns the channel values that request a compaction.
pub fn compaction_request_channels(request: &CompactionRequest) -> Channels {
    let mut channels = Channels::new();
    COMPACTION_REQUEST_CHANNEL.set(&mut channels, request);
    channels
}

/// Returns whether a run at the compaction node was started only for the compaction and ends after it. Otherwise the
/// turn continues after the node.
///
/// # Errors
///
/// When the request in `channels` cannot be read.
pub fn is_compaction_only_run(channels: &Channels) -> Result<bool, ChannelError> {
    Ok(COMPACTION_REQUEST_CHANNEL.get(channels)?.is_some_and(|request| request.is_whole_run))
}

/// The node that compacts a conversation.
pub struct CompactionNode {
    /// The compactor of the agent.
    pub compactor: Arc<Compactor>,
    /// The hooks that are called before a compaction is committed, in order.
    pub before_hooks: Vec<Arc<dyn BeforeCompactionHook>>,
}

/// The result of a preview.
#[derive(Debug)]
pub enum CompactionPreview {
    /// There is nothing to compact, for this reason.
    Nothing(String),
    /// The compaction that would be committed.
    Ready(Box<Compaction>),
}

/// The outcome of preparing a plan.
enum PreparationOutcome {
    /// The compaction is ready to be committed.
    Prepared(Box<CompactionPlan>, Box<PreparedCompaction>),
    /// The user stopped it, after these model calls.
    Stopped(Vec<SummarizerCall>),
}

/// A compaction that is ready to be committed.
struct PreparedCompaction {
    /// The content of the event.
    compaction: Compaction,
    /// The size of the next request in tokens, on the plan's own scale.
    tokens_after: u64,
    /// The summary with its model calls; `None` when only tool results are clipped.
    summary_outcome: Option<SummaryOutcome>,
}

#[async_trait]
impl Node for CompactionNode {
    fn name(&self) -> &'static str {
        COMPACTION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let Some(request) = COMPACTION_REQUEST_CHANNEL.get(step.channels)? else {
            return Ok(GraphUpdate::default());
        };
        let mut update = GraphUpdate::default();
        COMPACTION_REQUEST_CHANNEL.clear(&mut update.channels);
        let now = Timestamp::now();
        let plan = match self.compactor.plan_compaction(&**step.store, step.thread_id, now, &request).await? {
            PlanOutcome::Nothing { reason, request_tokens } => {
                self.record_failed_attempt(&step, &request, &mut update, request_tokens)?;
                return self.finish_without_compaction(&request, update, &reason);
            }
            PlanOutcome::Ready(plan) => *plan,
        };
        let request_tokens = plan.accounting.request_tokens;
        let mut progress = ProgressGuard::start(step.frames, &plan, request.trigger);
        match self.compactor.prepare_compaction(plan, &request, step.step, step.scope()).await {
            PreparationOutcome::Stopped(calls) => {
                trace_summarizer_calls(&mut update, &calls)?;
                progress.set_outcome(CompactionOutcome::Stopped);
                Ok(update)
            }
            PreparationOutcome::Prepared(plan, prepared) => {
                trace_summarizer_calls(
                    &mut update,
                    prepared.summary_outcome.as_ref().map_or(&[], |outcome| &outcome.calls),
                )?;
                let (plan, prepared) = (*plan, *prepared);
                let refused = |reason| CompactionFailed { trigger: request.trigger, reason, vetoed_by: None };
                let failed = match no_progress_reason(&plan.accounting, prepared.tokens_after) {
                    Some(reason) => refused(reason),
                    None => match self.run_before_hooks(&step, &plan, &prepared, now).await {
                        CombinedVerdict::Allowed(effects) => {
                            progress.set_outcome(CompactionOutcome::Compacted);
                            return commit_update(update, plan, &prepared, effects, now);
                        }
                        CombinedVerdict::Vetoed { by, reason } => {
                            CompactionFailed { vetoed_by: Some(by), ..refused(reason) }
                        }
                        CombinedVerdict::Stopped => {
                            progress.set_outcome(CompactionOutcome::Stopped);
                            return Ok(update);
                        }
                    },
                };
                progress.set_outcome(CompactionOutcome::Failed(failed.reason.clone()));
                update.events.push(NewEvent::from_body(&failed, now)?);
                self.record_failed_attempt(&step, &request, &mut update, request_tokens)?;
                self.finish_without_compaction(&request, update, &failed.reason)
            }
        }
    }
}

impl CompactionNode {
    /// Calls the hooks before the compaction is committed. If only tool results are clipped, no hook is called, because
    /// there is no compaction event.
    async fn run_before_hooks(
        &self,
        step: &StepContext<'_>,
        plan: &CompactionPlan,
        prepared: &PreparedCompaction,
        now: Timestamp,
    ) -> CombinedVerdict {
        if plan.cut.is_none() {
            return CombinedVerdict::Allowed(HookEffects::default());
        }
        let compaction = &prepared.compaction;
        let pending = PendingCompaction {
            thread_id: step.thread_id,
            run_id: step.run_id,
            compaction,
            store: step.store,
            now,
        };
        before_hooks::run_before_hooks(&self.before_hooks, &pending, step.scope()).await
    }

    /// Records a compaction that did not help, so that it is not repeated again and again. A requested compaction
    /// does not count, because it may have been requested before compaction was due.
    fn record_failed_attempt(
        &self,
        step: &StepContext<'_>,
        request: &CompactionRequest,
        update: &mut GraphUpdate,
        tokens: u64,
    ) -> Result<(), ChannelError> {
        if request.trigger == CompactionTrigger::Manual {
            return Ok(());
        }
        let window = self.compactor.window_tokens();
        let attempts = CompactionBackoff::load(step.channels, window)?.attempts + 1;
        let backoff = CompactionBackoff { attempts, tokens, window };
        BACKOFF_CHANNEL.set(&mut update.channels, &backoff);
        Ok(())
    }
}

impl CompactionNode {
    /// Returns the result of a step without a compaction.
    ///
    /// # Errors
    ///
    /// After an overflow: the provider refused the request, and sending it again unchanged would fail again.
    fn finish_without_compaction(
        &self,
        request: &CompactionRequest,
        update: GraphUpdate,
        reason: &str,
    ) -> Result<GraphUpdate, StepFailure> {
        match request.trigger {
            CompactionTrigger::Auto | CompactionTrigger::Manual => Ok(update),
            CompactionTrigger::Overflow => {
                let message = format!("send the request: the provider refused it as too large, and {reason}");
                Err(StepFailure::new(FailureKind::Overflow, message)
                    .with_hint(self.compactor.advise_on_size())
                    .with_partial(update))
            }
        }
    }
}

impl CompactionPlan {
    /// Returns the reason to tell the user that there is nothing to compact, if the plan only clips tool results;
    /// `None` if the plan has a cut.
    fn clips_only_reason(&self) -> Option<String> {
        let reason = "only tool results are large, and they are clipped before they are sent to the model";
        self.cut.is_none().then(|| reason.to_owned())
    }
}

/// Returns the update that commits the compaction: the artifacts and events of the clips, the compaction event, and the
/// writes of the hooks. All of them are stored in one transaction. The backoff of earlier attempts is cleared.
fn commit_update(
    mut update: GraphUpdate,
    plan: CompactionPlan,
    prepared: &PreparedCompaction,
    effects: HookEffects,
    now: Timestamp,
) -> Result<GraphUpdate, StepFailure> {
    BACKOFF_CHANNEL.clear(&mut update.channels);
    let is_compacted = plan.cut.is_some();
    for clip in plan.clips {
        let (write, event) = clip.into_write_and_event()?;
        update.writes.push(write);
        update.events.push(event);
    }
    if is_compacted {
        let event = NewEvent::from_body(&prepared.compaction, now)?;
        update.events.push(match effects.failed_hooks {
            failed if failed.is_empty() => event,
            hooks_failed => {
                event.with_metadata(&EventMetadata { hooks_failed, ..EventMetadata::default() })?
            }
        });
        update.writes.extend(effects.writes);
    }
    Ok(update)
}

/// Returns the reason why a request of `after` tokens is not enough progress; `None` when it is at least
/// [`SHRINK_PERCENT_MIN`] percent smaller, or fits the budget for the first time.
fn no_progress_reason(accounting: &TokenAccounting, after: u64) -> Option<String> {
    let before = accounting.request_tokens;
    let is_enough = after * 100 <= before * (100 - SHRINK_PERCENT_MIN);
    let fits_now = accounting.budget_tokens.is_some_and(|budget| before > budget && after <= budget);
    (!is_enough && !fits_now)
        .then(|| format!("the request would hardly be smaller: {after} tokens instead of {before}"))
}

/// Adds the usage and the `model_called` events of the model calls to `update` (A19), so that the tokens of a failed or
/// stopped compaction are counted too.
///
/// # Errors
///
/// Never in practice: the content of the events always has a JSON form.
fn trace_summarizer_calls(update: &mut GraphUpdate, calls: &[SummarizerCall]) -> Result<(), StepFailure> {
    for call in calls {
        let called = ModelCalled {
            purpose: ModelCallPurpose::Compaction,
            handoff_id: None,
            model: Some(call.model.clone()),
            usage: Some(call.usage),
            prompt_sha256: Some(call.prompt_sha256.clone()),
            problem: call.problem.clone(),
            trace: None,
            continuity: None,
            part: None,
        };
        update.events.push(NewEvent::from_body(&called, call.ended_at)?.with_duration(call.duration)?);
        update.usage.add(call.usage);
    }
    Ok(())
}

impl Compactor {
    /// Returns the reason why there is nothing to compact, as far as that is known without a model call; `None` when
    /// there is something to compact.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn nothing_to_compact_reason<'a>(
        &'a self,
        store: &'a dyn Store,
        thread_id: ThreadId,
        request: &'a CompactionRequest,
    ) -> BoxFuture<'a, Result<Option<String>, StepFailure>> {
        journal::box_future(async move {
            Ok(match self.plan_compaction(store, thread_id, Timestamp::now(), request).await? {
                PlanOutcome::Nothing { reason, .. } => Some(reason),
                PlanOutcome::Ready(plan) => plan.clips_only_reason(),
            })
        })
    }

    /// Returns the compaction that the user's request would commit; `None` when the user stopped the preview.
    /// Models are called, but nothing is stored.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn preview<'a>(
        &'a self,
        store: &'a dyn Store,
        thread_id: ThreadId,
        request: &'a CompactionRequest,
        scope: RunScope<'a>,
    ) -> BoxFuture<'a, Result<Option<CompactionPreview>, StepFailure>> {
        journal::box_future(async move {
            let plan = match self.plan_compaction(store, thread_id, Timestamp::now(), request).await? {
                PlanOutcome::Nothing { reason, .. } => return Ok(Some(CompactionPreview::Nothing(reason))),
                PlanOutcome::Ready(plan) => *plan,
            };
            if let Some(reason) = plan.clips_only_reason() {
                return Ok(Some(CompactionPreview::Nothing(reason)));
            }
            let accounting = plan.accounting;
            Ok(match self.prepare_compaction(plan, request, 0, scope).await {
                PreparationOutcome::Stopped(_) => None,
                PreparationOutcome::Prepared(_, prepared) => {
                    Some(match no_progress_reason(&accounting, prepared.tokens_after) {
                        Some(reason) => CompactionPreview::Nothing(reason),
                        None => CompactionPreview::Ready(Box::new(prepared.compaction)),
                    })
                }
            })
        })
    }

    /// Sends a notice for each model that could not write the summary.
    fn report_problems(&self, outcome: &SummaryOutcome, scope: RunScope<'_>) {
        let instead = match outcome.model.as_str() {
            protocol::OFFLINE_SUMMARY_MODEL => "the offline summary is used instead".to_owned(),
            model => format!("{model} wrote the summary"),
        };
        for problem in self.summarizer_problem.iter().chain(&outcome.problems) {
            let text = format!("failed to {problem}; {instead}");
            scope.frames.send(Frame::Notice { text });
        }
    }

    /// Prepares a plan for its commit: summarizes the dropped messages and assembles the content of the event.
    /// Nothing is stored.
    async fn prepare_compaction(
        &self,
        plan: CompactionPlan,
        request: &CompactionRequest,
        step: u64,
        scope: RunScope<'_>,
    ) -> PreparationOutcome {
        let started = Instant::now();
        let previous = plan.context.beginning.compaction();
        let focus = request.focus.as_deref().map(str::trim).filter(|focus| !focus.is_empty());
        let outcome = match &plan.cut {
            Some(cut) => {
                let source = SummarySource {
                    previous: previous.map(|(_, compaction)| compaction),
                    dropped_messages: plan.dropped_messages(),
                    focus,
                    request_answered: cut.request_answered,
                };
                let options = CompactionSummaryOptions {
                    max_summary_tokens: plan.summary_tokens(self.settings.max_summary_tokens),
                    trim_tokens: Some(self.settings.trim_tokens).filter(|tokens| *tokens > 0),
                };
                let outcome = summary::summarize_dropped(&source, &self.summarizers, &options, scope).await;
                match outcome {
                    Ok(outcome) => Some(outcome),
                    Err(SummaryStopped { calls }) => return PreparationOutcome::Stopped(calls),
                }
            }
            None => None,
        };
        if let Some(outcome) = &outcome {
            self.report_problems(outcome, scope);
        }
        let summary = outcome.as_ref().map(|outcome| outcome.summary.clone()).unwrap_or_default();
        let tokens_after = plan.tokens_after(&summary);
        let cut = plan.cut.as_ref();
        // A compaction after another one continues its range. The first compaction begins with the first message that
        // is still in the context; messages that memory has archived are not in it.
        let first = plan.context.beginning.first_seq().filter(|_| previous.is_some());
        let first = first.or_else(|| plan.messages.first().map(|message| message.item.seq)).unwrap_or(0);
        let compaction = Compaction {
            schema_version: SCHEMA_VERSION,
            trigger: request.trigger,
            first_seq: first,
            last_seq: cut.map_or(0, |cut| cut.last_seq),
            replaced_count: cut.map_or(0, |cut| cut.replaced_count),
            kept_count: cut.map_or(plan.messages.len() as u64, |cut| cut.kept_count),
            tokens_before: plan.accounting.reported_tokens(plan.accounting.request_tokens),
            tokens_after: plan.accounting.reported_tokens(tokens_after),
            model: outcome.as_ref().map_or_else(String::new, |outcome| outcome.model.clone()),
            summary,
            sections: outcome.as_ref().map(|outcome| outcome.sections.clone()).unwrap_or_default(),
            carried: outcome.as_ref().map(|outcome| outcome.carried.clone()).unwrap_or_default(),
            last_request_seq: cut.and_then(|cut| cut.last_request_seq),
            previous_seq: previous.map(|(seq, _)| seq),
            focus: focus.map(str::to_owned),
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            step,
            usage: outcome.as_ref().map(|outcome| outcome.usage).unwrap_or_default(),
            prompt_sha256: outcome.as_ref().and_then(|outcome| outcome.prompt_sha256.clone()),
        };
        PreparationOutcome::Prepared(
            Box::new(plan),
            Box::new(PreparedCompaction { compaction, tokens_after, summary_outcome: outcome }),
        )
    }
}
