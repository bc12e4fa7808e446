//! The nodes every agent needs: asking the model, running tools, and the hooks around them.

pub(crate) mod context;
pub(crate) mod hooks;
pub(crate) mod model;
pub(crate) mod tools;

use std::collections::HashSet;

use journal::{EventQuery, Store};
use protocol::{AiMessage, Block, Category, Message, RunId, Seq, ThreadId};

use crate::step::StepContext;

/// Messages read at a time on the way back to the newest answer; more than an answer usually has calls.
const ANSWER_PAGE_ROWS: usize = 16;

/// The newest answer of a thread's model, and the calls of it that have a result.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    pub answer: Option<AiMessage>,
    pub answered: HashSet<String>,
}

/// Reads back from the end of the thread to the newest answer.
pub(crate) async fn newest_answer(step: &StepContext<'_>) -> journal::Result<Newest> {
    newest_answer_before(&**step.store, step.thread_id, Some(step.run_id), None).await
}

/// Reads back from `before`, or the end of the thread, to the newest answer. What a person said since leaves behind one
/// whose calls all have results, unless they said it with the run that is named; a call without one is still to be made,
/// or to be answered.
pub(crate) async fn newest_answer_before(
    store: &dyn Store,
    thread_id: ThreadId,
    run_id: Option<RunId>,
    mut before: Option<Seq>,
) -> journal::Result<Newest> {
    let mut answered = HashSet::new();
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
                    let newest = Newest { answer: Some(answer), answered };
                    return Ok(if is_followed && !newest.is_open() { Newest::default() } else { newest });
                }
                Some(Message::Tool(result)) => drop(answered.insert(result.call_id)),
                Some(Message::Human(_)) => is_followed |= run_id.is_none() || event.run_id != run_id,
                None => {}
            }
        }
        before = page.first().map(|event| event.seq);
        if page.len() < ANSWER_PAGE_ROWS {
            return Ok(Newest::default());
        }
    }
}

impl Newest {
    /// Returns whether a call of it has no result.
    fn is_open(&self) -> bool {
        let content = self.answer.iter().flat_map(|answer| &answer.content);
        let mut calls = content.filter_map(|block| match block {
            Block::ToolCall { id, .. } => Some(id),
            Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
        });
        calls.any(|id| !self.answered.contains(id))
    }
}
