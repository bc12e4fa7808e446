//! Recognition of read-only command lines, as tables with one line each.

use super::*;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("work/src")).unwrap();
    std::fs::create_dir(folder.path().join("work/.git")).unwrap();
    std::fs::write(folder.path().join("work/src/a.rs"), "a").unwrap();
    let workspace = Workspace::open(&folder.path().join("work")).unwrap();
    (folder, workspace)
}

fn check_all(lines: &[&str], is_read_only: bool) {
    let (_folder, workspace) = workspace();
    for line in lines {
        let paths = parse_read_only(line).and_then(|command| command.paths(&workspace));
        assert_eq!(paths.is_some(), is_read_only, "{line}");
    }
}

fn script(line: &str) -> String {
    let (_folder, workspace) = workspace();
    parse_read_only(line).unwrap().script(&workspace)
}

#[test]
fn read_only_commands_are_recognized() {
    check_all(
        &[
            "ls",
            "ls -la src",
            "cat -n src/a.rs",
            "head -20 src/a.rs",
            "head -n 20 src/a.rs",
            "tail -f src/a.rs",
            "wc -l src/a.rs",
            "find . -name '*.rs' -type f -not -path './target/*'",
            "grep -rn fn src",
            "grep --include='*.rs' -e /api/v1 src",
            "rg -n --hidden -g '*.rs' fn",
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
            "git branch --contains HEAD",
            "git diff -U5 HEAD",
            "git log --author bob --since=yesterday",
            "uniq -",
            "head -n -5 src/a.rs",
            "diff -u src/a.rs src/a.rs",
            "git blame -L 1,5 src/a.rs",
            "git log --oneline | head -3 && git status 2>/dev/null; pwd",
            "cat src/a.rs 2>&1 || true",
            "echo \"a b\" | tr a-z A-Z",
            "cd . && ls",
        ],
        true,
    );
}

#[test]
fn k6_commands_that_may_write_or_start_programs_are_not_read_only() {
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
            "find . -exec ls '{}' ';'",
            "find . -execdir ls '{}' ';'",
            "find . -ok ls '{}' ';'",
            "find . -fprint out",
            "find . -fls out",
            "find -L .",
            "sort -o out src/a.rs",
            "sort --output=out src/a.rs",
            "sort --compress-program=sh src/a.rs",
            "sort -T . src/a.rs",
            "uniq src/a.rs out",
            "uniq - out",
            "uniq -- - out",
            "uniq -c - out",
            "uniq - ../out",
            "diff -uN . src",
            "diff -r . src",
            "diff -u . src",
            "diff src/a.rs src",
            "grep -d recurse x .",
            "grep -rv . -e",
            "grep -r x . --exclude",
            "grep -rv x -e -- .",
            "rg x --glob",
            "sort src/a.rs -k",
            "head src/a.rs -n",
            "less src/a.rs",
            "tee src/a.rs",
            "tar -cf out .",
            "find -name",
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
        ],
        false,
    );
}

#[test]
fn k6_git_is_read_only_with_listed_sub_commands_and_options_only() {
    check_all(
        &[
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
            "git branch new",
            "git branch new HEAD",
            "git branch -v new",
            "git branch -a new",
            "git diff -U --output=out",
            "git diff -U 3",
            "git diff -U3x",
            "git diff -a",
            "git log -L 1,5:src/a.rs",
            "git log --open-files-in-pager=sh",
            "git describe --dirty",
            "git status -v",
            "git blame -S src/a.rs src/a.rs",
            "git grep -O fn",
            "git checkout .",
            "git fetch",
        ],
        false,
    );
}

#[test]
fn k6_a_line_is_read_only_if_every_command_is() {
    check_all(
        &[
            "ls; rm src/a.rs",
            "ls && rm src/a.rs",
            "ls | sh",
            "ls | xargs rm",
            "ls\nrm src/a.rs",
            "ls & rm src/a.rs",
            "ls > out",
            "ls >> out",
            "cat < src/a.rs",
            "ls $(rm src/a.rs)",
            "ls `rm src/a.rs`",
            "ls *.rs",
            "ls ~",
            "ls $HOME",
            "ls {src,..}",
            "LD_PRELOAD=x ls",
            "cd src && ls",
            "cd .. && ls",
            "cd; ls",
            "(ls)",
            "ls # x",
            "",
        ],
        false,
    );
}

