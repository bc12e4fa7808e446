//! `segue demo`: the review of the sample session in a terminal, without one, and on the page. It depends on nothing of the
//! user and leaves nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::serve::client::ApiClient;
use crate::terminal::PtyTerminal;

const QUESTION: &str = "[Esc] Decide later";
const REMOVED: &str = "The demo's temporary folder was removed.";
/// The beginning of a message of the sample session that the new thread is not given.
const DETAIL: &str = "Root cause found";
const MESSAGES: u64 = 243;

/// A sandbox whose folder for temporary files is empty.
struct DemoSandbox {
    sandbox: TestSandbox,
    temporary: PathBuf,
}

impl DemoSandbox {
    fn new() -> Self {
        let mut sandbox = TestSandbox::new();
        let temporary = sandbox.work_folder().join("temporary");
        fs::create_dir(&temporary).unwrap();
        sandbox.set_variable("TMPDIR", temporary.to_str().unwrap());
        Self { sandbox, temporary }
    }

    fn start_terminal(&self, columns: u16, args: &[&str]) -> PtyTerminal {
        let terminal = PtyTerminal::start(&self.sandbox, columns, args);
        terminal.wait_for(QUESTION);
        terminal
    }

    /// Checks that no temporary file is left, and that the user's home folder was never created.
    #[track_caller]
    fn assert_nothing_is_left(&self) {
        let left: Vec<PathBuf> = list_folder(&self.temporary);
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.sandbox.home().exists(), "{:?}", self.sandbox.home());
    }
}

fn list_folder(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Returns a text as one line, without the escape sequences that select colours.
fn plain_words(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, text)| text));
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_demo_shows_the_review_the_new_thread_and_what_stays_in_the_old_one() {
    for columns in [80, 120] {
        let demo = DemoSandbox::new();
        let terminal = demo.start_terminal(columns, &["demo"]);
        terminal.press_keys("a\r");
        let (code, printed) = terminal.end_printed();
        assert_eq!(code, 0, "{printed}");
        let printed = plain_words(&printed);
        let mut remaining = printed.as_str();
        for part in [
            "This demo hands off a sample session",
            "1. A long conversation",
            "243 messages, 30.7k tokens",
            "2. The draft of the handoff",
            "Objective",
            "Files read (",
            "Not in this text",
            "243 messages: 9 quoted",
            QUESTION,
            "3. The new thread",
            "Accepted. lease_renewal.rs fails about once in thirty CI runs",
            "exactly the text that you accepted",
            "### Objective",
            "4. The old thread",
            "It still has all 243 messages.",
            DETAIL,
            "segue handoff --latest",
            REMOVED,
        ] {
            let (_, after) = remaining.split_once(part).unwrap_or_else(|| panic!("{part}:\n{printed}"));
            remaining = after;
        }
        demo.assert_nothing_is_left();
    }
}

#[test]
fn declining_leaving_and_every_signal_end_the_demo_and_leave_nothing() {
    let decline = |terminal: &PtyTerminal| {
        terminal.press_keys("D\r");
        terminal.wait_for("Reason (Enter for none)");
        terminal.press_keys("\r");
    };
    let escape = |terminal: &PtyTerminal| terminal.press_keys("\u{1b}");
    let control_c = |terminal: &PtyTerminal| terminal.press_keys("\u{3}");
    type Answer<'a> = (&'a dyn Fn(&PtyTerminal), &'a str);
    let answers: [Answer<'_>; 3] = [
        (&decline, "Declined. No thread was created, and the conversation is unchanged."),
        (&escape, "Nothing was decided."),
        (&control_c, "Nothing was decided."),
    ];
    for (answer, end) in answers {
        let demo = DemoSandbox::new();
        let terminal = demo.start_terminal(120, &["demo"]);
        answer(&terminal);
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains(end) && screen.contains("segue handoff --latest"), "{screen}");
        assert!(screen.contains(REMOVED) && !screen.contains("3. The new thread"), "{screen}");
        demo.assert_nothing_is_left();
    }
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let demo = DemoSandbox::new();
        let terminal = demo.start_terminal(80, &["demo"]);
        assert_eq!(list_folder(&demo.temporary).len(), 1, "the demo works in a temporary folder");
        let folder = list_folder(&demo.temporary).remove(0);
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        match signal {
            // At the question, Ctrl-C is a key.
            Signal::INT => terminal.press_keys("\u{3}"),
            signal => terminal.signal(signal),
        }
        let (code, screen) = terminal.end();
        assert!([0, 130].contains(&code), "{signal:?}: {screen}");
        demo.assert_nothing_is_left();
    }
}

