//! What outlives a context: agent.md, the managed block in it, and how the file reaches a model.
//!
//! [`block`] knows the text, [`AgentFile`] the file, [`prompt_section`] the prompt. [`AgentMdHook`] is the middleware,
//! [`EditMemory`] the agent's own way to change its notes. Deliberately absent: deciding when a handoff happens, and
//! which thread a summary belongs to; both come in from the journal's rows.

pub mod block;
mod edit;
mod edit_memory;
mod error;
mod file;
mod hook;
mod inject;
mod replace;
mod secrets;

pub use edit_memory::{EDIT_MEMORY, EditMemory};
pub use error::{Error, Result};
pub use file::{AGENT_MD_BYTES_MAX, AgentFile, Extent, Outcome, Repair, Snapshot, Written};
pub use hook::AgentMdHook;
pub use inject::{Section, Source, prompt_section};
pub use secrets::{REDACTED, redact};
