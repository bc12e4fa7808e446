//! Remembered rules: their lifetime, their file, and concurrent processes.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn rule(text: &str) -> PermissionRule {
    text.parse().unwrap()
}

#[test]
fn a_rule_is_remembered_for_its_scope() {
    let home = tempfile::tempdir().unwrap();
    let file = project_rules_path(home.path(), home.path());
    let settings = Permissions { deny: vec![rule("execute(rm *)")], ..Permissions::default() };
    let open = || RuleBook::open(&settings, Vec::new(), Some(file.clone())).unwrap();
    let book = open();
    book.remember(rule("edit_file(src/**)"), RuleScope::Session).unwrap();
    assert!(!file.exists());
    for _ in 0..2 {
        book.remember(rule("execute(cargo test *)"), RuleScope::Project).unwrap();
    }
    book.remember(rule("execute(grep \"a\\*\" 'b')"), RuleScope::Project).unwrap();
    assert_eq!(book.rules().permissions.allow.len(), 3);
    let again = open().rules();
    assert_eq!(again.permissions.allow, [rule("execute(cargo test *)"), rule("execute(grep \"a\\*\" 'b')")]);
    assert_eq!(again.permissions.deny, settings.deny);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    let file_count = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(file_count, 2, "the folder contains the file and its lock, and no temporary file");
}

#[test]
fn the_users_own_text_in_the_file_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("permissions.toml");
    fs::write(&file, "# mine\nallow = [\"ls\"] # as well\ndeny = [\"execute(curl *)\"]\n").unwrap();
    let book = RuleBook::open(&Permissions::default(), Vec::new(), Some(file.clone())).unwrap();
    book.remember(rule("glob"), RuleScope::Project).unwrap();
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "# mine\nallow = [\"ls\",\n    \"glob\",\n] # as well\ndeny = [\"execute(curl *)\"]\n"
    );
}

#[test]
fn an_invalid_file_is_an_error_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("permissions.toml");
    for (text, expected) in [
        ("allow = [\"rm -rf\"]", "begins with the name of a tool"),
        ("alow = []", "unknown field `alow`"),
        ("allow", "TOML parse error"),
    ] {
        fs::write(&file, text).unwrap();
        let error = RuleBook::open(&Permissions::default(), Vec::new(), Some(file.clone())).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let book = RuleBook::open(&Permissions::default(), Vec::new(), None).unwrap();
    assert!(matches!(book.remember(rule("ls"), RuleScope::Project), Err(Error::NoProject)));
}

#[test]
fn each_workspace_has_its_own_file() {
    let home = Path::new("home");
    let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = project_rules_path(home, left.path());
    assert_eq!(file, project_rules_path(home, &left.path().join(".")));
    assert_ne!(file, project_rules_path(home, right.path()));
    assert!(file.starts_with("home/projects") && file.ends_with("permissions.toml"));
}

#[test]
fn j7_no_rule_is_lost_when_several_processes_remember_rules_at_once() {
    let home = tempfile::tempdir().unwrap();
    let file = project_rules_path(home.path(), home.path());
    let open = || RuleBook::open(&Permissions::default(), Vec::new(), Some(file.clone())).unwrap();
    std::thread::scope(|scope| {
        for process in 0..4 {
            let book = open();
            scope.spawn(move || {
                for number in 0..8 {
                    book.remember(rule(&format!("execute(make p{process} n{number})")), RuleScope::Project)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(open().rules().permissions.allow.len(), 32);
}
