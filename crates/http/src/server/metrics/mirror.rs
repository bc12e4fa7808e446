//! Metrics of the mirror, which is the export of accepted handoffs to a PostgreSQL table, in Prometheus' text format.
//! The metric names contain `handoff_store`, because dashboards depend on them. No metric contains the address of the
//! database or the text of an error, which may contain secrets.

use std::fmt::Write as _;

use agent::{Agent, MirrorReport, MirrorStatus};
use jiff::Timestamp;

/// Returns the metrics; empty if the journal cannot be read, so that the other metrics are still served.
pub(crate) async fn mirror_metrics(agent: &Agent) -> String {
    match agent.handoffs().mirror_report().await {
        Ok(report) => render_report(&report, Timestamp::now()),
        Err(error) => {
            tracing::warn!(%error, "failed to read the status of the mirror");
            String::new()
        }
    }
}

/// Renders the status and, unless the mirror is off, the number of waiting handoffs and their lag. The status is one
/// gauge for each possible status, of which the current one has the value 1.
fn render_report(report: &MirrorReport, now: Timestamp) -> String {
    let (name, waiting) = ("segue_handoff_store_status", "segue_handoff_store_waiting");
    let lag = "segue_handoff_store_lag_seconds";
    let mut text = format!(
        "# HELP {name} Status of the export of accepted handoffs; the current one has the value 1.\n# TYPE {name} gauge\n"
    );
    for status in MirrorStatus::ALL {
        let value = u8::from(status == report.status);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}{{handoff_store_status=\"{}\"}} {value}", status.as_str());
    }
    if report.status != MirrorStatus::Off {
        let _ = writeln!(
            text,
            "# HELP {waiting} Accepted handoffs that wait for export to the mirror.\n# TYPE {waiting} gauge\n{waiting} {}",
            report.waiting
        );
        let lag_seconds =
            report.oldest.map_or(0.0, |oldest| now.duration_since(oldest).as_secs_f64().max(0.0));
        let _ = writeln!(
            text,
            "# HELP {lag} Seconds since the oldest waiting handoff was accepted.\n# TYPE {lag} gauge\n{lag} {lag_seconds}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(status: MirrorStatus) -> MirrorReport {
        MirrorReport {
            status,
            location: Some("postgres://ann@db/copy".to_owned()),
            waiting: 3,
            oldest: Some(Timestamp::UNIX_EPOCH),
            last_success: None,
            last_error: Some("reach the database".to_owned()),
            last_error_at: None,
            hint: None,
            rejected: None,
        }
    }

    #[test]
    fn g16_exactly_one_status_has_the_value_1_and_no_data_is_shown() {
        let now = Timestamp::from_second(90).unwrap();
        let text = render_report(&report(MirrorStatus::Degraded), now);
        let line_of =
            |status: &str| text.lines().find(|line| line.contains(&format!("\"{status}\""))).unwrap();
        assert!(
            line_of("degraded").ends_with(" 1")
                && line_of("ok").ends_with(" 0")
                && line_of("off").ends_with(" 0"),
            "{text}"
        );
        assert!(text.contains("\nsegue_handoff_store_waiting 3\n"), "{text}");
        assert!(text.contains("\nsegue_handoff_store_lag_seconds 90\n"), "{text}");
        assert!(!text.contains("postgres") && !text.contains("reach"), "{text}");
        assert!(!render_report(&report(MirrorStatus::Off), now).contains("waiting"));
    }
}
