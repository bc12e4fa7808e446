//! `[[hooks]]` of the configuration: what a hook is told of, and how. Calling it is another file's.

use std::collections::BTreeMap;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::payload::HookEvent;

/// Seconds that a hook has, unless it is told otherwise.
pub const TIMEOUT_SECONDS: u32 = 10;

/// The seconds a hook can be given: a conversation that is to be condensed waits for it.
const TIMEOUT_SECONDS_RANGE: std::ops::RangeInclusive<u32> = 1..=60;

/// The most characters of a command or an address that stand for a hook without a name.
const NAME_CHARS_MAX: usize = 40;

/// A hook: a command (`command`) or an address (`url`), and what it is told of.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HookConfig {
    /// The events to subscribe to: `handoff.proposed`, `handoff.accepted`, `compaction.before`, `compaction.after`,
    /// `run.ended`.
    pub on: Vec<HookEvent>,
    /// The name in logs and messages. Default: the beginning of the command, or the host of the address.
    pub name: Option<String>,
    /// A command line for `sh`, run in the workspace; what happened is on its standard input, as JSON.
    pub command: Option<String>,
    /// An address what happened is posted to, as JSON.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Headers that go along to the address, such as a key.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// Seconds that it has, 1 to 60. Default: 10.
    pub timeout_seconds: Option<u32>,
}

impl HookConfig {
    /// Returns what is wrong with it.
    pub fn validation_error(&self) -> Option<String> {
        let name = self.display_name();
        let wrong = |what: &str| Some(format!("the hook `{name}` {what}"));
        if self.on.is_empty() {
            let known: Vec<&str> = HookEvent::ALL.iter().map(|occasion| occasion.as_str()).collect();
            return wrong(&format!("is told of nothing; set `on` to some of: {}", known.join(", ")));
        }
        match (&self.command, &self.url) {
            (Some(command), None) if command.trim().is_empty() => return wrong("has an empty `command`"),
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => return wrong("needs a `command` or a `url`"),
            (Some(_), Some(_)) => return wrong("has both a `command` and a `url`; make two of it"),
        }
        if self.url.is_some() && self.parsed_url().is_none() {
            return wrong("has a `url` that is no http or https URL");
        }
        if self.url.is_none() && !self.headers.is_empty() {
            return wrong("has `headers`, which only a `url` can be sent");
        }
        let is_header = |(name, value): (&String, &SecretString)| {
            HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value.expose_secret()).is_ok()
        };
        if let Some((header, _)) = self.headers.iter().find(|header| !is_header(*header)) {
            return wrong(&format!("has a header `{header}` that cannot be sent"));
        }
        match self.timeout_seconds {
            Some(given) if !TIMEOUT_SECONDS_RANGE.contains(&given) => {
                let (least, most) = (TIMEOUT_SECONDS_RANGE.start(), TIMEOUT_SECONDS_RANGE.end());
                wrong(&format!("has `timeout_seconds = {given}`; {least} to {most} are possible"))
            }
            Some(_) | None => None,
        }
    }

    /// Returns what it is called; an address may hold a key, so no more than its host is shown.
    pub(crate) fn display_name(&self) -> String {
        let name = self.name.clone().filter(|name| !name.trim().is_empty());
        let host = || self.parsed_url()?.host_str().map(str::to_owned);
        let name = name.or_else(|| self.command.clone()).or_else(host).unwrap_or_else(|| "?".to_owned());
        let name = facts::redact(name.trim());
        let line: String = name.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(NAME_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

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
    fn a_hook_that_makes_no_sense_is_refused_in_words() {
        let check = |config: &str, fault: Option<&str>| {
            let found = hook(config).unwrap().validation_error();
            match fault {
                None => assert_eq!(found, None, "{config}"),
                Some(fault) => assert!(found.clone().is_some_and(|found| found.contains(fault)), "{found:?}"),
            }
        };
        check(r#"{"on": ["run.ended"], "command": "true"}"#, None);
        check(
            r#"{"on": ["run.ended"], "url": "http://localhost:1/x", "headers": {"authorization": "Bearer x"}}"#,
            None,
        );
        check(r#"{"command": "true"}"#, Some("told of nothing"));
        check(r#"{"on": ["run.ended"]}"#, Some("needs a `command` or a `url`"));
        check(r#"{"on": ["run.ended"], "command": " "}"#, Some("empty"));
        check(r#"{"on": ["run.ended"], "command": "a", "url": "http://b/"}"#, Some("both"));
        check(r#"{"on": ["run.ended"], "url": "ftp://b/"}"#, Some("no http or https URL"));
        check(r#"{"on": ["run.ended"], "command": "a", "headers": {"x": "y"}}"#, Some("only a `url`"));
        check(r#"{"on": ["run.ended"], "url": "http://b/", "headers": {"a b": "y"}}"#, Some("`a b`"));
        check(r#"{"on": ["run.ended"], "command": "a", "timeout_seconds": 0}"#, Some("1 to 60"));
        check(r#"{"on": ["run.ended"], "command": "a", "timeout_seconds": 61}"#, Some("1 to 60"));
        assert!(hook(r#"{"on": ["run.begun"]}"#).unwrap_err().contains("handoff.proposed"));
    }

    #[test]
    fn m16_a_hook_is_called_what_it_does_and_no_key_is_among_it() {
        let named = |config: &str| hook(config).unwrap().display_name();
        assert_eq!(named(r#"{"command": "notify-send\n  segue"}"#), "notify-send segue");
        assert_eq!(named(r#"{"name": "team", "command": "x"}"#), "team");
        assert_eq!(named(r#"{"url": "https://u:p@hooks.example.org/T0/secret?x=1"}"#), "hooks.example.org");
        assert_eq!(named(&format!(r#"{{"command": "{}"}}"#, "x".repeat(99))).chars().count(), 41);
        let key = "sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
        assert!(!named(&format!(r#"{{"command": "curl -H x-api-key:{key}"}}"#)).contains("aaaa"));
    }
}