#[test]
fn k6_reading_outside_the_workspace_is_not_read_only() {
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
            "cat ../missing",
            "uniq ../missing",
            "cat /missing",
            "stat /",
            "du -s /etc",
        ],
        false,
    );
}

#[test]
fn k6_the_script_runs_the_parsed_words_with_forced_options() {
    assert_eq!(script("ls   'a  b'"), "ls 'a  b'");
    let diff = script("git diff HEAD | head -3");
    let forced = "git --no-pager diff --no-ext-diff --no-textconv --ignore-submodules=all --relative HEAD";
    let excluded: Vec<String> =
        change_command::excluding_pathspecs().map(|pathspec| shell::quote(&pathspec)).collect();
    assert!(excluded[0] == "':(top,exclude,icase,glob)**/*.env'" && excluded.len() > 100, "{excluded:?}");
    assert_eq!(diff, format!("{forced} -- {} | head -3", excluded.join(" ")));
    assert_eq!(script("git branch --list x"), "git --no-pager branch --list --list x");
    assert_eq!(script("cat src/a.rs 2>&1 >/dev/null"), "cat src/a.rs 2>&1 >/dev/null");
    let grep = script("grep -r --include='*' x -- src");
    assert!(grep.starts_with("grep -r '--include=*' x '--exclude=*.[eE][nN][vV]' '--exclude="), "{grep}");
    assert!(grep.ends_with(" -- src"), "{grep}");
    assert_eq!(script("grep x .env"), "grep x .env", "a file named by the call is read");
    let grep = script("grep -r -e S= -e x/.env .");
    assert!(grep.contains("[eE][nN][vV]"), "{grep}");
    let rg = script("rg -g '*' x");
    assert!(rg.starts_with("rg --no-config -g '*' x '--iglob=!*.env'"), "{rg}");
}

#[test]
fn a_read_only_line_names_its_paths() {
    let (folder, workspace) = workspace();
    std::fs::write(folder.path().join("work/.env"), "SECRET=1").unwrap();
    let paths = |line: &str| parse_read_only(line).unwrap().paths(&workspace).unwrap();
    let named = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(paths("cat src/a.rs .env"), named(&["src/a.rs", ".env", ".env"]));
    assert_eq!(paths("git show HEAD:.env"), named(&[".env"]));
    assert_eq!(paths("cat src/../.env | head"), named(&[".env", "src/../.env"]));
    assert_eq!(paths("pwd"), named(&[""]));
    assert_eq!(paths("git show HEAD:./src/../src/a.rs"), named(&["src/a.rs"]));
}

#[test]
fn k6_no_option_takes_another_option_as_its_value() {
    let mut lines = Vec::new();
    for program in READ_ONLY_PROGRAMS.iter().chain(GIT_SUBCOMMANDS) {
        let is_git = GIT_SUBCOMMANDS.iter().any(|sub| std::ptr::eq(sub, program));
        let name = if is_git { format!("git {}", program.name) } else { program.name.to_owned() };
        let letters = program
            .flag_letters
            .chars()
            .chain(program.value_letters.chars())
            .chain(program.number_letters.chars());
        let options = letters.map(|letter| format!("-{letter}"));
        let options = options.chain(
            program
                .long_options
                .iter()
                .copied()
                .flatten()
                .map(|option| option.trim_end_matches('=').to_owned()),
        );
        for option in options {
            lines.extend(["--output=x", "-o", "--pre=sh"].map(|hidden| (format!("{name} {option}"), hidden)));
        }
    }
    for (find, count) in FIND_TESTS.iter().filter(|(_, count)| *count > 0) {
        lines.push((format!("find . {find}{}", " x".repeat(count - 1)), "-delete"));
    }
    for (line, hidden) in lines {
        let is_read_only_alone =
            parse_read_only(&format!("{} {hidden}", line.rsplit_once(' ').unwrap().0)).is_some();
        let line = format!("{line} {hidden}");
        assert!(is_read_only_alone || parse_read_only(&line).is_none(), "{line}");
    }
}

