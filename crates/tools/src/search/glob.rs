//! The tool `glob`: files by the shape of their path.

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{Repeat, Review, Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::files::reading;
use crate::permission::{self, Hidden};
use crate::search::tree::{Next, Walked, matcher, walk};
use crate::workspace::Workspace;
use crate::{arguments, blocking, output};

/// The most paths listed.
const PATHS_MAX: usize = 500;

/// The tool.
pub(crate) struct Glob;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "glob".to_owned(),
            description:
                "Lists files of the workspace whose path matches a pattern such as src/**/*.rs, *.toml or \
                          tests/{unit,it}/*.rs. Files that .gitignore names are left out."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The pattern, relative to the workspace."},
                    "path": {"type": "string", "description": "Only files below this folder."}
                },
                "required": ["pattern"],
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
        let (root, cancel) = (context.workspace.clone(), context.cancel.clone());
        let hidden = permission::hidden("glob");
        blocking(move || find(&Workspace::open(&root)?, &args, hidden, &cancel)).await
    }
}

fn find(
    workspace: &Workspace,
    args: &Args,
    hidden: Hidden,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let matcher = matcher(&args.pattern)?;
    let folder = workspace.find(args.path.as_deref().unwrap_or("."))?;
    let hidden = hidden.below(workspace.shown(&folder));
    let (mut found, mut left_out) = (Vec::new(), 0);
    let walked = walk(&folder, cancel, |path| {
        let shown = workspace.shown(path);
        match matcher.is_match(shown) {
            true if hidden.hides(shown) => left_out += 1,
            true => found.push(shown.display().to_string()),
            false => {}
        }
        if found.len() > PATHS_MAX { Next::Stop } else { Next::More }
    })?;
    if found.is_empty() {
        found.push("no file matches".to_owned());
    }
    match walked {
        Walked::All => {}
        Walked::Limit => {
            found.push("[the search ended early: too many files; narrow it with path]".to_owned())
        }
        Walked::Stopped => {
            found.truncate(PATHS_MAX);
            found.push(format!("[more than {PATHS_MAX} files match; narrow the pattern]"));
        }
    }
    found.extend(permission::note(left_out));
    Ok(found.join("\n"))
}
