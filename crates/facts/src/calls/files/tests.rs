//! Tests of the files that are carried over after a sequence of calls.

use crate::facts::ConversationFacts;
use crate::notation::parse_facts;

/// Returns the facts of a sequence of calls. A call is `Edit PATH`, `Write PATH`, `Read PATH`, or a command. Its result follows
/// after ` => `, or after ` =!> ` if it is an error.
fn facts_of(calls: &[&str]) -> ConversationFacts {
    let mut transcript = String::from("U: Do it.");
    for (index, call) in calls.iter().enumerate() {
        let (call, status, result) = match (call.split_once(" => "), call.split_once(" =!> ")) {
            (Some((call, result)), _) => (call, "T", result),
            (None, Some((call, result))) => (call, "E", result),
            (None, None) => (*call, "T", "ok"),
        };
        let tool = call.split_once(' ').filter(|(tool, _)| matches!(*tool, "Edit" | "Write" | "Read"));
        let (tool, args) = match tool {
            Some((tool, path)) => (tool, serde_json::json!({ "file_path": path })),
            None => ("Bash", serde_json::json!({ "command": call })),
        };
        transcript.push_str(&format!("\n C: {index} {tool} {args}\n {status}: {index} {result}"));
    }
    parse_facts(&transcript)
}

/// Returns the files that are carried over after a sequence of calls, sorted by name.
fn carried_files(calls: &[&str]) -> String {
    let files = facts_of(calls).carried_facts().files;
    [("changed", files.changed), ("read", files.read), ("deleted", files.deleted)]
        .into_iter()
        .filter(|(_, paths)| !paths.is_empty())
        .map(|(label, mut paths)| {
            paths.sort_unstable();
            format!("{label}: {}", paths.join(" "))
        })
        .collect::<Vec<_>>()
        .join("; ")
}

fn check(cases: &[(&[&str], &str)]) {
    for (calls, expected) in cases {
        assert_eq!(carried_files(calls), *expected, "{calls:?}");
    }
}

#[test]
fn a_file_from_another_commit_is_changed_and_one_from_the_last_commit_is_not() {
    check(&[
        (
            &["cd tests/fixtures && rm a.json b.json", "git checkout v2 -- tests/fixtures/a.json"],
            "changed: tests/fixtures/a.json; deleted: tests/fixtures/b.json",
        ),
        (&["rm a.json b.json", "git checkout v2 a.json"], "changed: a.json; deleted: b.json"),
        (
            &["rm a.json b.json", "git checkout v2 -- tests/fixtures/a.json"],
            "changed: tests/fixtures/a.json; deleted: b.json",
        ),
        (&["rm a.json", "git restore --source=v2 a.json"], "changed: a.json"),
        (&["rm a.json", "git checkout v2 -- a.json =!> error: pathspec"], "deleted: a.json"),
        (&["rm assets/old.css && git restore assets/old.css"], ""),
        (&["git restore assets/old.css && rm assets/old.css"], "deleted: assets/old.css"),
        (&["rm a.css && touch a.css"], "changed: a.css"),
        (&["git rm -q --cached a.css"], "read: a.css"),
        (&["git rm -q a.css", "git restore --staged a.css"], "deleted: a.css"),
    ]);
}

#[test]
fn an_operation_that_the_output_reports_as_failed_has_no_effect() {
    check(&[
        (&["rm README.md || true => rm: cannot remove 'README.md': No such file or directory"], ""),
        (&["rm a.md; true => rm: a.md: No such file or directory"], ""),
        (
            &["rm a.md b.md; true => rm: cannot remove 'docs/a.md': No such file or directory"],
            "deleted: a.md b.md",
        ),
        (&["rm a.md b.md; true => rm: cannot remove 'b.md': No such file or directory"], "deleted: a.md"),
        (&["mv a.ts b.ts; true => mv: cannot stat 'a.ts': No such file or directory"], ""),
        (&["mv a.ts b.ts lib; true => mv: target 'lib': No such file or directory"], ""),
        (&["git mv a.rs b.rs; cargo build | tail => error: no file a.rs"], "changed: b.rs; deleted: a.rs"),
        (&["git mv a.rs b.rs; true => fatal: bad source, source=a.rs, destination=b.rs"], ""),
        (&["Edit b.ts", "mv a.ts b.ts; true => mv: cannot stat 'a.ts': No such file"], "changed: b.ts"),
        (
            &["Edit core.py", "git checkout -- core.py; true => error: pathspec 'core.py' did not match"],
            "changed: core.py",
        ),
    ]);
}

