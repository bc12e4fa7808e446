//! A program that serves a script from a file until it is killed, for tests that run Segue against it.

use std::io::{self, Write};
use std::process::ExitCode;

use test_model::{Script, ScriptedServer};

/// The text shown for wrong arguments.
const USAGE: &str =
    "usage: segue-test-model SCRIPT.json\nPrints its URL and serves the script until it is killed.";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), None) = (arguments.next(), arguments.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let script = std::fs::read_to_string(&file)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str::<Script>(&text).map_err(|error| error.to_string()));
    let server = match script {
        Ok(script) => ScriptedServer::start(script).map_err(|error| format!("failed to {error}")),
        Err(reason) => Err(format!("failed to read the script {}: {reason}", file.to_string_lossy())),
    };
    match server {
        Ok(server) => {
            // The reader may close the pipe after the URL, which is not an error.
            let _ = writeln!(io::stdout(), "{}", server.url()).and_then(|()| io::stdout().flush());
            server.join();
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
