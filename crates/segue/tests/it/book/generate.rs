//! Generated files: completion scripts, manual pages, and the pages of the book that a command prints.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::TestSandbox;

#[test]
fn completions_and_manual_pages_are_generated_without_a_home() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("SEGUE_HOME", "/dev/null/nowhere");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = sandbox.run(&["completions", shell]);
        assert!(output.code == 0 && output.stdout.contains("handoff"), "{shell}: {output:?}");
        assert!(output.stdout.contains("uncompact") && output.stdout.contains("expand"), "{shell}");
        assert!(output.stdout.contains("summaries") && output.stdout.contains("namespaces"), "{shell}");
    }
    let output = sandbox.run(&["man"]);
    assert!(output.code == 0 && output.stdout.contains(".TH segue 1"), "{output:?}");
    let folder = sandbox.work_folder().join("man");
    assert_eq!(sandbox.run(&["man", folder.to_str().unwrap()]).code, 0);
    for page in [
        "segue.1",
        "segue-run.1",
        "segue-threads-list.1",
        "segue-compact.1",
        "segue-context.1",
        "segue-trace.1",
        "segue-search.1",
        "segue-memory-trace.1",
        "segue-store-put.1",
    ] {
        assert!(folder.join(page).exists(), "{page}");
    }
    let handoff = std::fs::read_to_string(folder.join("segue-handoff.1")).unwrap();
    let lines: Vec<&str> = handoff.lines().collect();
    let options: Vec<&[&str]> = lines.windows(3).filter(|lines| lines[0] == ".TP").collect();
    assert!(options.iter().any(|option| option[1].contains("messages")), "{handoff}");
    for option in options {
        assert!(!option[2].starts_with(".TP") && !option[2].starts_with(".SH"), "{option:?} has no text");
    }
}

#[test]
fn the_exit_codes_are_in_the_help() {
    let help = TestSandbox::new().run(&["--help"]).stdout;
    for code in ["0", "1", "2", "3", "124", "130"] {
        assert!(help.contains(&format!("\n  {code} ")), "{code}: {help}");
    }
}

#[test]
fn the_help_explains_handoffs_and_their_decisions() {
    let help = TestSandbox::new().run(&["handoff", "--help"]).stdout;
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["a bridge of context, not a fork", "--decide <ID>", "\"feedback\"", "\"revert_to\"", "--plain"]
    {
        assert!(flat.contains(part), "{part}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

/// Asserts that a page of the book equals the command's output.
#[track_caller]
fn assert_page(committed: &str, page: &str, command: &[&str]) {
    let made = TestSandbox::new().run(command);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(
        made.stdout == committed,
        "docs/src/{page} is not what the code says: `segue {} > docs/src/{page}` makes it again",
        command.join(" ")
    );
}

/// Returns the `SEGUE_…` environment variables that occur in the program's sources.
fn documented_variables() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(crates).unwrap().map(|room| room.unwrap().path().join("src")).collect();
    // Only tests use these variables.
    let is_test_crate = |folder: &Path| {
        ["test_postgres", "test_counts"].iter().any(|name| folder.starts_with(crates.join(name)))
    };
    folders.retain(|folder| !is_test_crate(folder) && folder.is_dir());
    let mut variables = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap();
                let named = text.split('"').filter(|part| part.starts_with("SEGUE_"));
                let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                variables.extend(named.filter(is_name).map(str::to_owned));
            }
        }
    }
    assert!(variables.contains("SEGUE_HOME") && variables.len() > 5, "{variables:?}");
    variables
}

#[test]
fn the_book_has_every_command_and_every_configuration_key_as_the_code_has_them() {
    let (commands, keys) = (
        include_str!("../../../../../docs/src/commands.md"),
        include_str!("../../../../../docs/src/configuration.md"),
    );
    assert_page(commands, "commands.md", &["man", "--markdown"]);
    assert_page(keys, "configuration.md", &["config", "keys", "--markdown"]);
    for variable in documented_variables() {
        assert!(keys.contains(&format!("| `{variable}` |")), "{variable} is read, and is not on the page");
    }
    for output in ["## `segue compact`", "## `segue config keys`", "--decision-file"] {
        assert!(commands.contains(output), "{output}");
    }
    for output in
        ["`[compaction]`", "`[[hooks]]`", "`[mcp.servers.NAME]`", "| `propose_at` | a number | `0.75` |"]
    {
        assert!(keys.contains(output), "{output}");
    }
}

#[test]
fn the_keys_of_the_configuration_are_shown_as_text_and_as_a_schema() {
    let sandbox = TestSandbox::new();
    let text = sandbox.run(&["config", "keys"]).stdout;
    assert!(
        text.contains("[compaction]") && text.contains("trim_tokens (a whole number, default 2000)"),
        "{text}"
    );
    let schema = sandbox.json(&["config", "keys", "--json"]);
    assert_eq!(schema["properties"]["model"]["type"], serde_json::json!(["string", "null"]));
    assert_eq!(schema["additionalProperties"], false, "a key that is misspelled is a mistake");
}