#[test]
fn undone_changes_are_no_changes_unless_they_were_committed() {
    check(&[
        (&["Edit core.py", "git checkout -- core.py"], ""),
        (&["Edit core.py", "git restore core.py"], ""),
        (&["Edit core.py", "git checkout core.py"], ""),
        (&["Edit core.py", "git checkout HEAD -- core.py"], ""),
        (&["Edit /w/repo/core.py", "git checkout -- core.py"], ""),
        (&["Edit /w/repo/core.py", "cd /w/repo && git checkout -- core.py"], ""),
        (&["Edit /w/repo/src/core.py", "cd /w/repo && git checkout -- src"], ""),
        (&["Edit src/core.py", "Edit lib/a.py", "git checkout -- src/"], "changed: lib/a.py"),
        (&["Edit core.py", "Edit lib/a.py", "git checkout ."], ""),
        (&["Read core.py", "Edit core.py", "git restore core.py"], "read: core.py"),
        (&["Edit core.py", "git commit -am x", "Edit core.py", "git restore core.py"], "changed: core.py"),
        (&["Edit core.py", "git restore core.py", "git commit -am x"], ""),
        (&["Edit core.py", "git commit -am x =!> hook failed", "git restore core.py"], ""),
        (&["Edit core.py", "git restore core.py =!> error: pathspec"], "changed: core.py"),
        (&["Edit core.py", "git checkout main"], "changed: core.py"),
        (&["Edit core.py", "git checkout -b core.py"], "changed: core.py"),
        (&["Edit core.py", "git checkout -- core.py", "Edit core.py"], "changed: core.py"),
    ]);
}

#[test]
fn a_hard_reset_undoes_the_changes_since_the_last_commit() {
    check(&[
        (&["Edit a.rs", "rm b.rs", "git reset --hard"], ""),
        (&["Edit a.rs", "rm b.rs", "git reset --hard HEAD"], ""),
        (&["Edit /w/a.rs", "cd /w && git reset -q --hard"], ""),
        (&["rm b.rs", "git commit -am x", "Edit a.rs", "git reset --hard"], "deleted: b.rs"),
        (&["rm b.rs && git commit -am x && git reset --hard"], "deleted: b.rs"),
        (&["rm b.rs", "git reset --hard =!> fatal: not a git repository"], "deleted: b.rs"),
        (&["rm b.rs", "git reset --soft HEAD"], "deleted: b.rs"),
        (&["rm b.rs", "cd /other/clone && git reset --hard"], ""),
        (&["Edit /w/src/a.rs", "cat src/a.rs", "cd /other/clone && git reset --hard"], "changed: src/a.rs"),
        // Git keeps the files that it does not know.
        (&["Write new.rs", "git reset --hard"], "changed: new.rs"),
        (&["Write new.rs", "git reset --hard && git clean -fd"], ""),
        (&["Edit a.rs", "git reset --hard && echo x >> a.rs"], "changed: a.rs"),
    ]);
}

#[test]
fn every_file_that_a_command_edits_copies_or_moves_is_changed() {
    check(&[
        (&["sed -i 's/a/b/' src/k.c src/l.c"], "changed: src/k.c src/l.c"),
        (&["sed -i '' -e 's/a/b/' -e 's/c/d/' k.c l.c"], "changed: k.c l.c"),
        (&["perl -pi -e 's/a/b/' k.c l.c"], "changed: k.c l.c"),
        (&["mv utils/config.ts ."], "changed: config.ts; deleted: utils/config.ts"),
        (&["mv a.ts b.ts utils/"], "changed: utils/a.ts utils/b.ts; deleted: a.ts b.ts"),
        (&["git mv a.ts b.ts utils"], "changed: utils/a.ts utils/b.ts; deleted: a.ts b.ts"),
        (&["Edit /w/r/a.ts", "cd /w/r && mv a.ts utils/"], "changed: utils/a.ts; deleted: a.ts"),
        (&["Write a.ts", "mv a.ts utils/"], "changed: utils/a.ts"),
        (&["cp a.ts b.ts utils/"], "changed: utils/a.ts utils/b.ts; read: a.ts b.ts"),
        (&["cp lib/a.ts ./"], "changed: a.ts; read: lib/a.ts"),
        (&["mv -t utils a.ts"], "changed: utils/a.ts; deleted: a.ts"),
        (&["cd pkg && mv utils/config.ts .."], "changed: config.ts; deleted: pkg/utils/config.ts"),
        (&["mv *.ts utils/ && mv \"$FILE\" lib/"], ""),
        (&["bash -lc 'sed -i s/a/b/ k.c'"], "changed: k.c"),
    ]);
}

