//! Where traces go: `[tracing]` of the configuration, and the standard variables of OpenTelemetry, which come first. What is sent is
//! not said here.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The path of traces behind the address of a collector (OTLP/HTTP).
const TRACES_PATH: &str = "/v1/traces";

/// The settings; without any of them, and without `OTEL_EXPORTER_OTLP_ENDPOINT`, nothing is sent anywhere.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TracingSettings {
    /// Send traces to this service, at the address and with the key that its own variables name.
    pub preset: Option<TracingPreset>,
    /// The full address spans are posted to, such as `http://localhost:4318/v1/traces`.
    pub endpoint: Option<String>,
    /// Headers that go along, such as a key.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// True to export the content of messages, with secrets redacted.
    pub content: bool,
}

/// A service whose address and headers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TracingPreset {
    /// LangSmith: `LANGSMITH_API_KEY`, `LANGSMITH_ENDPOINT`, `LANGSMITH_PROJECT`.
    Langsmith,
    /// Langfuse: `LANGFUSE_PUBLIC_KEY`, `LANGFUSE_SECRET_KEY`, `LANGFUSE_BASE_URL`.
    Langfuse,
    /// Phoenix: `PHOENIX_COLLECTOR_ENDPOINT`, `PHOENIX_API_KEY`, `PHOENIX_PROJECT_NAME`.
    Phoenix,
}

/// Where spans are sent. Without an address the exporter asks the standard variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExportTarget {
    pub endpoint: Option<String>,
    pub headers: Vec<(String, SecretString)>,
    /// The project that Phoenix files them under.
    pub project: Option<String>,
    pub content: ContentPolicy,
}

/// The export of message content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ContentPolicy {
    /// It stays here.
    #[default]
    Omit,
    /// Exported with its secrets redacted.
    SendRedacted,
}

impl TracingSettings {
    /// Returns where spans are sent, if anywhere; `variable` is the environment.
    pub(crate) fn target(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<ExportTarget> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let says =
            |name: &str, value: &str| variable(name).is_some_and(|said| said.eq_ignore_ascii_case(value));
        if says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        let is_set_outside = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .iter()
            .any(|name| variable(name).is_some());
        let content = if self.content { ContentPolicy::SendRedacted } else { ContentPolicy::Omit };
        if is_set_outside {
            // A key of the configuration is for the address of the configuration.
            return Some(ExportTarget { content, ..ExportTarget::default() });
        }
        let own = self.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        let known = self.preset.map(|preset| preset.target(&variable)).unwrap_or_default();
        let endpoint = self.endpoint.clone().or(known.endpoint)?;
        let headers = known.headers.into_iter().chain(own).collect();
        Some(ExportTarget { endpoint: Some(endpoint), headers, content, project: known.project })
    }
}

impl TracingPreset {
    fn target(self, variable: &dyn Fn(&str) -> Option<String>) -> ExportTarget {
        let or = |name: &str, usual: &str| variable(name).unwrap_or_else(|| usual.to_owned());
        let at =
            |base: String, path: &str| Some(format!("{}{path}{TRACES_PATH}", base.trim_end_matches('/')));
        let header = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value.into()));
        match self {
            Self::Langsmith => ExportTarget {
                endpoint: at(or("LANGSMITH_ENDPOINT", "https://api.smith.langchain.com"), "/otel"),
                headers: [
                    header("x-api-key", variable("LANGSMITH_API_KEY")),
                    header("langsmith-project", variable("LANGSMITH_PROJECT")),
                ]
                .into_iter()
                .flatten()
                .collect(),
                ..ExportTarget::default()
            },
            Self::Langfuse => {
                let keys = variable("LANGFUSE_PUBLIC_KEY").zip(variable("LANGFUSE_SECRET_KEY"));
                let basic = keys.map(|(public, secret)| {
                    format!("Basic {}", STANDARD.encode(format!("{public}:{secret}")))
                });
                let base = variable("LANGFUSE_BASE_URL").or_else(|| variable("LANGFUSE_HOST"));
                ExportTarget {
                    endpoint: at(
                        base.unwrap_or_else(|| "https://cloud.langfuse.com".to_owned()),
                        "/api/public/otel",
                    ),
                    headers: header("authorization", basic).into_iter().collect(),
                    ..ExportTarget::default()
                }
            }
            Self::Phoenix => {
                let bearer = variable("PHOENIX_API_KEY").map(|key| format!("Bearer {key}"));
                ExportTarget {
                    endpoint: at(or("PHOENIX_COLLECTOR_ENDPOINT", "http://localhost:6006"), ""),
                    headers: header("authorization", bearer).into_iter().collect(),
                    project: Some(or("PHOENIX_PROJECT_NAME", "segue")),
                    ..ExportTarget::default()
                }
            }
        }
    }
}

impl ExportTarget {
    /// Returns the headers as the exporter takes them.
    pub fn exposed_headers(&self) -> std::collections::HashMap<String, String> {
        self.headers.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type ExpectedTarget = (Option<String>, Vec<(String, String)>);

    fn target(toml: &TracingSettings, set: &[(&str, &str)]) -> Option<ExpectedTarget> {
        let set: BTreeMap<String, String> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let target = toml.target(&|name| set.get(name).cloned())?;
        let mut headers: Vec<(String, String)> = target.exposed_headers().into_iter().collect();
        headers.sort();
        Some((target.endpoint, headers))
    }

    fn with(preset: TracingPreset) -> TracingSettings {
        TracingSettings { preset: Some(preset), ..TracingSettings::default() }
    }

    #[test]
    fn nothing_is_sent_anywhere_unless_somebody_says_where() {
        assert_eq!(target(&TracingSettings::default(), &[]), None);
        assert_eq!(target(&with(TracingPreset::Phoenix), &[("OTEL_SDK_DISABLED", "TRUE")]), None);
        assert_eq!(target(&with(TracingPreset::Phoenix), &[("OTEL_TRACES_EXPORTER", "none")]), None);
        let standard = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")];
        assert_eq!(
            target(&TracingSettings::default(), &standard),
            Some((None, vec![])),
            "the exporter reads it"
        );
        let own =
            TracingSettings { endpoint: Some("http://x/v1/traces".to_owned()), ..TracingSettings::default() };
        assert_eq!(target(&own, &[]), Some((Some("http://x/v1/traces".to_owned()), vec![])));
    }

    #[test]
    fn a_preset_knows_address_and_key_of_its_service() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            target(
                &with(TracingPreset::Langsmith),
                &[("LANGSMITH_API_KEY", "k"), ("LANGSMITH_PROJECT", "p")]
            ),
            Some((
                Some("https://api.smith.langchain.com/otel/v1/traces".to_owned()),
                vec![header("langsmith-project", "p"), header("x-api-key", "k")]
            ))
        );
        assert_eq!(
            target(
                &with(TracingPreset::Langfuse),
                &[
                    ("LANGFUSE_PUBLIC_KEY", "a"),
                    ("LANGFUSE_SECRET_KEY", "b"),
                    ("LANGFUSE_BASE_URL", "http://l/")
                ]
            ),
            Some((
                Some("http://l/api/public/otel/v1/traces".to_owned()),
                vec![header("authorization", "Basic YTpi")]
            ))
        );
        assert_eq!(
            target(&with(TracingPreset::Phoenix), &[]),
            Some((Some("http://localhost:6006/v1/traces".to_owned()), vec![]))
        );
    }
}
