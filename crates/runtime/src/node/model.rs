//! The model node: builds the request from the journal, streams the model's answer and returns it as one event.

use futures::future::BoxFuture;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::Store;
use model::transcript::{self, TokenBudget};
use model::{AnswerPart, ChatModel, ChatRequest, RetryNotice, ToolSpecs, tokens};
use protocol::{
    AiMessage, ContentBlock, FailureKind, InterruptPayload, Message, NewEvent, RunId, StopReason, ThreadId,
};
use tokio_util::sync::CancellationToken;

use crate::graph::Node;
use crate::graph::channel::{Channel, ChannelError};
use crate::hook::{Hook, ModelAnswer, ModelCallHandler};
use crate::node::context::{ContextCache, ModelContext};
use crate::step::{
    Channels, EarlyCommitSender, GraphUpdate, InterruptRequest, StepContext, StepEntry, StepFailure,
};
use crate::stream::FrameSender;
use crate::stream::frame::Frame;

/// The name of the model node.
pub const MODEL_NODE: &str = "model";

/// The channel that says whether the newest answer has tool calls. The edge after the model node reads it.
pub const HAS_TOOL_CALLS_CHANNEL: Channel<bool> = Channel::new("tools_wanted");

/// The channel that records that a person was notified of shortened tool results in this thread's requests.
const SHORTENED_CHANNEL: Channel<bool> = Channel::new("_shortened");

/// The channel with questions that came together with an answer, as `[[key, payload]]`. They are asked once the
/// answer is stored.
pub(crate) const DEFERRED_QUESTIONS_CHANNEL: Channel<Vec<(String, InterruptPayload)>> =
    Channel::new("_deferred");

/// Returns whether the newest answer has tool calls. For the edge after the model node.
///
/// # Errors
/// Fails when the channel cannot be read.
pub fn has_tool_calls(channels: &Channels) -> Result<bool, ChannelError> {
    Ok(HAS_TOOL_CALLS_CHANNEL.get(channels)? == Some(true))
}

/// The node that sends one request to the model and returns the answer.
pub struct ModelNode {
    /// The model to call.
    pub model: Arc<dyn ChatModel>,
    /// The tools that the model may call.
    pub tools: ToolSpecs,
    /// The hooks around the call, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// The cache of contexts.
    pub contexts: Arc<ContextCache>,
    /// The advice for a person when a conversation does not fit the model's window.
    pub too_large_hint: Cow<'static, str>,
}

#[async_trait]
impl Node for ModelNode {
    fn name(&self) -> &'static str {
        MODEL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        if step.cancel.is_cancelled() {
            return Ok(GraphUpdate::default());
        }
        let context = self.contexts.read_context(&**step.store, step.thread_id).await?;
        let step = StepContext { context: Some(&context), ..step };
        let mut request = self.build_request(&step, &context);
        let mut update = GraphUpdate::default();
        for hook in &self.hooks {
            let more = hook.before_model(&step, &mut request).await?;
            if more.is_diverting() {
                return Ok(more);
            }
            update.merge(more);
        }
        let (fitting_update, estimated_request) = self.fit_request(&step, &mut request, &context)?;
        update.merge(fitting_update);
        let answer_retries = AtomicU32::new(0);
        let call = ModelCallHandler {
            node: self,
            step: &step,
            remaining_hooks: &self.hooks,
            answer_retries: &answer_retries,
        };
        let started_at = Instant::now();
        match call.run(request).await {
            Ok(ModelAnswer { answer, update: more }) => {
                update.merge(more);
                match answer {
                    Some(answer) => {
                        let estimated_tokens = answer.usage.map(|_| estimated_request);
                        let id = Some(step.retried_message_id(answer_retries.load(Ordering::Relaxed)));
                        self.record_answer(update, AiMessage { id, estimated_tokens, ..answer }, started_at)
                    }
                    None => Ok(update),
                }
            }
            Err(mut failure) => {
                update.merge(std::mem::take(&mut *failure.partial));
                Err(failure.with_partial(update))
            }
        }
    }
}

/// The sizes of the parts of a thread's next request besides its messages, in estimated tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPreview {
    /// The additions of each hook, in order. Hooks that add nothing are left out.
    pub hooks: Vec<(&'static str, u64)>,
    /// The size of the tool descriptions.
    pub tools: u64,
}

