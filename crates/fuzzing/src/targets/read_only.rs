//! Command lines that the permission gate calls read-only, and so allows without asking. They run in a hostile repository and
//! change nothing, inside and outside of it; they start none of the programs that its configuration names; and they show
//! neither a file of secrets nor a file outside the workspace.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use journal::{SqliteStore, Store};
use protocol::message::joined_text;
use protocol::{RunId, ThreadId};
use runtime::{FrameSender, Tool, ToolContext};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tools::permission::{PermissionRules, PermissionVerdict, decide_call};

use super::FuzzTarget;

/// A word in the content of every file that no line may show.
const MARKER: &str = "hush-5c1e";

/// The name of the tool that runs command lines.
const EXECUTE: &str = "execute";

/// Settings of git that start a program, which would create a file.
const HOSTILE_CONFIG: &str = "[core]\n\
    \tfsmonitor = touch ../started; false\n\
    \tpager = touch ../started; cat\n\
    \thooksPath = hooks\n\
    \tattributesFile = ../attributes\n\
    [diff]\n\texternal = touch ../started; cat\n\
    [diff \"evil\"]\n\tcommand = touch ../started; cat\n\ttextconv = touch ../started; cat\n\
    [filter \"evil\"]\n\tclean = touch ../started; cat\n\tsmudge = touch ../started; cat\n\
    [log]\n\tshowSignature = true\n\
    [gpg]\n\tprogram = touch ../started; false\n\
    [alias]\n\tevil = !touch ../started\n";

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "read_only",
    check,
    parse,
    dictionary: &[
        " ",
        " | ",
        " && ",
        " || ",
        "; ",
        "\n",
        "'",
        "\"",
        "\\",
        " -- ",
        " 2>&1",
        " >/dev/null",
        "ls",
        "ls -la ",
        "cat ",
        "head -n 3 ",
        "tail -n 3 ",
        "wc -l ",
        "stat -c %s ",
        "du -sh ",
        "echo ",
        "realpath ",
        "nl ",
        "tr a b",
        "sha256sum ",
        "diff -u ",
        "date -u",
        "sort -u ",
        "uniq -c ",
        "cut -d: -f1 ",
        "grep -rn ",
        "grep -e ",
        "find . ",
        "-name '*' ",
        "-type f ",
        "-exec touch x ';' ",
        "-delete ",
        "-fprint x ",
        "-newer ",
        "git status ",
        "git log ",
        "git show ",
        "git diff ",
        "git blame ",
        "git branch ",
        "git branch --list ",
        "git ls-files ",
        "git rev-parse ",
        "git describe ",
        "git evil",
        "-p ",
        "-S x ",
        "-G x ",
        "--follow ",
        "--stat ",
        "--all ",
        "--output=x ",
        "--ext-diff ",
        "--textconv ",
        "--no-index ",
        "--contents ",
        "--format=%B ",
        "-n 2 ",
        "-O ",
        "-o x ",
        "--pre touch ",
        "HEAD",
        "HEAD~1",
        "HEAD:",
        "HEAD:.env",
        "HEAD~1..HEAD",
        ":(top)",
        ":/",
        "^",
        "@{0}",
        ".",
        "..",
        "../",
        "/",
        "~",
        "*",
        "src",
        "src/a.rs",
        ".env",
        ".ENV",
        "deep/.envrc",
        "notes.txt",
        "link",
        "up",
        "../secret",
        "x",
        "a",
    ],
    // Most of the work is that of git.
    repeated: &[],
};

thread_local! {
    /// The repository in which lines run. It is removed at the end of the thread.
    static REPOSITORY: HostileRepository = HostileRepository::create();
}

fn check(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else { return };
    if line.contains(MARKER) {
        return;
    }
    REPOSITORY.with(|repository| {
        if let Some(output) = repository.run_if_allowed(line) {
            assert!(!output.contains(MARKER), "{line:?} shows a file of secrets: {output}");
            assert_eq!(repository.read_state(), repository.state, "{line:?} changes files");
        }
    });
}

fn parse(input: &[u8]) {
    if let Ok(line) = std::str::from_utf8(input) {
        REPOSITORY.with(|repository| repository.runtime.block_on(repository.is_allowed(line)));
    }
}

/// The size, the mode and the time of the last change of each file and folder, by its path.
type FileStates = BTreeMap<PathBuf, (u64, u32, Option<SystemTime>)>;

/// A repository with files of secrets and settings that start programs, and the tool that runs lines in it.
struct HostileRepository {
    /// The folder of the workspace, and next to it the files that no line may read or create.
    folder: TempDir,
    tool: Arc<dyn Tool>,
    context: ToolContext,
    runtime: Runtime,
    /// The files after the creation.
    state: FileStates,
}

