//! Table tests of the trigger.

use super::*;

fn parse_clauses(json: &str) -> Vec<TriggerClause> {
    serde_json::from_str(json).expect("clauses are JSON")
}

fn size(tokens: u64, messages: u64, window: Option<u64>) -> RequestSize {
    RequestSize { tokens, messages, window }
}

#[test]
fn e1_one_clause_suffices_and_all_conditions_of_a_clause_must_hold() {
    let window = Some(1_000);
    for (list, tokens, messages, window, due) in [
        (r#"[{"tokens":100}]"#, 99, 0, window, false),
        (r#"[{"tokens":100}]"#, 100, 0, window, true),
        (r#"[{"messages":5}]"#, 9_000, 4, window, false),
        (r#"[{"messages":5}]"#, 0, 5, window, true),
        (r#"[{"fraction":0.85}]"#, 849, 9, window, false),
        (r#"[{"fraction":0.85}]"#, 850, 9, window, true),
        (r#"[{"tokens":100,"messages":5}]"#, 100, 4, window, false),
        (r#"[{"tokens":100,"messages":5}]"#, 99, 5, window, false),
        (r#"[{"tokens":100,"messages":5}]"#, 100, 5, window, true),
        (r#"[{"fraction":0.5,"tokens":800}]"#, 600, 0, window, false),
        (r#"[{"fraction":0.5,"tokens":800}]"#, 800, 0, window, true),
        (r#"[{"tokens":100,"messages":5},{"fraction":0.9}]"#, 900, 0, window, true),
        (r#"[{"tokens":100},{"messages":5}]"#, 0, 5, window, true),
        (r#"[{}]"#, u64::MAX, u64::MAX, window, false),
        ("[]", u64::MAX, u64::MAX, window, false),
        (r#"[{"fraction":0.5},{"tokens":70}]"#, 60, 0, None, false),
        (r#"[{"fraction":0.5},{"tokens":70}]"#, 70, 0, None, true),
    ] {
        assert_eq!(
            is_compaction_due(&parse_clauses(list), size(tokens, messages, window)),
            due,
            "{list} at {tokens} tokens, {messages} messages, {window:?}"
        );
    }
}

#[test]
fn e2_shares_of_an_unknown_window_do_not_disable_compaction() {
    let shares = parse_clauses(r#"[{"fraction":0.5},{"fraction":0.7,"messages":3}]"#);
    assert!(!is_compaction_due(&shares, size(169_999, 9, None)));
    assert!(is_compaction_due(&shares, size(170_000, 9, None)));
    assert_eq!(trigger_tokens(&shares, None), Some(170_000));
}

#[test]
fn e1_the_default_trigger_is_85_percent_of_the_window_or_170_000_tokens() {
    let (known, keep) = default_policy(Some(200_000));
    assert!(!is_compaction_due(&known, size(169_999, 0, Some(200_000))));
    assert!(is_compaction_due(&known, size(170_000, 0, Some(200_000))));
    assert_eq!(keep, KeepPolicy::Fraction(0.1));
    let (unknown, keep) = default_policy(None);
    assert!(is_compaction_due(&unknown, size(170_000, 0, None)));
    assert!(!is_compaction_due(&unknown, size(169_999, 10_000, None)));
    assert_eq!(keep, KeepPolicy::Messages(6));
}

#[test]
fn compaction_becomes_due_exactly_at_the_trigger_tokens() {
    for (list, window, tokens) in [
        (r#"[{"fraction":0.85}]"#, Some(200_000), Some(170_000)),
        (r#"[{"fraction":0.85},{"tokens":9000}]"#, Some(200_000), Some(9_000)),
        (r#"[{"fraction":0.5,"tokens":9000}]"#, Some(10_000), Some(9_000)),
        (r#"[{"messages":5,"tokens":9000}]"#, Some(10_000), None),
        (r#"[{"messages":5}]"#, None, None),
        ("[]", None, None),
        (r#"[{}]"#, None, None),
    ] {
        let list = parse_clauses(list);
        assert_eq!(trigger_tokens(&list, window), tokens, "{list:?} in {window:?}");
        if let Some(tokens) = tokens {
            assert!(is_compaction_due(&list, size(tokens, 0, window)), "{list:?} at {tokens}");
            assert!(!is_compaction_due(&list, size(tokens - 1, 0, window)), "{list:?} below {tokens}");
        }
    }
}

#[test]
fn settings_are_tables_of_one_key() {
    for (json, keep) in [
        (r#"{"fraction":0.1}"#, KeepPolicy::Fraction(0.1)),
        (r#"{"tokens":20000}"#, KeepPolicy::Tokens(20_000)),
        (r#"{"messages":6}"#, KeepPolicy::Messages(6)),
    ] {
        assert_eq!(serde_json::from_str::<KeepPolicy>(json).expect("the policy is valid"), keep);
    }
    assert!(
        serde_json::from_str::<TriggerClause>(r#"{"fractoin":0.1}"#).is_err(),
        "a misspelled key is rejected"
    );
}
