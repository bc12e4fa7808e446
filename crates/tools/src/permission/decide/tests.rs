//! Decisions as tables: rules, a call, and the expected verdict.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> PermissionRules {
    let list = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let permissions = Permissions { allow: list(allow), ask: list(ask), deny: list(deny) };
    PermissionRules { permissions, trusted: vec!["task".to_owned()], ..PermissionRules::default() }
}

fn example() -> PermissionRules {
    rules(
        &["read_file", "ls", "execute(cargo test *)", "edit_file(src/**)", "mcp__docs__*"],
        &["execute", "edit_file(src/generated/**)"],
        &["edit_file(.env*)", "read_file(.env*)", "execute(rm *)", "execute(git push*)"],
    )
}

fn path(path: &str) -> CallReview {
    CallReview { subjects: vec![CallSubject::Path(PathBuf::from(path))], ..CallReview::default() }
}

fn command(line: &str) -> CallReview {
    CallReview { subjects: vec![CallSubject::Command(line.to_owned())], ..CallReview::default() }
}

fn read_only_command(line: &str, paths: &[&str]) -> CallReview {
    let mut review = command(line);
    review.subjects.extend(paths.iter().map(|path| CallSubject::Path(PathBuf::from(path))));
    review
}

fn verdict_text(verdict: PermissionVerdict) -> String {
    match verdict {
        PermissionVerdict::Allow { rule } => format!("allow: {rule}"),
        PermissionVerdict::Ask { rule } => format!("ask: {rule}"),
        PermissionVerdict::Deny { rule } => format!("deny: {rule}"),
    }
}

fn check(rules: &PermissionRules, tool: &str, review: &CallReview, expected: &str) {
    let verdict = verdict_text(decide_call(rules, tool, review));
    assert!(verdict.starts_with(expected), "{tool} {:?}: {verdict}, expected {expected}", review.subjects);
}

#[test]
fn without_rules_reading_is_allowed_and_everything_else_needs_approval() {
    let none = PermissionRules { trusted: vec!["task".to_owned()], ..PermissionRules::default() };
    for tool in ["read_file", "ls", "glob", "grep"] {
        check(&none, tool, &path("src/a.rs"), "allow: it reads");
    }
    check(&none, "read_file", &path(".env"), "ask: the file name suggests secrets");
    check(&none, "grep", &path("deploy/id_rsa"), "ask: the file name");
    check(&none, "execute", &read_only_command("cat a", &["a"]), "allow: it only reads");
    check(&none, "execute", &read_only_command("cat .env", &[".env"]), "ask: the file name");
    check(&none, "execute", &command("cat a"), "ask: no rule allows it");
    check(&none, "write_file", &path("a"), "ask: no rule allows it");
    check(&none, "write_file", &CallReview::default(), "allow: it would have no effect");
    check(&none, "execute", &CallReview::default(), "allow: it would have no effect");
    check(&none, "write_todos", &CallReview::default(), "allow");
    check(&none, "task", &CallReview::default(), "allow");
    check(&none, "mcp__x__y", &CallReview::default(), "ask: no rule allows it");
}

#[test]
fn deny_is_stronger_than_ask_and_ask_than_allow() {
    let rules = example();
    check(&rules, "edit_file", &path("src/a.rs"), "allow: allow edit_file(src/**)");
    check(&rules, "write_file", &path("src/a.rs"), "allow: allow edit_file(src/**)");
    check(&rules, "edit_file", &path("src/generated/a.rs"), "ask: ask edit_file(src/generated/**)");
    check(&rules, "edit_file", &path("src/.env"), "deny: deny edit_file(.env*)");
    check(&rules, "write_file", &path("src/.ENV.local"), "deny");
    check(&rules, "edit_file", &path("tests/a.rs"), "ask: no rule");
    check(&rules, "read_file", &path(".env.local"), "deny: deny read_file(.env*)");
    check(&rules, "grep", &path(".env"), "deny");
    check(&rules, "read_file", &path("deploy.pem"), "ask: the file name");
    check(&rules, "execute", &read_only_command("cat .env", &[".env"]), "deny: deny read_file(.env*)");
    check(&rules, "mcp__docs__find", &CallReview::default(), "allow: allow mcp__docs__*");
    check(&rules, "mcp__shop__buy", &CallReview::default(), "ask");
    // An `ask` rule that names only a tool is weaker than an `allow` rule with a pattern, and stronger than the default.
    check(&rules, "execute", &command("cargo test"), "allow: allow execute(cargo test *)");
    check(&rules, "execute", &read_only_command("ls", &[""]), "ask: ask execute");
}

