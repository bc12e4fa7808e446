//! Tests of the questions and of the comparison of answers. The calls are tested with a scripted model in `agent`.

use facts::{ConversationFacts, FileUse, Quote};
use protocol::{CarriedFacts, ProbeKind, Rule, TodoItem, TodoStatus};

use super::judge::{RuleVerdict, judge_answer, search_text};
use super::question::{PlannedProbe, plan_probes};

fn quote(seq: u64, text: &str) -> Quote {
    Quote { seq, text: text.to_owned(), is_cut: false }
}

fn probe(kind: ProbeKind, answers: &[&str]) -> PlannedProbe {
    PlannedProbe {
        kind,
        question: "?",
        answers: answers.iter().map(|&answer| answer.to_owned()).collect(),
        seq: None,
    }
}

#[test]
fn five_questions_come_from_the_conversation_and_none_about_what_it_lacks() {
    let carried = CarriedFacts {
        rules: vec![
            Rule { text: "Keep the API stable.".to_owned(), refs: vec![2] },
            Rule { text: "Never sleep in tests.".to_owned(), refs: vec![4] },
        ],
        todos: vec![
            TodoItem { text: "write docs".to_owned(), status: TodoStatus::Pending },
            TodoItem { text: "fix the cache".to_owned(), status: TodoStatus::InProgress },
            TodoItem { text: "read the code".to_owned(), status: TodoStatus::Completed },
        ],
        ..CarriedFacts::default()
    };
    let file = |path: &str, write: u64, deleted: u64| FileUse {
        path: path.to_owned(),
        last_read_seq: 1,
        last_write_seq: write,
        deleted_seq: deleted,
        use_count: 1,
        ..FileUse::default()
    };
    let facts = ConversationFacts {
        requests: vec![quote(1, "add a cache"), quote(9, "now make it\nfaster")],
        todos_seq: 7,
        files: vec![
            file("a.rs", 3, 0),
            file("gone.rs", 8, 9),
            file("src/cache.rs", 6, 0),
            file("read.rs", 0, 0),
        ],
        decisions: vec![
            quote(5, "We decided on an LRU list."),
            quote(4, "Never sleep in tests."),
            quote(6, "Agreed: 1,000 entries."),
            quote(7, "It is slow because of the lock."),
        ],
        ..ConversationFacts::default()
    };
    let planned = plan_probes(&facts, &carried, &carried);
    let short: Vec<_> =
        planned.iter().map(|probe| (probe.kind, probe.answers.join(" | "), probe.seq)).collect();
    assert_eq!(
        short,
        [
            (ProbeKind::LastRequest, "now make it faster".to_owned(), Some(9)),
            (ProbeKind::OpenTask, "fix the cache | write docs".to_owned(), Some(7)),
            (ProbeKind::Rule, "Never sleep in tests.".to_owned(), Some(4)),
            (ProbeKind::File, "src/cache.rs | a.rs".to_owned(), Some(6)),
            (ProbeKind::Decision, "Agreed: 1,000 entries. | We decided on an LRU list.".to_owned(), Some(6)),
        ]
    );
    assert_eq!(
        plan_probes(&ConversationFacts::default(), &CarriedFacts::default(), &CarriedFacts::default()),
        []
    );
}

#[test]
fn only_a_request_a_rule_and_a_decision_are_asked_about() {
    let rule = |text: &str| Rule { text: text.to_owned(), refs: vec![2] };
    let carried = CarriedFacts {
        rules: vec![rule("Never sleep in tests."), rule("No fixes applied.")],
        ..CarriedFacts::default()
    };
    let facts = ConversationFacts {
        requests: vec![quote(1, "add a cache"), quote(9, "Ok, go ahead.")],
        decisions: vec![
            quote(4, "We decided on an LRU list."),
            quote(5, "The delayed queue is fine: it carries a moment, not a decision about a job."),
            quote(6, "Rejected approaches, and the decision:"),
        ],
        ..ConversationFacts::default()
    };
    let planned = plan_probes(&facts, &carried, &carried);
    let answers: Vec<_> = planned.iter().map(|probe| (probe.answers.join(" | "), probe.seq)).collect();
    assert_eq!(
        answers,
        [
            ("add a cache".to_owned(), Some(1)),
            ("Never sleep in tests.".to_owned(), Some(2)),
            ("We decided on an LRU list.".to_owned(), Some(4)),
        ]
    );
    let only_talk = ConversationFacts {
        requests: vec![quote(1, "ok")],
        decisions: facts.decisions[1..].to_vec(),
        ..ConversationFacts::default()
    };
    assert_eq!(plan_probes(&only_talk, &CarriedFacts::default(), &CarriedFacts::default()), []);
    let named = ConversationFacts {
        decisions: vec![quote(3, "The decision is to keep the format.")],
        ..ConversationFacts::default()
    };
    assert_eq!(plan_probes(&named, &CarriedFacts::default(), &CarriedFacts::default()).len(), 1);
}

