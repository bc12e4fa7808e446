//! Choice of the database (option, environment, configuration) and the errors for a database that cannot be
//! used. No output contains the password of a database URL.

use test_postgres::{Cluster, ClusterSettings, TestDatabase, TlsMode};

use crate::sandbox::{ProgramOutput, TestSandbox};

const PASSWORD: &str = "segue:segue@";

#[track_caller]
fn assert_error(output: &ProgramOutput, (code, what, hint): (i32, &str, &str)) {
    output.assert_error(code, what);
    let all_output = format!("{}{}", output.stdout, output.stderr);
    assert!(output.stderr.lines().nth(1).unwrap().contains(hint), "{all_output}");
    assert!(!all_output.contains("hunter2") && !all_output.contains(PASSWORD), "{all_output}");
}

#[test]
fn the_database_comes_from_the_option_the_environment_or_the_configuration() {
    let (database, other_database) = (TestDatabase::create().unwrap(), TestDatabase::create().unwrap());
    let mut sandbox = TestSandbox::new().with_file_database();
    let home = sandbox.run(&["threads", "list", "--json"]);
    assert_eq!(home.code, 0, "{home:?}");
    let path = sandbox.write_session();
    std::fs::write(
        sandbox.home().join("config.toml"),
        format!("[database]\nurl = \"{}\"\nmax_connections = 3\n", database.url()),
    )
    .unwrap();
    assert_eq!(sandbox.run(&["import", &path]).code, 0);
    assert_eq!(sandbox.threads().len(), 1);
    let file = format!("sqlite:{}", sandbox.home().join("segue.db").display());
    assert_eq!(
        sandbox.json(&["threads", "list", "--json", "--database-url", &file]).as_array().unwrap().len(),
        0
    );
    sandbox.set_variable("SEGUE_DATABASE_URL", &other_database.url());
    assert_eq!(sandbox.threads().len(), 0, "the environment goes before the settings");
    let first = sandbox.json(&["threads", "list", "--json", "--database-url", &database.socket_url()]);
    assert_eq!(first.as_array().unwrap().len(), 1, "the option goes before the environment");
}

