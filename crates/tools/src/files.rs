//! The tools that read or change a single file or folder: `ls`, `read_file`, `write_file` and `edit_file`. Searching
//! many files is the task of [`crate::search`].

pub(crate) mod edit_file;
pub(crate) mod file_change;
mod line_range;
pub(crate) mod ls;
mod media;
pub(crate) mod read_file;
pub(crate) mod read_tracker;
mod text_replacement;
pub(crate) mod write_file;

use std::path::Path;

use runtime::{CallReview, CallSubject};

use crate::workspace::Workspace;

/// Returns the review of a call that reads `path`: the path is its subject. A path outside the workspace gives no
/// subject, because the tool refuses such a call and it has no effect.
pub(crate) fn review_read(root: &Path, path: &str) -> CallReview {
    let target = Workspace::open(root).and_then(|workspace| workspace.resolve(path));
    let subjects = target.map(|target| vec![CallSubject::Path(target.relative().to_owned())]);
    CallReview { subjects: subjects.unwrap_or_default(), ..CallReview::default() }
}
