//! The filter of a client on a thread's events: channels, namespaces, depth, and the number to start after.
//!
//! A channel is a kind of event, such as `messages`. A namespace is the path of sub-agents within a run that an event
//! comes from; it is empty for the run itself.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// The known channels. In addition, `custom:<name>` selects the custom events with one name.
const CHANNELS: [&str; 10] = [
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
    HISTORY_CHANNEL,
];

/// A channel of Segue's own: every stored event, in the form that the thread's history shows. See [`super::history`].
pub(super) const HISTORY_CHANNEL: &str = "history";

/// The maximum number of channels, and of namespaces, in one request.
const ENTRIES_MAX: usize = 64;

/// A client's filter on events, as it is sent.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct EventFilterBody {
    /// The channels to send, at least one: `values`, `updates`, `messages`, `tools`, `lifecycle`, `input`,
    /// `checkpoints`, `tasks`, `custom`, `custom:<name>`, `history`.
    channels: Option<Vec<String>>,
    /// Prefixes of the namespaces to send. Without any, events of all namespaces are sent.
    namespaces: Option<Vec<Vec<String>>>,
    /// The maximum number of segments that a namespace may have after its prefix. Unlimited if it is missing.
    depth: Option<usize>,
    /// The `seq` of the last event that the client has received. Only later events are sent.
    since: Option<u64>,
}

/// A validated filter on events.
#[derive(Debug, Clone)]
pub(crate) struct EventFilter {
    /// The wanted channels: known names and `custom:<name>`.
    channels: Vec<String>,
    /// The prefixes of the wanted namespaces. An empty list admits all.
    namespaces: Vec<Vec<String>>,
    /// The maximum number of segments after a prefix.
    depth: Option<usize>,
    /// The number of the last event that the client has received; 0 if it has received none.
    pub(super) since: u64,
}

impl EventFilterBody {
    /// Validates the filter.
    ///
    /// # Errors
    /// A bad request if no channel or an unknown channel is named, or if a list has more than [`ENTRIES_MAX`] entries.
    pub(crate) fn into_filter(self) -> Result<EventFilter, ApiError> {
        let channels = self.channels.unwrap_or_default();
        if channels.is_empty() {
            return Err(ApiError::bad_request("`channels` must name at least one channel"));
        }
        let is_known = |channel: &str| {
            CHANNELS.contains(&channel)
                || channel.strip_prefix("custom:").is_some_and(|name| !name.is_empty())
        };
        if let Some(unknown) = channels.iter().find(|channel| !is_known(channel)) {
            let shown: String = unknown.chars().take(80).collect();
            return Err(ApiError::bad_request(format!(
                "unknown channel `{shown}`: known are {}",
                CHANNELS.join(", ")
            )));
        }
        let namespaces = self.namespaces.unwrap_or_default();
        if channels.len() > ENTRIES_MAX || namespaces.len() > ENTRIES_MAX {
            return Err(ApiError::bad_request(format!("at most {ENTRIES_MAX} channels and namespaces")));
        }
        Ok(EventFilter { channels, namespaces, depth: self.depth, since: self.since.unwrap_or(0) })
    }
}

impl EventFilter {
    /// Returns whether the client wants events of the channel.
    pub(super) fn has_channel(&self, channel: &str) -> bool {
        self.channels.iter().any(|wanted| wanted == channel)
    }

    /// Returns whether the client wants custom events with that name: because it wants all of them, or this one.
    pub(super) fn has_custom(&self, name: &str) -> bool {
        let named = |wanted: &String| wanted.strip_prefix("custom:").is_some_and(|wanted| wanted == name);
        self.has_channel("custom") || self.channels.iter().any(named)
    }

    /// Returns whether the client wants events of the namespace.
    pub(super) fn admits_namespace(&self, namespace: &[&str]) -> bool {
        let below = |prefix: &[String]| {
            let is_prefix =
                prefix.len() <= namespace.len() && prefix.iter().zip(namespace).all(|(a, b)| a == b);
            is_prefix && self.depth.is_none_or(|depth| namespace.len() - prefix.len() <= depth)
        };
        if self.namespaces.is_empty() {
            below(&[])
        } else {
            self.namespaces.iter().any(|prefix| below(prefix))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn filter(body: &Value) -> Result<EventFilter, ApiError> {
        serde_json::from_value::<EventFilterBody>(body.clone()).unwrap().into_filter()
    }

    #[test]
    fn s19_2_a_channel_must_be_named_and_known() {
        for bad in [
            json!({}),
            json!({"channels": []}),
            json!({"channels": ["values", "nope"]}),
            json!({"channels": ["custom:"]}),
        ] {
            assert_eq!(filter(&bad).unwrap_err().status().as_u16(), 400, "{bad}");
        }
        let all: Vec<&str> = CHANNELS.into_iter().chain(["custom:progress"]).collect();
        let filter = filter(&json!({"channels": all, "unknown": 1})).unwrap();
        assert!(filter.has_channel("values") && filter.has_custom("anything"));
    }

    #[test]
    fn custom_events_are_wanted_by_name_or_all() {
        let filter = filter(&json!({"channels": ["custom:progress"]})).unwrap();
        assert!(
            filter.has_custom("progress") && !filter.has_custom("notice") && !filter.has_channel("custom")
        );
    }

    #[test]
    fn s19_2_namespaces_are_prefixes_and_depth_counts_below_them() {
        let check = |body: Value, namespace: &[&str], expected: bool| {
            let mut body = body;
            body["channels"] = json!(["values"]);
            assert_eq!(filter(&body).unwrap().admits_namespace(namespace), expected, "{body} {namespace:?}");
        };
        check(json!({}), &["tools:c1", "model"], true);
        check(json!({"namespaces": [[]], "depth": 1}), &[], true);
        check(json!({"namespaces": [[]], "depth": 1}), &["tools:c1"], true);
        check(json!({"namespaces": [[]], "depth": 1}), &["tools:c1", "x"], false);
        check(json!({"namespaces": [[]], "depth": 0}), &["tools:c1"], false);
        check(json!({"namespaces": [["tools:c1"]]}), &["tools:c1", "x"], true);
        check(json!({"namespaces": [["tools:c1"]]}), &[], false);
        check(json!({"namespaces": [["tools:c1"], ["tools:c2"]]}), &["tools:c2"], true);
        check(json!({"namespaces": [["tools:c1"]]}), &["tools:c10"], false);
    }
}