#[test]
fn words_decide_only_what_they_can() {
    use ProbeKind::{Decision, File, LastRequest, Rule};
    use RuleVerdict::{Agrees, Disagrees, Unclear};
    for (kind, expected, answer, verdict) in [
        (File, "src/cache.rs", "`src/cache.rs` and two others", Agrees),
        (File, "src/cache.rs", "The last one is cache.rs.", Agrees),
        (File, "src/cache.rs", "src/cache.rs.bak", Disagrees),
        (File, "src/cache.rs", "my_cache.rs", Disagrees),
        (File, "src/cache.rs", "unknown", Disagrees),
        (
            Rule,
            "Never sleep in tests, not even a millisecond.",
            "Tests never sleep, not a millisecond.",
            Agrees,
        ),
        (
            Rule,
            "Never sleep in tests, not even a millisecond.",
            "Tests sleep a millisecond, even in CI",
            Unclear,
        ),
        (Rule, "Nicht die öffentliche Schnittstelle ändern", "The public API must not change.", Unclear),
        (Rule, "Never sleep in tests.", "Unknown.", Disagrees),
        (Decision, "We use an LRU list with 1,000 entries.", "An LRU list of 1,000 entries is used.", Agrees),
        (LastRequest, "キャッシュを速くしてください", "キャッシュを速くする", Unclear),
        (LastRequest, "キャッシュを速くしてください", "キャッシュを速くしてください。", Agrees),
        (LastRequest, "go on", "The user said: go on", Agrees),
        (LastRequest, "go on", "", Disagrees),
    ] {
        let given = judge_answer(&probe(kind, &[expected]), Some(answer));
        assert_eq!(given, verdict, "{expected} / {answer}");
    }
    let late = format!("{} and a cache of 1,000 entries", "unrelated words ".repeat(200));
    let expected = ["Decided: a cache of 1,000 entries."];
    assert_eq!(
        judge_answer(&probe(Decision, &expected), Some(&late)),
        Agrees,
        "the end of a long answer counts"
    );
    assert_eq!(judge_answer(&probe(Rule, &["Never sleep."]), None), Disagrees);
    assert_eq!(judge_answer(&probe(File, &["a.rs", "b.rs"]), Some("b.rs")), Agrees, "one answer is enough");
}

#[test]
fn the_offline_form_finds_an_answer_in_one_item_of_the_text() {
    let text =
        "# Cache\n\n## Decisions\n- Use an LRU list.\n- Never sleep in tests.\n\n## Files\n- src/cache.rs\n";
    for (kind, expected, line, found) in [
        (ProbeKind::Rule, "Never sleep in tests.", Some("Never sleep in tests."), true),
        (ProbeKind::Rule, "Always sleep in tests.", Some("Never sleep in tests."), false),
        (ProbeKind::File, "src/cache.rs", Some("src/cache.rs"), true),
        (ProbeKind::File, "src/api.rs", None, false),
        // The words are in the text, but in two items.
        (ProbeKind::Decision, "Use tests with a list in cache files.", None, false),
    ] {
        let answer = search_text(&probe(kind, &[expected]), text);
        assert_eq!((answer.is_answer, expected), (found, expected));
        if line.is_some() {
            assert_eq!(answer.line.as_deref(), line, "{expected}");
        }
    }
}

#[test]
fn the_instructions_match_their_reviewed_snapshot() {
    insta::assert_snapshot!("probe_answer", super::call::ANSWER_INSTRUCTIONS);
    insta::assert_snapshot!("probe_judge", super::call::JUDGE_INSTRUCTIONS);
}

#[test]
fn the_question_about_rules_is_about_one_that_the_package_has_lost() {
    let rule = |text: &str| protocol::Rule { text: text.to_owned(), refs: Vec::new() };
    let known =
        CarriedFacts { rules: vec![rule("Never stash."), rule("No new files.")], ..CarriedFacts::default() };
    let package = CarriedFacts { rules: vec![rule("No new files.")], ..CarriedFacts::default() };
    let asked = |package: &CarriedFacts| {
        let planned = plan_probes(&ConversationFacts::default(), &known, package);
        planned.iter().map(|probe| probe.answers.join(" | ")).collect::<Vec<_>>()
    };
    assert_eq!(asked(&package), ["Never stash."]);
    assert_eq!(asked(&known), ["No new files."]);
}
