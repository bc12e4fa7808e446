//! Typed access to the graph's state. Each channel is defined once, in the crate that owns it. A value that
//! cannot be read as its channel's type is an error and never counts as absent.

use std::borrow::Cow;
use std::marker::PhantomData;

use protocol::FailureKind;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::step::{Channels, GraphUpdate, StepFailure};

/// A channel: the key of one entry of the graph's state and the type of its value. A value whose key begins with
/// `_` is private: it is stored in checkpoints, but no API shows it.
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

/// The error of a channel whose value cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the state `{key}`: {reason}")]
pub struct ChannelError {
    /// The channel's key.
    pub key: String,
    /// Why the value cannot be read.
    pub reason: String,
}

/// The hint of a failure by an unreadable value. The failed run removes the value, so that the next run can
/// continue.
const UNREADABLE_HINT: &str = "another version of Segue may have written it, or the database is damaged (`segue doctor`); \
                               the value was removed, so answer again or send another message to continue";

impl<T> Channel<T> {
    /// Defines the channel of that key. Two channels must not share a key.
    pub const fn new(key: &'static str) -> Self {
        Self { key: Cow::Borrowed(key), value: PhantomData }
    }

    /// Returns the channel `kind:node`, for values of which each node of the graph has its own.
    pub fn for_node(kind: &str, node: &str) -> Self {
        Self { key: Cow::Owned(format!("{kind}:{node}")), value: PhantomData }
    }

    /// Returns the key under which the value is stored.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns whether the state has a value for this channel, whether it can be read or not. A `null` is no
    /// value.
    pub fn is_set(&self, channels: &Channels) -> bool {
        channels.get(self.key()).is_some_and(|value| !value.is_null())
    }

    /// Sets the value to `null`. In the channels of a [`GraphUpdate`] this removes the value from the state when
    /// the update is applied. To remove a value from a state directly, use [`Self::remove`].
    pub fn clear(&self, channels: &mut Channels) {
        channels.insert(self.key().to_owned(), Value::Null);
    }

    /// Removes the value from a state and returns whether there was one. In an update use [`Self::clear`]
    /// instead.
    pub fn remove(&self, channels: &mut Channels) -> bool {
        channels.remove(self.key()).is_some()
    }
}

impl<T: DeserializeOwned> Channel<T> {
    /// Returns the value, or `None` when the state has none.
    ///
    /// # Errors
    /// Fails when the value cannot be deserialized as this channel's type.
    pub fn get(&self, channels: &Channels) -> Result<Option<T>, ChannelError> {
        let value = channels.get(self.key()).filter(|value| !value.is_null());
        let unreadable =
            |error: serde_json::Error| ChannelError { key: self.key().to_owned(), reason: error.to_string() };
        value.map(T::deserialize).transpose().map_err(unreadable)
    }
}

impl<T: Serialize> Channel<T> {
    /// Sets the value.
    ///
    /// # Panics
    /// Panics when the value cannot be serialized as JSON. Types with derived implementations and text keys
    /// always can.
    pub fn set(&self, channels: &mut Channels, value: &T) {
        channels.insert(self.key().to_owned(), json!(value));
    }
}

impl From<ChannelError> for StepFailure {
    fn from(error: ChannelError) -> Self {
        let mut partial = GraphUpdate::default();
        partial.channels.insert(error.key.clone(), Value::Null);
        Self::new(FailureKind::Store, error.to_string()).with_hint(UNREADABLE_HINT).with_partial(partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Channel<u64> = Channel::new("_count");

    #[test]
    fn an_unreadable_value_is_an_error_and_not_absent() {
        let check = |value: Value, expected: Result<Option<u64>, &str>| {
            let channels = Channels::from_iter([("_count".to_owned(), value)]);
            let value = COUNT.get(&channels).map_err(|error| error.key);
            assert_eq!(value, expected.map_err(str::to_owned), "{channels:?}");
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
        let failure = StepFailure::from(COUNT.get(&channels).unwrap_err());
        assert_eq!(failure.kind, FailureKind::Store);
        assert!(failure.message.contains("`_count`") && failure.hint.is_some(), "{failure:?}");
        assert_eq!(failure.partial.channels["_count"], Value::Null);
    }
}
