//! The packages that a child thread is sent: their lines that later work contradicts, and the change of one line.

use futures::future::BoxFuture;
use handoff::StalenessCheck;
use jiff::Timestamp;
use journal::{Transaction, Write};
use protocol::event::body::HandoffEdited;
use protocol::{Handoff, HandoffId, NewEvent, Proposal, ThreadId};
use runtime::FrameSender;
use serde::Serialize;

pub use handoff::{StaleLine, StaleReason};

use crate::{HandoffError, HandoffService, Result};

/// A package that a child thread is sent.
#[derive(Debug, Clone, Serialize)]
pub struct ChildPackage {
    /// The handoff that handed it over.
    pub handoff_id: HandoffId,
    /// The package: the accepted proposal, or the newest one with updated lines.
    pub package: Proposal,
    /// The lines that later work contradicts, in the order of the text.
    pub stale: Vec<StaleLine>,
}

/// A change of one line of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineUpdate {
    /// The hash of the package that the person saw.
    pub summary_sha256: String,
    /// The line, as it is in the Markdown.
    pub line: String,
    /// Its number, from 1; `None` for the first line with this text.
    pub number: Option<usize>,
    /// The line to put in its place; `None` to remove it.
    pub replacement: Option<String>,
}

impl<'a> HandoffService<'a> {
    /// Returns the packages of a child thread, the oldest first; none if no handoff created it.
    ///
    /// # Errors
    /// Fails if the thread does not exist or the journal cannot be read.
    pub fn packages(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<ChildPackage>>> {
        journal::box_future(async move {
            let thread = self.agent.thread(thread_id).await?;
            let frames = FrameSender::default();
            let mut packages = Vec::new();
            for origin in self.origins(&thread).await? {
                let handoff_id = origin.handoff.handoff_id;
                let proposals = self.agent.store.proposals(handoff_id).await?;
                let package = proposals.into_iter().last().unwrap_or(origin.proposal);
                let check = StalenessCheck {
                    store: &self.agent.store,
                    scan_cache: &self.agent.handoff_scan_cache,
                    handoff: &origin.handoff,
                    package: &package,
                    frames: &frames,
                };
                let stale = check
                    .run()
                    .await
                    .map_err(|failure| HandoffError::NotCompared { thread_id, reason: failure.message })?;
                packages.push(ChildPackage { handoff_id, package, stale });
            }
            Ok(packages)
        })
    }

    /// Changes one line of the package that a child thread is sent, and returns the changed package. The accepted package stays
    /// stored. The child's next request contains the changed one.
    ///
    /// # Errors
    /// [`HandoffError::PackageChanged`] if the package is not the one that the person saw or does not contain the line,
    /// [`HandoffError::NotAccepted`] if the handoff has no child, [`HandoffError::InvalidPackage`] if the changed text is no
    /// valid package.
    pub fn update_package(
        self,
        handoff_id: HandoffId,
        update: &'a LineUpdate,
    ) -> BoxFuture<'a, Result<Proposal>> {
        journal::box_future(async move {
            let handoff = self.get(handoff_id).await?;
            if handoff.accepted_sha256.is_none() {
                return Err(HandoffError::NotAccepted(handoff_id).into());
            }
            let package = self.agent.store.proposals(handoff_id).await?.pop();
            let package = package.filter(|package| package.summary_sha256 == update.summary_sha256);
            let package = package.ok_or(HandoffError::PackageChanged(handoff_id))?;
            let line = handoff::PackageLine { text: &update.line, number: update.number };
            let updated = handoff::update_package(&package, line, update.replacement.as_deref())
                .map_err(|rejection| HandoffError::InvalidPackage {
                    handoff_id,
                    reason: rejection.to_string(),
                })?
                .ok_or(HandoffError::PackageChanged(handoff_id))?;
            if updated.iteration == package.iteration {
                return Ok(package);
            }
            let edited = HandoffEdited { handoff_id, iteration: updated.iteration };
            let events = vec![NewEvent::from_body(&edited, Timestamp::now()).map_err(journal::Error::from)?];
            let thread_id = handoff.child_thread_id;
            let writes = vec![Write::PutProposal(updated.clone()), Write::Append { thread_id, events }];
            match self.agent.store.commit(Transaction { fence: None, writes }).await {
                Ok(_) => {
                    self.update_block(&handoff, &package, &updated).await;
                    Ok(updated)
                }
                // Another client stored the same iteration first.
                Err(journal::Error::Conflict { .. }) => Err(HandoffError::PackageChanged(handoff_id).into()),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Puts an updated package in the place of the one before it in `agent.md`, if the block still holds that one.
    async fn update_block(self, handoff: &Handoff, before: &Proposal, updated: &Proposal) {
        let file = self.agent.agent_file(&handoff.assistant_id);
        let (before, updated) = (before.package_md.clone(), updated.package_md.clone());
        let swap = move || file.compare_and_swap_block(&before, &updated, Timestamp::now());
        // The child is sent the package of the journal, also if the file cannot be written. `segue doctor` reports the file.
        let _ = tokio::task::spawn_blocking(swap).await;
    }
}