impl ModelNode {
    /// Computes the sizes of the thread's next request by building it. Nothing is sent or stored.
    ///
    /// # Errors
    /// Fails when the journal or a hook fails.
    pub fn preview_request<'a>(
        &'a self,
        store: &'a Arc<dyn Store>,
        thread_id: ThreadId,
        run_id: RunId,
    ) -> BoxFuture<'a, Result<RequestPreview, StepFailure>> {
        journal::box_future(async move {
            let context = self.contexts.read_context(&**store, thread_id).await?;
            let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
            let ((early_commits, _early_receiver), channels) =
                (EarlyCommitSender::channel(), Channels::new());
            let step = StepContext {
                thread_id,
                run_id,
                step: 1,
                entry: StepEntry::Fresh,
                start_seq: 0,
                channels: &channels,
                answers: &[],
                store,
                frames: &frames,
                cancel: &cancel,
                early_commits: &early_commits,
                deferred_writes: &[],
                context: Some(&context),
            };
            let mut request = self.build_request(&step, &context);
            let mut before = tokens::overhead_tokens(&request);
            let tools = before;
            let mut hooks = Vec::new();
            for hook in &self.hooks {
                hook.before_model(&step, &mut request).await?;
                let now = tokens::overhead_tokens(&request);
                if now > before {
                    hooks.push((hook.name(), now - before));
                }
                before = now;
            }
            Ok(RequestPreview { hooks, tools })
        })
    }

    /// Returns the request with the thread's messages, media and tools.
    fn build_request(&self, step: &StepContext<'_>, context: &ModelContext) -> ChatRequest {
        ChatRequest {
            messages: Arc::clone(&context.messages),
            media: context.media.clone(),
            tools: self.tools.clone(),
            cache_key: Some(step.thread_id.to_string()),
            ..ChatRequest::default()
        }
    }

    /// Shortens old tool results in the request if it does not fit the model's window. Returns the resulting
    /// changes and the estimated size of the request in tokens. This is repeated for every request, so that a
    /// thread can continue with a model that has a smaller window.
    fn fit_request(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
        context: &ModelContext,
    ) -> Result<(GraphUpdate, u64), StepFailure> {
        let mut update = GraphUpdate::default();
        let is_whole = Arc::ptr_eq(&request.messages, &context.messages);
        let estimated = match is_whole {
            true => context.tokens,
            // A hook replaced the messages.
            false => request.messages.iter().map(tokens::message_tokens).sum(),
        };
        let Some(budget) = TokenBudget::for_request(self.model.limits(), request) else {
            let fixed = tokens::overhead_tokens(request) + tokens::media_tokens(&request.media);
            return Ok((update, fixed + estimated));
        };
        let budget = budget.in_estimated_tokens(context.calibration_factor(&self.model.name().to_string()));
        match transcript::fit_conversation(&request.messages, estimated, budget) {
            Ok(fitted) => {
                if fitted.shortened_messages > 0 && !SHORTENED_CHANNEL.is_set(step.channels) {
                    let text =
                        format!("{} old results are shortened to fit the model", fitted.shortened_messages);
                    step.frames.send(Frame::Notice { text });
                    SHORTENED_CHANNEL.set(&mut update.channels, &true);
                }
                request.messages = fitted.messages;
                Ok((update, fitted.tokens))
            }
            Err(error) => Err(StepFailure::new(FailureKind::Limit, error.to_string())
                .with_hint(self.too_large_hint.clone())),
        }
    }
    /// Calls the model itself. If the run is stopped, the text that had arrived is the answer, marked as
    /// incomplete.
    pub(crate) async fn call_model(
        &self,
        step: &StepContext<'_>,
        request: &ChatRequest,
        answer_retries: &AtomicU32,
    ) -> Result<ModelAnswer, StepFailure> {
        let mut partial = PartialAnswer::new(step, answer_retries);
        match self.stream_answer(step, request, &mut partial).await? {
            Ok(Some(answer)) => match empty_reason(&answer) {
                // After tool calls the model may have nothing to add, so an empty answer is a success.
                Some(_) if is_silent_end(request, &answer) => {
                    Ok(ModelAnswer { answer: Some(answer), ..ModelAnswer::default() })
                }
                Some(reason) => Err(self.empty_answer_failure(&answer, reason)),
                None => Ok(ModelAnswer { answer: Some(answer), ..ModelAnswer::default() }),
            },
            Ok(None) => Ok(ModelAnswer { answer: Some(partial.into_incomplete()), ..ModelAnswer::default() }),
            Err(error) if partial.is_empty() => Err(self.call_failure(error)),
            Err(error) => {
                let started_at = partial.started_at;
                let update =
                    self.record_answer(GraphUpdate::default(), partial.into_incomplete(), started_at)?;
                Err(self.call_failure(error).with_partial(update))
            }
        }
    }

    /// Streams the answer and sends its parts as frames. Returns `None` if the run was stopped. `partial`
    /// collects the text, so that it is available after a stop or failure.
    ///
    /// # Errors
    /// The outer error is a failure to store the part of an answer that broke off.
    async fn stream_answer(
        &self,
        step: &StepContext<'_>,
        request: &ChatRequest,
        partial: &mut PartialAnswer<'_>,
    ) -> Result<model::Result<Option<AiMessage>>, StepFailure> {
        let started = tokio::select! {
            started = self.model.stream(request) => started,
            () = step.cancel.cancelled() => return Ok(Ok(None)),
        };
        let mut parts = match started {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let part = tokio::select! {
                part = parts.next() => part,
                () = step.cancel.cancelled() => return Ok(Ok(None)),
            };
            match part {
                Some(Ok(AnswerPart::Done(answer))) => return Ok(Ok(Some(answer))),
                Some(Ok(AnswerPart::Retry(notice))) => self.begin_retry(step, partial, &notice).await?,
                Some(Ok(part)) => partial.add_part(step, part),
                Some(Err(error)) => return Ok(Err(error)),
                None => {
                    let reason = "the stream ended without an answer".to_owned();
                    let model = self.model.name().clone();
                    return Ok(Err(model::Error::MalformedAnswer { model, reason }));
                }
            }
        }
    }

    /// Stores the part of an answer that broke off as an incomplete message, sends a notice of the retry, and
    /// begins another answer. The part is durable before the request is sent again.
    async fn begin_retry(
        &self,
        step: &StepContext<'_>,
        partial: &mut PartialAnswer<'_>,
        notice: &RetryNotice,
    ) -> Result<(), StepFailure> {
        if partial.has_begun {
            partial.answer_retries.fetch_add(1, Ordering::Relaxed);
            let broken = std::mem::replace(partial, PartialAnswer::new(step, partial.answer_retries));
            if !broken.is_empty() {
                let started_at = broken.started_at;
                let update =
                    self.record_answer(GraphUpdate::default(), broken.into_incomplete(), started_at)?;
                step.early_commits.commit_durably(update.events, Vec::new()).await;
            }
        }
        let text = format!(
            "failed to {}; the request is sent again in {} s; press Esc or Ctrl-C to stop the run",
            notice.reason,
            notice.wait.as_secs_f64().ceil()
        );
        step.frames.send(Frame::Notice { text });
        Ok(())
    }

    /// Returns the failure of a model call. A request that the provider refuses as too large gets the hint of
    /// this node.
    fn call_failure(&self, error: model::Error) -> StepFailure {
        let is_overflow = matches!(error, model::Error::ContextOverflow { .. });
        let failure = StepFailure::from(error);
        if is_overflow { failure.with_hint(self.too_large_hint.clone()) } else { failure }
    }

    /// Returns the failure of an answer without content. The tokens of the answer are counted.
    fn empty_answer_failure(&self, answer: &AiMessage, reason: &str) -> StepFailure {
        let usage = answer.usage.unwrap_or_default();
        let error =
            model::Error::MalformedAnswer { model: self.model.name().clone(), reason: reason.to_owned() };
        StepFailure::from(error).with_partial(GraphUpdate { usage, ..GraphUpdate::default() })
    }

    /// Adds the answer's event to `update`. The answer has the id that the frames of its text had. `started_at` is
    /// the time of the request. Questions in `update` are deferred until the answer is stored.
    fn record_answer(
        &self,
        mut update: GraphUpdate,
        mut answer: AiMessage,
        started_at: Instant,
    ) -> Result<GraphUpdate, StepFailure> {
        answer.model.get_or_insert_with(|| self.model.name().to_string());
        update.usage.add(answer.usage.unwrap_or_default());
        let message = Message::Ai(answer);
        let has_tool_calls = message.tool_calls().next().is_some();
        HAS_TOOL_CALLS_CHANNEL.set(&mut update.channels, &has_tool_calls);
        let questions: Vec<(String, InterruptPayload)> =
            update.interrupts.drain(..).map(|question| (question.key, question.payload)).collect();
        if !questions.is_empty() {
            DEFERRED_QUESTIONS_CHANNEL.set(&mut update.channels, &questions);
        }
        let has_content = message
            .content()
            .iter()
            .any(|block| !matches!(block, ContentBlock::Text { text } if text.trim().is_empty()));
        if has_content {
            update.events.push(
                NewEvent::from_message(&message, Timestamp::now())?.with_duration(started_at.elapsed())?,
            );
        }
        Ok(update)
    }
}

