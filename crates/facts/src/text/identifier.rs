//! The names in a text: paths, URLs, identifiers, references, versions, hashes and numbers with a unit. One linear
//! scan, no regular expression, because every covered message passes through it. What a name is good for is not known here.

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// `src/lib.rs`, `/etc/hosts`, `notes.md`.
    Path,
    /// `https://…`.
    Url,
    /// `snake_case`, `camelCase`, `PascalCase`, `SCREAMING_CASE`, `--flag`.
    Identifier,
    /// The name of an error or exception type, or of an error code.
    Error,
    /// `#12`, `ABC-34`, `1.2.3`, `2026-01-31`, a hash, an order code.
    Reference,
    /// A number of three digits or more, or one with a unit.
    Number,
}

const EXTENSIONS: [&str; 92] = [
    "bash", "bat", "c", "cc", "cfg", "cjs", "conf", "cpp", "cs", "css", "csv", "dart", "db", "diff", "env",
    "erl", "ex", "example", "exs", "fish", "go", "gradle", "graphql", "h", "hcl", "hpp", "hs", "html", "ini",
    "ipynb", "java", "jpg", "js", "json", "jsonc", "jsonl", "jsx", "kt", "kts", "less", "lock", "log", "lua",
    "md", "mdx", "mjs", "ml", "mod", "mts", "nix", "patch", "pdf", "php", "pl", "plist", "png", "pony",
    "proto", "ps1", "py", "pyi", "r", "rb", "rs", "rst", "scala", "scss", "service", "sh", "sol", "sql",
    "sqlite", "sum", "svelte", "svg", "swift", "tf", "toml", "traj", "ts", "tsv", "tsx", "txt", "vue",
    "wasm", "xml", "yaml", "yml", "zig", "zsh", "snap", "tmpl",
];

/// Units that stand right after a number.
pub const UNITS: [&str; 14] =
    ["ms", "s", "%", "mb", "kb", "gb", "mib", "kib", "gib", "px", "min", "h", "tokens", "x"];

/// Calls `found` with every name in `text`, in order.
pub fn scan_names<'a>(text: &'a str, mut found: impl FnMut(NameKind, &'a str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name_start(bytes[at]) {
            at += 1;
            continue;
        }
        let rest = &text[at..];
        if let Some(length) = url_length(rest) {
            found(NameKind::Url, &rest[..length]);
            at += length;
            continue;
        }
        let length = bytes[at..].iter().position(|&byte| !is_name_continue(byte)).unwrap_or(bytes.len() - at);
        at += length;
        // Most words are prose; nothing below would take them for a name.
        if bytes[at - length..at].iter().all(u8::is_ascii_lowercase) {
            continue;
        }
        let word = text[at - length..at].trim_end_matches(['.', ':', '-', '@', '+', '*']);
        if let Some((kind, name)) = classify_word(word) {
            found(kind, name);
        }
    }
}

/// Returns the length of the URL that `text` begins with, without the sentence's own marks at its end.
pub fn url_length(text: &str) -> Option<usize> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let length = text.find(is_url_end).unwrap_or(text.len());
    Some(text[..length].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']).len())
}

/// Returns whether a name may begin with this byte.
pub const fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'~' | b'_' | b'#' | b'-' | b'@' | b'$')
}

/// Returns whether a name may go on with this byte.
pub const fn is_name_continue(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'/' | b'.' | b'~' | b'_' | b'#' | b'-' | b'@' | b'+' | b':' | b'%' | b'$')
}

fn is_url_end(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '<' | '>' | '"' | '\'' | '`' | ')' | ']' | '}' | '|' | '\\' | '…' | '“' | '”' | '’')
}

