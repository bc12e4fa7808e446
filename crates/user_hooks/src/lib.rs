//! Hooks of the user's: a command or an address that is told when a handoff is proposed or accepted, a conversation is about to be
//! condensed or was, or a run ends. What they are told is made from the journal's events, behind the work: no step waits for a hook.
//! One is waited for: what is asked before a conversation is condensed may refuse it, within its time.
//!
//! The hooks of the runtime, which take part in a turn, are another thing; and so are the webhooks of a single run that a client of the
//! server names. Which conversation is condensed, and who asks before, is not decided here.

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
