//! The tools that look at one file or folder, or change one. Searching many is not done here.

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

/// Returns the review of a call that reads `path`; one that leads outside is refused by the tool and has no subject.
pub(crate) fn review_read(root: &Path, path: &str) -> CallReview {
    let target = Workspace::open(root).and_then(|workspace| workspace.resolve(path));
    let subjects = target.map(|target| vec![CallSubject::Path(target.relative().to_owned())]);
    CallReview { subjects: subjects.unwrap_or_default(), ..CallReview::default() }
}
