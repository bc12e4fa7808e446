//! Tests of the crate's functions, and of its rules on generated secrets.

mod forms;

use proptest::prelude::*;

use super::*;

/// Words of rules, and signs around their values.
const FRAGMENTS: &str = r#"(password|Passwort|token|api key|secret_key|AKIA|sk-ant-|ghp_|eyJhbGci|Cookie: sid|Authorization: Basic |-----BEGIN PRIVATE KEY-----|://a:|[=:>,;&'"`\\ \n\t]|is |for |[a-zA-Z0-9+/_.-]{1,40}|é|€|🦀|\PC)"#;

proptest! {
    #[test]
    fn m16_any_text_is_redacted_and_keeps_what_is_between_the_secrets(
        fragments in prop::collection::vec(FRAGMENTS, 0..60), length in 0usize..6_000,
    ) {
        // A long run puts the signs behind it at the end of a window.
        let text = fragments.concat() + &"x7".repeat(length / 2) + &fragments.concat();
        let (redacted, count) = redact_and_count(&text);
        let mut rest = text.as_str();
        for kept in redacted.split(REDACTED) {
            let at = rest.find(kept);
            prop_assert!(at.is_some(), "{kept:?} of {redacted:?}");
            rest = &rest[at.unwrap_or_default() + kept.len()..];
        }
        prop_assert_eq!(count == 0, redacted == text);
    }
}

#[test]
fn a_key_behind_an_escaped_line_break_is_redacted() {
    let key = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z";
    assert_eq!(redact(&format!(r"read a\n{key}\nb")), r"read a\n[redacted]\nb");
    assert_eq!(redact(&format!("a\n{key}")), "a\n[redacted]");
}

#[test]
fn m16_a_secret_with_invisible_characters_between_its_own_is_replaced() {
    for invisible in [
        "\u{200b}",
        "\u{200d}",
        "\u{2060}",
        "\u{feff}",
        "\u{ad}",
        "\u{202e}",
        "\u{180e}",
        "\u{e0041}",
        "\u{1b}[0m",
        "\u{8}",
    ] {
        let key = format!("ghp_abcdefghij{invisible}klmnopqrstuvwxyz01{invisible}23456789");
        assert_eq!(redact(&format!("the key {key} ends")), "the key [redacted] ends", "{key:?}");
        let named = format!("a\u{200b}b pass{invisible}word=hunter2hunter2");
        let (text, count) = redact_and_count(&named);
        assert_eq!((text.contains("hunter2"), count), (false, 1), "{invisible:?}");
    }
    // Emoji and other scripts stay as they are.
    let text = "\u{1f468}\u{200d}\u{1f469} na\u{ef}ve \u{2764}\u{fe0f}";
    assert_eq!(redact(text), text);
    // A secret is found with an invisible character in front of it too.
    assert_eq!(redact("x\u{200b}ghp_abcdefghijklmnopqrstuvwxyz0123456789"), "x\u{200b}[redacted]");
}

