//! Finds the names in a text: paths, URLs, identifiers, references, versions, hashes and numbers with a unit.
//!
//! One linear scan without regular expressions, because every message of a thread passes through it. Names are ASCII. The
//! module only finds and classifies names; their use is up to the caller.

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// `src/lib.rs`, `/etc/hosts`, `notes.md`.
    Path,
    /// `https://…` or `http://…`.
    Url,
    /// `snake_case`, `camelCase`, `PascalCase`, `SCREAMING_CASE`, `--flag`.
    Identifier,
    /// The name of an error or exception type, or of an error code.
    Error,
    /// `#12`, `ABC-34`, `1.2.3`, `2026-01-31`, a hash, an order code.
    Reference,
    /// A number of at least three digits, or a number with a unit from [`UNITS`].
    Number,
}

/// File extensions, lowercase, that make a word without a folder a path.
const EXTENSIONS: [&str; 92] = [
    "bash", "bat", "c", "cc", "cfg", "cjs", "conf", "cpp", "cs", "css", "csv", "dart", "db", "diff", "env",
    "erl", "ex", "example", "exs", "fish", "go", "gradle", "graphql", "h", "hcl", "hpp", "hs", "html", "ini",
    "ipynb", "java", "jpg", "js", "json", "jsonc", "jsonl", "jsx", "kt", "kts", "less", "lock", "log", "lua",
    "md", "mdx", "mjs", "ml", "mod", "mts", "nix", "patch", "pdf", "php", "pl", "plist", "png", "pony",
    "proto", "ps1", "py", "pyi", "r", "rb", "rs", "rst", "scala", "scss", "service", "sh", "sol", "sql",
    "sqlite", "sum", "svelte", "svg", "swift", "tf", "toml", "traj", "ts", "tsv", "tsx", "txt", "vue",
    "wasm", "xml", "yaml", "yml", "zig", "zsh", "snap", "tmpl",
];

/// Units that make a number a name when they follow it directly (`12ms`). Compared in any ASCII case.
pub const UNITS: [&str; 14] =
    ["ms", "s", "%", "mb", "kb", "gb", "mib", "kib", "gib", "px", "min", "h", "tokens", "x"];

/// Calls `visit` with the kind and text of every name in `text`, in order, including repeated names. The end of a pattern,
/// such as `*_test.go`, is no path. The cost is linear in the length of the text.
pub fn scan_names<'a>(text: &'a str, mut visit: impl FnMut(NameKind, &'a str)) {
    let bytes = text.as_bytes();
    let mut offset = 0;
    while offset < bytes.len() {
        if !is_name_start(bytes[offset]) {
            offset += 1;
            continue;
        }
        let remaining = &text[offset..];
        if let Some(length) = url_length(remaining) {
            visit(NameKind::Url, &remaining[..length]);
            offset += length;
            continue;
        }
        let length =
            bytes[offset..].iter().position(|&byte| !is_name_continue(byte)).unwrap_or(remaining.len());
        offset += length;
        // Most words are lowercase prose, which is never a name; this skips them before the costlier classification.
        if bytes[offset - length..offset].iter().all(u8::is_ascii_lowercase) {
            continue;
        }
        let word = text[offset - length..offset].trim_end_matches(['.', ':', '-', '@', '+', '*']);
        let start = offset - length;
        let word = without_escape(word, &text[..start]);
        let is_glob = start > 0
            && bytes[start - 1] == b'*'
            && bytes.get(offset) != Some(&b'*')
            && matches!(bytes[start], b'.' | b'_' | b'/' | b'-');
        match classify_word(word) {
            Some((NameKind::Path, _)) if is_glob => {}
            Some((kind, name)) => visit(kind, name),
            None => {}
        }
    }
}

/// Returns a word without the letter of an escape, if the text before the word ends in a backslash: the "n" of "\nPress" is a
/// line break and no part of a name.
fn without_escape<'a>(word: &'a str, before: &str) -> &'a str {
    let unescaped = word.strip_prefix(['n', 't', 'r']).filter(|_| before.ends_with('\\'));
    unescaped.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase())).unwrap_or(word)
}

