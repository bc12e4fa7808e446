//! The mirror: `segue mirror`, `segue handoffs stats`, the doctor and `/metrics`, with a real PostgreSQL
//! database that is up, down, unresponsive, and up again.

mod bulk;
mod secrets;

use std::time::{Duration, Instant};

use postgres::{Pool, PoolSettings};
use serde_json::{Value, json};
use test_postgres::{Proxy, TestDatabase};

use crate::sandbox::{ProgramOutput, TestSandbox};
use crate::serve::owner_client;
use crate::server::ServeProcess;

/// A sandbox whose handoffs are mirrored, and the proxy to the mirror's database.
struct MirroredMachine {
    sandbox: TestSandbox,
    proxy: Proxy,
    database: TestDatabase,
}

impl MirroredMachine {
    fn new() -> Self {
        let database = TestDatabase::create().unwrap();
        let proxy = Proxy::start(database.address()).unwrap();
        let mut sandbox = TestSandbox::new();
        sandbox.set_variable("SEGUE_MIRROR_URL", &database.url_through(proxy.address()));
        Self { sandbox, proxy, database }
    }

    /// Hands off the sample session without a question.
    fn hand_off(&self) -> ProgramOutput {
        let output = self.sandbox.run(&["handoff", &self.sandbox.write_session(), "--apply", "--json"]);
        assert_eq!(output.code, 0, "{output:?}");
        output
    }

    fn mirror_status(&self) -> Value {
        self.sandbox.json(&["handoff", "export", "status", "--json"])
    }

    /// Waits until `holds` is true of the mirror's status.
    #[track_caller]
    fn wait_for_status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let started_at = Instant::now();
        loop {
            let status = self.mirror_status();
            if holds(&status) {
                return status;
            }
            assert!(started_at.elapsed() < Duration::from_secs(120), "no {what}: {status}");
        }
    }

    /// Returns the first column of the result as text, one text per row.
    fn query_rows(&self, sql: &str) -> Vec<String> {
        let sql = sql.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let second = Duration::from_secs(1);
        let settings = PoolSettings {
            min_idle: 0,
            max: 1,
            idle_timeout: second,
            max_lifetime: second,
            wait_timeout: second * 60,
        };
        let target = self.database.socket_url().parse().unwrap();
        let rows = runtime.block_on(async {
            let pool = Pool::open(target, settings).await;
            pool.with_connection(move |connection| connection.query(&sql, &[])).await
        });
        rows.unwrap().iter().map(|row| row.text(0).unwrap().unwrap()).collect()
    }

    /// Runs programs against the unreachable mirror until its status is degraded.
    fn force_degraded(&self) {
        self.proxy.refuse();
        self.wait_for_status("degraded mirror", |status| {
            status["status"] == "degraded" || {
                assert_ne!(self.sandbox.run(&["handoff", "export", "flush"]).code, 0);
                false
            }
        });
    }
}

#[test]
fn g16_an_accepted_handoff_is_in_the_mirror_and_the_statistics_agree() {
    let mirrored = MirroredMachine::new();
    let report = mirrored.hand_off().json();
    let status = mirrored.wait_for_status("row", |status| status["waiting"] == 0);
    assert_eq!(
        (&status["configured"], &status["reachable"], &status["status"]),
        (&json!(true), &json!(true), &json!("ok"))
    );
    assert_eq!(status["rows"], json!({"summaries": 1, "deleted": 0}));
    assert!(status["last_success"].is_string() && status["last_error"].is_null(), "{status}");
    let sent = mirrored.sandbox.json(&["handoff", "export", "flush", "--json"]);
    assert_eq!(sent, json!({"sent": 0, "rejected": 0, "waiting": 0}));
    let stats = mirrored.sandbox.json(&["handoff", "stats", "--since", "1h", "--json"]);
    let accepted = &stats["outcomes"]["accepted"];
    assert_eq!((&stats["handoffs"], &accepted["handoffs"]), (&json!(1), &json!(1)), "{stats}");
    assert_eq!(accepted["messages"], report["coverage"]["messages"]);
    assert_eq!(accepted["items"], report["summary_json"]["body"].as_array().unwrap().len());
    assert!(accepted["decision_ms_p50"].is_u64());
    assert_eq!(
        mirrored.sandbox.json(&["handoff", "stats", "--since", "2999-01-01", "--json"])["handoffs"],
        0
    );
    let output = mirrored.sandbox.run(&["handoff", "stats"]);
    assert!(output.stdout.contains("accepted") && output.stdout.contains("UNVERIFIED"), "{output:?}");
}

