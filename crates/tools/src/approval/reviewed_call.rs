//! The record of a call's review in the thread's state. It is stored between the approval request and the call, because
//! another process may make the call. It contains hashes only, not the decision itself.

use std::path::Path;

use runtime::{CallReview, CallSubject, Channel, ChannelError, Channels, Confinement};
use serde::{Deserialize, Serialize};

use crate::files::read_tracker::ContentHash;

/// The channel of the calls that the pending interrupt asks about, in the order of its requests.
pub(super) const PENDING_CALLS_CHANNEL: Channel<Vec<ReviewedCall>> = Channel::new("_approval_asked");
/// The channel of the calls of the newest answer that the user or the policy approved.
pub(super) const APPROVED_CALLS_CHANNEL: Channel<Vec<ReviewedCall>> = Channel::new("_approval_given");

/// The channel of the workspace in which the calls of the newest answer were proposed. It is set only if at least one
/// of them needed approval.
pub(super) const WORKSPACE_CHANNEL: Channel<String> = Channel::new("_approval_workspace");

/// A call with the subjects of its review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReviewedCall {
    /// The call's id in the model's answer.
    pub call_id: String,
    /// Hashes of the subjects, as lowercase hex.
    pub subjects: Vec<String>,
    /// SHA-256 of the file that the call would change, at the time of the review, as lowercase hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Selects whether the call was reviewed as one that runs in the sandbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sandboxed: bool,
}

impl ReviewedCall {
    /// Returns the record of a review. `content` is the hash of the file that the call would change.
    pub fn new(call_id: &str, review: &CallReview, content: Option<ContentHash>) -> Self {
        Self {
            call_id: call_id.to_owned(),
            subjects: review.subjects.iter().map(subject_hash).collect(),
            content: content.map(|hash| protocol::hex(&hash)),
            sandboxed: review.confinement == Confinement::Sandboxed,
        }
    }

    /// Returns a review with only those subjects of `review` that are not in this record. None is, if the call was
    /// reviewed as one in the sandbox and would run without it, for example in another process.
    pub fn unreviewed_subjects(&self, review: &CallReview) -> CallReview {
        if self.sandboxed && review.confinement != Confinement::Sandboxed {
            return review.clone();
        }
        let new_subjects =
            review.subjects.iter().filter(|subject| !self.subjects.contains(&subject_hash(subject)));
        CallReview { subjects: new_subjects.cloned().collect(), ..CallReview::default() }
    }
}

/// Returns the SHA-256 (lowercase hex) that the file at `path` had when the user was shown the diff of this call, or
/// `None` if the call was not reviewed by the user or is about another file.
///
/// # Errors
/// Returns an error if a channel of the state cannot be decoded.
pub(crate) fn reviewed_content_hash(
    channels: &Channels,
    call_id: &str,
    path: &Path,
) -> Result<Option<String>, ChannelError> {
    let path = subject_hash(&CallSubject::Path(path.to_owned()));
    let approved = APPROVED_CALLS_CHANNEL.get(channels)?.unwrap_or_default();
    let pending = PENDING_CALLS_CHANNEL.get(channels)?.unwrap_or_default();
    let reviewed = approved.into_iter().chain(pending).find(|reviewed| reviewed.call_id == call_id);
    Ok(reviewed.filter(|reviewed| reviewed.subjects.contains(&path)).and_then(|reviewed| reviewed.content))
}

/// Sets a channel of an update to these calls. An empty list clears the channel if the state `before` has it.
pub(super) fn set_calls(
    channel: &Channel<Vec<ReviewedCall>>,
    channels: &mut Channels,
    calls: Vec<ReviewedCall>,
    before: &Channels,
) {
    if !calls.is_empty() {
        channel.set(channels, &calls);
    } else if channel.is_set(before) {
        channel.clear(channels);
    }
}

/// Sets the workspace in which calls are proposed. `None` clears the workspace of an earlier answer.
pub(super) fn set_workspace(channels: &mut Channels, workspace: Option<&String>, before: &Channels) {
    match workspace {
        Some(workspace) => WORKSPACE_CHANNEL.set(channels, workspace),
        None if WORKSPACE_CHANNEL.is_set(before) => WORKSPACE_CHANNEL.clear(channels),
        None => {}
    }
}

/// Returns the SHA-256 (lowercase hex) of a subject with its kind, so that a path and a command with the same text
/// differ.
fn subject_hash(subject: &CallSubject) -> String {
    let (kind, text) = match subject {
        CallSubject::Path(path) => ("path", path.as_os_str().as_encoded_bytes()),
        CallSubject::Command(line) => ("command", line.as_bytes()),
        CallSubject::Url(url) => ("url", url.as_bytes()),
    };
    protocol::sha256_hex([kind.as_bytes(), b":", text].concat())
}
