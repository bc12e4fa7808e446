//! What a call was about when it was looked at, kept in the state from the question to the call, which may be made by
//! another process. Who decided what is not known here.

use std::path::Path;

use runtime::{Channels, Review, Subject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::files::seen::{self, Hash};

/// Channel: the calls a person is asked about, in the order of the requests.
pub(super) const ASKED_CHANNEL: &str = "_approval_asked";
/// Channel: the calls of the newest answer that a person, or the policy, approved.
pub(super) const APPROVED_CHANNEL: &str = "_approval_given";

/// A call, and what it was about when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Looked {
    /// The call.
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
            content: content.as_ref().map(seen::hex),
        }
    }

    /// Returns what of the review was not looked at.
    pub fn unknown(&self, review: &Review) -> Review {
        let unknown = review.subjects.iter().filter(|subject| !self.subjects.contains(&key(subject)));
        Review { subjects: unknown.cloned().collect(), ..Review::default() }
    }
}

/// Returns the calls in a channel.
pub(super) fn calls(channels: &Channels, channel: &str) -> Vec<Looked> {
    let calls = channels.get(channel).map(Vec::<Looked>::deserialize);
    calls.and_then(Result::ok).unwrap_or_default()
}

/// Returns the call in a channel.
pub(super) fn call(channels: &Channels, channel: &str, call_id: &str) -> Option<Looked> {
    calls(channels, channel).into_iter().find(|looked| looked.call_id == call_id)
}

/// Returns the hash, in hex, of the file at `path` that a person was shown a change of, by this call.
pub(crate) fn shown_content(channels: &Channels, call_id: &str, path: &Path) -> Option<String> {
    let path = key(&Subject::Path(path.to_owned()));
    let looked =
        [APPROVED_CHANNEL, ASKED_CHANNEL].into_iter().find_map(|name| call(channels, name, call_id))?;
    looked.content.filter(|_| looked.subjects.contains(&path))
}

/// Sets a channel to these calls; none of them removes it.
pub(super) fn set(channels: &mut Channels, (channel, calls): (&str, &[Looked]), before: &Channels) {
    if !calls.is_empty() {
        channels.insert(channel.to_owned(), json!(calls));
    } else if before.contains_key(channel) {
        channels.insert(channel.to_owned(), Value::Null);
    }
}

fn key(subject: &Subject) -> String {
    let (kind, text) = match subject {
        Subject::Path(path) => ("path", path.as_os_str().as_encoded_bytes()),
        Subject::Command(line) => ("command", line.as_bytes()),
        Subject::Url(url) => ("url", url.as_bytes()),
    };
    seen::hex(&seen::hash(&[kind.as_bytes(), b":", text].concat()))
}
