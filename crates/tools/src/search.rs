//! The tools that look for files and lines all over the workspace. Reading one file is not done here.

mod found;
pub(crate) mod glob;
pub(crate) mod grep;
mod tree;