#[test]
fn commands_that_walk_folders_are_recognized() {
    for line in
        ["grep -rn k .", "grep -nr k", "rg k", "find .", "ls -R", "du", "git diff", "git show", "git log -p"]
    {
        assert!(parse_read_only(line).unwrap().is_search, "{line}");
    }
    for line in ["grep k src/a.rs", "cat src/a.rs", "ls src", "git status", "git log --oneline -5", "pwd"] {
        assert!(!parse_read_only(line).unwrap().is_search, "{line}");
    }
}

#[test]
fn k6_git_leaves_files_of_secrets_out_of_content_only() {
    let exclusion = "':(top,exclude,icase,glob)**/*.pem'";
    let excludes = |line: &str| script(line).contains(exclusion);
    for line in [
        "git log -p",
        "git log -bp -3 main",
        "git log -U5",
        "git log -S hush",
        "git log -Ghush --oneline",
        "git log --patch -- src",
        "git show",
        "git show --stat -p HEAD",
        "git show HEAD -- .env src",
        "git diff -s -Shush",
        "git diff --check --stat",
        "git diff src/a.rs",
    ] {
        assert!(excludes(line), "{line}: {}", script(line));
    }
    for line in [
        "git log --oneline -5",
        "git log --stat",
        "git log -n 3 -- -p",
        "git show --stat HEAD",
        "git show -s",
        "git diff --name-only",
        "git diff HEAD:src/a.rs HEAD~1:src/a.rs",
        "git log -p -- .env",
        "git diff HEAD -- .env x/id_rsa",
    ] {
        assert!(!excludes(line), "{line}: {}", script(line));
    }
    assert!(script("git log -p main src/a.rs").contains(" -p main -- src/a.rs ':("));
    assert!(script("git log -p '*.rs'").contains(" -p -- '*.rs' ':("));
    assert!(script("git log -p main").contains(" -p --full-history --sparse main -- ':("));
    assert!(script("git show 'HEAD^{/a*}'").contains(" --sparse 'HEAD^{/a*}' -- ':("));
}

#[test]
fn k6_the_revisions_of_git_have_an_expected_kind() {
    let (_folder, workspace) = workspace();
    let expected = |line: &str| {
        let objects = parse_read_only(line).unwrap().expected_objects(&workspace);
        (objects.commits.join(" "), objects.files.join(" "))
    };
    let objects = |commits: &str, files: &str| (commits.to_owned(), files.to_owned());
    assert_eq!(expected("git show abcd src/a.rs"), objects("abcd", ""));
    assert_eq!(expected("git show --stat abcd..v1 :/fix"), objects("abcd..v1 :/fix", ""));
    assert_eq!(expected("git diff abcd -- dcba && git show dcba"), objects("abcd dcba", ""));
    assert_eq!(expected("git diff HEAD:src/a.rs :src/a.rs"), objects("", "HEAD:src/a.rs :src/a.rs"));
    assert_eq!(expected("git show HEAD:src/a.rs"), objects("", ""));
    assert_eq!(expected("git log -p abcd"), objects("", ""));
    check_all(
        &[
            "git diff HEAD:.env..HEAD:src/a.rs",
            "git show HEAD:.env..",
            "git show HEAD:.env...HEAD:src/a.rs",
            "git log -p --follow src/a.rs",
            "git log --follow -S hush src/a.rs",
        ],
        false,
    );
    check_all(&["git log --follow --oneline src/a.rs", "git show HEAD~1..HEAD"], true);
}

#[test]
fn a_glob_is_made_case_insensitive() {
    assert_eq!(case_insensitive_glob("*.e[!a-]x"), "*.[eE][!aA-][xX]");
}
