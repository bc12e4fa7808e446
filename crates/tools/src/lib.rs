//! What the agent can do: look at files and run commands that only read.
//!
//! Every tool stays inside the workspace, bounds what it returns, and answers a bad call with a text the model can
//! act on. Deliberately absent: writing anything, a shell, and any policy about context.

mod execute;
mod glob;
mod grep;
mod ls;
mod read_file;
mod tree;
mod workspace;

use std::sync::Arc;

use protocol::ToolStatus;
use runtime::{Tool, ToolOutput};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The most bytes of text a tool returns.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// The most characters of one line of a file that are shown.
const LINE_CHARS_MAX: usize = 1_000;
/// How many bytes at the beginning of a file are searched for a zero byte, which makes it binary.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// Returns the tools that change nothing.
pub fn read_only() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ls::Ls),
        Arc::new(read_file::ReadFile),
        Arc::new(glob::Glob),
        Arc::new(grep::Grep),
        Arc::new(execute::Execute::new(execute::TIMEOUT)),
    ]
}

/// Reads a call's arguments; the error is what the model is told.
fn arguments<T: DeserializeOwned>(args: &Value) -> Result<T, String> {
    let args = if args.is_null() { &Value::Object(serde_json::Map::new()) } else { args };
    serde::Deserialize::deserialize(args).map_err(|error| format!("bad arguments: {error}"))
}

/// Runs work that reads files away from the async threads.
async fn blocking(work: impl FnOnce() -> Result<String, String> + Send + 'static) -> ToolOutput {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => output(result),
        Err(_) => ToolOutput::error("the tool broke off; the call may be repeated with narrower arguments"),
    }
}

fn output(result: Result<String, String>) -> ToolOutput {
    match result {
        Ok(text) => ToolOutput::success(text),
        Err(text) => ToolOutput { status: ToolStatus::Error, ..ToolOutput::success(text) },
    }
}

/// Returns the first `chars_max` characters of `line`, and says when there are more.
fn shortened(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} […]", &line[..end]),
        None => line.to_owned(),
    }
}
