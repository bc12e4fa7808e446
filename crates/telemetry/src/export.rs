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

use crate::attributes::{attributes, failure};
use crate::settings::{Content, Target};
use crate::span::{self, Kind, Outcome, Span};

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What says where they go makes no sense.
    #[error("send traces: {0}")]
    Target(String),
}

/// Sends spans. What is handed over waits in a bounded queue; what does not fit is given up.
#[derive(Debug)]
pub(crate) struct Sending {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
    prices: Prices,
    content: Content,
}

impl Sending {
    /// Begins to send to `target`.
    pub fn begin(target: &Target, prices: Prices) -> Result<Self, Error> {
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
        let mut processor = BatchSpanProcessor::builder(Telling::of(exporter, target)).build();
        processor.set_resource(&resource(target));
        let scope = InstrumentationScope::builder("segue").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { processor: Arc::new(processor), scope, prices, content: target.content })
    }

    /// Hands a span over.
    pub fn send(&self, span: &Span) {
        self.processor.on_end(self.data(span));
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

    fn data(&self, span: &Span) -> SpanData {
        SpanData {
            span_context: context(span.trace_id, span.span_id),
            parent_span_id: span.parent_id.map_or(SpanId::INVALID, |id| SpanId::from_bytes(id.short())),
            parent_span_is_remote: false,
            span_kind: if span.kind == Kind::Model { SpanKind::Client } else { SpanKind::Internal },
            name: Cow::Owned(span.name.clone()),
            start_time: time(span.start),
            end_time: time(span.end.unwrap_or(span.start)),
            attributes: attributes(span, &self.prices, self.content),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: links(&span.links),
            status: match failure(span, self.content) {
                Some(reason) => Status::error(reason.to_owned()),
                None if span.outcome == Outcome::Done => Status::Ok,
                None => Status::Unset,
            },
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// Tells once that spans cannot be sent, and once that they can be again.
#[derive(Debug)]
struct Telling {
    exporter: Otlp,
    /// Where they go, as people may see it.
    place: String,
    is_failing: AtomicBool,
}

impl Telling {
    fn of(exporter: Otlp, target: &Target) -> Self {
        let endpoint = target.endpoint.clone();
        let variable = || {
            let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
            names.iter().find_map(|name| std::env::var(name).ok())
        };
        let place = endpoint.or_else(variable).unwrap_or_default();
        // Neither a password in it nor parameters are anybody's business.
        let place = place.split(['?', '#']).next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, host)| host).to_owned();
        Self { exporter, place, is_failing: AtomicBool::new(false) }
    }
}

impl SpanExporter for Telling {
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
                    self.place
                );
            }
            (Ok(()), true) => {
                self.is_failing.store(false, Ordering::Relaxed);
                tracing::info!("traces reach {} again", self.place);
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
fn resource(target: &Target) -> Resource {
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

fn context(trace_id: span::TraceId, span_id: span::SpanId) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(*trace_id.uuid().as_bytes()),
        SpanId::from_bytes(span_id.short()),
        TraceFlags::SAMPLED,
        false,
        TraceState::default(),
    )
}

fn links(links: &[span::Link]) -> SpanLinks {
    let mut told = SpanLinks::default();
    told.links =
        links.iter().map(|link| OtelLink::new(context(link.trace_id, link.span_id), Vec::new(), 0)).collect();
    told
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::from(at)
}
