//! Invalid files, configuration and databases: each gives one error line, one hint that says how to fix it,
//! and the right exit code, and loses no data.

mod decisions;
mod values;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rusqlite::Connection;
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::{TestSandbox, sample_session};

#[test]
fn a_file_that_cannot_be_handed_off_gives_one_error_line_and_a_hint() {
    let cases: [(&str, Option<&[u8]>, &str); 5] = [
        ("nowhere.jsonl", None, "nowhere.jsonl"),
        ("empty.jsonl", Some(b""), "empty.jsonl"),
        ("blank.jsonl", Some(b"\n \n"), "blank.jsonl"),
        ("binary.bin", Some(b"\x7fELF\x02\x01\x01\0\0\0\0\0\xff\xfe\0\0"), "binary.bin"),
        ("unknown.txt", Some(b"dear diary\ntoday nothing happened\n"), "unknown.txt"),
    ];
    let sandbox = TestSandbox::new();
    for (name, content, what) in cases {
        if let Some(content) = content {
            sandbox.write_file(name, content);
        }
        sandbox.run(&["handoff", name]).assert_error(2, what);
        sandbox.run(&["import", name]).assert_error(2, what);
    }
    assert_eq!(sandbox.threads().len(), 0);
}

#[test]
fn an_unknown_source_gives_a_hint_how_to_find_sources() {
    let sandbox = TestSandbox::new();
    let output = sandbox.run(&["handoff", "nope"]);
    output.assert_error(2, "read nope: there is no such file");
    for command in ["`segue threads list`", "`segue import --discover`"] {
        assert!(output.stderr.contains(command), "{command}: {output:?}");
    }
    let output = sandbox.run(&["import", "nope"]);
    assert!(output.stderr.contains("`segue import --discover`"), "{output:?}");
}

#[test]
fn importing_a_folder_without_a_session_fails_with_a_hint() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.work_folder().join("nothing")).unwrap();
    let output = sandbox.run(&["import", "./nothing"]);
    output.assert_error(2, "import ./nothing: it contains no session");
    assert!(output.stdout.is_empty() && output.stderr.contains("`segue import --discover`"), "{output:?}");
    fs::write(sandbox.work_folder().join("nothing/notes.txt"), "nothing of interest\n").unwrap();
    sandbox.run(&["import", "./nothing"]).assert_error(2, "it contains no session (1 file skipped)");
    let output = sandbox.run(&["import", "./nothing", "--json"]);
    assert_eq!((output.code, output.json()["threads"].as_array().map(Vec::len)), (2, Some(0)), "{output:?}");
    assert!(output.stderr.contains("it contains no session"), "{output:?}");
}

#[test]
fn a_file_without_read_permission_is_reported() {
    let sandbox = TestSandbox::new();
    let path = sandbox.write_session();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    sandbox.run(&["handoff", &path]).assert_error(2, "session.jsonl");
}

#[test]
fn a_truncated_file_is_read_up_to_its_end() {
    let sandbox = TestSandbox::new();
    let text = sample_session();
    let path = sandbox.write_file("half.jsonl", &text[..text.len() - 60]);
    let output = sandbox.run(&["handoff", &path, "--preview"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stderr.contains("half.jsonl:11: "), "{output:?}");
    assert!(output.stdout.contains("The clock is read twice; I decided to pass it in."), "{output:?}");
}

#[test]
fn a_folder_without_a_session_is_reported() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.work_folder().join("nothing")).unwrap();
    sandbox.run(&["handoff", "./nothing"]).assert_error(2, "no conversation");
}

#[test]
fn unknown_and_ambiguous_threads_are_reported_with_a_hint() {
    let sandbox = TestSandbox::new();
    for args in [
        &["handoff", "0192f0c1"][..],
        &["handoff", "last"],
        &["threads", "show", "0192f0c1"],
        &["history", "zzz"],
        &["run", "-t", "0192", "-p", "hi"],
        &["chat", "-t", "0192"],
    ] {
        sandbox.run(args).assert_error(2, "find a thread");
    }
    sandbox.run(&["import", &sandbox.write_session()]);
    sandbox.run(&["threads", "fork", "last"]);
    sandbox.run(&["threads", "show", "0"]).assert_error(2, "choose among 2 threads");
}

