//! Exports spans over OTLP/HTTP, in batches and from a background thread. Only this module and `attributes` use the
//! OpenTelemetry crates.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use model::prices::Prices;
use opentelemetry::trace::{
    Link as OtelLink, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor,
};

use crate::attributes::{failure_text, span_attributes};
use crate::settings::{ContentPolicy, ExportTarget};
use crate::span::{self, SpanOutcome, TraceSpan, TraceSpanKind};

/// An error in the configuration of the trace export. The message continues "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured destination is invalid.
    #[error("send traces: {0}")]
    Target(String),
}

/// Sends spans to a collector. Spans are queued; a span that does not fit into the full queue is dropped. The batch
/// processor of the OpenTelemetry SDK sets the size of the queue and of a batch.
#[derive(Debug)]
pub(crate) struct SpanSender {
    processor: Arc<BatchSpanProcessor>,
    /// The instrumentation scope of all spans: `segue` and its version.
    scope: InstrumentationScope,
    /// Prices for the cost of model calls.
    prices: Prices,
    /// The export of message content.
    content: ContentPolicy,
}

impl SpanSender {
    /// Starts the background thread that sends spans to `target`.
    ///
    /// # Errors
    /// If the endpoint or a header is invalid, or the HTTP client cannot be built.
    pub fn start(target: &ExportTarget, prices: Prices) -> Result<Self, Error> {
        http_client::install_crypto_provider();
        let mut builder = Otlp::builder().with_http();
        let headers = target.exposed_headers();
        if !headers.is_empty() {
            builder = builder.with_headers(headers);
        }
        if let Some(endpoint) = &target.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        // The exporter builds a blocking HTTP client, which must not happen on a thread of the async runtime.
        let exporter = std::thread::spawn(move || builder.build()).join();
        let exporter = exporter
            .map_err(|_| Error::Target("cannot create the HTTP client".to_owned()))?
            // The message quotes the endpoint, which may contain a password.
            .map_err(|error| Error::Target(secrets::redact(&error.to_string()).into_owned()))?;
        let mut processor = BatchSpanProcessor::builder(OutageLog::new(exporter, target)).build();
        processor.set_resource(&export_resource(target));
        let scope = InstrumentationScope::builder("segue").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { processor: Arc::new(processor), scope, prices, content: target.content })
    }

    /// Queues a finished span. Never waits.
    pub fn send_span(&self, span: &TraceSpan) {
        self.processor.on_end(self.to_span_data(span));
    }

    /// Sends the queued spans. Returns when they were sent, when sending failed, or after `wait_max`, which is logged.
    pub async fn flush(&self, wait_max: Duration) {
        let processor = Arc::clone(&self.processor);
        let flushed = tokio::task::spawn_blocking(move || processor.force_flush());
        // `OutageLog` has logged a failure to send.
        if tokio::time::timeout(wait_max, flushed).await.is_err() {
            tracing::warn!(
                "failed to send all traces before the end: the collector does not answer; `segue trace` shows them"
            );
        }
    }

    /// Converts a span into the form of the OpenTelemetry SDK. Model calls are client spans, all others internal.
    fn to_span_data(&self, span: &TraceSpan) -> SpanData {
        SpanData {
            span_context: span_context(span.trace_id, span.span_id),
            parent_span_id: span.parent_id.map_or(SpanId::INVALID, |id| SpanId::from_bytes(id.otel_id())),
            parent_span_is_remote: false,
            span_kind: if span.kind == TraceSpanKind::Model { SpanKind::Client } else { SpanKind::Internal },
            name: Cow::Owned(span.name.clone()),
            start_time: to_system_time(span.start),
            end_time: to_system_time(span.end.unwrap_or(span.start)),
            attributes: span_attributes(span, &self.prices, self.content),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: span_links(&span.links),
            status: match failure_text(span, self.content) {
                Some(reason) => Status::error(reason.to_owned()),
                None if span.outcome == SpanOutcome::Done => Status::Ok,
                None => Status::Unset,
            },
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// An exporter that logs when an outage of the collector begins and when it ends, instead of once for each batch.
#[derive(Debug)]
struct OutageLog {
    exporter: Otlp,
    /// The endpoint as it is logged: without user information, query and fragment.
    endpoint: String,
    /// True if the last export failed.
    is_failing: AtomicBool,
}

impl OutageLog {
    /// Wraps an exporter that sends to `target`, or to the endpoint in the standard variables.
    fn new(exporter: Otlp, target: &ExportTarget) -> Self {
        let endpoint = target.endpoint.clone();
        let variable = || {
            let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
            names.iter().find_map(|name| std::env::var(name).ok())
        };
        let url = endpoint.or_else(variable).unwrap_or_default();
        // The user information and the query may contain secrets.
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let endpoint = url.rsplit_once('@').map_or(url, |(_, host)| host).to_owned();
        Self { exporter, endpoint, is_failing: AtomicBool::new(false) }
    }
}

impl SpanExporter for OutageLog {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        match (&result, self.is_failing.load(Ordering::Relaxed)) {
            (Err(error), false) => {
                self.is_failing.store(true, Ordering::Relaxed);
                let error = secrets::redact(&error.to_string()).into_owned();
                tracing::warn!(
                    %error, spans = count,
                    "failed to send traces to {}; the events are in the journal, and `segue trace` shows them",
                    self.endpoint
                );
            }
            (Ok(()), true) => {
                self.is_failing.store(false, Ordering::Relaxed);
                tracing::info!("traces reach {} again", self.endpoint);
            }
            (Ok(()), false) | (Err(_), true) => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Returns the resource that describes this process. A service name in `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES`
/// takes precedence over `segue`.
fn export_resource(target: &ExportTarget) -> Resource {
    let has_service_name = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES")
            .is_ok_and(|attributes| attributes.contains("service.name"));
    let mut builder = Resource::builder();
    if !has_service_name {
        builder = builder.with_service_name("segue");
    }
    let project = target.project.clone();
    let project = project.map(|project| KeyValue::new("openinference.project.name", project));
    builder
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(project)
        .build()
}

/// Returns the ids of a span in OpenTelemetry's form. Every span is marked as sampled.
fn span_context(trace_id: span::TraceId, span_id: span::SpanId) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(*trace_id.uuid().as_bytes()),
        SpanId::from_bytes(span_id.otel_id()),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    )
}

/// Converts the links of a span.
fn span_links(links: &[span::TraceSpanLink]) -> SpanLinks {
    let mut span_links = SpanLinks::default();
    span_links.links = links
        .iter()
        .map(|link| OtelLink::new(span_context(link.trace_id, link.span_id), Vec::new(), 0))
        .collect();
    span_links
}

fn to_system_time(timestamp: Timestamp) -> SystemTime {
    SystemTime::from(timestamp)
}