/// The part of an answer that has arrived.
struct PartialAnswer<'a> {
    /// The id of the answer.
    message_id: String,
    /// The text of the answer. Reasoning is not kept.
    text: String,
    /// The number of tool calls that began.
    calls: usize,
    /// True if any part has arrived.
    has_begun: bool,
    /// The time of the request.
    started_at: Instant,
    /// The number of earlier answers of the step that broke off.
    answer_retries: &'a AtomicU32,
}

impl<'a> PartialAnswer<'a> {
    /// Returns an answer of which nothing has arrived.
    fn new(step: &StepContext<'_>, answer_retries: &'a AtomicU32) -> Self {
        Self {
            message_id: step.retried_message_id(answer_retries.load(Ordering::Relaxed)),
            text: String::new(),
            calls: 0,
            has_begun: false,
            started_at: Instant::now(),
            answer_retries,
        }
    }

    /// Adds a part and sends it as a frame.
    fn add_part(&mut self, step: &StepContext<'_>, part: AnswerPart) {
        let message_id = self.message_id.clone();
        match part {
            AnswerPart::Text(text) => {
                self.text.push_str(&text);
                step.frames.send(Frame::Text { message_id, text });
            }
            AnswerPart::Thinking(text) => step.frames.send(Frame::Thinking { message_id, text }),
            AnswerPart::ToolCall { id, name } => {
                step.frames.send(Frame::ToolCall { message_id, index: self.calls, call_id: id, name });
                self.calls += 1;
            }
            // These do not belong to a partial answer.
            AnswerPart::Retry(_) | AnswerPart::Done(_) => return,
        }
        self.has_begun = true;
    }

