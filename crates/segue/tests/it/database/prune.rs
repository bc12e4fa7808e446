//! `segue prune`: deletion of threads that were not used for a given time.

use serde_json::Value;

use crate::sandbox::TestSandbox;

/// Returns a home with three old threads and their ids, parents first: an imported thread, a fork of it,
/// and a fork of that fork.
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
    let report = sandbox.json(&args);
    report["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["thread_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn h8_a_dry_run_lists_the_threads_to_delete_and_deletes_none() {
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
        "the two other threads have a child that is not deleted"
    );
    update_thread(&sandbox, SET_RECENT, second);
    assert_eq!(prunable_threads(&sandbox, &[]), std::slice::from_ref(third));
    assert_eq!(prunable_threads(&sandbox, &["--everyone"]), std::slice::from_ref(third));
    let output = sandbox.run(&["prune", "--older-than", "90d", "--dry-run"]);
    assert!(
        output.stdout.contains("1 thread with") && output.stdout.contains("would be deleted"),
        "{output:?}"
    );
    let line = output.stdout.replace("\n  ", " ");
    assert!(line.contains("other old threads stay: 1 whose children stay."), "{output:?}");
    assert_eq!(sandbox.threads().len(), 3);
}

#[test]
fn k9_h8_pruned_content_is_erased_from_the_file() {
    let (sandbox, _) = home_with_old_threads();
    sandbox.run(&["search", "clock", "--everywhere"]);
    sandbox.run(&["prune", "--older-than", "90d"]).assert_error(2, "there is no terminal to ask on");
    assert_eq!(sandbox.threads().len(), 3);
    let report = sandbox.json(&["prune", "--older-than", "90d", "--yes", "--vacuum", "--json"]);
    assert_eq!((report["threads"].as_u64(), report["vacuumed"].as_bool()), (Some(3), Some(true)), "{report}");
    assert!(report["events"].as_u64().unwrap() > 20 && report["bytes"].as_u64().unwrap() > 1_000, "{report}");
    assert_eq!(sandbox.threads().len(), 0);
    for name in ["segue.db", "segue.db-wal"] {
        let bytes = std::fs::read(sandbox.home().join(name)).unwrap_or_default();
        let contains = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(
            !contains(b"retries_after_timeout") && !contains(b"kettle"),
            "{name} has words of what was deleted"
        );
    }
    let second_run = sandbox.run(&["prune", "--older-than", "90d", "--yes"]);
    assert!(second_run.code == 0 && second_run.stdout.contains("Deleted 0 threads"), "{second_run:?}");
}

#[test]
fn h8_threads_with_active_or_pending_work_are_not_pruned() {
    let (sandbox, ids) = home_with_old_threads();
    assert_eq!(sandbox.run(&["handoff", &ids[2]]).code, 3, "a handoff waits");
    update_thread(&sandbox, SET_OLD, &ids[2]);
    let report = sandbox.json(&["prune", "--older-than", "90d", "--yes", "--json"]);
    assert_eq!(
        (report["threads"].as_u64(), report["kept"]["in_use"].as_u64()),
        (Some(0), Some(1)),
        "{report}"
    );
    assert_eq!(report["kept"]["with_children"].as_u64(), Some(2), "{report}");
    for wrong in ["90", "soon", ""] {
        let output = sandbox.run(&["prune", "--older-than", wrong]);
        assert!(output.code == 2 && output.stderr.contains("is not a valid time"), "{output:?}");
    }
    assert_eq!(sandbox.run(&["prune"]).code, 2);
}
