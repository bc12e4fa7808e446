//! The catalog of event types: every name that Segue writes into the journal, and the category it belongs to.
//! A reader that meets a name not listed here ignores the event.

use serde::{Deserialize, Serialize};

/// The group an event belongs to; history reads `message`, everything else explains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// What people, models and tools said.
    Message,
    /// Internal model calls and timings.
    Trace,
    /// What a middleware decided: handoffs, compaction.
    Middleware,
    /// Results of a run.
    Outputs,
    /// Failures.
    Error,
    /// Text that reached a model but that nobody said: reminders, instructions, notes of an imported session.
    Context,
    /// What happened inside a sub-agent.
    Subagent,
    /// Threads and runs beginning and ending.
    Lifecycle,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 8] = [
        Self::Message,
        Self::Trace,
        Self::Middleware,
        Self::Outputs,
        Self::Error,
        Self::Context,
        Self::Subagent,
        Self::Lifecycle,
    ];

    /// Returns the stored name (at most 16 characters).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Trace => "trace",
            Self::Middleware => "middleware",
            Self::Outputs => "outputs",
            Self::Error => "error",
            Self::Context => "context",
            Self::Subagent => "subagent",
            Self::Lifecycle => "lifecycle",
        }
    }

    /// Returns the category of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

macro_rules! catalog {
    ($($(#[$doc:meta])* $variant:ident = $name:literal in $category:ident,)*) => {
        /// The type of an event. Names are at most 32 characters and never change meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventType { $($(#[$doc])* $variant,)* }

        impl EventType {
            /// Every event type that Segue writes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the stored name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the category every event of this type is stored under.
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            /// Returns the event type of that stored name; `None` for one written by a later version.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

catalog! {
    /// A person's message; content is a `HumanMessage`.
    HumanMessage = "human_message" in Message,
    /// A model's message; content is an `AiMessage`.
    AiMessage = "ai_message" in Message,
    /// A tool's result; content is a `ToolMessage`.
    ToolMessage = "tool_message" in Message,
    /// Text of an imported session that its harness injected; content is `{role, text}`.
    ImportedNote = "imported_note" in Context,
    /// A place where the imported session's own agent compacted; content is `{label, details}`.
    ImportedBoundary = "imported_boundary" in Middleware,
    /// The summary the imported session's agent wrote at a boundary; content is `{text}`.
    ImportedSummary = "imported_summary" in Middleware,
    /// A thread began; content names its origin.
    ThreadCreated = "thread_created" in Lifecycle,
    /// A thread got another name; content is `{name}`.
    ThreadRenamed = "thread_renamed" in Lifecycle,
    /// A person took the thread back to an earlier point; content is `{keep_seq, superseded}`, the last seq that
    /// stayed and how many messages are no longer shown.
    ThreadRewound = "thread_rewound" in Lifecycle,
    /// A run began; content is `{model, ...}`, counters and ids only.
    RunStarted = "run_started" in Lifecycle,
    /// A person asked, from this process or another, that a run stops; content is empty.
    RunStopRequested = "run_stop_requested" in Lifecycle,
    /// A run stopped to ask a person; content is `{interrupt_ids, actions}`.
    RunInterrupted = "run_interrupted" in Lifecycle,
    /// A run ended; content is `{status, steps, ...}`, counters and ids only.
    RunEnded = "run_ended" in Lifecycle,
    /// A run failed; content is `{kind, message}`.
    RunFailed = "run_failed" in Error,
    /// A rule or a person decided about a tool call before it ran; content is `{call_id, tool, decision, by, rule?}`.
    ToolCallDecided = "tool_call_decided" in Middleware,
    /// A sub-agent came to its end; content is `{call_id, thread_id, status, usage, model}`.
    SubagentEnded = "subagent_ended" in Subagent,
    /// An internal model call (a handoff draft, a title); content is `{purpose, model, usage, prompt_sha256}`.
    ModelCalled = "model_called" in Trace,
    /// The instructions and memory a run was given, by hash; content is `{sources: [{name, sha256}]}`.
    MemoryRead = "memory_read" in Trace,
    /// A stretch of the conversation was condensed for the model; content is a `Compaction`.
    Compacted = "middleware:summarize" in Middleware,
    /// A person took the newest compaction back; content is a `CompactionUndone`.
    CompactionUndone = "compaction_undone" in Middleware,
    /// The conversation was to be condensed and was not; content is a `CompactionFailed`.
    CompactionFailed = "compaction_failed" in Middleware,
    /// A tool's result is too large to be sent; from here on the model is sent its ends. Content is a `ClippedResult`.
    ResultClipped = "tool_result_clipped" in Middleware,
    /// A summary stands for old turns of the thread; content is a `TurnsArchived`.
    TurnsArchived = "turns_archived" in Middleware,
    /// Old turns of the thread are in its context again, because their summary is gone; content is a `TurnsRestored`.
    TurnsRestored = "turns_restored" in Middleware,
    /// A handoff was asked for; content is `{handoff_id, goal, initiated_by}`.
    HandoffRequested = "handoff_requested" in Middleware,
    /// A proposal was stored; content is `{handoff_id, iteration, summary_sha256}`.
    HandoffProposed = "handoff_proposed" in Middleware,
    /// A person gave feedback, or asked for another draft; content is `{handoff_id, iteration, feedback?, model?}`, the
    /// iteration it is about.
    HandoffRefined = "handoff_refined" in Middleware,
    /// A person went back to an earlier proposal; content is `{handoff_id, iteration, reverted_to}`.
    HandoffReverted = "handoff_reverted" in Middleware,
    /// A summary was over its limit and was cut; content is `{handoff_id, tokens_before, tokens_after}`.
    HandoffTruncated = "handoff_truncated" in Middleware,
    /// A handoff was accepted; content is `{handoff_id, iteration, summary_sha256, child_thread_id}`.
    HandoffAccepted = "handoff_accepted" in Middleware,
    /// A handoff was declined; content is `{handoff_id, message}`.
    HandoffDeclined = "handoff_declined" in Middleware,
    /// A handoff was shown and nothing else; content is `{handoff_id}`.
    HandoffPreviewed = "handoff_previewed" in Middleware,
    /// A handoff could not be completed; content is `{handoff_id, reason}`.
    HandoffFailed = "handoff_failed" in Middleware,
    /// A pending handoff was given up unanswered; content is `{handoff_id}`.
    HandoffExpired = "handoff_expired" in Middleware,
    /// The block of the child was written; content is `{handoff_id, file}`.
    HandoffSeeded = "handoff_seeded" in Middleware,
    /// The block was cleared after the child's first complete turn; content is `{handoff_id}`.
    HandoffCleaned = "handoff_cleaned" in Middleware,
    /// The accepted summary is in the mirror, or the mirror does not take it; content is `{handoff_id, accepted_at, error?}`.
    HandoffMirrored = "handoff_mirrored" in Middleware,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a22_the_catalog_is_well_formed() {
        for event_type in EventType::ALL {
            assert!(event_type.as_str().len() <= 32);
            assert!(event_type.category().as_str().len() <= 16);
            assert_eq!(EventType::from_name(event_type.as_str()), Some(*event_type));
        }
        for category in Category::ALL {
            assert_eq!(Category::from_name(category.as_str()), Some(category));
        }
    }

    #[test]
    fn a23_unknown_names_are_not_an_error() {
        assert_eq!(EventType::from_name("from_the_future"), None);
        assert_eq!(Category::from_name("from_the_future"), None);
    }
}