#[test]
fn changes_of_gits_own_files_need_a_rule_with_a_pattern() {
    check(
        &rules(&["edit_file"], &[], &[]),
        "edit_file",
        &path(".git/hooks/pre-commit"),
        "ask: it is one of git's",
    );
    check(&rules(&["edit_file(.git/**)"], &[], &[]), "edit_file", &path(".git/config"), "allow");
    check(&PermissionRules::default(), "read_file", &path(".git/HEAD"), "allow");
    // A remote's address may contain a token.
    check(
        &PermissionRules::default(),
        "read_file",
        &path(".git/config"),
        "ask: the file name suggests secrets",
    );
}

#[test]
fn every_command_of_a_line_must_be_allowed() {
    let rules = rules(&["execute(cargo test *)", "execute(cargo fmt)", "execute(echo *)"], &[], &[]);
    for line in [
        "cargo test",
        "cargo   test --all",
        "cargo test 'a b' \"$HOME\"",
        "cargo fmt && cargo test; cargo test | echo x",
        "cargo test 2>&1 >/dev/null",
        "echo 'a; rm -rf x && $(y)'",
        "\"cargo\" test",
    ] {
        check(&rules, "execute", &command(line), "allow");
    }
    for line in [
        "cargo testing",
        "cargo fmt --all",
        "cargo test; rm x",
        "cargo test && rm x",
        "cargo test || rm x",
        "cargo test | sh",
        "cargo test & rm x",
        "cargo test\nrm x",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test \"$(rm x)\"",
        "cargo test <(rm x)",
        "cargo test > src/lib.rs",
        "echo x >> ~/.profile",
        "echo ${x:=$(rm x)}",
        "PATH=. cargo test",
        "(cargo test)",
        "if cargo test; then rm x; fi",
        "'cargo test'",
        "cargo 'test x'y",
        "/tmp/cargo test",
        "cargo test \u{0}",
        "",
    ] {
        check(&rules, "execute", &command(line), "ask");
    }
}

#[test]
fn a_denied_command_is_recognized_inside_wrappers_and_shells() {
    let rules = rules(&["execute"], &[], &["execute(rm *)", "execute(git push*)"]);
    for line in [
        "rm x",
        "rm",
        "ls; rm x",
        "ls && /bin/rm x",
        "\"rm\" x",
        "r\\m x",
        "A=1 rm x",
        "sudo rm x",
        "sudo -u root env A=1 rm x",
        "timeout 5 rm x",
        "ls | xargs -n1 rm",
        "find . -exec rm {} +",
        "sh -c 'ls; rm x'",
        "sudo bash -c \"rm x\"",
        "eval 'rm x'",
        "sh -c \"sh -c 'rm x'\"",
        "echo $(rm x)",
        "(rm x)",
        "if true; then rm x; fi",
        "ls & rm x",
        "rm x > out",
        "git push",
        "git push --force",
        "git   push",
    ] {
        check(&rules, "execute", &command(line), "deny");
    }
    for line in [
        "ls",
        "echo rm",
        "git commit -m 'rm and git push'",
        "cargo run -- rm",
        "farm x",
        "git pull",
        "(farm x)",
    ] {
        check(&rules, "execute", &command(line), "allow");
    }
}

#[test]
fn a_rule_about_a_folder_covers_its_content() {
    let rules = rules(&["edit_file(docs/)", "edit_file(./README.md)"], &[], &["read_file(private)"]);
    check(&rules, "read_file", &path("private/a/b"), "deny");
    check(&rules, "read_file", &path("x/private/a"), "deny");
    check(&rules, "read_file", &path("privateer"), "allow");
    check(&rules, "edit_file", &path("docs/a/b.md"), "allow");
    check(&rules, "edit_file", &path("README.md"), "allow");
    check(&rules, "edit_file", &path("docs"), "ask");
    check(&rules, "edit_file", &path("sub/README.md"), "ask");
}

