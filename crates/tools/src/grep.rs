//! The tool `grep`: lines by regular expression, over the files a search sees.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use async_trait::async_trait;
use model::ToolSpec;
use regex::bytes::{Regex, RegexBuilder};
use runtime::{Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::tree::{Next, Walked, matcher, walk};
use crate::workspace::Workspace;
use crate::{BINARY_PROBE_BYTES, OUTPUT_BYTES_MAX, arguments, blocking, output, shortened};

/// The most matching lines shown.
const MATCHES_MAX: usize = 200;
/// The most characters of a matching line that are shown.
const MATCH_CHARS_MAX: usize = 300;
/// The most bytes of one file that are searched.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most bytes of one line that are searched.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The tool.
pub(crate) struct Grep;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "grep".to_owned(),
            description:
                "Finds lines that match a regular expression in the text files of the workspace; shows \
                          path:line:text. Files that .gitignore names are left out."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The regular expression (Rust syntax)."},
                    "path": {"type": "string", "description": "Only this file or folder."},
                    "glob": {"type": "string", "description": "Only files whose path matches, such as *.rs."},
                    "ignore_case": {"type": "boolean", "description": "Upper and lower case are the same. Default: false."}
                },
                "required": ["pattern"],
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
        blocking(move || search(&Workspace::open(&root)?, &args, &cancel)).await
    }
}

/// The lines found so far.
struct Found {
    lines: Vec<String>,
    bytes: usize,
}

fn search(workspace: &Workspace, args: &Args, cancel: &CancellationToken) -> Result<String, String> {
    let pattern = RegexBuilder::new(&args.pattern)
        .case_insensitive(args.ignore_case)
        .build()
        .map_err(|error| format!("bad pattern: {error}"))?;
    let only = args.glob.as_deref().map(matcher).transpose()?;
    let start = workspace.find(args.path.as_deref().unwrap_or("."))?;
    let mut found = Found { lines: Vec::new(), bytes: 0 };
    let walked = walk(&start, cancel, |path| {
        let shown = workspace.shown(path);
        if only.as_ref().is_none_or(|only| only.is_match(shown)) {
            // A file that cannot be read has no lines to show.
            let _ = search_file(path, &shown.display().to_string(), &pattern, cancel, &mut found);
        }
        if found.is_full() { Next::Stop } else { Next::More }
    })?;
    match walked {
        Walked::All => {}
        Walked::Limit => {
            found.lines.push("[the search ended early: too many files; narrow it with path]".to_owned())
        }
        Walked::Stopped => {
            found.lines.push("[there may be more; narrow the pattern, path or glob]".to_owned())
        }
    }
    Ok(if found.lines.is_empty() { "no line matches".to_owned() } else { found.lines.join("\n") })
}

fn search_file(
    path: &Path,
    shown: &str,
    pattern: &Regex,
    cancel: &CancellationToken,
    found: &mut Found,
) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(path)?.take(FILE_BYTES_MAX));
    let probe = reader.fill_buf()?;
    if probe[..probe.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        return Ok(());
    }
    let mut line = Vec::new();
    let mut number = 1_u64;
    while reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        let ended = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if pattern.is_match(text.strip_suffix(b"\r").unwrap_or(text)) {
            found.push(shown, number, text);
        }
        if found.is_full() || (number.is_multiple_of(4096) && cancel.is_cancelled()) {
            return Ok(());
        }
        number += u64::from(ended);
        line.clear();
    }
    Ok(())
}

impl Found {
    fn push(&mut self, path: &str, number: u64, text: &[u8]) {
        let text = shortened(String::from_utf8_lossy(text).trim_end(), MATCH_CHARS_MAX);
        let line = format!("{path}:{number}:{text}");
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= MATCHES_MAX || self.bytes >= OUTPUT_BYTES_MAX
    }
}
