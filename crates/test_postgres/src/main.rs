//! A program that provides an empty database until its standard input ends: for manual experiments, and for tests that
//! need a second process. With `--own`, the database is on its own server; with `--durable`, that server is one for
//! benchmarks: on disk, with every commit synced and the time of each commit recorded.

use std::io::{self, Write};
use std::process::ExitCode;

use test_postgres::{Cluster, ClusterSettings, DataLocation, Error, TestDatabase};

/// The text shown for wrong arguments.
const USAGE: &str = "usage: segue-test-postgres [--own | --durable]\nPrints the URLs of a new database, over the socket and over TCP. The database exists until standard input ends.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let database = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => TestDatabase::create(),
        ["--own"] => Cluster::start().and_then(|cluster| cluster.create_database()),
        ["--durable"] => {
            Cluster::start_with(&durable_settings()).and_then(|cluster| cluster.create_database())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match database {
        Ok(database) => {
            serve_database(&database);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("failed to {}", error_text(&error));
            ExitCode::FAILURE
        }
    }
}

/// Returns the settings of a server for benchmarks.
fn durable_settings() -> ClusterSettings {
    let options = vec![
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "1GB"),
        ("track_commit_timestamp", "on"),
    ];
    ClusterSettings { data_location: DataLocation::Disk, options, ..ClusterSettings::default() }
}

/// Prints the URLs of the database and waits for the end of standard input.
fn serve_database(database: &TestDatabase) {
    // The reader may close the pipe after the URLs, and standard input may be broken. Neither is an error.
    let _ = writeln!(io::stdout(), "{}\n{}", database.socket_url(), database.url())
        .and_then(|()| io::stdout().flush());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// Returns the message of an error with the messages of its causes.
fn error_text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
