//! The tools that look for files and lines all over the workspace. Reading one file is not done here.

mod file_walk;
pub(crate) mod glob;
pub(crate) mod grep;
mod grep_output;
