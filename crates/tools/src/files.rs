//! The tools that look at one file or folder, or change one. Searching many is not done here.

pub(crate) mod change;
pub(crate) mod edit_file;
mod lines;
pub(crate) mod ls;
mod media;
pub(crate) mod read_file;
pub(crate) mod seen;
mod text;
pub(crate) mod write_file;

use std::path::Path;

use runtime::{Review, Subject};

use crate::workspace::Workspace;

/// Returns the review of a call that reads `path`; one that leads outside is refused by the tool and has no subject.
pub(crate) fn reading(root: &Path, path: &str) -> Review {
    let target = Workspace::open(root).and_then(|workspace| workspace.target(path));
    let subjects = target.map(|target| vec![Subject::Path(target.relative().to_owned())]);
    Review { subjects: subjects.unwrap_or_default(), ..Review::default() }
}
