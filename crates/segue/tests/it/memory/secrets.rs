//! `segue doctor --secrets`: what is redacted in a text, and why.

use crate::sandbox::TestSandbox;

/// A text with a secret in the second line. The secret has a `/`, as half of the keys of this kind have.
fn text_with_secret() -> (String, String) {
    let secret = ["aB3dE5fG7hI9/K1lM3nO5", "pQ7rS9/U1vW3xY5zA7b"].concat();
    (format!("settings:\nAWS_SECRET_ACCESS_KEY={secret}\nsee src/main.rs\n"), secret)
}

#[test]
fn m16_doctor_shows_what_is_redacted_and_why_and_never_the_secret() {
    let sandbox = TestSandbox::new();
    let (text, secret) = text_with_secret();
    let file = sandbox.write_file("settings.txt", text);
    let found = sandbox.run(&["doctor", "--secrets", &file]);
    assert_eq!(found.code, 4, "{found:?}");
    assert!(found.stdout.contains("2:23") && found.stdout.contains("1 secret in "), "{found:?}");
    assert!(!found.stdout.contains(&secret), "{found:?}");
    let listed = sandbox.run(&["doctor", "--secrets", &file, "--json"]);
    let reports: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((reports[0]["line"].as_u64(), reports.as_array().map(Vec::len)), (Some(2), Some(1)));
    assert!(!listed.stdout.contains(&secret), "{listed:?}");

    // A closed output does not hide the result.
    let mut closed = sandbox.command(&["doctor", "--secrets", &file]);
    let mut child = closed.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(4));

    let plain =
        sandbox.write_file("plain.txt", "see src/main.rs and 9fceb02d0ae598e95dc970b74767f19372d61af8\n");
    assert_eq!(sandbox.run(&["doctor", "--secrets", &plain]).code, 0);
    let missing = sandbox.run(&["doctor", "--secrets", "missing.txt"]);
    assert!(missing.code == 2 && missing.stderr.contains("hint: "), "{missing:?}");
}

#[test]
fn m16_the_configuration_adds_patterns_and_exceptions_of_secrets() {
    let sandbox = TestSandbox::new();
    let (text, _) = text_with_secret();
    let file = sandbox.write_file("settings.txt", text + "and TCK-123456\n");
    let configure = |settings: &str| {
        std::fs::create_dir_all(sandbox.home()).unwrap();
        std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
        sandbox.run(&["doctor", "--secrets", &file])
    };
    let added = configure("[secrets]\npatterns = { ticket = 'TCK-[0-9]{6}' }\nallow = ['aB3d.*']\n");
    assert!(added.stdout.contains("ticket") && added.stdout.contains("1 secret in "), "{added:?}");
    let invalid = configure("[secrets]\npatterns = { ticket = '(' }\n");
    assert!(invalid.code != 0 && invalid.stderr.contains("`ticket`"), "{invalid:?}");
    assert!(invalid.stderr.contains("hint: "), "{invalid:?}");
}
