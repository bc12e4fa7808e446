//! The book in `docs/src`: the commands, configurations and JSON of its pages work as written. The submodules also test other
//! texts for readers: the help, the README, and the pages that are generated from the program. `cargo xtask` builds the book and
//! checks its links.
//!
//! Format of the blocks of a page:
//!
//! - Each ```` ```sh ```` block is run. One `bash -euo pipefail` runs all blocks in the order of the page, so variables persist.
//!   At the start the folder contains only `examples/`, the home folder is empty, no API key is set, and standard input is empty.
//!   Background processes are killed at the end of the page.
//! - A block ```` ```sh,typed=KEYS ```` has a terminal. The keys are separated by `+`: `enter`, `esc`, `tab`, `up`, `down`,
//!   `ctrl-c`, `ctrl-d`, or text, with `_` for a space. A key is typed at once unless it has a condition: `TEXT:KEY` waits until
//!   TEXT is on the screen, and `FIRST…SECOND:KEY` waits until SECOND is on the screen below FIRST. For example, `a+enter` is
//!   typed too early for a review, and `Decide_later:a+enter` is not.
//! - The test replaces these names with those of its own servers: the address `http://127.0.0.1:2024` of a server that
//!   `segue serve` starts; the databases `postgres://segue@db.example/segue` and `…/mirror`; and the key in
//!   `export ANTHROPIC_API_KEY=sk-ant-…`, which selects a model that answers "Done." to every request.
//! - Commands occur only in these blocks. Their output is in `text` blocks. A `toml` block is a complete `config.toml`. A `json`
//!   block has one or more values. Blocks in `rust`, `http`, `python`, `sql` and `js` are not run.

mod generate;
mod help;
mod page;
mod reader;
mod readme;

use std::fs;

use page::{BookBlockKind, BookPageText};
use serde_json::Value;

use crate::sandbox::TestSandbox;

/// The pages with commands, each a test.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        /// The pages that are run.
        const RUN: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                reader::run_page($page);
            }
        )*
    };
}

pages! {
    the_page_in_the_browser_works: "browser.md",
    handoff_compaction_or_fork_works: "comparison.md",
    concepts_work: "concepts.md",
    contracts_work: "contracts.md",
    the_first_handoff_works: "first-handoff.md",
    from_other_agents_works: "from-other-agents.md",
    hooks_work: "hooks.md",
    the_http_api_works: "http.md",
    installation_works: "install.md",
    as_a_langgraph_server_works: "langgraph-server.md",
    long_threads_work: "long-threads.md",
    the_mirror_works: "mirror.md",
    for_operators_works: "operators.md",
    on_postgresql_works: "postgresql.md",
    the_runbook_works: "runbook.md",
    traces_work: "traces.md",
    upgrades_work: "upgrades.md",
    working_in_the_terminal_works: "working.md",
}

/// Gathers what is wrong with blocks of all pages.
fn collect_findings(wrong: impl Fn(&page::BookBlock) -> Option<String>) -> Vec<String> {
    let findings_of_page = |page: &BookPageText| -> Vec<String> {
        let problems = page.blocks.iter().filter_map(|block| Some((block.line, wrong(block)?)));
        problems.map(|(line, what)| format!("{}: {what}", page.location_of(line))).collect()
    };
    BookPageText::load_all().iter().flat_map(findings_of_page).collect()
}

#[track_caller]
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn every_page_with_commands_has_a_test() {
    let mut run = RUN.to_vec();
    run.sort_unstable();
    let pages = BookPageText::load_all().into_iter().filter(|page| page.commands().next().is_some());
    let with_commands: Vec<String> = pages.map(|page| page.name).collect();
    assert_eq!(with_commands, run, "pages with commands, and pages that are run");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = page::read_summary();
    let missing = BookPageText::load_all().into_iter().map(|page| page.name);
    let missing: Vec<String> = missing.filter(|name| !summary.contains(&format!("]({name})"))).collect();
    assert_none(&missing);
}

#[test]
fn no_command_is_outside_of_the_blocks_that_are_run() {
    let mut problems = collect_findings(|block| match &block.kind {
        Some(BookBlockKind::Printed) => {
            let typed = block.text.lines().find(|line| line.starts_with("$ "))?;
            Some(format!("a command among what is printed: {typed}"))
        }
        Some(
            BookBlockKind::Commands
            | BookBlockKind::Typed(_)
            | BookBlockKind::Config
            | BookBlockKind::Json
            | BookBlockKind::Foreign,
        ) => None,
        None => Some("a block of no known language".to_owned()),
    });
    for page in BookPageText::load_all() {
        problems.extend(
            page.stray_lines
                .iter()
                .map(|line| format!("{}: a fence after other text", page.location_of(line))),
        );
    }
    assert_none(&problems);
}

#[test]
fn every_toml_block_is_a_configuration() {
    let sandbox = {
        let mut sandbox = TestSandbox::new().with_file_database();
        // The databases that the blocks name are not there.
        let database = sandbox.work_folder().join("segue.db");
        sandbox.set_variable("SEGUE_DATABASE_URL", &format!("sqlite:{}", database.display()));
        sandbox.set_variable("SEGUE_MIRROR_URL", "off");
        sandbox
    };
    fs::create_dir(sandbox.home()).unwrap();
    let refused = |block: &page::BookBlock| {
        if block.kind != Some(BookBlockKind::Config) {
            return None;
        }
        fs::write(sandbox.home().join("config.toml"), &block.text).unwrap();
        let output = sandbox.run(&["threads", "list"]);
        (output.code != 0).then_some(output.stderr)
    };
    assert_none(&collect_findings(refused));
}

#[test]
fn every_json_block_is_json() {
    let unreadable = |block: &page::BookBlock| {
        if block.kind != Some(BookBlockKind::Json) {
            return None;
        }
        let mut values = serde_json::Deserializer::from_str(&block.text).into_iter::<Value>();
        values.find_map(Result::err).map(|error| error.to_string())
    };
    assert_none(&collect_findings(unreadable));
}
