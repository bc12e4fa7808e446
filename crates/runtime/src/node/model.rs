//! The node that asks the model: builds the request from the journal, streams the answer, returns it as one event.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::Store;
use model::transcript::{self, Budget};
use model::{ChatModel, ChatRequest, Part, Tools, tokens};
use protocol::{
    AiMessage, Block, FailureKind, InterruptPayload, Message, NewEvent, RunId, StopReason, ThreadId,
};
use tokio_util::sync::CancellationToken;

use crate::graph::Node;
use crate::graph::channel::{Channel, ChannelError};
use crate::hook::{Hook, ModelAnswer, ModelCall};
use crate::node::context::{Context, Contexts};
use crate::step::{Ask, Channels, Early, Entry, Failure, StepContext, Update};
use crate::stream::Frames;
use crate::stream::frame::Frame;

/// The name of the model node.
pub const MODEL_NODE: &str = "model";

/// Channel: whether the newest answer asks for tools; the edge after the node reads it.
pub const TOOLS_WANTED_CHANNEL: Channel<bool> = Channel::new("tools_wanted");

/// Channel: set once a person was told that old results are shortened in what this thread's model is sent.
const SHORTENED_CHANNEL: Channel<bool> = Channel::new("_shortened");

/// Channel: questions that came with an answer, `[[key, payload]]`; they are asked once the answer is stored.
pub(crate) const DEFERRED_CHANNEL: Channel<Vec<(String, InterruptPayload)>> = Channel::new("_deferred");

/// Returns whether the newest answer asks for tools; for the edge after the model node.
///
/// # Errors
/// When the state does not say so readably.
pub fn wants_tools(channels: &Channels) -> Result<bool, ChannelError> {
    Ok(TOOLS_WANTED_CHANNEL.get(channels)? == Some(true))
}

/// Asks the model once.
pub struct ModelNode {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// What it may call.
    pub tools: Tools,
    /// The hooks around it, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// The contexts that were used last.
    pub contexts: Arc<Contexts>,
    /// What a person can do about a conversation that does not fit the model.
    pub too_large_hint: &'static str,
}

#[async_trait]
impl Node for ModelNode {
    fn name(&self) -> &'static str {
        MODEL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        if step.cancel.is_cancelled() {
            return Ok(Update::default());
        }
        let context = self.contexts.read(&**step.store, step.thread_id).await?;
        let step = StepContext { context: Some(&context), ..step };
        let mut request = self.request(&step, &context);
        let mut update = Update::default();
        for hook in &self.hooks {
            let more = hook.before_model(&step, &mut request).await?;
            if more.diverts() {
                return Ok(more);
            }
            update.merge(more);
        }
        let (fitted, estimated) = self.fit(&step, &mut request, &context)?;
        update.merge(fitted);
        let call = ModelCall { node: self, step: &step, rest: &self.hooks };
        let begun = Instant::now();
        match call.run(request).await {
            Ok(ModelAnswer { answer, update: more }) => {
                update.merge(more);
                match answer {
                    Some(answer) => {
                        let estimated_tokens = answer.usage.map(|_| estimated);
                        self.record(&step, update, AiMessage { estimated_tokens, ..answer }, begun)
                    }
                    None => Ok(update),
                }
            }
            Err(mut failure) => {
                update.merge(std::mem::take(&mut *failure.partial));
                Err(failure.keeping(update))
            }
        }
    }
}

/// What a thread's next request would hold, in tokens by estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// What each hook puts into it, in order; hooks that add nothing are left out.
    pub hooks: Vec<(&'static str, u64)>,
    /// The descriptions of the tools.
    pub tools: u64,
}

impl ModelNode {
    /// Works out what the thread's next request would hold. Nothing is sent and nothing is stored.
    ///
    /// # Errors
    /// When the journal, or a hook, fails.
    pub async fn preview(
        &self,
        store: &Arc<dyn Store>,
        thread_id: ThreadId,
        run_id: RunId,
    ) -> Result<Preview, Failure> {
        let context = self.contexts.read(&**store, thread_id).await?;
        let (frames, cancel) = (Frames::default(), CancellationToken::new());
        let ((early, _recorded), channels) = (Early::channel(), Channels::new());
        let step = StepContext {
            thread_id,
            run_id,
            step: 1,
            entry: Entry::Fresh,
            taken_up: 0,
            channels: &channels,
            answers: &[],
            store,
            frames: &frames,
            cancel: &cancel,
            early: &early,
            unwritten: &[],
            context: Some(&context),
        };
        let mut request = self.request(&step, &context);
        let mut before = tokens::of_frame(&request);
        let tools = before;
        let mut hooks = Vec::new();
        for hook in &self.hooks {
            hook.before_model(&step, &mut request).await?;
            let now = tokens::of_frame(&request);
            if now > before {
                hooks.push((hook.name(), now - before));
            }
            before = now;
        }
        Ok(Preview { hooks, tools })
    }

