//! Completion scripts and manual pages.

use crate::sandbox::Sandbox;

#[test]
fn completions_and_manual_pages_are_generated_without_a_home() {
    let mut sandbox = Sandbox::new();
    sandbox.set("SEGUE_HOME", "/dev/null/nowhere");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = sandbox.run(&["completions", shell]);
        assert!(ended.code == 0 && ended.stdout.contains("handoff"), "{shell}: {ended:?}");
        assert!(ended.stdout.contains("uncompact") && ended.stdout.contains("expand"), "{shell}");
        assert!(ended.stdout.contains("summaries") && ended.stdout.contains("namespaces"), "{shell}");
    }
    let ended = sandbox.run(&["man"]);
    assert!(ended.code == 0 && ended.stdout.contains(".TH segue 1"), "{ended:?}");
    let folder = sandbox.work().join("man");
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
}

#[test]
fn the_exit_codes_are_in_the_help() {
    let help = Sandbox::new().run(&["--help"]).stdout;
    for code in ["0", "1", "2", "3", "124", "130"] {
        assert!(help.contains(&format!("\n  {code} ")), "{code}: {help}");
    }
}

#[test]
fn the_help_says_what_a_handoff_is_and_what_can_be_decided() {
    let help = Sandbox::new().run(&["handoff", "--help"]).stdout;
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["a bridge of context, not a fork", "--decide <ID>", "\"feedback\"", "\"revert_to\"", "--plain"]
    {
        assert!(flat.contains(part), "{part}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}
