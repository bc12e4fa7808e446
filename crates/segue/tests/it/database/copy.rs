//! `segue db copy`: copies between SQLite and PostgreSQL in both directions are equal row by row, and an
//! interrupted copy resumes where it stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use serde_json::Value;
use test_postgres::{CutPoint, Proxy, TestDatabase};

use super::address::connect_postgres;
use crate::sandbox::TestSandbox;

/// Tables that are rebuilt in the target or not copied at all.
const SKIPPED_TABLES: [&str; 4] = ["schema_migrations", "replicas", "sqlite_", "search_index"];

/// Returns a home whose database has rows in every table: some are written by commands, the others by SQL
/// with values that the program accepts but rarely writes.
fn fully_populated_home() -> TestSandbox {
    let sandbox = TestSandbox::new().with_file_database();
    let run = |args: &[&str]| {
        let output = sandbox.run(args);
        assert!(output.code == 0 || output.code == 3, "{args:?}: {output:?}");
    };
    let path = sandbox.write_session();
    run(&["import", &path]);
    run(&["threads", "fork", "last"]);
    run(&["threads", "rewind", "last", "4"]);
    run(&["threads", "rename", "last", "Grüße, 世界"]);
    run(&["remember", "The clock is passed in."]);
    run(&["store", "put", "notes/birds", "heron", "{\"legs\": 2}"]);
    run(&["keys", "create", "alice", "--label", "laptop"]);
    let accept = sandbox.write_file("accept.json", "{\"decisions\":[{\"type\":\"approve\"}]}");
    let first = sandbox.threads().last().unwrap()["thread_id"].as_str().unwrap().to_owned();
    run(&["handoff", &first, "--decision-file", &accept]);
    run(&["search", "clock", "--everywhere"]);
    let connection = Connection::open(sandbox.home().join("segue.db")).unwrap();
    connection.execute_batch(&edge_case_sql()).unwrap();
    sandbox
}