#[test]
fn g16_a_handoff_without_its_mirror_works_and_is_exported_with_the_next_one() {
    let mirrored = MirroredMachine::new();
    mirrored.proxy.refuse();
    let first = mirrored.sandbox.run(&["handoff", &mirrored.sandbox.write_session(), "--apply"]);
    assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{first:?}");
    let status = mirrored.mirror_status();
    assert_eq!((&status["waiting"], &status["reachable"]), (&json!(1), &json!(false)), "{status}");
    assert!(
        status["oldest"].is_string() && status["problem"].as_str().unwrap().contains("refused"),
        "{status}"
    );
    mirrored.force_degraded();
    let doctor = mirrored.sandbox.run(&["doctor"]);
    assert!(doctor.stdout.contains("handoff_store_status=degraded, pending rows: 1"), "{doctor:?}");
    mirrored.proxy.restore();
    // The same session is the same thread. This is its second handoff.
    mirrored.hand_off();
    let status = mirrored.wait_for_status("backlog that is sent", |status| status["waiting"] == 0);
    assert_eq!((&status["status"], &status["rows"]["summaries"]), (&json!("ok"), &json!(2)), "{status}");
}

#[test]
fn g16_the_degraded_status_and_the_recovery_are_logged_once() {
    let mut mirrored = MirroredMachine::new();
    mirrored.sandbox.set_variable("SEGUE_LOG", "info");
    mirrored.proxy.refuse();
    let mut logged = mirrored.hand_off().stderr;
    for _ in 0..4 {
        logged += &mirrored.sandbox.run(&["handoff", "export", "flush"]).stderr;
    }
    mirrored.proxy.restore();
    for _ in 0..2 {
        logged += &mirrored.sandbox.run(&["handoff", "export", "flush"]).stderr;
    }
    let lines = |level: &str, status: &str| {
        let status = format!("handoff_store_status=\"{status}\"");
        logged.lines().filter(|line| line.contains(level) && line.contains(&status)).count()
    };
    assert_eq!((lines(" WARN ", "degraded"), lines(" INFO ", "ok")), (1, 1), "{logged}");
    let warning = logged.lines().find(|line| line.contains(" WARN ")).unwrap();
    for field in ["handoff_id=", "model_run_id=", "tokens_used="] {
        assert!(warning.contains(field), "{field}: {warning}");
    }
}

#[test]
fn g16_an_unresponsive_mirror_does_not_delay_the_exit_of_a_program() {
    let mirrored = MirroredMachine::new();
    mirrored.proxy.silence();
    // The offline summary is created and accepted at once. The export attempt alone would take far
    // longer.
    let started_at = Instant::now();
    mirrored.hand_off();
    assert!(started_at.elapsed() < Duration::from_secs(15), "{:?}", started_at.elapsed());
    mirrored.proxy.cut();
    mirrored.proxy.restore();
    assert_eq!(mirrored.sandbox.json(&["handoff", "export", "flush", "--json"])["sent"], 1);
}

#[test]
fn g16_flush_reports_the_exported_handoffs_and_the_error() {
    let mirrored = MirroredMachine::new();
    mirrored.proxy.refuse();
    for _ in 0..3 {
        mirrored.hand_off();
    }
    mirrored.force_degraded();
    mirrored.sandbox.run(&["handoff", "export", "flush"]).assert_error(1, "refused");
    let failed = mirrored.sandbox.run(&["handoff", "export", "flush", "--json"]);
    let error: Value = serde_json::from_str(&failed.stderr).unwrap();
    assert_eq!((failed.code, &error["error"]["code"]), (1, &json!("store")), "{failed:?}");
    mirrored.proxy.restore();
    let flushed = mirrored.sandbox.run(&["handoff", "export", "flush"]);
    assert_eq!((flushed.code, flushed.stdout.as_str()), (0, "3 handoffs exported.\n"), "{flushed:?}");
    assert!(flushed.stderr.contains("1 of 3 sent"), "{flushed:?}");
    let again = mirrored.sandbox.run(&["handoff", "export", "flush"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "Nothing was pending.\n"));
}

