//! `cargo xtask simulate-scale [--threads N] [--messages N] [--indexed N] [--partition]`: fills a PostgreSQL journal with many threads,
//! and measures what a page of threads, a page of a history, a search, a handoff and a run cost there.
//!
//! The rows are written by SQL inside the database. The measurements use the built program over HTTP. With `--partition`, the
//! events are then moved to partitions by the hash of their thread, and everything is measured again.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::harness::client::{HttpClient, new_thread_id};
use super::harness::home::BenchHome;
use super::harness::model::ModelServer;
use super::harness::postgres::PostgresProcess;
use super::harness::server::ServeProcess;
use super::harness::statistics::percentile;
use super::harness::{BenchContext, BenchPrograms};
use super::report::Measurement;
use super::rows::handoffs::{DRAFT, decide_handoff, draft_handoff};

/// The scripts that fill the tables of the journal, in this order.
const PREPARE_SQL: &str = include_str!("scale/prepare.sql");
const EVENTS_SQL: &str = include_str!("scale/events.sql");
const FINISH_SQL: &str = include_str!("scale/finish.sql");
/// Moves the events to partitions.
const PARTITION_SQL: &str = include_str!("scale/partition.sql");
/// The key below that of each generated thread.
const FIRST_KEY: u64 = 1_000;
/// Requests of each kind; the median is the result.
const REQUESTS: u64 = 15;
/// Requests of a page of threads, which counts all of them.
const LIST_REQUESTS: u64 = 2;
/// Length of the thread that is handed off, in messages.
const HANDOFF_MESSAGES: usize = 120;
/// Tables whose sizes are printed.
const TABLES: [&str; 4] = ["thread_heads", "threads", "events", "search_index"];

/// The size of the simulated journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScaleOptions {
    threads: u64,
    messages: u64,
    /// Threads whose messages are in the search index.
    indexed: u64,
    is_partitioned: bool,
}

impl ScaleOptions {
    fn parse(args: &[String]) -> anyhow::Result<Self> {
        let mut options = Self { threads: 1_000_000, messages: 2, indexed: u64::MAX, is_partitioned: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number =
                || args.next().and_then(|value| value.parse().ok()).context("the option needs a number");
            match arg.as_str() {
                "--threads" => options.threads = number()?,
                "--messages" => options.messages = number()?,
                "--indexed" => options.indexed = number()?,
                "--partition" => options.is_partitioned = true,
                unknown => bail!("unknown argument `{unknown}`"),
            }
        }
        options.indexed = options.indexed.min(options.threads);
        Ok(options)
    }
}

/// Fills a journal and measures it. Prints the sizes and the results.
///
/// # Errors
/// If an argument is unknown, PostgreSQL refuses a statement, or a request fails.
pub fn simulate_scale(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let options = ScaleOptions::parse(args)?;
    let programs = super::build_programs(root)?;
    let folder = programs.target_folder.join("bench").join("scale");
    super::rows::remove_folder(&folder)?;
    let context = BenchContext { programs, folder };
    let result = simulate(&context, options);
    super::rows::remove_folder(&context.folder)?;
    result
}

fn simulate(context: &BenchContext, options: ScaleOptions) -> anyhow::Result<()> {
    let BenchPrograms { target_folder, .. } = &context.programs;
    let machine = super::machine::MachineFigures::measure(&target_folder.join("bench"))?;
    println!("{}", machine.text());
    let postgres = PostgresProcess::start(&context.programs)?;
    let model = ModelServer::start_with_answer(context, DRAFT)?;
    let home = BenchHome::create(context, "scale")?;
    home.configure(&model.config(&format!("[database]\nurl = \"{}\"\n", postgres.socket_url())))?;
    let thread_id = home.import_session(HANDOFF_MESSAGES)?;
    let start = Instant::now();
    fill_journal(&postgres, options)?;
    println!(
        "{} threads of {} messages written in {:.0} s, the messages of {} threads in the search index",
        options.threads,
        options.messages,
        start.elapsed().as_secs_f64(),
        options.indexed
    );
    print_sizes(&postgres)?;
    measure_requests(&home, options, &thread_id)?;
    if options.is_partitioned {
        let start = Instant::now();
        postgres.run_script(PARTITION_SQL, &[])?;
        println!("events moved to 16 partitions in {:.0} s", start.elapsed().as_secs_f64());
        measure_requests(&home, options, &thread_id)?;
    }
    Ok(())
}