/// A signal at the beginning of the demo must not leave a folder that another thread creates again.
#[test]
fn a_signal_before_the_question_leaves_nothing() {
    let demo = DemoSandbox::new();
    for _ in 0..8 {
        let mut command = demo.sandbox.command(&["demo"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        lines.for_each(drop);
        child.wait().unwrap();
        demo.assert_nothing_is_left();
    }
}

#[test]
fn without_a_terminal_the_demo_shows_the_draft_and_how_to_accept_it() {
    let demo = DemoSandbox::new();
    let output = demo.sandbox.run(&["demo"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("\nObjective\n"), "{output:?}");
    assert!(output.stdout.ends_with("Accept the draft with:\n  segue demo --yes\n"), "{output:?}");
    assert_eq!(output.stderr, format!("{REMOVED}\n"));
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{output:?}");
    demo.assert_nothing_is_left();

    let output = demo.sandbox.run(&["demo", "--yes"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("\nAccepted. ") && output.stdout.contains(DETAIL), "{output:?}");
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{output:?}");
    assert!(!output.stdout.contains('\u{1b}'), "no colour where no terminal is");
    demo.assert_nothing_is_left();
}

#[test]
fn g1_the_demo_injects_the_text_that_it_showed_and_its_json_contains_everything() {
    let demo = DemoSandbox::new();
    let pending = demo.sandbox.json(&["demo", "--json"]);
    assert_eq!(pending["handoff"]["outcome"], "pending", "{pending}");
    assert_eq!((&pending["child"], &pending["search"]), (&Value::Null, &Value::Null));

    let accepted = demo.sandbox.json(&["demo", "--yes", "--json"]);
    let handoff = &accepted["handoff"];
    assert_eq!(handoff["outcome"], "accepted", "{accepted}");
    assert_eq!(handoff["summary_md"], pending["handoff"]["summary_md"], "the draft is the same each time");
    assert_eq!(handoff["handoff"]["accepted_sha256"], handoff["summary_sha256"]);
    let block = accepted["child"]["block"].as_str().unwrap();
    assert_eq!(block.trim(), handoff["summary_md"].as_str().unwrap().trim());
    assert_eq!(accepted["child"]["thread_id"], handoff["child_thread_id"]);
    assert_eq!(accepted["parent"]["thread_id"], accepted["session"]["thread_id"]);
    assert_eq!(
        (&accepted["session"]["messages"], &accepted["parent"]["messages"]),
        (&json!(MESSAGES), &json!(MESSAGES))
    );
    let hit = &accepted["search"]["hits"][0];
    assert_eq!(hit["thread_id"], accepted["session"]["thread_id"], "{hit}");
    assert!(hit["snippet"].as_str().unwrap().contains(DETAIL), "{hit}");
    for given in [block.to_owned(), handoff["summary_json"]["carried"].to_string()] {
        assert!(!given.to_lowercase().contains("root cause"), "{given}");
    }
    // The threads are gone, so no command can continue with them.
    assert_eq!((&accepted["home"], &handoff["next_command"]), (&Value::Null, &Value::Null));
    assert_eq!(accepted["next_commands"][0], "segue handoff --latest");
    demo.assert_nothing_is_left();
}

#[test]
fn a_kept_demo_continues_with_its_home_folder() {
    let demo = DemoSandbox::new();
    let folder = demo.sandbox.work_folder().join("a demo");
    let output = demo.sandbox.run(&["demo", "--yes", "--keep", "a demo"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let line = output.stdout.lines().find(|line| line.ends_with(" segue threads list")).unwrap();
    assert_eq!(line.trim(), format!("SEGUE_HOME='{}' segue threads list", folder.display()));
    let mut command = demo.sandbox.command(&["threads", "list", "--json"]);
    let output = command.env("SEGUE_HOME", &folder).env_remove("SEGUE_DATABASE_URL").output().unwrap();
    let threads: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = threads.as_array().unwrap().iter().map(|thread| thread["message_count"].as_u64().unwrap());
    assert_eq!(counts.collect::<BTreeSet<u64>>(), BTreeSet::from([0, MESSAGES]), "{threads}");
    demo.assert_nothing_is_left();

    demo.sandbox.run(&["demo", "--keep", "a demo"]).assert_error(2, "the folder is not empty");
    let file = demo.sandbox.write_file("file", "");
    demo.sandbox.run(&["demo", "--keep", &file]).assert_error(2, &file);
    let report = demo.sandbox.json(&["demo", "--json", "--keep", "other"]);
    let next = report["handoff"]["next_command"].as_str().unwrap();
    assert!(next.starts_with("SEGUE_HOME=/") && next.contains("/other segue handoff --decide "), "{next}");
}

#[test]
fn the_demo_ignores_the_configuration_the_environment_and_the_folder() {
    let model =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("No.") }]))
            .unwrap();
    let mut demo = DemoSandbox::new();
    demo.sandbox = demo.sandbox.with_model(&model);
    for (name, value) in [
        ("SEGUE_MODEL", "anthropic/claude-sonnet-4-5"),
        ("OPENAI_API_KEY", "key"),
        ("SEGUE_DATABASE_URL", "nonsense"),
        ("SEGUE_MIRROR_URL", "nonsense"),
        ("SEGUE_LOG", "="),
        ("SEGUE_LOG_FORMAT", "nonsense"),
        ("SEGUE_LOG_FILE", "segue.log"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense"),
    ] {
        demo.sandbox.set_variable(name, value);
    }
    let home = demo.sandbox.home();
    fs::create_dir_all(home.join("agents/agent")).unwrap();
    fs::write(home.join("config.toml"), "nonsense").unwrap();
    fs::write(home.join("agents/agent/agent.md"), "Never do it.\n").unwrap();
    for name in ["AGENTS.md", "CLAUDE.md", ".mcp.json"] {
        demo.sandbox.write_file(name, "nonsense");
    }
    let before = (list_folder(&home), list_folder(&demo.sandbox.work_folder()));
    let report = demo.sandbox.json(&["demo", "--yes", "--json"]);
    assert_eq!(report["handoff"]["summary_json"]["model"], "extractive", "{report}");
    assert_eq!(report["handoff"]["outcome"], "accepted");
    assert_eq!(model.call_count(), 0);
    assert_eq!((list_folder(&home), list_folder(&demo.sandbox.work_folder())), before);
    assert_eq!(demo.sandbox.read_agent_md().as_deref(), Some("Never do it.\n"));
    assert_eq!(list_folder(&demo.temporary), Vec::<PathBuf>::new());
    for option in ["--home", "--database-url"] {
        demo.sandbox.run(&["demo", option, "x"]).assert_error(2, option);
    }
}

/// A demo on the page.
struct PageDemo {
    child: Child,
    announcement: Value,
}

impl PageDemo {
    fn start(demo: &DemoSandbox) -> Self {
        let mut command = demo.sandbox.command(&["demo", "--open", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        Self { child, announcement: serde_json::from_str(&line).unwrap() }
    }

    fn api(&self) -> ApiClient {
        let token = fs::read_to_string(self.announcement["token_file"].as_str().unwrap()).unwrap();
        let addr = self.announcement["addr"].as_str().unwrap().to_owned();
        ApiClient { addr, key: Some(token.trim().to_owned()) }
    }

    /// Returns the id of the handoff to which the address of the page leads.
    fn handoff_id(&self) -> String {
        let (address, id) = self.announcement["page"].as_str().unwrap().split_once("#/handoffs/").unwrap();
        assert_eq!(address, format!("{}/", self.announcement["url"].as_str().unwrap()));
        id.to_owned()
    }

    fn stop(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

/// Puts a program in front of all others that records the file that the browser opens. Returns the FIFO to read it from.
fn record_browser(sandbox: &mut TestSandbox) -> PathBuf {
    let (folder, opened) = (sandbox.work_folder().join("bin"), sandbox.work_folder().join("opened"));
    fs::create_dir(&folder).unwrap();
    assert!(Command::new("mkfifo").arg(&opened).status().unwrap().success());
    let opener = folder.join(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > '{}'\n", opened.display())).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.set_variable("PATH", &format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()));
    opened
}

#[test]
fn m8_the_demo_opens_its_review_on_the_page_where_it_is_decided() {
    let mut demo = DemoSandbox::new();
    demo.sandbox.set_variable("OPENAI_API_KEY", "key");
    let opened = record_browser(&mut demo.sandbox);
    let page = PageDemo::start(&demo);
    let document = fs::read_to_string(fs::read_to_string(&opened).unwrap().trim()).unwrap();
    let (api, id) = (page.api(), page.handoff_id());
    assert!(
        document.contains(&format!("/#token={}&route=/handoffs/{id}\"", api.key.clone().unwrap())),
        "{document}"
    );
    let review = api.get(&format!("/api/handoffs/{id}")).json();
    assert_eq!(review["handoff"]["outcome"], "pending", "{review}");
    let sha = &review["pending"]["proposal"]["summary_sha256"];
    let decision = json!({"decisions": [{"type": "approve", "summary_sha256": sha}]});
    let decided = api.post(&format!("/api/handoffs/{id}/decision"), &decision).json();
    assert_eq!(decided["outcome"], "accepted", "{decided}");
    let models = api.get("/api/models").json();
    let is_configured = |provider: &Value| provider["configured"] == true;
    assert_eq!(models["default"], Value::Null, "{models}");
    assert!(!models["providers"].as_array().unwrap().iter().any(is_configured), "{models}");
    page.stop(Signal::INT);
    demo.assert_nothing_is_left();
}

#[test]
fn the_terminal_shows_what_was_decided_on_the_page() {
    for (decision, shown) in [
        ("approve", "It still has all 243 messages. A search finds"),
        ("reject", "Declined. No thread was created, and the conversation is unchanged."),
    ] {
        let mut demo = DemoSandbox::new();
        let opened = record_browser(&mut demo.sandbox);
        let mut command = demo.sandbox.command(&["demo", "--open"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut value_of =
            |label: &str| lines.find_map(|line| Some(line.strip_prefix(label)?.trim().to_owned())).unwrap();
        // The opener waits until its FIFO is read.
        fs::read_to_string(&opened).unwrap();
        let addr = value_of("Serving at").trim_start_matches("http://").to_owned();
        let id = value_of("Page").rsplit_once('/').unwrap().1.to_owned();
        let file = value_of("Token").trim_start_matches("in ").split("  (").next().unwrap().to_owned();
        let api = ApiClient { addr, key: Some(fs::read_to_string(file).unwrap().trim().to_owned()) };
        let review = api.get(&format!("/api/handoffs/{id}")).json();
        let mut body = json!({"type": decision});
        if decision == "approve" {
            body["summary_sha256"] = review["pending"]["proposal"]["summary_sha256"].clone();
        }
        api.post(&format!("/api/handoffs/{id}/decision"), &json!({"decisions": [body]})).json();
        let rest: Vec<String> =
            lines.by_ref().take_while(|line| !line.starts_with("The page stays open.")).collect();
        assert!(plain_words(&rest.join("\n")).contains(shown), "{rest:?}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        demo.assert_nothing_is_left();
    }
}

#[test]
fn without_a_browser_the_demo_prints_the_address_of_its_review() {
    let mut demo = DemoSandbox::new();
    demo.sandbox.set_variable("PATH", "/nowhere");
    let mut command = demo.sandbox.command(&["demo", "--open"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let printed: Vec<String> = lines.take_while(|line| !line.starts_with("Docs ")).collect();
    let address = printed.iter().find_map(|line| line.strip_prefix("Page        ")).unwrap();
    assert!(address.starts_with("http://127.0.0.1:") && address.contains("/#/handoffs/"), "{printed:?}");
    assert!(notes.next().unwrap().starts_with("warning: failed to open the page"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(notes.collect::<Vec<_>>().last().map(String::as_str), Some(REMOVED));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    demo.assert_nothing_is_left();
}
