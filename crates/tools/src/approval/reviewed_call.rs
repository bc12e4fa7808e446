//! The review of a call, stored in the state between the question and the call, because another process may make the
//! call. Who decided what is not known here.

use std::path::Path;

use runtime::{CallReview, CallSubject, Channel, ChannelError, Channels};
use serde::{Deserialize, Serialize};

use crate::files::read_tracker::ContentHash;

/// Channel: the calls a person is asked about, in the order of the requests.
pub(super) const PENDING_CALLS_CHANNEL: Channel<Vec<ReviewedCall>> = Channel::new("_approval_asked");
/// Channel: the calls of the newest answer that a person, or the policy, approved.
pub(super) const APPROVED_CALLS_CHANNEL: Channel<Vec<ReviewedCall>> = Channel::new("_approval_given");

/// Channel: the folder in which the calls of the newest answer were proposed, where a person was asked about one of them.
pub(super) const WORKSPACE_CHANNEL: Channel<String> = Channel::new("_approval_workspace");

/// A call, and what it was about when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReviewedCall {
    pub call_id: String,
    /// Hashes of what it was about.
    pub subjects: Vec<String>,
    /// The hash of the file that it would change, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl ReviewedCall {
    /// Takes down what the call is about.
    pub fn new(call_id: &str, review: &CallReview, content: Option<ContentHash>) -> Self {
        Self {
            call_id: call_id.to_owned(),
            subjects: review.subjects.iter().map(subject_hash).collect(),
            content: content.map(|hash| protocol::hex(&hash)),
        }
    }

    /// Returns what of the review was not looked at.
    pub fn unreviewed_subjects(&self, review: &CallReview) -> CallReview {
        let unknown =
            review.subjects.iter().filter(|subject| !self.subjects.contains(&subject_hash(subject)));
        CallReview { subjects: unknown.cloned().collect(), ..CallReview::default() }
    }
}

/// Returns the hash, in hex, of the file at `path` that a person was shown a change of, by this call.
pub(crate) fn reviewed_content_hash(
    channels: &Channels,
    call_id: &str,
    path: &Path,
) -> Result<Option<String>, ChannelError> {
    let path = subject_hash(&CallSubject::Path(path.to_owned()));
    let approved = APPROVED_CALLS_CHANNEL.get(channels)?.unwrap_or_default();
    let asked = PENDING_CALLS_CHANNEL.get(channels)?.unwrap_or_default();
    let looked = approved.into_iter().chain(asked).find(|looked| looked.call_id == call_id);
    Ok(looked.filter(|looked| looked.subjects.contains(&path)).and_then(|looked| looked.content))
}

/// Sets a channel of an update to these calls; none of them removes it from the state `before`.
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

/// Sets the folder in which calls are proposed; without one, that of an earlier answer is removed.
pub(super) fn set_workspace(channels: &mut Channels, workspace: Option<&String>, before: &Channels) {
    match workspace {
        Some(workspace) => WORKSPACE_CHANNEL.set(channels, workspace),
        None if WORKSPACE_CHANNEL.is_set(before) => WORKSPACE_CHANNEL.clear(channels),
        None => {}
    }
}

fn subject_hash(subject: &CallSubject) -> String {
    let (kind, text) = match subject {
        CallSubject::Path(path) => ("path", path.as_os_str().as_encoded_bytes()),
        CallSubject::Command(line) => ("command", line.as_bytes()),
        CallSubject::Url(url) => ("url", url.as_bytes()),
    };
    protocol::sha256_hex([kind.as_bytes(), b":", text].concat())
}