    fn request(&self, step: &StepContext<'_>, context: &Context) -> ChatRequest {
        ChatRequest {
            messages: Arc::clone(&context.messages),
            media: context.media.clone(),
            tools: self.tools.clone(),
            cache_key: Some(step.thread_id.to_string()),
            ..ChatRequest::default()
        }
    }

    /// Shortens old results in the request when it would not fit the model's window, and returns what it is by estimate
    /// then. It is worked out for every request, so that a thread can go on with a model that takes less.
    fn fit(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
        context: &Context,
    ) -> Result<(Update, u64), Failure> {
        let mut update = Update::default();
        let is_whole = Arc::ptr_eq(&request.messages, &context.messages);
        let estimated = match is_whole {
            true => context.tokens,
            // A hook put other messages in their place.
            false => request.messages.iter().map(tokens::of_message).sum(),
        };
        let Some(budget) = Budget::of(self.model.limits(), request) else {
            let fixed = tokens::of_frame(request) + tokens::of_media(&request.media);
            return Ok((update, fixed + estimated));
        };
        let budget = budget.counted_as(context.times(&self.model.name().to_string()));
        match transcript::fit(&request.messages, estimated, budget) {
            Ok(fitted) => {
                if fitted.shortened > 0 && !SHORTENED_CHANNEL.is_set(step.channels) {
                    let text = format!("{} old results are shortened to fit the model", fitted.shortened);
                    step.frames.send(Frame::Notice { text });
                    SHORTENED_CHANNEL.set(&mut update.channels, &true);
                }
                request.messages = fitted.messages;
                Ok((update, fitted.tokens))
            }
            Err(error) => {
                Err(Failure::new(FailureKind::Limit, error.to_string()).with_hint(self.too_large_hint))
            }
        }
    }
    /// Asks the model itself. A run that is stopped gives what had arrived, marked as incomplete.
    pub(crate) async fn ask(
        &self,
        step: &StepContext<'_>,
        request: &ChatRequest,
    ) -> Result<ModelAnswer, Failure> {
        let (mut partial, begun) = (Partial::default(), Instant::now());
        match self.stream(step, request, &mut partial).await {
            Ok(Some(answer)) => match emptiness(&answer) {
                // After its tools a model may have nothing to add: the work is done.
                Some(_) if is_silent_end(request, &answer) => {
                    Ok(ModelAnswer { answer: Some(answer), ..ModelAnswer::default() })
                }
                Some(reason) => Err(self.nothing(&answer, reason)),
                None => Ok(ModelAnswer { answer: Some(answer), ..ModelAnswer::default() }),
            },
            Ok(None) => Ok(ModelAnswer { answer: Some(partial.incomplete()), ..ModelAnswer::default() }),
            Err(error) if partial.is_empty() => Err(self.failure(error)),
            Err(error) => {
                let kept = self.record(step, Update::default(), partial.incomplete(), begun)?;
                Err(self.failure(error).keeping(kept))
            }
        }
    }

    /// Returns the answer, or `None` when a person stopped the run.
    async fn stream(
        &self,
        step: &StepContext<'_>,
        request: &ChatRequest,
        partial: &mut Partial,
    ) -> model::Result<Option<AiMessage>> {
        let mut parts = tokio::select! {
            parts = self.model.stream(request) => parts?,
            () = step.cancel.cancelled() => return Ok(None),
        };
        let message_id = step.message_id();
        let mut calls = 0;
        loop {
            let part = tokio::select! {
                part = parts.next() => part,
                () = step.cancel.cancelled() => return Ok(None),
            };
            match part.transpose()? {
                Some(Part::Text(text)) => {
                    partial.text.push_str(&text);
                    step.frames.send(Frame::Text { message_id: message_id.clone(), text });
                }
                Some(Part::Thinking(text)) => {
                    step.frames.send(Frame::Thinking { message_id: message_id.clone(), text });
                }
                Some(Part::ToolCall { id, name }) => {
                    let (message_id, index) = (message_id.clone(), calls);
                    step.frames.send(Frame::ToolCall { message_id, index, call_id: id, name });
                    calls += 1;
                }
                Some(Part::Done(answer)) => return Ok(Some(answer)),
                None => {
                    let reason = "the stream ended without an answer".to_owned();
                    return Err(model::Error::Broken { model: self.model.name().clone(), reason });
                }
            }
        }
    }

