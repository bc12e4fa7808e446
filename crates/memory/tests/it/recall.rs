//! Recall in a thread and its ancestors: the fixture of the tests.

mod answers;
mod condensed;
mod damage;
mod everything;
mod finding;
mod lineage;

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use journal::{SqliteStore, Store, Transaction, Write};
use memory::{MessageFilter, RecallError, RecallQuery, RecallResult, RecallTool, recall};
use protocol::{
    AssistantId, CarriedFacts, ContentBlock, Coverage, EventType, Handoff, HandoffId, HandoffStatus,
    HandoffSummary, Message, NewEvent, ParentKind, Proposal, Seq, Thread, ThreadId, ToolMessage, ToolStatus,
};
use runtime::{Tool, ToolContext};
use serde_json::{Value, json};

use crate::tool::{status_and_text, tool_context};

pub struct RecallFixture {
    pub store: Arc<dyn Store>,
}

impl RecallFixture {
    pub fn new() -> Self {
        Self { store: Arc::new(SqliteStore::in_memory().unwrap()) }
    }

    pub async fn commit(&self, writes: Vec<Write>) {
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    pub async fn create_thread(&self, parent: Option<(ThreadId, ParentKind)>) -> ThreadId {
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

    /// Hands off all of a thread and accepts the handoff. Returns the child.
    pub async fn create_child_thread(&self, parent: ThreadId) -> ThreadId {
        let covered = self.store.thread(parent).await.unwrap().unwrap().last_seq;
        let child = self.create_covered_child(parent, covered).await;
        self.accept_handoff(parent, child).await;
        child
    }

    /// Hands off a thread up to a seq. Only the handoff's rows record it; the parent's log has no acceptance.
    pub async fn create_covered_child(&self, parent: ThreadId, last_seq: Seq) -> ThreadId {
        let child = self.create_thread(Some((parent, ParentKind::Handoff))).await;
        let handoff = handoff(parent, child);
        let first = proposal(&handoff, 0, last_seq / 2);
        let accepted = proposal(&handoff, 1, last_seq);
        let handoff = Handoff { accepted_sha256: Some(accepted.summary_sha256.clone()), ..handoff };
        let proposals = [first, accepted].map(Write::PutProposal);
        self.commit([Write::CreateHandoff(handoff)].into_iter().chain(proposals).collect()).await;
        child
    }

    /// Appends the acceptance of the child's handoff to the parent's log.
    pub async fn accept_handoff(&self, parent: ThreadId, child: ThreadId) {
        let filter = journal::HandoffFilter { child_thread_id: Some(child), ..Default::default() };
        let handoff_id = self.store.handoffs(filter).await.unwrap()[0].handoff_id;
        self.append_handoff_event(parent, EventType::HandoffAccepted, handoff_id).await;
    }

    /// Appends an event of a handoff to a thread's log.
    pub async fn append_handoff_event(
        &self,
        thread_id: ThreadId,
        event_type: EventType,
        handoff_id: HandoffId,
    ) {
        let content = json!({"handoff_id": handoff_id});
        let events = vec![NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap()];
        self.commit(vec![Write::Append { thread_id, events }]).await;
    }

    /// Forks a thread up to a seq.
    pub async fn fork_thread(&self, from: ThreadId, until: Option<Seq>) -> ThreadId {
        let into = self.create_thread(Some((from, ParentKind::Fork))).await;
        self.commit(vec![Write::CopyEvents { from, until, into }]).await;
        into
    }

    /// Appends messages one second apart, beginning `hours` after the epoch.
    pub async fn append_messages(
        &self,
        thread_id: ThreadId,
        hours: i64,
        messages: impl IntoIterator<Item = Message>,
    ) {
        let begin = Timestamp::UNIX_EPOCH + hours.hours();
        let event = |(second, message)| {
            NewEvent::from_message(&message, begin + i64::from(second).seconds()).unwrap()
        };
        let events = (0_i32..).zip(messages).map(event).collect();
        self.commit(vec![Write::Append { thread_id, events }]).await;
    }

    pub async fn recall_words(&self, thread_id: ThreadId, text: &str) -> RecallResult {
        let query = RecallQuery::new(MessageFilter::Words(text.to_owned()));
        recall(&*self.store, thread_id, &query).await.unwrap()
    }

    pub async fn recall_range(&self, thread_id: ThreadId, from: Seq, to: Seq) -> RecallResult {
        recall(&*self.store, thread_id, &RecallQuery::new(MessageFilter::Range(from, to))).await.unwrap()
    }

    pub async fn recall_error(&self, thread_id: ThreadId, query: RecallQuery) -> RecallError {
        recall(&*self.store, thread_id, &query).await.unwrap_err()
    }

    pub async fn call_tool(&self, thread_id: ThreadId, args: Value) -> (ToolStatus, String) {
        let context = ToolContext { thread_id, store: Arc::clone(&self.store), ..tool_context() };
        status_and_text(RecallTool::default().call(&args, &context).await)
    }
}

fn handoff(parent_thread_id: ThreadId, child_thread_id: ThreadId) -> Handoff {
    Handoff {
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id,
        child_thread_id,
        status: HandoffStatus::Cleaned,
        iteration: 1,
        goal: None,
        run_id: None,
        options: Value::Null,
        accepted_sha256: None,
        note: None,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

fn proposal(handoff: &Handoff, iteration: u32, last_seq: Seq) -> Proposal {
    let summary_json = HandoffSummary {
        schema_version: 1,
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        child_thread_id: None,
        title: "Herons".to_owned(),
        tldr: "Herons.".to_owned(),
        body: Vec::new(),
        model: "extractive".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration,
        created_at: handoff.created_at,
        coverage: Coverage { first_seq: 1, last_seq, ..Coverage::default() },
        carried: CarriedFacts::default(),
    };
    Proposal {
        handoff_id: handoff.handoff_id,
        iteration,
        summary_json,
        package_md: format!("Herons {iteration}."),
        summary_sha256: format!("{iteration:064x}"),
        feedback: None,
        created_at: handoff.created_at,
    }
}

pub fn query_thread(filter: MessageFilter, thread: &str) -> RecallQuery {
    RecallQuery { thread: Some(thread.to_owned()), ..RecallQuery::new(filter) }
}

pub fn words_filter(text: &str) -> MessageFilter {
    MessageFilter::Words(text.to_owned())
}

pub fn tool_result(name: &str, output: &str) -> Message {
    Message::Tool(ToolMessage {
        id: None,
        call_id: "c".to_owned(),
        name: Some(name.to_owned()),
        content: vec![ContentBlock::text(output)],
        status: ToolStatus::Success,
    })
}

/// Returns the seqs and texts of the messages in the excerpts that contain `word`.
pub fn messages_with(recall: &RecallResult, word: &str) -> Vec<(Seq, String)> {
    let passages = recall.excerpts.iter().flatten();
    passages
        .filter(|message| message.text.contains(word))
        .map(|message| (message.seq, message.text.clone()))
        .collect()
}
