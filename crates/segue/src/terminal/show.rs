//! How things look: Markdown, code, changes of files, tool calls, task lists, summaries. It reads no keys.

pub(crate) mod calls;
pub(crate) mod code;
pub(crate) mod diff;
pub(crate) mod inline;
pub(crate) mod markdown;
pub(crate) mod summary;
pub(crate) mod tabular;