    /// Returns whether no text has arrived.
    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text as an incomplete answer. Tool calls are left out, because calls that did not arrive
    /// completely must not be made.
    fn into_incomplete(self) -> AiMessage {
        let content = if self.text.is_empty() { Vec::new() } else { vec![ContentBlock::text(self.text)] };
        AiMessage { id: Some(self.message_id), content, incomplete: true, ..AiMessage::default() }
    }
}

/// Returns the questions that came together with the newest answer. When the run resumed with their answers,
/// removes them from the state instead.
pub(crate) fn deferred_questions(step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
    let Some(questions) = DEFERRED_QUESTIONS_CHANNEL.get(step.channels)? else {
        return Ok(GraphUpdate::default());
    };
    let mut update = GraphUpdate::default();
    if step.answers.is_empty() {
        update.interrupts =
            questions.into_iter().map(|(key, payload)| InterruptRequest { key, payload }).collect();
    } else {
        DEFERRED_QUESTIONS_CHANNEL.clear(&mut update.channels);
    }
    Ok(update)
}

/// Returns whether an answer without content just ends a turn in which tools were used.
fn is_silent_end(request: &ChatRequest, answer: &AiMessage) -> bool {
    let is_end = matches!(answer.stop, Some(StopReason::EndTurn) | None);
    is_end && matches!(request.messages.last(), Some(Message::Tool(_)))
}

/// Returns the reason why the answer has nothing that a person or a tool could use, or `None` if it has
/// something.
fn empty_reason(answer: &AiMessage) -> Option<&'static str> {
    let is_usable = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => !text.trim().is_empty(),
        ContentBlock::Thinking { .. } => false,
        ContentBlock::ToolCall { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => true,
    };
    if answer.content.iter().any(is_usable) {
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
