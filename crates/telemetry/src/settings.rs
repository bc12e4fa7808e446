//! The target of the trace export: the section `[tracing]` of the configuration, and OpenTelemetry's standard environment
//! variables, which take precedence. `attributes` decides what a span contains.
//!
//! The doc comments of [`TracingSettings`] are the text of `segue config keys` and of the book's page on configuration.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The path for traces that OTLP/HTTP specifies below a collector's base URL.
const TRACES_PATH: &str = "/v1/traces";

/// Settings of the trace export. Nothing is exported unless a preset, an endpoint or `OTEL_EXPORTER_OTLP_ENDPOINT` is set.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TracingSettings {
    /// The service to export to. Its URL and key are read from the service's own environment variables.
    pub preset: Option<TracingPreset>,
    /// The full URL that spans are posted to, such as `http://localhost:4318/v1/traces`.
    pub endpoint: Option<String>,
    /// Headers that are sent with the spans, such as one with a key.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// True to export the content of messages, with secrets redacted.
    pub content: bool,
}

/// A tracing service with a known default URL and known headers.
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

/// The target of the export.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExportTarget {
    /// The full URL that spans are posted to. If it is `None`, the exporter reads the standard environment variables.
    pub endpoint: Option<String>,
    /// Headers of each request.
    pub headers: Vec<(String, SecretString)>,
    /// The project in Phoenix that the traces belong to.
    pub project: Option<String>,
    /// The export of message content.
    pub content: ContentPolicy,
}

/// The export of message content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ContentPolicy {
    /// Content is not exported.
    #[default]
    Omit,
    /// Content is exported with its secrets redacted.
    SendRedacted,
}

impl TracingSettings {
    /// Returns the target of the export, or `None` if nothing is configured or the export is disabled. `variable` reads an
    /// environment variable; a blank value counts as unset.
    ///
    /// An endpoint in the standard variables takes precedence over the configuration, and `OTEL_SDK_DISABLED=true` and
    /// `OTEL_TRACES_EXPORTER=none` disable the export.
    pub(crate) fn target(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<ExportTarget> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let has_value = |name: &str, expected: &str| {
            variable(name).is_some_and(|value| value.eq_ignore_ascii_case(expected))
        };
        if has_value("OTEL_SDK_DISABLED", "true") || has_value("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        let has_endpoint_variable = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]
            .iter()
            .any(|name| variable(name).is_some());
        let content = if self.content { ContentPolicy::SendRedacted } else { ContentPolicy::Omit };
        if has_endpoint_variable {
            // The configured headers may contain a key, which must not be sent to another endpoint than the configured one.
            return Some(ExportTarget { content, ..ExportTarget::default() });
        }
        let configured = self.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        let preset = self.preset.map(|preset| preset.target(&variable)).unwrap_or_default();
        let endpoint = self.endpoint.clone().or(preset.endpoint)?;
        // A configured header overrides a header of the preset with the same name.
        let headers = preset.headers.into_iter().chain(configured).collect();
        Some(ExportTarget { endpoint: Some(endpoint), headers, content, project: preset.project })
    }
}

impl TracingPreset {
    /// Returns the target that the service's own environment variables and defaults describe.
    fn target(self, variable: &dyn Fn(&str) -> Option<String>) -> ExportTarget {
        let variable_or = |name: &str, default: &str| variable(name).unwrap_or_else(|| default.to_owned());
        let endpoint =
            |base: String, path: &str| Some(format!("{}{path}{TRACES_PATH}", base.trim_end_matches('/')));
        let header = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value.into()));
        match self {
            Self::Langsmith => ExportTarget {
                endpoint: endpoint(
                    variable_or("LANGSMITH_ENDPOINT", "https://api.smith.langchain.com"),
                    "/otel",
                ),
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
                    endpoint: endpoint(
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
                    endpoint: endpoint(
                        variable_or("PHOENIX_COLLECTOR_ENDPOINT", "http://localhost:6006"),
                        "",
                    ),
                    headers: header("authorization", bearer).into_iter().collect(),
                    project: Some(variable_or("PHOENIX_PROJECT_NAME", "segue")),
                    ..ExportTarget::default()
                }
            }
        }
    }
}

impl ExportTarget {
    /// Returns the headers with their secret values in plain text, as the exporter requires them. Of several headers with
    /// the same name, the last one is used.
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
    fn nothing_is_exported_without_a_configured_target() {
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
    fn a_preset_has_the_url_and_key_of_its_service() {
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
