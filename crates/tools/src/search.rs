//! The tools that search the whole workspace: `glob` finds files by path, `grep` finds lines by content. Reading one
//! file is the task of [`crate::files`].

mod file_walk;
pub(crate) mod glob;
pub(crate) mod grep;
mod grep_output;
