//! The scanner for names in a summary's items: paths, URLs, hashes, numbers with a unit, identifiers, and every word
//! of a code span. [`super::GroundingCheck`] searches the covered events for them.

use std::borrow::Cow;

use facts::identifier::{self, NameKind};
use secrets::REDACTED;

/// The class of a name. It decides which adjacent characters make a match a part of a longer name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameClass {
    /// A path, a URL or a flag, which may contain hyphens and dots.
    Path,
    /// A hash, which may be abbreviated to its beginning.
    Hash,
    /// A number, with its unit if it has one.
    Number,
    /// The name of a person or a product, which may be the beginning of a longer word.
    Proper,
    /// Any other name.
    Word,
}

/// A name found in an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameMention<'a> {
    /// The name as the item spells it.
    pub display_name: &'a str,
    /// The normalized name, in which details that differ between spellings are removed.
    pub text: Cow<'a, str>,
    /// The class of the name.
    pub class: NameClass,
    /// True if the item's text was cut off right before the name.
    pub open_before: bool,
    /// True if the item's text was cut off right after the name.
    pub open_after: bool,
    /// True if the name begins a line, where its first letter may have been capitalized.
    pub begins_line: bool,
    /// Further spellings of the name in the conversation.
    pub other_spellings: Vec<String>,
}

/// The minimum length of a name in a code span, in characters. Shorter words occur in any text.
const CODE_CHARS_MIN: usize = 2;
/// The characters at the end of a word that are punctuation and not a part of the name.
const TRAILING: [char; 9] = ['.', ':', '-', '@', '+', '*', '\\', '/', '~'];
/// The mark of cut text. A space may precede it.
const ELLIPSIS: char = '…';
/// The minimum number of digits that make a word of mixed letters and digits a name.
const MIXED_DIGITS_MIN: usize = 3;
/// The minimum length of such a word, in bytes.
const MIXED_CHARS_MIN: usize = 7;
/// Units of numbers in addition to [`identifier::UNITS`]. A space may precede a unit.
const UNITS: [&str; 32] = [
    "us", "µs", "ns", "sec", "secs", "second", "seconds", "minute", "minutes", "mins", "hour", "hours",
    "hrs", "day", "days", "week", "weeks", "b", "byte", "bytes", "tb", "tib", "hz", "khz", "mhz", "ghz",
    "kbps", "mbps", "gbps", "fps", "percent", "degrees",
];

/// Calls `on_name` for every name in `text`, in order; names in code spans are reported after those of the whole
/// line, so a name may be reported twice.
pub(crate) fn scan_names<'a>(text: &'a str, mut on_name: impl FnMut(NameMention<'a>)) {
    for line in text.lines() {
        scan_words(line, &mut on_name);
        let spans = line.matches('`').count() / 2;
        for code in line.split('`').skip(1).step_by(2).take(spans) {
            scan_code_span(line, code, &mut on_name);
        }
    }
}

/// Returns the name as a file path; `None` when it is a URL, a flag, cut off, or another kind of name.
pub(crate) fn path_of(name: &NameMention<'_>) -> Option<String> {
    let is_url = name.text.contains("://");
    let names_file = name.text.contains('/')
        || name.text.rsplit_once('.').is_some_and(|(_, extension)| identifier::is_extension(extension));
    (name.class == NameClass::Path
        && !is_url
        && names_file
        && !name.text.starts_with('-')
        && !name.open_after)
        .then(|| name.text.clone().into_owned())
}

/// Reports the names among the words of a line.
fn scan_words<'a>(line: &'a str, on_name: &mut impl FnMut(NameMention<'a>)) {
    let bytes = line.as_bytes();
    let mut position = 0;
    while position < bytes.len() {
        if !is_name_start(bytes, position) {
            position += 1;
            continue;
        }
        let remaining = &line[position..];
        if let Some(length) = identifier::url_length(remaining) {
            emit_name(line, &remaining[..length], NameClass::Path, on_name);
            position += length.max(1);
            continue;
        }
        let length =
            bytes[position..].iter().position(|byte| !is_name_byte(*byte)).unwrap_or(bytes.len() - position);
        scan_word(line, &remaining[..length], on_name);
        position += length;
    }
}

