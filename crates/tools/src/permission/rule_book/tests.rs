//! Rules that are remembered, and for how long.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn rule(text: &str) -> PermissionRule {
    text.parse().unwrap()
}

#[test]
fn a_rule_is_remembered_for_as_long_as_the_person_said() {
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
    let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "beside the file there is its lock, and no temporary file");
}

#[test]
fn what_a_person_wrote_into_the_file_stays() {
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
fn a_file_that_holds_something_else_is_an_error_that_says_where() {
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
fn workspaces_have_files_of_their_own() {
    let home = Path::new("home");
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = project_rules_path(home, one.path());
    assert_eq!(file, project_rules_path(home, &one.path().join(".")));
    assert_ne!(file, project_rules_path(home, other.path()));
    assert!(file.starts_with("home/projects") && file.ends_with("permissions.toml"));
}

#[test]
fn j7_of_answers_that_several_processes_give_at_the_same_time_none_is_lost() {
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
