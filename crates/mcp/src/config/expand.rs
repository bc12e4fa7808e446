//! Expansion of `${VAR}` and `${VAR:-default}` in configuration texts. The caller supplies the lookup of variables.

/// Returns `text` with its variables replaced by their values. A value is inserted literally and not expanded again. A
/// default applies only if the variable is not set; an empty variable counts as set.
///
/// # Errors
/// Returns the name of the first variable that is not set and has no default.
pub(crate) fn expand_variables(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    for segment in split_segments(text) {
        match segment {
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

/// Returns the names of the variables that `text` contains, in order, with repetitions.
pub(crate) fn variable_names(text: &str) -> impl Iterator<Item = &str> {
    split_segments(text).into_iter().filter_map(|segment| match segment {
        TextSegment::Variable { name, .. } => Some(name),
        TextSegment::Text(_) => None,
    })
}

/// A segment of a text.
enum TextSegment<'a> {
    /// Literal text.
    Text(&'a str),
    /// A variable.
    Variable { name: &'a str, default: Option<&'a str> },
}

/// Splits a text into literal segments and variables. `${…}` without a closing brace or a legal name is literal text.
fn split_segments(text: &str) -> Vec<TextSegment<'_>> {
    let mut segments = Vec::new();
    let mut remaining = text;
    while let Some(start) = remaining.find("${") {
        let Some(length) = remaining[start..].find('}') else { break };
        let inner = &remaining[start + 2..start + length];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if is_name(name) {
            segments.push(TextSegment::Text(&remaining[..start]));
            segments.push(TextSegment::Variable { name, default });
        } else {
            segments.push(TextSegment::Text(&remaining[..=start + length]));
        }
        remaining = &remaining[start + length + 1..];
    }
    segments.push(TextSegment::Text(remaining));
    segments
}

/// Returns whether a text is a legal variable name.
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
    fn variable_names_are_listed_without_looking_them_up() {
        assert_eq!(variable_names("${A} b ${C:-d} ${").collect::<Vec<_>>(), ["A", "C"]);
    }
}