#[test]
fn words_in_scripts_and_patterns_are_no_files() {
    check(&[
        (&[r#"sed -i 's|from "./config.js"|from "../config.js"|' x.ts"#], "changed: x.ts"),
        (&[r#"sed -n '/lib.ts/,/end.ts/p' x.ts"#], "read: x.ts"),
        (&[r#"awk '/a.ts/ { print "b.ts" }' x.ts"#], "read: x.ts"),
        (&[r#"perl -ne 'print if /a.ts/' x.ts"#], "read: x.ts"),
        (&[r#"grep -rn "from './config.js'" src/x.ts | head"#], "read: src/x.ts"),
        (&[r#"rg -n -A 3 'config.js|other.js' x.ts"#], "read: x.ts"),
        (&[r#"git grep -n 'config.js' -- x.ts"#], "read: x.ts"),
        (&[r#"find . -name '*.ts' -exec sed -i 's/a.js/b.js/' {} \;"#], ""),
        (&[r#"ls | xargs grep -l 'config.js'"#], ""),
        (&["rg --files -g '*.ts' lib/x.ts"], "read: lib/x.ts"),
        (&["grep -c '' x.ts"], "read: x.ts"),
        (
            &["cd /p/src\n# config.ts moved, so a.ts needs ../utils/config.js\ncat b.ts # not c.ts"],
            "read: b.ts",
        ),
        (&["grep -f names.txt x.ts"], "read: names.txt x.ts"),
    ]);
}

#[test]
fn names_keep_the_folder_of_a_cd() {
    check(&[
        (&["cd packages/agent && sed -i 's/a/b/' main.ts"], "changed: packages/agent/main.ts"),
        (
            &["cd packages/agent && cat main.ts\ncd ../web; cat x.ts"],
            "read: packages/agent/main.ts packages/web/x.ts",
        ),
        (&["(cd packages/agent && cat main.ts); cat x.ts"], "read: packages/agent/main.ts x.ts"),
        (&["cd \"$ROOT\" && cat main.ts && cd ~/x && cat y.ts"], "read: main.ts y.ts"),
        (&["cd /w/repo && cat src/x.ts", "Edit /w/repo/src/y.ts"], "changed: src/y.ts; read: src/x.ts"),
        (&["Edit /w/repo/packages/a/x.ts", "cd packages/a && cat x.ts"], "changed: packages/a/x.ts"),
        (&["cd /w/repo/packages/a && cat x.ts", "cat packages/a/x.ts"], "read: packages/a/x.ts"),
        (
            &["Edit /w/repo/src/a.ts", "cd /w/repo/src && cat x/b.ts y/c.ts", "cd /w/repo && cat test/d.ts"],
            "changed: a.ts; read: test/d.ts x/b.ts y/c.ts",
        ),
        (
            &["cp /w/a/src/x.ts /w/b/src/x.ts", "cd /w/b && cat src/x.ts", "Edit /w/b/src/x.ts"],
            "changed: src/x.ts",
        ),
        (&["cd /w/repo && rm src/x.ts"], "deleted: src/x.ts"),
        (&["git -C packages/a rm x.ts"], "deleted: packages/a/x.ts"),
    ]);
}

#[test]
fn a_temporary_file_is_no_fact() {
    check(&[
        (&["touch tmp.log; rm -f tmp.log"], ""),
        (&["touch tmp.txt; rm -f tmp.txt"], ""),
        (&["cat > x.py <<'E'\nprint(1)\nE", "rm x.py"], ""),
        (&["sed 's/a/b/' k.c > k.tmp && mv k.tmp k.c"], "changed: k.c"),
        (&["echo x >> k.txt", "rm k.txt"], "deleted: k.txt"),
    ]);
    let facts = facts_of(&["touch tmp.log; rm -f tmp.log"]);
    let file = facts.files.iter().find(|file| file.path == "tmp.log");
    assert!(file.is_some_and(|file| file.is_temporary()));
}
