//! User hooks: commands and webhooks from the user's configuration, which are called when a handoff is proposed or
//! accepted, before and after a compaction, and when a run ends.
//!
//! [`HookDispatcher`] follows the commits of this process, makes a [`HookPayload`] from each event, and calls the
//! [`UserHook`]s that subscribe to it. The calls happen after the commit, so no step of a run waits for a hook. The
//! exception is `compaction.before`: the caller waits for the hook, up to its timeout, because the hook can veto the
//! compaction.
//!
//! This crate does not contain the hooks of the runtime, which take part in a turn, nor the webhooks that a client of the
//! server names for a single run. It does not decide when to compact a thread or when to call `compaction.before`.

mod call;
mod dispatcher;
mod payload;
mod settings;

pub use call::{HookAnswer, HookError, UserHook, is_run_by_hook, kill_commands};
pub use dispatcher::{HookDispatcher, MissedHookCall};
pub use payload::{
    AnnouncedCompaction, CompactionHookPayload, HandoffHookPayload, HookEvent, HookPayload, PayloadDetails,
    RunHookPayload,
};
pub use settings::{HookConfig, TIMEOUT_SECONDS};