/// Returns the length in bytes of the URL at the beginning of `text`, without punctuation of the sentence at its end.
/// Returns `None` if the text does not begin with `http://` or `https://`.
pub fn url_length(text: &str) -> Option<usize> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let length = text.find(is_url_end).unwrap_or(text.len());
    Some(text[..length].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']).len())
}

/// Returns whether a name can begin with this byte.
pub const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'~' | b'_' | b'#' | b'-' | b'@' | b'$')
}

/// Returns whether this byte can follow in a name.
pub const fn is_name_continue(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'/' | b'.' | b'~' | b'_' | b'#' | b'-' | b'@' | b'+' | b':' | b'%' | b'$')
}

/// Returns whether the character ends a URL in running text.
fn is_url_end(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '<' | '>' | '"' | '\'' | '`' | ')' | ']' | '}' | '|' | '\\' | '…' | '“' | '”' | '’')
}

/// Returns the kind of name that a word contains, and the part of the word that is the name: `src/lib.rs` of
/// `src/lib.rs:12`. Returns `None` for prose, and for words of fewer than 2 or more than 200 bytes.
pub fn classify_word(word: &str) -> Option<(NameKind, &str)> {
    if word.len() < 2 || word.len() > 200 {
        return None;
    }
    if let Some(flag) = word.strip_prefix("--") {
        let is_flag = flag.len() >= 3
            && flag.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit());
        return is_flag.then_some((NameKind::Identifier, word));
    }
    let word = word.trim_start_matches(['-', ':', '$', '@']);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if let Some(number) = word.strip_prefix('#') {
        let is_issue = digits > 0 && digits == number.len() && digits <= 6;
        return is_issue.then_some((NameKind::Reference, word));
    }
    if let Some(path) = path_in(word) {
        return Some((NameKind::Path, path));
    }
    let word = word.split(':').next().unwrap_or(word).trim_matches('.');
    if word.len() < 2 {
        return None;
    }
    if is_error(word) {
        return Some((NameKind::Error, word));
    }
    if digits > 0 && is_reference(word) {
        return Some((NameKind::Reference, word));
    }
    if word.as_bytes()[0].is_ascii_digit() {
        return is_number(word).then_some((NameKind::Number, word));
    }
    let word = word.rsplit('.').next().unwrap_or(word);
    if is_error(word) {
        return Some((NameKind::Error, word));
    }
    is_identifier(word).then_some((NameKind::Identifier, word))
}

