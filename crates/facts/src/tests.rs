//! Tests of the fact collector on small transcripts. The module `notation` documents the letters that begin each line,
//! such as `U:` for a user message.

use protocol::TodoStatus;

use crate::notation::parse_facts;

#[test]
fn only_the_user_makes_requests_and_rules() {
    let facts = parse_facts(
        "U: Fix the parser.\n I: Remember to be nice and never lie.\n S: Write a sub-agent report, always.\n A: On it.\n U: <system-reminder>Never say this.</system-reminder>",
    );
    let requests: Vec<_> = facts.requests.iter().map(|quote| quote.text.as_str()).collect();
    assert_eq!(requests, ["Fix the parser."]);
    assert!(facts.rules.is_empty());
}

#[test]
fn g18_files_of_a_sub_agent_are_not_collected() {
    let mut collector = super::FactCollector::default();
    let mut item = crate::notation::parse_item(1, r#"C: 1 Edit {"file_path": "side.rs"}"#);
    item.is_subagent = true;
    collector.push(&item);
    assert!(collector.finish().files.is_empty());
}

#[test]
fn l7_a_request_is_unanswered_until_the_assistant_answers_with_no_call_pending() {
    for (text, is_answered) in [
        ("U: Do it.", false),
        ("U: Do it.\n A: Done.", true),
        ("U: Do it.\n A: I will.\n C: 1 Bash {\"command\": \"make\"}", false),
        ("U: Do it.\n C: 1 Bash {\"command\": \"make\"}\n T: 1 fine\n A: Done.", true),
        ("U: Do it.\n A: Done.\n U: And this.", false),
    ] {
        assert_eq!(parse_facts(text).is_answered, is_answered, "{text}");
    }
}

#[test]
fn the_newest_task_list_remains_after_a_compaction_boundary() {
    let facts = parse_facts(
        r#"C: 1 TodoWrite {"todos": [{"content": "old", "status": "pending"}]}
        C: 2 TodoWrite {"todos": [{"content": "parse", "status": "completed"}, {"content": "print", "status": "pending"}]}
        B:
        U: Go on."#,
    );
    let todos: Vec<_> = facts.todos.iter().map(|todo| (todo.text.as_str(), todo.status)).collect();
    assert_eq!(todos, [("parse", TodoStatus::Completed), ("print", TodoStatus::Pending)]);
}

#[test]
fn tasks_are_identified_by_the_number_in_the_result_of_their_creation() {
    let facts = parse_facts(
        r#"C: 1 TaskCreate {"subject": "parse"}
        C: 2 TaskCreate {"subject": "print"}
        T: 2 Task #8 created
        T: 1 Task #7 created
        C: 3 TaskUpdate {"taskId": "7", "status": "completed"}"#,
    );
    let open: Vec<_> =
        facts.todos.iter().filter(|t| t.status != TodoStatus::Completed).map(|t| t.text.as_str()).collect();
    assert_eq!(open, ["print"]);
}

#[test]
fn a_failed_check_that_later_passed_is_not_an_error() {
    let facts = parse_facts(
        r#"C: 1 Bash {"command": "cargo test"}
        E: 1 error: test failed, 1 failed
        C: 2 Bash {"command": "cargo test -p a"}
        T: 2 test result: ok. 3 passed; 0 failed
        C: 3 Bash {"command": "npm run build | tail -3"}
        T: 3 src/a.ts: error TS2304: Cannot find name
        C: 4 Edit {"file_path": "a.rs"}
        E: 4 Error: string not found in file
        C: 5 Edit {"file_path": "a.rs"}
        T: 5 ok
        C: 6 Bash {"command": "docker ps"}
        E: 6 Exit code 1\nCannot connect to the daemon"#,
    );
    let checks: Vec<_> = facts.checks.iter().map(|run| (run.name.as_str(), run.has_failed())).collect();
    assert_eq!(checks, [("npm run build", true), ("cargo test", false)]);
    let errors: Vec<_> = facts.errors.iter().map(|quote| quote.text.as_str()).collect();
    assert_eq!(errors, ["Cannot connect to the daemon"]);
}

#[test]
fn files_are_listed_with_the_last_used_first() {
    let facts = parse_facts(
        r#"C: 1 Read {"file_path": "a.rs"}
        C: 2 Edit {"file_path": "b.rs"}
        T: 9 Applied edit to c.py
        C: 4 Bash {"command": "cat d.md"}"#,
    );
    let files: Vec<_> =
        facts.files.iter().map(|file| (file.path.as_str(), file.last_write_seq > 0)).collect();
    assert_eq!(files, [("d.md", false), ("c.py", true), ("b.rs", true), ("a.rs", false)]);
}

#[test]
fn m16_no_fact_contains_a_secret() {
    let secret = ["sk", "ant", "api03", "abcdefghijklmnop1234"].join("-");
    let facts = parse_facts(&format!(
        "U: Never use {secret} in tests, we decided on password=hunter2hunter2.\n A: I will not use {secret}?\n E: 1 error: bad key {secret}\n P: key {secret}"
    ));
    let debug = format!("{facts:?}");
    assert!(!debug.contains("abcdefghij") && !debug.contains("hunter2"), "{debug}");
}

#[test]
fn m16_truncating_a_long_text_leaves_no_part_of_a_secret() {
    let facts = parse_facts(&format!(
        "U: {} {}",
        "word ".repeat(798),
        ["sk", "ant", "abcdefghijklmnopqrst1234"].join("-")
    ));
    assert!(!format!("{facts:?}").contains("sk-ant"));
}

#[test]
fn an_unanswered_question_of_the_assistant_is_collected() {
    assert_eq!(
        parse_facts("U: Do it.\n A: Which one? A or B?").open_question.map(|quote| quote.text),
        Some("A or B?".into())
    );
    assert_eq!(parse_facts("U: Do it.\n A: Done.").open_question, None);
    assert_eq!(parse_facts("U: Do it.\n A: Done.\n U: Why?").unanswered_requests.len(), 1);
}

#[test]
fn the_number_of_facts_is_bounded() {
    let mut collector = super::FactCollector::default();
    for seq in 1..20_000 {
        collector.push(&crate::notation::parse_item(
            seq,
            &format!("U: Never touch file_{seq}.rs and Thing{seq}Name."),
        ));
    }
    let facts = collector.finish();
    assert!(facts.requests.len() < 100 && facts.rules.len() < 100 && facts.identifiers.len() < 100);
}
