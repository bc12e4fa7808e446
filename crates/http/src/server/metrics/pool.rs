//! How the connections to databases are used, in the text form Prometheus reads: those of the journal, and those of the mirror.

use std::fmt::Write as _;

use agent::{Agent, PoolFigures};

/// Returns the lines; none where there are no connections.
pub(crate) fn text(agent: &Agent) -> String {
    written(&[("main", agent.admin().connections()), ("mirror", agent.handoffs().mirror_connections())])
}

fn written(pools: &[(&str, Option<PoolFigures>)]) -> String {
    type Read = fn(&PoolFigures) -> f64;
    let rows: [(&str, &str, &str, Read); 9] = [
        ("connections", "gauge", "Connections there are.", |pool| pool.connections.into()),
        ("connections_idle", "gauge", "Connections that nobody uses.", |pool| pool.idle.into()),
        ("connections_max", "gauge", "The most connections there may be.", |pool| pool.max.into()),
        ("gets_total", "counter", "How often a connection was asked for.", |pool| number(pool.gets)),
        ("waits_total", "counter", "How often one had to be waited for.", |pool| number(pool.waited)),
        ("timeouts_total", "counter", "How often none came free in time.", |pool| number(pool.timed_out)),
        ("wait_seconds_total", "counter", "How long all waited together.", |pool| pool.wait.as_secs_f64()),
        ("created_total", "counter", "Connections that were made.", |pool| number(pool.created)),
        ("broken_total", "counter", "Connections that broke.", |pool| number(pool.broken)),
    ];
    let mut text = String::new();
    if pools.iter().all(|(_, figures)| figures.is_none()) {
        return text;
    }
    for (name, kind, help, read) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP segue_database_{name} {help}\n# TYPE segue_database_{name} {kind}");
        for (pool, figures) in pools {
            if let Some(figures) = figures {
                let _ = writeln!(text, "segue_database_{name}{{pool=\"{pool}\"}} {}", read(figures));
            }
        }
    }
    text
}

/// Prometheus knows no other numbers; what no longer fits exactly is counted in years.
#[expect(clippy::cast_precision_loss, reason = "counters stay far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_pool_has_its_lines_and_a_file_has_none() {
        let main = PoolFigures {
            connections: 4,
            idle: 1,
            max: 10,
            waited: 3,
            timed_out: 1,
            wait: Duration::from_millis(1_500),
            ..PoolFigures::default()
        };
        let text = written(&[("main", Some(main)), ("mirror", None)]);
        for line in [
            "segue_database_connections{pool=\"main\"} 4",
            "segue_database_connections_idle{pool=\"main\"} 1",
            "segue_database_connections_max{pool=\"main\"} 10",
            "segue_database_waits_total{pool=\"main\"} 3",
            "segue_database_timeouts_total{pool=\"main\"} 1",
            "segue_database_wait_seconds_total{pool=\"main\"} 1.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("mirror"));
        assert_eq!(text.matches("# TYPE").count(), 9);
        assert_eq!(written(&[("main", None), ("mirror", None)]), "");
    }
}
