//! Whether accepted handoffs get to their mirror, in the text form Prometheus reads.

use std::fmt::Write as _;

use agent::{Agent, MirrorReport, MirrorStatus};
use jiff::Timestamp;

/// Returns the lines; none when the journal cannot be read, which other figures tell of.
pub(crate) async fn text(agent: &Agent) -> String {
    match agent.handoffs().mirror_report().await {
        Ok(report) => written(&report, Timestamp::now()),
        Err(error) => {
            tracing::warn!(%error, "failed to see how the mirror is doing");
            String::new()
        }
    }
}

fn written(report: &MirrorReport, now: Timestamp) -> String {
    let (name, waiting) = ("segue_handoff_store_status", "segue_handoff_store_waiting");
    let lag = "segue_handoff_store_lag_seconds";
    let mut text = format!(
        "# HELP {name} Whether accepted handoffs get to their mirror: 1 at the status it has.\n# TYPE {name} gauge\n"
    );
    for status in MirrorStatus::ALL {
        let value = u8::from(status == report.status);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}{{handoff_store_status=\"{}\"}} {value}", status.as_str());
    }
    if report.status != MirrorStatus::Off {
        let _ = writeln!(
            text,
            "# HELP {waiting} Accepted handoffs that wait for the mirror.\n# TYPE {waiting} gauge\n{waiting} {}",
            report.waiting
        );
        let since = report.oldest.map_or(0.0, |oldest| now.duration_since(oldest).as_secs_f64().max(0.0));
        let _ = writeln!(
            text,
            "# HELP {lag} Seconds since the oldest of them was accepted.\n# TYPE {lag} gauge\n{lag} {since}"
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
    fn g16_exactly_one_status_is_1_and_nothing_else_is_told() {
        let now = Timestamp::from_second(90).unwrap();
        let text = written(&report(MirrorStatus::Degraded), now);
        let of = |status: &str| text.lines().find(|line| line.contains(&format!("\"{status}\""))).unwrap();
        assert!(
            of("degraded").ends_with(" 1") && of("ok").ends_with(" 0") && of("off").ends_with(" 0"),
            "{text}"
        );
        assert!(text.contains("\nsegue_handoff_store_waiting 3\n"), "{text}");
        assert!(text.contains("\nsegue_handoff_store_lag_seconds 90\n"), "{text}");
        assert!(!text.contains("postgres") && !text.contains("reach"), "{text}");
        assert!(!written(&report(MirrorStatus::Off), now).contains("waiting"));
    }
}