#[test]
fn the_strictest_verdict_of_several_subjects_applies() {
    let both = |a: &str, b: &str| CallReview {
        subjects: vec![CallSubject::Path(a.into()), CallSubject::Path(b.into())],
        ..CallReview::default()
    };
    check(&example(), "edit_file", &both("src/a", "src/b"), "allow");
    check(&example(), "edit_file", &both("src/a", "b"), "ask");
    check(&example(), "edit_file", &both("b", ".env"), "deny");
    let url = CallReview {
        subjects: vec![CallSubject::Url("https://docs.rs/serde".to_owned())],
        ..CallReview::default()
    };
    check(&rules(&["fetch(https://docs.rs/*)"], &[], &[]), "fetch", &url, "allow");
    check(&rules(&["fetch(https://crates.example/*)"], &[], &[]), "fetch", &url, "ask");
}

#[test]
fn a_command_that_walks_folders_needs_approval_when_rules_restrict_files() {
    let rules_with_deny = rules(&["execute(rg *)"], &[], &["read_file(private/**)"]);
    for line in ["grep -r k .", "rg k", "find .", "git diff", "ls -R"] {
        check(&rules_with_deny, "execute", &read_only_command(line, &[""]), "ask: it searches folders");
        check(&PermissionRules::default(), "execute", &read_only_command(line, &[""]), "allow");
        let suggestions =
            crate::permission::suggest_rules(&rules_with_deny, "execute", &read_only_command(line, &[""]));
        assert!(suggestions.is_empty(), "no rule would allow the call: {suggestions:?}");
    }
    check(&rules_with_deny, "execute", &read_only_command("cat a", &["a"]), "allow");
    check(&rules_with_deny, "execute", &read_only_command("cat private/x", &["private/x"]), "deny");
    check(&rules(&[], &["grep(a)"], &[]), "execute", &read_only_command("rg k", &[""]), "ask: it searches");
    check(&rules(&[], &[], &["edit_file(a)"]), "execute", &read_only_command("rg k", &[""]), "allow");
}

#[test]
fn invalid_rules_are_refused() {
    for text in
        ["", "()", "execute(", "execute()", "(x)", "rm -rf", "edit_file(/etc/**)", "edit_file(../x)", "ls({)"]
    {
        assert!(text.parse::<PermissionRule>().is_err(), "{text}");
    }
    let error = "edit_file(/etc)".parse::<PermissionRule>().unwrap_err().to_string();
    assert_eq!(
        error,
        "read the rule `edit_file(/etc)`: its path must be relative to the workspace, such as src/**"
    );
    let rule: PermissionRule = " execute(echo \\* (x)) ".parse().unwrap();
    assert_eq!(rule.to_string(), "execute(echo \\* (x))");
    assert!(rule.matches_text("echo * (x)") && !rule.matches_text("echo y (x)"));
}

