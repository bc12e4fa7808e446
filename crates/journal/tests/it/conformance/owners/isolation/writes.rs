//! One write of each kind that targets the rows of one owner.

use std::collections::BTreeSet;

use journal::{
    CommitReceipt, Embedding, Error, FactProposal, FactState, HandoffPatch, ImportSource, MessageEmbeddings,
    NotesRevisionRecord, OutboxItem, Result, RunPatch, ThreadPatch, ThreadVersion, TurnSummarization, Write,
};
use protocol::{Decision, Decisions, HandoffStatus, Rating, Run, RunStatus, SummaryId, Thread, ThreadStatus};
use serde_json::json;

use super::owned_rows::{OwnedRows, artifact, item, key};
use crate::conformance::fixtures::{at, checkpoint, feedback, human, thread};
use crate::conformance::tiers::facts::{decision, proposal, revision};

/// Number of variants of `Write`.
pub const KINDS: usize = 44;

/// Returns writes that would change the owner's rows.
pub fn all_writes(theirs: &OwnedRows) -> Vec<Write> {
    let mut writes = thread_writes(theirs);
    writes.extend(run_writes(theirs));
    writes.extend(memory_writes(theirs));
    writes
}

fn thread_writes(theirs: &OwnedRows) -> Vec<Write> {
    let thread_id = theirs.thread_id;
    let patch = ThreadPatch { status: Some(ThreadStatus::Error), ..ThreadPatch::default() };
    vec![
        Write::CreateThread(Thread { thread_id, assistant_id: theirs.assistant_id.clone(), ..thread() }),
        Write::UpdateThread { thread_id, patch },
        Write::SettleThread { thread_id },
        Write::DeleteThread { thread_id: theirs.child_id },
        Write::Append { thread_id, events: vec![human("foreign words")] },
        Write::Rewind { thread_id: theirs.child_id, keep_seq: 0, at: at(2) },
        Write::CopyEvents { from: thread_id, until: None, into: theirs.child_id },
        Write::PutArtifact(artifact(thread_id, "somebody")),
        Write::ExpectCheckpoint { thread_id, checkpoint_id: Some(theirs.checkpoint_id) },
        Write::ExpectCheckpoint { thread_id, checkpoint_id: None },
        Write::ExpectNoMessage { thread_id },
        Write::ExpectPins { thread_id, last_change: None },
        Write::ExpectUnchangedContext(ThreadVersion { thread_id, last_seq: 9 }),
        Write::PutEmbeddings(MessageEmbeddings {
            thread_id,
            model: "model".to_owned(),
            messages: vec![(1, vec![Embedding::from_vector(&[1.0]).unwrap()])],
            through_seq: 1,
            tokens: 1,
            at: at(2),
        }),
        Write::PutFeedback(feedback(&theirs.run, Rating::Down, 2)),
        Write::RemoveFeedback {
            thread_id,
            run_id: theirs.run_id,
            user_id: protocol::RunFeedback::LOCAL_USER.to_owned(),
        },
    ]
}

fn run_writes(theirs: &OwnedRows) -> Vec<Write> {
    let (thread_id, run_id) = (theirs.thread_id, theirs.run_id);
    let ended = RunPatch { status: Some(RunStatus::Cancelled), ..RunPatch::default() };
    let approval = Decisions { decisions: vec![Decision::Approve { args: None, summary_sha256: None }] };
    let interrupt = protocol::Interrupt {
        interrupt_id: protocol::InterruptId::derive(run_id, 7, "approval"),
        ..theirs.interrupt.clone()
    };
    vec![
        Write::QueueRun(Run { status: RunStatus::Pending, ..theirs.run.clone() }),
        Write::AdmitRun(theirs.run.clone()),
        Write::BeginRun(theirs.run.clone()),
        Write::PutRunRequest { run_id, thread_id, request: Box::default() },
        Write::DeleteRun { run_id: theirs.queued_id },
        Write::UpdateRun { run_id, patch: ended },
        Write::ReclaimRun { run_id, owner: "two".to_owned(), now: at(999), lease_until: at(1_000) },
        Write::PutCheckpoint(checkpoint(&theirs.run, 9)),
        Write::RaiseInterrupt(interrupt),
        Write::ResolveInterrupt { interrupt_id: theirs.interrupt_id, decisions: Some(approval), at: at(2) },
        Write::ExpectPendingInterrupt { interrupt_id: theirs.interrupt_id },
        Write::RestoreCheckpoint { thread_id, run_id },
        Write::CreateHandoff(theirs.handoff.clone()),
        Write::TransitionHandoff {
            handoff_id: theirs.handoff_id,
            from: HandoffStatus::Requested,
            to: HandoffStatus::Declined,
            patch: HandoffPatch::default(),
            at: at(2),
        },
        Write::PutProposal(protocol::Proposal { iteration: 1, ..theirs.proposal.clone() }),
        Write::DeleteHandoff { handoff_id: theirs.handoff_id },
    ]
}