/// Rows for the tables that the commands above leave empty. They contain dates outside the range of 64-bit
/// nanoseconds, texts with NUL, and texts with the character that precedes an escaped character.
const EDGE_CASE_ROWS: &str = "
    PRAGMA foreign_keys = ON;
    INSERT INTO thread_heads (thread_key, thread_id, last_seq, base_seq, updated_at) VALUES (4000, 'gone', 9, 9, NULL);
    INSERT INTO thread_heads (thread_key, thread_id, last_seq, assistant_id, status, updated_at, in_subagent)
        VALUES (5000, '01890000-0000-7000-8000-000000000001', 3, 'agent@bob', 'idle', '2026-01-01T00:00:00.000000000Z', 0);
    INSERT INTO threads (thread_key, thread_id, assistant_id, name, metadata, created_at)
        VALUES (5000, '01890000-0000-7000-8000-000000000001', 'agent@bob', 'a' || char(0) || 'b', '{}', '2026-01-01T00:00:00.000000000Z');
    INSERT INTO events (event_row, thread_key, seq, event_id, category, event_type, created_at, turn_index, event_key, content) VALUES
        (900001, 5000, 1, randomblob(16), 'trace', 'x', '0001-01-01T00:00:00.000000000Z', 42, 'a' || char(0) || 'b', '1'),
        (900002, 5000, 2, randomblob(16), 'trace', 'x', -1, NULL, char(0) || char(1114110), '\"' || char(1114110) || '0' || char(1114110) || '\"'),
        (900003, 5000, 3, randomblob(16), 'trace', 'x', 9223372036854775807, NULL, NULL, '\"";

/// Returns the SQL that inserts all edge cases, one of them with a long text.
fn edge_case_sql() -> String {
    let long = "long ".repeat(300_000);
    format!("{EDGE_CASE_ROWS}{long}\"');
    INSERT INTO superseded VALUES (5000, 1, 2);
    INSERT INTO runs (run_id, thread_key, assistant_id, status, lease_owner, lease_until, input_tokens, output_tokens,
            cache_read_tokens, cache_write_tokens, first_seq, last_seq, created_at, updated_at, began) VALUES
        (x'0001', 5000, 'agent@bob', 'success', NULL, NULL, 1, 2, 3, 4, 1, 3, 5, 6, 1),
        (x'0002', 5000, 'agent@bob', 'pending', 'somebody', 1700000000000000001, 0, 0, 0, 0, 0, 0, 7, 8, 0);
    INSERT INTO run_requests VALUES (x'0002', '{{\"a\":1}}', '{{}}');
    INSERT INTO run_feedback VALUES (5000, x'0001', 'bob', -1, 'no' || char(0), 9, 10);
    INSERT INTO checkpoints (thread_key, checkpoint_id, run_id, step, head_seq, channels, private, activities, created_at)
        VALUES (5000, x'01', x'0001', 1, 3, '{{}}', '{{}}', '[]', 11);
    INSERT INTO steps (thread_key, head_seq, checkpoint_id, run_id, step, created_at, source, number)
        VALUES (5000, 3, x'01', x'0001', 1, 11, 'rewind', 2);
    INSERT INTO checkpoints_left VALUES (5000, x'0001', x'01', '{{}}', '2026-01-01T00:00:00.000000000Z');
    INSERT INTO artifact_bytes VALUES (x'abcd', randomblob(3000000)), (x'00', x'');
    INSERT INTO artifacts VALUES (5000, x'abcd', 'image/png', 12), (5000, x'00', 'text/plain', 12);
    INSERT INTO interrupts (rowid, interrupt_id, thread_id, run_id, node, payload, status, raised_seq, created_at) VALUES
        (77, 'zz', '01890000-0000-7000-8000-000000000001', 'r', 'n', '{{}}', 'pending', 3, '2026-01-01T00:00:00.000000000Z'),
        (78, 'aa', '01890000-0000-7000-8000-000000000001', 'r', 'n', '{{}}', 'pending', 3, '2026-01-01T00:00:00.000000000Z');
    INSERT INTO outbox VALUES ('k', 'a' || char(0), 'p', 0, '2026-01-01T00:00:00.000000000Z'), ('k', 'a' || char(1), 'p', 1, 't'),
        ('k', 'a' || char(1114110), 'p', 1, 't');
    INSERT INTO medium_term_memory VALUES ('m1', 'agent@bob', 'Of herons.', 1, 2, '2026-01-01T00:00:00.000000000Z');
    UPDATE summaries SET summary_key = 31, turn_count = 2, thread_key = 5000, project_key = NULL WHERE id = 'm1';
    INSERT INTO summary_threads VALUES (5000, 3, 31);
    INSERT INTO dissolved_summaries VALUES (5000, 'm0');
    INSERT INTO agents (agent_key, agent_id, turn_floor) VALUES (55, 'agent@bob', 41);
    INSERT INTO turns VALUES (55, 42, 900001, 1, 31);
    INSERT INTO embedding_models VALUES (7, 'tiny' || char(0), '2026-01-01', 5);
    INSERT INTO embeddings VALUES ((5000 << 35) + 8, 7, x'7f8000ff');
    INSERT INTO embedding_heads VALUES (5000, 7, 3);
    INSERT INTO memory_facts (fact_id, agent_id, project_key, kind, text, text_key, quote, thread_key, seq, role, summary_id, replaces,
            state, decided_text, decided_at, created_at)
        VALUES ('f1', 'agent@bob', 0, 'name', 'a' || char(0), 'a', '', 5000, 3, 'user', 'm1', NULL, 'declined', NULL,
            '2026-01-01T00:00:00.000000000Z', '2026-01-01T00:00:00.000000000Z');")
}

/// Returns every row of every copied table in its stored form.
fn stored_rows(path: &Path) -> BTreeMap<String, Vec<Vec<Stored>>> {
    let connection = Connection::open(path).unwrap();
    let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    let mut all = BTreeMap::new();
    for name in names.into_iter().filter(|name| !SKIPPED_TABLES.iter().any(|left| name.starts_with(left))) {
        let select = match name.as_str() {
            // The search index has its own progress columns, which a copy does not preserve. A
            // copy may also raise `turn_floor` to the number of existing turns.
            "thread_heads" => "SELECT thread_key, thread_id, last_seq, base_seq, copied_count, message_count, has_prompt,
                in_subagent, assistant_id, status, updated_at, owner, project_key FROM thread_heads".to_owned(),
            "handoff_index" => "SELECT handoff_key, handoff_id FROM handoff_index".to_owned(),
            "agents" => "SELECT agent_key, agent_id, max(turn_floor,
                ifnull((SELECT max(turn_index) FROM turns WHERE turns.agent_key = agents.agent_key), 0)) FROM agents".to_owned(),
            "interrupts" => "SELECT rowid, * FROM interrupts".to_owned(),
            name => format!("SELECT * FROM {name}"),
        };
        let mut statement = connection.prepare(&select).unwrap();
        let width = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<Vec<Stored>>>()
        };
        let mut rows: Vec<Vec<Stored>> =
            statement.query_map([], read).unwrap().map(|row| row.unwrap()).collect();
        rows.sort_by_key(|row| format!("{row:?}"));
        all.insert(name, rows);
    }
    all
}

