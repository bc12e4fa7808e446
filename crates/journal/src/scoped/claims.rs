//! What each write says belongs to whoever commits it. Whether it does is looked up elsewhere; a kind of write that is not
//! here stops the build.

use protocol::{AssistantId, CheckpointId, HandoffId, InterruptId, RunId, ThreadId, UserId};

use crate::Write;

/// What must be in the scope.
#[derive(Clone, Copy)]
pub(super) enum Claim<'a> {
    Thread(ThreadId),
    /// A thread, if it is there.
    AnyThread(ThreadId),
    /// A thread whose newest checkpoint is this one.
    At(ThreadId, Option<CheckpointId>),
    Assistant(&'a AssistantId),
    Run(RunId),
    Interrupt(InterruptId),
    Handoff(HandoffId),
    /// The key of a person.
    KeyOf(&'a UserId),
    Key(&'a str),
    /// A thread; to take something away from one that is not in the scope, or not there, is as good as done.
    FromThread(ThreadId),
    /// A handoff, likewise.
    FromHandoff(HandoffId),
}

/// The most that a write claims.
const CLAIMS_MAX: usize = 3;

pub(super) fn of(write: &Write) -> [Option<Claim<'_>>; CLAIMS_MAX] {
    match write {
        Write::CreateThread(thread) => {
            [Some(Claim::Assistant(&thread.assistant_id)), thread.parent_id.map(Claim::AnyThread), None]
        }
        Write::UpdateThread { thread_id, .. }
        | Write::SettleThread { thread_id }
        | Write::RestoreCheckpoint { thread_id, .. }
        | Write::DeleteThread { thread_id }
        | Write::Append { thread_id, .. }
        | Write::Rewind { thread_id, .. }
        | Write::PutRunRequest { thread_id, .. } => one(Claim::Thread(*thread_id)),
        Write::CopyEvents { from, into, .. } => {
            [Some(Claim::Thread(*from)), Some(Claim::Thread(*into)), None]
        }
        Write::PutArtifact(artifact) => one(Claim::Thread(artifact.thread_id)),
        Write::ExpectCheckpoint { thread_id, checkpoint_id } => one(Claim::At(*thread_id, *checkpoint_id)),
        Write::ExpectContext(planned) => one(Claim::Thread(planned.thread_id)),
        Write::QueueRun(run) | Write::AdmitRun(run) | Write::BeginRun(run) => {
            [Some(Claim::Thread(run.thread_id)), Some(Claim::Assistant(&run.assistant_id)), None]
        }
        Write::UpdateRun { run_id, .. } | Write::ReclaimRun { run_id, .. } | Write::ForgetRun { run_id } => {
            one(Claim::Run(*run_id))
        }
        Write::PutCheckpoint(point) => one(Claim::Thread(point.thread_id)),
        Write::RaiseInterrupt(interrupt) => one(Claim::Thread(interrupt.thread_id)),
        Write::ResolveInterrupt { interrupt_id, .. } | Write::ExpectPending { interrupt_id } => {
            one(Claim::Interrupt(*interrupt_id))
        }
        Write::CreateHandoff(handoff) => [
            Some(Claim::Assistant(&handoff.assistant_id)),
            Some(Claim::Thread(handoff.parent_thread_id)),
            Some(Claim::AnyThread(handoff.child_thread_id)),
        ],
        Write::MoveHandoff { handoff_id, .. } => one(Claim::Handoff(*handoff_id)),
        Write::PutProposal(proposal) => one(Claim::Handoff(proposal.handoff_id)),
        Write::ForgetHandoff { handoff_id } => one(Claim::FromHandoff(*handoff_id)),
        Write::PutFeedback(feedback) => one(Claim::Thread(feedback.thread_id)),
        Write::RemoveFeedback { thread_id, .. } => one(Claim::FromThread(*thread_id)),
        Write::TransferTurns(transfer) => one(Claim::Assistant(&transfer.summary.agent_id)),
        Write::PutKey(key) => one(Claim::KeyOf(&key.user_id)),
        Write::RevokeKey { key_id, .. } => one(Claim::Key(key_id)),
        Write::PutImport { source, .. } => one(Claim::Thread(source.thread_id)),
        // What concerns everybody's runs is refused as a whole.
        Write::Announce { .. } | Write::ReleaseRuns { .. } | Write::ClaimRuns(_) => [None; CLAIMS_MAX],
        // These name nothing of anybody: they are given names of the owner's own.
        Write::RestoreTurns { .. }
        | Write::PutItem(_)
        | Write::DeleteItem { .. }
        | Write::Enqueue(_)
        | Write::ChangeQueued { .. }
        | Write::Dequeue { .. } => [None; CLAIMS_MAX],
    }
}

const fn one(claim: Claim<'_>) -> [Option<Claim<'_>>; CLAIMS_MAX] {
    [Some(claim), None, None]
}