/// Returns whether a name may start at `index`; a backslash before a letter or digit starts a Windows path.
fn is_name_start(bytes: &[u8], index: usize) -> bool {
    identifier::is_name_start(bytes[index])
        || bytes[index] == b'\\' && bytes.get(index + 1).is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns whether a name may contain the byte.
const fn is_name_byte(byte: u8) -> bool {
    identifier::is_name_continue(byte) || byte == b'\\'
}

/// Reports the name that the word is, or the names that its parts are.
fn scan_word<'a>(line: &'a str, word: &'a str, on_name: &mut impl FnMut(NameMention<'a>)) {
    let word = word.trim_end_matches(TRAILING);
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    if is_drive_path(word) || word.contains('\\') && identifier::classify_word(&with_slashes(word)).is_some()
    {
        return emit_name(line, word, NameClass::Path, on_name);
    }
    if word.contains("://") {
        return emit_name(line, word, NameClass::Path, on_name);
    }
    if let Some(digits) = digits_of(line, word) {
        return scan_number(line, digits, on_name);
    }
    match identifier::classify_word(word) {
        Some((NameKind::Identifier, name)) if !name.starts_with('-') => {
            word.split(['.', ':', '$', '@']).for_each(|part| scan_word_part(line, part, on_name));
        }
        Some((kind, name)) => {
            emit_name(line, name, name_class(kind, name), on_name);
            let end = offset(word, name) + name.len();
            word[end..].split([':', '#', '=', '@']).for_each(|part| scan_word_part(line, part, on_name));
        }
        None if is_branch(word) => emit_name(line, word, NameClass::Path, on_name),
        None if is_mixed(word) => emit_name(line, word, name_class(NameKind::Reference, word), on_name),
        None => {
            let parts = word.split([':', '=', '@', '/', '\\', '+', '$', '#', '~']);
            parts.filter(|part| part.len() < word.len()).for_each(|part| scan_word_part(line, part, on_name));
        }
    }
}

/// Reports the name that a part of a word is, if it is one.
fn scan_word_part<'a>(line: &'a str, part: &'a str, on_name: &mut impl FnMut(NameMention<'a>)) {
    let part = part.trim_end_matches(TRAILING);
    if part.len() < 2 || part.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    match identifier::classify_word(part) {
        Some((kind, name)) => emit_name(line, name, name_class(kind, name), on_name),
        None if is_mixed(part) => emit_name(line, part, name_class(NameKind::Reference, part), on_name),
        None => {}
    }
}

/// Returns the digits of a word that is a number, with or without a sign and a unit; `None` for any other word.
fn digits_of<'a>(line: &str, word: &'a str) -> Option<&'a str> {
    let unsigned = word.trim_start_matches(['~', '-', '+', '$']);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let digits = unsigned[..end].trim_end_matches('.');
    let is_plain = digits.bytes().filter(|byte| *byte == b'.').count() < 2
        && digits.starts_with(|c: char| c.is_ascii_digit());
    let following = &line[offset(line, unsigned) + digits.len()..];
    let is_number =
        digits.len() == unsigned.len() || unit_after(following) == Some(unsigned.len() - digits.len());
    (is_plain && is_number).then_some(digits)
}

/// Reports a number that has at least three digits or a unit. `word` is the last group of its digits; the groups
/// before it are included.
fn scan_number<'a>(line: &'a str, word: &'a str, on_name: &mut impl FnMut(NameMention<'a>)) {
    let end = offset(line, word) + word.len();
    let start = groups_start(line, end - word.len());
    let digits = &line[start..end];
    let unit_length = unit_after(&line[end..]);
    if let Some(length) = unit_length {
        return emit_name(line, &line[start..end + length], NameClass::Number, on_name);
    }
    if line[end..].starts_with(',') && line[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        // A later group of the same number follows; it reports the whole number.
        let is_group =
            line.as_bytes()[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count() == 3;
        if is_group {
            return;
        }
    }
    match identifier::classify_word(digits) {
        Some((kind, name)) => emit_name(line, name, name_class(kind, name), on_name),
        None if digits.contains(',') => emit_name(line, digits, NameClass::Number, on_name),
        None => {}
    }
}

/// Returns the offset at which a number starts whose last group of three digits starts at `last_group`.
fn groups_start(line: &str, last_group: usize) -> usize {
    let bytes = line.as_bytes();
    let mut start = last_group;
    loop {
        let is_group = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count() == 3;
        let before = line[..start].strip_suffix(',').map_or("", |before| before);
        let length = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        if !is_group || length == 0 || length > 3 {
            return start;
        }
        start = before.len() - length;
    }
}

/// Returns the length in bytes of the unit at the beginning of `rest`, including a space before it; `None` when there
/// is no known unit.
fn unit_after(rest: &str) -> Option<usize> {
    let spaced = rest.strip_prefix([' ', '\u{a0}', '\u{202f}']);
    let unit_text = spaced.unwrap_or(rest);
    let length = unit_text.find(|c: char| !c.is_alphabetic() && c != '%').unwrap_or(unit_text.len());
    let unit = &unit_text[..length];
    let known = identifier::UNITS.iter().chain(&UNITS).any(|known| known.eq_ignore_ascii_case(unit));
    // After a space, these letters are more often a word or the label of a list than a unit.
    let is_word = spaced.is_some() && matches!(unit, "x" | "b" | "B" | "X");
    (known && !unit.is_empty() && !is_word).then(|| rest.len() - unit_text.len() + length)
}

/// Reports every word of a code span, except URLs, which [`scan_words`] has reported.
fn scan_code_span<'a>(line: &'a str, code: &'a str, on_name: &mut impl FnMut(NameMention<'a>)) {
    let is_outside = |c: char| !(c.is_alphanumeric() || c.is_ascii() && is_name_byte(c as u8));
    for word in code.split(is_outside) {
        let word = word.trim_end_matches(TRAILING).trim_start_matches([':', '.', '+', '%']);
        if word.chars().count() < CODE_CHARS_MIN || identifier::url_length(word).is_some() {
            continue;
        }
        let class =
            identifier::classify_word(word).map_or(NameClass::Word, |(kind, name)| name_class(kind, name));
        let is_named = class == NameClass::Path || word.contains('\\');
        emit_name(line, strip_line_number(word), if is_named { NameClass::Path } else { class }, on_name);
    }
}

