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
/// and tabs stay, and so do joiners and variation selectors, one at a time, where emoji and scripts need them. Tags are
/// not escaped.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    // What the next character stands after; a line begins after nothing.
    let mut before = '\n';
    for c in text.chars() {
        let stays = match c {
            // Beside ASCII a joiner only hides something; a row of joiners and selectors is a message nobody sees.
            c if is_joiner(c) => !before.is_ascii() && !before.is_whitespace() && !is_joiner(before),
            c if is_selector(c) => !is_selector(before) && !is_joiner(before),
            c => !is_hidden(c),
        };
        if stays {
            visible.push(c);
            before = c;
        }
    }
    visible
}

/// Returns whether `c` only says how its neighbours are joined.
const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns whether `c` only says in which of its forms the character before it is drawn.
const fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
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
