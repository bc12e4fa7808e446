//! The compactor, which the hook, the node and the tool of an agent share, and the hook that starts automatic
//! compactions.
//!
//! Before each model call, the hook checks whether the trigger holds or the request does not fit. When the provider
//! refuses a request as too large, the hook has the conversation compacted once and the request sent again.

use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use model::tokens;
use model::{ChatModel, ChatRequest};
use parking_lot::Mutex;
use protocol::{CompactionTrigger, ThreadId};
use runtime::{
    Channel, ChannelError, Channels, ContextCache, FailureKind, GraphUpdate, Hook, HookPoint, ModelAnswer,
    ModelCallHandler, StepContext, StepFailure,
};
use serde::{Deserialize, Serialize};

use crate::node::{COMPACTION_NODE, COMPACTION_REQUEST_CHANNEL, compaction_request_channels};
use crate::plan::CompactionRequest;
use crate::settings::CompactionSettings;
use crate::trigger::{RequestSize, default_policy, is_compaction_due, trigger_tokens};

/// The channel that counts consecutive compactions which did not help, with the size of the request at the last one.
pub(crate) const BACKOFF_CHANNEL: Channel<CompactionBackoff> = Channel::new("_compaction_stuck");

/// The channel that is set after the provider refused a request and until a request is accepted. While it is set,
/// another refusal fails the run.
const OVERFLOWED_CHANNEL: Channel<bool> = Channel::new("_compaction_overflowed");

/// The maximum number of consecutive compactions that do not help (L11), for a request that does not fit.
const ATTEMPTS_MAX: u32 = 3;

/// The advice when a provider accepts fewer tokens than must be sent.
const TOO_LARGE_HINT: &str = "choose a model with a larger window with `--model`, set `context_tokens` of the \
                                         provider in config.toml to the number it accepts, or `/rewind` and send less \
                                         at a time";

/// The growth of a request, in percent, after which compaction is tried again after one that did not help.
const GROWTH_PERCENT: u64 = 10;

/// The maximum number of threads whose request size is remembered.
const SIZES_MAX: usize = 64;

/// The parts that compaction of one agent needs.
pub struct Compactor {
    /// The model of the conversation; `None` when none is configured.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The models that write summaries, in order of preference. When all fail, the offline summary is used.
    pub summarizers: Vec<Arc<dyn ChatModel>>,
    /// The reason why the configured summarizing model is not among them, as one line.
    pub summarizer_problem: Option<String>,
    /// The settings.
    pub settings: CompactionSettings,
    /// The cache of contexts.
    pub contexts: Arc<ContextCache>,
    /// The sizes of the newest requests.
    pub request_sizes: Arc<RequestSizes>,
    /// The advice for a request that is too large for a known reason, which is not the length of the conversation.
    pub too_large_hint: Option<String>,
}

/// The size of the newest request of each thread, in tokens. It holds at most 64 threads of this process.
#[derive(Debug, Default)]
pub struct RequestSizes {
    /// The sizes, least recently recorded first.
    newest: Mutex<Vec<(ThreadId, u64)>>,
}

impl RequestSizes {
    /// Records the size of the thread's newest request.
    fn record(&self, thread_id: ThreadId, tokens: u64) {
        let mut newest = self.newest.lock();
        newest.retain(|(id, _)| *id != thread_id);
        if newest.len() >= SIZES_MAX {
            newest.remove(0);
        }
        newest.push((thread_id, tokens));
    }

    /// Returns the size of the thread's newest request; `None` when this process has sent none.
    pub(crate) fn get(&self, thread_id: ThreadId) -> Option<u64> {
        let newest = self.newest.lock();
        newest.iter().find(|(id, _)| *id == thread_id).map(|(_, tokens)| *tokens)
    }
}

/// The backoff after compactions that did not help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CompactionBackoff {
    /// The number of consecutive compactions that did not help.
    pub attempts: u32,
    /// The tokens of the request at the last one.
    pub tokens: u64,
    /// The window of the model at the last one, in tokens.
    pub window: Option<u64>,
}

