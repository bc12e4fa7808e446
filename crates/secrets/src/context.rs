//! The meaning of a name: whether it announces a password, a secret, a key, or only something about one.

/// The class of a name that announces a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameClass {
    /// A password. Almost any value is one.
    Password,
    /// A token, an API key, a secret. Values that look random are secrets, hexadecimal ones too.
    Secret,
    /// A key of an unknown kind. Only values that look random and are no hash are secrets.
    Key,
    /// A key of an unknown kind in the name of an environment variable. Long hexadecimal values are secrets too.
    EnvironmentKey,
}

/// Words that announce a password.
const PASSWORD_WORDS: &[&str] = &[
    "passwd",
    "passwort",
    "passphrase",
    "passcode",
    "kennwort",
    "contraseña",
    "contrasena",
    "pwd",
    "bindpw",
    "rootpw",
    "sshpass",
    "dbpass",
    "dbpasswd",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
];
/// Words that announce a secret.
const SECRET_WORDS: &[&str] = &[
    "secret",
    "secrets",
    "token",
    "tokens",
    "apikey",
    "credential",
    "credentials",
    "creds",
    "secretkey",
    "accesskey",
    "authtoken",
    "accesstoken",
    "bearertoken",
    "clientsecret",
    "identitytoken",
    "refreshtoken",
    "secretaccesskey",
    "sessiontoken",
];
/// Words that make a key secret.
const KEY_QUALIFIERS: &[&str] = &[
    "access",
    "account",
    "admin",
    "api",
    "app",
    "auth",
    "client",
    "consumer",
    "crypto",
    "deploy",
    "deployment",
    "encryption",
    "functions",
    "license",
    "master",
    "private",
    "root",
    "secret",
    "security",
    "server",
    "service",
    "shared",
    "signing",
    "storage",
    "subscription",
    "webhook",
];
/// Last words of names that describe a secret and announce none, such as `token_count`.
const ATTRIBUTE_WORDS: &[&str] = &[
    "age",
    "alg",
    "algorithm",
    "arn",
    "attribute",
    "budget",
    "bytes",
    "changed",
    "class",
    "code",
    "column",
    "count",
    "dir",
    "directory",
    "enabled",
    "encoding",
    "endpoint",
    "error",
    "expiration",
    "expires",
    "expiry",
    "field",
    "file",
    "filename",
    "fingerprint",
    "folder",
    "format",
    "handler",
    "header",
    "hint",
    "id",
    "ids",
    "index",
    "kind",
    "label",
    "len",
    "length",
    "level",
    "limit",
    "max",
    "message",
    "min",
    "mode",
    "name",
    "names",
    "offset",
    "path",
    "pattern",
    "placeholder",
    "policy",
    "position",
    "prefix",
    "provider",
    "ref",
    "regex",
    "regexp",
    "required",
    "rotation",
    "scope",
    "scopes",
    "size",
    "source",
    "state",
    "status",
    "store",
    "strategy",
    "suffix",
    "timeout",
    "title",
    "ttl",
    "type",
    "types",
    "uri",
    "url",
    "usage",
    "valid",
    "validator",
    "version",
];
/// Words of names of tokens and keys that are not secret.
const HARMLESS_WORDS: &[&str] = &[
    "bos",
    "cache",
    "cached",
    "clustering",
    "completion",
    "continuation",
    "csrf",
    "cursor",
    "dedupe",
    "eos",
    "foreign",
    "hash",
    "hot",
    "idempotency",
    "input",
    "lookup",
    "max",
    "map",
    "mask",
    "natural",
    "next",
    "num",
    "object",
    "output",
    "pad",
    "page",
    "pagination",
    "partition",
    "primary",
    "prompt",
    "pub",
    "public",
    "registry",
    "row",
    "schema",
    "sep",
    "sequence",
    "sort",
    "special",
    "stop",
    "sync",
    "total",
    "translation",
    "unique",
    "unk",
    "xsrf",
];

