//! The tool `load_skill`: reads the instructions of a skill, or another text file in the skill's folder. It reads
//! nothing outside that folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::ToolSpec;
use runtime::{CallReview, CallSubject, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::skills::Skills;
use crate::skills::catalog::{SKILL_FILE, Skill};
use crate::skills::front_matter::split_front_matter;
use crate::truncation::{OUTPUT_BYTES_MAX, truncate_middle};
use crate::{BINARY_PROBE_BYTES, parse_args, run_blocking};

/// Maximum number of bytes of a file that are read.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of files of a skill's folder that are listed.
const FILES_MAX: usize = 100;
/// Maximum depth of listed files below the skill's folder. Files directly in it have depth 1.
const DEPTH_MAX: usize = 5;
/// Maximum number of entries of a skill's folder that are examined, so that listing a huge folder ends.
const ENTRIES_MAX: usize = 10_000;

/// The tool `load_skill`.
pub(super) struct LoadSkillTool {
    /// The skills that can be loaded, shared with the hook that lists them.
    pub skills: Arc<Skills>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadSkillArgs {
    /// The skill's name, as listed.
    name: String,
    /// A file of the skill's folder, relative to it. Default: its instructions.
    #[serde(default)]
    file: Option<String>,
}

#[async_trait]
impl Tool for LoadSkillTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<LoadSkillArgs>(
            "load_skill",
            "Loads the instructions of a skill, or another text file of its folder.",
        )
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args::<LoadSkillArgs>(args).map(drop)
    }

    /// Reviews the call. A file inside the workspace is the call's subject, so the rules for `read_file` apply to it. A
    /// file in the home folder has no subject.
    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        let Ok(args) = parse_args::<LoadSkillArgs>(args) else { return CallReview::default() };
        let (skills, workspace) = (Arc::clone(&self.skills), context.workspace.clone());
        let path = tokio::task::spawn_blocking(move || {
            let catalog = skills.catalog();
            let skill = catalog.skills.iter().find(|skill| skill.name == args.name)?;
            let file = skill.folder.join(args.file.as_deref().unwrap_or(SKILL_FILE)).canonicalize().ok()?;
            file.strip_prefix(workspace.canonicalize().ok()?).ok().map(Path::to_owned)
        });
        let subjects = path.await.ok().flatten().map(CallSubject::Path).into_iter().collect();
        CallReview { subjects, ..CallReview::default() }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: LoadSkillArgs = match parse_args(args) {
            Ok(args) => args,
            Err(reason) => return ToolOutput::error(reason),
        };
        let (skills, workspace) = (Arc::clone(&self.skills), context.workspace.clone());
        run_blocking(move || {
            let catalog = skills.catalog();
            let skill = catalog.skills.iter().find(|skill| skill.name == args.name);
            let skill = skill.ok_or_else(|| unknown_skill_text(&args.name, &catalog.skills))?;
            match &args.file {
                Some(file) => read_skill_file(skill, file),
                None => read_instructions(skill, &workspace),
            }
        })
        .await
    }
}

/// Returns the error for a name without a skill, with the names of all skills.
fn unknown_skill_text(name: &str, skills: &[Skill]) -> String {
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    match names[..] {
        [] => format!("there is no skill {name:?}, and no other"),
        _ => format!("there is no skill {name:?}; there are: {}", names.join(", ")),
    }
}

/// Returns the body of SKILL.md, followed by the path of the skill's folder and the list of its other files. The path
/// is relative to the workspace if the folder is inside it.
fn read_instructions(skill: &Skill, workspace: &Path) -> Result<String, String> {
    let source = read_skill_file(skill, SKILL_FILE)?;
    let body = split_front_matter(&source).map_or(source.as_str(), |(_, body)| body);
    let root = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    let folder = skill.folder.strip_prefix(root).unwrap_or(&skill.folder);
    let mut text = format!("{}\n\n[the skill's folder: {}]\n", body.trim(), folder.display());
    let files = list_files(&skill.folder);
    if !files.is_empty() {
        text.push_str("[its files, for load_skill:]\n");
        for file in files.iter().take(FILES_MAX) {
            text.push_str(&format!("{}\n", file.display()));
        }
        if files.len() > FILES_MAX {
            text.push_str(&format!("[{} more]\n", files.len() - FILES_MAX));
        }
    }
    Ok(text)
}

/// Returns the text of a file in the skill's folder, cut in the middle if it is too long.
///
/// # Errors
/// Returns the message for the model if the file is missing, outside the folder (links included), not a regular file, or
/// binary.
fn read_skill_file(skill: &Skill, file: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{file:?} cannot be read: {error}");
    let path = skill.folder.join(file).canonicalize().map_err(failed)?;
    if !path.starts_with(&skill.folder) {
        return Err(format!("{file:?} is outside the skill's folder"));
    }
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(format!("{file:?} is no file"));
    }
    let mut bytes = Vec::new();
    File::open(&path).and_then(|file| file.take(READ_BYTES_MAX).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        return Err(format!("{file:?} is a binary file of {} bytes", metadata.len()));
    }
    let mut text = truncate_middle(&String::from_utf8_lossy(&bytes), OUTPUT_BYTES_MAX);
    if metadata.len() > READ_BYTES_MAX {
        text.push_str(&format!("\n[the file has {} bytes; the rest was not read]", metadata.len()));
    }
    Ok(text)
}

/// Lists the folder's files except SKILL.md, as sorted paths relative to the folder. Hidden files, hidden folders and
/// links are left out.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending_folders = vec![(folder.to_owned(), 1)];
    let mut entries_left = ENTRIES_MAX;
    while let Some((inner, depth)) = pending_folders.pop() {
        let Ok(entries) = std::fs::read_dir(&inner) else { continue };
        for entry in entries.flatten() {
            if entries_left == 0 {
                break;
            }
            entries_left -= 1;
            let (path, kind) = (entry.path(), entry.file_type());
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            match kind {
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => pending_folders.push((path, depth + 1)),
                Ok(kind) if kind.is_file() => files.extend(path.strip_prefix(folder).map(Path::to_owned)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    files.retain(|file| file != Path::new(SKILL_FILE));
    files.sort();
    files
}
