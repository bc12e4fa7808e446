//! Databases of a later version: every command refuses them with one sentence and a hint, and writes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::SandboxedHome;
use super::fixture::DatabaseEngine;

/// Commands that open the database to read, to write, to serve, and to change it as a whole.
const COMMANDS: [&[&str]; 9] = [
    &["threads", "list"],
    &["import", "session.jsonl"],
    &["handoff", "session.jsonl", "--apply"],
    &["search", "clock"],
    &["run", "-p", "hello"],
    &["serve", "--addr", "127.0.0.1:0"],
    &["db", "migrate"],
    &["db", "backup", "--to", "backup.db"],
    &["prune", "--older-than", "90d", "--yes", "--vacuum"],
];

/// Returns the content of every file in a folder and the folders below it.
fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(read_files(&entry.path())),
            false => {
                files.insert(entry.path().display().to_string(), fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

/// Returns a home with a thread, whose database has a schema that this version does not know.
fn home_of_later_version(engine: DatabaseEngine, sql: &str) -> SandboxedHome {
    let home = SandboxedHome::empty(engine);
    let session = home.sandbox.write_session();
    assert_eq!(home.sandbox.run(&["import", &session]).code, 0);
    match &home.database {
        Some(database) => database.execute(sql).unwrap(),
        None => home.sandbox.execute_sql(sql),
    }
    home
}

/// Runs all commands in the home and checks that each is refused.
#[track_caller]
fn assert_all_refused(home: &SandboxedHome) {
    for command in COMMANDS {
        let output = home.sandbox.run(command);
        output.assert_error(1, "a newer version of Segue wrote it (its schema is version 999, ");
        assert!(output.stderr.lines().nth(1).unwrap().contains("update segue"), "{output:?}");
        assert_eq!(output.stdout, "", "{command:?}");
    }
    let checks = home.sandbox.run(&["doctor", "--json"]);
    assert!(checks.code == 1 && checks.stdout.contains("a newer version of Segue wrote it"), "{checks:?}");
}

#[test]
fn a_sqlite_database_of_a_later_version_is_refused_and_keeps_its_bytes() {
    let home = home_of_later_version(DatabaseEngine::Sqlite, "PRAGMA user_version = 999");
    let before = read_files(&home.sandbox.home());
    assert_all_refused(&home);
    assert!(before == read_files(&home.sandbox.home()), "the files are the same");
}

#[test]
fn a_postgresql_database_of_a_later_version_is_refused_and_keeps_its_rows() {
    let insert = "INSERT INTO segue_migrations (version, name, checksum) VALUES (999, 'later', '')";
    let home = home_of_later_version(DatabaseEngine::Postgres, insert);
    let rows = || home.database.as_ref().unwrap().dump_rows().unwrap();
    let (before, files) = (rows(), read_files(&home.sandbox.home()));
    assert_all_refused(&home);
    assert_eq!(before, rows());
    assert!(files == read_files(&home.sandbox.home()), "the files are the same");
}
