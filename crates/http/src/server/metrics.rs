//! Request metrics of the server, in Prometheus' text format. They contain no user data.
//!
//! `prometheus-client` is not used: it owns the numbers, but nearly all of these numbers are read from other crates at
//! the time of a scrape. With its encoder the code would have as many lines and three more dependencies. It also writes
//! OpenMetrics, in which a counter's `# TYPE` line has another name than its samples.

pub(crate) mod activity;
pub(crate) mod mirror;
pub(crate) mod pool;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use scheduler::SchedulerMetrics;

/// Counters of the requests that this process has answered.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    /// All responses.
    requests: AtomicU64,
    /// Responses with a status 4xx.
    client_errors: AtomicU64,
    /// Responses with a status 5xx.
    server_errors: AtomicU64,
}

impl RequestCounters {
    /// Returns the request counters and the metrics of the scheduler, in Prometheus' text format.
    pub fn render_text(&self, runs: SchedulerMetrics, open_streams: u64) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = [
            ("segue_requests_total", "counter", "Requests answered.", read(&self.requests)),
            (
                "segue_request_client_errors_total",
                "counter",
                "Requests refused (4xx).",
                read(&self.client_errors),
            ),
            (
                "segue_request_server_errors_total",
                "counter",
                "Requests failed (5xx).",
                read(&self.server_errors),
            ),
            ("segue_streams_open", "gauge", "Open event streams.", open_streams),
            (
                "segue_threads_working",
                "gauge",
                "Threads with an active run or other active work.",
                runs.busy_threads as u64,
            ),
            (
                "segue_runs_waiting",
                "gauge",
                "Queued runs and other queued work on threads.",
                runs.queued as u64,
            ),
            (
                "segue_runs_followed",
                "gauge",
                "Runs of other servers that clients of this one follow.",
                runs.followed_remote as u64,
            ),
            (
                "segue_runs_taken_over_total",
                "counter",
                "Active runs of dead servers that this one took over.",
                runs.taken_over as u64,
            ),
            (
                "segue_runs_taken_in_total",
                "counter",
                "Queued runs of dead servers that this one claimed.",
                runs.claimed_queued as u64,
            ),
            (
                "segue_runs_lost_total",
                "counter",
                "Runs that other servers took over from this one.",
                runs.lost_runs as u64,
            ),
        ];
        render_rows(rows.into_iter().chain(verification_rows(runs)))
    }
}

/// A metric with its type, its description and its value.
type MetricRow = (&'static str, &'static str, &'static str, u64);

/// Returns the metrics of the verification of stored events.
const fn verification_rows(runs: SchedulerMetrics) -> [MetricRow; 2] {
    [
        (
            "segue_events_verified_total",
            "counter",
            "Stored events compared with their checksums.",
            runs.verified_events as u64,
        ),
        (
            "segue_events_damaged",
            "gauge",
            "Damaged events that the latest verification has found.",
            runs.damaged_events as u64,
        ),
    ]
}

/// Renders metrics in Prometheus' text format.
fn render_rows(rows: impl Iterator<Item = MetricRow>) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    text
}

/// Counts a request by its outcome and logs its path at debug level. Query, headers and body are never logged, because
/// they may contain secrets.
pub(crate) async fn count_request(
    State(counters): State<Arc<RequestCounters>>,
    request: Request,
    next: Next,
) -> Response {
    let log_context = tracing::enabled!(tracing::Level::DEBUG)
        .then(|| (request.method().clone(), request.uri().path().to_owned(), Instant::now()));
    let response = next.run(request).await;
    if let Some((method, path, started_at)) = log_context {
        let (status, duration_ms) = (response.status().as_u16(), started_at.elapsed().as_millis());
        tracing::debug!(%method, path, status, duration_ms, "answered a request");
    }
    counters.requests.fetch_add(1, Ordering::Relaxed);
    if response.status().is_client_error() {
        counters.client_errors.fetch_add(1, Ordering::Relaxed);
    } else if response.status().is_server_error() {
        counters.server_errors.fetch_add(1, Ordering::Relaxed);
    }
    response
}