/// Returns the class of a name, or `None` if it announces no secret. `before` is the text before the name: `api key` is
/// two words.
pub fn classify_name(name: &str, before: &str) -> Option<NameClass> {
    // The letters of the names in other scripts keep their length.
    let lower = name.to_lowercase();
    let qualifier = before.strip_suffix([' ', '-']).map(last_word).unwrap_or_default();
    let mut words = split_words(name, &lower);
    if words == ["key"] && !qualifier.is_empty() {
        words.insert(0, &qualifier);
    }
    let last = *words.last()?;
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    if words.len() > 1 && ATTRIBUTE_WORDS.contains(&last) {
        return None;
    }
    let is_password = words.iter().any(|word| PASSWORD_WORDS.contains(word))
        || words
            .iter()
            .any(|word| word.contains("password") && !["passwords", "passwordless"].contains(word))
        || ["pass", "pw"].contains(&last)
        || lower == "rediscli_auth"
        || last == "passe" && before.ends_with("mot de ");
    if is_password {
        return Some(NameClass::Password);
    }
    if has(HARMLESS_WORDS) {
        return None;
    }
    if has(SECRET_WORDS) {
        return Some(NameClass::Secret);
    }
    let is_environment =
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    match last {
        "key" | "keys" if words.len() > 1 && has(KEY_QUALIFIERS) => Some(NameClass::Secret),
        "key" if words.len() > 1 && is_environment => Some(NameClass::EnvironmentKey),
        "key" if words.len() > 1 => Some(NameClass::Key),
        "auth" if name.eq_ignore_ascii_case("x-auth") => Some(NameClass::Secret),
        "auth" if name.trim_start_matches(['_', '/', ':', '-']) == "auth" => Some(NameClass::Key),
        _ => None,
    }
}

/// Returns the words of a name in lower case: `DEPLOY_KEY`, `deployKey` and `deploy-key` have two.
fn split_words<'n>(name: &str, lower: &'n str) -> Vec<&'n str> {
    let bytes = name.as_bytes();
    let is_hump = |index: usize| bytes[index].is_ascii_uppercase() && bytes[index - 1].is_ascii_lowercase();
    let is_separator = |index: usize| bytes[index].is_ascii() && !bytes[index].is_ascii_alphanumeric();
    let mut words = Vec::with_capacity(6);
    let mut start = 0;
    for index in 0..bytes.len() {
        if is_separator(index) || index > 0 && is_hump(index) {
            words.push(&lower[start..index]);
            start = index + usize::from(is_separator(index));
        }
    }
    words.push(&lower[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the last word of a text, in lower case.
fn last_word(text: &str) -> String {
    let start = text.bytes().rev().take(24).take_while(u8::is_ascii_alphanumeric).count();
    text[text.len() - start..].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_announce_secrets_or_only_describe_them() {
        use NameClass::{EnvironmentKey, Key, Password, Secret};
        for (name, expected) in [
            ("DB_PASSWORD", Some(Password)),
            ("password", Some(Password)),
            ("userPassword2", Some(Password)),
            ("Passwort", Some(Password)),
            ("SMTP_PASS", Some(Password)),
            ("pass", Some(Password)),
            ("PGPASSWORD", Some(Password)),
            ("passwordless", None),
            ("passRate", None),
            ("password_file", None),
            ("AWS_SECRET_ACCESS_KEY", Some(Secret)),
            ("access-token", Some(Secret)),
            ("AccountKey", Some(Secret)),
            ("DEPLOY_KEY", Some(Secret)),
            ("apiKey", Some(Secret)),
            ("tokens", Some(Secret)),
            ("max_tokens", None),
            ("token_count", None),
            ("next_page_token", None),
            ("tokenizer", None),
            ("SENTRY_KEY", Some(EnvironmentKey)),
            ("fooKey", Some(Key)),
            ("primary_key", None),
            ("key", None),
            ("monkey", None),
            ("key_id", None),
            ("contraseña", Some(Password)),
            ("Пароль", Some(Password)),
            ("密码", Some(Password)),
        ] {
            assert_eq!(classify_name(name, ""), expected, "{name}");
        }
        assert_eq!(classify_name("key", "the api "), Some(Secret));
        assert_eq!(classify_name("key", "the cache "), None);
    }
}
