//! The catalog of event types: every name that Segue writes into the journal, and the category it belongs to.
//! The content of each is the type of the same name in [`crate::event::body`].
//! A reader that meets a name not listed here ignores the event.

named_enum! {
    /// The group an event belongs to; history reads `message`, everything else explains it.
    #[derive(PartialOrd, Ord)]
    pub enum Category {
        /// Messages of people, models and tools.
        Message = "message",
        /// Internal model calls and timings.
        Trace = "trace",
        /// Decisions of a middleware: handoffs, compaction.
        Middleware = "middleware",
        /// Results of a run.
        Outputs = "outputs",
        /// Failures.
        Error = "error",
        /// Text that reached a model but that nobody said: reminders, instructions, notes of an imported session.
        Context = "context",
        /// Events of a sub-agent.
        Subagent = "subagent",
        /// Threads and runs beginning and ending.
        Lifecycle = "lifecycle",
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
    /// A person's message.
    HumanMessage = "human_message" in Message,
    /// A model's message.
    AiMessage = "ai_message" in Message,
    /// A tool's result.
    ToolMessage = "tool_message" in Message,
    /// Text of an imported session that its harness injected.
    ImportedNote = "imported_note" in Context,
    /// A place where the imported session's own agent compacted.
    ImportedBoundary = "imported_boundary" in Middleware,
    /// The summary the imported session's agent wrote at a boundary.
    ImportedSummary = "imported_summary" in Middleware,
    /// A thread began.
    ThreadCreated = "thread_created" in Lifecycle,
    /// A thread got another name.
    ThreadRenamed = "thread_renamed" in Lifecycle,
    /// A thread moved to another folder.
    ThreadRehomed = "thread_rehomed" in Lifecycle,
    /// A person took the thread back to an earlier point.
    ThreadRewound = "thread_rewound" in Lifecycle,
    /// A run began.
    RunStarted = "run_started" in Lifecycle,
    /// A person asked, from this process or another, that a run stops.
    RunStopRequested = "run_stop_requested" in Lifecycle,
    /// A run stopped to ask a person.
    RunInterrupted = "run_interrupted" in Lifecycle,
    /// A run ended.
    RunEnded = "run_ended" in Lifecycle,
    /// A run failed.
    RunFailed = "run_failed" in Error,
    /// A rule or a person decided about a tool call before it ran.
    ToolCallDecided = "tool_call_decided" in Middleware,
    /// A sub-agent came to its end.
    SubagentEnded = "subagent_ended" in Subagent,
    /// An internal model call (a handoff draft, a title).
    ModelCalled = "model_called" in Trace,
    /// The instructions and memory a run was given, by hash.
    MemoryRead = "memory_read" in Trace,
    /// A stretch of the conversation was condensed for the model.
    Compacted = "middleware:summarize" in Middleware,
    /// A person took the newest compaction back.
    CompactionUndone = "compaction_undone" in Middleware,
    /// The conversation was to be condensed and was not.
    CompactionFailed = "compaction_failed" in Middleware,
    /// A tool's result is too large to be sent; from here on the model is sent its ends.
    ResultClipped = "tool_result_clipped" in Middleware,
    /// A summary stands for old turns of the thread.
    TurnsArchived = "turns_archived" in Middleware,
    /// Old turns of the thread are in its context again, because their summary is gone.
    TurnsRestored = "turns_restored" in Middleware,
    /// A handoff was asked for.
    HandoffRequested = "handoff_requested" in Middleware,
    /// A proposal was stored.
    HandoffProposed = "handoff_proposed" in Middleware,
    /// A person gave feedback, or asked for another draft.
    HandoffRefined = "handoff_refined" in Middleware,
    /// A person went back to an earlier proposal.
    HandoffReverted = "handoff_reverted" in Middleware,
    /// A summary was over its limit and was cut.
    HandoffTruncated = "handoff_truncated" in Middleware,
    /// A handoff was accepted.
    HandoffAccepted = "handoff_accepted" in Middleware,
    /// A handoff was declined.
    HandoffDeclined = "handoff_declined" in Middleware,
    /// A handoff was shown and nothing else.
    HandoffPreviewed = "handoff_previewed" in Middleware,
    /// A handoff could not be completed.
    HandoffFailed = "handoff_failed" in Middleware,
    /// A pending handoff was given up unanswered.
    HandoffExpired = "handoff_expired" in Middleware,
    /// The block of the child was written.
    HandoffSeeded = "handoff_seeded" in Middleware,
    /// The block was cleared after the child's first complete turn.
    HandoffCleaned = "handoff_cleaned" in Middleware,
    /// The accepted summary is in the mirror, or the mirror does not take it.
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
