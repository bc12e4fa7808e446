//! `${VAR}` and `${VAR:-default}` in text. Where variables come from is the caller's matter.

/// Returns `text` with its variables replaced.
///
/// # Errors
/// With the name of a variable that is not set and has no default.
pub(crate) fn expand_variables(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    for part in split_segments(text) {
        match part {
            TextSegment::Text(text) => expanded.push_str(text),
            TextSegment::Variable { name, default } => match (variable(name), default) {
                (Some(value), _) => expanded.push_str(&value),
                (None, Some(default)) => expanded.push_str(default),
                (None, None) => return Err(name.to_owned()),
            },
        }
    }
    Ok(expanded)
}

/// Returns the names of the variables that `text` reads.
pub(crate) fn variable_names(text: &str) -> impl Iterator<Item = &str> {
    split_segments(text).into_iter().filter_map(|part| match part {
        TextSegment::Variable { name, .. } => Some(name),
        TextSegment::Text(_) => None,
    })
}

enum TextSegment<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

/// Splits a text into literal segments and variables. A variable without an end or a name is literal text.
fn split_segments(text: &str) -> Vec<TextSegment<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(length) = rest[at..].find('}') else { break };
        let inner = &rest[at + 2..at + length];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if is_name(name) {
            parts.push(TextSegment::Text(&rest[..at]));
            parts.push(TextSegment::Variable { name, default });
        } else {
            parts.push(TextSegment::Text(&rest[..=at + length]));
        }
        rest = &rest[at + length + 1..];
    }
    parts.push(TextSegment::Text(rest));
    parts
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let variable = |name: &str| match name {
            "HOME" => Some("/srv/me".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${HOME}".to_owned()),
            _ => None,
        };
        let expanded = expand_variables(text, &variable);
        assert_eq!(expanded.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn variables_are_replaced_once_and_other_text_stays() {
        check("", Ok(""));
        check("plain", Ok("plain"));
        check("${HOME}/bin", Ok("/srv/me/bin"));
        check("a${HOME}b${HOME}c", Ok("a/srv/meb/srv/mec"));
        check("${EMPTY:-x}", Ok(""));
        check("${MISSING:-x y}", Ok("x y"));
        check("${MISSING:-}", Ok(""));
        check("${MISSING}", Err("MISSING"));
        check("${NESTED}", Ok("${HOME}"));
        check("$HOME $ {HOME} ${", Ok("$HOME $ {HOME} ${"));
        check("${HOME", Ok("${HOME"));
        check("${} ${1A} ${a b}", Ok("${} ${1A} ${a b}"));
        check("é${HOME}é", Ok("é/srv/meé"));
    }

    #[test]
    fn the_variables_of_a_text_are_known_without_reading_them() {
        assert_eq!(variable_names("${A} b ${C:-d} ${").collect::<Vec<_>>(), ["A", "C"]);
    }
}