#[test]
fn g16_an_export_is_in_the_trace_of_its_thread_and_does_not_count_as_activity() {
    let mirrored = MirroredMachine::new();
    mirrored.proxy.refuse();
    let accepted: Value = serde_json::from_str(&mirrored.hand_off().stdout).unwrap();
    let before = mirrored.sandbox.threads();
    let parent = before.iter().find(|thread| thread["parent_id"].is_null()).unwrap();
    let parent = parent["thread_id"].as_str().unwrap();
    let arrivals = || {
        let spans = mirrored.sandbox.run(&["trace", parent, "--json"]).stdout;
        let spans: Vec<Value> = spans.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        spans.into_iter().filter(|span| span["kind"] == "mirror").collect::<Vec<_>>()
    };
    assert!(arrivals().is_empty(), "it waits");
    mirrored.proxy.restore();
    for _ in 0..2 {
        assert_eq!(mirrored.sandbox.run(&["handoff", "export", "flush"]).code, 0);
    }
    let arrived = arrivals();
    let [arrived] = arrived.as_slice() else { panic!("once: {arrived:?}") };
    assert_eq!((&arrived["name"], &arrived["state"]), (&json!("mirror_handoff"), &json!("done")));
    assert_eq!(arrived["handoff_id"], accepted["handoff"]["handoff_id"], "{accepted}");
    let times =
        |threads: &[Value]| threads.iter().map(|thread| thread["updated_at"].clone()).collect::<Vec<_>>();
    assert_eq!(times(&mirrored.sandbox.threads()), times(&before));
}

#[test]
fn g16_a_postgresql_journal_is_also_the_mirror_unless_the_mirror_is_off() {
    let database = TestDatabase::create().unwrap();
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("SEGUE_DATABASE_URL", &database.socket_url());
    assert_eq!(sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]).code, 0);
    assert_eq!(sandbox.run(&["handoff", "export", "flush"]).code, 0);
    let status = sandbox.json(&["handoff", "export", "status", "--json"]);
    assert_eq!((&status["waiting"], &status["rows"]["summaries"]), (&json!(0), &json!(1)), "{status}");
    sandbox.set_variable("SEGUE_MIRROR_URL", "off");
    let status = sandbox.json(&["handoff", "export", "status", "--json"]);
    assert_eq!((&status["configured"], &status["status"]), (&json!(false), &json!("off")), "{status}");
}

#[test]
fn without_a_mirror_the_status_is_one_line_with_a_hint() {
    let sandbox = TestSandbox::new().with_file_database();
    let output = sandbox.run(&["handoff", "export", "status"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "No export is configured.\n"));
    assert!(output.stderr.contains("hint: set `[mirror] url"), "{output:?}");
    sandbox.run(&["handoff", "export", "flush"]).assert_error(1, "flush the export: none is configured");
    let status = sandbox.json(&["handoff", "export", "status", "--json"]);
    assert_eq!(
        (&status["configured"], &status["status"], &status["reachable"]),
        (&json!(false), &json!("off"), &Value::Null)
    );
    assert!(!sandbox.run(&["doctor"]).stdout.contains("mirror"));
    assert_eq!(sandbox.run(&["handoff", "stats"]).stdout, "There are no handoffs.\n");
    // A handoff that was accepted without a mirror is exported once a mirror is configured.
    assert_eq!(sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]).code, 0);
    let output = sandbox.run(&["handoff", "export", "status"]);
    assert_eq!(output.stdout, "No export is configured; 1 accepted handoff is pending until one is.\n");
}

