//! Lines of an accepted package that later work contradicts: the child has done a task, deleted a file or resolved an
//! error, the user has asked something newer in the parent, or has said the opposite of a rule or decision.
//!
//! A line that is found is only a proposal: a person decides about each, and a decision changes that line alone. The
//! package as it was accepted stays stored, because a changed package is a further proposal of the same handoff.

mod rules;
mod task_count;
mod update;

use std::sync::Arc;

use futures::future::BoxFuture;
use journal::Store;
use protocol::{Handoff, Proposal, Seq, ThreadId};
use runtime::{FrameSender, StepFailure};
use serde::{Deserialize, Serialize};

use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::{ScanRequest, ThreadScanCache, WindowScan};
use rules::LaterFacts;

pub use update::update_package;

/// The mark of a text that was cut.
const ELLIPSIS: char = '…';
/// The minimum length of a cut task by which it is recognized, in bytes.
const CUT_TASK_BYTES_MIN: usize = 16;

/// A line of a package that later work contradicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StaleLine {
    /// The line, as it is in the Markdown.
    pub line: String,
    /// Its number in the Markdown, from 1. Another line may have the same text.
    pub number: usize,
    /// The reason.
    pub reason: StaleReason,
    /// The thread with the later work.
    pub thread_id: ThreadId,
    /// The event with it.
    pub seq: Seq,
    /// The line to put in its place; `None` to remove it.
    pub replacement: Option<String>,
    /// The other lines that the change removes, such as the number of open tasks in the TL;DR.
    pub also_removed: Vec<String>,
    /// The lines that the change puts in their place.
    pub also_added: Vec<String>,
}

/// The reason why a line is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleReason {
    /// The task is done.
    TaskDone,
    /// The file was deleted.
    FileDeleted,
    /// The user has asked something newer in the parent.
    NewerRequest,
    /// The check that failed has passed.
    ErrorResolved,
    /// A later message of the user contradicts the rule or decision.
    Contradicted,
}

impl StaleReason {
    /// Returns the reason as a clause.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TaskDone => "the task is done",
            Self::FileDeleted => "the file was deleted or moved",
            Self::NewerRequest => "the user has asked something newer in the parent",
            Self::ErrorResolved => "the check has passed since",
            Self::Contradicted => "a later message of the user contradicts it",
        }
    }
}

/// A search for stale lines in the package of one handoff.
pub struct StalenessCheck<'a> {
    /// The store that holds both threads. It is only read.
    pub store: &'a Arc<dyn Store>,
    /// The cache of thread scans.
    pub scan_cache: &'a ThreadScanCache,
    /// The accepted handoff.
    pub handoff: &'a Handoff,
    /// The package that the child is sent.
    pub package: &'a Proposal,
    /// The receiver of progress frames.
    pub frames: &'a FrameSender,
}

impl StalenessCheck<'_> {
    /// Returns the stale lines in the order of the text.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn run(&self) -> BoxFuture<'_, Result<Vec<StaleLine>, StepFailure>> {
        journal::box_future(async move {
            let child = self.scan(self.handoff.child_thread_id, None).await?;
            let covered = self.package.summary_json.coverage.last_seq;
            let parent_id = self.handoff.parent_thread_id;
            // A parent that was deleted says nothing newer.
            let newer = match self.store.thread(parent_id).await? {
                Some(_) => self.store.messages_after(parent_id, covered).await?,
                None => 0,
            };
            let parent = match newer {
                0 => None,
                newer => Some(self.scan(parent_id, Some(newer)).await?),
            };
            let later = LaterFacts {
                child: (self.handoff.child_thread_id, child.facts()),
                parent: parent.as_ref().map(|scan| (parent_id, scan.facts())),
                covered,
            };
            let mut stale = later.stale_lines(&self.package.package_md);
            stale.iter_mut().for_each(|line| add_other_changes(self.package, line));
            Ok(stale)
        })
    }

    /// Returns the scan of a thread, or of its newest messages.
    async fn scan(&self, thread_id: ThreadId, messages: Option<u64>) -> Result<WindowScan, StepFailure> {
        let thread = ThreadSource { store: &**self.store, thread_id, frames: self.frames };
        self.scan_cache.scan_thread(thread, ScanRequest { messages, ..ScanRequest::default() }).await
    }
}

/// Adds to a stale line what its change would change elsewhere in the package.
fn add_other_changes(package: &Proposal, stale: &mut StaleLine) {
    let line = PackageLine { text: &stale.line, number: Some(stale.number) };
    // A change that is refused is refused when it is made, with the reason.
    let Ok(Some(changed)) = update_package(package, line, stale.replacement.as_deref()) else { return };
    let (before, after) = (&package.package_md, &changed.package_md);
    let is_own = |line: &&str| *line == stale.line || Some(*line) == stale.replacement.as_deref();
    let missing_in = |lines: &str, other: &str| -> Vec<String> {
        let missing = lines.lines().filter(|line| other.lines().all(|known| known != *line));
        missing.filter(|line| !is_own(line)).map(str::to_owned).collect()
    };
    (stale.also_removed, stale.also_added) = (missing_in(before, after), missing_in(after, before));
}

/// A line of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageLine<'a> {
    /// The text of the line.
    pub text: &'a str,
    /// The number of the line, from 1; `None` for the first line with this text.
    pub number: Option<usize>,
}

#[cfg(test)]
mod tests;