impl CompactionBackoff {
    /// Returns the backoff for a model with that window. A backoff recorded for another window does not apply.
    ///
    /// # Errors
    ///
    /// When the channel cannot be read.
    pub(crate) fn load(channels: &Channels, window: Option<u64>) -> Result<Self, ChannelError> {
        let backoff = BACKOFF_CHANNEL.get(channels)?;
        Ok(backoff.filter(|backoff: &Self| backoff.window == window).unwrap_or_default())
    }

    /// Returns whether another attempt for a request of `tokens` tokens is worthwhile: there was none that did not
    /// help, or the request has grown by [`GROWTH_PERCENT`] since.
    fn allows_attempt(self, tokens: u64) -> bool {
        self.attempts == 0 || tokens * 100 >= self.tokens * (100 + GROWTH_PERCENT)
    }
}

impl Compactor {
    /// Returns the name of the conversation's model, `provider/name`; empty without a model.
    pub(crate) fn model_name(&self) -> String {
        self.model.as_ref().map(|model| model.name().to_string()).unwrap_or_default()
    }

    /// Returns the advice for a request that is too large although the conversation was compacted.
    pub(crate) fn advise_on_size(&self) -> String {
        self.too_large_hint.clone().unwrap_or_else(|| TOO_LARGE_HINT.to_owned())
    }

    /// Returns the context window of the model in tokens, if known.
    pub(crate) fn window_tokens(&self) -> Option<u64> {
        self.model.as_ref().and_then(|model| model.limits().context_tokens)
    }

    /// Returns the size of a request in tokens from which on the conversation is compacted automatically; `None` when
    /// that is disabled or also depends on the number of messages.
    pub fn trigger_tokens(&self) -> Option<u64> {
        let window = self.window_tokens();
        let clauses = self.settings.trigger(window);
        if !self.settings.enabled || clauses.iter().any(|clause| clause.messages.is_some()) {
            return None;
        }
        trigger_tokens(&clauses, window).into_iter().chain(self.budget()).min()
    }

    /// Returns whether a request of that many tokens fits the model. A request for a model with an unknown window fits.
    pub fn can_accept(&self, tokens: u64) -> bool {
        self.budget().is_none_or(|budget| tokens <= budget)
    }

    /// Returns the size of a request in tokens from which on the conversation counts as long, whether or not automatic
    /// compaction is enabled.
    pub(crate) fn long_conversation_tokens(&self) -> u64 {
        let window = self.window_tokens();
        let threshold = trigger_tokens(&self.settings.trigger(window), window);
        let threshold = threshold.or_else(|| trigger_tokens(&default_policy(window).0, window));
        threshold.into_iter().chain(self.budget()).min().unwrap_or(u64::MAX)
    }

    /// Returns the size of the thread's newest request in tokens. If this process has sent none, returns the size of
    /// the messages alone, which is a lower bound.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn request_tokens(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
    ) -> journal::Result<u64> {
        match self.request_sizes.get(thread_id) {
            Some(tokens) => Ok(tokens),
            None => {
                let context = self.contexts.read_context(store, thread_id).await?;
                Ok(context.request_tokens(&self.model_name(), 0))
            }
        }
    }
}

/// The hook that starts automatic compactions.
///
/// It must be the last hook that changes a request, because it counts everything that will be sent.
pub struct CompactionHook {
    /// The compactor of the agent.
    pub compactor: Arc<Compactor>,
}