fn memory_writes(theirs: &OwnedRows) -> Vec<Write> {
    let agent_id = theirs.assistant_id.clone();
    let (thread_id, user_id) = (theirs.thread_id, "somebody".parse().unwrap());
    let summary = protocol::MediumTermSummary {
        id: SummaryId::generate(),
        turn_range_start: 2,
        turn_range_end: 2,
        ..theirs.summary.clone()
    };
    let thread_versions = vec![ThreadVersion { thread_id, last_seq: 99 }];
    let source = ImportSource {
        source_key: "session".to_owned(),
        thread_id,
        entries: 9,
        chain: String::new(),
        updated_at: at(2),
    };
    let due = OutboxItem {
        kind: "kind".to_owned(),
        key: "other".to_owned(),
        payload: json!(1),
        attempts: 0,
        created_at: at(2),
    };
    vec![
        Write::SummarizeTurns(TurnSummarization {
            summary,
            thread_id: Some(thread_id),
            turns: 1,
            thread_versions,
        }),
        Write::ProposeFact(FactProposal { agent_id: agent_id.clone(), ..proposal(thread_id, "foreign") }),
        Write::DecideFact(decision(theirs.fact_id, FactState::Declined)),
        Write::RecordNotesRevision(NotesRevisionRecord { agent_id, ..revision(b"foreign") }),
        Write::RestoreTurns { summary_ids: vec![theirs.summary_id], scope: None },
        Write::PutItem(item(("grebes", "k"), "somebody")),
        Write::DeleteItem { namespace: vec!["grebes".to_owned()], key: "k".to_owned() },
        Write::PutApiKey(key(theirs, user_id)),
        Write::RevokeApiKey { key_id: theirs.key_id.clone(), at: at(2) },
        Write::PutOutboxItem(due.clone()),
        Write::UpdateOutboxItem { payload: due.payload.clone(), attempts: due.attempts, expected: due },
        Write::RemoveOutboxItem { kind: "kind".to_owned(), key: "other".to_owned(), created_at: None },
        Write::PutImport { source, expected: None },
    ]
}

/// Returns the number of the write's kind. A new kind gets the next number and an example in [`all_writes`].
fn kind(write: &Write) -> usize {
    match write {
        Write::CreateThread(_) => 0,
        Write::UpdateThread { .. } => 1,
        Write::DeleteThread { .. } => 2,
        Write::Append { .. } => 3,
        Write::Rewind { .. } => 4,
        Write::CopyEvents { .. } => 5,
        Write::PutArtifact(_) => 6,
        Write::ExpectCheckpoint { .. } => 7,
        Write::ExpectUnchangedContext(_) => 8,
        Write::QueueRun(_) => 9,
        Write::AdmitRun(_) => 10,
        Write::PutRunRequest { .. } => 11,
        Write::DeleteRun { .. } => 12,
        Write::UpdateRun { .. } => 13,
        Write::ReclaimRun { .. } => 14,
        Write::PutCheckpoint(_) => 15,
        Write::RaiseInterrupt(_) => 16,
        Write::ResolveInterrupt { .. } => 17,
        Write::CreateHandoff(_) => 18,
        Write::TransitionHandoff { .. } => 19,
        Write::PutProposal(_) => 20,
        Write::DeleteHandoff { .. } => 21,
        Write::PutFeedback(_) => 22,
        Write::RemoveFeedback { .. } => 23,
        Write::SummarizeTurns(_) => 24,
        Write::RestoreTurns { .. } => 25,
        Write::PutItem(_) => 26,
        Write::DeleteItem { .. } => 27,
        Write::PutApiKey(_) => 28,
        Write::RevokeApiKey { .. } => 29,
        Write::PutOutboxItem(_) => 30,
        Write::RemoveOutboxItem { .. } => 31,
        Write::PutImport { .. } => 32,
        Write::UpdateOutboxItem { .. } => 33,
        Write::SettleThread { .. } => 34,
        Write::ExpectPendingInterrupt { .. } => 35,
        Write::BeginRun(_) => 36,
        Write::RestoreCheckpoint { .. } => 37,
        Write::RecordHeartbeat { .. } => 44,
        Write::ReleaseRuns { .. } => 45,
        Write::ClaimRuns(_) => 46,
        Write::ExpectNoMessage { .. } => 38,
        Write::ResolveFolder { .. } => 47,
        Write::ExpectPins { .. } => 39,
        Write::ProposeFact(_) => 40,
        Write::DecideFact(_) => 41,
        Write::RecordNotesRevision(_) => 42,
        Write::PutEmbeddings(_) => 43,
    }
}

pub fn kinds(writes: &[Write]) -> BTreeSet<usize> {
    writes.iter().map(kind).collect()
}

/// Renders the outcome without ids, so that outcomes for different rows can be compared.
pub fn render_outcome(outcome: &Result<CommitReceipt>) -> String {
    match outcome {
        Ok(_) => "done".to_owned(),
        Err(Error::NotFound { what, .. }) => format!("no {what}"),
        Err(Error::Conflict { what, .. }) => format!("another {what}"),
        Err(other) => format!("{other:?}"),
    }
}

/// Returns whether the write uses an id that no row has yet.
pub const fn is_new(write: &Write) -> bool {
    matches!(write, Write::CreateThread(_))
}

/// Returns whether the write is about access keys, which the local operator manages.
pub const fn is_of_key(write: &Write) -> bool {
    matches!(write, Write::PutApiKey(_) | Write::RevokeApiKey { .. })
}
