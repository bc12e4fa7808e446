//! The access requirements of each kind of write: which rows must be in the scope of the caller. `write_check`
//! verifies them. The match is exhaustive, so a new kind of write must be classified here.

use protocol::{AssistantId, CheckpointId, FactId, HandoffId, InterruptId, RunId, ThreadId, UserId};

use crate::Write;

/// A row that must be in the scope.
#[derive(Clone, Copy)]
pub(super) enum AccessRequirement<'a> {
    /// A thread.
    Thread(ThreadId),
    /// A thread, if it exists.
    ThreadIfPresent(ThreadId),
    /// A thread whose newest checkpoint is this one.
    ThreadAtCheckpoint(ThreadId, Option<CheckpointId>),
    /// An assistant, by the owner in its id.
    Assistant(&'a AssistantId),
    /// A run.
    Run(RunId),
    /// An interrupt, by its thread.
    Interrupt(InterruptId),
    /// A handoff, by its assistant.
    Handoff(HandoffId),
    /// A fact, by its agent.
    Fact(FactId),
    /// The API keys of a person.
    KeysOfUser(&'a UserId),
    /// An API key.
    ApiKey(&'a str),
    /// A thread from which something is deleted. If the thread is foreign or missing, the write is skipped.
    ThreadRemoval(ThreadId),
    /// A handoff to be deleted. If the handoff is foreign or missing, the write is skipped.
    HandoffRemoval(HandoffId),
}

/// Maximum number of requirements of a write.
const REQUIREMENTS_MAX: usize = 3;

/// Returns the requirements of a write.
pub(super) fn write_requirements(write: &Write) -> [Option<AccessRequirement<'_>>; REQUIREMENTS_MAX] {
    match write {
        Write::CreateThread(thread) => [
            Some(AccessRequirement::Assistant(&thread.assistant_id)),
            thread.parent_id.map(AccessRequirement::ThreadIfPresent),
            None,
        ],
        Write::UpdateThread { thread_id, .. }
        | Write::SettleThread { thread_id }
        | Write::RestoreCheckpoint { thread_id, .. }
        | Write::DeleteThread { thread_id }
        | Write::Append { thread_id, .. }
        | Write::Rewind { thread_id, .. }
        | Write::ExpectNoMessage { thread_id }
        | Write::ExpectPins { thread_id, .. }
        | Write::PutRunRequest { thread_id, .. } => single(AccessRequirement::Thread(*thread_id)),
        Write::CopyEvents { from, into, .. } => {
            [Some(AccessRequirement::Thread(*from)), Some(AccessRequirement::Thread(*into)), None]
        }
        Write::PutArtifact(artifact) => single(AccessRequirement::Thread(artifact.thread_id)),
        Write::ExpectCheckpoint { thread_id, checkpoint_id } => {
            single(AccessRequirement::ThreadAtCheckpoint(*thread_id, *checkpoint_id))
        }
        Write::ExpectUnchangedContext(version) => single(AccessRequirement::Thread(version.thread_id)),
        Write::QueueRun(run) | Write::AdmitRun(run) | Write::BeginRun(run) => {
            thread_of_assistant(run.thread_id, &run.assistant_id)
        }
        Write::UpdateRun { run_id, .. } | Write::ReclaimRun { run_id, .. } | Write::DeleteRun { run_id } => {
            single(AccessRequirement::Run(*run_id))
        }
        Write::PutCheckpoint(checkpoint) => single(AccessRequirement::Thread(checkpoint.thread_id)),
        Write::RaiseInterrupt(interrupt) => single(AccessRequirement::Thread(interrupt.thread_id)),
        Write::ResolveInterrupt { interrupt_id, .. } | Write::ExpectPendingInterrupt { interrupt_id } => {
            single(AccessRequirement::Interrupt(*interrupt_id))
        }
        Write::CreateHandoff(handoff) => [
            Some(AccessRequirement::Assistant(&handoff.assistant_id)),
            Some(AccessRequirement::Thread(handoff.parent_thread_id)),
            Some(AccessRequirement::ThreadIfPresent(handoff.child_thread_id)),
        ],
        Write::TransitionHandoff { handoff_id, .. } => single(AccessRequirement::Handoff(*handoff_id)),
        Write::PutProposal(proposal) => single(AccessRequirement::Handoff(proposal.handoff_id)),
        Write::DeleteHandoff { handoff_id } => single(AccessRequirement::HandoffRemoval(*handoff_id)),
        Write::PutEmbeddings(embeddings) => single(AccessRequirement::Thread(embeddings.thread_id)),
        Write::PutFeedback(feedback) => single(AccessRequirement::Thread(feedback.thread_id)),
        Write::RemoveFeedback { thread_id, .. } => single(AccessRequirement::ThreadRemoval(*thread_id)),
        Write::SummarizeTurns(summarization) => {
            single(AccessRequirement::Assistant(&summarization.summary.agent_id))
        }
        Write::ProposeFact(fact) => thread_of_assistant(fact.source.thread_id, &fact.agent_id),
        Write::DecideFact(decision) => single(AccessRequirement::Fact(decision.fact_id)),
        Write::RecordNotesRevision(revision) => single(AccessRequirement::Assistant(&revision.agent_id)),
        Write::PutApiKey(key) => single(AccessRequirement::KeysOfUser(&key.user_id)),
        Write::RevokeApiKey { key_id, .. } => single(AccessRequirement::ApiKey(key_id)),
        Write::PutImport { source, .. } => single(AccessRequirement::Thread(source.thread_id)),
        // These writes concern the runs or threads of all owners, so a restricted store refuses them as a whole.
        Write::RecordHeartbeat { .. }
        | Write::ResolveFolder { .. }
        | Write::ReleaseRuns { .. }
        | Write::ClaimRuns(_) => [None; REQUIREMENTS_MAX],
        // These writes name no row of another owner, because `write_check` adds the owner's prefix or scope.
        Write::RestoreTurns { .. }
        | Write::PutItem(_)
        | Write::DeleteItem { .. }
        | Write::PutOutboxItem(_)
        | Write::UpdateOutboxItem { .. }
        | Write::RemoveOutboxItem { .. } => [None; REQUIREMENTS_MAX],
    }
}

/// Returns the requirements of a row that belongs to a thread and an assistant.
const fn thread_of_assistant(
    thread_id: ThreadId,
    assistant_id: &AssistantId,
) -> [Option<AccessRequirement<'_>>; REQUIREMENTS_MAX] {
    [Some(AccessRequirement::Thread(thread_id)), Some(AccessRequirement::Assistant(assistant_id)), None]
}

/// Returns a list of one requirement.
const fn single(requirement: AccessRequirement<'_>) -> [Option<AccessRequirement<'_>>; REQUIREMENTS_MAX] {
    [Some(requirement), None, None]
}
