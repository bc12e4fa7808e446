//! What is counted while the server works, in the text form Prometheus reads. Nothing here tells of anyone's data.
//!
//! `prometheus-client` is not used: it owns the numbers, and nearly all of these are read from other crates when somebody asks;
//! written with its encoder they are as many lines, three crates more, and OpenMetrics, in which a counter's `# TYPE` has
//! another name than its samples.

pub(crate) mod mirror;
pub(crate) mod pool;
pub(crate) mod work;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use scheduler::Figures;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    client_faults: AtomicU64,
    server_faults: AtomicU64,
}

impl Counters {
    /// Returns everything in Prometheus' text form, with what the runs' own room counts.
    pub fn text(&self, runs: Figures, open_streams: u64) -> String {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = [
            ("segue_requests_total", "counter", "Requests answered.", read(&self.requests)),
            (
                "segue_request_client_errors_total",
                "counter",
                "Requests refused (4xx).",
                read(&self.client_faults),
            ),
            (
                "segue_request_server_errors_total",
                "counter",
                "Requests failed (5xx).",
                read(&self.server_faults),
            ),
            ("segue_streams_open", "gauge", "Event streams that are open.", open_streams),
            ("segue_threads_working", "gauge", "Threads something works on.", runs.working as u64),
            (
                "segue_runs_waiting",
                "gauge",
                "Runs that wait, and other work on threads.",
                runs.waiting as u64,
            ),
            (
                "segue_runs_followed",
                "gauge",
                "Runs of other servers that clients of this one follow.",
                runs.followed as u64,
            ),
            (
                "segue_runs_taken_over_total",
                "counter",
                "Runs gone on with that servers which are gone had begun.",
                runs.taken_over as u64,
            ),
            (
                "segue_runs_taken_in_total",
                "counter",
                "Runs put in line here that waited for servers which are gone.",
                runs.taken_in as u64,
            ),
            ("segue_runs_lost_total", "counter", "Runs that other servers took over.", runs.lost as u64),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}

/// Counts a request by its outcome, and logs it: by its path, never by its parameters, headers or body, which may hold
/// secrets.
pub(crate) async fn count(State(counters): State<Arc<Counters>>, request: Request, next: Next) -> Response {
    let asked = tracing::enabled!(tracing::Level::DEBUG)
        .then(|| (request.method().clone(), request.uri().path().to_owned(), Instant::now()));
    let response = next.run(request).await;
    if let Some((method, path, begun)) = asked {
        let (status, duration_ms) = (response.status().as_u16(), begun.elapsed().as_millis());
        tracing::debug!(%method, path, status, duration_ms, "answered a request");
    }
    counters.requests.fetch_add(1, Ordering::Relaxed);
    if response.status().is_client_error() {
        counters.client_faults.fetch_add(1, Ordering::Relaxed);
    } else if response.status().is_server_error() {
        counters.server_faults.fetch_add(1, Ordering::Relaxed);
    }
    response
}
