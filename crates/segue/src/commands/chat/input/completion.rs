//! Completion in the chat: names of slash commands, files of the workspace after `@`, and the arguments of some
//! commands. The search for files is bounded in size and time, so that a key press never waits long.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use parking_lot::Mutex;
use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::EditorState;
use crate::commands::chat::slash_commands::COMMANDS;

/// The most files and folders of the workspace that are indexed.
const FILES_MAX: usize = 20_000;
/// The longest time that indexing the workspace may take.
const FILES_TIME_MAX: Duration = Duration::from_millis(250);
/// The time after which the workspace is indexed again.
const FILES_CACHE_TTL: Duration = Duration::from_secs(5);
/// The most suggestions that are shown.
const SUGGESTIONS_MAX: usize = 30;

/// The candidates for the arguments of commands, each as a value and its description.
#[derive(Debug, Default)]
pub(in crate::commands::chat) struct CompletionCandidates {
    /// Prefixes of thread ids, with the titles of the threads.
    pub(in crate::commands::chat) threads: Vec<(String, String)>,
    /// Names of models, each with the reason why it can be used.
    pub(in crate::commands::chat) models: Vec<(String, String)>,
}

/// The completer of the editor.
pub(super) struct ChatCompleter {
    /// The index of the workspace.
    files: FileIndex,
    /// The source of the candidates.
    shared: Arc<Mutex<EditorState>>,
}

impl ChatCompleter {
    /// Returns a completer for files in `workspace`. The index is built at the first completion of a file.
    pub(super) fn new(workspace: &Path, shared: Arc<Mutex<EditorState>>) -> Self {
        Self { files: FileIndex { root: workspace.to_owned(), paths: Vec::new(), indexed_at: None }, shared }
    }

    /// Returns the suggestions for the last word of `typed`, the text before the cursor.
    fn suggestions(&mut self, typed: &str) -> Vec<Suggestion> {
        let start = typed
            .rfind(char::is_whitespace)
            .map_or(0, |index| index + typed[index..].chars().next().map_or(1, char::len_utf8));
        let word = &typed[start..];
        let span = Span::new(start, typed.len());
        if let Some(part) = word.strip_prefix('@') {
            return self
                .files
                .find_similar(part)
                .into_iter()
                .map(|path| file_suggestion(&path, span))
                .collect();
        }
        if start == 0 {
            return word.strip_prefix('/').map(|part| command_suggestions(part, span)).unwrap_or_default();
        }
        let shared = self.shared.lock();
        let candidates = match typed.split_whitespace().next() {
            Some("/threads" | "/resume" | "/history") => &shared.candidates.threads,
            Some("/model") => &shared.candidates.models,
            Some(_) | None => return Vec::new(),
        };
        let matches = |(value, description): &&(String, String)| {
            value.starts_with(word) || rank(&word.to_lowercase(), &description.to_lowercase()).is_some()
        };
        candidates
            .iter()
            .filter(matches)
            .take(SUGGESTIONS_MAX)
            .map(|(value, description)| suggestion(value, description, span))
            .collect()
    }
}

impl Completer for ChatCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        CompletionResult::fresh(self.suggestions(typed))
    }
}

/// Returns the slash commands whose names begin with `part`.
fn command_suggestions(part: &str, span: Span) -> Vec<Suggestion> {
    let matching = COMMANDS.iter().filter(|command| command.name.starts_with(part));
    matching.map(|command| suggestion(&format!("/{}", command.name), command.description, span)).collect()
}

/// Returns the suggestion to insert `value` and a space.
fn suggestion(value: &str, description: &str, span: Span) -> Suggestion {
    Suggestion {
        value: value.to_owned(),
        description: Some(description.to_owned()).filter(|description| !description.is_empty()),
        span,
        append_whitespace: true,
        ..Suggestion::default()
    }
}

/// Returns the mention of a file, in quotes if the path contains spaces. No space is inserted after a folder, so that
/// its content can be completed next.
fn file_suggestion(path: &str, span: Span) -> Suggestion {
    let value = if path.contains(' ') { format!("@\"{path}\"") } else { format!("@{path}") };
    Suggestion { value, span, append_whitespace: !path.ends_with('/'), ..Suggestion::default() }
}

/// An index of the workspace's files and folders. It excludes hidden files and the files that `.gitignore` excludes.
#[derive(Debug)]
struct FileIndex {
    /// The workspace.
    root: PathBuf,
    /// The paths relative to `root`. The path of a folder ends with `/`.
    paths: Vec<String>,
    /// The time of the last indexing.
    indexed_at: Option<Instant>,
}

impl FileIndex {
    /// Returns the paths that match `part`, the best first and, among equal ones, the shortest. Refreshes an index that
    /// is older than [`FILES_CACHE_TTL`].
    fn find_similar(&mut self, part: &str) -> Vec<String> {
        if self.indexed_at.is_none_or(|time| time.elapsed() > FILES_CACHE_TTL) {
            self.refresh();
        }
        let part = part.trim_start_matches('"').to_lowercase();
        let mut ranked: Vec<(usize, &String)> =
            self.paths.iter().filter_map(|path| Some((rank(&part, &path.to_lowercase())?, path))).collect();
        ranked.sort_by_key(|(rank, path)| (*rank, path.len(), *path));
        ranked.into_iter().take(SUGGESTIONS_MAX).map(|(_, path)| path.clone()).collect()
    }

    /// Indexes the workspace again, up to [`FILES_MAX`] files and [`FILES_TIME_MAX`].
    fn refresh(&mut self) {
        let started = Instant::now();
        self.paths.clear();
        let walk = WalkBuilder::new(&self.root).require_git(false).build();
        for entry in walk.flatten().take(FILES_MAX) {
            if started.elapsed() > FILES_TIME_MAX {
                break;
            }
            let Ok(path) = entry.path().strip_prefix(&self.root) else { continue };
            let Some(text) = path.to_str().filter(|text| !text.is_empty()) else { continue };
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            self.paths.push(if is_folder { format!("{text}/") } else { text.to_owned() });
        }
        self.indexed_at = Some(Instant::now());
    }
}

/// Returns the rank of a match of `part` in `path`, both in lower case; lower is better: 0 if the path or its file name begins
/// with the part, 1 if the file name contains it, 2 if the path contains it, 3 if its letters occur in this order. `None` if
/// there is no match.
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
    part.chars().all(|expected| letters.any(|letter| letter == expected)).then_some(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the values that are suggested for a text before the cursor.
    fn check(completion: &mut ChatCompleter, typed: &str, expected: &[&str]) {
        let values: Vec<String> =
            completion.suggestions(typed).into_iter().map(|suggestion| suggestion.value).collect();
        assert_eq!(values, expected, "{typed}");
    }

    #[test]
    fn commands_files_threads_and_models_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for name in ["src/main.rs", "src/domain.rs", "read me.txt", "ignored.log", ".gitignore"] {
            std::fs::write(folder.path().join(name), "*.log\n").unwrap();
        }
        let shared = Arc::new(Mutex::new(EditorState::default()));
        shared.lock().candidates = CompletionCandidates {
            threads: vec![("0192f0c1".to_owned(), "Mend the kettle".to_owned())],
            models: vec![("anthropic/x".to_owned(), String::new())],
        };
        let mut completion = ChatCompleter::new(folder.path(), shared);
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
