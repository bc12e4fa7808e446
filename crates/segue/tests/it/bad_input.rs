//! Whatever is wrong with files, settings or the database: one line that says what, one hint that says what to do,
//! the right exit code, and nothing lost.

mod decisions;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::{TestSandbox, sample_session};

#[test]
fn a_file_that_cannot_be_handed_off_is_told_in_one_line_with_a_hint() {
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
fn a_file_that_may_not_be_read_is_told_as_such() {
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
fn a_half_written_file_gives_what_it_holds() {
    let sandbox = TestSandbox::new();
    let text = sample_session();
    let path = sandbox.write_file("half.jsonl", &text[..text.len() - 60]);
    let ended = sandbox.run(&["handoff", &path, "--preview"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("half.jsonl:11: "), "{ended:?}");
    assert!(ended.stdout.contains("Objective"), "{ended:?}");
}

#[test]
fn a_folder_without_a_session_is_told_as_such() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.work_folder().join("nothing")).unwrap();
    sandbox.run(&["handoff", "./nothing"]).assert_error(2, "no conversation");
}

#[test]
fn threads_that_are_not_there_or_not_clear_are_told_with_the_way_to_find_them() {
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
fn settings_that_cannot_be_read_are_told_with_their_file_and_line() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.home()).unwrap();
    let config = sandbox.home().join("config.toml");
    for content in
        ["model = ", "modle = \"a/b\"", "[providers.nobody]\n", "[handoff]\nmax_summary_tokens = \"many\"\n"]
    {
        fs::write(&config, content).unwrap();
        sandbox.run(&["threads", "list"]).assert_error(1, "config.toml");
    }
    let ended = sandbox.run(&["doctor"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.starts_with("fail") && ended.stdout.contains("config.toml"), "{ended:?}");
}

#[test]
fn a_home_that_cannot_be_used_is_told_and_left_as_it_is() {
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
fn a4_a_database_of_another_kind_or_a_newer_version_is_told_and_not_touched() {
    let sandbox = TestSandbox::new().with_file_database();
    sandbox.run(&["import", &sandbox.write_session()]);
    let database = sandbox.home().join("segue.db");
    let mut bytes = fs::read(&database).unwrap();
    // The schema's version stands in the header, at a fixed place.
    bytes[60..64].copy_from_slice(&9_999u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    sandbox.run(&["threads", "list"]).assert_error(1, "version 9999");
    assert_eq!(fs::read(&database).unwrap(), bytes);
    fs::write(&database, "not a database, but a text that is long enough to be read as one".repeat(40))
        .unwrap();
    sandbox.run(&["threads", "list"]).assert_error(1, "segue.db");
    let ended = sandbox.run(&["doctor", "--json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.json()[0]["verdict"], "fail");
}

#[test]
fn a_model_that_cannot_be_used_ends_the_turn_with_the_code_that_tells_who_can_mend_it() {
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
        let ended = sandbox.run(&["run", "-p", "hello"]);
        assert_eq!(ended.code, 1, "{what}: {ended:?}");
        let told: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("segue: ")).collect();
        assert_eq!(told.len(), 1, "{what}: {ended:?}");
        assert!(ended.stderr.contains("  hint: "), "{what}: {ended:?}");
        let history = sandbox.run(&["history", "last"]);
        assert!(history.stdout.contains("hello"), "what the person said is kept: {history:?}");
        let ended = sandbox.run(&["run", "-p", "hello", "--json"]);
        let result: serde_json::Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&result["status"], &result["error"]["code"]),
            (&"error".into(), &code.into()),
            "{result}"
        );
    }
}

#[test]
fn m4_a_handoff_needs_no_model_that_works() {
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
fn no_model_at_all_is_told_before_anything_is_said() {
    let sandbox = TestSandbox::new();
    let ended = sandbox.run(&["run", "-p", "hello"]);
    ended.assert_error(1, "no model is configured");
    assert!(ended.stderr.contains("the message is kept"), "{ended:?}");
    let told = sandbox.run(&["history", "last"]);
    assert!(told.stdout.contains("failed: no model is configured"), "{told:?}");
    let opened = sandbox.run_with(&["chat", "-t", "last"], "");
    assert!(opened.code == 0 && opened.stdout.contains("was not answered"), "{opened:?}");
    let piped = sandbox.run_with(&["chat"], "hello\n");
    assert!(piped.code == 1 && piped.stdout.contains("is kept"), "{piped:?}");
    let ended = sandbox.run(&["run", "-p", "hello", "--model", "anthropic/claude-x"]);
    assert_eq!(ended.code, 1, "{ended:?}");
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
fn g3_an_answer_that_was_given_counts_though_nobody_reads_on() {
    let sandbox = TestSandbox::new();
    let mut command = sandbox.command(&["handoff", &sandbox.write_session(), "--apply"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    let threads = sandbox.threads();
    assert!(threads.iter().any(|thread| thread["parent_kind"] == "handoff"), "{threads:?}");
}
