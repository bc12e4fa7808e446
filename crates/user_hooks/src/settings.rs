//! The section `[[hooks]]` of the configuration, and its validation. `call` calls the hooks.
//!
//! The doc comments of [`HookConfig`] are the text of `segue config keys` and of the book's page on configuration.

use std::collections::BTreeMap;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use sandbox::NetworkAccess;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::payload::HookEvent;

/// The default timeout of one call of a hook, in seconds.
pub const TIMEOUT_SECONDS: u32 = 10;

/// The timeouts that can be configured, in seconds. The maximum is low because a compaction waits for its hooks.
const TIMEOUT_SECONDS_RANGE: std::ops::RangeInclusive<u32> = 1..=60;

/// Maximum characters of a hook's displayed name. A hook without a name is shown by the beginning of its command.
const NAME_CHARS_MAX: usize = 40;

/// A hook: the command or URL that is called, and the events it subscribes to.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HookConfig {
    /// The events to subscribe to: `handoff.proposed`, `handoff.accepted`, `compaction.before`, `compaction.after`,
    /// `run.ended`.
    pub on: Vec<HookEvent>,
    /// The name in logs and messages. Default: the beginning of the command, or the host of the URL.
    pub name: Option<String>,
    /// A command line for `sh`, run in the workspace. Its standard input is the payload, as JSON.
    pub command: Option<String>,
    /// A URL that the payload is posted to, as JSON.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Headers that are sent to the URL, such as one with a key.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// The timeout of one call in seconds, 1 to 60. Default: 10.
    pub timeout_seconds: Option<u32>,
    /// True if the command runs in the sandbox of commands, with the folders that `[sandbox]` declares, and does not run
    /// where the system has none.
    pub sandbox: bool,
    /// True if the command has the network in the sandbox.
    pub network: bool,
}