#[async_trait]
impl Hook for CompactionHook {
    fn name(&self) -> &'static str {
        "Compaction"
    }

    fn can_skip(&self, point: HookPoint, channels: &Channels) -> bool {
        match point {
            HookPoint::BeforeAgent => {
                !OVERFLOWED_CHANNEL.is_set(channels) && !COMPACTION_REQUEST_CHANNEL.is_set(channels)
            }
            HookPoint::AfterModel | HookPoint::AfterAgent => true,
        }
    }

    /// Clears the channels that an earlier turn has set and not cleared, because it was stopped.
    async fn before_agent(&self, step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let mut update = GraphUpdate::default();
        if OVERFLOWED_CHANNEL.is_set(step.channels) {
            OVERFLOWED_CHANNEL.clear(&mut update.channels);
        }
        if COMPACTION_REQUEST_CHANNEL.is_set(step.channels) {
            COMPACTION_REQUEST_CHANNEL.clear(&mut update.channels);
        }
        Ok(update)
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let Some(context) = step.context else { return Ok(GraphUpdate::default()) };
        let compactor = &self.compactor;
        let frame_tokens = tokens::overhead_tokens(request);
        let tokens = context.request_tokens(&compactor.model_name(), frame_tokens);
        compactor.request_sizes.record(step.thread_id, tokens);
        if let Some(pending) = COMPACTION_REQUEST_CHANNEL.get(step.channels)? {
            return Ok(compaction_update(&pending.within_turn(frame_tokens)));
        }
        if !compactor.settings.enabled {
            return Ok(GraphUpdate::default());
        }
        let window = compactor.window_tokens();
        let size = RequestSize { tokens, messages: context.messages.len() as u64, window };
        let backoff = CompactionBackoff::load(step.channels, window)?;
        let is_too_large = !compactor.can_accept(tokens);
        let is_due = is_too_large || is_compaction_due(&compactor.settings.trigger(window), size);
        // A request that does not fit is compacted again at once, up to the limit of attempts. After that, the
        // messages are shortened in the request itself.
        let may_try = backoff.allows_attempt(tokens) || (is_too_large && backoff.attempts < ATTEMPTS_MAX);
        if is_due && may_try {
            return Ok(compaction_update(&CompactionRequest::new(CompactionTrigger::Auto, frame_tokens)));
        }
        Ok(GraphUpdate::default())
    }

    async fn wrap_model_call(
        &self,
        step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCallHandler<'_>,
    ) -> Result<ModelAnswer, StepFailure> {
        let frame_tokens = tokens::overhead_tokens(&request);
        let has_overflowed = OVERFLOWED_CHANNEL.is_set(step.channels);
        match next.run(request).await {
            Ok(mut answer) if has_overflowed => {
                OVERFLOWED_CHANNEL.clear(&mut answer.update.channels);
                Ok(answer)
            }
            Err(failure) if failure.kind == FailureKind::Overflow && !self.compactor.settings.enabled => {
                Err(failure.with_hint(
                    "`/compact` compacts the conversation; `/handoff` continues in a new, short thread",
                ))
            }
            Err(failure) if failure.kind == FailureKind::Overflow && has_overflowed => {
                Err(self.repeated_overflow_failure(step, frame_tokens, failure))
            }
            Err(failure) if failure.kind == FailureKind::Overflow => {
                let mut update =
                    compaction_update(&CompactionRequest::new(CompactionTrigger::Overflow, frame_tokens));
                OVERFLOWED_CHANNEL.set(&mut update.channels, &true);
                update.usage.add(failure.partial.usage);
                Ok(ModelAnswer { answer: None, update })
            }
            answer => answer,
        }
    }
}

impl CompactionHook {
    /// Returns the failure for a request that was refused again after the conversation had been compacted.
    fn repeated_overflow_failure(
        &self,
        step: &StepContext<'_>,
        frame_tokens: u64,
        failure: StepFailure,
    ) -> StepFailure {
        let messages = step.context.map_or(0, |context| context.tokens);
        let window = match self.compactor.window_tokens() {
            Some(window) => format!("of {window}"),
            None => "of an unknown window".to_owned(),
        };
        let message = format!(
            "{}; it was already compacted, and has about {} tokens {window}: instructions and tools {frame_tokens}, \
             messages {messages}",
            failure.message,
            frame_tokens + messages
        );
        let mut repeated =
            StepFailure::new(FailureKind::Overflow, message).with_hint(self.compactor.advise_on_size());
        repeated.partial = failure.partial;
        OVERFLOWED_CHANNEL.clear(&mut repeated.partial.channels);
        repeated
    }
}

/// Postpones automatic compaction after the user has undone one: the conversation is compacted again when its request
/// has grown noticeably beyond `tokens`, or does not fit.
pub fn postpone_compaction(channels: &mut Channels, tokens: u64, window: Option<u64>) {
    let backoff = CompactionBackoff { attempts: 1, tokens, window };
    BACKOFF_CHANNEL.set(channels, &backoff);
}

/// Returns the update that stores the request and jumps to the compaction node.
fn compaction_update(request: &CompactionRequest) -> GraphUpdate {
    GraphUpdate {
        channels: compaction_request_channels(request),
        jump: Some(COMPACTION_NODE),
        ..GraphUpdate::default()
    }
}
