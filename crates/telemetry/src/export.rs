//! Sending spans over OTLP: in batches, from a thread of its own. The one place that knows OpenTelemetry's SDK.

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

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured destination is invalid.
    #[error("send traces: {0}")]
    Target(String),
}

/// Sends spans. What is handed over waits in a bounded queue; what does not fit is given up.
#[derive(Debug)]
pub(crate) struct SpanSender {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
    prices: Prices,
    content: ContentPolicy,
}

impl SpanSender {
    /// Begins to send to `target`.
    pub fn start(target: &ExportTarget, prices: Prices) -> Result<Self, Error> {
        let mut builder = Otlp::builder().with_http();
        let headers = target.exposed_headers();
        if !headers.is_empty() {
            builder = builder.with_headers(headers);
        }
        if let Some(endpoint) = &target.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        // The client must not be made on a thread of the runtime.
        let built = std::thread::spawn(move || builder.build()).join();
        let exporter = built
            .map_err(|_| Error::Target("the client could not be made".to_owned()))?
            // It quotes what it was given, a password in an address too.
            .map_err(|error| Error::Target(facts::redact(&error.to_string()).into_owned()))?;
        let mut processor = BatchSpanProcessor::builder(OutageLog::new(exporter, target)).build();
        processor.set_resource(&export_resource(target));
        let scope = InstrumentationScope::builder("segue").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { processor: Arc::new(processor), scope, prices, content: target.content })
    }

    /// Hands a span over.
    pub fn send_span(&self, span: &TraceSpan) {
        self.processor.on_end(self.to_span_data(span));
    }

    /// Sends what waits, and returns when that is done, has failed, or took too long.
    pub async fn flush(&self, wait_max: Duration) {
        let processor = Arc::clone(&self.processor);
        let flushed = tokio::task::spawn_blocking(move || processor.force_flush());
        // What failed was told when it did.
        if tokio::time::timeout(wait_max, flushed).await.is_err() {
            tracing::warn!(
                "failed to send all traces before the end: the collector does not answer; `segue trace` shows them"
            );
        }
    }

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

/// Tells once that spans cannot be sent, and once that they can be again.
#[derive(Debug)]
struct OutageLog {
    exporter: Otlp,
    /// Where they go, as people may see it.
    endpoint: String,
    is_failing: AtomicBool,
}

impl OutageLog {
    fn new(exporter: Otlp, target: &ExportTarget) -> Self {
        let endpoint = target.endpoint.clone();
        let variable = || {
            let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
            names.iter().find_map(|name| std::env::var(name).ok())
        };
        let place = endpoint.or_else(variable).unwrap_or_default();
        // Neither a password in it nor parameters are anybody's business.
        let place = place.split(['?', '#']).next().unwrap_or_default();
        let endpoint = place.rsplit_once('@').map_or(place, |(_, host)| host).to_owned();
        Self { exporter, endpoint, is_failing: AtomicBool::new(false) }
    }
}

impl SpanExporter for OutageLog {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let outcome = self.exporter.export(batch).await;
        match (&outcome, self.is_failing.load(Ordering::Relaxed)) {
            (Err(error), false) => {
                self.is_failing.store(true, Ordering::Relaxed);
                let error = facts::redact(&error.to_string()).into_owned();
                tracing::warn!(
                    %error, spans = count,
                    "failed to send traces to {}: what happened is in the journal, and `segue trace` shows it",
                    self.endpoint
                );
            }
            (Ok(()), true) => {
                self.is_failing.store(false, Ordering::Relaxed);
                tracing::info!("traces reach {} again", self.endpoint);
            }
            (Ok(()), false) | (Err(_), true) => {}
        }
        outcome
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

/// Returns what is told of this process: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first.
fn export_resource(target: &ExportTarget) -> Resource {
    let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some()
        || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|all| all.contains("service.name"));
    let mut builder = Resource::builder();
    if !is_named {
        builder = builder.with_service_name("segue");
    }
    let project = target.project.clone();
    let project = project.map(|project| KeyValue::new("openinference.project.name", project));
    builder
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(project)
        .build()
}

fn span_context(trace_id: span::TraceId, span_id: span::SpanId) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(*trace_id.uuid().as_bytes()),
        SpanId::from_bytes(span_id.otel_id()),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    )
}

fn span_links(links: &[span::TraceSpanLink]) -> SpanLinks {
    let mut told = SpanLinks::default();
    told.links = links
        .iter()
        .map(|link| OtelLink::new(span_context(link.trace_id, link.span_id), Vec::new(), 0))
        .collect();
    told
}

fn to_system_time(at: Timestamp) -> SystemTime {
    SystemTime::from(at)
}
