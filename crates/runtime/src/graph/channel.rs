//! Typed access to the graph's state. Each channel has one definition, in the crate that owns it; a value that cannot be
//! read is an error and never counts as absent.

use std::borrow::Cow;
use std::marker::PhantomData;

use protocol::FailureKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::step::{Channels, Failure, Update};

/// One entry of the graph's state: its key and the type of its value. A key that begins with `_` never leaves the process.
///
/// ```
/// use runtime::{Channel, Channels};
///
/// const ATTEMPTS: Channel<u32> = Channel::new("_attempts");
///
/// let mut channels = Channels::new();
/// assert_eq!(ATTEMPTS.get(&channels).unwrap(), None);
/// ATTEMPTS.set(&mut channels, &2);
/// assert_eq!(ATTEMPTS.get(&channels).unwrap(), Some(2));
/// channels.insert("_attempts".to_owned(), "two".into());
/// assert_eq!(ATTEMPTS.get(&channels).unwrap_err().key, "_attempts");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel<T> {
    key: Cow<'static, str>,
    value: PhantomData<fn() -> T>,
}

/// A channel whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the state `{key}`: {reason}")]
pub struct ChannelError {
    /// The channel's key.
    pub key: String,
    /// Why the value cannot be read.
    pub reason: String,
}

/// What a person can do about a state that cannot be read. The failed run removes it, so that the next one is free of it.
const UNREADABLE_HINT: &str = "another version of Segue may have written it, or the database is damaged (`segue doctor`); \
                               it was removed, so answer again or send another message to go on";

impl<T> Channel<T> {
    /// Defines the channel of that key.
    pub const fn new(key: &'static str) -> Self {
        Self { key: Cow::Borrowed(key), value: PhantomData }
    }

    /// Returns the channel of one node, where each node has one of its own.
    pub fn of_node(kind: &str, node: &str) -> Self {
        Self { key: Cow::Owned(format!("{kind}:{node}")), value: PhantomData }
    }

    /// Returns the key under which the value is stored.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether there is a value, readable or not.
    pub fn is_set(&self, channels: &Channels) -> bool {
        channels.get(self.key()).is_some_and(|value| !value.is_null())
    }

    /// Removes the value: from an update's channels by a `null`, which takes it out of the state once the update is applied.
    pub fn clear(&self, channels: &mut Channels) {
        channels.insert(self.key().to_owned(), Value::Null);
    }

    /// Takes the value out of a state, as opposed to an update of it; says whether there was one.
    pub fn remove(&self, channels: &mut Channels) -> bool {
        channels.remove(self.key()).is_some()
    }
}

impl<T: DeserializeOwned> Channel<T> {
    /// Returns the value, or `None` when there is none.
    ///
    /// # Errors
    /// When the value is not of this channel's type.
    pub fn get(&self, channels: &Channels) -> Result<Option<T>, ChannelError> {
        let value = channels.get(self.key()).filter(|value| !value.is_null());
        let unreadable =
            |error: serde_json::Error| ChannelError { key: self.key().to_owned(), reason: error.to_string() };
        value.map(T::deserialize).transpose().map_err(unreadable)
    }
}

impl<T: Serialize> Channel<T> {
    /// Sets the value. A channel's type must always be serializable, which derived implementations with text keys are.
    pub fn set(&self, channels: &mut Channels, value: &T) {
        channels.insert(self.key().to_owned(), json!(value));
    }
}

impl From<ChannelError> for Failure {
    fn from(error: ChannelError) -> Self {
        let mut partial = Update::default();
        partial.channels.insert(error.key.clone(), Value::Null);
        Self::new(FailureKind::Store, error.to_string()).with_hint(UNREADABLE_HINT).keeping(partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Channel<u64> = Channel::new("_count");

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_absent() {
        let check = |value: Value, expected: Result<Option<u64>, &str>| {
            let channels = Channels::from_iter([("_count".to_owned(), value)]);
            let found = COUNT.get(&channels).map_err(|error| error.key);
            assert_eq!(found, expected.map_err(str::to_owned), "{channels:?}");
        };
        check(json!(3), Ok(Some(3)));
        check(Value::Null, Ok(None));
        check(json!("3"), Err("_count"));
        check(json!({"count": 3}), Err("_count"));
        assert_eq!(COUNT.get(&Channels::new()), Ok(None));
    }

    #[test]
    fn a_cleared_channel_is_not_set() {
        let mut channels = Channels::new();
        COUNT.set(&mut channels, &1);
        assert!(COUNT.is_set(&channels));
        COUNT.clear(&mut channels);
        assert!(!COUNT.is_set(&channels) && COUNT.get(&channels) == Ok(None));
        assert_eq!(channels["_count"], Value::Null, "an update removes it from the state");
    }

    #[test]
    fn a_failure_names_the_channel_and_removes_it() {
        let channels = Channels::from_iter([("_count".to_owned(), json!("three"))]);
        let failure = Failure::from(COUNT.get(&channels).unwrap_err());
        assert_eq!(failure.kind, FailureKind::Store);
        assert!(failure.message.contains("`_count`") && failure.hint.is_some(), "{failure:?}");
        assert_eq!(failure.partial.channels["_count"], Value::Null);
    }
}
