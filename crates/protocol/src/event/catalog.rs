//! The catalog of event types: every event name that Segue writes into the journal, with its category. The content of
//! an event is the type of the same name in [`crate::event::body`]. Readers ignore events whose name is not listed
//! here, because a later version may have written them.

named_enum! {
    /// The category of an event. History shows events of category `message`; the other categories explain how they
    /// came about.
    #[derive(PartialOrd, Ord)]
    pub enum Category {
        /// Messages of users, models and tools.
        Message = "message",
        /// Internal model calls, and the memory that a run was given.
        Trace = "trace",
        /// Decisions of a middleware: handoffs, compaction, tool approval.
        Middleware = "middleware",
        /// Results of a run. No current event type has this category.
        Outputs = "outputs",
        /// Failures of runs.
        Error = "error",
        /// Text that a model received and that is not a message of a user or a model: reminders, instructions, notes
        /// of an imported session.
        Context = "context",
        /// Events of a sub-agent.
        Subagent = "subagent",
        /// Changes of a thread or a run as a whole, such as its creation or its end.
        Lifecycle = "lifecycle",
    }
}

/// Defines [`EventType`]: each event type with its stored name and its category.
macro_rules! catalog {
    ($($(#[$doc:meta])* $variant:ident = $name:literal in $category:ident,)*) => {
        /// The type of an event. Stored names have at most 32 characters and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventType { $($(#[$doc])* $variant,)* }

        impl EventType {
            /// All event types, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the stored name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the category of every event of this type.
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            /// Returns the event type with this stored name; `None` for a name that only a later version knows.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

catalog! {
    /// A message of the user.
    HumanMessage = "human_message" in Message,
    /// A message of the model.
    AiMessage = "ai_message" in Message,
    /// The result of a tool call.
    ToolMessage = "tool_message" in Message,
    /// Text that the harness of an imported session injected.
    ImportedNote = "imported_note" in Context,
    /// The point at which the agent of an imported session compacted its context.
    ImportedBoundary = "imported_boundary" in Middleware,
    /// The summary that the agent of an imported session wrote at a compaction boundary.
    ImportedSummary = "imported_summary" in Middleware,
    /// A thread was created.
    ThreadCreated = "thread_created" in Lifecycle,
    /// A thread was renamed.
    ThreadRenamed = "thread_renamed" in Lifecycle,
    /// A thread was moved to another workspace folder.
    ThreadRehomed = "thread_rehomed" in Lifecycle,
    /// A user rewound the thread to an earlier point.
    ThreadRewound = "thread_rewound" in Lifecycle,
    /// A run was started or resumed.
    RunStarted = "run_started" in Lifecycle,
    /// A user requested, from this process or another, that a run stops.
    RunStopRequested = "run_stop_requested" in Lifecycle,
    /// A run was interrupted because it needs a decision of the user.
    RunInterrupted = "run_interrupted" in Lifecycle,
    /// A run ended without a failure.
    RunEnded = "run_ended" in Lifecycle,
    /// A run failed.
    RunFailed = "run_failed" in Error,
    /// A rule or a user approved, changed or refused a tool call before it ran.
    ToolCallDecided = "tool_call_decided" in Middleware,
    /// A sub-agent ended.
    SubagentEnded = "subagent_ended" in Subagent,
    /// An internal model call, such as one that drafts a handoff summary.
    ModelCalled = "model_called" in Trace,
    /// The instructions and memory that a run was given, by hash.
    MemoryRead = "memory_read" in Trace,
    /// A summary replaced older messages in the model's context. This event is the compaction boundary.
    Compacted = "middleware:summarize" in Middleware,
    /// A user undid the newest compaction.
    CompactionUndone = "compaction_undone" in Middleware,
    /// A compaction was attempted and failed.
    CompactionFailed = "compaction_failed" in Middleware,
    /// A tool result is too large for the context. From this event on, the model is sent its beginning and its end
    /// only.
    ResultClipped = "tool_result_clipped" in Middleware,
    /// Old messages of the thread were archived: a medium-term summary represents them.
    TurnsArchived = "turns_archived" in Middleware,
    /// Archived messages of the thread were restored, because their medium-term summary was deleted.
    TurnsRestored = "turns_restored" in Middleware,
    /// The pins of the thread changed: a text was pinned or unpinned, or a handoff brought pins along.
    PinsChanged = "pins_changed" in Context,
    /// A handoff was requested.
    HandoffRequested = "handoff_requested" in Middleware,
    /// A proposal of a handoff was stored.
    HandoffProposed = "handoff_proposed" in Middleware,
    /// A user gave feedback on a proposal, or requested another draft.
    HandoffRefined = "handoff_refined" in Middleware,
    /// A user's own text of a summary was stored as a proposal.
    HandoffEdited = "handoff_edited" in Middleware,
    /// A user reverted to an earlier proposal.
    HandoffReverted = "handoff_reverted" in Middleware,
    /// A handoff summary was truncated to its token limit.
    HandoffTruncated = "handoff_truncated" in Middleware,
    /// A handoff was accepted.
    HandoffAccepted = "handoff_accepted" in Middleware,
    /// A further handoff was accepted into this child thread.
    HandoffMerged = "handoff_merged" in Middleware,
    /// A handoff was declined.
    HandoffDeclined = "handoff_declined" in Middleware,
    /// A handoff ended after a preview, without a decision.
    HandoffPreviewed = "handoff_previewed" in Middleware,
    /// A handoff failed.
    HandoffFailed = "handoff_failed" in Middleware,
    /// A pending handoff expired without a decision.
    HandoffExpired = "handoff_expired" in Middleware,
    /// The child thread's summary block was written to `agent.md`.
    HandoffSeeded = "handoff_seeded" in Middleware,
    /// The summary block was cleared after the child's first complete turn.
    HandoffCleaned = "handoff_cleaned" in Middleware,
    /// An accepted summary was exported to the user's PostgreSQL table, or the table refused it.
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
