//! The names in an item of a summary that have to occur in what it covers: paths, URLs, hashes, numbers with a unit,
//! identifiers, and every word of a code span. Where they occur is looked for elsewhere.

use std::borrow::Cow;

use facts::REDACTED;
use facts::identifier::{self, Kind};

/// What a name is, as far as its edges tell a part of a longer name from the name itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A path, an address, or a flag: hyphens and dots may be inside.
    Path,
    /// A hash, of which the beginning is enough.
    Hash,
    /// A number, with its unit if it has one.
    Number,
    /// Everything else.
    Word,
}

/// A name, as it is to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    /// The name as the item has it, to be shown.
    pub shown: &'a str,
    /// The name without what may differ between two ways of writing it.
    pub text: Cow<'a, str>,
    pub sort: Sort,
    /// Whether text was cut off before it.
    pub open_before: bool,
    /// Whether text was cut off after it.
    pub open_after: bool,
    /// Whether it begins a line, where a small letter may have become a capital.
    pub begins_line: bool,
}

/// Characters below which a word of a code span says too little to be looked for.
const CODE_CHARS_MIN: usize = 2;
/// What stands around a word without being a part of it.
const TRAILING: [char; 9] = ['.', ':', '-', '@', '+', '*', '\\', '/', '~'];
/// Stands where text was cut, with or without a space before it.
const CUT: char = '…';
/// Digits and characters that make a mixed word a name.
const MIXED_DIGITS_MIN: usize = 3;
const MIXED_CHARS_MIN: usize = 7;
/// Units beside those the ledger knows; before these and those a space may stand.
const UNITS: [&str; 32] = [
    "us", "µs", "ns", "sec", "secs", "second", "seconds", "minute", "minutes", "mins", "hour", "hours",
    "hrs", "day", "days", "week", "weeks", "b", "byte", "bytes", "tb", "tib", "hz", "khz", "mhz", "ghz",
    "kbps", "mbps", "gbps", "fps", "percent", "degrees",
];

/// Calls `found` with every name in `text`.
pub(crate) fn names<'a>(text: &'a str, mut found: impl FnMut(Named<'a>)) {
    for line in text.lines() {
        words(line, &mut found);
        let spans = line.matches('`').count() / 2;
        for code in line.split('`').skip(1).step_by(2).take(spans) {
            code_words(line, code, &mut found);
        }
    }
}

/// Returns the path a name is, if it is one.
pub(crate) fn path_of(named: &Named<'_>) -> Option<String> {
    let is_url = named.text.contains("://");
    let names_file = named.text.contains('/')
        || named.text.rsplit_once('.').is_some_and(|(_, end)| identifier::is_extension(end));
    (named.sort == Sort::Path && !is_url && names_file && !named.text.starts_with('-') && !named.open_after)
        .then(|| named.text.clone().into_owned())
}

fn words<'a>(line: &'a str, found: &mut impl FnMut(Named<'a>)) {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !begins(bytes, at) {
            at += 1;
            continue;
        }
        let rest = &line[at..];
        if let Some(length) = identifier::url_length(rest) {
            take(line, &rest[..length], Sort::Path, found);
            at += length.max(1);
            continue;
        }
        let length = bytes[at..].iter().position(|byte| !is_inside(*byte)).unwrap_or(bytes.len() - at);
        word(line, &rest[..length], found);
        at += length;
    }
}

fn begins(bytes: &[u8], at: usize) -> bool {
    identifier::starts_name(bytes[at])
        || bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
}

const fn is_inside(byte: u8) -> bool {
    identifier::continues_name(byte) || byte == b'\\'
}