#[test]
fn m16_planted_secrets_are_replaced() {
    for (text, expected) in [
        ("key sk-ant-api03-abcdefghijklmnop1234 end", "key [redacted] end"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted]"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("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", "[redacted]"),
        ("bot 7123456789:AAHq8Zt3Lw9Xk2Vn5RbYc7Df1Gh4Jm6Np0s ok", "bot 7123456789:[redacted] ok"),
        ("password=hunter2hunter2", "password=[redacted]"),
        ("DB_PASSWORD: \"s3cr3t!!\"", "DB_PASSWORD: \"[redacted]\""),
        ("Authorization: Bearer abc.def123456", "Authorization: Bearer [redacted]"),
        ("postgres://me:pa55word@host/db", "postgres://me:[redacted]@host/db"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIB\n", "[redacted]\n"),
        ("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\nafter", "[redacted]\nafter"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[redacted]"),
    ] {
        assert_eq!(redact(text), expected, "{text:?}");
        assert_eq!(redact_and_count(text), (expected.into(), 1), "{text:?}");
    }
}

#[test]
fn m16_redacted_secrets_are_counted() {
    let two = "password=hunter2hunter2 and ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    assert_eq!(redact_and_count(two), ("password=[redacted] and [redacted]".into(), 2));
    assert_eq!(redact_and_count("[redacted] before"), ("[redacted] before".into(), 0));
    // An earlier redaction is not a secret, and does not hide a secret next to it.
    assert_eq!(redact_and_count("password=hunter2x[redacted]"), ("password=[redacted]".into(), 1));
    let url = "postgres://me:[redacted]@host/db";
    assert_eq!(redact_and_count(url), (url.into(), 0));
}

#[test]
fn text_without_secrets_is_unchanged() {
    for text in [
        "the token budget is 4000 tokens",
        "token: String, secret: Option<Secret>",
        "max_tokens: 300",
        "task-12 and risk-averse sk-1",
        "echo $password | base64 -d",
        "password:\n  oauth2_provider:\n    x",
        "token:\n  uses utf8 here",
        "{{ password | hash('sha512') }}",
        "| token | count2 |",
        "password: **kwargs",
        "see https://x.test/a",
        "tokens = count_tokens(text)",
        "password = $PASSWORD",
    ] {
        assert_eq!(redact(text), text);
    }
}

/// The seed of the generated texts.
const SEED: u64 = 7;

#[test]
fn m16_generated_secrets_of_every_kind_are_redacted() {
    let samples = test_secrets::secret_samples(SEED, test_counts::count(2, 20));
    let leaks: Vec<_> = samples.iter().filter(|sample| sample.is_leaked_by(&redact(&sample.text))).collect();
    let kinds: std::collections::BTreeSet<_> = samples.iter().map(|sample| sample.kind).collect();
    assert!(samples.len() >= 500 && kinds.len() >= 150, "{} samples, {} kinds", samples.len(), kinds.len());
    assert!(leaks.len() * 100 <= samples.len() * 2, "{leaks:#?}");
}

#[test]
fn harmless_texts_are_unchanged() {
    let texts = test_secrets::harmless_texts(SEED, test_counts::count(5_000, 50_000));
    let changed: Vec<_> = texts.iter().filter(|text| redact(text).as_ref() != text.as_str()).collect();
    assert!(changed.len() * 200 <= texts.len(), "{changed:#?}");
}

#[test]
fn redacting_twice_changes_nothing() {
    for sample in test_secrets::secret_samples(SEED, 2) {
        let once = redact(&sample.text).into_owned();
        assert_eq!(redact_and_count(&once), (once.as_str().into(), 0), "{}: {:?}", sample.kind, sample.text);
    }
}

#[test]
fn every_rule_compiles_and_has_words() {
    let rules = &rule_set::builtin_rules().rules;
    assert!(rules.len() >= 150);
    for rule in rules {
        assert!(!rule.record.words.is_empty(), "{}", rule.name());
        assert!(rule.record.words.iter().all(|word| word.len() <= scan::WORD_BYTES_MAX), "{}", rule.name());
        assert!(!rule.pattern().is_match(b""), "{}", rule.name());
        assert!(!rule.is_allowed(b"aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z"), "{}", rule.name());
    }
}

#[test]
fn the_work_is_linear_in_the_length_of_the_text() {
    for unit in [
        "password=token=key=",
        "sk-sk_eyJghp_AKIA",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n",
        "https://a:b:c",
        "://://",
        "password=hunter2hunter2 ",
        "Cookie: session=",
        "adafruit = atlasv1 sourcegraph ",
        "curl -u a:b ",
        "sk-ab-",
        "-----END RSA PRIVATE KEY-----",
        "MIIBaB3dE5fG7hI9jK1l\n-----END RSA PRIVATE KEY-----\n",
        "mysql -phunter2 ",
        "Cookie: a=b; sid=x7kQ2p; ",
        "Authorization: Basic dXNlcjpwYXNz ",
        "*:*:*:me:hunter2 ",
        "echo a | sudo -S ",
        "MTk4.abcdef.",
        "MTk4NjIyMTk4NjIyMTk4NjIy.abcdef.MTk4NjIyMTk4NjIyMTk4NjIyMTk4 ",
        "a**b ghp_**",
        "gh**p_`",
        "b3BlbnNzaC1rZXktdjEAAAA\n",
        "password: \"a b ",
        "0123456789abcdef0123456789abcdef-us1",
        "$6$a$b",
    ] {
        let counts = [100_000, 200_000, 400_000].map(|length| {
            let result = scan::find_matches(&unit.repeat(length / unit.len()));
            result.attempts * scan::WINDOW_BYTES as u64 + result.examined
        });
        // Twice the text is twice the work, and a constant.
        let constant = 64 * scan::WINDOW_BYTES as u64;
        assert!(
            counts[1] <= 2 * counts[0] + constant && counts[2] <= 2 * counts[1] + constant,
            "{unit:?}: {counts:?}"
        );
    }
}

#[test]
fn forms_that_were_missed_before_are_redacted() {
    let aws = ["aB3dE5fG7hI9", "/K1lM3nO5pQ7rS9", "/U1vW3xY5zA7b"].concat();
    let hex = "0123456789abcdef".repeat(2);
    let segue_key = format!("segue_{}_{}", "0123456789abcdef", "0123456789abcdef".repeat(4));
    for (before, secret, after) in [
        ("AWS_SECRET_ACCESS_KEY=", aws.as_str(), ""),
        ("api key: ", &hex, " in the vault"),
        ("password is ", "Tr0ub4dor&3", ", I think"),
        ("Passwort: ", "Sommer2024", ""),
        ("contraseña: ", "Verano2024", ""),
        ("CONTRASEÑA=", "Verano2024", ""),
        ("mot de passe : ", "Soleil2024", ""),
        ("Пароль: ", "Leto2024x", ""),
        ("密码：", "xiaTian2024", ""),
        ("**Password:** ", "hunter2hunter2", " for staging"),
        ("the split password:\n  ", "hunter2hunter2", "\nand more"),
        ("| DB password | ", "hunter2hunter2", " |"),
        ("\x1b[31mpassword\x1b[0m=\x1b[32m", "hunter2hunter2", "\x1b[0m"),
        ("\x1b[01;31mAPI_TOKEN\x1b[m\x1b[K=", "q8Zt3Lw9Xk2Vn5Rb", ""),
        ("{\"name\": \"DB_PASSWORD\", \"value\": \"", "hunter2hunter2", "\"}"),
        ("- name: DB_PASSWORD\n  value: ", "hunter2hunter2", "\n"),
        ("<add key=\"ApiKey\" value=\"", "q8Zt3Lw9Xk2Vn5Rb", "\"/>"),
        ("the key is ", &segue_key, ""),
        ("{\"AWS_SECRET_ACCESS_KEY\":\"", &aws.replace('/', "\\/"), "\"}"),
        ("DEPLOY_KEY: ", "q8Zt3Lw9Xk2Vn5Rb", ""),
        ("AccountKey=", "q8Zt3Lw9Xk2Vn5Rbq8Zt3Lw9Xk2Vn5Rb==", ";EndpointSuffix=x"),
        ("Cookie: session=", "q8Zt3Lw9Xk2V", "; theme=dark"),
        ("ENCRYPTION_KEY=", &hex, ""),
        ("//registry.test/:_authToken=", "q8Zt3Lw9Xk2Vn5Rb", ""),
        ("let api_key: String = \"", "q8Zt3Lw9Xk2Vn5Rb", "\";"),
        ("{\\\"token\\\": \\\"", "q8Zt3Lw9Xk2Vn5Rb", "\\\"}"),
        ("redis://:", "pa55word", "@cache/0"),
    ] {
        assert_eq!(
            redact_and_count(&format!("{before}{secret}{after}")),
            (format!("{before}{REDACTED}{after}").into(), 1)
        );
    }
}

#[test]
fn reports_name_the_line_the_kind_and_the_rule_without_the_secret() {
    let token = ["ghp_", "q8Zt3Lw9Xk2Vn5Rbq8Zt3Lw9Xk2Vn5RbAb12"].concat();
    let reports = find_secrets(&format!("fine\n  x {token}\npassword: hunter2!x\n"));
    let lines: Vec<_> = reports
        .iter()
        .map(|found| {
            format!("{}:{} {} [{}] {}", found.line, found.column, found.kind, found.rule, found.masked)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "2:5 github-pat [gitleaks 8.30.1: github-pat] ghp_… (40 characters)",
            "3:11 password [segue: password] … (9 characters)"
        ]
    );
}

#[test]
fn patterns_of_the_user_add_secrets_and_exceptions() {
    let patterns = [("badge".to_owned(), r"\bB-(\d{6})\b".to_owned())].into();
    install_patterns(UserPatterns::compile(&patterns, &["hunter2x".to_owned()]).unwrap());
    assert_eq!(
        redact("badge B-123456, password=hunter2x, password=hunter2y"),
        "badge B-[redacted], password=hunter2x, password=[redacted]"
    );
    assert_eq!(find_secrets("B-123456")[0].rule, "configuration: badge");
    install_patterns(UserPatterns::default());
    assert_eq!(redact("badge B-123456"), "badge B-123456");
}

#[test]
fn invalid_patterns_are_refused_with_their_name() {
    let compile =
        |pattern: &str| UserPatterns::compile(&[("mine".to_owned(), pattern.to_owned())].into(), &[]);
    assert_eq!(compile("(abc").unwrap_err().to_string(), "compile the pattern `mine`: unclosed group");
    assert_eq!(compile("x*").unwrap_err(), PatternError::Empty("mine".to_owned()));
    let many = vec!["x".to_owned(); 101];
    assert_eq!(UserPatterns::compile(&Default::default(), &many).unwrap_err(), PatternError::TooMany(101));
}
