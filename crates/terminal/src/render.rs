//! Rendering of the program's objects as lines of text: Markdown, code, diffs, tool calls, summaries with their
//! coverage and facts, compaction cards, the usage of the context window, and search hits.
//! Rendering functions return lines and write nothing; the caller prints them.

pub mod code;
pub mod context_window;
pub mod coverage;
pub mod diff;
pub mod facts;
pub mod markdown;
pub mod marker;
pub mod notes;
pub mod review;
pub mod search_hits;
pub mod summary;
pub mod tool_calls;
