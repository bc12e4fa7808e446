//! What a call was about when it was looked at, kept in the state from the question to the call, which may be made by
//! another process. Who decided what is not known here.

use std::path::Path;

use runtime::{Channel, ChannelError, Channels, Review, Subject};
use serde::{Deserialize, Serialize};

use crate::files::seen::Hash;

/// Channel: the calls a person is asked about, in the order of the requests.
pub(super) const ASKED_CHANNEL: Channel<Vec<Looked>> = Channel::new("_approval_asked");
/// Channel: the calls of the newest answer that a person, or the policy, approved.
pub(super) const APPROVED_CHANNEL: Channel<Vec<Looked>> = Channel::new("_approval_given");

/// Channel: the folder in which the calls of the newest answer were proposed, where a person was asked about one of them.
pub(super) const WORKSPACE_CHANNEL: Channel<String> = Channel::new("_approval_workspace");

/// A call, and what it was about when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub call_id: String,
    /// Hashes of what it was about.
    pub subjects: Vec<String>,
    /// The hash of the file that it would change, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Looked {
    /// Takes down what the call is about.
    pub fn new(call_id: &str, review: &Review, content: Option<Hash>) -> Self {
        Self {
            call_id: call_id.to_owned(),
            subjects: review.subjects.iter().map(key).collect(),
            content: content.map(|hash| protocol::hex(&hash)),
        }
    }

    /// Returns what of the review was not looked at.
    pub fn unknown(&self, review: &Review) -> Review {
        let unknown = review.subjects.iter().filter(|subject| !self.subjects.contains(&key(subject)));
        Review { subjects: unknown.cloned().collect(), ..Review::default() }
    }
}

/// Returns the hash, in hex, of the file at `path` that a person was shown a change of, by this call.
pub(crate) fn shown_content(
    channels: &Channels,
    call_id: &str,
    path: &Path,
) -> Result<Option<String>, ChannelError> {
    let path = key(&Subject::Path(path.to_owned()));
    let approved = APPROVED_CHANNEL.get(channels)?.unwrap_or_default();
    let asked = ASKED_CHANNEL.get(channels)?.unwrap_or_default();
    let looked = approved.into_iter().chain(asked).find(|looked| looked.call_id == call_id);
    Ok(looked.filter(|looked| looked.subjects.contains(&path)).and_then(|looked| looked.content))
}

/// Sets a channel of an update to these calls; none of them removes it from the state `before`.
pub(super) fn set(
    channel: &Channel<Vec<Looked>>,
    channels: &mut Channels,
    calls: Vec<Looked>,
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

fn key(subject: &Subject) -> String {
    let (kind, text) = match subject {
        Subject::Path(path) => ("path", path.as_os_str().as_encoded_bytes()),
        Subject::Command(line) => ("command", line.as_bytes()),
        Subject::Url(url) => ("url", url.as_bytes()),
    };
    protocol::sha256_hex([kind.as_bytes(), b":", text].concat())
}
