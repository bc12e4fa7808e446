//! Completion: the names of commands, files of the workspace after `@`, and what commands take. It looks only so far
//! that a key is answered at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::Shared;
use crate::commands::chat::slash::COMMANDS;

/// Files and folders that are looked at.
const FILES_MAX: usize = 20_000;
/// The time that may take.
const FILES_TIME_MAX: Duration = Duration::from_millis(250);
/// How long what was found is taken for true.
const FILES_KEPT: Duration = Duration::from_secs(5);
/// Suggestions that are shown.
const SUGGESTIONS_MAX: usize = 30;

/// What can be completed beside commands and files, each with what it is.
#[derive(Debug, Default)]
pub(in crate::commands::chat) struct Known {
    /// Threads, by the beginning of their id.
    pub(in crate::commands::chat) threads: Vec<(String, String)>,
    pub(in crate::commands::chat) models: Vec<(String, String)>,
}

/// The completion of the editor.
pub(super) struct Completion {
    files: Files,
    shared: Arc<Mutex<Shared>>,
}

impl Completion {
    pub(super) fn new(workspace: &Path, shared: Arc<Mutex<Shared>>) -> Self {
        Self { files: Files { root: workspace.to_owned(), found: Vec::new(), at: None }, shared }
    }

    fn suggestions(&mut self, typed: &str) -> Vec<Suggestion> {
        let start = typed
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
        let word = &typed[start..];
        let span = Span::new(start, typed.len());
        if let Some(part) = word.strip_prefix('@') {
            return self.files.like(part).into_iter().map(|path| file(&path, span)).collect();
        }
        if start == 0 {
            return word.strip_prefix('/').map(|part| commands(part, span)).unwrap_or_default();
        }
        let shared = self.shared.lock();
        let known = match typed.split_whitespace().next() {
            Some("/threads" | "/resume" | "/history") => &shared.known.threads,
            Some("/model") => &shared.known.models,
            Some(_) | None => return Vec::new(),
        };
        let fits = |(value, about): &&(String, String)| {
            value.starts_with(word) || rank(&word.to_lowercase(), &about.to_lowercase()).is_some()
        };
        known
            .iter()
            .filter(fits)
            .take(SUGGESTIONS_MAX)
            .map(|(value, about)| suggestion(value, about, span))
            .collect()
    }
}

impl Completer for Completion {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        CompletionResult::fresh(self.suggestions(typed))
    }
}

fn commands(part: &str, span: Span) -> Vec<Suggestion> {
    let begin = COMMANDS.iter().filter(|command| command.name.starts_with(part));
    begin.map(|command| suggestion(&format!("/{}", command.name), command.about, span)).collect()
}

fn suggestion(value: &str, about: &str, span: Span) -> Suggestion {
    Suggestion {
        value: value.to_owned(),
        description: Some(about.to_owned()).filter(|about| !about.is_empty()),
        span,
        append_whitespace: true,
        ..Suggestion::default()
    }
}

fn file(path: &str, span: Span) -> Suggestion {
    let value = if path.contains(' ') { format!("@\"{path}\"") } else { format!("@{path}") };
    Suggestion { value, span, append_whitespace: !path.ends_with('/'), ..Suggestion::default() }
}

/// The files of the workspace that are not ignored.
#[derive(Debug)]
struct Files {
    root: PathBuf,
    found: Vec<String>,
    at: Option<Instant>,
}

impl Files {
    /// Returns the paths most like `part`, best first.
    fn like(&mut self, part: &str) -> Vec<String> {
        if self.at.is_none_or(|at| at.elapsed() > FILES_KEPT) {
            self.look();
        }
        let part = part.trim_start_matches('"').to_lowercase();
        let mut ranked: Vec<(usize, &String)> =
            self.found.iter().filter_map(|path| Some((rank(&part, &path.to_lowercase())?, path))).collect();
        ranked.sort_by_key(|(rank, path)| (*rank, path.len(), *path));
        ranked.into_iter().take(SUGGESTIONS_MAX).map(|(_, path)| path.clone()).collect()
    }

    fn look(&mut self) {
        let started = Instant::now();
        self.found.clear();
        let walk = WalkBuilder::new(&self.root).require_git(false).build();
        for entry in walk.flatten().take(FILES_MAX) {
            if started.elapsed() > FILES_TIME_MAX {
                break;
            }
            let Ok(path) = entry.path().strip_prefix(&self.root) else { continue };
            let Some(text) = path.to_str().filter(|text| !text.is_empty()) else { continue };
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            self.found.push(if is_folder { format!("{text}/") } else { text.to_owned() });
        }
        self.at = Some(Instant::now());
    }
}

/// Returns how far a path is from what was typed, both in small letters: its name begins so, its name has it, the path
/// has it, or the letters occur in order. `None` when they do not.
fn rank(part: &str, path: &str) -> Option<usize> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    if path.starts_with(part) || name.starts_with(part) {
        return Some(0);
    }
    if name.contains(part) {
        return Some(1);
    }
    if path.contains(part) {
        return Some(2);
    }
    let mut letters = path.chars();
    part.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(completion: &mut Completion, typed: &str, expected: &[&str]) {
        let values: Vec<String> =
            completion.suggestions(typed).into_iter().map(|found| found.value).collect();
        assert_eq!(values, expected, "{typed}");
    }

    #[test]
    fn commands_files_threads_and_models_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for name in ["src/main.rs", "src/domain.rs", "read me.txt", "ignored.log", ".gitignore"] {
            std::fs::write(folder.path().join(name), "*.log\n").unwrap();
        }
        let shared = Arc::new(Mutex::new(Shared::default()));
        shared.lock().known = Known {
            threads: vec![("0192f0c1".to_owned(), "Mend the kettle".to_owned())],
            models: vec![("anthropic/x".to_owned(), String::new())],
        };
        let mut completion = Completion::new(folder.path(), shared);
        check(&mut completion, "/hand", &["/handoff"]);
        check(&mut completion, "look at @main", &["@src/main.rs", "@src/domain.rs"]);
        check(&mut completion, "@smain", &["@src/main.rs", "@src/domain.rs"]);
        check(&mut completion, "@srm", &["@src/main.rs", "@src/domain.rs"]);
        check(&mut completion, "@read", &["@\"read me.txt\""]);
        check(&mut completion, "@log", &[]);
        check(&mut completion, "a@main", &[]);
        check(&mut completion, "/threads 01", &["0192f0c1"]);
        check(&mut completion, "/threads kettle", &["0192f0c1"]);
        check(&mut completion, "/history 0192", &["0192f0c1"]);
        check(&mut completion, "/sea", &["/search"]);
        check(&mut completion, "/model ", &["anthropic/x"]);
        check(&mut completion, "just words", &[]);
    }
}
