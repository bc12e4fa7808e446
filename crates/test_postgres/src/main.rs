//! Gives an empty database to whoever runs it, for as long as its standard input is open: for trying things by hand,
//! and for tests that need a second process. `--own` puts it on a server of its own.

use std::io::{self, Write};
use std::process::ExitCode;

use test_postgres::{Cluster, Error, TestDatabase};

const USAGE: &str = "usage: cluster [--own]\nPrints the URLs of a database, over the socket and over TCP; it lives until standard input ends.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let database = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => TestDatabase::create(),
        ["--own"] => Cluster::start().and_then(|cluster| cluster.create_database()),
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

fn serve_database(database: &TestDatabase) {
    // Whoever reads the URL may close the pipe behind it, and whoever writes nothing may break it.
    let _ = writeln!(io::stdout(), "{}\n{}", database.socket_url(), database.url())
        .and_then(|()| io::stdout().flush());
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

fn error_text(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