impl HookConfig {
    /// Returns the first error in this configuration as a sentence that names the hook, or `None` if it is valid.
    pub fn validation_error(&self) -> Option<String> {
        let name = self.display_name();
        let wrong = |problem: &str| Some(format!("the hook `{name}` {problem}"));
        if self.on.is_empty() {
            let events: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
            return wrong(&format!("subscribes to no event; set `on` to some of: {}", events.join(", ")));
        }
        match (&self.command, &self.url) {
            (Some(command), None) if command.trim().is_empty() => return wrong("has an empty `command`"),
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => return wrong("needs a `command` or a `url`"),
            (Some(_), Some(_)) => {
                return wrong("has both a `command` and a `url`; configure two hooks instead");
            }
        }
        if self.url.is_some() && self.parsed_url().is_none() {
            return wrong("has a `url` that is not an http or https URL");
        }
        if self.url.is_none() && !self.headers.is_empty() {
            return wrong("has `headers`, which need a `url`");
        }
        let is_header = |(name, value): (&String, &SecretString)| {
            HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value.expose_secret()).is_ok()
        };
        if self.sandbox && self.command.is_none() {
            return wrong("has `sandbox`, which needs a `command`");
        }
        if self.network && !self.sandbox {
            return wrong("has `network`, which needs `sandbox = true`");
        }
        if let Some((header, _)) = self.headers.iter().find(|header| !is_header(*header)) {
            return wrong(&format!("has a header `{header}` that cannot be sent"));
        }
        match self.timeout_seconds {
            Some(seconds) if !TIMEOUT_SECONDS_RANGE.contains(&seconds) => {
                let (min, max) = (TIMEOUT_SECONDS_RANGE.start(), TIMEOUT_SECONDS_RANGE.end());
                wrong(&format!("has `timeout_seconds = {seconds}`; the range is {min} to {max}"))
            }
            Some(_) | None => None,
        }
    }

    /// Returns the network of the command in the sandbox; `None` without a sandbox.
    pub const fn sandbox_network(&self) -> Option<NetworkAccess> {
        match (self.sandbox, self.network) {
            (false, _) => None,
            (true, false) => Some(NetworkAccess::Off),
            (true, true) => Some(NetworkAccess::On),
        }
    }

    /// Returns the name of the hook in logs and messages, on one line and without secrets. A hook without a name is shown by
    /// its command, or by the host of its URL; the path of a URL is not shown, because it may contain a key (M16).
    pub fn display_name(&self) -> String {
        let name = self.name.clone().filter(|name| !name.trim().is_empty());
        let host = || self.parsed_url()?.host_str().map(str::to_owned);
        let name = name.or_else(|| self.command.clone()).or_else(host).unwrap_or_else(|| "?".to_owned());
        let name = secrets::redact(name.trim());
        let line: String = name.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(NAME_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Returns the URL if there is one and it is an http or https URL with a host.
    pub(crate) fn parsed_url(&self) -> Option<Url> {
        let url = Url::parse(self.url.as_ref()?.expose_secret()).ok()?;
        (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(toml: &str) -> Result<HookConfig, String> {
        serde_json::from_str(toml).map_err(|error| error.to_string())
    }

    #[test]
    fn an_invalid_hook_is_refused_with_a_reason() {
        let check = |config: &str, fault: Option<&str>| {
            let error = hook(config).unwrap().validation_error();
            match fault {
                None => assert_eq!(error, None, "{config}"),
                Some(fault) => assert!(error.clone().is_some_and(|error| error.contains(fault)), "{error:?}"),
            }
        };
        check(r#"{"on": ["run.ended"], "command": "true"}"#, None);
        check(
            r#"{"on": ["run.ended"], "url": "http://localhost:1/x", "headers": {"authorization": "Bearer x"}}"#,
            None,
        );
        check(r#"{"command": "true"}"#, Some("subscribes to no event"));
        check(r#"{"on": ["run.ended"]}"#, Some("needs a `command` or a `url`"));
        check(r#"{"on": ["run.ended"], "command": " "}"#, Some("empty"));
        check(r#"{"on": ["run.ended"], "command": "a", "url": "http://b/"}"#, Some("both"));
        check(r#"{"on": ["run.ended"], "url": "ftp://b/"}"#, Some("not an http or https URL"));
        check(r#"{"on": ["run.ended"], "command": "a", "headers": {"x": "y"}}"#, Some("need a `url`"));
        check(r#"{"on": ["run.ended"], "url": "http://b/", "headers": {"a b": "y"}}"#, Some("`a b`"));
        check(r#"{"on": ["run.ended"], "command": "a", "sandbox": true, "network": true}"#, None);
        check(r#"{"on": ["run.ended"], "url": "http://b/", "sandbox": true}"#, Some("needs a `command`"));
        check(r#"{"on": ["run.ended"], "command": "a", "network": true}"#, Some("needs `sandbox = true`"));
        check(r#"{"on": ["run.ended"], "command": "a", "timeout_seconds": 0}"#, Some("1 to 60"));
        check(r#"{"on": ["run.ended"], "command": "a", "timeout_seconds": 61}"#, Some("1 to 60"));
        assert!(hook(r#"{"on": ["run.begun"]}"#).unwrap_err().contains("handoff.proposed"));
    }

    #[test]
    fn m16_the_displayed_name_of_a_hook_contains_no_key() {
        let named = |config: &str| hook(config).unwrap().display_name();
        assert_eq!(named(r#"{"command": "notify-send\n  segue"}"#), "notify-send segue");
        assert_eq!(named(r#"{"name": "team", "command": "x"}"#), "team");
        assert_eq!(named(r#"{"url": "https://u:p@hooks.example.org/T0/secret?x=1"}"#), "hooks.example.org");
        assert_eq!(named(&format!(r#"{{"command": "{}"}}"#, "x".repeat(99))).chars().count(), 41);
        let key = "sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        assert!(!named(&format!(r#"{{"command": "curl -H x-api-key:{key}"}}"#)).contains("aaaa"));
    }
}