impl HostileRepository {
    /// Creates the repository.
    fn create() -> Self {
        let folder = tempfile::tempdir().expect("the folder for temporary files can be written");
        let work = folder.path().join("work");
        write_files(folder.path(), &work);
        make_hostile(&work);
        let tools = tools::builtin_tools(tools::ToolSettings::default());
        let tool = tools.into_iter().find(|tool| tool.spec().name == EXECUTE).expect("the tool exists");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().expect("a store in memory opens"));
        let context = ToolContext {
            thread_id: ThreadId::generate(),
            run_id: RunId::generate(),
            call_id: "call".to_owned(),
            workspace: work,
            cancel: CancellationToken::new(),
            store,
            frames: FrameSender::default(),
            channels: Arc::default(),
            answers: Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let mut repository = Self { folder, tool, context, runtime, state: FileStates::new() };
        repository.state = repository.read_state();
        repository
    }

    /// Runs a line if the gate allows it without asking. Returns its output.
    fn run_if_allowed(&self, line: &str) -> Option<String> {
        self.runtime.block_on(async {
            if !self.is_allowed(line).await {
                return None;
            }
            let output = self.tool.call(&arguments(line), &self.context).await;
            Some(joined_text(&output.content))
        })
    }

    /// Returns whether the gate allows a line that has an effect.
    async fn is_allowed(&self, line: &str) -> bool {
        let review = self.tool.review(&arguments(line), &self.context).await;
        let verdict = decide_call(&PermissionRules::default(), EXECUTE, &review);
        !review.subjects.is_empty() && matches!(verdict, PermissionVerdict::Allow { .. })
    }

    /// Returns the states of all files in the folder.
    fn read_state(&self) -> FileStates {
        let mut states = FileStates::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("the folder can be listed") {
                let path = entry.expect("the folder can be listed").path();
                let metadata = path.symlink_metadata().expect("the file exists");
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                let state = (metadata.len(), metadata.permissions().mode(), metadata.modified().ok());
                states.insert(path, state);
            }
        }
        states
    }
}

/// Returns the arguments of a call that runs a line for one second at most.
fn arguments(line: &str) -> Value {
    json!({"command": line, "timeout_seconds": 1})
}

/// Writes the files of the workspace and those next to it, and commits the former.
fn write_files(folder: &Path, work: &Path) {
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder is created");
        fs::write(path, text).expect("a file is written");
    };
    write(folder.join("secret"), MARKER);
    write(folder.join("attributes"), "* diff=evil filter=evil\n");
    write(work.join("src/a.rs"), "fn a() {}\n");
    write(work.join("notes.txt"), "a: 1\nb: 2\nx\n");
    write(work.join("a"), "a\n");
    write(work.join(".env"), MARKER);
    write(work.join("deep/.envrc"), MARKER);
    run_git(work, &["init", "-q", "-b", "main"]);
    run_git(work, &["add", "-f", "."]);
    run_git(work, &["commit", "-q", "-m", "first"]);
    write(work.join("src/a.rs"), "fn a() {}\nfn x() {}\n");
    write(work.join(".env"), &format!("{MARKER}\n{MARKER}\n"));
    run_git(work, &["commit", "-q", "-a", "-m", "second"]);
    write(work.join("notes.txt"), "a: 1\nb: 3\nx\n");
    symlink("../secret", work.join("link")).expect("a link is created");
    symlink("..", work.join("up")).expect("a link is created");
}

/// Gives the repository settings, attributes and hooks that start programs.
fn make_hostile(work: &Path) {
    let config = work.join(".git/config");
    let Ok(settings) = fs::read_to_string(&config) else { return };
    fs::write(config, settings + HOSTILE_CONFIG).expect("the settings are written");
    fs::write(work.join(".git/info/attributes"), "* diff=evil filter=evil\n")
        .expect("attributes are written");
    let hooks = work.join("hooks");
    fs::create_dir(&hooks).expect("a folder is created");
    for name in ["post-index-change", "fsmonitor-watchman", "reference-transaction"] {
        let hook = hooks.join(name);
        fs::write(&hook, "#!/bin/sh\ntouch ../started\n").expect("a hook is written");
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).expect("a hook is executable");
    }
}

/// Runs git in the workspace. Without git there is no repository, and lines with git fail.
fn run_git(work: &Path, words: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgSign=false"];
    let status = Command::new("git").current_dir(work).args(identity).args(words).status();
    assert!(status.map_or(true, |status| status.success()), "git {words:?}");
}
