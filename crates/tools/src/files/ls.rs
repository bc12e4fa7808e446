//! The tool `ls`: what a folder holds. It does not descend.

use std::fs;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Repeat, Review, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::files::reading;
use crate::permission::{self, Hidden};
use crate::workspace::Workspace;
use crate::{arguments, blocking, output};

/// The most entries listed.
const ENTRIES_MAX: usize = 500;

/// The tool.
pub(crate) struct Ls;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    path: Option<String>,
}

#[async_trait]
impl Tool for Ls {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "ls".to_owned(),
            description:
                "Lists one folder of the workspace: folders end in /, files show their size in bytes."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder, relative to the workspace. Default: the workspace."}
                },
                "additionalProperties": false
            }),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> Review {
        match arguments::<Args>(args) {
            Ok(args) => reading(&context.workspace, args.path.as_deref().unwrap_or(".")),
            Err(_) => Review::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: Args = match arguments(args) {
            Ok(args) => args,
            Err(error) => return output(Err(error)),
        };
        let root = context.workspace.clone();
        let hidden = permission::hidden("ls");
        blocking(move || list(&Workspace::open(&root)?, args.path.as_deref().unwrap_or("."), hidden)).await
    }
}

fn list(workspace: &Workspace, path: &str, hidden: Hidden) -> Result<String, String> {
    let folder = workspace.find(path)?;
    let hidden = hidden.below(workspace.shown(&folder));
    let mut left_out = 0;
    let entries = fs::read_dir(&folder).map_err(|error| format!("{path:?} cannot be listed: {error}"))?;
    let mut lines: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| {
            let is_hidden = hidden.hides(workspace.shown(&entry.path()));
            left_out += usize::from(is_hidden);
            !is_hidden
        })
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.metadata() {
                Ok(found) if found.is_dir() => format!("{name}/"),
                Ok(found) if found.is_symlink() => format!("{name} (link)"),
                Ok(found) => format!("{name} ({})", found.len()),
                Err(_) => name,
            }
        })
        .collect();
    lines.sort();
    let total = lines.len();
    if total == 0 {
        lines.push(if left_out == 0 { "(empty folder)" } else { "(nothing to show)" }.to_owned());
    }
    if total > ENTRIES_MAX {
        lines.truncate(ENTRIES_MAX);
        lines.push(format!("[{} more entries; glob finds them by name]", total - ENTRIES_MAX));
    }
    lines.extend(permission::note(left_out));
    Ok(lines.join("\n"))
}
