//! Which command lines are run, one a line; words are separated by blanks.

use super::*;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("work/src")).unwrap();
    std::fs::write(folder.path().join("work/src/a.rs"), "a").unwrap();
    let workspace = Workspace::open(&folder.path().join("work")).unwrap();
    (folder, workspace)
}

fn check_all(lines: &[&str], allowed: bool) {
    let (_folder, workspace) = workspace();
    for line in lines {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let result = check(&argv, &workspace);
        assert_eq!(result.is_ok(), allowed, "{line}: {result:?}");
    }
}

#[test]
fn commands_that_only_read_are_allowed() {
    check_all(
        &[
            "ls",
            "ls -la src",
            "cat -n src/a.rs",
            "head -20 src/a.rs",
            "head -n 20 src/a.rs",
            "tail -f src/a.rs",
            "wc -l src/a.rs",
            "find . -name *.rs -type f -not -path ./target/*",
            "grep -rn fn src",
            "grep --include=*.rs -e /api/v1 src",
            "rg -n --hidden -g *.rs fn",
            "stat -c %s src/a.rs",
            "du -sh .",
            "date -u +%s",
            "date --iso-8601=seconds",
            "uname -a",
            "sort -t , -k2 -u src/a.rs",
            "uniq -c src/a.rs",
            "cut -d: -f1 src/a.rs",
            "which git",
            "pwd",
            "git status --short",
            "git log --oneline -5 -- src",
            "git log -n 5 --format=%h",
            "git diff HEAD~1 --stat",
            "git show HEAD:src/a.rs",
            "git branch -a",
            "git branch --list main",
            "git blame -L 1,5 src/a.rs",
        ],
        true,
    );
}

#[test]
fn k6_commands_that_write_or_start_programs_are_refused() {
    check_all(
        &[
            "rm src/a.rs",
            "sh -c ls",
            "/bin/ls",
            "./ls",
            "env ls",
            "xargs ls",
            "sed -n 1p src/a.rs",
            "awk 1 src/a.rs",
            "cargo metadata",
            "find . -delete",
            "find . -exec ls {} ;",
            "find . -execdir ls {} ;",
            "find . -ok ls {} ;",
            "find . -fprint out",
            "find . -fls out",
            "find -L .",
            "sort -o out src/a.rs",
            "sort --output=out src/a.rs",
            "sort --compress-program=sh src/a.rs",
            "sort -T . src/a.rs",
            "uniq src/a.rs out",
            "date -s tomorrow",
            "date 010100002030",
            "rg --pre sh fn",
            "rg --pre=sh fn",
            "rg --hostname-bin=sh fn",
            "rg -L fn",
            "rg -z fn",
            "grep -R fn .",
            "grep -f src/a.rs src",
            "ls -L src",
            "file -C -m src/a.rs",
            "file -z src/a.rs",
            "tail -F src/a.rs",
            "git",
            "git commit",
            "git -C .. status",
            "git -c core.pager=sh log",
            "git --git-dir=x log",
            "git log --output=out",
            "git log --outp=out",
            "git diff --ext-diff",
            "git diff --textconv",
            "git diff --no-index a b",
            "git diff --submodule=diff",
            "git log --show-signature",
            "git branch -D main",
            "git branch -m a b",
            "git branch --delete main",
            "git grep -O fn",
            "git checkout .",
            "git fetch",
        ],
        false,
    );
}

#[test]
fn k6_paths_outside_the_workspace_are_refused() {
    check_all(
        &[
            "cat /etc/passwd",
            "cat ../",
            "cat -- /etc/passwd",
            "ls ..",
            "find / -name x",
            "find .. -name x",
            "find . -newer /etc/passwd",
            "grep x /etc/passwd",
            "git diff /etc/passwd src/a.rs",
            "git log -- ..",
            "stat /",
            "du -s /etc",
        ],
        false,
    );
}

#[test]
fn a_refusal_says_what_is_allowed() {
    let (_folder, workspace) = workspace();
    let say = |argv: &[&str]| {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        check(&argv, &workspace).unwrap_err()
    };
    assert!(say(&["git log"]).starts_with("\"git log\" is not allowed: every argument is an item of argv"));
    assert!(say(&["/bin/ls"]).contains("programs are named without a path"));
    assert!(say(&["rm"]).contains("ls, cat, head"));
    assert!(say(&["git", "push"]).contains("status, log, diff"));
    assert!(say(&[]).contains("argv is empty"));
}