/// Returns the word as a path without a trailing line number, or `None` if it is not a path. A path has a known extension,
/// at least two slashes, or one slash and an absolute or explicitly relative beginning.
fn path_in(word: &str) -> Option<&str> {
    let end = word.find(':').unwrap_or(word.len());
    let word = word[..end].trim_end_matches(['.', '/']);
    if word.len() < 4 || word.starts_with("//") {
        return None;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let has_known_extension = extension.is_some_and(is_extension);
    let slashes = word.bytes().filter(|&byte| byte == b'/').count();
    let is_rooted =
        word.starts_with('/') || word.starts_with("./") || word.starts_with("~/") || word.starts_with("../");
    (has_known_extension || slashes >= 2 || is_rooted && slashes >= 1 && word.len() > 5).then_some(word)
}

/// Returns whether this is a known file extension, in any ASCII case.
pub fn is_extension(extension: &str) -> bool {
    extension.len() <= 7 && EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
}

/// Returns whether a word with a digit is a hash (7 to 40 lowercase hex digits), a code (5 to 10 digits and capitals), a
/// ticket, a version or a date.
fn is_reference(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_hash = (7..=40).contains(&word.len())
        && bytes.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
        && bytes.iter().any(u8::is_ascii_lowercase);
    let is_code = (5..=10).contains(&word.len())
        && bytes.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        && bytes.iter().any(u8::is_ascii_uppercase)
        && !is_number(word);
    is_hash || is_code || is_ticket(word) || is_version(word) || is_date(word)
}

/// Returns whether the word is a ticket such as `ABC-34`.
fn is_ticket(word: &str) -> bool {
    word.split_once('-').is_some_and(|(project, number)| {
        (2..=6).contains(&project.len())
            && project.bytes().all(|b| b.is_ascii_uppercase())
            && (1..=6).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Returns whether the word is a version of at least three numbers, such as `v1.2.3-rc1`.
fn is_version(word: &str) -> bool {
    let word = word.strip_prefix('v').unwrap_or(word);
    let core = word.split(['-', '+']).next().unwrap_or(word);
    let mut parts = 0;
    let numeric = core.split('.').all(|part| {
        parts += 1;
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
    });
    numeric && parts >= 3
}

/// Returns whether the word has the shape of an ISO 8601 date, `2026-01-31`. The values are not checked.
fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 10
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes.iter().filter(|b| b.is_ascii_digit()).count() == 8
}

/// Returns whether the word is a number of at least three digits before the point, or one with a known unit.
fn is_number(word: &str) -> bool {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    if unit.is_empty() {
        return digits.split('.').next().is_some_and(|whole| whole.len() >= 3);
    }
    UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit))
}

/// Returns whether the word is the name of an error type (`TypeError`), a compiler's error code (`E0308`), or the name of
/// an errno or signal.
fn is_error(word: &str) -> bool {
    let is_type_name = ["Error", "Exception", "Warning", "Fault", "Panic"]
        .iter()
        .any(|suffix| word.len() > suffix.len() && word.ends_with(suffix));
    let is_code = word.len() == 5 && word.starts_with('E') && word[1..].bytes().all(|b| b.is_ascii_digit());
    let is_errno =
        ["ENOENT", "EACCES", "EPERM", "ECONN", "ETIMEDOUT", "EADDRINUSE", "SIGSEGV", "SIGKILL", "SIGABRT"]
            .iter()
            .any(|code| word.starts_with(code));
    (is_type_name && word.as_bytes()[0].is_ascii_uppercase() && is_ascii_word(word))
        || is_code
        || is_errno && is_ascii_word(word)
}

/// Returns whether the word has only ASCII letters, digits and underscores.
fn is_ascii_word(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns whether a word is spelled like a name in code: with an inner underscore, or with a capital inside.
fn is_identifier(word: &str) -> bool {
    if word.len() < 4 || !is_ascii_word(word) || !word.as_bytes()[0].is_ascii_alphabetic() {
        return false;
    }
    let has_underscore = word.trim_matches('_').contains('_');
    let bytes = word.as_bytes();
    let humps =
        bytes.windows(2).filter(|pair| !pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase()).count();
    has_underscore || humps >= 1 && bytes.iter().any(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> String {
        let mut names = Vec::new();
        scan_names(text, |kind, name| names.push(format!("{kind:?} {name}")));
        names.join(", ")
    }

    #[test]
    fn names_are_distinguished_from_prose() {
        for (text, expected) in [
            ("nothing to see here, and/or there.", ""),
            ("see src/lib.rs:12 and ./a.md.", "Path src/lib.rs, Path ./a.md"),
            ("**src/lib.rs**, **./a.md** but *_test.go and **/*.eval.yaml", "Path src/lib.rs, Path ./a.md"),
            ("(https://x.test/a?b=c).", "Url https://x.test/a?b=c"),
            (
                "call `parse_all` or parseAll in HttpClient",
                "Identifier parse_all, Identifier parseAll, Identifier HttpClient",
            ),
            (
                "#12 ABC-34 v1.2.3 2026-01-31 deadbeef1",
                "Reference #12, Reference ABC-34, Reference v1.2.3, Reference 2026-01-31, Reference deadbeef1",
            ),
            (r#""stop\n\nPressAny key\nOf it""#, "Identifier PressAny"),
            ("took 12ms, 1500 rows, 7 files, 40%", "Number 12ms, Number 1500, Number 40%"),
            ("509MB of 20000KB", "Number 509MB, Number 20000KB"),
            ("TypeError and E0308 with --no-verify", "Error TypeError, Error E0308, Identifier --no-verify"),
            ("日本語 src/日.rs 🦀", ""),
        ] {
            assert_eq!(names(text), expected, "{text:?}");
        }
    }
}
