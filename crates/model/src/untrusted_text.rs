//! Neutralization of text from outside before a model reads it. The result cannot open or close a delimiter, hide
//! characters or reorder them. Limits of length and the delimiters are left to the caller, and the meaning of the
//! text is not judged.

#[cfg(test)]
mod tests;

/// Names of roles, lowercase, which are no names of types: `x<System>` could be read as the tag of a role.
const ROLE_NAMES: [&str; 6] = ["system", "human", "user", "assistant", "tool", "instructions"];
/// Types of common languages with a lowercase name.
const PRIMITIVE_TYPES: [&str; 24] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    "bool", "char", "str", "int", "long", "float", "double", "string", "number", "boolean",
];
/// Maximum bytes of the parameters of a type.
const TYPE_PARAMETERS_BYTES_MAX: usize = 60;

/// Returns `text` without hidden characters, and with every `<` escaped that could start a tag. The parameters of a type,
/// such as `Vec<T>`, stay as they are.
pub fn neutralize(text: &str) -> String {
    let visible = strip_hidden_characters(text);
    let mut safe = String::with_capacity(visible.len());
    let mut remaining = visible.as_str();
    while let Some((before, after)) = remaining.split_once('<') {
        safe.push_str(before);
        let is_escaped = is_tag_start(after) && !is_type_parameter(before, after);
        safe.push_str(if is_escaped { "&lt;" } else { "<" });
        remaining = after;
    }
    safe.push_str(remaining);
    safe
}

/// Returns [`neutralize`] of `text` on a single line: every white-space character becomes a space.
pub fn neutralize_line(text: &str) -> String {
    self::neutralize(&text.replace(char::is_whitespace, " "))
}

/// Returns `text` without characters that control a terminal, reorder other characters, or are invisible. Line
/// ends and tabs are kept. Joiners and variation selectors, which emoji and some scripts need, are kept one at a
/// time. Tags are not escaped.
pub fn strip_hidden_characters(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    // The character before the current one in the result. The start of the text counts as the start of a line.
    let mut previous = '\n';
    for c in text.chars() {
        let is_kept = match c {
            // After ASCII a joiner has no use except to hide something, and a row of joiners and selectors can
            // encode a hidden message.
            c if is_joiner(c) => !previous.is_ascii() && !previous.is_whitespace() && !is_joiner(previous),
            c if is_selector(c) => !is_selector(previous) && !is_joiner(previous),
            c => !is_hidden(c),
        };
        if is_kept {
            visible.push(c);
            previous = c;
        }
    }
    visible
}

/// Returns whether `c` is a joiner or non-joiner, which only says how its neighbours are connected.
const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns whether `c` is a variation selector, which only says in which form the character before it is drawn.
const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Returns whether `c` is invisible or changes the direction or the display of other characters.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\r' | '\t' => false,
        // Soft hyphens, joiners, marks and overrides of the writing direction, annotations, tag characters.
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// Returns whether `<` between these texts begins the parameters of a type: it follows a name, and the first parameter is
/// written as a type.
fn is_type_parameter(before: &str, after: &str) -> bool {
    // Only the beginning is searched: a text of many `<` without a `>` would be searched to its end for each of them.
    let beginning = &after[..after.floor_char_boundary(TYPE_PARAMETERS_BYTES_MAX + 1)];
    let Some((parameters, _)) = beginning.split_once('>') else { return false };
    let first = parameters.trim_start_matches('&');
    let first = first.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
    let is_capitalized = first.starts_with(|c: char| c.is_ascii_uppercase())
        && (first.len() <= 2 || first.contains(|c: char| c.is_ascii_lowercase()))
        && !ROLE_NAMES.contains(&first.to_ascii_lowercase().as_str());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_ ,:&'<[];*".contains(c);
    before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':')
        && parameters.len() <= TYPE_PARAMETERS_BYTES_MAX
        && parameters.chars().all(is_plain)
        && (is_capitalized || PRIMITIVE_TYPES.contains(&first))
}

/// Returns whether `<` followed by this text could be read as a tag. A character that is not ASCII may be
/// invisible, so it counts as the start of a tag.
fn is_tag_start(after: &str) -> bool {
    let name = after.trim_start();
    let Some(first) = name.chars().next() else { return false };
    let has_space = name.len() < after.len();
    match first {
        '/' => true,
        '!' | '?' | '|' => !has_space,
        c if c.is_alphanumeric() => c.is_alphabetic() && !has_space,
        c => !c.is_ascii(),
    }
}
