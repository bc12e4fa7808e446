//! Redacts secrets in newly added notes only. Older text is left alone, because the user may have put a secret
//! there on purpose.

use std::collections::HashSet;
use std::ops::Range;

use secrets::{REDACTED, redact_and_count};

use crate::managed_block;

/// Returns `now` with all secrets redacted that `before` does not contain, and their number. Returns `None` when
/// there are none. The managed block is left alone.
pub(super) fn redact_new_secrets(before: &[u8], now: &[u8]) -> Option<(Vec<u8>, u64)> {
    let known: HashSet<&[u8]> = before.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    let before = String::from_utf8_lossy(before);
    let (mut clean, mut redacted) = (Vec::with_capacity(now.len()), 0);
    let mut copied = 0;
    for range in new_line_ranges(now, &known) {
        clean.extend_from_slice(&now[copied..range.start]);
        copied = range.end;
        let text = String::from_utf8_lossy(&now[range.clone()]);
        match redact_unknown(&text, &before) {
            Some((text, count)) => {
                clean.extend_from_slice(text.as_bytes());
                redacted += count;
            }
            // Unchanged bytes are copied as they are, even if they are not UTF-8.
            None => clean.extend_from_slice(&now[range]),
        }
    }
    clean.extend_from_slice(&now[copied..]);
    (redacted > 0).then_some((clean, redacted))
}

/// Returns the ranges of consecutive new lines outside the block. A line is new if it is not in `known`, whatever its
/// position. Consecutive lines are joined because a key may span several.
fn new_line_ranges(text: &[u8], known: &HashSet<&[u8]>) -> Vec<Range<usize>> {
    let managed = managed_block::managed_ranges(text);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let range = start..start + line.len();
        start = range.end;
        let is_managed = managed.iter().any(|part| part.start < range.end && range.start < part.end);
        if is_managed || known.contains(line.trim_ascii_end()) {
            continue;
        }
        match ranges.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => ranges.push(range),
        }
    }
    ranges
}

/// Returns the text with the secrets redacted that `known` does not contain, or `None` when there are none.
/// Redacts all secrets when it is unclear which of them `known` contains.
fn redact_unknown(text: &str, known: &str) -> Option<(String, u64)> {
    let (safe, count) = redact_and_count(text);
    if count == 0 {
        return None;
    }
    let (clean, redacted) =
        redact_except_known(text, &safe, known).unwrap_or_else(|| (safe.into_owned(), count));
    (redacted > 0).then_some((clean, redacted))
}

/// Returns the text with only the unknown secrets redacted, and their number. Returns `None` when the position of
/// a redacted secret of `safe` in `text` is ambiguous.
///
/// `safe` is `text` with all secrets redacted. The secrets are recovered by aligning both texts at the parts between
/// them.
fn redact_except_known(text: &str, safe: &str, known: &str) -> Option<(String, u64)> {
    let (mut clean, mut redacted) = (String::with_capacity(text.len()), 0);
    let mut remaining = text;
    let mut parts = safe.split(REDACTED).peekable();
    let mut secrets_left = safe.matches(REDACTED).count();
    while let Some(part) = parts.next() {
        // The text around secrets is the same in both texts, in the same order.
        remaining = remaining.strip_prefix(part)?;
        clean.push_str(part);
        let Some(next) = parts.peek() else { break };
        secrets_left -= 1;
        let end = match (next.is_empty(), secrets_left) {
            (true, 0) => remaining.len(),
            // Two adjacent secrets have no text between them to separate them.
            (true, _) => return None,
            (false, _) => remaining.find(*next)?,
        };
        let secret = &remaining[..end];
        if secret == REDACTED || known.contains(secret) {
            clean.push_str(secret);
        } else {
            clean.push_str(REDACTED);
            redacted += 1;
        }
        remaining = &remaining[end..];
    }
    remaining.is_empty().then_some((clean, redacted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-ant-api03-abcdefghijklmnop1234";

    fn check(before: &str, now: &str, expected: Option<(&str, u64)>) {
        let clean = redact_new_secrets(before.as_bytes(), now.as_bytes());
        let clean = clean.map(|(text, withheld)| (String::from_utf8(text).unwrap(), withheld));
        assert_eq!(clean, expected.map(|(text, withheld)| (text.to_owned(), withheld)), "{now:?}");
    }

    #[test]
    fn m16_secrets_in_added_text_are_redacted() {
        check("- a\n", "- a\n- b\n", None);
        check("", &format!("- {KEY}"), Some(("- [redacted]", 1)));
        check(
            "- a\r\n",
            &format!("- a\r\n- {KEY}\r\nand {KEY} too\r\n"),
            Some(("- a\r\n- [redacted]\r\nand [redacted] too\r\n", 2)),
        );
        check("password=\n", "password=s3cr3tvalue\n", Some(("password=[redacted]\n", 1)));
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIB\nAAAA\n-----END PRIVATE KEY-----\nafter\n";
        check("- a\n", &format!("- a\n{pem}"), Some(("- a\n[redacted]\nafter\n", 1)));
    }

    #[test]
    fn m16_secrets_that_were_in_the_file_before_stay() {
        let own = format!("- mine: {KEY}\n");
        check(&own, &format!("{own}- b\n"), None);
        // The line with the secret is moved, or changed next to the secret.
        check(&format!("{own}- b\n"), &format!("- b\n{own}"), None);
        check(&own, &format!("- mine is still: {KEY}\n"), None);
        let more = format!("- mine: {KEY}, not ghp_abcdefghijklmnopqrstuvwxyz0123456789\n");
        check(&own, &more, Some((&format!("- mine: {KEY}, not [redacted]\n"), 1)));
        check("- [redacted]\n", "- still [redacted]\n", None);
    }

    #[test]
    fn m16_adjacent_secrets_are_redacted_together() {
        // A secret directly after the text that marks a redacted one.
        check(
            "",
            "- [redacted]ghp_abcdefghijklmnopqrstuvwxyz0123456789\n",
            Some(("- [redacted][redacted]\n", 1)),
        );
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----";
        check("", &format!("{pem}{pem}\n"), Some(("[redacted][redacted]\n", 2)));
        check("", &format!("{pem}\n{pem}\n"), Some(("[redacted]\n[redacted]\n", 2)));
        // A key contains line breaks, and a line break follows it.
        check("", &format!("{pem}\n"), Some(("[redacted]\n", 1)));
    }

    #[test]
    fn f4_the_block_is_left_alone() {
        let block = format!("{}\n{KEY}\n{}\n", managed_block::OPEN_TAG, managed_block::CLOSE_TAG);
        check("", &block, None);
        check("", &format!("{KEY}\n{block}"), Some((&format!("[redacted]\n{block}"), 1)));
    }
}
