//! How things look: Markdown, code, changes, tool calls, task lists, summaries and what they rest on, markers, what fills
//! a window, what was found. It reads no keys.

pub mod calls;
pub mod carry;
pub mod code;
pub mod diff;
pub mod facts;
pub mod found;
pub mod markdown;
pub mod marker;
pub mod summary;
pub mod window;
