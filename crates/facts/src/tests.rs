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
fn a_request_is_what_the_user_wrote_without_wrappers_and_output() {
    let facts = parse_facts(
        "U: {\"task\": \"Fix the parser.\"}\n A: <thinking>I will never.</thinking><answer>On it.</answer>\n U: OBSERVATION:\\nYou must never\\n(Open file: n/a)\\nbash-$\n U: <user_query>Add a test.</user_query>",
    );
    let texts =
        |quotes: &[super::Quote]| quotes.iter().map(|quote| quote.text.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(texts(&facts.requests), ["Fix the parser.", "Add a test."]);
    assert_eq!(texts(&facts.statements), ["On it."]);
    assert!(facts.rules.is_empty() && facts.standing_rules.is_empty());
}

#[test]
fn thanks_and_a_control_token_are_no_request() {
    let facts = parse_facts(
        "U: Book the seat.\n A: Your seat is booked.\n U: Thank you so much for your help! That's all I needed. ###STOP###",
    );
    let last = facts.requests.last().map(|quote| quote.text.as_str());
    assert_eq!((last, facts.request_answered), (Some("Book the seat."), Some(true)));
    let facts = parse_facts("U: Book the seat.\n A: It is booked.\n U: Thanks for that, now cancel it.");
    assert_eq!(facts.requests.len(), 2);
}

#[test]
fn a_rule_of_the_user_is_a_whole_sentence_and_no_question() {
    let facts = parse_facts(
        "U: We need to fix these cases:\\nPrint this instead of \"Another window...\" Then go on.\\n\\nwait why are they in two files, shouldn't we have only one\\n\\nKeep it in one file.",
    );
    let rules: Vec<_> = facts.rules.iter().map(|rule| rule.quote.text.as_str()).collect();
    assert_eq!(rules, ["Keep it in one file."]);
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
fn m16_a_secret_in_a_path_is_redacted() {
    let secret = format!("ghp_{}0123456789", "aB".repeat(13));
    let facts = parse_facts(&format!(
        "U: Fix it.\n C: 1 Edit {{\"file_path\": \"/srv/x/{secret}/main.rs\"}}\n C: 2 Read {{\"file_path\": \"src/a.rs?token={secret}\"}}\n U: Go on."
    ));
    assert_eq!(facts.files.len(), 2, "{:?}", facts.files);
    assert!(!format!("{facts:?}").contains(&secret), "{:?}", facts.files);
}

#[test]
fn m6_files_of_many_calls_are_kept_in_a_format_that_records_no_results() {
    let count = 2 * crate::limits::PENDING_CALLS_MAX;
    let calls: String =
        (0..count).map(|number| format!(" C: {number} Read {{\"file_path\": \"src/part.rs\"}}\n")).collect();
    let facts = parse_facts(&format!("U: Read the part.\n{calls} U: Go on."));
    let part = facts.files.iter().find(|file| file.path == "src/part.rs");
    assert_eq!(part.map(|file| file.use_count as usize), Some(count));
}

#[test]
fn l7_a_request_is_unanswered_until_the_assistant_answers_with_no_call_pending() {
    for (text, is_answered) in [
        ("U: Do it.", Some(false)),
        ("U: Do it.\n A: Done.", Some(true)),
        ("U: Do it.\n A: I will.\n C: 1 Bash {\"command\": \"make\"}", Some(false)),
        ("U: Do it.\n C: 1 Bash {\"command\": \"make\"}\n T: 1 fine\n A: Done.", Some(true)),
        ("U: Do it.\n A: Done.\n U: And this.", Some(false)),
        ("U: Do it.\n A: I will look at the worker first.", Some(false)),
        // The answer says that something is left.
        ("U: Do it.\n A: The orders are migrated. The invoices are still to be migrated.", Some(false)),
        ("U: Do it.\n A: The export is done, but the nightly job is broken.", Some(false)),
        ("U: Do it.\n A: Done.\\n\\nNext steps:\\n- run the backfill", Some(false)),
        ("U: Do it.\n A: I added the test. It was not yet run.", Some(false)),
        ("U: Do it.\n A: Added. I have not updated the book.", Some(false)),
        ("U: Do it.\n A: I am blocked by the missing key.", Some(false)),
        ("U: Do it.\n A: Added the flag. Should it be on by default?", Some(false)),
        // The conversation shows that something is left.
        (
            "U: Do it.\n C: 1 Bash {\"command\": \"cargo test\"}\n E: 1 test result: FAILED\n A: Done.",
            Some(false),
        ),
        (
            "U: Do it.\n C: 1 Bash {\"command\": \"make deploy\"}\n E: 1 no route to host\n A: Done.",
            Some(false),
        ),
        ("U: Do it.\n C: 1 TodoWrite {\"todos\": [{\"content\": \"x\"}]}\n A: Done.", Some(false)),
        // The agent handed in its work with a call.
        ("U: Do it.\n A: Calling submit.\n C: 1 submit {}\n T: 1 diff --git a b", Some(true)),
        (
            "U: Do it.\n C: 1 bash {\"command\": \"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\"}\n T: 1 diff",
            Some(true),
        ),
        ("U: Do it.\n C: 1 submit {}\n E: 1 no changes to submit", Some(false)),
        ("U: Do it.\n C: 1 submit {}\n T: 1 diff\n C: 2 bash {\"command\": \"ls\"}\n T: 2 a", Some(false)),
        ("U: Do it.\n C: 1 submit {}\n T: 1 diff\n U: Now the other.", Some(false)),
        // Nothing tells whether it was answered.
        ("U: Say hi.\n A: Hi.", None),
        ("C: 1 TodoWrite {\"todos\": [{\"content\": \"x\"}]}\n U: Do it.\n A: Done.", None),
        (
            "U: Do it.\n C: 1 Bash {\"command\": \"rm a.txt\"}\n E: 1 The user declined this call.\n A: Done.",
            None,
        ),
        ("A: Done.", None),
        // A search without a hit, a polite question and an answer to a question leave nothing.
        ("U: Do it.\n C: 1 Bash {\"command\": \"grep -r x .\"}\n E: 1 Exit code 1\n A: Done.", Some(true)),
        ("U: Do it.\n A: Your seat is booked. Is there anything else?", Some(true)),
        ("U: What does it do?\n A: It copies every message to the other database.", Some(true)),
        // What a report names is its result, and not work that it leaves open.
        (
            "U: Review the branch.\n A: Two findings:\\n\\n- The job is broken.\\n- The limit needs to be checked.",
            Some(true),
        ),
        ("U: Review the branch.\n A: The job is broken. I have not looked at the client.", Some(false)),
        ("U: Review the branch and fix it.\n A: The job is broken.", Some(false)),
        // A commit proves that it was made, whatever the words after it are about.
        (
            "U: commit it\n C: 1 Bash {\"command\": \"git commit -m x\"}\n T: 1 ok\n A: Committed.\n S: Review the branch.\n C: 2 Edit {\"file_path\": \"a.rs\"}\n T: 2 ok\n A: I changed a.rs. It is not committed yet.",
            Some(true),
        ),
        (
            "U: commit it\n C: 1 Bash {\"command\": \"git commit -m x\"}\n E: 1 hook failed\n A: Committed.",
            Some(false),
        ),
        // The user has another agent begin something else after the answer.
        ("U: Do it.\n A: Done.\n S: Review the branch.\n A: The job is broken.", Some(true)),
        ("U: Do it.\n A: I will look at it.\n S: Review the branch.\n A: The job is broken.", Some(false)),
    ] {
        assert_eq!(parse_facts(text).request_answered, is_answered, "{text}");
    }
}

#[test]
fn the_difference_of_handed_in_work_names_the_changed_files() {
    let facts = parse_facts("U: Do it.\n C: 1 submit {}\n T: 1 diff --git a/src/a.py b/src/a.py");
    assert_eq!(facts.carried_facts().files.changed, ["src/a.py"]);
}

#[test]
fn a_failed_check_is_told_until_a_later_run_does_not_fail() {
    let failed =
        "C: 1 Bash {\"command\": \"npm run check 2>&1 | tail -9\"}\n E: 1 a.ts: error TS2307: no module";
    for (later, expected) in [
        ("", &["npm run check"][..]),
        ("T: 2 Checked 22 files in 23ms. No fixes applied.", &[]),
        ("T: 2 (no output)", &[]),
        ("T: 2 b.ts: cannot find module", &["npm run check"]),
        ("E: 2 Command aborted", &["npm run check"]),
    ] {
        let again = "C: 2 Bash {\"command\": \"npm run check 2>&1 | tail -9\"}";
        let facts = parse_facts(&format!("{failed}\n {again}\n {later}"));
        let failed: Vec<_> =
            facts.checks.iter().filter(|run| run.has_failed()).map(|run| &run.name).collect();
        assert_eq!(failed, expected, "{later}");
    }
    let aborted = parse_facts("C: 1 Bash {\"command\": \"npm run check\"}\n E: 1 Command aborted");
    assert!(aborted.checks.is_empty() && aborted.errors.is_empty());
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
        C: 3 TaskUpdate {"taskId": "7", "status": "completed"}
        T: 3 Task #7 updated"#,
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
fn an_error_is_what_a_call_reports_and_no_label_of_its_output() {
    for (result, expected) in [
        ("Chunk ID: 94c2d6\\nWall time: 0.1\\nProcess exited with code 1\\nOutput:", ""),
        ("Chunk ID: 94c2d6\\nfatal: no such ref: feature", "fatal: no such ref: feature"),
        ("current command: cat a || echo \"not found\"\\nthe tool crashed", "the tool crashed"),
        ("error: the row was changed by user script 7", "error: the row was changed by user script 7"),
        ("error: request denied by user policy 7", "error: request denied by user policy 7"),
        ("The command was rejected by user.", ""),
        ("Cancelled by the user for another plan", ""),
    ] {
        let facts = parse_facts(&format!("C: 1 Bash {{\"command\": \"make deploy\"}}\n E: 1 {result}"));
        let errors: Vec<_> = facts.errors.iter().map(|quote| quote.text.as_str()).collect();
        assert_eq!(errors.join("|"), expected, "{result}");
    }
    // Nothing is known about the call of this output.
    assert!(parse_facts("E: 7 Tokens: 12 sent, 3 received.\\nNothing else.").errors.is_empty());
}

#[test]
fn a_resolved_error_is_kept_as_one() {
    let facts = parse_facts(
        r#"C: 1 Bash {"command": "cargo test"}
        E: 1 error: cannot find value `x`
        C: 2 Bash {"command": "docker compose up"}
        E: 2 Error: the port is taken
        C: 3 Bash {"command": "docker compose up"}
        T: 3 started
        C: 4 Bash {"command": "cargo test"}
        T: 4 test result: ok. 3 passed; 0 failed"#,
    );
    let resolved: Vec<_> = facts.resolved_errors.iter().map(|quote| quote.text.as_str()).collect();
    assert_eq!(resolved, ["error: cannot find value `x`", "Error: the port is taken"]);
    assert!(facts.errors.is_empty());
}

#[test]
fn files_are_listed_with_the_last_used_first() {
    let facts = parse_facts(
        r#"C: 1 Read {"file_path": "a.rs"}
        T: 1 text
        C: 2 Edit {"file_path": "b.rs"}
        T: 2 ok
        T: 9 Applied edit to c.py
        C: 4 Bash {"command": "cat d.md"}
        T: 4 text"#,
    );
    let files: Vec<_> =
        facts.files.iter().map(|file| (file.path.as_str(), file.last_write_seq > 0)).collect();
    assert_eq!(files, [("d.md", false), ("c.py", true), ("b.rs", true), ("a.rs", false)]);
}

/// Returns the facts that are carried over of a transcript, as one line for each kind that is present.
fn carried(text: &str) -> String {
    let carry = parse_facts(text).carried_facts();
    let rules = carry.rules.iter().map(|rule| format!("{} {:?}", rule.text, rule.refs)).collect();
    [
        ("changed", carry.files.changed),
        ("read", carry.files.read),
        ("commands", carry.commands),
        ("errors", carry.errors),
        ("rules", rules),
    ]
    .into_iter()
    .filter(|(_, entries)| !entries.is_empty())
    .map(|(label, entries)| format!("{label}: {}", entries.join(", ")))
    .collect::<Vec<_>>()
    .join("; ")
}

#[test]
fn calls_without_an_effect_are_no_facts() {
    for (calls, expected) in [
        ("C: 1 Bash {\"command\": \"rm a.txt\"}\n E: 1 The person declined this call.", ""),
        ("C: 1 Bash {\"command\": \"rm a.txt\"}\n E: 1 Declined by the person: no reason was given.", ""),
        (
            "C: 1 Edit {\"file_path\": \"a.rs\"}\n E: 1 The user doesn't want to proceed with this tool use.",
            "",
        ),
        ("C: 1 Bash {\"command\": \"make deploy\"}\n E: 1 Permission to use Bash has been denied.", ""),
        ("C: 1 compact {}\n E: 1 Not condensed: it would not help. Continue.", ""),
        ("C: 1 Read {\"file_path\": \"a.rs\"}\n E: 1 File does not exist.", ""),
        ("C: 1 stop_bash {\"shellId\": \"30\"}\n E: 1 shellId: 30 was already stopped via stop_bash.", ""),
        ("C: 1 Edit {\"file_path\": \"a.rs\"}\n E: 1 String to replace not found in file.", ""),
        (
            "C: 1 Edit {\"file_path\": \"a.rs\"}\n E: 1 error: the disk is full",
            "errors: error: the disk is full",
        ),
        // Earlier uses of the file remain.
        (
            "C: 1 Edit {\"file_path\": \"a.rs\"}\n T: 1 ok\n C: 2 Edit {\"file_path\": \"a.rs\"}\n E: 2 user rejected",
            "changed: a.rs",
        ),
        // A check that fails has used its files.
        (
            "C: 1 Bash {\"command\": \"pytest tests/a.py\"}\n E: 1 1 failed",
            "read: tests/a.py; commands: pytest; errors: pytest: 1 failed",
        ),
        // A call without a result was not shown to have happened.
        ("C: 1 Edit {\"file_path\": \"a.rs\"}\n C: 2 Bash {\"command\": \"cargo publish\"}", ""),
        (
            "C: 1 Edit {\"file_path\": \"a.rs\"}\n T: 1 ok\n C: 2 Edit {\"file_path\": \"b.rs\"}",
            "changed: a.rs",
        ),
        (
            "C: 1 Read {\"file_path\": \"a.rs\"}\n T: 1 ok\n C: 2 Edit {\"file_path\": \"a.rs\"}\n C: 3 Edit {\"file_path\": \"a.rs\"}\n U: Stop.",
            "read: a.rs",
        ),
        // A format that records no results at all is believed once the user goes on.
        ("C: 1 Edit {\"file_path\": \"a.rs\"}\n U: Thanks.", "changed: a.rs"),
        // What the user said on declining is a rule.
        (
            "C: 1 Bash {\"command\": \"git push\"}\n E: 1 The person declined this call: push only after my review",
            "rules: push only after my review [2]",
        ),
    ] {
        assert_eq!(carried(calls), expected, "{calls}");
    }
}

#[test]
fn a_refusal_without_an_error_status_is_no_fact_and_its_correction_is_a_rule() {
    for (result, expected) in [
        ("The user doesn't want to proceed with this tool use.", ""),
        (
            "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\\nMove old files to the attic.",
            "rules: Move old files to the attic. [2]",
        ),
        (
            "The person declined this call: move old files to the attic",
            "rules: move old files to the attic [2]",
        ),
        (
            "Tool call rejected by the user: move old files to the attic",
            "rules: move old files to the attic [2]",
        ),
        (
            "User denied this operation and provided the following feedback:\\n<feedback>\\nUse the attic.\\n</feedback>",
            "rules: Use the attic. [2]",
        ),
        ("Error: command rejected by user", ""),
        ("[Request interrupted by user for tool use]", ""),
        ("Permission to use Bash with command rm a.txt has been denied.", ""),
        // What the harness tells the agent is no rule of the person.
        ("The command was rejected by the user: stop and wait for instructions.", ""),
        (
            "Rejected by the user: move old files to the attic. Stop and wait for the next message.",
            "rules: move old files to the attic. [2]",
        ),
        // Output that mentions a refusal later, or as a part of something else, is no refusal.
        ("deleted a.rs\\nUser rejected: 3", "changed: a.rs"),
        ("user rejected_payments table: 14 rows", "changed: a.rs"),
        ("The test that the request is denied by user policy passes", "changed: a.rs"),
        // An answer about the matter of a tool, such as an order, is no refusal either.
        ("User cancelled the reservation: no fee", "changed: a.rs"),
        ("User rejected: 3", "changed: a.rs"),
        ("The order was cancelled by the user.", "changed: a.rs"),
    ] {
        let calls = format!("C: 1 Edit {{\"file_path\": \"a.rs\"}}\n T: 1 {result}");
        assert_eq!(carried(&calls), expected, "{result}");
    }
}

#[test]
fn a_change_of_the_task_list_takes_effect_with_its_result() {
    for (after, expected) in [
        ("", TodoStatus::Pending),
        ("\n E: 2 The user rejected this call.", TodoStatus::Pending),
        ("\n T: 2 The list was updated.", TodoStatus::Completed),
    ] {
        let facts = parse_facts(&format!(
            r#"C: 1 TodoWrite {{"todos": [{{"content": "print", "status": "pending"}}]}}
            T: 1 ok
            C: 2 TodoWrite {{"todos": [{{"content": "print", "status": "completed"}}]}}{after}"#
        ));
        let statuses: Vec<_> = facts.todos.iter().map(|todo| todo.status).collect();
        assert_eq!(statuses, [expected], "{after}");
    }
}

#[test]
fn an_open_task_of_a_call_without_a_result_is_kept_and_a_done_one_is_not() {
    for (after, expected) in [
        (
            "",
            &[
                ("search", TodoStatus::Completed),
                ("print", TodoStatus::InProgress),
                ("sort", TodoStatus::Pending),
            ][..],
        ),
        (
            "\n E: 2 The user rejected this call.",
            &[("search", TodoStatus::Completed), ("print", TodoStatus::Pending)],
        ),
        (
            "\n C: 3 TodoWrite {\"todos\": [{\"content\": \"ship\", \"status\": \"pending\"}]}\n T: 3 ok",
            &[("ship", TodoStatus::Pending)],
        ),
    ] {
        let facts = parse_facts(&format!(
            r#"C: 1 TodoWrite {{"todos": [{{"content": "search", "status": "completed"}}, {{"content": "print", "status": "pending"}}]}}
            T: 1 ok
            C: 2 TodoWrite {{"todos": [{{"content": "print", "status": "in_progress"}}, {{"content": "sort", "status": "pending"}}, {{"content": "merge", "status": "completed"}}]}}{after}"#
        ));
        let tasks: Vec<_> = facts.todos.iter().map(|task| (task.text.as_str(), task.status)).collect();
        assert_eq!(tasks, expected, "{after}");
    }
}

#[test]
fn names_in_the_arguments_of_a_call_count_once_it_was_performed() {
    for (after, expected) in
        [("", &[][..]), ("\n E: 1 The user rejected this call.", &[]), ("\n T: 1 ok", &["parse_row"])]
    {
        let facts = parse_facts(&format!(r#"C: 1 Bash {{"command": "grep parse_row"}}{after}"#));
        let names: Vec<_> = facts.argument_names.iter().map(|name| name.text.as_str()).collect();
        assert_eq!(names, expected, "{after}");
    }
}

#[test]
fn a_name_in_the_arguments_counts_once_for_each_call_and_a_path_only_if_the_call_does_not_use_the_file() {
    let edit = r#"C: 1 Edit {"file_path": "src/main.ts", "new_string": "import './session.ts'; import '../up/list.ts'; openSession(openSession);"}"#;
    let task = r#"C: 2 Task {"kind": "src/kinds.ts", "prompt": "Read CONVENTIONS.md before openSession."}"#;
    let todo = r#"C: 3 TodoWrite {"todos": [{"content": "Port old/reader.ts now"}]}"#;
    let facts = parse_facts(&format!("{edit}\n T: 1 ok\n {task}\n T: 2 ok\n {todo}\n T: 3 ok"));
    let used = |names: &[super::NameUsage]| {
        names.iter().map(|name| format!("{} {}", name.text, name.count)).collect::<Vec<_>>()
    };
    assert_eq!(used(&facts.argument_names), ["openSession 1"]);
    assert_eq!(used(&facts.argument_paths), ["CONVENTIONS.md 1", "session.ts 1"]);
    let declined = parse_facts(&format!("{edit}\n E: 1 The user rejected this call."));
    assert!(declined.argument_paths.is_empty());
}

#[test]
fn files_are_shown_as_they_are_at_the_end_and_by_one_name() {
    for (calls, expected) in [
        (
            "C: 1 Edit {\"file_path\": \"a.rs\"}\n T: 1 ok\n C: 2 Bash {\"command\": \"rm a.rs\"}\n T: 2 ok",
            "",
        ),
        (
            "C: 1 Edit {\"file_path\": \"d/a.rs\"}\n T: 1 ok\n C: 2 Bash {\"command\": \"rm -rf d\"}\n T: 2 ok",
            "",
        ),
        (
            "C: 1 Bash {\"command\": \"rm a.rs\"}\n T: 1 ok\n C: 2 Write {\"file_path\": \"a.rs\"}\n T: 2 ok",
            "changed: a.rs",
        ),
        ("C: 1 Bash {\"command\": \"git mv a.rs b.rs\"}\n T: 1 ok", "changed: b.rs; commands: git mv"),
        (
            "C: 1 Edit {\"file_path\": \"/w/src/a.rs\"}\n T: 1 ok\n C: 2 Bash {\"command\": \"cat src/a.rs\"}\n T: 2 ok",
            "changed: src/a.rs",
        ),
        (
            "C: 1 Read {\"file_path\": \"/w/a.rs\"}\n T: 1 ok\n C: 2 Read {\"file_path\": \"a.rs\"}\n T: 2 ok",
            "read: a.rs",
        ),
        (
            "C: 1 Read {\"file_path\": \"/x/y/a.rs\"}\n T: 1 ok\n C: 2 Read {\"file_path\": \"a.rs\"}\n T: 2 ok\n C: 3 Bash {\"command\": \"cat /w/b.rs /w/c.rs\"}\n T: 3 ok",
            "read: /w/b.rs, /w/c.rs, a.rs, /x/y/a.rs",
        ),
        (
            "C: 1 Read {\"file_path\": \"screen.png\"}\n T: 1 ok\n C: 2 Bash {\"command\": \"tail app.log\"}\n T: 2 ok",
            "",
        ),
        (
            "C: 1 Bash {\"command\": \"grep -rn console.log --include=*.ts src/x.ts\"}\n T: 1 ok",
            "read: src/x.ts",
        ),
    ] {
        assert_eq!(carried(calls), expected, "{calls}");
    }
}

#[test]
fn only_commands_that_characterize_the_work_are_carried_over() {
    let call = r#"C: 1 Bash {"command": "cd /w; for i in $(seq 3); do echo $i; break; done; true; ls; git add .; git status; git rebase main"}
        T: 1 ok"#;
    assert_eq!(carried(call), "commands: git rebase");
}

#[test]
fn an_option_of_a_tool_is_no_reference() {
    let call = r#"C: 1 Grep {"output_mode": "files_with_matches", "ticket": "mia_3668"}"#;
    let facts = parse_facts(&format!("{call}\n T: 1 ok"));
    let values: Vec<_> = facts.argument_values.iter().map(|value| value.text.as_str()).collect();
    assert_eq!(values, ["mia_3668"]);
}

#[test]
fn standing_rules_are_collected_from_the_whole_thread() {
    let facts = parse_facts(
        "U: Fix it. Two rules: don't touch the public API. And never sleep in tests, not even a millisecond.\n A: Done.\n B:\n U: Go on.",
    );
    let rules: Vec<_> = facts.carried_facts().rules.into_iter().map(|rule| (rule.text, rule.refs)).collect();
    let text = "Two rules: don't touch the public API. And never sleep in tests, not even a millisecond.";
    assert_eq!(rules, [(text.to_owned(), vec![1])]);
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
        Some("Which one? A or B?".into())
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
    assert!(
        facts.requests.len() < 100
            && facts.rules.len() < 100
            && facts.identifiers.len() <= crate::limits::NAMES_KEPT_MAX
    );
}

#[test]
fn instructions_of_the_program_that_posed_a_task_are_no_rules_and_name_nothing() {
    let facts = parse_facts(
        "U: Fix the parser of src/rows.py. Keep the flag of the table.\\nINSTRUCTIONS:\\nNow, you're going to solve this issue on your own.\\nAlways check the code with find_file. Never use vim.\n A: On it.",
    );
    // The request itself is carried over word for word.
    assert!(facts.requests.last().is_some_and(|quote| quote.text.ends_with("Never use vim.")));
    let rules: Vec<_> = facts.rules.iter().map(|rule| rule.quote.text.as_str()).collect();
    assert_eq!(rules, ["Keep the flag of the table."]);
    assert!(facts.identifiers.is_empty() && facts.standing_rules.is_empty(), "{facts:?}");
}
