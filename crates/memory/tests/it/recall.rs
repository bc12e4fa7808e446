//! What a thread finds again of itself and of those it came from: the journal that the tests of it begin with.

mod answers;
mod finding;
mod lineage;

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use journal::{Sqlite, Store, Transaction, Write};
use memory::{Recall, RecallError, RecallQuery, RecallTool, Wanted, recall};
use protocol::{
    AssistantId, Block, Message, NewEvent, ParentKind, Seq, Thread, ThreadId, ToolMessage, ToolStatus,
};
use runtime::{Tool, ToolContext};
use serde_json::Value;

use crate::tool::{context, text};

pub struct Journal {
    pub store: Arc<dyn Store>,
}

impl Journal {
    pub fn new() -> Self {
        Self { store: Arc::new(Sqlite::in_memory().unwrap()) }
    }

    pub async fn commit(&self, writes: Vec<Write>) {
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    pub async fn thread(&self, parent: Option<(ThreadId, ParentKind)>) -> ThreadId {
        let thread_id = ThreadId::generate();
        let blank = Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH);
        let thread = Thread {
            parent_id: parent.map(|(parent_id, _)| parent_id),
            parent_kind: parent.map(|(_, kind)| kind),
            ..blank
        };
        self.commit(vec![Write::CreateThread(thread)]).await;
        thread_id
    }

    pub async fn child(&self, parent: ThreadId) -> ThreadId {
        self.thread(Some((parent, ParentKind::Handoff))).await
    }

    /// Appends messages, a second apart, `hours` after the others.
    pub async fn say(&self, thread_id: ThreadId, hours: i64, messages: impl IntoIterator<Item = Message>) {
        let begin = Timestamp::UNIX_EPOCH + hours.hours();
        let event =
            |(second, message)| NewEvent::message(&message, begin + i64::from(second).seconds()).unwrap();
        let events = (0_i32..).zip(messages).map(event).collect();
        self.commit(vec![Write::Append { thread_id, events }]).await;
    }

    pub async fn words(&self, thread_id: ThreadId, text: &str) -> Recall {
        let query = RecallQuery::of(Wanted::Words(text.to_owned()));
        recall(&*self.store, thread_id, &query).await.unwrap()
    }

    pub async fn range(&self, thread_id: ThreadId, from: Seq, to: Seq) -> Recall {
        recall(&*self.store, thread_id, &RecallQuery::of(Wanted::Range(from, to))).await.unwrap()
    }

    pub async fn error(&self, thread_id: ThreadId, query: RecallQuery) -> RecallError {
        recall(&*self.store, thread_id, &query).await.unwrap_err()
    }

    pub async fn call(&self, thread_id: ThreadId, args: Value) -> (ToolStatus, String) {
        let context = ToolContext { thread_id, store: Arc::clone(&self.store), ..context() };
        text(RecallTool.call(&args, &context).await)
    }
}

pub fn of_thread(wanted: Wanted, thread: &str) -> RecallQuery {
    RecallQuery { thread: Some(thread.to_owned()), ..RecallQuery::of(wanted) }
}

pub fn words(text: &str) -> Wanted {
    Wanted::Words(text.to_owned())
}

pub fn result(name: &str, output: &str) -> Message {
    Message::Tool(ToolMessage {
        id: None,
        call_id: "c".to_owned(),
        name: Some(name.to_owned()),
        content: vec![Block::text(output)],
        status: ToolStatus::Success,
    })
}

/// Returns the place and text of the first message of each excerpt that holds `word`.
pub fn holding(recall: &Recall, word: &str) -> Vec<(Seq, String)> {
    let passages = recall.excerpts.iter().flatten();
    passages.filter(|one| one.text.contains(word)).map(|one| (one.seq, one.text.clone())).collect()
}
