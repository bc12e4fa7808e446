//! The node that asks the model: builds the request from the journal, streams the answer, returns it as one event.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use jiff::Timestamp;
use journal::{EventQuery, view};
use model::{ChatModel, ChatRequest, Part, ToolSpec};
use protocol::{AiMessage, Block, Category, Event, Message, NewEvent, StopReason};

use crate::frame::Frame;
use crate::graph::Node;
use crate::hook::Hook;
use crate::step::{Channels, Failure, StepContext, Update};

#[cfg(test)]
mod tests;

/// Events read at a time when the context is built.
const CONTEXT_PAGE_ROWS: usize = 500;

/// The name of the model node.
pub const MODEL_NODE: &str = "model";

/// Channel: whether the newest answer asks for tools; the edge after the node reads it.
pub(crate) const TOOLS_WANTED_CHANNEL: &str = "tools_wanted";

/// Returns whether the newest answer asks for tools; for the edge after the model node.
pub fn wants_tools(channels: &Channels) -> bool {
    channels.get(TOOLS_WANTED_CHANNEL).and_then(serde_json::Value::as_bool) == Some(true)
}

/// Asks the model once.
pub struct ModelNode {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// What it may call.
    pub tools: Vec<ToolSpec>,
    /// What completes the request, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
}

#[async_trait]
impl Node for ModelNode {
    fn name(&self) -> &'static str {
        MODEL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let mut update = Update::default();
        let mut request = ChatRequest {
            messages: context(|query| step.store.events(step.thread_id, query)).await?,
            tools: self.tools.clone(),
            ..ChatRequest::default()
        };
        for hook in &self.hooks {
            merge(&mut update, hook.before_model(&step, &mut request).await?);
        }
        let mut partial = Partial::default();
        match self.stream(&step, &request, &mut partial).await {
            Ok(Some(answer)) => match emptiness(&answer) {
                Some(reason) => Err(self.nothing(update, &answer, reason)),
                None => self.record(update, answer),
            },
            Ok(None) => self.record(update, partial.incomplete()),
            Err(error) => {
                let kept =
                    if partial.is_empty() { update } else { self.record(update, partial.incomplete())? };
                Err(Failure::from(error).keeping(kept))
            }
        }
    }
}

impl ModelNode {
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
        loop {
            let part = tokio::select! {
                part = parts.next() => part,
                () = step.cancel.cancelled() => return Ok(None),
            };
            match part.transpose()? {
                Some(Part::Text(text)) => {
                    partial.text.push_str(&text);
                    step.frames.send(Frame::Text { text });
                }
                Some(Part::Thinking(text)) => step.frames.send(Frame::Thinking { text }),
                Some(Part::ToolCall { .. }) => {}
                Some(Part::Done(answer)) => return Ok(Some(answer)),
                None => {
                    let reason = "the stream ended without an answer".to_owned();
                    return Err(model::Error::Broken { model: self.model.name().clone(), reason });
                }
            }
        }
    }

    /// Returns the failure of an answer without content; its tokens count all the same.
    fn nothing(&self, mut update: Update, answer: &AiMessage, reason: &str) -> Failure {
        update.usage = answer.usage.unwrap_or_default();
        let error = model::Error::Broken { model: self.model.name().clone(), reason: reason.to_owned() };
        Failure::from(error).keeping(update)
    }

    fn record(&self, mut update: Update, mut answer: AiMessage) -> Result<Update, Failure> {
        answer.model = Some(self.model.name().to_string());
        update.usage = answer.usage.unwrap_or_default();
        let message = Message::Ai(answer);
        let wants_tools = message.tool_calls().next().is_some();
        update.channels.insert(TOOLS_WANTED_CHANNEL.to_owned(), wants_tools.into());
        if !message.content().is_empty() {
            update.events.push(NewEvent::message(&message, Timestamp::now())?);
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

fn merge(update: &mut Update, more: Update) {
    update.events.extend(more.events);
    update.channels.extend(more.channels);
    update.writes.extend(more.writes);
    update.activities.extend(more.activities);
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

/// Returns the thread's context. Pages are read from the newest back to where the context begins, never before it,
/// and only their messages are kept.
async fn context<F, P>(mut events: F) -> Result<Vec<Message>, Failure>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let categories = vec![Category::Message, Category::Middleware];
        let page = events(EventQuery { after: None, before, categories, limit: CONTEXT_PAGE_ROWS }).await?;
        let whole = page.len() < CONTEXT_PAGE_ROWS || page.iter().any(view::begins_context);
        before = page.first().map(|event| event.seq);
        pages.push(view::context(&page));
        if whole {
            break;
        }
    }
    Ok(pages.into_iter().rev().flatten().collect())
}
