//! Data types that Segue stores or sends: ids, threads, runs, events, messages, interrupts, decisions and summaries.
//!
//! This crate defines shapes and their JSON form only. It deliberately contains no I/O, no async code and no policy:
//! the crates that depend on it decide which event to write, when to hand off and how to render a summary. Golden
//! files under `tests/it/golden/` pin the JSON of every shape.

#[macro_use]
mod names;

pub mod compaction;
pub mod decision;
pub mod event;
pub mod handoff;
pub mod ids;
pub mod interrupt;
pub mod memory;
pub mod message;
pub mod run;
pub mod thread;

pub use compaction::{
    ClippedResult, Compaction, CompactionFailed, CompactionTrigger, CompactionUndone, CondensedSummary,
};
pub use decision::{Decision, Decisions};
pub use event::body::{EventBody, EventBodyError};
pub use event::catalog::{Category, EventType};
pub use event::surrogate::lone_surrogate;
pub use event::{Event, NewEvent, RawJson, Seq};
pub use handoff::carried_facts::{
    CarriedFacts, CarriedFiles, PinnedText, ReferencedFile, Rule, TodoItem, TodoStatus,
};
pub use handoff::continuity::{ContinuityProbe, ContinuityReport, ProbeJudge, ProbeKind};
pub use handoff::summary::{
    ConversationTopic, Coverage, DoneTaskClaim, HandoffSummary, LeftOutFacts, LeftOutItem, LeftOutReason,
    ReviewNotes, RuleNote, RuleProblem, SummaryItem, SummaryItemKind, UnsummarizedPart,
};
pub use handoff::{Handoff, HandoffStatus, Proposal};
pub use ids::digest::{hex, sha256_hex};
pub use ids::scope::{ApiKey, OwnerScope};
pub use ids::{
    AssistantId, CheckpointId, EventId, FactId, HandoffId, IdError, InterruptId, OWNER_SEPARATOR, RunId,
    SHORT_ID_CHARS, SummaryId, ThreadId, UserId,
};
pub use interrupt::{
    ActionRequest, Interrupt, InterruptPayload, InterruptStatus, ReviewConfig, SubagentInterruptRef,
};
pub use memory::pins::{Pin, PinChange, PinsChanged};
pub use memory::{
    ArchiveReason, LoggedMessage, MediumTermSummary, MessageRole, StoredItem, TurnsArchived, TurnsRestored,
};
pub use message::{
    AiMessage, ContentBlock, HumanMessage, Message, StopReason, ToolMessage, ToolStatus, Usage,
};
pub use run::failure::{FailureKind, RunFailure};
pub use run::feedback::{Rating, RunFeedback};
pub use run::request::{DisconnectMode, MultitaskStrategy, RunCommand, RunRequest};
pub use run::{Checkpoint, CheckpointEntry, CheckpointSource, PendingActivity, Run, RunRef, RunStatus};
pub use thread::{
    HandoffMark, IncompleteImport, ParentKind, Thread, ThreadState, ThreadStateInputs, ThreadStatus,
};

/// The current version of the stored and sent shapes that have a `schema_version` field, except for the summary of a handoff
/// ([`HandoffSummary::SCHEMA_VERSION`]). Readers ignore unknown
/// fields, so that a later version may add some.
pub const SCHEMA_VERSION: u32 = 1;

/// The name of the offline summary, which uses no model, where the name of a model is stored.
pub const OFFLINE_SUMMARY_MODEL: &str = "extractive";
