//! Read-only command lines run with the real programs: they change no byte and print no secret. Lines that could do
//! either need approval.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::message::joined_text;
use serde_json::json;
use tools::permission::{PermissionRules, PermissionVerdict, decide_call};

use crate::bench::ToolFixture;

const SECRET: &str = "S=hush";

/// Lines that may run without approval.
const READ_ONLY_LINES: &[&str] = &[
    "uniq -",
    "uniq - | cat -",
    "echo x | uniq -c",
    "cat a.txt x/b.txt | sort -u | head -n -1",
    "sort -t , -k1 a.txt",
    "ls -laR .",
    "find . -name '*' -type f",
    "grep -r S= .",
    "grep -rn -e S= -e x/.env .",
    "grep -rv nothing .",
    "grep -r '' x",
    "grep -r -e hush --include='*' .",
    "rg --hidden --no-ignore S=",
    "rg -uuu -g '*' hush",
    "diff -u a.txt x/b.txt",
    "git diff",
    "git diff -U5 HEAD",
    "git status --short",
    "git log -p -3",
    "git log --oneline -5 -- a.txt",
    "git show",
    "git branch -a",
    "git branch --list new",
    "git blame a.txt",
    "git ls-files",
    "git describe --always",
    "git rev-parse --short HEAD",
    "du -a . | wc -l",
    "date -u +%s",
    "stat -c %s a.txt",
    "file a.txt",
];

/// Lines that need approval.
const ASK_LINES: &[&str] = &[
    "echo x | uniq - a",
    "echo x | uniq - a.txt",
    "echo x | uniq - ../new",
    "echo x | uniq - /tmp/new",
    "uniq a.txt out",
    "git diff -U --output=a.txt",
    "git diff --output=a.txt",
    "git log -n --output=a.txt",
    "git diff -S --output=a.txt",
    "git branch new",
    "git branch -v new",
    "sort -o a.txt a.txt",
    "sort -k --output=a.txt a.txt",
    "diff -uN . x",
    "diff -u . x",
    "diff -r . x",
    "cat .env",
    "cat x/.env",
    "cat link",
    "cat out/secret",
    "grep S= .env",
    "grep -r S= . x/.env",
    "grep -rv . -e",
    "grep -rv hush . --exclude",
    "grep -d recurse S= .",
    "grep -R S= .",
    "rg --pre cat S=",
    "rg -L hush",
    "find . -delete",
    "find . -fprintf a.txt x",
    "find -L . -type f",
    "find . -exec cat '{}' ';'",
    "git show HEAD:x/.env",
    "git -c core.pager=cat log",
    "git grep --open-files-in-pager=cat S=",
    "git log -L 1,1:x/.env",
    "sed -i s/a/b/ a.txt",
    "sed -n 'w out' a.txt",
    "awk '{print > \"out\"}' a.txt",
    "tar -cf out.tar .",
    "ls | xargs cat",
    "env cat .env",
    "less .env",
    "echo x | tee a.txt",
    "date -s tomorrow",
    "cat < .env",
    "cat a.txt > out",
];

/// Makes the folder a git repository with committed secrets and uncommitted changes. Returns `None` without git.
fn fill_repository(work: &Path) -> Option<()> {
    fs::create_dir_all(work.join("x")).ok()?;
    for (name, text) in [("a.txt", "one\ntwo\n"), ("x/b.txt", "two\n"), (".env", SECRET), ("x/.env", SECRET)]
    {
        fs::write(work.join(name), text).ok()?;
    }
    let git = |words: &[&str]| Command::new("git").current_dir(work).args(words).status();
    for words in [
        &["init", "-q"][..],
        &["add", "."],
        &["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "first"],
    ] {
        git(words).ok().filter(std::process::ExitStatus::success)?;
    }
    for (name, text) in [("a.txt", "one\nthree\n"), ("x/.env", "S=hush2\n")] {
        fs::write(work.join(name), text).ok()?;
    }
    symlink(".env", work.join("link")).ok()?;
    symlink("..", work.join("out")).ok()
}

/// Returns every file with its bytes, and every link with its target.
fn read_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files.extend(read_files(&path));
        } else if kind.is_symlink() {
            files.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

fn is_installed(program: &str) -> bool {
    let builtin = ["echo", "pwd", "true", "cd"].contains(&program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    builtin || std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[tokio::test]
async fn k6_a_read_only_line_changes_no_byte_and_prints_no_secret() {
    let bench = ToolFixture::new().await;
    let Some(()) = fill_repository(&bench.workspace()) else {
        println!("skipped: no git on this machine");
        return;
    };
    let before = read_files(bench.folder.path());
    for line in READ_ONLY_LINES {
        let verdict = verdict(&bench, line).await;
        assert!(matches!(verdict, PermissionVerdict::Allow { .. }), "{line}: {verdict:?}");
        let mut programs = line.split('|').filter_map(|part| part.split_whitespace().next());
        if let Some(program) = programs.find(|program| !is_installed(program)) {
            println!("skipped: no {program} on this machine: {line}");
            continue;
        }
        let text = joined_text(&bench.output("execute", json!({"command": line})).await.content);
        assert!(!text.contains("S=hush"), "{line}: {text}");
        assert!(!text.contains("unknown option") && !text.contains("sage:"), "{line}: {text}");
        let after = read_files(bench.folder.path());
        let changed: Vec<_> = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "{line}: {:?}", changed.first());
    }
}

#[tokio::test]
async fn k6_a_line_that_could_write_or_print_a_secret_needs_approval() {
    let bench = ToolFixture::new().await;
    let Some(()) = fill_repository(&bench.workspace()) else {
        println!("skipped: no git on this machine");
        return;
    };
    for line in ASK_LINES {
        let verdict = verdict(&bench, line).await;
        assert!(matches!(verdict, PermissionVerdict::Ask { .. }), "{line}: {verdict:?}");
    }
}

#[tokio::test]
async fn k6_git_shows_nothing_of_a_larger_repository_around_the_workspace() {
    let bench = ToolFixture::new().await;
    let Some(()) = fill_repository(bench.folder.path()) else {
        println!("skipped: no git on this machine");
        return;
    };
    for line in ["git diff", "git show", "git log -p", "git show -p HEAD"] {
        assert!(matches!(verdict(&bench, line).await, PermissionVerdict::Allow { .. }), "{line}");
        let text = joined_text(&bench.output("execute", json!({"command": line})).await.content);
        assert!(!text.contains("two") && !text.contains("three"), "{line}: {text}");
    }
    for line in ["git show HEAD:a.txt", "git diff -- :/"] {
        assert!(matches!(verdict(&bench, line).await, PermissionVerdict::Ask { .. }), "{line}");
    }
}

async fn verdict(bench: &ToolFixture, line: &str) -> PermissionVerdict {
    let review = bench.review("execute", json!({"command": line})).await;
    decide_call(&PermissionRules::default(), "execute", &review)
}
