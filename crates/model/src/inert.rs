//! Foreign text made inert before a model reads it: unable to open or close a delimiter, to hide characters or to reorder
//! them. How long it may be and which delimiters stand around it is the caller's matter; nothing here judges what it says.

#[cfg(test)]
mod tests;

/// Returns `text` so that nothing in it can be read as a tag, hides, or is read in another order than it is written.
pub fn text(text: &str) -> String {
    let visible = visible(text);
    let mut safe = String::with_capacity(visible.len());
    let mut rest = visible.as_str();
    while let Some((before, after)) = rest.split_once('<') {
        safe.push_str(before);
        safe.push_str(if begins_a_tag(after) { "&lt;" } else { "<" });
        rest = after;
    }
    safe.push_str(rest);
    safe
}

/// Returns what [`text()`] returns, on one line: each character of white space is a space.
pub fn line(text: &str) -> String {
    self::text(&text.replace(char::is_whitespace, " "))
}

/// Returns `text` without characters that steer a terminal, reorder others, or spell what people cannot see. Line ends
/// and tabs stay, and so do joiners where emoji and scripts need them. Tags are not escaped.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        // Beside ASCII a joiner only hides something.
        let joins = matches!(c, '\u{200c}' | '\u{200d}')
            && visible.ends_with(|before: char| !before.is_ascii() && !before.is_whitespace());
        if joins || !is_hidden(c) {
            visible.push(c);
        }
    }
    visible
}

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

/// Returns whether `<` and this text may be read as a tag. A sign that is not ASCII may be one that nobody sees.
fn begins_a_tag(after: &str) -> bool {
    let name = after.trim_start();
    let Some(first) = name.chars().next() else { return false };
    let is_apart = name.len() < after.len();
    match first {
        '/' => true,
        '!' | '?' | '|' => !is_apart,
        c if c.is_alphanumeric() => c.is_alphabetic() && !is_apart,
        c => !c.is_ascii(),
    }
}
