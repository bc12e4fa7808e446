//! The tables' statements, which are written as SQLite takes them, as PostgreSQL takes them. Only what ours use is known here;
//! where the engines differ in more than words, the table itself asks which one it talks to.

use std::borrow::Cow;

/// What is written otherwise.
const WORDS: [(&str, &str); 5] = [
    ("ifnull(", "coalesce("),
    ("instr(", "strpos("),
    ("x''", "'\\x'::bytea"),
    // SQLite is told by it in which order to join; PostgreSQL finds out itself.
    ("CROSS JOIN", "JOIN"),
    ("json_remove(content, '$.context_from')", "CAST(CAST(content AS jsonb) - 'context_from' AS text)"),
];

/// Returns the statement as PostgreSQL takes it.
pub(super) fn translated(sql: &str) -> Cow<'_, str> {
    let mut text = sql.to_owned();
    for (ours, theirs) in WORDS {
        if text.contains(ours) {
            text = text.replace(ours, theirs);
        }
    }
    text = called(&text, "hex", |bytes| format!("encode({bytes}, 'hex')"));
    text = called(&text, "json_each", |list| format!("json_array_elements_text(CAST({list} AS json))"));
    text = called(&text, "json_extract", |given| match given.split_once(", '$.") {
        Some((column, name)) => format!("(CAST({column} AS json) ->> '{name})"),
        None => format!("json_extract({given})"),
    });
    Cow::Owned(places(&text))
}

/// Writes each call of a function, whose parameters have no parentheses, as `write` does.
fn called(sql: &str, function: &str, write: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, after)) = rest.split_once(function) {
        out.push_str(before);
        let is_name = before.ends_with(|char: char| char.is_ascii_alphanumeric() || char == '_');
        match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((given, behind)) if !is_name => {
                out.push_str(&write(given));
                rest = behind;
            }
            _ => {
                out.push_str(function);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Writes `?1` as `$1`, and leaves out the plus by which SQLite is kept from an index.
fn places(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut before = ' ';
    let mut is_quoted = false;
    let mut chars = sql.chars().peekable();
    while let Some(char) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        is_quoted ^= char == '\'';
        match char {
            '?' if !is_quoted && next.is_ascii_digit() => out.push('$'),
            '+' if !is_quoted && before == ' ' && next.is_ascii_alphabetic() => {}
            other => out.push(other),
        }
        before = char;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ours: &str, theirs: &str) {
        assert_eq!(translated(ours), theirs);
    }

    #[test]
    fn a_statement_says_the_same_in_the_words_of_the_other_engine() {
        check("SELECT a FROM t WHERE b = ?1 AND c < ?12", "SELECT a FROM t WHERE b = $1 AND c < $12");
        check("SELECT ifnull(max(a), 0) FROM t", "SELECT coalesce(max(a), 0) FROM t");
        check("a CROSS JOIN b ON a.x = b.x", "a JOIN b ON a.x = b.x");
        check("ORDER BY +updated_at DESC, a + 1", "ORDER BY updated_at DESC, a + 1");
        check(
            "x IN (SELECT value FROM json_each(?3))",
            "x IN (SELECT value FROM json_array_elements_text(CAST($3 AS json)))",
        );
        check("lower(hex(f.run_id)) || unhex", "lower(encode(f.run_id, 'hex')) || unhex");
        check(
            "json_extract(e.content, '$.reason') <> 'why?1'",
            "(CAST(e.content AS json) ->> 'reason') <> 'why?1'",
        );
        check("ifnull(run_id, x'') = ?3", "coalesce(run_id, '\\x'::bytea) = $3");
    }
}
