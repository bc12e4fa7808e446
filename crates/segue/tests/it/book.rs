//! The book in `docs/src`: what a reader types in it works. Beside it what is made of the program for readers. That pages are
//! linked and built is checked elsewhere.
//!
//! How the blocks of a page are written:
//!
//! - Each ```` ```sh ```` block is run, in the order of the page, by one `bash -euo pipefail`: variables stay. The folder is
//!   empty but for `examples/`, the home folder is empty, there is no key and nothing on standard input. What is left in the
//!   background ends with the page.
//! - A block ```` ```sh,typed=KEYS ```` has a terminal. The keys are separated by `+`: `enter`, `esc`, `tab`, `up`, `down`,
//!   `ctrl-c`, `ctrl-d`, or text, with `_` for a space. A key is typed at once, unless it says what it waits for: `TEXT:KEY`
//!   waits until TEXT is on the screen, `ONE…OTHER:KEY` until OTHER is there below ONE. So `a+enter` would be typed too early
//!   in a review, and `Decide_later:a+enter` is not.
//! - The server of the book is `http://127.0.0.1:2024`, begun by `segue serve`; its databases are
//!   `postgres://segue@db.example/segue` and `…/mirror`; a model is there after `export ANTHROPIC_API_KEY=sk-ant-…`, and
//!   answers "Done." to everything. These names are replaced by those of what is there.
//! - Commands are nowhere else. What they print is `text`; a `toml` block is a whole `config.toml`; a `json` block has one
//!   value or several; `rust`, `http`, `python`, `sql` and `js` are only read.

mod generate;
mod page;
mod reader;

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
    as_a_langgraph_server_works: "langgraph-server.md",
    long_threads_work: "long-threads.md",
    the_mirror_works: "mirror.md",
    for_operators_works: "operators.md",
    on_postgresql_works: "postgresql.md",
    the_runbook_works: "runbook.md",
    traces_work: "traces.md",
    working_in_the_terminal_works: "working.md",
}

/// Gathers what is wrong with blocks of all pages.
fn collect_findings(wrong: impl Fn(&page::BookBlock) -> Option<String>) -> Vec<String> {
    let of_page = |page: &BookPageText| -> Vec<String> {
        let found = page.blocks.iter().filter_map(|block| Some((block.line, wrong(block)?)));
        found.map(|(line, what)| format!("{}: {what}", page.location_of(line))).collect()
    };
    BookPageText::load_all().iter().flat_map(of_page).collect()
}

#[track_caller]
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[test]
fn every_page_with_commands_is_run() {
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
fn no_command_is_where_it_would_not_be_run() {
    let mut found = collect_findings(|block| match &block.kind {
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
        found.extend(
            page.stray_lines
                .iter()
                .map(|line| format!("{}: a fence after other text", page.location_of(line))),
        );
    }
    assert_none(&found);
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
        let ended = sandbox.run(&["threads", "list"]);
        (ended.code != 0).then_some(ended.stderr)
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
