//! Fixture: one row of each kind that a journal stores, for one owner.

use journal::{
    Artifact, FactProposal, HistoryQuery, ImportSource, NotesRevisionRecord, OutboxItem, ScopedStore, Store,
    Write, history_page,
};
use protocol::{
    ApiKey, ArchiveReason, AssistantId, CheckpointId, FactId, Handoff, HandoffId, Interrupt, InterruptId,
    MediumTermSummary, PendingActivity, Proposal, Rating, Run, RunFeedback, RunId, RunRequest, RunStatus,
    StoredItem, SummaryId, Thread, ThreadId,
};
use serde_json::{Value, json};

use super::assistant;
use crate::conformance::fixtures::{
    ai, at, checkpoint, commit, feedback as thumb, handoff, human, interrupt, proposal, run, thread,
};
use crate::conformance::tiers::facts::{proposal as proposal_of_fact, revision};
use crate::conformance::tiers::memory_fixtures::{archive_event, summarization, summary};

/// The rows of one owner.
#[derive(Debug, Clone)]
pub struct OwnedRows {
    pub assistant_id: AssistantId,
    pub thread_id: ThreadId,
    pub child_id: ThreadId,
    pub run_id: RunId,
    pub queued_id: RunId,
    pub checkpoint_id: CheckpointId,
    pub interrupt_id: InterruptId,
    pub handoff_id: HandoffId,
    pub summary_id: SummaryId,
    pub fact_id: FactId,
    pub sha256: String,
    pub key_id: String,
    /// A word that occurs only in this owner's texts.
    pub word: String,
    pub run: Run,
    pub handoff: Handoff,
    pub proposal: Proposal,
    pub interrupt: Interrupt,
    pub summary: MediumTermSummary,
}

pub fn labels(namespace: &str) -> Vec<String> {
    namespace.split('/').map(str::to_owned).collect()
}

pub fn item((namespace, key): (&str, &str), of: &str) -> StoredItem {
    let Value::Object(value) = json!({"text": format!("heron {}", word(of)), "of": of}) else {
        panic!("an object")
    };
    StoredItem {
        namespace: labels(namespace),
        key: key.to_owned(),
        value,
        created_at: at(1),
        updated_at: at(1),
    }
}

fn word(name: &str) -> String {
    format!("word{name}x")
}

/// Returns ids of rows that do not exist.
pub fn absent() -> OwnedRows {
    new_ids("nobody")
}

fn new_ids(name: &str) -> OwnedRows {
    let assistant_id = assistant(name);
    let thread_id = ThreadId::generate();
    let run = Run { assistant_id: assistant_id.clone(), ..run(thread_id, "one") };
    let handoff = Handoff { assistant_id: assistant_id.clone(), ..handoff(thread_id, 1) };
    let interrupt = interrupt(&run, "approval", 1);
    let word = word(name);
    let summary_text = format!("heron {word} told");
    let summary = MediumTermSummary { agent_id: assistant_id.clone(), ..summary((1, 1), &summary_text) };
    OwnedRows {
        assistant_id,
        thread_id,
        child_id: handoff.child_thread_id,
        run_id: run.run_id,
        queued_id: RunId::generate(),
        checkpoint_id: CheckpointId::generate(),
        interrupt_id: interrupt.interrupt_id,
        handoff_id: handoff.handoff_id,
        summary_id: summary.id,
        fact_id: FactId::generate(),
        sha256: artifact(thread_id, name).sha256,
        key_id: format!("key{}", thread_id.uuid().simple()),
        proposal: proposal(&handoff, 0, &format!("heron {word} passed on")),
        word,
        run,
        handoff,
        interrupt,
        summary,
    }
}

pub fn artifact(thread_id: ThreadId, name: &str) -> Artifact {
    Artifact::new(thread_id, "text/plain", format!("bytes of {name}").into_bytes(), at(1))
}

/// Raises an interrupt of the run and withdraws it.
async fn withdraw_interrupt(own: &ScopedStore, run: &Run) {
    let withdrawn = interrupt(run, "withdrawn", 2);
    let interrupt_id = withdrawn.interrupt_id;
    commit(own, vec![Write::RaiseInterrupt(withdrawn)]).await.unwrap();
    commit(own, vec![Write::ResolveInterrupt { interrupt_id, decisions: None, at: at(3) }]).await.unwrap();
}

