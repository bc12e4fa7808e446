//! The preview of a person's own text for a pending handoff.

use futures::future::BoxFuture;
use handoff::EditPreview;
use protocol::Proposal;
use runtime::FrameSender;
use serde_json::{Map, Value};

use super::PendingHandoff;
use crate::{HandoffError, HandoffService, Result};

impl<'a> HandoffService<'a> {
    /// Returns the proposal that a text of the person would become if they accepted it, with the notes for its review: rules
    /// that it has lost or may contradict, and names that the conversation does not contain. `args` are `package_md`, `title` or
    /// `summary_json`, as in a decision. Nothing is stored.
    ///
    /// # Errors
    /// [`HandoffError::InvalidEdit`] if a decision with this text would be refused.
    pub fn preview_edit(
        self,
        pending: &'a PendingHandoff,
        args: &'a Map<String, Value>,
    ) -> BoxFuture<'a, Result<Proposal>> {
        journal::box_future(async move {
            let preview = EditPreview {
                store: &self.agent.store,
                scan_cache: &self.agent.handoff_scan_cache,
                handoff: &pending.handoff,
                shown: &pending.proposal,
                frames: &FrameSender::default(),
            };
            let handoff_id = pending.handoff.handoff_id;
            let edited = preview.run(args).await.map_err(|rejection| HandoffError::InvalidEdit {
                handoff_id,
                reason: rejection.to_string(),
            })?;
            Ok(edited)
        })
    }
}