/// Returns the kind of a word and the part of it that is the name.
pub fn classify_word(word: &str) -> Option<(NameKind, &str)> {
    if word.len() < 2 || word.len() > 200 {
        return None;
    }
    if let Some(flag) = word.strip_prefix("--") {
        let long = flag.len() >= 3
            && flag.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit());
        return long.then_some((NameKind::Identifier, word));
    }
    let word = word.trim_start_matches(['-', ':', '$', '@']);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if let Some(number) = word.strip_prefix('#') {
        let issue = digits > 0 && digits == number.len() && digits <= 6;
        return issue.then_some((NameKind::Reference, word));
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

/// Returns the path a word is, without a trailing line number.
fn path_in(word: &str) -> Option<&str> {
    let end = word.find(':').unwrap_or(word.len());
    let word = word[..end].trim_end_matches(['.', '/']);
    if word.len() < 4 || word.starts_with("//") {
        return None;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let known = extension.is_some_and(is_extension);
    let slashes = word.bytes().filter(|&byte| byte == b'/').count();
    let rooted =
        word.starts_with('/') || word.starts_with("./") || word.starts_with("~/") || word.starts_with("../");
    (known || slashes >= 2 || rooted && slashes >= 1 && word.len() > 5).then_some(word)
}

/// Returns whether files end this way.
pub fn is_extension(extension: &str) -> bool {
    extension.len() <= 7 && EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
}

fn is_reference(word: &str) -> bool {
    let bytes = word.as_bytes();
    let hex = (7..=40).contains(&word.len())
        && bytes.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b))
        && bytes.iter().any(u8::is_ascii_lowercase);
    let code = (5..=10).contains(&word.len())
        && bytes.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        && bytes.iter().any(u8::is_ascii_uppercase);
    hex || code || is_ticket(word) || is_version(word) || is_date(word)
}

fn is_ticket(word: &str) -> bool {
    word.split_once('-').is_some_and(|(project, number)| {
        (2..=6).contains(&project.len())
            && project.bytes().all(|b| b.is_ascii_uppercase())
            && (1..=6).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

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

fn is_date(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 10
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes.iter().filter(|b| b.is_ascii_digit()).count() == 8
}

fn is_number(word: &str) -> bool {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    if unit.is_empty() {
        return digits.split('.').next().is_some_and(|whole| whole.len() >= 3);
    }
    UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit))
}

fn is_error(word: &str) -> bool {
    let type_name = ["Error", "Exception", "Warning", "Fault", "Panic"]
        .iter()
        .any(|end| word.len() > end.len() && word.ends_with(end));
    let code = word.len() == 5 && word.starts_with('E') && word[1..].bytes().all(|b| b.is_ascii_digit());
    let errno =
        ["ENOENT", "EACCES", "EPERM", "ECONN", "ETIMEDOUT", "EADDRINUSE", "SIGSEGV", "SIGKILL", "SIGABRT"]
            .iter()
            .any(|code| word.starts_with(code));
    (type_name && word.as_bytes()[0].is_ascii_uppercase() && is_ascii_word(word))
        || code
        || errno && is_ascii_word(word)
}

fn is_ascii_word(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns whether a word is written the way names are in code and not in prose.
fn is_identifier(word: &str) -> bool {
    if word.len() < 4 || !is_ascii_word(word) || !word.as_bytes()[0].is_ascii_alphabetic() {
        return false;
    }
    let snake = word.trim_matches('_').contains('_');
    let bytes = word.as_bytes();
    let humps =
        bytes.windows(2).filter(|pair| !pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase()).count();
    snake || humps >= 1 && bytes.iter().any(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> String {
        let mut out = Vec::new();
        scan_names(text, |kind, name| out.push(format!("{kind:?} {name}")));
        out.join(", ")
    }

    #[test]
    fn names_are_told_from_prose() {
        for (text, expected) in [
            ("nothing to see here, and/or there.", ""),
            ("see src/lib.rs:12 and ./a.md.", "Path src/lib.rs, Path ./a.md"),
            ("(https://x.test/a?b=c).", "Url https://x.test/a?b=c"),
            (
                "call `parse_all` or parseAll in HttpClient",
                "Identifier parse_all, Identifier parseAll, Identifier HttpClient",
            ),
            (
                "#12 ABC-34 v1.2.3 2026-01-31 deadbeef1",
                "Reference #12, Reference ABC-34, Reference v1.2.3, Reference 2026-01-31, Reference deadbeef1",
            ),
            ("took 12ms, 1500 rows, 7 files, 40%", "Number 12ms, Number 1500, Number 40%"),
            ("TypeError and E0308 with --no-verify", "Error TypeError, Error E0308, Identifier --no-verify"),
            ("日本語 src/日.rs 🦀", ""),
        ] {
            assert_eq!(names(text), expected, "{text:?}");
        }
    }
}