/// Returns a path without the line number after it, and any other word unchanged.
fn strip_line_number(word: &str) -> &str {
    match identifier::classify_word(word) {
        Some((NameKind::Path, path)) => path,
        Some(_) | None => word,
    }
}

/// Returns the class of a name of that kind.
fn name_class(kind: NameKind, name: &str) -> NameClass {
    match kind {
        NameKind::Path | NameKind::Url => NameClass::Path,
        NameKind::Identifier if name.starts_with('-') => NameClass::Path,
        NameKind::Number => NameClass::Number,
        NameKind::Reference if is_hash(name) => NameClass::Hash,
        NameKind::Reference | NameKind::Identifier | NameKind::Error => NameClass::Word,
    }
}

/// Returns whether the name has the form of an abbreviated or full hexadecimal hash.
fn is_hash(name: &str) -> bool {
    name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns whether the word is a Windows path with a drive letter.
fn is_drive_path(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() > 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'/' | b'\\')
}

/// Returns whether a word with a slash is a path or a branch, rather than two alternatives as in `and/or` or a
/// fraction.
fn is_branch(word: &str) -> bool {
    word.contains('/')
        && word.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.'))
        && !word.split('/').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()) && part.len() < 3)
}

/// Returns whether the word mixes letters and digits like a key or an id.
fn is_mixed(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() >= MIXED_CHARS_MIN
        && digits >= MIXED_DIGITS_MIN
        && digits < word.len()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Reports a name of the given class, unless it is empty or is the placeholder of a redacted secret. `name` must be a
/// slice of `line`.
fn emit_name<'a>(line: &'a str, name: &'a str, class: NameClass, on_name: &mut impl FnMut(NameMention<'a>)) {
    let start = offset(line, name);
    let (before, after) = (&line[..start], &line[start + name.len()..]);
    let is_redacted = before.ends_with('[') && REDACTED.trim_matches(['[', ']']) == name;
    if name.is_empty() || is_redacted || name.contains(REDACTED.trim_end_matches(']')) {
        return;
    }
    let text = match class {
        NameClass::Path => Cow::Owned(clean_path(name)),
        NameClass::Hash | NameClass::Number | NameClass::Proper | NameClass::Word if name.contains('\\') => {
            Cow::Owned(with_slashes(name))
        }
        NameClass::Hash | NameClass::Number | NameClass::Proper | NameClass::Word => Cow::Borrowed(name),
    };
    let after_edge = after.trim_start_matches(TRAILING).trim_start_matches(' ');
    on_name(NameMention {
        display_name: name,
        text,
        class,
        open_before: before.ends_with(REDACTED),
        open_after: after_edge.starts_with(ELLIPSIS) || after.starts_with(REDACTED),
        begins_line: !before.contains(|c: char| c.is_alphanumeric()),
        other_spellings: Vec::new(),
    });
}

/// Returns the normalized form of a path: with slashes, without `./`, repeated slashes, a final slash, and a line
/// anchor such as `#L10`.
pub(crate) fn clean_path(path: &str) -> String {
    let slashed = with_slashes(path);
    if slashed.contains("://") {
        return slashed.trim_end_matches('/').to_owned();
    }
    let anchor = slashed.rfind('#').filter(|start| {
        let anchor = slashed[start + 1..].trim_start_matches(['L', 'l']);
        !anchor.is_empty() && anchor.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'L' | b'C'))
    });
    let mut clean = slashed[..anchor.unwrap_or(slashed.len())].to_owned();
    while clean.contains("//") {
        clean = clean.replace("//", "/");
    }
    while clean.contains("/./") {
        clean = clean.replace("/./", "/");
    }
    let clean = clean.trim_end_matches('/');
    clean.strip_prefix("./").unwrap_or(clean).to_owned()
}

/// Returns a word in which backslashes before a letter or digit are slashes, and other backslashes are removed as
/// escapes.
fn with_slashes(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        while chars.next_if_eq(&'\\').is_some() {}
        if chars.peek().is_some_and(|next| next.is_alphanumeric()) {
            out.push('/');
        }
    }
    out
}

/// Returns the byte offset of `part` in `whole`. `part` must be a slice of `whole`.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}
