//! Metrics of the database connection pools, in Prometheus' text format. The label `pool` is `main` for the journal's
//! pool and `mirror` for the pool of the export of handoffs. A journal in a file has no pool.

use std::fmt::Write as _;

use agent::{Agent, PoolStatistics};

/// Returns the metrics of all pools; empty if no pool is in use.
pub(crate) fn pool_metrics(agent: &Agent) -> String {
    render_pools(&[
        ("main", agent.admin().connection_metrics()),
        ("mirror", agent.handoffs().mirror_connection_metrics()),
    ])
}

/// Renders one metric after the other, each with a row for every pool in use.
fn render_pools(pools: &[(&str, Option<PoolStatistics>)]) -> String {
    type ReadMetric = fn(&PoolStatistics) -> f64;
    // Name without its prefix, type, help text, and value.
    let rows: [(&str, &str, &str, ReadMetric); 9] = [
        ("connections", "gauge", "Open connections.", |pool| pool.connections.into()),
        ("connections_idle", "gauge", "Idle connections.", |pool| pool.idle.into()),
        ("connections_max", "gauge", "Maximum number of connections.", |pool| pool.max.into()),
        ("gets_total", "counter", "Connections requested from the pool.", |pool| to_f64(pool.checkouts)),
        ("waits_total", "counter", "Requests that had to wait for a connection.", |pool| to_f64(pool.waits)),
        ("timeouts_total", "counter", "Requests that timed out without a connection.", |pool| {
            to_f64(pool.timeouts)
        }),
        ("wait_seconds_total", "counter", "Total time spent waiting for a connection, in seconds.", |pool| {
            pool.total_wait.as_secs_f64()
        }),
        ("created_total", "counter", "Connections created.", |pool| to_f64(pool.created)),
        ("broken_total", "counter", "Connections closed because of an error.", |pool| to_f64(pool.broken)),
    ];
    let mut text = String::new();
    if pools.iter().all(|(_, metrics)| metrics.is_none()) {
        return text;
    }
    for (name, kind, help, read) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP segue_database_{name} {help}\n# TYPE segue_database_{name} {kind}");
        for (pool, metrics) in pools {
            if let Some(metrics) = metrics {
                let _ = writeln!(text, "segue_database_{name}{{pool=\"{pool}\"}} {}", read(metrics));
            }
        }
    }
    text
}

/// Converts a count to `f64`, the only number type of Prometheus.
#[expect(clippy::cast_precision_loss, reason = "counters stay far below 2^53")]
const fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_pool_has_its_rows_and_a_file_database_has_none() {
        let main = PoolStatistics {
            connections: 4,
            idle: 1,
            max: 10,
            waits: 3,
            timeouts: 1,
            total_wait: Duration::from_millis(1_500),
            ..PoolStatistics::default()
        };
        let text = render_pools(&[("main", Some(main)), ("mirror", None)]);
        for line in [
            "segue_database_connections{pool=\"main\"} 4",
            "segue_database_connections_idle{pool=\"main\"} 1",
            "segue_database_connections_max{pool=\"main\"} 10",
            "segue_database_waits_total{pool=\"main\"} 3",
            "segue_database_timeouts_total{pool=\"main\"} 1",
            "segue_database_wait_seconds_total{pool=\"main\"} 1.5",
        ] {
            assert!(text.lines().any(|text_line| text_line == line), "{line} in {text}");
        }
        assert!(!text.contains("mirror"));
        assert_eq!(text.matches("# TYPE").count(), 9);
        assert_eq!(render_pools(&[("main", None), ("mirror", None)]), "");
    }
}
