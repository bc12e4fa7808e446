//! How things look: Markdown, code, changes, tool calls, task lists, summaries and what they rest on, markers, what fills
//! a window, what was found. It reads no keys.

pub mod tool_calls;
pub mod carry_over;
pub mod code;
pub mod diff;
pub mod coverage;
pub mod search_hits;
pub mod markdown;
pub mod marker;
pub mod summary;
pub mod context_window;