/// Writes the rows, the messages from two connections at once.
fn fill_journal(postgres: &PostgresProcess, options: ScaleOptions) -> anyhow::Result<()> {
    let ScaleOptions { threads, messages, indexed, .. } = options;
    let sizes =
        [("threads", threads), ("messages", messages), ("indexed", indexed), ("first_key", FIRST_KEY)];
    postgres.run_script(PREPARE_SQL, &sizes)?;
    let middle = FIRST_KEY + threads / 2;
    let write_events =
        |low, high| postgres.run_script(EVENTS_SQL, &[("messages", messages), ("low", low), ("high", high)]);
    std::thread::scope(|scope| {
        let first_half = scope.spawn(|| write_events(FIRST_KEY, middle));
        write_events(middle, FIRST_KEY + threads)?;
        first_half.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })?;
    postgres.run_script(FINISH_SQL, &sizes)
}

/// Prints the rows and bytes of the largest tables with their indexes.
fn print_sizes(postgres: &PostgresProcess) -> anyhow::Result<()> {
    for table in TABLES {
        let sql = format!(
            "SELECT reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class WHERE oid = '{table}'::regclass"
        );
        let row = postgres.query(&sql)?.pop().unwrap_or_default();
        let numbers: Vec<f64> = row.split('|').filter_map(|number| number.parse().ok()).collect();
        let [rows, bytes, index_bytes] = numbers[..] else { bail!("read the size of {table}: {row}") };
        println!(
            "  {table:<14} {rows:>12.0} rows, {:>8.2} GB and {:.2} GB of indexes, {:.0} bytes a row",
            bytes / 1e9,
            index_bytes / 1e9,
            (bytes + index_bytes) / rows.max(1.0)
        );
    }
    Ok(())
}

/// Measures requests of a new server and prints their medians and slowest times.
fn measure_requests(home: &BenchHome, options: ScaleOptions, handoff_thread: &str) -> anyhow::Result<()> {
    let server = ServeProcess::start(home)?;
    let mut client = server.connect()?;
    let thread = |number: u64| {
        // A multiplicative step visits threads all over the table.
        format!("01900000-0000-7000-8000-{:012x}", number.wrapping_mul(2_654_435_761) % options.threads + 1)
    };
    measure(&mut client, LIST_REQUESTS, "first page of the thread list", |client, _| {
        get(client, "/api/threads?limit=50")
    })?;
    measure(&mut client, LIST_REQUESTS, "a page of the thread list at offset 10,000", |client, _| {
        get(client, "/api/threads?limit=50&offset=10000")
    })?;
    measure(&mut client, REQUESTS, "newest page of a history", |client, number| {
        get(client, &format!("/api/threads/{}/history", thread(number)))
    })?;
    measure(&mut client, REQUESTS, "search for one word", |client, number| {
        get(client, &format!("/api/search?q=term{}", number * 37))
    })?;
    measure(&mut client, REQUESTS, "search for two words", |client, number| {
        get(
            client,
            &format!(
                "/api/search?q=term{}+term{}",
                number * 7_919 % 100_000,
                (number * 104_729 + 1) % 100_000
            ),
        )
    })?;
    measure(&mut client, REQUESTS, "a handoff of 120 messages: draft and acceptance", |client, _| {
        let handoff_id = draft_handoff(client, handoff_thread)?;
        decide_handoff(client, &handoff_id, &json!({"type": "approve"}))
    })?;
    measure(&mut client, REQUESTS, "a run in an existing thread", |client, number| {
        let path = format!("/threads/{}/runs/stream", thread(number + 1_000));
        client.run(&path, "hi", "The parser fails").map(|()| Value::Null)
    })?;
    measure(&mut client, REQUESTS, "a run in a new thread", |client, _| {
        let path = format!("/threads/{}/runs/stream", new_thread_id());
        client.run(&path, "hi", "The parser fails").map(|()| Value::Null)
    })
}

/// Sends requests and prints their median and slowest time.
fn measure(
    client: &mut HttpClient,
    count: u64,
    name: &str,
    mut request: impl FnMut(&mut HttpClient, u64) -> anyhow::Result<Value>,
) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for number in 1..=count {
        let start = Instant::now();
        request(client, number).with_context(|| format!("measure {name}"))?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("{}", Measurement::cost(name, percentile(times.clone(), 50), "ms").text());
    println!("{}", Measurement::cost(format!("{name}: slowest"), percentile(times, 100), "ms").text());
    Ok(())
}

fn get(client: &mut HttpClient, path: &str) -> anyhow::Result<Value> {
    client.request_json("GET", path, &Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_an_option() {
        let parse =
            |line: &str| ScaleOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let options = parse("--threads 10 --messages 4 --partition").unwrap();
        assert_eq!(options, ScaleOptions { threads: 10, messages: 4, indexed: 10, is_partitioned: true });
        assert!(parse("--threads").is_err());
        assert!(parse("--rows 1").is_err());
    }
}
