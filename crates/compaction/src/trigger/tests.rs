//! When contexts are condensed, as tables. No context is read.

use super::*;

fn clauses(json: &str) -> Vec<Clause> {
    serde_json::from_str(json).expect("clauses are JSON")
}

fn size(tokens: u64, messages: u64, window: Option<u64>) -> Size {
    Size { tokens, messages, window }
}

#[test]
fn e1_any_clause_is_enough_and_all_of_a_clause_must_hold() {
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
            is_due(&clauses(list), size(tokens, messages, window)),
            due,
            "{list} at {tokens} tokens, {messages} messages, {window:?}"
        );
    }
}

#[test]
fn e2_shares_of_a_window_that_nobody_knows_do_not_mean_never() {
    let shares = clauses(r#"[{"fraction":0.5},{"fraction":0.7,"messages":3}]"#);
    assert!(!is_due(&shares, size(169_999, 9, None)));
    assert!(is_due(&shares, size(170_000, 9, None)));
    assert_eq!(trigger_tokens(&shares, None), Some(170_000));
}

#[test]
fn e1_without_settings_it_is_85_percent_of_the_window_or_170_000_tokens() {
    let (known, keep) = defaults(Some(200_000));
    assert!(!is_due(&known, size(169_999, 0, Some(200_000))));
    assert!(is_due(&known, size(170_000, 0, Some(200_000))));
    assert_eq!(keep, Keep::Fraction(0.1));
    let (unknown, keep) = defaults(None);
    assert!(is_due(&unknown, size(170_000, 0, None)));
    assert!(!is_due(&unknown, size(169_999, 10_000, None)));
    assert_eq!(keep, Keep::Messages(6));
}

#[test]
fn the_tokens_that_are_enough_alone_are_those_at_which_it_becomes_due() {
    for (list, window, tokens) in [
        (r#"[{"fraction":0.85}]"#, Some(200_000), Some(170_000)),
        (r#"[{"fraction":0.85},{"tokens":9000}]"#, Some(200_000), Some(9_000)),
        (r#"[{"fraction":0.5,"tokens":9000}]"#, Some(10_000), Some(9_000)),
        (r#"[{"messages":5,"tokens":9000}]"#, Some(10_000), None),
        (r#"[{"messages":5}]"#, None, None),
        ("[]", None, None),
        (r#"[{}]"#, None, None),
    ] {
        let list = clauses(list);
        assert_eq!(trigger_tokens(&list, window), tokens, "{list:?} in {window:?}");
        if let Some(tokens) = tokens {
            assert!(is_due(&list, size(tokens, 0, window)), "{list:?} at {tokens}");
            assert!(!is_due(&list, size(tokens - 1, 0, window)), "{list:?} below {tokens}");
        }
    }
}

#[test]
fn settings_are_tables_of_one_key() {
    for (json, keep) in [
        (r#"{"fraction":0.1}"#, Keep::Fraction(0.1)),
        (r#"{"tokens":20000}"#, Keep::Tokens(20_000)),
        (r#"{"messages":6}"#, Keep::Messages(6)),
    ] {
        assert_eq!(serde_json::from_str::<Keep>(json).expect("it is read"), keep);
    }
    assert!(serde_json::from_str::<Clause>(r#"{"fractoin":0.1}"#).is_err(), "a misspelt key is refused");
}
