//! Tests of the offline summary: on an ordinary session, and on unusual or degenerate transcripts.

use insta::assert_snapshot;
use model::tokens;
use proptest::prelude::*;
use protocol::SummaryItemKind;
use unicode_segmentation::UnicodeSegmentation;

use super::{OfflineSummary, build_offline_summary};
use crate::limits::{BODY_ITEMS_MAX, SUMMARY_TOKENS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::summary::ground::GroundingCheck;
use crate::summary::render;
use facts::FactCollector;
use facts::GoalMatcher;
use facts::TranscriptItem;
use facts::notation::{parse_facts, parse_items};

/// Returns the offline summary of a transcript, in the default budget, as Markdown.
fn summary(text: &str) -> String {
    build_offline_summary(&parse_facts(text), None, SUMMARY_TOKENS_MAX).to_markdown()
}

const SESSION: &str = r#"
U: The sync worker drops messages when the network flaps. Find out why and fix it.
A: I will look at the worker first.
C: 1 Read {"file_path": "/app/crates/sync/src/worker.rs"}
T: 1 fn run() {}
U: Never change the wire format, other clients depend on it. Use tokio's channels.
C: 2 TodoWrite {"todos": [{"content": "Reproduce the loss in a test", "status": "completed"}, {"content": "Retry with backoff in worker.rs", "status": "in_progress"}, {"content": "Document the retry limit", "status": "pending"}]}
T: 2 ok
C: 3 Edit {"file_path": "/app/crates/sync/src/worker.rs"}
T: 3 ok
C: 4 Edit {"file_path": "/app/crates/sync/tests/flap.rs"}
T: 4 ok
A: The root cause is that send_batch acknowledges before the write completes. I moved the acknowledgement after the flush.
C: 5 Bash {"command": "cd /app && cargo test -p sync 2>&1 | tail -20"}
T: 5 test flap::reconnect ... FAILED\ntest result: FAILED. 3 passed; 1 failed
U: Also make the retry limit configurable, see #214.
"#;

#[test]
fn a_summary_reads_well() {
    assert_snapshot!(summary(SESSION));
}

#[test]
fn an_open_task_is_never_reported_as_done() {
    let summary_parts =
        summary(&format!("{SESSION}A: Completed: document the retry limit, and all tests pass."));
    assert!(
        summary_parts.contains("[ ] Document the retry limit") && !summary_parts.contains("Completed"),
        "{summary_parts}"
    );
    assert!(!summary_parts.contains("tests pass"), "{summary_parts}");
}

#[test]
fn l7_the_last_request_is_quoted_in_full_with_its_state() {
    assert!(
        summary(SESSION).contains("Pending request: \"Also make the retry limit configurable, see #214.\"")
    );
    let answered = summary("U: Say hi to everyone here.\n A: I have sent it to all of them.");
    assert!(answered.contains("Last request, answered: \"Say hi to everyone here.\""), "{answered}");
    let unknown = summary("U: Say hi to everyone here.\n A: Hi.");
    assert!(unknown.contains("Last request: \"Say hi to everyone here.\""), "{unknown}");
}

#[test]
fn work_that_an_answer_leaves_open_is_a_next_step_and_never_told_as_done() {
    let text = summary(
        "U: Move the billing data to the new database.\n A: The orders are moved. The invoices are still to be migrated. The nightly job is broken.",
    );
    let (_, next_steps) = text.split_once("### Next steps").expect("there are next steps");
    for expected in
        ["Last request, not finished", "The invoices are still to be migrated.", "The nightly job is broken."]
    {
        assert!(next_steps.contains(expected), "{text}");
    }
    assert!(!text.contains("answered") && !text.contains("Nothing"), "{text}");
}

#[test]
fn the_title_names_what_the_thread_is_about_at_its_end() {
    let first = "U: Find out whether the old issues of the tracker are stale, and close them.\n A: I closed two.\n U: ok\n A: Fine.\n U: yes\n A: Fine.";
    let port = "U: Port the reader of sessions to the new format.\n A: Ported.";
    let commit = r#"U: commit
        C: 1 Bash {"command": "git commit -m 'feat(reader): read the new format of sessions'"}
        T: 1 ok
        A: Committed."#;
    for (transcript, expected) in [
        (format!("{first}\n {port}"), "Port the reader of sessions to the new format"),
        (
            "U: Never commit without asking. Write the parser of dates.\n A: Written.".to_owned(),
            "Write the parser of dates",
        ),
        (
            "U: No new dependencies please, add a flag.\n A: Added.".to_owned(),
            "No new dependencies please, add a flag",
        ),
        (format!("{first}\n {port}\n {commit}"), "Read the new format of sessions"),
        (
            format!("{first}\n {commit}"),
            "Find out whether the old issues of the tracker are stale, and close them",
        ),
        (
            format!("U: I see no rows in the table.\n A: They are hidden.\n {commit}"),
            "Read the new format of sessions",
        ),
    ] {
        let text = summary(&transcript);
        assert!(text.starts_with(&format!("**{expected}**")), "{text}");
    }
    let port = "U: Port the reader of sessions and the writer of tables to the new format of the whole archive.\n A: Ported.";
    let text = summary(&format!("{first}\n {port}"));
    assert!(text.contains("- The thread began with: Find out whether the old issues"), "{text}");
}

#[test]
fn the_first_line_says_something_when_no_state_is_known() {
    let many = "A: The old reader keeps every row of the table.\n".repeat(120);
    for transcript in [format!("U: Say hi.\n {many}"), many] {
        let parts = build_offline_summary(&parse_facts(&transcript), None, 300);
        assert!(!parts.tldr.contains("messages"), "{parts:?}");
    }
    let parts = build_offline_summary(&parse_facts("U: Say hi.\n A: Hi."), None, 300);
    assert_eq!(parts.tldr, "The last request was \"Say hi.\".");
}

/// Checks the lines under a heading of the summary of a transcript.
fn check_section(transcript: &str, heading: &str, expected: &[&str]) {
    let text = summary(transcript);
    let after = text.split_once(&format!("### {heading}\n")).map_or("", |(_, after)| after);
    let section = after.split("\n### ").next().unwrap_or_default();
    let lines: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn each_section_holds_only_what_belongs_there() {
    let calls = r#"C: 1 Bash {"command": "cargo nextest list && git status"}
        T: 1 ok
        C: 2 Grep {"output_mode": "files_with_matches"}
        T: 2 ok"#;
    for (transcript, heading, expected) in [
        // The objective does not repeat the title and holds whole sentences.
        (
            "U: Port the importer to the new format. Keep the old reader until every customer has moved.\n A: Done.\n U: Please write tests about reading every malformed document next.",
            "Objective",
            &["Keep the old reader until every customer has moved."][..],
        ),
        // Progress holds results, and not what was announced.
        (
            "U: Port it and tell me.\n A: Let me look at the old importer first. Now I will port the reader to it. I ported the reader and its four tests.",
            "Progress",
            &["Last request, answered: \"Port it and tell me.\"", "I ported the reader and its four tests."],
        ),
        // Questions and pasted output are no decisions.
        (
            "U: Port it.\n A: We decided to keep the old reader. Should we go with the new one instead? 10:20:30 decided to retry the upload now",
            "Decisions",
            &["We decided to keep the old reader."],
        ),
        // One line holds what is in use.
        (
            &format!(
                "U: Port it, see #214 about it.\n {calls}\n A: The reader for #214 needs parse_row and parse_row again."
            ),
            "In use",
            &["cargo nextest"],
        ),
        // Files that were deleted are not changed.
        (
            "U: Clean up.\n C: 0 Read {\"file_path\": \"src/old.rs\"}\n T: 0 ok\n C: 1 Edit {\"file_path\": \"src/old.rs\"}\n T: 1 ok\n C: 2 Bash {\"command\": \"git rm src/old.rs\"}\n T: 2 ok",
            "Artifacts",
            &["Deleted in src: old.rs"],
        ),
        // A file that was created and deleted again has not changed; one that was read first has.
        (
            "U: Clean up.\n C: 0 Read {\"file_path\": \"src/old.rs\"}\n T: 0 ok\n C: 1 Edit {\"file_path\": \"src/old.rs\"}\n T: 1 ok\n C: 2 Write {\"file_path\": \"check.py\"}\n T: 2 ok\n C: 3 Bash {\"command\": \"git rm src/old.rs check.py\"}\n T: 3 ok",
            "Artifacts",
            &["Deleted in src: old.rs"],
        ),
    ] {
        check_section(transcript, heading, expected);
    }
}

#[test]
fn every_line_is_whole_and_says_something() {
    for (transcript, heading, expected) in [
        // The title states the only request, and its quote is the only other place.
        (
            "U: Make the retry limit configurable.\n A: I made the retry limit configurable.",
            "Next steps",
            &[][..],
        ),
        // A greeting and a clause that cannot stand alone are no objective.
        (
            "U: Hello there! I need a faster importer for the largest customers of the whole company, but the old reader must stay.\n A: I rewrote the importer.\n U: Now please write the release notes about everything that changed.",
            "Objective",
            &[
                "I need a faster importer for the largest customers of the whole company, but the old reader must stay.",
            ],
        ),
        // Progress holds whole sentences about the work.
        (
            "U: Port it and tell me.\n A: You're right, that was wrong. To fix it, we need to look further. **Three problems were found:**\\n\\nI ported the reader to the **new format**: it keeps every row. The range `main...next` was empty... Let me know what you think about it.",
            "Progress",
            &[
                "Last request, answered: \"Port it and tell me.\"",
                "I ported the reader to the new format: it keeps every row.",
            ],
        ),
        // A heading is no statement about the work, and a request that names nothing is not worth a line.
        (
            "U: Port it and tell me.\n A: Names of the tools for the new reader\\n\\nI ported the old reader of all recorded sessions.\n U: remove it\n A: Done.\n U: Now please write the release notes about everything that changed.",
            "Progress",
            &["I ported the old reader of all recorded sessions."],
        ),
        // What a person cannot remember is no decision.
        (
            "U: I don't remember the number of the ticket about the broken importer.\n A: I found it. It is number nine.",
            "Decisions",
            &[],
        ),
        // A name in a line about an error is not repeated.
        (
            "U: Run it.\n C: 1 Bash {\"command\": \"make deploy\"}\n E: 1 ConnectError: the host refused it",
            "Blockers",
            &["ConnectError: the host refused it"],
        ),
        // A request is no decision, also without a question mark.
        (
            "U: Port it.\n A: Done.\n U: can you review the change, and keep an eye on the wire format\n A: Fine.\n U: Thanks for all of that work.",
            "Decisions",
            &[],
        ),
    ] {
        check_section(transcript, heading, expected);
    }
}

#[test]
fn a_request_a_heading_and_a_private_number_are_not_what_the_section_says() {
    for (transcript, heading, expected) in [
        // A request for one thing is no decision.
        (
            "U: Port the importer of every large customer to the new format before the release.\n A: Done.\n U: I'd like to move my seat to row nine. Tests should use the new reader.\n A: Done.\n U: ok, also rename the column of every customer instead, before anyone writes the release notes.\n A: I moved all of it.",
            "Decisions",
            &["\"Tests should use the new reader.\""][..],
        ),
        // A heading and an announcement are no decisions.
        (
            "U: Port it.\n A: **Root cause & decision summary:** I'll use the old reader next. We chose the old reader.",
            "Decisions",
            &["We chose the old reader."],
        ),
        // Numbers of people and of their cards are not in use.
        (
            "U: Move my seat.\n C: 1 book {\"payment_id\": \"credit_card_4421486\", \"born\": \"1990-04-05\", \"flight_id\": \"HAT136\"}\n T: 1 ok\n A: I moved it.",
            "In use",
            &["HAT136, 1990-04-05"],
        ),
        // Who the author is, and a plea, are no objective.
        (
            "U: Hi there! I have a few changes to make to the trip that begins tomorrow. Could you help me with that?\n A: Which one?\n U: Sure, my user ID is ana_lopez_17.\n A: Found it.\n U: Then change the seat to the last row.",
            "Objective",
            &[],
        ),
    ] {
        check_section(transcript, heading, expected);
    }
}

#[test]
fn the_names_in_use_are_specific_and_shown_nowhere_else() {
    for (transcript, expected) in [
        // A name that says little alone has its folder, and the module that an edit imports is in use.
        (
            r#"U: Port it.
            C: 1 Read {"file_path": "store/index.ts"}
            T: 1 ok
            C: 2 Edit {"file_path": "rows.ts", "new_string": "import './columns.ts'"}
            T: 2 ok"#,
            "columns.ts, store/index.ts",
        ),
        // What redacting a password leaves of a longer name is no name.
        (
            r#"U: Look at the table and tell me about it.
            C: 1 Bash {"command": "mysql -u root -pKp4Rz9Tw2Mx7 orders_db"}
            T: 1 ok
            C: 2 Bash {"command": "curl https://me:Kp4Rz9Tw2Mx7@host.test/a"}
            T: 2 ok"#,
            "curl, mysql, orders_db",
        ),
        // A sentence names parse_row already.
        (
            r#"U: Port it and tell me about it.
            C: 1 Bash {"command": "cargo nextest list parse_row merge_row"}
            T: 1 ok
            A: I ported the old reader and the importer of every table to parse_row."#,
            "cargo nextest, merge_row",
        ),
        // A file that the thread created and deleted again is not in use.
        (
            r#"U: Port it and tell me about it.
            C: 1 Bash {"command": "touch tmp.log; rm -f tmp.log; cargo nextest list merge_row"}
            T: 1 ok"#,
            "cargo nextest, merge_row",
        ),
        // A library and the member of an object are no files.
        (
            "U: Port it.\n A: Next.js calls console.log in rows.ts, and Next.js calls it in `merge.ts`...",
            "rows.ts, merge.ts",
        ),
    ] {
        check_section(transcript, "In use", &[expected]);
    }
}

#[test]
fn after_a_compaction_the_first_request_gives_the_objective_that_questions_do_not() {
    let transcript = "U: the sync worker has broken, why?\n A: It loses rows.\n B:\n U: yeah close it\n A: Closed.\n U: what are the keys that turn on the second reader?\n A: There are two keys in the settings.";
    let text = summary(transcript);
    assert!(text.starts_with("**The sync worker has broken, why?**"), "{text}");
    let parts = build_offline_summary(
        &parse_facts(&transcript.replace("why?", "why? It worked on Monday.")),
        None,
        1_000,
    );
    let objective = parts.body.iter().find(|item| item.kind == SummaryItemKind::Objective);
    assert!(objective.is_some_and(|item| item.text.contains("It worked on Monday.")), "{parts:?}");
}

#[test]
fn an_earlier_request_of_which_only_a_few_words_fit_is_left_out() {
    let earlier = "slight steering on the listener that every session of the agent keeps around ".repeat(4);
    let question =
        "Would you like the printing mode ported first or the reader of the whole session instead?";
    let transcript =
        format!("U: Port the modes of it.\n A: I did.\n U: {earlier}\n A: I did.\n U: go on\n A: {question}");
    for tokens_max in [120, 150, 200, 300, 1_000] {
        let parts = build_offline_summary(&parse_facts(&transcript), None, tokens_max);
        let text = render::render_markdown(&parts.title, &parts.tldr, &parts.body);
        let line = text.lines().find(|line| line.starts_with("- Before it"));
        let says_enough = |line: &str| !line.ends_with("…\"") || line.chars().count() >= 80;
        assert!(line.is_none_or(says_enough), "{tokens_max}: {text}");
    }
}

#[test]
fn an_earlier_request_that_tells_nothing_is_left_out() {
    let text = summary(
        "U: Port the reader of sessions to the new format.\n A: Ported.\n U: ls\n A: Two files.\n U: what did I run?\n A: ls.\n U: ok\n A: Fine.",
    );
    assert!(text.contains("Before it: \"Port the reader") && !text.contains("\"ls\""), "{text}");
    assert!(!text.contains("what did I run"), "{text}");
}

#[test]
fn a_long_request_is_quoted_by_whole_sentences_and_says_so() {
    let details = "The importer must accept every old file. ".repeat(60);
    let text = summary(&format!("U: Port the importer to the new format. {details}"));
    let line = text.lines().find(|line| line.contains("Pending request")).unwrap_or_default();
    assert!(
        line.starts_with("- Pending request (excerpt): \"Port the importer to the new format."),
        "{text}"
    );
    assert!(line.ends_with("every old file.\"") && !text.contains('…'), "{text}");
}

#[test]
fn an_error_that_was_resolved_is_told_as_resolved() {
    let transcript = r#"U: Start the service.
        C: 1 Bash {"command": "docker compose up"}
        E: 1 Error: the port is taken
        C: 2 Bash {"command": "docker compose up"}
        T: 2 started"#;
    let parts = build_offline_summary(&parse_facts(transcript), None, 1_000);
    let text = render::render_markdown(&parts.title, &parts.tldr, &parts.body);
    assert!(
        text.contains("- Resolved: Error: the port is taken") && !text.contains("### Blockers"),
        "{text}"
    );
}

#[test]
fn the_goal_of_the_child_thread_comes_first() {
    let summary_parts = build_offline_summary(
        &parse_facts(SESSION),
        Some(&GoalMatcher::new("release 2.0 of the worker")),
        300,
    );
    assert_eq!(summary_parts.title, "Release 2.0 of the worker");
    // The title and the fact say it. No item repeats it.
    let items: Vec<&str> = summary_parts.body.iter().map(|item| item.text.as_str()).collect();
    assert!(items.iter().all(|text| !text.to_lowercase().contains("release 2.0")), "{items:?}");
    assert!(items[0].starts_with("The sync worker drops messages"), "{items:?}");
}

#[test]
fn m7_facts_that_must_not_be_lost_are_carried_over_as_data() {
    let carried = parse_facts(SESSION).carried_facts();
    assert_eq!(
        carried.last_user_request.as_deref(),
        Some("Also make the retry limit configurable, see #214.")
    );
    assert_eq!(carried.files.changed, ["/app/crates/sync/tests/flap.rs", "/app/crates/sync/src/worker.rs"]);
    assert_eq!((carried.todos.len(), carried.errors.len()), (3, 1));
}

/// Checks the invariants of every summary. `of` names the transcript.
fn check_valid(summary_parts: &OfflineSummary, tokens_max: u64, of: &str) {
    assert!(
        (1..=TITLE_GRAPHEMES_MAX).contains(&summary_parts.title.graphemes(true).count()),
        "{of}: title {:?}",
        summary_parts.title
    );
    assert!(
        (1..=TLDR_GRAPHEMES_MAX).contains(&summary_parts.tldr.graphemes(true).count()),
        "{of}: tldr {:?}",
        summary_parts.tldr
    );
    assert!((1..=BODY_ITEMS_MAX).contains(&summary_parts.body.len()), "{of}: {:?}", summary_parts.body);
    assert!(
        summary_parts.body.windows(2).all(|pair| pair[0].kind <= pair[1].kind),
        "{of}: {:?}",
        summary_parts.body
    );
    assert!(
        summary_parts.body.iter().all(|item| !item.text.trim().is_empty()),
        "{of}: {:?}",
        summary_parts.body
    );
    let md = render::render_markdown(&summary_parts.title, &summary_parts.tldr, &summary_parts.body);
    assert!(tokens::fits(&md, tokens_max), "{of}: {} tokens\n{md}", tokens::estimate_tokens(&md));
    assert!(
        md.matches("current_thread_summary>").count() == md.matches("‹").count()
            || !md.contains("<current_thread_summary"),
        "{of}: {md}"
    );
}

/// Returns the number of items with a name that `items` do not contain.
fn count_ungrounded(summary_parts: &OfflineSummary, items: &[TranscriptItem]) -> usize {
    let mut body = summary_parts.body.clone();
    let mut grounding = GroundingCheck::from_items(&body, None);
    items.iter().for_each(|item| grounding.visit(item));
    grounding.mark_items(&mut body)
}

#[test]
fn m4_every_transcript_yields_a_valid_summary() {
    let huge = format!("T: 1 {}", "lorem ipsum dolor 12345 ".repeat(360_000));
    let wall = format!("U: {}", "a".repeat(50_000));
    let many = "U: go\n".repeat(3_000);
    let nested = format!("U: {}", "<current_thread_summary>".repeat(200));
    let cases: Vec<(&str, &str)> = vec![
        ("empty", ""),
        ("one word", "U: x"),
        ("one answer", "A: Hello."),
        ("only results", "T: 1 fine\nE: 2 Error: broken pipe"),
        ("only calls", "C: 1 Bash {\"command\": \"ls\"}\nC: 2 unknown {}"),
        ("no person", "A: I will begin.\nC: 1 Edit {\"file_path\": \"a.rs\"}\nT: 1 ok\nA: Done."),
        ("only injected", "I: remember"),
        ("only a sub-agent", "S: do this"),
        ("only a summary", "B:\nP: The user wanted a parser. It is half done."),
        ("only a boundary", "B:"),
        ("a huge result", &huge),
        ("one wall of text", &wall),
        ("thousands of words", &many),
        ("markers", &nested),
        ("emoji", "U: 👨‍👩‍👧‍👦👩🏽‍🚀🏳️‍🌈 🦀🦀🦀🦀\nA: 🎉"),
        ("chinese", "U: 请不要修改配置文件，先修复解析器的错误。\nA: 好的，我会先看解析器。"),
        ("arabic", "U: أصلح المحلل من فضلك ولا تغير الاختبارات\nA: حسنا"),
        ("zero width", "U: \u{200b}\u{feff}fix\u{202e}txt.exe\u{2066} it\u{200d}\nA: \u{200b}"),
        ("control", "U: \u{7}\u{1b}[31mred\u{1b}[0m\u{0}"),
        ("only marks", "U: ???\nA: ...\nU: ---\nU: ```\nU: #"),
        ("white space", "U: \u{3000}\u{a0}\nA: \t"),
        ("an unclosed fence", "U: ```rust\\nfn main() {\nA: ```"),
        ("html", "U: <script>alert(1)</script><!-- \nA: <b>done</b>"),
        (
            "a path as request",
            "U: /a/very/long/path/without/any/space/at/all/that/goes/on/and/on/and/on/file.rs",
        ),
        (
            "odd arguments",
            "C: 1 TodoWrite {\"todos\": [1, null, {}]}\nC: 2 Edit {\"file_path\": 7}\nC: 3 Bash {\"command\": [\"sh\"]}\nC: 4 Bash []",
        ),
        ("an ordinary session", SESSION),
    ];
    for (of, text) in cases {
        let items = parse_items(text);
        for tokens_max in [150, SUMMARY_TOKENS_MAX, 1_000, 4_000] {
            let summary_parts = build_offline_summary(&parse_facts(text), None, tokens_max);
            check_valid(&summary_parts, tokens_max, of);
            assert_eq!(count_ungrounded(&summary_parts, &items), 0, "{of}: {:?}", summary_parts.body);
        }
    }
}

/// The pieces of generated texts: names, markup and difficult cases for every scanner.
const PIECES: [&str; 26] = [
    "src/lib.rs",
    "must not",
    "`cargo test --all`",
    "https://x.test/a(b)",
    "#12",
    "**bold**",
    "a**b/c.rs",
    "v1.2.3",
    "\\n\\n",
    "- ",
    "C:\\\\x\\\\y.rs",
    "…",
    "日本語",
    "🦀",
    "\u{200b}",
    "deadbeef12",
    "120ms",
    "TypeError: bad",
    "foo_bar<T>",
    "We decided on B.",
    "\"quoted\"",
    "password=hunter2222",
    "src/**/*.ts",
    "<system-reminder>x_y</system-reminder>",
    "1234.5",
    "Applied edit to z/q.py ",
];

fn piece() -> impl Strategy<Value = String> {
    let words = prop::collection::vec((0..PIECES.len(), prop::bool::ANY), 1..14);
    words.prop_map(|words| {
        words
            .into_iter()
            .map(|(at, glued)| format!("{}{}", PIECES[at], if glued { "" } else { " " }))
            .collect()
    })
}

fn line() -> impl Strategy<Value = String> {
    (0..7usize, piece()).prop_map(|(sign, text)| match sign {
        0 | 1 => format!("U: {text}"),
        2 => format!("A: {text}"),
        3 => format!("C: 1 Bash {}", serde_json::json!({"command": text})),
        4 => format!("C: 1 Edit {}", serde_json::json!({"file_path": text})),
        5 => format!("E: 1 error: {text}"),
        _ => format!("T: 1 {text}"),
    })
}

proptest! {
    #[test]
    fn m6_an_offline_summary_is_valid_and_never_marked_as_unverified(lines in prop::collection::vec(line(), 0..30), tokens_max in 150u64..1_500) {
        let text = lines.join("\n");
        let items = parse_items(&text);
        let mut collector = FactCollector::default();
        items.iter().for_each(|item| collector.push(item));
        let summary_parts = build_offline_summary(&collector.finish(), None, tokens_max);
        check_valid(&summary_parts, tokens_max, &text);
        prop_assert_eq!(count_ungrounded(&summary_parts, &items), 0, "{:?}", summary_parts.body);
    }
}

#[test]
fn the_same_facts_give_the_same_summary() {
    assert_eq!(summary(SESSION), summary(SESSION));
    assert!(
        build_offline_summary(&parse_facts(SESSION), None, 300)
            .body
            .iter()
            .any(|item| item.kind == SummaryItemKind::Blocker)
    );
}
