//! The export of traces and the metrics of this process. The `telemetry` crate does the work.

use std::sync::Arc;

use telemetry::{TelemetryTotals, TraceExport};

use crate::{AdminService, Result};

impl AdminService<'_> {
    /// Starts the export of traces of this process's commits, to the endpoint of the configuration or of the
    /// standard OTEL variables. Returns `None` if there is no endpoint or the export is already running.
    ///
    /// Must be called on a Tokio runtime, because the export runs there as a task.
    ///
    /// # Errors
    /// Fails if the endpoint is invalid.
    pub fn start_trace_export(self) -> Result<Option<TraceExport>> {
        let traces = TraceExport::start(
            Arc::clone(&self.agent.journal),
            &self.agent.config.tracing,
            &self.agent.config.prices,
        );
        Ok(traces?)
    }

    /// Starts the export of traces as [`Self::start_trace_export`] does, and also counts metrics for a server
    /// ([`Self::trace_metrics`]). An invalid endpoint is logged and not an error.
    pub fn start_trace_export_with_metrics(self) -> Option<TraceExport> {
        let (settings, prices) = (&self.agent.config.tracing, &self.agent.config.prices);
        TraceExport::start_with_metrics(
            Arc::clone(&self.agent.journal),
            settings,
            prices,
            Arc::clone(&self.agent.metrics),
        )
    }

    /// Returns the metrics of this process. They are zero before [`Self::start_trace_export_with_metrics`].
    pub fn trace_metrics(self) -> TelemetryTotals {
        self.agent.metrics.totals()
    }
}