/// Takes the names a word is or holds.
fn word<'a>(line: &'a str, word: &'a str, found: &mut impl FnMut(Named<'a>)) {
    let word = word.trim_end_matches(TRAILING);
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    if is_drive_path(word) || word.contains('\\') && identifier::classify(&with_slashes(word)).is_some() {
        return take(line, word, Sort::Path, found);
    }
    if word.contains("://") {
        return take(line, word, Sort::Path, found);
    }
    if let Some(digits) = digits_of(line, word) {
        return number(line, digits, found);
    }
    match identifier::classify(word) {
        Some((Kind::Identifier, name)) if !name.starts_with('-') => {
            word.split(['.', ':', '$', '@']).for_each(|part| part_of(line, part, found));
        }
        Some((kind, name)) => {
            take(line, name, sort_of(kind, name), found);
            let rest = offset(word, name) + name.len();
            word[rest..].split([':', '#', '=', '@']).for_each(|part| part_of(line, part, found));
        }
        None if is_branch(word) => take(line, word, Sort::Path, found),
        None if is_mixed(word) => take(line, word, sort_of(Kind::Reference, word), found),
        None => {
            let parts = word.split([':', '=', '@', '/', '\\', '+', '$', '#', '~']);
            parts.filter(|part| part.len() < word.len()).for_each(|part| part_of(line, part, found));
        }
    }
}

/// Takes what a part of a word names.
fn part_of<'a>(line: &'a str, part: &'a str, found: &mut impl FnMut(Named<'a>)) {
    let part = part.trim_end_matches(TRAILING);
    if part.len() < 2 || part.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    match identifier::classify(part) {
        Some((kind, name)) => take(line, name, sort_of(kind, name), found),
        None if is_mixed(part) => take(line, part, sort_of(Kind::Reference, part), found),
        None => {}
    }
}

/// Returns the digits of a word that is a number, with or without its unit.
fn digits_of<'a>(line: &str, word: &'a str) -> Option<&'a str> {
    let bare = word.trim_start_matches(['~', '-', '+', '$']);
    let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
    let digits = bare[..end].trim_end_matches('.');
    let is_plain = digits.bytes().filter(|byte| *byte == b'.').count() < 2
        && digits.starts_with(|c: char| c.is_ascii_digit());
    let rest = &line[offset(line, bare) + digits.len()..];
    let is_number = digits.len() == bare.len() || unit_after(rest) == Some(bare.len() - digits.len());
    (is_plain && is_number).then_some(digits)
}

/// Takes a number when it has three digits or a unit, with the groups of digits before it that belong to it.
fn number<'a>(line: &'a str, word: &'a str, found: &mut impl FnMut(Named<'a>)) {
    let end = offset(line, word) + word.len();
    let start = groups_start(line, end - word.len());
    let digits = &line[start..end];
    let unit_length = unit_after(&line[end..]);
    if let Some(length) = unit_length {
        return take(line, &line[start..end + length], Sort::Number, found);
    }
    if line[end..].starts_with(',') && line[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        // The last group takes those before it along.
        let is_group =
            line.as_bytes()[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count() == 3;
        if is_group {
            return;
        }
    }
    match identifier::classify(digits) {
        Some((kind, name)) => take(line, name, sort_of(kind, name), found),
        None if digits.contains(',') => take(line, digits, Sort::Number, found),
        None => {}
    }
}

/// Returns where a number begins whose last group of three digits begins at `at`.
fn groups_start(line: &str, at: usize) -> usize {
    let bytes = line.as_bytes();
    let mut start = at;
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

/// Returns the length of the unit at the beginning of `rest`, and of the space before it.
fn unit_after(rest: &str) -> Option<usize> {
    let spaced = rest.strip_prefix([' ', '\u{a0}', '\u{202f}']);
    let unit_text = spaced.unwrap_or(rest);
    let length = unit_text.find(|c: char| !c.is_alphabetic() && c != '%').unwrap_or(unit_text.len());
    let unit = &unit_text[..length];
    let known = identifier::UNITS.iter().chain(&UNITS).any(|known| known.eq_ignore_ascii_case(unit));
    // Alone, these are more often a word or a list's mark than a unit.
    let is_word = spaced.is_some() && matches!(unit, "x" | "b" | "B" | "X");
    (known && !unit.is_empty() && !is_word).then(|| rest.len() - unit_text.len() + length)
}

fn code_words<'a>(line: &'a str, code: &'a str, found: &mut impl FnMut(Named<'a>)) {
    let is_outside = |c: char| !(c.is_alphanumeric() || c.is_ascii() && is_inside(c as u8));
    for word in code.split(is_outside) {
        let word = word.trim_end_matches(TRAILING).trim_start_matches([':', '.', '+', '%']);
        if word.chars().count() < CODE_CHARS_MIN || identifier::url_length(word).is_some() {
            continue;
        }
        let sort = identifier::classify(word).map_or(Sort::Word, |(kind, name)| sort_of(kind, name));
        let is_named = sort == Sort::Path || word.contains('\\');
        take(line, without_line(word), if is_named { Sort::Path } else { sort }, found);
    }
}