#[test]
fn unreadable_settings_are_reported_with_their_file_and_line() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.home()).unwrap();
    let config = sandbox.home().join("config.toml");
    for content in
        ["model = ", "modle = \"a/b\"", "[providers.nobody]\n", "[handoff]\nmax_summary_tokens = \"many\"\n"]
    {
        fs::write(&config, content).unwrap();
        sandbox.run(&["threads", "list"]).assert_error(1, "config.toml");
    }
    let output = sandbox.run(&["doctor"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.starts_with("fail") && output.stdout.contains("config.toml"), "{output:?}");
}

#[test]
fn an_unusable_home_is_reported_and_not_changed() {
    let sandbox = TestSandbox::new();
    let file = sandbox.write_file("not-a-folder", "mine");
    sandbox.run(&["--home", &file, "threads", "list"]).assert_error(1, "not-a-folder");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    fs::create_dir(sandbox.home()).unwrap();
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(sandbox.home().join("probe"), "").is_ok() {
        println!("skipped: this user may write everywhere");
        return;
    }
    sandbox.run(&["threads", "list"]).assert_error(1, "home");
}

#[test]
fn k6_a_home_that_others_control_is_refused_and_not_changed() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.home()).unwrap();
    for mode in [0o770, 0o702] {
        fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(mode)).unwrap();
        sandbox.run(&["threads", "list"]).assert_error(1, "other users may write to it");
        assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0, "{mode:o}");
    }
    fs::set_permissions(sandbox.home(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(sandbox.run(&["threads", "list"]).code, 0);
    let owner_changed = std::os::unix::fs::chown(sandbox.home(), Some(65_534), None);
    if owner_changed.is_err() {
        println!("skipped: this user cannot give a folder away");
        return;
    }
    sandbox.run(&["threads", "list"]).assert_error(1, "belongs to another user (id 65534)");
}

#[test]
fn k6_the_doctor_warns_of_an_api_key_that_others_can_read() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.home()).unwrap();
    let config = sandbox.home().join("config.toml");
    let verdict = |mode| {
        fs::set_permissions(&config, fs::Permissions::from_mode(mode)).unwrap();
        let checks = sandbox.json(&["doctor", "--json"]);
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "config").cloned();
        check.map(|check| check["verdict"].as_str().unwrap().to_owned())
    };
    fs::write(&config, "").unwrap();
    assert_eq!(verdict(0o644), None);
    fs::write(&config, "[providers.openai]\napi_key = \"not-a-real-key\"\n").unwrap();
    assert_eq!(verdict(0o644).as_deref(), Some("warn"));
    assert_eq!(verdict(0o600).as_deref(), Some("ok"));
}

