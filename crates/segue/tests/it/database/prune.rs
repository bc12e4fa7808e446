//! Removing threads that nobody used for long.

use serde_json::Value;

use crate::sandbox::TestSandbox;

/// A home with one thread that came by import, a fork of it, and one of a fork: all of long ago, the fork's fork named.
fn home_with_old_threads() -> (TestSandbox, Vec<String>) {
    let sandbox = TestSandbox::new().with_file_database();
    let path = sandbox.write_session();
    sandbox.run(&["import", &path]);
    let id = |thread: &Value| thread["thread_id"].as_str().unwrap().to_owned();
    let first = id(&sandbox.threads()[0]);
    let fork = |of: &str| {
        let before: Vec<String> = sandbox.threads().iter().map(id).collect();
        assert_eq!(sandbox.run(&["threads", "fork", of]).code, 0);
        sandbox.threads().iter().map(id).find(|id| !before.contains(id)).unwrap()
    };
    let second = fork(&first);
    let third = fork(&second);
    let connection = rusqlite::Connection::open(sandbox.home().join("segue.db")).unwrap();
    connection
        .execute_batch("UPDATE thread_heads SET updated_at = '2020-01-01T00:00:00.000000000Z'; UPDATE threads SET name = NULL")
        .unwrap();
    (sandbox, vec![first, second, third])
}

fn update_thread(sandbox: &TestSandbox, sql: &str, thread: &str) {
    let connection = rusqlite::Connection::open(sandbox.home().join("segue.db")).unwrap();
    assert_eq!(connection.execute(sql, [thread]).unwrap(), 1);
}

const SET_OLD: &str =
    "UPDATE thread_heads SET updated_at = '2020-01-01T00:00:00.000000000Z' WHERE thread_id = ?1";
const SET_RECENT: &str =
    "UPDATE thread_heads SET updated_at = '2999-01-01T00:00:00.000000000Z' WHERE thread_id = ?1";
const SET_NAMED: &str = "UPDATE threads SET name = 'kept' WHERE thread_id = ?1";

fn prunable_threads(sandbox: &TestSandbox, more: &[&str]) -> Vec<String> {
    let args: Vec<&str> =
        ["prune", "--older-than", "90d", "--dry-run", "--json"].iter().chain(more).copied().collect();
    let told = sandbox.json(&args);
    told["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["thread_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn h8_a_dry_run_tells_what_would_go_and_deletes_nothing() {
    let (sandbox, ids) = home_with_old_threads();
    let [first, second, third] = &ids[..] else { panic!("{ids:?}") };
    assert_eq!(
        prunable_threads(&sandbox, &[]),
        [third.clone(), second.clone(), first.clone()],
        "children first"
    );
    update_thread(&sandbox, SET_NAMED, third);
    assert_eq!(
        prunable_threads(&sandbox, &["--keep-named"]).len(),
        0,
        "from both others came one that stays"
    );
    update_thread(&sandbox, SET_RECENT, second);
    assert_eq!(prunable_threads(&sandbox, &[]), std::slice::from_ref(third));
    assert_eq!(prunable_threads(&sandbox, &["--everyone"]), std::slice::from_ref(third));
    let shown = sandbox.run(&["prune", "--older-than", "90d", "--dry-run"]);
    assert!(shown.stdout.contains("1 thread with") && shown.stdout.contains("would be deleted"), "{shown:?}");
    let line = shown.stdout.replace("\n  ", " ");
    assert!(line.contains("other old threads stay: 1 whose children stay."), "{shown:?}");
    assert_eq!(sandbox.threads().len(), 3);
}

#[test]
fn k9_h8_what_is_pruned_is_gone_from_the_file() {
    let (sandbox, _) = home_with_old_threads();
    sandbox.run(&["search", "clock"]);
    sandbox.run(&["prune", "--older-than", "90d"]).assert_error(2, "there is no terminal to ask on");
    assert_eq!(sandbox.threads().len(), 3);
    let told = sandbox.json(&["prune", "--older-than", "90d", "--yes", "--vacuum", "--json"]);
    assert_eq!((told["threads"].as_u64(), told["vacuumed"].as_bool()), (Some(3), Some(true)), "{told}");
    assert!(told["events"].as_u64().unwrap() > 20 && told["bytes"].as_u64().unwrap() > 1_000, "{told}");
    assert_eq!(sandbox.threads().len(), 0);
    for name in ["segue.db", "segue.db-wal"] {
        let bytes = std::fs::read(sandbox.home().join(name)).unwrap_or_default();
        let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(
            !holds(b"retries_after_timeout") && !holds(b"kettle"),
            "{name} has words of what was deleted"
        );
    }
    let again = sandbox.run(&["prune", "--older-than", "90d", "--yes"]);
    assert!(again.code == 0 && again.stdout.contains("Deleted 0 threads"), "{again:?}");
}

#[test]
fn h8_what_works_or_waits_stays() {
    let (sandbox, ids) = home_with_old_threads();
    assert_eq!(sandbox.run(&["handoff", &ids[2]]).code, 3, "a handoff waits");
    update_thread(&sandbox, SET_OLD, &ids[2]);
    let told = sandbox.json(&["prune", "--older-than", "90d", "--yes", "--json"]);
    assert_eq!((told["threads"].as_u64(), told["kept"]["in_use"].as_u64()), (Some(0), Some(1)), "{told}");
    assert_eq!(told["kept"]["with_children"].as_u64(), Some(2), "{told}");
    for wrong in ["90", "soon", ""] {
        let ended = sandbox.run(&["prune", "--older-than", wrong]);
        assert!(ended.code == 2 && ended.stderr.contains("is not a valid time"), "{ended:?}");
    }
    assert_eq!(sandbox.run(&["prune"]).code, 2);
}