#[test]
fn suggestions_are_no_wider_than_the_call_and_allow_it() {
    let none = PermissionRules::default();
    for (tool, review, expected) in [
        ("execute", command("cargo test --all"), vec!["execute(cargo test *)"]),
        ("execute", command("rm -rf a*"), vec!["execute(rm -rf a\\*)"]),
        ("execute", command("git push --force"), vec!["execute(git push --force)"]),
        (
            "execute",
            command("cargo fmt && cargo test x | pytest -q"),
            vec!["execute(cargo fmt *)", "execute(cargo test *)", "execute(pytest *)"],
        ),
        ("execute", command("cargo build; cargo build -q"), vec!["execute(cargo build *)"]),
        ("execute", command("npm run build"), vec!["execute(npm run build)"]),
        ("execute", command("gh pr list"), vec!["execute(gh pr list)"]),
        ("execute", command("git stash list"), vec!["execute(git stash list)"]),
        ("execute", command("docker container ls"), vec!["execute(docker container ls)"]),
        ("execute", command("git diff"), vec!["execute(git diff)"]),
        ("execute", command("A=1 cargo test"), vec!["execute(A=1 cargo test)"]),
        ("edit_file", path("src/a/b.rs"), vec!["edit_file(src/a/**)"]),
        ("edit_file", path("[x].md"), vec!["edit_file(./[[]x[]].md)"]),
        ("read_file", path("deploy/.env"), vec!["read_file(deploy/.env)"]),
        ("mcp__a__b", CallReview::default(), vec!["mcp__a__b"]),
    ] {
        let suggestions = crate::permission::suggest_rules(&none, tool, &review);
        assert_eq!(suggestions, expected);
        let expected: Vec<&str> = suggestions.iter().map(String::as_str).collect();
        check(&rules(&expected, &["execute"], &[]), tool, &review, "allow");
    }
    for line in ["ls > out", "echo $(x)", "(a)", ""] {
        assert!(crate::permission::suggest_rules(&none, "execute", &command(line)).is_empty(), "{line}");
    }
}

proptest! {
    #[test]
    fn k6_an_allowed_line_runs_only_the_allowed_command(suffix in "[ x'\"\\\\;|&$(){}<>#=\n\r\t`*~!-]{0,12}") {
        let rules = rules(&["execute(cargo test *)"], &[], &[]);
        let line = format!("cargo test {suffix}");
        if let PermissionVerdict::Allow { .. } = decide_call(&rules, "execute", &command(&line)) {
            let folder = tempfile::tempdir().unwrap();
            let script = format!("cargo() {{ :; }}\ncommand_not_found_handle() {{ echo \"ran $1\"; }}\n{line}");
            let output = std::process::Command::new("/bin/bash")
                .args(["-c", &script])
                .env("PATH", folder.path())
                .current_dir(folder.path())
                .output()
                .unwrap();
            prop_assert!(output.stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
            prop_assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{}", line);
        }
    }
}

#[test]
fn commands_in_the_sandbox_are_allowed_if_no_rule_is_about_them() {
    let confined = |confinement| CallReview { confinement, ..command("make all") };
    let trusting =
        |rules: PermissionRules| PermissionRules { sandboxed_commands: SandboxedCommands::Allow, ..rules };
    let default = trusting(PermissionRules::default());
    check(&default, "execute", &confined(Confinement::Sandboxed), "allow: it runs in the sandbox");
    check(&default, "execute", &confined(Confinement::None), "ask");
    check(&default, "execute", &confined(Confinement::Declined), "ask");
    check(&default, "write_file", &path("a"), "ask");
    let untrusting = PermissionRules::default();
    check(&untrusting, "execute", &confined(Confinement::Sandboxed), "ask: no rule allows it");
    for (ask, deny, expected) in [
        (&["execute(make *)"][..], &[][..], "ask: ask execute(make *)"),
        (&["execute"], &[], "ask: ask execute"),
        (&[], &["execute(make *)"], "deny"),
    ] {
        let rules = trusting(rules(&[], ask, deny));
        check(&rules, "execute", &confined(Confinement::Sandboxed), expected);
    }
}

#[test]
fn a_command_outside_the_sandbox_needs_approval_whatever_rule_allows_it() {
    let outside = |line| CallReview { confinement: Confinement::Declined, ..command(line) };
    let allowing = rules(&["execute", "execute(make *)"], &[], &["execute(rm *)"]);
    check(&allowing, "execute", &command("make all"), "allow");
    check(&allowing, "execute", &outside("make all"), "ask: it would run outside the sandbox");
    check(&allowing, "execute", &outside("rm x"), "deny");
    let read_only =
        CallReview { confinement: Confinement::Declined, ..read_only_command("cat src/a", &["src/a"]) };
    check(&allowing, "execute", &read_only, "ask: it would run outside the sandbox");
    let suggestions = crate::permission::suggest_rules(&allowing, "execute", &outside("make all"));
    assert!(suggestions.is_empty(), "{suggestions:?}");
}
