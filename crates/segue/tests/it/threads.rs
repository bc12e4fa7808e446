//! `segue threads` and `segue history`: id prefixes, tables that fit the screen, and changes to threads.

mod audit;
mod import;

use std::fs;

use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

fn sandbox_with_two_threads() -> TestSandbox {
    let sandbox = TestSandbox::new();
    sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]);
    sandbox
}

#[test]
fn a_list_fits_the_screen_and_its_ids_find_their_threads() {
    let mut sandbox = sandbox_with_two_threads();
    for columns in ["80", "120"] {
        sandbox.set_variable("COLUMNS", columns);
        let output = sandbox.run(&["threads", "list"]);
        assert!(
            output.stdout.lines().all(|line| line.chars().count() <= columns.parse().unwrap()),
            "{output:?}"
        );
        assert_eq!(output.stdout.lines().count(), 3, "{output:?}");
        for line in output.stdout.lines().skip(1) {
            let id = line.split_whitespace().next().unwrap();
            assert!(id.len() >= 13);
            assert_eq!(sandbox.run(&["threads", "show", id]).code, 0, "{id}");
            // The ids of the handoff and of its run begin alike.
            let trace = sandbox.run(&["trace", id]);
            assert!(!trace.stderr.contains("choose among"), "{trace:?}");
        }
    }
}

#[test]
fn the_history_of_a_child_shows_what_it_began_with() {
    let sandbox = sandbox_with_two_threads();
    let child =
        sandbox.json(&["threads", "show", "last", "--json"])["thread_id"].as_str().unwrap().to_owned();
    let text = sandbox.run(&["history", &child]).stdout;
    assert!(text.starts_with("Continues thread ") && text.contains("Last request"), "{text}");
    let report = sandbox.json(&["history", &child, "--json"]);
    let began_with = &report["began_with"];
    let block = sandbox.read_agent_md().unwrap();
    let package = began_with["package_md"].as_str().unwrap().trim();
    assert!(block.contains(package), "{report}");
    let export = sandbox.run(&["threads", "export", &child]).stdout;
    assert!(package.lines().all(|line| export.contains(&format!("> {line}\n"))), "{export}");
    assert_eq!(sandbox.json(&["history", &child, "--json", "--after", "1"]).get("began_with"), None);
}