fn run_copy(sandbox: &TestSandbox, from: &str, to: &str) -> Value {
    sandbox.json(&["db", "copy", "--from", from, "--to", to, "--json"])
}

#[test]
fn all_rows_are_equal_after_a_copy_to_the_other_engine_and_back() {
    let (sandbox, database, second) =
        (fully_populated_home(), TestDatabase::create().unwrap(), TestDatabase::create().unwrap());
    let home = sandbox.home().join("segue.db");
    let (file, back) = (format!("sqlite:{}", home.display()), sandbox.work_folder().join("back.db"));
    let before = stored_rows(&home);
    for (name, rows) in &before {
        assert!(!rows.is_empty(), "something is in {name}");
    }
    let (target, second_target) = (database.socket_url(), second.url());
    let report = run_copy(&sandbox, &file, &target);
    assert_eq!((&report["outcome"], &report["is_resumed"]), (&"whole".into(), &false.into()), "{report}");
    assert_eq!(report["tables"].as_array().unwrap().len(), before.len(), "{report}");
    let report_between_servers = run_copy(&sandbox, &target, &second_target);
    assert_eq!(report_between_servers["tables"], report["tables"], "from server to server");
    let report_to_file = run_copy(&sandbox, &second_target, &format!("sqlite:{}", back.display()));
    assert_eq!(report_to_file["tables"], report["tables"], "from the server into a file");
    let after = stored_rows(&back);
    for (name, rows) in &before {
        assert_eq!(rows, &after[name], "{name}");
    }
    for url in [&target, &second_target, &format!("sqlite:{}", back.display())] {
        assert_database_usable(&sandbox, url, &file);
    }
}

/// Checks that the copied database returns the same results as the original, and that new rows in it do not
/// reuse an id.
fn assert_database_usable(sandbox: &TestSandbox, url: &str, before: &str) {
    let at = |url: &str, args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--json", "--database-url", url]).collect();
        sandbox.json(&args)
    };
    for args in [
        &["threads", "list"][..],
        &["history", "last"],
        &["search", "clock", "--everywhere"],
        &["keys", "list"],
        &["handoff", "stats"],
    ] {
        assert_eq!(at(url, args), at(before, args), "{args:?} in {url}");
    }
    assert_eq!(
        at(url, &["search", "heron", "--everywhere"])["hits"],
        at(before, &["search", "heron", "--everywhere"])["hits"]
    );
    let checks = at(url, &["doctor"]);
    let fails: Vec<_> =
        checks.as_array().unwrap().iter().filter(|check| check["verdict"] == "fail").collect();
    assert!(fails.is_empty(), "{fails:?}");
    let more =
        sandbox.write_file("more.jsonl", crate::sandbox::sample_session().replace("11111111", "22222222"));
    let imported = at(url, &["import", &more]);
    assert_eq!(imported["threads"][0]["is_new"], true, "{imported}");
    assert_eq!(at(url, &["threads", "fork", "last"])["parent_kind"], "fork");
}