/// Creates one row of each kind for the owner.
pub async fn create_owned_rows(own: &ScopedStore, name: &str) -> OwnedRows {
    let mine = new_ids(name);
    let of = |thread_id| Thread { assistant_id: mine.assistant_id.clone(), thread_id, ..thread() };
    let child = Thread { parent_id: Some(mine.thread_id), updated_at: at(9), ..of(mine.child_id) };
    let (thread_id, run_id) = (mine.thread_id, mine.run_id);
    let events = vec![
        human(&format!("heron {} asked", mine.word)).with_key("key").with_run(run_id),
        ai("so be it").with_run(run_id),
    ];
    let transfer =
        journal::TurnSummarization { summary: mine.summary.clone(), ..summarization(thread_id, (1, 1), "") };
    commit(own, vec![Write::CreateThread(of(thread_id)), Write::CreateThread(child)]).await.unwrap();
    let fact = FactProposal {
        fact_id: mine.fact_id,
        agent_id: mine.assistant_id.clone(),
        summary_id: mine.summary_id,
        ..proposal_of_fact(thread_id, &mine.word)
    };
    let revision =
        NotesRevisionRecord { agent_id: mine.assistant_id.clone(), ..revision(mine.word.as_bytes()) };
    let writes = vec![
        Write::Append { thread_id, events },
        Write::SummarizeTurns(transfer),
        Write::ProposeFact(fact),
        Write::RecordNotesRevision(revision),
    ];
    commit(own, writes).await.unwrap();
    let archived = archive_event(&mine.summary, ArchiveReason::Budget, (1, 1));
    let activity = PendingActivity { name: "accept_handoff".to_owned(), args: json!({}) };
    let point = protocol::Checkpoint {
        checkpoint_id: mine.checkpoint_id,
        activities: vec![activity],
        ..checkpoint(&mine.run, 0)
    };
    let queued = Run {
        run_id: mine.queued_id,
        status: RunStatus::Pending,
        lease_owner: None,
        lease_until: None,
        ..mine.run.clone()
    };
    let late = ai("later").with_run(run_id);
    let writes = vec![
        Write::Append { thread_id, events: vec![archived] },
        Write::AdmitRun(mine.run.clone()),
        Write::PutRunRequest { run_id, thread_id, request: Box::new(RunRequest::default()) },
        Write::QueueRun(queued),
        Write::Append { thread_id, events: vec![late] },
        Write::PutCheckpoint(point),
        Write::RaiseInterrupt(mine.interrupt.clone()),
        Write::CreateHandoff(mine.handoff.clone()),
        Write::PutProposal(mine.proposal.clone()),
        Write::PutArtifact(artifact(thread_id, name)),
        Write::PutFeedback(thumb(&mine.run, Rating::Up, 1)),
    ];
    commit(own, writes).await.unwrap();
    withdraw_interrupt(own, &mine.run).await;
    commit(own, unscoped_row_writes(&mine, name)).await.unwrap();
    mine
}

/// Returns the writes of rows that belong to no thread.
fn unscoped_row_writes(mine: &OwnedRows, name: &str) -> Vec<Write> {
    let namespace = format!("agents/{}/notes", mine.assistant_id);
    let import = ImportSource {
        source_key: "session".to_owned(),
        thread_id: mine.thread_id,
        entries: 1,
        chain: String::new(),
        updated_at: at(1),
    };
    let due = OutboxItem {
        kind: "kind".to_owned(),
        key: "key".to_owned(),
        payload: json!(name),
        attempts: 0,
        created_at: at(1),
    };
    let mut writes = vec![
        Write::PutItem(item(("birds", "heron"), name)),
        Write::PutItem(item((&namespace, "heron"), name)),
        Write::PutOutboxItem(due),
        Write::PutImport { source: import, expected: None },
    ];
    writes.extend(super::owner(name).map(|user_id| Write::PutApiKey(key(mine, user_id))));
    writes
}

pub fn key(mine: &OwnedRows, user_id: protocol::UserId) -> ApiKey {
    ApiKey {
        key_id: mine.key_id.clone(),
        user_id,
        label: None,
        sha256: "0".repeat(64),
        created_at: at(1),
        revoked_at: None,
    }
}

/// Returns the thread's history with its owner's feedback, rendered as text.
pub async fn history(own: &ScopedStore, thread_id: ThreadId) -> String {
    let feedback = Some(RunFeedback::LOCAL_USER.to_owned());
    let query = HistoryQuery { limit: 20, feedback, ..HistoryQuery::default() };
    format!("{:?}", history_page(own as &dyn Store, thread_id, &query).await.unwrap().entries)
}