/// Returns a word without the line number after a path.
fn without_line(word: &str) -> &str {
    match identifier::classify(word) {
        Some((Kind::Path, path)) => path,
        Some(_) | None => word,
    }
}

fn sort_of(kind: Kind, name: &str) -> Sort {
    match kind {
        Kind::Path | Kind::Url => Sort::Path,
        Kind::Identifier if name.starts_with('-') => Sort::Path,
        Kind::Number => Sort::Number,
        Kind::Reference if is_hash(name) => Sort::Hash,
        Kind::Reference | Kind::Identifier | Kind::Error => Sort::Word,
    }
}

fn is_hash(name: &str) -> bool {
    name.len() >= 7 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_drive_path(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() > 3 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'/' | b'\\')
}

/// Returns whether a word with one slash is a path or a branch rather than two words of which either is meant.
fn is_branch(word: &str) -> bool {
    word.contains('/')
        && word.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.'))
        && !word.split('/').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()) && part.len() < 3)
}

/// Returns whether letters and digits are mixed as in a key or an id.
fn is_mixed(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() >= MIXED_CHARS_MIN
        && digits >= MIXED_DIGITS_MIN
        && digits < word.len()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Gives a name to the caller, unless it is what stands for a secret.
fn take<'a>(line: &'a str, name: &'a str, sort: Sort, found: &mut impl FnMut(Named<'a>)) {
    let at = offset(line, name);
    let (before, after) = (&line[..at], &line[at + name.len()..]);
    let is_redacted = before.ends_with('[') && REDACTED.trim_matches(['[', ']']) == name;
    if name.is_empty() || is_redacted || name.contains(REDACTED.trim_end_matches(']')) {
        return;
    }
    let text = match sort {
        Sort::Path => Cow::Owned(clean_path(name)),
        Sort::Hash | Sort::Number | Sort::Word if name.contains('\\') => Cow::Owned(with_slashes(name)),
        Sort::Hash | Sort::Number | Sort::Word => Cow::Borrowed(name),
    };
    let after_edge = after.trim_start_matches(TRAILING).trim_start_matches(' ');
    found(Named {
        shown: name,
        text,
        sort,
        open_before: before.ends_with(REDACTED),
        open_after: after_edge.starts_with(CUT) || after.starts_with(REDACTED),
        begins_line: !before.contains(|c: char| c.is_alphanumeric()),
    });
}

/// Returns a path as it is compared: with slashes, without `./`, repeated slashes and the place inside the file.
pub(crate) fn clean_path(path: &str) -> String {
    let slashed = with_slashes(path);
    if slashed.contains("://") {
        return slashed.trim_end_matches('/').to_owned();
    }
    let place = slashed.rfind('#').filter(|at| {
        let place = slashed[at + 1..].trim_start_matches(['L', 'l']);
        !place.is_empty() && place.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'L' | b'C'))
    });
    let mut clean = slashed[..place.unwrap_or(slashed.len())].to_owned();
    while clean.contains("//") {
        clean = clean.replace("//", "/");
    }
    while clean.contains("/./") {
        clean = clean.replace("/./", "/");
    }
    let clean = clean.trim_end_matches('/');
    clean.strip_prefix("./").unwrap_or(clean).to_owned()
}

/// Returns a word with Windows separators as slashes and without the backslashes that only escape a sign.
fn with_slashes(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        while rest.next_if_eq(&'\\').is_some() {}
        if rest.peek().is_some_and(|next| next.is_alphanumeric()) {
            out.push('/');
        }
    }
    out
}

/// Returns where `part`, a piece of `whole`, begins in it.
fn offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}
