//! What the hook, the node and the tool of one agent share, and the hook: before each call of the model it looks whether
//! the request has grown too large, and when the provider says so it lets the conversation be condensed once.

use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use model::tokens;
use model::{ChatModel, ChatRequest};
use parking_lot::Mutex;
use protocol::{CompactionTrigger, ThreadId};
use runtime::{
    Channel, ChannelError, Channels, Contexts, Failure, FailureKind, Hook, ModelAnswer, ModelCall, Point,
    StepContext, Update,
};
use serde::{Deserialize, Serialize};

use crate::node::{COMPACTION_NODE, WANTED_CHANNEL, wanted_channels};
use crate::plan::Wanted;
use crate::settings::Settings;
use crate::trigger::{Size, defaults, is_due, trigger_tokens};

/// Channel: how often in a row condensing did not help, and how large the request was then.
pub(crate) const STUCK_CHANNEL: Channel<Stuck> = Channel::new("_compaction_stuck");

/// Channel: the provider refused the request, and the conversation was condensed for that.
const OVERFLOWED_CHANNEL: Channel<bool> = Channel::new("_compaction_overflowed");

/// How often in a row it is tried although it did not help (L11).
const ATTEMPTS_MAX: u32 = 3;

/// What a person can do when a provider takes less than must be sent.
pub(crate) const TOO_LARGE_HINT: &str = "choose a model with a larger window by `--model`, set `context_tokens` of the \
                                         provider in config.toml to what it really takes, or `/rewind` and send less \
                                         at a time";

/// By how many percent a request must have grown for another attempt after one that did not help.
const GROWTH_PERCENT: u64 = 10;

/// Threads whose newest request's size is remembered.
const SIZES_MAX: usize = 64;

/// What one agent's compaction works with.
pub struct Compactor {
    /// The model that is sent the conversation; `None` where there is none.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The models that write summaries, the first one first; behind them stands the extract.
    pub summarisers: Vec<Arc<dyn ChatModel>>,
    /// Why a configured summariser is not among them.
    pub problem: Option<String>,
    /// When and how.
    pub settings: Settings,
    /// The contexts that were used last.
    pub contexts: Arc<Contexts>,
    /// How large the newest requests were.
    pub sizes: Arc<Sizes>,
}

/// How large the newest requests of threads were, in tokens.
#[derive(Debug, Default)]
pub struct Sizes {
    newest: Mutex<Vec<(ThreadId, u64)>>,
}

impl Sizes {
    fn note(&self, thread_id: ThreadId, tokens: u64) {
        let mut newest = self.newest.lock();
        newest.retain(|(of, _)| *of != thread_id);
        if newest.len() >= SIZES_MAX {
            newest.remove(0);
        }
        newest.push((thread_id, tokens));
    }

    /// Returns how large the thread's newest request was; `None` when this process sent none.
    pub(crate) fn of(&self, thread_id: ThreadId) -> Option<u64> {
        let newest = self.newest.lock();
        newest.iter().find(|(of, _)| *of == thread_id).map(|(_, tokens)| *tokens)
    }
}

/// How often in a row condensing did not help.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stuck {
    /// How often.
    pub attempts: u32,
    /// Tokens of the request then.
    pub tokens: u64,
    /// The window of the model it was for.
    pub window: Option<u64>,
}

impl Stuck {
    /// Returns how often it did not help for a model with that window: what another one takes is another matter.
    pub(crate) fn of(channels: &Channels, window: Option<u64>) -> Result<Self, ChannelError> {
        let stuck = STUCK_CHANNEL.get(channels)?;
        Ok(stuck.filter(|stuck: &Self| stuck.window == window).unwrap_or_default())
    }

    /// Returns whether another attempt at `tokens` is worth it.
    fn may_try(self, tokens: u64) -> bool {
        self.attempts == 0 || tokens * 100 >= self.tokens * (100 + GROWTH_PERCENT)
    }
}

impl Compactor {
    /// Returns `provider/name` of the model that is sent the conversation; empty without one.
    pub(crate) fn model_name(&self) -> String {
        self.model.as_ref().map(|model| model.name().to_string()).unwrap_or_default()
    }

    /// Returns the tokens the model takes, if known.
    pub(crate) fn window(&self) -> Option<u64> {
        self.model.as_ref().and_then(|model| model.limits().context_tokens)
    }

    /// Returns the tokens of a request from which on the conversation is condensed without being asked; `None` when that
    /// does not follow from its tokens alone.
    pub fn trigger_tokens(&self) -> Option<u64> {
        let window = self.window();
        let clauses = self.settings.trigger(window);
        if !self.settings.enabled || clauses.iter().any(|clause| clause.messages.is_some()) {
            return None;
        }
        trigger_tokens(&clauses, window).into_iter().chain(self.budget()).min()
    }

    /// Returns whether the model takes a request of so many tokens, as far as anybody knows.
    pub fn takes(&self, tokens: u64) -> bool {
        self.budget().is_none_or(|budget| tokens <= budget)
    }

    /// Returns the tokens of a request from which on the conversation is long, whether or not it is condensed then.
    pub(crate) fn long_tokens(&self) -> u64 {
        let window = self.window();
        let due = trigger_tokens(&self.settings.trigger(window), window);
        let due = due.or_else(|| trigger_tokens(&defaults(window).0, window));
        due.into_iter().chain(self.budget()).min().unwrap_or(u64::MAX)
    }