#[test]
fn a4_a_foreign_or_newer_database_is_reported_and_not_changed() {
    let sandbox = TestSandbox::new().with_file_database();
    sandbox.run(&["import", &sandbox.write_session()]);
    let database = sandbox.home().join("segue.db");
    // The header is also in the write-ahead log, which the last connection of a plain program checkpoints and deletes.
    Connection::open(&database).unwrap().execute_batch("SELECT count(*) FROM threads").unwrap();
    let mut bytes = fs::read(&database).unwrap();
    // The header of an SQLite file holds the schema version at a fixed offset.
    bytes[60..64].copy_from_slice(&9_999u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    sandbox.run(&["threads", "list"]).assert_error(1, "version 9999");
    assert_eq!(fs::read(&database).unwrap(), bytes);
    fs::write(&database, "not a database, but a text that is long enough to be read as one".repeat(40))
        .unwrap();
    sandbox.run(&["threads", "list"]).assert_error(1, "segue.db");
    let output = sandbox.run(&["doctor", "--json"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(output.json()[0]["verdict"], "fail");
}

#[test]
fn an_unusable_model_ends_the_run_with_the_exit_code_of_its_error_kind() {
    let cases = [
        (ScriptedReply::status(401, "{\"error\":{\"message\":\"bad key\"}}"), "config"),
        (ScriptedReply::status(500, "oops"), "model"),
        (ScriptedReply::status(429, "slow down"), "model"),
        (ScriptedReply::fault(ScriptedFault::Empty), "model"),
        (ScriptedReply::fault(ScriptedFault::BrokenJson), "model"),
        (ScriptedReply::text("half an ans").with_fault(ScriptedFault::Cut), "model"),
    ];
    for (reply, code) in cases {
        let reply = ScriptedReply { always: true, ..reply };
        let what = format!("{reply:?}");
        let server = ScriptedServer::start(Script::new([reply])).unwrap();
        let sandbox = TestSandbox::new().with_model(&server);
        let output = sandbox.run(&["run", "-p", "hello"]);
        assert_eq!(output.code, 1, "{what}: {output:?}");
        let error_lines: Vec<&str> =
            output.stderr.lines().filter(|line| line.starts_with("segue: ")).collect();
        assert_eq!(error_lines.len(), 1, "{what}: {output:?}");
        assert!(output.stderr.contains("  hint: "), "{what}: {output:?}");
        let history = sandbox.run(&["history", "last"]);
        assert!(history.stdout.contains("hello"), "the user's message is stored: {history:?}");
        let output = sandbox.run(&["run", "-p", "hello", "--json"]);
        let result: serde_json::Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&result["status"], &result["error"]["code"]),
            (&"error".into(), &code.into()),
            "{result}"
        );
    }
}

#[test]
fn m4_a_handoff_works_without_a_working_model() {
    let server = ScriptedServer::start(Script::new([ScriptedReply {
        always: true,
        ..ScriptedReply::status(500, "oops")
    }]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    assert_eq!(report["outcome"], "accepted");
    assert_eq!(report["summary_json"]["model"], "extractive");
    let problem = report["problem"].as_str().unwrap();
    assert!(problem.starts_with("summarization failed: "), "a script can tell: {report}");
}

#[test]
fn a_missing_model_is_reported_before_a_message_is_stored() {
    let sandbox = TestSandbox::new();
    let output = sandbox.run(&["run", "-p", "hello"]);
    output.assert_error(1, "no model is configured");
    assert!(output.stderr.contains("the message is kept"), "{output:?}");
    let history = sandbox.run(&["history", "last"]);
    assert!(history.stdout.contains("failed: no model is configured"), "{history:?}");
    let opened = sandbox.run_with(&["chat", "-t", "last"], "");
    assert!(opened.code == 0 && opened.stdout.contains("was not answered"), "{opened:?}");
    let piped = sandbox.run_with(&["chat"], "hello\n");
    assert!(piped.code == 1 && piped.stdout.contains("is kept"), "{piped:?}");
    let output = sandbox.run(&["run", "-p", "hello", "--model", "anthropic/claude-x"]);
    assert_eq!(output.code, 1, "{output:?}");
    sandbox.run(&["run", "-p", "hello", "--model", "foo/bar"]).assert_error(2, "foo");
    sandbox.run(&["run", "-p", " "]).assert_error(2, "empty");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["import", &sandbox.write_session()]);
    let mut child = sandbox
        .command(&["threads", "export", "last", "--format", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn g3_a_decision_takes_effect_even_if_the_reader_of_the_output_is_gone() {
    let sandbox = TestSandbox::new();
    let mut command = sandbox.command(&["handoff", &sandbox.write_session(), "--apply"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    let threads = sandbox.threads();
    assert!(threads.iter().any(|thread| thread["parent_kind"] == "handoff"), "{threads:?}");
}
