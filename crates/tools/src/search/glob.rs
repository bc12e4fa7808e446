//! The tool `glob`: files by the shape of their path.

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::permission::{self, Hidden};
use crate::reading::ReadingTool;
use crate::search::tree::{Next, Walked, matcher, walk};
use crate::workspace::Workspace;

/// The most paths listed.
const PATHS_MAX: usize = 500;

/// What a call says.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The pattern, relative to the workspace.
    pattern: String,
    /// Only files below this folder.
    #[serde(default)]
    path: Option<String>,
}

pub(crate) const GLOB: ReadingTool<Args> = ReadingTool {
    name: "glob",
    description: "Lists files of the workspace whose path matches a pattern such as src/**/*.rs, *.toml or \
                          tests/{unit,it}/*.rs. Files that .gitignore names are left out.",
    path: |args| args.path.as_deref(),
    read: find,
};

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
