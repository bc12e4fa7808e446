//! Short forms of amounts of tokens and money.

/// Returns a number of tokens in at most six characters, such as `9999`, `12.3k` or `2.5M`. Digits are cut, not
/// rounded.
pub fn format_tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Returns an amount of US dollars. Small amounts get more digits, so that they do not look like zero.
/// An amount below a hundredth of a cent is shown as `<$0.0001`.
pub fn format_dollars(dollars: f64) -> String {
    match dollars {
        tiny if tiny > 0.0 && tiny < 0.0001 => "<$0.0001".to_owned(),
        small if small > 0.0 && small < 0.01 => format!("${small:.4}"),
        dollars => format!("${dollars:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            (format_tokens(9_999), format_tokens(12_340), format_tokens(2_560_000)),
            ("9999".into(), "12.3k".into(), "2.5M".into())
        );
        assert_eq!(
            (format_dollars(0.0), format_dollars(0.0012), format_dollars(1.5)),
            ("$0.00".into(), "$0.0012".into(), "$1.50".into())
        );
        assert_eq!(format_dollars(0.000_045), "<$0.0001");
    }
}