#[test]
fn the_password_of_the_mirror_is_never_shown() {
    let mut sandbox = TestSandbox::new();
    std::fs::create_dir_all(sandbox.home()).unwrap();
    let setting = "[mirror]\nurl = \"postgres://ann:s3cr3tive@127.0.0.1:1/copy\"\n";
    std::fs::write(sandbox.home().join("config.toml"), setting).unwrap();
    sandbox.set_variable("SEGUE_LOG", "trace");
    let mut output_text = String::new();
    for args in [
        &["handoff", "export", "status"][..],
        &["handoff", "export", "status", "--json"],
        &["handoff", "export", "flush"],
        &["doctor"],
        &["handoff", &sandbox.write_session(), "--apply"],
    ] {
        let output = sandbox.run(args);
        output_text += &(output.stdout + &output.stderr);
    }
    assert!(
        output_text.contains("postgres://ann@127.0.0.1:1/copy") && !output_text.contains("s3cr3tive"),
        "{output_text}"
    );
    let wrong = setting.replace(":1/", ":port/");
    std::fs::write(sandbox.home().join("config.toml"), wrong).unwrap();
    let output = sandbox.run(&["handoff", "export", "status"]);
    assert!(output.code == 1 && output.stderr.contains("`mirror.url`: failed to read"), "{output:?}");
    assert!(!output.stderr.contains("s3cr3tive"), "{output:?}");
}

#[test]
fn g16_a_server_exports_pending_handoffs_at_its_start_and_reports_its_status() {
    let mirrored = MirroredMachine::new();
    mirrored.proxy.refuse();
    mirrored.hand_off();
    mirrored.force_degraded();
    let serving = ServeProcess::start(&mirrored.sandbox);
    let api = owner_client(&serving);
    let metrics = || api.get("/metrics").text();
    let value = |text: &str, status: &str| {
        let name = format!("segue_handoff_store_status{{handoff_store_status=\"{status}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name).map(str::to_owned)).unwrap()
    };
    let text = metrics();
    assert_eq!((value(&text, "degraded"), value(&text, "ok")), ("1".to_owned(), "0".to_owned()), "{text}");
    assert!(text.contains("\nsegue_handoff_store_waiting 1\n"), "{text}");
    drop(serving);
    mirrored.proxy.restore();
    let serving = ServeProcess::start(&mirrored.sandbox);
    let status =
        mirrored.wait_for_status("row", |status| status["rows"]["summaries"] == 1 && status["waiting"] == 0);
    assert_eq!(status["status"], "ok");
    let text = owner_client(&serving).get("/metrics").text();
    assert_eq!((value(&text, "degraded"), value(&text, "ok")), ("0".to_owned(), "1".to_owned()), "{text}");
}

#[test]
fn every_query_of_the_documentation_works() {
    let mirrored = MirroredMachine::new();
    mirrored.hand_off();
    mirrored.wait_for_status("row", |status| status["waiting"] == 0);
    let page = include_str!("../../../../../docs/src/mirror.md");
    let block = page.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let queries: Vec<&str> = block.split(';').filter(|query| !query.trim().is_empty()).collect();
    assert_eq!(queries.len(), 4);
    for query in queries {
        let rows = mirrored.query_rows(&format!("SELECT to_jsonb(answer)::text FROM ({query}) AS answer"));
        assert!(!rows.is_empty(), "{query}");
    }
    let stats = mirrored.sandbox.json(&["handoff", "stats", "--json"]);
    let view =
        mirrored.query_rows("SELECT to_jsonb(stats)::text FROM thread_summary_stats AS stats").remove(0);
    let view: Value = serde_json::from_str(&view).unwrap();
    for (name, value) in stats["outcomes"]["accepted"].as_object().unwrap() {
        assert!(name == "tokens_drafting" || view[name] == *value, "{name}: {view} {stats}");
    }
}

#[test]
fn h3_deleting_a_thread_deletes_its_handoffs_from_the_mirror() {
    let mirrored = MirroredMachine::new();
    let report = mirrored.hand_off().json();
    for thread in ["thread_id", "child_thread_id"] {
        let id = report[thread].as_str().unwrap();
        assert_eq!(mirrored.sandbox.run(&["threads", "delete", id, "--yes"]).code, 0);
    }
    let status = mirrored.wait_for_status("tombstone", |status| status["waiting"] == 0);
    assert_eq!(status["rows"], json!({"summaries": 0, "deleted": 1}), "{status}");
}
