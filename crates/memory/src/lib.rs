//! What outlives a context: the managed block in agent.md, and how that file reaches a model.
//!
//! [`block`] knows the text, [`AgentFile`] the file, [`prompt_section`] the prompt. Deliberately absent: deciding
//! when a handoff happens, and which thread a summary belongs to; both come in as arguments.

pub mod block;
mod error;
mod file;
mod hook;
mod inject;
mod replace;

pub use error::{Error, Result};
pub use file::{AGENT_MD_BYTES_MAX, AgentFile, Extent, Outcome, Repair, Snapshot, Written};
pub use hook::{AgentMdHook, summary_of};
pub use inject::{Section, Source, prompt_section};
