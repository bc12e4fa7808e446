//! When what was committed, as the database has it, and how long something took. Everything is on one machine and goes by
//! its one clock, in seconds.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use postgres::{Connection, SqlValue};

use crate::client::BenchRun;

/// Returns the present.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The database that is measured.
pub struct TimingDatabase(Connection);

impl TimingDatabase {
    /// Returns that database.
    pub fn open(url: &str) -> Self {
        let target = url.parse().expect("it is a URL");
        Self(Connection::open(&target).expect("the server runs"))
    }

    /// Returns when which event of the thread was committed.
    pub fn commit_times(&self, thread: &str) -> BTreeMap<u64, f64> {
        let rows = self.rows(
            "SELECT seq::text || ' ' || extract(epoch FROM pg_xact_commit_timestamp(events.xmin))::text \
             FROM events JOIN thread_heads USING (thread_key) WHERE thread_id = $1",
            thread,
        );
        rows.iter()
            .filter_map(|row| row.split_once(' '))
            .map(|(seq, time)| (parse_number(seq), parse_number(time)))
            .collect()
    }

    /// Returns when it was committed that the run began.
    pub fn start_time(&self, run: &BenchRun) -> f64 {
        self.first_event_time(run, "run_started")
    }

    /// Returns when it was committed that the run ended.
    pub fn end_time(&self, run: &BenchRun) -> f64 {
        self.first_event_time(run, "run_ended")
    }

    fn first_event_time(&self, run: &BenchRun, kind: &str) -> f64 {
        let of_run = format!("{}{kind}", run.run.replace('-', ""));
        let rows = self.rows(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::text FROM events \
             WHERE encode(run_id, 'hex') || event_type = $1 ORDER BY seq LIMIT 1",
            &of_run,
        );
        rows.first().map(|time| parse_number(time)).expect("the run is there")
    }

    fn rows(&self, sql: &str, value: &str) -> Vec<String> {
        let rows = self.0.query(sql, &[SqlValue::from(value)]).expect("the server answers");
        rows.iter().filter_map(|row| row.text(0).expect("it is a text")).collect()
    }
}

fn parse_number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("it is a number")
}

/// When a client heard first of which event.
pub struct EventArrivals {
    since: f64,
    times: BTreeMap<u64, f64>,
}

impl EventArrivals {
    /// Returns what a client has heard whose stream was open then: nothing.
    pub fn starting_at(since: f64) -> Self {
        Self { since, times: BTreeMap::new() }
    }

    /// Notes that something of that event was heard.
    pub fn record(&mut self, seq: u64, time: f64) {
        self.times.entry(seq).or_insert(time);
    }

    /// Returns how long the events were on their way that were committed while the stream was open.
    pub fn delays(&self, commits: &BTreeMap<u64, f64>) -> Vec<f64> {
        let both = self.times.iter().filter_map(|(seq, heard)| Some((*commits.get(seq)?, *heard)));
        both.filter(|(committed, _)| *committed > self.since)
            .map(|(committed, heard)| heard - committed)
            .collect()
    }
}

/// How long something took each time, in seconds.
#[derive(Default)]
pub struct DurationSamples(Vec<f64>);

impl DurationSamples {
    /// The header of the table.
    pub const TABLE_HEADER: &str = "     p50      p99      max";

    /// Adds one.
    pub fn push(&mut self, time: f64) {
        self.0.push(time);
    }

    /// Adds some.
    pub fn extend(&mut self, times: impl IntoIterator<Item = f64>) {
        self.0.extend(times);
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl std::fmt::Display for DurationSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
        for share in [50, 99, 100] {
            write!(f, "{:>8.2} ", at(share).map_or(f64::NAN, |time| time * 1e3))?;
        }
        Ok(())
    }
}