#[test]
fn a_killed_copy_resumes_and_repairs_rows_that_differ() {
    let (sandbox, database) = (fully_populated_home(), TestDatabase::create().unwrap());
    let proxy = Proxy::start(database.address()).unwrap();
    let file = format!("sqlite:{}", sandbox.home().join("segue.db").display());
    let (slow, target) = (database.url_through(proxy.address()), database.url());
    proxy.delay(Duration::from_millis(4), Duration::from_millis(4));
    let args = ["db", "copy", "--from", &file, "--to", &slow, "--json"];
    let mut child = sandbox.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let server = connect_postgres(&target);
    let has = |sql: &str| server.query(sql, &[]).is_ok_and(|rows| !rows.is_empty());
    while !has("SELECT 1 FROM events LIMIT 1") {
        assert!(child.try_wait().unwrap().is_none(), "it is killed in the middle");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let refused = sandbox.run(&["threads", "list", "--database-url", &target]);
    refused.assert_error(1, "is not finished");
    sandbox.run(&["db", "copy", "--from", &target, "--to", "sqlite:x.db"]).assert_error(1, "is not finished");
    let second_target = TestSandbox::new().with_file_database();
    assert_eq!(second_target.run(&["db", "migrate"]).code, 0);
    second_target.run(&["db", "copy", "--to", &target]).assert_error(1, "is not finished");

    // Wait until the PostgreSQL server has noticed the lost client and released its advisory lock.
    while has(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    ) {}
    server
        .batch_execute(
            "UPDATE events SET content = '\"flipped\"' WHERE event_row = (SELECT min(event_row) FROM events)",
        )
        .unwrap();
    server
        .batch_execute("DELETE FROM events WHERE event_row = (SELECT min(event_row) + 1 FROM events)")
        .unwrap();
    server.batch_execute("INSERT INTO outbox VALUES ('extra', 'x', 'p', 0, 't')").unwrap();
    // Source and target are the same as in the first call. Only the connection to the target differs
    // (direct instead of through the proxy).
    let report = sandbox.json(&["db", "copy", "--from", &file, "--to", &target, "--json"]);
    assert_eq!(
        (&report["outcome"], &report["is_resumed"], &report["changed_rows"]),
        (&"whole".into(), &true.into(), &2.into()),
        "{report}"
    );
    let back = sandbox.work_folder().join("back.db");
    run_copy(&sandbox, &target, &format!("sqlite:{}", back.display()));
    assert_eq!(stored_rows(&sandbox.home().join("segue.db"))["events"], stored_rows(&back)["events"]);
    assert_eq!(stored_rows(&sandbox.home().join("segue.db"))["outbox"], stored_rows(&back)["outbox"]);
}

#[test]
fn a_broken_connection_stops_a_copy_and_the_next_call_resumes_it() {
    let (sandbox, database) = (fully_populated_home(), TestDatabase::create().unwrap());
    let proxy = Proxy::start(database.address()).unwrap();
    let file = format!("sqlite:{}", sandbox.home().join("segue.db").display());
    let url = database.url_through(proxy.address());
    for place in [
        CutPoint::Request("COMMIT"),
        CutPoint::Answer("COMMIT"),
        CutPoint::ToServer(200_000),
        CutPoint::ToClient(50_000),
    ] {
        proxy.cut_at(place);
        let output = sandbox.run(&["db", "copy", "--from", &file, "--to", &url]);
        output.assert_error(1, "reach postgres://segue@");
        proxy.restore();
    }
    let report = run_copy(&sandbox, &file, &url);
    assert_eq!(report["outcome"], "whole", "{report}");
}

#[test]
fn only_an_empty_database_is_copied_into() {
    let (sandbox, database) = (fully_populated_home(), TestDatabase::create().unwrap());
    let url = database.socket_url();
    assert_eq!(sandbox.run(&["store", "put", "notes", "a", "{\"b\": 1}", "--database-url", &url]).code, 0);
    sandbox.run(&["db", "copy", "--to", &url]).assert_error(2, "it is not empty");
    let home = format!("sqlite:{}", sandbox.home().join("segue.db").display());
    sandbox.run(&["db", "copy", "--to", &home]).assert_error(2, "it is the database to copy");
    sandbox.run(&["db", "copy", "--from", &url, "--to", &url]).assert_error(2, "it is the database to copy");
    sandbox
        .run(&["db", "copy", "--from", "sqlite:none.db", "--to", &url])
        .assert_error(2, "find the database");
    sandbox.run(&["db", "copy", "--to", "mysql://a:hunter2@h/d"]).assert_error(1, "it begins with neither");
    assert_eq!(sandbox.run(&["db", "copy"]).code, 2);
}
