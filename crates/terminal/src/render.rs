//! Renders Markdown, code, diffs, tool calls, summaries with their coverage and facts, compaction cards, the usage of the
//! context window, and search hits.

pub mod carry_over;
pub mod code;
pub mod context_window;
pub mod coverage;
pub mod diff;
pub mod markdown;
pub mod marker;
pub mod search_hits;
pub mod summary;
pub mod tool_calls;
