//! The nodes every agent needs: asking the model, running tools, and the hooks around them.

pub(crate) mod context;
pub(crate) mod hooks;
pub(crate) mod model;
pub(crate) mod tools;

use std::collections::HashSet;

use journal::{EventQuery, Store};
use protocol::{AiMessage, Category, Message, ThreadId};

/// Messages read at a time on the way back to the newest answer; more than an answer usually has calls.
const ANSWER_PAGE_ROWS: usize = 16;

/// The newest answer of a thread's model, and the calls of it that have a result.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    pub answer: Option<AiMessage>,
    pub answered: HashSet<String>,
}

/// Reads back from the end of the thread to the newest answer. Behind it there are only results of its calls.
pub(crate) async fn newest_answer(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Newest> {
    let mut newest = Newest::default();
    let mut before = None;
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
                Some(Message::Ai(answer)) => return Ok(Newest { answer: Some(answer), ..newest }),
                Some(Message::Tool(result)) => drop(newest.answered.insert(result.call_id)),
                Some(Message::Human(_)) => return Ok(Newest::default()),
                None => {}
            }
        }
        before = page.first().map(|event| event.seq);
        if page.len() < ANSWER_PAGE_ROWS {
            return Ok(newest);
        }
    }
}
