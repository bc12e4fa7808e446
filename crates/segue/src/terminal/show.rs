//! How things look: Markdown, code, changes, tool calls, task lists, summaries and what they rest on, markers, what fills
//! a window, what was found. It reads no keys.

pub(crate) mod calls;
pub(crate) mod carry;
pub(crate) mod code;
pub(crate) mod diff;
pub(crate) mod found;
pub(crate) mod inline;
pub(crate) mod ledger;
pub(crate) mod markdown;
pub(crate) mod marker;
pub(crate) mod summary;
pub(crate) mod tabular;
pub(crate) mod window;
