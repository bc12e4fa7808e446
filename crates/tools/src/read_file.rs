//! The tool `read_file`: lines of one text file. It never holds more of the file than it shows.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::workspace::Workspace;
use crate::{BINARY_PROBE_BYTES, LINE_CHARS_MAX, OUTPUT_BYTES_MAX, arguments, blocking, output, shortened};

/// The most lines shown by one call.
const LINES_MAX: u64 = 2_000;
/// The most bytes of a file that a call reads on its way to the lines asked for.
const SCANNED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The tool.
pub(crate) struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    #[serde(default)]
    from_line: Option<u64>,
    #[serde(default)]
    lines: Option<u64>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: "Shows lines of a text file of the workspace, each with its number.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "from_line": {"type": "integer", "minimum": 1, "description": "The first line. Default: 1."},
                    "lines": {"type": "integer", "minimum": 1, "maximum": LINES_MAX, "description": "How many lines. Default: as many as fit."}
                },
                "required": ["path"],
                "additionalProperties": false
            }),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: Args = match arguments(args) {
            Ok(args) => args,
            Err(error) => return output(Err(error)),
        };
        let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
        blocking(move || {
            let file = Workspace::open(&root)?.find(&args.path)?;
            show(&file, &args, &cancel)
        })
        .await
    }
}

fn show(path: &Path, args: &Args, cancel: &CancellationToken) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{:?} cannot be read: {error}", args.path);
    let found = path.metadata().map_err(failed)?;
    if found.is_dir() {
        return Err(format!("{:?} is a folder; ls lists it", args.path));
    }
    if !found.is_file() {
        return Err(format!("{:?} is not a regular file", args.path));
    }
    let mut reader = BufReader::new(File::open(path).map_err(failed)?.take(SCANNED_BYTES_MAX));
    let probe = reader.fill_buf().map_err(failed)?;
    if probe[..probe.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        return Err(format!("{:?} is a binary file of {} bytes", args.path, found.len()));
    }
    let first = args.from_line.unwrap_or(1).max(1);
    let last = first.saturating_add(args.lines.unwrap_or(LINES_MAX).clamp(1, LINES_MAX));
    let mut shown = String::new();
    let mut line = Vec::new();
    let mut number = 1;
    while read_line(&mut reader, &mut line).map_err(failed)? {
        if number >= last || shown.len() > OUTPUT_BYTES_MAX {
            shown.push_str(&format!("[the file goes on; continue with from_line {number}]\n"));
            return Ok(shown);
        }
        if number >= first {
            let text = shortened(&String::from_utf8_lossy(&line), LINE_CHARS_MAX);
            shown.push_str(&format!("{number:>6}\t{text}\n"));
        }
        if number.is_multiple_of(4096) && cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        number += 1;
    }
    match (number - 1, found.len()) {
        (_, bytes) if bytes > SCANNED_BYTES_MAX => Err(format!(
            "{:?} has {bytes} bytes, too many to count its lines; grep finds text in it",
            args.path
        )),
        (0, _) => Ok("(empty file)".to_owned()),
        (lines, _) if first > lines => Err(format!("{:?} has only {lines} lines", args.path)),
        _ => Ok(shown),
    }
}

/// Reads one line without its ending, keeping only what may be shown of it; returns false at the end of the file.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut read_any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(read_any);
        }
        read_any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        // Four bytes make a character at most; one more shows that there is more.
        let room = (LINE_CHARS_MAX * 4 + 4).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}
