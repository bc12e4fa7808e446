//! `segue db backup`: a backup opens like any other database.

use std::os::unix::fs::PermissionsExt;

use test_postgres::TestDatabase;

use crate::sandbox::TestSandbox;

#[test]
fn a_backup_opens_like_any_database_and_only_its_owner_reads_it() {
    let server = TestDatabase::create().unwrap();
    for database_url in [None, Some(server.socket_url())] {
        let mut sandbox = TestSandbox::new().with_file_database();
        if let Some(url) = &database_url {
            sandbox.set_variable("SEGUE_DATABASE_URL", url);
        }
        let path = sandbox.write_session();
        assert_eq!(sandbox.run(&["import", &path]).code, 0);
        let before = sandbox.threads();
        let made = sandbox.json(&["db", "backup", "--json"]);
        let file = made["path"].as_str().unwrap().to_owned();
        let metadata = std::fs::metadata(&file).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(Some(metadata.len()), made["bytes"].as_u64());
        let beside: Vec<_> = std::fs::read_dir(sandbox.home().join("backups"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(beside.len(), 1, "nothing else is left: {beside:?}");

        let backup = format!("sqlite:{file}");
        let run_on_backup = |args: &[&str]| {
            let args: Vec<&str> = args.iter().copied().chain(["--json", "--database-url", &backup]).collect();
            sandbox.json(&args)
        };
        assert_eq!(run_on_backup(&["threads", "list"]).as_array().unwrap(), &before);
        assert_ne!(
            run_on_backup(&["search", "clock", "--everywhere"])["hits"].as_array().map(Vec::len),
            Some(0)
        );
        let checks = run_on_backup(&["doctor"]);
        let is_fine = |check: &serde_json::Value| check["verdict"] != "fail";
        assert!(checks.as_array().unwrap().iter().all(is_fine), "{checks}");
        sandbox.run(&["db", "backup", "--to", &file]).assert_error(2, "a file with this name exists");
    }
}

#[test]
fn a_failed_backup_leaves_no_file() {
    let sandbox = TestSandbox::new().with_file_database();
    sandbox.run(&["db", "backup", "--to", "x.db"]).assert_error(2, "find the database");
    assert_eq!(sandbox.run(&["db", "migrate"]).code, 0);
    sandbox.run(&["db", "backup", "--to", "none/x.db"]).assert_error(1, "none/x.db");
    let folder = sandbox.write_file("plain", "");
    sandbox.run(&["db", "backup", "--to", &format!("{folder}/x.db")]).assert_error(1, "x.db");
}