    /// Returns the failure of a model call.
    fn failure(&self, error: model::Error) -> Failure {
        let is_overflow = matches!(error, model::Error::Overflow { .. });
        let failure = Failure::from(error);
        if is_overflow { failure.with_hint(self.too_large_hint) } else { failure }
    }

    /// Returns the failure of an answer without content; its tokens count all the same.
    fn nothing(&self, answer: &AiMessage, reason: &str) -> Failure {
        let usage = answer.usage.unwrap_or_default();
        let error = model::Error::Broken { model: self.model.name().clone(), reason: reason.to_owned() };
        Failure::from(error).keeping(Update { usage, ..Update::default() })
    }

    /// Returns `update` with the answer, under the id that was told with its first words; `begun` is when it was asked for.
    fn record(
        &self,
        step: &StepContext<'_>,
        mut update: Update,
        mut answer: AiMessage,
        begun: Instant,
    ) -> Result<Update, Failure> {
        answer.id = Some(step.message_id());
        answer.model.get_or_insert_with(|| self.model.name().to_string());
        update.usage.add(answer.usage.unwrap_or_default());
        let message = Message::Ai(answer);
        let wants_tools = message.tool_calls().next().is_some();
        TOOLS_WANTED_CHANNEL.set(&mut update.channels, &wants_tools);
        let asks: Vec<(String, InterruptPayload)> =
            update.asks.drain(..).map(|ask| (ask.key, ask.payload)).collect();
        if !asks.is_empty() {
            DEFERRED_CHANNEL.set(&mut update.channels, &asks);
        }
        let says = message
            .content()
            .iter()
            .any(|block| !matches!(block, Block::Text { text } if text.trim().is_empty()));
        if says {
            update.events.push(NewEvent::message(&message, Timestamp::now())?.that_took(begun.elapsed())?);
        }
        Ok(update)
    }
}

/// What of an answer has arrived.
#[derive(Default)]
struct Partial {
    text: String,
}

impl Partial {
    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Tool calls that did not arrive whole are not part of it: they must not run.
    fn incomplete(self) -> AiMessage {
        let content = if self.text.is_empty() { Vec::new() } else { vec![Block::text(self.text)] };
        AiMessage { content, incomplete: true, ..AiMessage::default() }
    }
}

/// Returns the questions that came with the newest answer, until they are answered.
pub(crate) fn deferred(step: &StepContext<'_>) -> Result<Update, Failure> {
    let Some(asks) = DEFERRED_CHANNEL.get(step.channels)? else { return Ok(Update::default()) };
    let mut update = Update::default();
    if step.answers.is_empty() {
        update.asks = asks.into_iter().map(|(key, payload)| Ask { key, payload }).collect();
    } else {
        DEFERRED_CHANNEL.clear(&mut update.channels);
    }
    Ok(update)
}

/// Returns whether the answer says that a turn is over in which tools were used, and says nothing else.
fn is_silent_end(request: &ChatRequest, answer: &AiMessage) -> bool {
    let is_end = matches!(answer.stop, Some(StopReason::EndTurn) | None);
    is_end && matches!(request.messages.last(), Some(Message::Tool(_)))
}

/// Returns why there is nothing in the answer that a person or a tool could use; `None` when there is something.
fn emptiness(answer: &AiMessage) -> Option<&'static str> {
    let says_something = |block: &Block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Thinking { .. } => false,
        Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => true,
    };
    if answer.content.iter().any(says_something) {
        return None;
    }
    Some(match answer.stop {
        Some(StopReason::Refusal) => "the model declined to answer",
        Some(StopReason::MaxTokens) => "it reached its limit before it said anything",
        Some(StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other) | None => "it is empty",
    })
}

#[cfg(test)]
mod tests;
