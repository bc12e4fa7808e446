//! The nodes that every agent has: the model call, the tool calls, and the hooks between them. Also finds a
//! thread's newest answer, which these nodes work on.

pub(crate) mod context;
pub(crate) mod hooks;
pub(crate) mod model;
pub(crate) mod tools;

use std::collections::HashSet;

use journal::{EventQuery, Store};
use protocol::{AiMessage, Category, ContentBlock, Message, RunId, Seq, ThreadId};

use crate::step::StepContext;

/// The number of messages that are read at a time while searching backwards for the newest answer. An answer
/// usually has fewer calls than this, so one page suffices.
const ANSWER_PAGE_ROWS: usize = 16;

/// The newest answer of a thread's model, with the calls of it that have a result.
#[derive(Debug, Default)]
pub(crate) struct LatestAnswer {
    /// The answer, if the thread has one that is still current.
    pub answer: Option<AiMessage>,
    /// The ids of the answer's calls that have a result.
    pub answered_calls: HashSet<String>,
}

/// Returns the newest answer of the step's thread.
pub(crate) async fn read_latest_answer(step: &StepContext<'_>) -> journal::Result<LatestAnswer> {
    read_latest_answer_before(&**step.store, step.thread_id, Some(step.run_id), None).await
}

/// Returns the newest answer before the event `before`, or before the end of the thread. Reads pages of messages
/// backwards.
///
/// A later message of a person makes an answer obsolete if all of its calls have results; then there is no
/// current answer. A message of the run `run_id` itself does not count as later. An answer with an open call
/// stays current, because the call still has to be made or closed.
pub(crate) async fn read_latest_answer_before(
    store: &dyn Store,
    thread_id: ThreadId,
    run_id: Option<RunId>,
    mut before: Option<Seq>,
) -> journal::Result<LatestAnswer> {
    let mut answered_calls = HashSet::new();
    let mut is_followed = false;
    loop {
        let query = EventQuery {
            before,
            categories: vec![Category::Message],
            limit: ANSWER_PAGE_ROWS,
            ..EventQuery::default()
        };
        let page = store.events(thread_id, query).await?;
        for event in page.iter().rev() {
            match event.message() {
                Some(Message::Ai(answer)) => {
                    let newest = LatestAnswer { answer: Some(answer), answered_calls };
                    return Ok(if is_followed && !newest.has_open_calls() {
                        LatestAnswer::default()
                    } else {
                        newest
                    });
                }
                Some(Message::Tool(result)) => drop(answered_calls.insert(result.call_id)),
                Some(Message::Human(_)) => is_followed |= run_id.is_none() || event.run_id != run_id,
                None => {}
            }
        }
        before = page.first().map(|event| event.seq);
        if page.len() < ANSWER_PAGE_ROWS {
            return Ok(LatestAnswer::default());
        }
    }
}

impl LatestAnswer {
    /// Returns the answer without the calls that have a result.
    pub(crate) fn into_open_answer(self) -> Option<AiMessage> {
        let Self { answer, answered_calls } = self;
        answer.map(|mut answer| {
            answer.content.retain(|block| match block {
                ContentBlock::ToolCall { id, .. } => !answered_calls.contains(id),
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::Media { .. }
                | ContentBlock::Opaque { .. } => true,
            });
            answer
        })
    }

    /// Returns whether a call of it has no result.
    fn has_open_calls(&self) -> bool {
        let content = self.answer.iter().flat_map(|answer| &answer.content);
        let mut calls = content.filter_map(|block| match block {
            ContentBlock::ToolCall { id, .. } => Some(id),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        calls.any(|id| !self.answered_calls.contains(id))
    }
}