    /// Returns how large the thread's next request is; where this process sent none, at least so large.
    pub(crate) async fn request_tokens(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
    ) -> journal::Result<u64> {
        match self.sizes.of(thread_id) {
            Some(tokens) => Ok(tokens),
            None => {
                let context = self.contexts.read(store, thread_id).await?;
                Ok(context.request_tokens(&self.model_name(), 0))
            }
        }
    }
}

/// Lets a conversation be condensed in time.
pub struct CompactionHook {
    /// With what.
    pub compactor: Arc<Compactor>,
}

#[async_trait]
impl Hook for CompactionHook {
    fn name(&self) -> &'static str {
        "Compaction"
    }

    fn is_idle(&self, point: Point, channels: &Channels) -> bool {
        match point {
            Point::BeforeAgent => !OVERFLOWED_CHANNEL.is_set(channels) && !WANTED_CHANNEL.is_set(channels),
            Point::AfterModel | Point::AfterAgent => true,
        }
    }

    /// Forgets what a turn that was stopped had left to do.
    async fn before_agent(&self, step: &StepContext<'_>) -> Result<Update, Failure> {
        let mut update = Update::default();
        if OVERFLOWED_CHANNEL.is_set(step.channels) {
            OVERFLOWED_CHANNEL.clear(&mut update.channels);
        }
        if WANTED_CHANNEL.is_set(step.channels) {
            WANTED_CHANNEL.clear(&mut update.channels);
        }
        Ok(update)
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        let Some(context) = step.context else { return Ok(Update::default()) };
        let compactor = &self.compactor;
        let frame_tokens = tokens::of_frame(request);
        let tokens = context.request_tokens(&compactor.model_name(), frame_tokens);
        compactor.sizes.note(step.thread_id, tokens);
        if let Some(asked) = WANTED_CHANNEL.get(step.channels)? {
            return Ok(condensing(&asked.in_turn(frame_tokens)));
        }
        if !compactor.settings.enabled {
            return Ok(Update::default());
        }
        let window = compactor.window();
        let size = Size { tokens, messages: context.messages.len() as u64, window };
        let stuck = Stuck::of(step.channels, window)?;
        let is_too_large = !compactor.takes(tokens);
        let is_due = is_too_large || is_due(&compactor.settings.trigger(window), size);
        // What does not fit is tried again at once, and shortened in the request when that has not helped often enough.
        let may_try = stuck.may_try(tokens) || (is_too_large && stuck.attempts < ATTEMPTS_MAX);
        if is_due && may_try {
            return Ok(condensing(&Wanted::unasked(CompactionTrigger::Auto, frame_tokens)));
        }
        Ok(Update::default())
    }

    async fn wrap_model_call(
        &self,
        step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCall<'_>,
    ) -> Result<ModelAnswer, Failure> {
        let frame_tokens = tokens::of_frame(&request);
        let has_overflowed = OVERFLOWED_CHANNEL.is_set(step.channels);
        match next.run(request).await {
            Ok(mut answered) if has_overflowed => {
                OVERFLOWED_CHANNEL.clear(&mut answered.update.channels);
                Ok(answered)
            }
            Err(failure) if failure.kind == FailureKind::Overflow && !self.compactor.settings.enabled => {
                Err(failure
                    .with_hint("`/compact` condenses the conversation; `/handoff` goes on in a short thread"))
            }
            Err(failure) if failure.kind == FailureKind::Overflow && has_overflowed => {
                Err(self.overflowed_again(step, frame_tokens, failure))
            }
            Err(failure) if failure.kind == FailureKind::Overflow => {
                let mut update = condensing(&Wanted::unasked(CompactionTrigger::Overflow, frame_tokens));
                OVERFLOWED_CHANNEL.set(&mut update.channels, &true);
                update.usage.add(failure.partial.usage);
                Ok(ModelAnswer { answer: None, update })
            }
            answered => answered,
        }
    }
}

impl CompactionHook {
    /// Returns the failure of a request that was refused although the conversation had been condensed for it.
    fn overflowed_again(&self, step: &StepContext<'_>, frame_tokens: u64, failure: Failure) -> Failure {
        let messages = step.context.map_or(0, |context| context.tokens);
        let window = match self.compactor.window() {
            Some(window) => format!("of {window}"),
            None => "of an unknown number".to_owned(),
        };
        let message = format!(
            "{}; it was condensed already, and has about {} tokens {window}: instructions and tools {frame_tokens}, \
             messages {messages}",
            failure.message,
            frame_tokens + messages
        );
        let mut again = Failure::new(FailureKind::Overflow, message).with_hint(TOO_LARGE_HINT);
        again.partial = failure.partial;
        OVERFLOWED_CHANNEL.clear(&mut again.partial.channels);
        again
    }
}

/// Puts off what is due: the conversation is condensed again once it has grown, or does not fit. A person wanted it as it
/// is, in a request of `tokens`.
pub fn put_off(channels: &mut Channels, tokens: u64, window: Option<u64>) {
    let stuck = Stuck { attempts: 1, tokens, window };
    STUCK_CHANNEL.set(channels, &stuck);
}

/// Returns the update that leads to the node.
fn condensing(wanted: &Wanted) -> Update {
    Update { channels: wanted_channels(wanted), jump: Some(COMPACTION_NODE), ..Update::default() }
}