#[test]
fn the_doctor_reports_the_database_and_its_connections() {
    let database = TestDatabase::create().unwrap();
    let sandbox = TestSandbox::new().with_file_database();
    let checks = sandbox.json(&["doctor", "--json", "--database-url", &database.url()]);
    let detail = |name: &str| {
        let found = checks.as_array().unwrap().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("{checks}"))["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail("database").starts_with("postgres://segue@127.0.0.1:"), "{checks}");
    assert!(detail("database").contains(": schema "), "{checks}");
    assert!(detail("pool").contains(" of 10 connections ("), "{checks}");
    assert!(detail("mirror").contains("handoff_store_status=ok"), "{checks}");
    assert!(!checks.to_string().contains(PASSWORD), "{checks}");
    let away = sandbox.run(&["doctor", "--json", "--database-url", "postgres://a:hunter2@127.0.0.1:1/x"]);
    assert_eq!(away.code, 1, "{away:?}");
    assert!(away.stdout.contains("failed to reach postgres://a@127.0.0.1:1/x"), "{away:?}");
    assert!(!away.stdout.contains("hunter2") && away.stdout.contains("\"fail\""), "{away:?}");
}

#[test]
fn a_database_that_cannot_be_opened_gives_one_error_line_and_a_hint() {
    let database = TestDatabase::create().unwrap();
    let sandbox = TestSandbox::new().with_file_database();
    let url = database.url();
    let name = url.rsplit('/').next().unwrap();
    let check = |url: &str, expected: (i32, &str, &str)| {
        assert_error(&sandbox.run(&["threads", "list", "--database-url", url]), expected);
    };
    let wrong = url.replace(PASSWORD, "segue:hunter2@");
    check(&wrong, (1, "password authentication failed", "check user, password, database"));
    check(
        &url.replace(name, "none"),
        (1, "database \"none\" does not exist", "check user, password, database"),
    );
    check(
        "postgres://a:hunter2@127.0.0.1:1/x",
        (1, "reach postgres://a@127.0.0.1:1/x: ", "start the server"),
    );
    check(
        "postgres://a:hunter2@nobody.invalid/x",
        (1, "reach postgres://a@nobody.invalid", "start the server"),
    );
    check(&format!("{url}?sslmode=require"), (1, "does not support TLS", "certificate"));
    check(
        &format!("{url}?sslmode=often"),
        (1, "unknown `sslmode=often`; use disable, prefer, require or verify-full", "SEGUE_DATABASE_URL"),
    );
    check("mysql://a:hunter2@h/d", (1, "it begins with neither", "postgres://USER"));
    check("sqlite:", (1, "it names no file", "sqlite:PATH"));
    check("postgres://a:hunter2@h:port/d", (1, "open postgres://…: ", "SEGUE_DATABASE_URL"));
    let readonly = format!("{url}?options=-c%20default_transaction_read_only%3Don");
    check(&readonly, (1, "permission denied or read-only", "GRANT CREATE"));
}

#[test]
fn a_server_without_a_valid_certificate_is_refused() {
    let server =
        Cluster::start_with(&ClusterSettings { tls: TlsMode::Offered, ..ClusterSettings::default() })
            .unwrap();
    let database = server.create_database().unwrap();
    let sandbox = TestSandbox::new().with_file_database();
    let list = |url: &str| sandbox.run(&["threads", "list", "--json", "--database-url", url]);
    assert_eq!(list(&format!("{}?sslmode=require", database.url())).code, 0);
    let verified = database.url().replace("127.0.0.1", "localhost");
    let root = server.certificate();
    let known = list(&format!("{verified}?sslmode=verify-full&sslrootcert={}", root.display()));
    assert_eq!(known.code, 0, "{known:?}");
    let refused =
        sandbox.run(&["threads", "list", "--database-url", &format!("{verified}?sslmode=verify-full")]);
    assert_error(&refused, (1, "TLS", "certificate"));
}

#[test]
fn a_database_of_a_newer_version_is_not_changed() {
    let database = TestDatabase::create().unwrap();
    let sandbox = TestSandbox::new().with_file_database();
    let url = database.socket_url();
    let made = sandbox.json(&["db", "migrate", "--json", "--database-url", &url]);
    assert_eq!((made["from"].as_u64(), made["to"] == made["from"]), (Some(0), false), "{made}");
    let second_run = sandbox.run(&["db", "migrate", "--database-url", &url]);
    assert!(second_run.code == 0 && second_run.stdout.contains("is up to date: schema"), "{second_run:?}");
    let server = connect_postgres(&url);
    server
        .batch_execute("INSERT INTO segue_migrations (version, name, checksum) VALUES (999, 'later', '')")
        .unwrap();
    for command in [&["threads", "list"][..], &["db", "migrate"][..]] {
        let args: Vec<&str> = command.iter().copied().chain(["--database-url", &url]).collect();
        assert_error(&sandbox.run(&args), (1, "its schema is version 999", "update segue"));
    }
}

/// Returns a connection of the test's own, separate from the program's.
pub fn connect_postgres(url: &str) -> postgres::Connection {
    postgres::Connection::open(&url.parse().unwrap()).unwrap()
}

#[test]
fn invalid_settings_are_reported_with_their_file() {
    let sandbox = TestSandbox::new().with_file_database();
    std::fs::create_dir_all(sandbox.home()).unwrap();
    for (text, what) in [
        ("max_connections = 0", "max_connections"),
        ("min_connections = 11", "min_connections"),
        ("url = \"mysql://a:hunter2@h/d\"", "database.url"),
        ("pool = 3", "unknown field"),
    ] {
        std::fs::write(sandbox.home().join("config.toml"), format!("[database]\n{text}\n")).unwrap();
        assert_error(&sandbox.run(&["threads", "list"]), (1, what, "fix the file"));
    }
}