#[test]
fn h6_a_tree_shows_the_child_under_its_parent() {
    let sandbox = sandbox_with_two_threads();
    let output = sandbox.run(&["threads", "tree"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("└─ "), "{output:?}");
    let tree = sandbox.json(&["threads", "tree", "last", "--json"]);
    assert_eq!(tree[0]["children"][0]["thread"]["parent_kind"], "handoff");
}

#[test]
fn h6_a_tree_is_the_same_from_each_of_its_threads_and_tells_a_handoff_from_a_fork() {
    let sandbox = sandbox_with_two_threads();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let threads = sandbox.threads();
    let child = threads.iter().find(|thread| thread["parent_kind"] == "handoff").unwrap();
    let (child, parent) = (text(&child["thread_id"]), text(&child["parent_id"]));
    let fork = text(&sandbox.json(&["threads", "fork", &parent, "--json"])["thread_id"]);
    let unrelated = sandbox.write_file("other.json", r#"[{"role":"user","content":"Something else."}]"#);
    assert_eq!(sandbox.run(&["import", &unrelated]).code, 0);
    for thread in [&parent, &child, &fork] {
        let tree = sandbox.json(&["threads", "tree", thread, "--json"]);
        let nodes = tree.as_array().unwrap();
        assert!(nodes.len() == 1 && nodes[0]["thread"]["thread_id"] == parent.as_str(), "{tree}");
        let children = nodes[0]["children"].as_array().unwrap();
        let mut found: Vec<(String, String)> = children
            .iter()
            .map(|node| (text(&node["thread"]["parent_kind"]), text(&node["thread"]["thread_id"])))
            .collect();
        found.sort();
        let expected = [("fork".to_owned(), fork.clone()), ("handoff".to_owned(), child.clone())];
        assert_eq!(found, expected, "{tree}");
    }
    let shown = sandbox.run(&["threads", "tree", &child]).stdout;
    assert!(shown.lines().count() == 3 && shown.matches(" (fork)").count() == 1, "{shown}");
    assert_eq!(sandbox.json(&["threads", "tree", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn rename_and_fork_change_and_copy_a_thread() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["import", &sandbox.write_session()]);
    sandbox.run(&["threads", "rename", "last", "Flaky", "retry"]);
    assert_eq!(sandbox.threads()[0]["name"], "Flaky retry");
    let fork = sandbox.json(&["threads", "fork", "last", "--until", "3", "--json"]);
    assert_eq!(fork["parent_kind"], "fork");
    assert_eq!(fork["message_count"], 3);
    sandbox.run(&["threads", "rename", "last", " "]).assert_error(2, "the name is empty");
}

#[test]
fn h3_delete_without_a_terminal_needs_the_yes_option() {
    let sandbox = sandbox_with_two_threads();
    let child = sandbox.threads().iter().find(|thread| !thread["parent_id"].is_null()).unwrap()["thread_id"]
        .as_str()
        .unwrap()
        .to_owned();
    sandbox.run(&["threads", "delete", &child]).assert_error(2, "there is no terminal to ask on");
    assert_eq!(sandbox.threads().len(), 2);
    assert_eq!(sandbox.run(&["threads", "delete", &child, "--yes"]).code, 0);
    assert_eq!(sandbox.threads().len(), 1);
    assert!(sandbox.read_agent_md().unwrap().contains("None recorded yet."), "its block is gone with it");
}

#[test]
fn an_export_contains_the_conversation() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["import", &sandbox.write_session()]);
    let markdown = sandbox.run(&["threads", "export", "last"]).stdout;
    assert!(markdown.starts_with("# ") && markdown.contains("Never raise the timeout"), "{markdown}");
    let path = sandbox.work_folder().join("out.json");
    let output =
        sandbox.run(&["threads", "export", "last", "--format", "json", "-o", path.to_str().unwrap()]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        json["history"].as_array().unwrap().len() as u64,
        json["thread"]["message_count"].as_u64().unwrap()
    );
}

#[test]
fn b5_history_pages_have_no_gap_or_overlap() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["import", &sandbox.write_session()]);
    let all = sandbox.json(&["history", "last", "--json"]);
    let mut seqs: Vec<u64> = Vec::new();
    let mut before = String::from("1000");
    loop {
        let page = sandbox.json(&["history", "last", "--limit", "4", "--before", &before, "--json"]);
        let entries = page["entries"].as_array().unwrap();
        let Some(first) = page["first_seq"].as_u64() else { break };
        before = first.to_string();
        seqs.splice(0..0, entries.iter().map(|entry| entry["seq"].as_u64().unwrap()));
    }
    let whole: Vec<u64> =
        all["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, whole);
}

#[test]
fn models_and_doctor_report_missing_settings_and_write_only_to_the_home_folder() {
    let sandbox = TestSandbox::new();
    let models = sandbox.run(&["models"]);
    assert!(models.code == 0 && models.stdout.contains("ANTHROPIC_API_KEY"), "{models:?}");
    let doctor = sandbox.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{doctor:?}");
    assert!(doctor.stdout.contains("ok    database"), "{doctor:?}");
    let user = sandbox.work_folder().parent().unwrap().join("user");
    assert_eq!(std::fs::read_dir(user).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(sandbox.work_folder()).unwrap().count(), 0);
}

#[test]
fn a_projects_mcp_server_is_listed_and_waits_for_consent() {
    let sandbox = TestSandbox::new();
    let none = sandbox.run(&["mcp", "list"]);
    assert!(none.code == 0 && none.stdout.contains("No MCP server"), "{none:?}");
    sandbox.write_file(
        ".mcp.json",
        r#"{"mcpServers": {"kettle": {"command": "kettle-server", "args": ["--boil"]}}}"#,
    );
    let listed = sandbox.run(&["mcp", "list"]);
    for part in ["kettle", "kettle-server --boil", "needs your consent", "segue mcp allow kettle"] {
        assert!(listed.stdout.contains(part), "{part}: {listed:?}");
    }
    assert_eq!(sandbox.run(&["mcp", "allow", "kettle"]).code, 0);
    assert_eq!(sandbox.json(&["mcp", "list", "--json"])[0]["state"], "not found: kettle-server");
    let listed = sandbox.run(&["mcp", "list"]);
    assert!(listed.stdout.contains(".mcp.json · not found: kettle-server"), "{listed:?}");
    let tested = sandbox.run(&["mcp", "test", "kettle"]);
    assert!(tested.code == 1 && tested.stdout.contains("✗ kettle"), "{tested:?}");
    sandbox.run(&["mcp", "test", "teapot"]).assert_error(2, "teapot");
}

#[test]
fn a_configured_mcp_server_is_ready_only_if_its_program_exists() {
    let sandbox = TestSandbox::new();
    std::fs::create_dir(sandbox.home()).unwrap();
    std::fs::write(
        sandbox.home().join("config.toml"),
        "[mcp.servers.a]\ncommand = \"sh\"\n[mcp.servers.b]\ncommand = \"/bin/sh\"\n\
         [mcp.servers.c]\ncommand = \"/no/such/kettle\"\n[mcp.servers.d]\nurl = \"http://localhost:1/mcp\"\n\
         [mcp.servers.e]\ncommand = \"sh\"\nenv = { PATH = \"/no/such/folder\" }\n",
    )
    .unwrap();
    let listed = sandbox.json(&["mcp", "list", "--json"]);
    let states: Vec<&str> =
        listed.as_array().unwrap().iter().map(|server| server["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ready", "ready", "not found: /no/such/kettle", "ready", "not found: sh"]);
}

#[test]
fn version_and_help_need_no_home() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("SEGUE_HOME", "/dev/null/nowhere");
    let version = sandbox.run(&["--version"]);
    assert_eq!(
        (version.code, version.stdout.as_str()),
        (0, concat!("segue ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    let help = sandbox.run(&["handoff", "--help"]);
    assert!(help.code == 0 && help.stdout.contains("not a fork"), "{help:?}");
}

#[test]
fn colour_follows_the_options_and_the_terminal() {
    let sandbox = sandbox_with_two_threads();
    let colored = |args: &[&str]| sandbox.run(args).stdout.contains("\u{1b}[");
    assert!(colored(&["threads", "list", "--color", "always"]));
    assert!(!colored(&["threads", "list"]));
    let shown = |variables: &[(&str, &str)]| {
        let mut sandbox = TestSandbox::new();
        variables.iter().for_each(|(name, value)| sandbox.set_variable(name, value));
        sandbox.run(&["import", &sandbox.write_session()]);
        let terminal = PtyTerminal::start(&sandbox, 80, &["threads", "list"]);
        terminal.wait_for("NAME");
        terminal.end_formatted()
    };
    assert!(shown(&[]).contains("\u{1b}[2m"));
    assert!(!shown(&[("NO_COLOR", "1")]).contains("\u{1b}[2m"));
    assert!(!shown(&[("TERM", "dumb")]).contains("\u{1b}[2m"));
}

#[test]
fn a_thread_is_shown_with_its_folder_and_its_project() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Hello.").with_repeat()])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    fs::create_dir_all(sandbox.work_folder().join(".git")).unwrap();
    fs::create_dir_all(sandbox.work_folder().join("deep")).unwrap();
    sandbox.write_file(".git/HEAD", "ref: refs/heads/main\n");
    let project = sandbox.work_folder().canonicalize().unwrap();
    let folder = project.join("deep");
    let output = sandbox.command(&["run", "-p", "Hi."]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = sandbox.run(&["threads", "show", "last"]).stdout;
    let has_line = |name: &str, path: &std::path::Path| {
        shown.split_whitespace().collect::<String>().contains(&format!("{name}{}", path.display()))
    };
    assert!(has_line("folder", &folder) && has_line("project", &project), "{shown}");
    let report = sandbox.json(&["threads", "show", "last", "--json"]);
    assert_eq!(report["folder"], folder.to_string_lossy().as_ref());
    assert_eq!(report["project"], project.to_string_lossy().as_ref());
}

#[test]
fn the_doctor_names_notes_files_that_are_not_read() {
    let sandbox = TestSandbox::new();
    let outside = sandbox.work_folder().join("../outside.md");
    fs::write(&outside, "Use tabs.").unwrap();
    std::os::unix::fs::symlink(&outside, sandbox.work_folder().join("AGENTS.md")).unwrap();
    let checks = sandbox.json(&["doctor", "--json"]);
    let notes = checks.as_array().unwrap().iter().find(|check| check["name"] == "notes").unwrap();
    assert_eq!(notes["verdict"], "warn");
    assert_eq!(
        notes["detail"],
        "AGENTS.md: the model does not receive it: it is a symbolic link to a file outside the project"
    );
}
