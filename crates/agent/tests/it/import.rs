//! Tests of session imports through the agent's public interface: each new entry is added exactly once, and no entry is
//! lost.

mod incomplete;

use std::path::{Path, PathBuf};

use journal::{EventQuery, ThreadFilter};
use protocol::{Thread, ThreadId};

use crate::environment::{CrashingStore, SESSION_JSON, TestEnvironment, answering_server, unwatched};

/// Imports a file or folder with a new agent.
async fn import_report(environment: &TestEnvironment, path: &Path) -> agent::ImportReport {
    import_report_of(&environment.agent(), path).await
}

/// Imports a file or folder with `agent`.
async fn import_report_of(agent: &agent::Agent, path: &Path) -> agent::ImportReport {
    let (frames, cancel) = unwatched();
    agent.threads().import(&[path.to_owned()], &frames, &cancel).await.unwrap()
}

/// Returns the texts of a thread's messages.
async fn message_texts(environment: &TestEnvironment, thread_id: ThreadId) -> Vec<String> {
    let events = environment.agent().threads().events(thread_id).await.unwrap();
    events.iter().filter_map(|event| event.message()).map(|message| message.text().to_string()).collect()
}

async fn threads(environment: &TestEnvironment) -> Vec<Thread> {
    environment.agent().threads().list(ThreadFilter { limit: 100, ..ThreadFilter::default() }).await.unwrap()
}

/// Returns for each imported thread whether it is new, and the number of added events.
fn added_per_thread(report: &agent::ImportReport) -> Vec<(bool, u64)> {
    report.threads.iter().map(|thread| (thread.is_new, thread.events_new)).collect()
}

/// Returns a JSON array of conversations. Each is given by its message texts, alternately of the user and the assistant.
fn conversations_json(all: &[&[&str]]) -> String {
    let message = |(index, text): (usize, &&str)| {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        serde_json::json!({"role": role, "content": text})
    };
    let list = |texts: &&[&str]| {
        let messages: Vec<_> = texts.iter().enumerate().map(message).collect();
        serde_json::json!({ "messages": messages })
    };
    serde_json::Value::from_iter(all.iter().map(list)).to_string()
}

/// Returns a Claude session file with these messages of the user.
fn claude_session(lines: &[&str]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        text.push_str(&format!(
            r#"{{"parentUuid":null,"isSidechain":false,"sessionId":"s-1","version":"2.1.0","type":"user","message":{{"role":"user","content":"{line}"}},"uuid":"u-{index}","timestamp":"2026-03-01T10:00:0{index}Z"}}"#
        ));
        text.push('\n');
    }
    text
}

#[tokio::test]
async fn a_repeated_import_adds_only_new_entries() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&environment, &path).await;
    assert_eq!((first.threads.len(), first.threads[0].events_new, first.threads[0].is_new), (1, 2, true));
    let same = import_report(&environment, &path).await;
    assert_eq!((same.threads[0].events_new, same.threads[0].is_new), (0, false));
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    let grown = import_report(&environment, &path).await;
    assert_eq!((grown.threads[0].events_new, grown.threads[0].thread_id), (1, first.threads[0].thread_id));
    std::fs::write(&path, claude_session(&["one"])).unwrap();
    assert_eq!(
        import_report(&environment, &path).await.threads[0].events_new,
        0,
        "an earlier copy adds nothing"
    );
    let events = environment
        .agent()
        .store()
        .events(first.threads[0].thread_id, EventQuery::after(0, 100))
        .await
        .unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a18_text_that_a_harness_wrote_in_the_users_name_is_never_listed_as_the_users() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    let reminder = "<system-reminder>Be brief.</system-reminder>";
    std::fs::write(&path, claude_session(&[reminder, "one", "two", reminder])).unwrap();
    let thread_id = import_report(&environment, &path).await.threads[0].thread_id;
    assert_eq!(message_texts(&environment, thread_id).await, [reminder, "one", "two", reminder]);
    let prompts = environment.agent().threads().prompts(thread_id, 10).await.unwrap();
    let texts: Vec<&str> = prompts.iter().map(|prompt| prompt.text.as_str()).collect();
    assert_eq!(texts, ["two", "one"]);
    assert_eq!(threads(&environment).await[0].first_prompt.as_deref(), Some("one"));
}

#[tokio::test]
async fn a_session_with_a_different_history_becomes_a_new_thread() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&environment, &path).await;
    std::fs::write(&path, claude_session(&["one", "other", "more"])).unwrap();
    let forked = import_report(&environment, &path).await;
    assert_eq!((forked.threads[0].events_new, forked.threads[0].is_new), (3, true));
    assert_ne!(forked.threads[0].thread_id, first.threads[0].thread_id);
    let again = import_report(&environment, &path).await;
    assert_eq!((again.threads[0].events_new, again.threads[0].thread_id), (0, forked.threads[0].thread_id));
}

#[tokio::test]
async fn a_folder_is_imported_file_by_file_and_other_files_are_skipped() {
    let environment = TestEnvironment::new();
    let folder = environment.write_session().with_file_name("sessions");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("a.json"), SESSION_JSON).unwrap();
    std::fs::write(folder.join("deep/b.jsonl"), claude_session(&["one"])).unwrap();
    std::fs::write(folder.join("notes.txt"), "nothing to see").unwrap();
    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    let report = import_report(&environment, &folder).await;
    assert_eq!((report.threads.len(), report.skipped.len()), (2, 2), "{report:?}");
}

#[tokio::test]
async fn a_damaged_record_is_reported_with_its_line_and_the_others_are_imported() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    let text = claude_session(&["one", "two"]).replacen('\n', "\n{broken\n", 1);
    std::fs::write(&path, text).unwrap();
    let report = import_report(&environment, &path).await;
    assert_eq!(report.threads[0].events_new, 2);
    assert_eq!(report.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [Some(2)]);
}

#[tokio::test]
async fn conversations_of_one_file_with_a_common_beginning_are_all_imported() {
    for (first, second) in [
        (&["go", "a", "b"][..], &["go", "c", "d"][..]),
        (&["go", "a", "b"], &["go", "a"]),
        (&["go", "a"], &["go", "a", "b"]),
        (&["go", "a"], &["go", "a"]),
    ] {
        let environment = TestEnvironment::new();
        let path = environment.write_session();
        std::fs::write(&path, conversations_json(&[first, second])).unwrap();
        let imported = import_report(&environment, &path).await;
        let counts = [(true, first.len() as u64), (true, second.len() as u64)];
        assert_eq!(added_per_thread(&imported), counts, "{first:?} {second:?}");
        assert_eq!(message_texts(&environment, imported.threads[0].thread_id).await, first);
        assert_eq!(message_texts(&environment, imported.threads[1].thread_id).await, second);
        assert_eq!(
            added_per_thread(&import_report(&environment, &path).await),
            [(false, 0), (false, 0)],
            "{first:?} {second:?}"
        );
        assert_eq!(threads(&environment).await.len(), 2);
    }
}

#[tokio::test]
async fn each_of_several_conversations_with_a_common_beginning_continues_in_its_own_thread() {
    let environment = TestEnvironment::new();
    let path = environment.write_session();
    std::fs::write(&path, conversations_json(&[&["go", "a"], &["go", "b"], &["go", "c"]])).unwrap();
    let first = import_report(&environment, &path).await;
    std::fs::write(&path, conversations_json(&[&["go", "a", "1"], &["go", "b", "2"], &["go", "x", "3"]]))
        .unwrap();
    let grown = import_report(&environment, &path).await;
    assert_eq!(added_per_thread(&grown), [(false, 1), (false, 1), (true, 3)]);
    assert_eq!(grown.threads[0].thread_id, first.threads[0].thread_id);
    assert_eq!(message_texts(&environment, first.threads[1].thread_id).await, ["go", "b", "2"]);
    assert_eq!(message_texts(&environment, grown.threads[2].thread_id).await, ["go", "x", "3"]);
}

#[tokio::test]
async fn a_copy_that_diverged_from_the_session_continues_in_its_own_thread() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    import_report(&environment, &path).await;
    let mut copies = Vec::new();
    for lines in [&["one", "2"][..], &["one", "2", "3"], &["one", "2", "3", "4", "5"], &["one", "2", "3"]] {
        std::fs::write(&path, claude_session(lines)).unwrap();
        copies.extend(import_report(&environment, &path).await.threads);
    }
    let added: Vec<_> = copies.iter().map(|thread| (thread.is_new, thread.events_new)).collect();
    assert_eq!(added, [(true, 2), (false, 1), (false, 2), (false, 0)]);
    assert!(copies.iter().all(|thread| thread.thread_id == copies[0].thread_id), "{copies:?}");
    std::fs::write(&path, claude_session(&["one", "2", "other"])).unwrap();
    assert_eq!(
        added_by_import(&environment, &path).await,
        [(true, 3)],
        "a copy of the copy becomes a new thread"
    );
    std::fs::write(&path, claude_session(&["one", "2", "other", "more"])).unwrap();
    assert_eq!(added_by_import(&environment, &path).await, [(false, 1)]);
    assert_eq!(threads(&environment).await.len(), 3);
}

/// Imports a file or folder, and returns for each thread whether it is new, and the number of added events.
async fn added_by_import(environment: &TestEnvironment, path: &Path) -> Vec<(bool, u64)> {
    added_per_thread(&import_report(environment, path).await)
}

#[tokio::test]
async fn a_session_that_grows_after_a_message_in_its_thread_becomes_a_new_thread_that_names_the_first() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&environment, &path).await.threads[0].thread_id;
    let server = answering_server("Done.");
    let (frames, cancel) = unwatched();
    environment.agent_with(&server).runs().send_message(first, "mine", &frames, &cancel).await.unwrap();
    assert_eq!(added_by_import(&environment, &path).await, [(false, 0)], "the session has not grown");
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    let grown = import_report(&environment, &path).await;
    assert_eq!(added_per_thread(&grown), [(true, 3)]);
    let second = grown.threads[0].thread_id;
    assert_eq!(message_texts(&environment, first).await, ["one", "two", "mine", "Done."]);
    assert_eq!(message_texts(&environment, second).await, ["one", "two", "three"]);
    let thread = environment.agent().threads().find(&second.to_string()).await.unwrap();
    assert_eq!(thread.metadata["source"]["continues"], serde_json::json!(first));
    std::fs::write(&path, claude_session(&["one", "two", "three", "four"])).unwrap();
    let more = import_report(&environment, &path).await;
    assert_eq!((added_per_thread(&more), more.threads[0].thread_id), (vec![(false, 1)], second));
}

#[tokio::test]
async fn new_entries_after_a_rename_are_added_to_the_thread_and_never_move_its_time_backward() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&environment, &path).await.threads[0].thread_id;
    let renamed = environment.agent().threads().rename(first, "Mine").await.unwrap();
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    assert_eq!(added_by_import(&environment, &path).await, [(false, 1)]);
    let thread = environment.agent().threads().find(&first.to_string()).await.unwrap();
    assert_eq!((thread.name.as_deref(), thread.updated_at >= renamed.updated_at), (Some("Mine"), true));
}

#[tokio::test]
async fn new_entries_are_not_added_to_a_thread_with_an_active_run() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one"])).unwrap();
    let first = import_report(&environment, &path).await.threads[0].thread_id;
    let now = jiff::Timestamp::now();
    let run = protocol::Run {
        run_id: protocol::RunId::generate(),
        thread_id: first,
        assistant_id: "agent".parse().unwrap(),
        status: protocol::RunStatus::Running,
        model: None,
        failure: None,
        lease_owner: Some("another process".to_owned()),
        lease_until: Some(now + jiff::SignedDuration::from_secs(60)),
        usage: protocol::Usage::default(),
        created_at: now,
        updated_at: now,
    };
    let writes = vec![journal::Write::AdmitRun(run)];
    environment.store().commit(journal::Transaction { fence: None, writes }).await.unwrap();
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let grown = import_report(&environment, &path).await;
    assert_eq!(added_per_thread(&grown), [(true, 2)]);
    assert_eq!(message_texts(&environment, first).await, ["one"]);
}

#[tokio::test]
async fn m2_a_session_and_its_first_events_are_one_commit() {
    let environment = TestEnvironment::new();
    let path = environment.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let counting = CrashingStore::crash_at(environment.store(), usize::MAX);
    import_report_of(&environment.agent_over(counting.clone(), "none"), &path).await;
    assert_eq!(counting.commit_count(), 1);
}

#[tokio::test]
async fn two_processes_that_import_the_same_sessions_create_each_thread_once() {
    let environment = TestEnvironment::new();
    let folder = environment.write_session().with_file_name("sessions");
    std::fs::create_dir_all(&folder).unwrap();
    for session in 0..20 {
        let text = claude_session(&["one", "two"]).replace("s-1", &format!("s-{session}"));
        std::fs::write(folder.join(format!("{session}.jsonl")), text).unwrap();
    }
    let (agent_a, agent_b) = (environment.agent(), environment.agent());
    let (first, second) =
        tokio::join!(import_report_of(&agent_a, &folder), import_report_of(&agent_b, &folder));
    let added = first.threads.iter().chain(&second.threads).map(|thread| thread.events_new).sum::<u64>();
    let created = first.threads.iter().chain(&second.threads).filter(|thread| thread.is_new).count();
    assert_eq!((added, created, threads(&environment).await.len()), (40, 20, 20));
    let ids = |report: &agent::ImportReport| report.threads.iter().map(|thread| thread.thread_id).collect();
    let (first, second): (Vec<ThreadId>, Vec<ThreadId>) = (ids(&first), ids(&second));
    assert_eq!(first, second);
}

#[tokio::test]
async fn two_processes_that_import_one_long_session_store_each_entry_once_and_in_order() {
    let environment = TestEnvironment::new();
    let path = environment.write_session();
    let texts: Vec<String> = (0..20_000).map(|index| format!("text {index}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    std::fs::write(&path, conversations_json(&[&texts])).unwrap();
    let (agent_a, agent_b) = (environment.agent(), environment.agent());
    let (first, second) = tokio::join!(import_report_of(&agent_a, &path), import_report_of(&agent_b, &path));
    assert!(first.problems.is_empty() && second.problems.is_empty(), "{first:?} {second:?}");
    assert_eq!(first.threads[0].thread_id, second.threads[0].thread_id);
    assert_eq!(first.threads[0].events_new + second.threads[0].events_new, 20_000);
    assert_eq!((first.threads[0].events_total, second.threads[0].events_total), (20_000, 20_000));
    assert_eq!(message_texts(&environment, first.threads[0].thread_id).await, texts);
}

/// Creates a folder below `folder` that even an administrator cannot list, because its path exceeds the limit of the system.
/// The rename at the end makes the path longer than `create_dir_all` could.
fn create_unlistable_folder(folder: &Path) {
    /// The length of each component of the path, in bytes.
    const COMPONENT_LENGTH: usize = 200;
    let deep = |name: &str| {
        let components = std::iter::repeat_n("d".repeat(COMPONENT_LENGTH), 15);
        std::iter::once(name.to_owned())
            .chain(components)
            .fold(folder.to_owned(), |path, part| path.join(part))
    };
    let (outer, inner): (PathBuf, PathBuf) = (deep("x"), deep("y"));
    std::fs::create_dir_all(&outer).unwrap();
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::rename(folder.join("y"), outer.join("y")).unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_listed_is_reported_and_the_others_are_imported() {
    let environment = TestEnvironment::new();
    let folder = environment.write_session().with_file_name("sessions");
    std::fs::create_dir_all(&folder).unwrap();
    create_unlistable_folder(&folder);
    std::fs::write(folder.join("a.jsonl"), claude_session(&["one"])).unwrap();
    let report = import_report(&environment, &folder).await;
    assert_eq!((added_per_thread(&report), report.problems.len()), (vec![(true, 1)], 1), "{report:?}");
    assert!(report.problems[0].path.starts_with(folder.join("x")));
}

#[tokio::test]
async fn a_long_session_is_compared_in_batches_and_continued_at_its_end() {
    let environment = TestEnvironment::new();
    let path = environment.write_session();
    let mut texts: Vec<String> = (0..5_000).map(|index| format!("text {index}")).collect();
    let write = |texts: &[String]| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        std::fs::write(&path, conversations_json(&[&texts])).unwrap();
    };
    write(&texts);
    assert_eq!(added_by_import(&environment, &path).await, [(true, 5_000)]);
    let counting = CrashingStore::crash_at(environment.store(), usize::MAX);
    let again = import_report_of(&environment.agent_over(counting.clone(), "none"), &path).await;
    assert_eq!((added_per_thread(&again), counting.commit_count()), (vec![(false, 0)], 0));
    assert!(counting.lookup_count() <= 3, "{} lookups for 5,000 entries", counting.lookup_count());
    texts.push("more".to_owned());
    write(&texts);
    assert_eq!(added_by_import(&environment, &path).await, [(false, 1)]);
    for (index, expected) in [(4_500, 5_001), (1, 5_001), (2_047, 5_001), (2_048, 5_001), (5_000, 5_001)] {
        let mut changed = texts.clone();
        changed[index] = "changed".to_owned();
        write(&changed);
        assert_eq!(added_by_import(&environment, &path).await, [(true, expected)], "changed at {index}");
        assert_eq!(added_by_import(&environment, &path).await, [(false, 0)], "changed at {index}");
        changed.push("and on".to_owned());
        write(&changed);
        assert_eq!(added_by_import(&environment, &path).await, [(false, 1)], "changed at {index}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_imported_does_not_prevent_the_import_of_others() {
    let environment = TestEnvironment::new();
    let good = environment.write_session();
    let missing = good.with_file_name("missing.jsonl");
    let (frames, cancel) = unwatched();
    let report =
        environment.agent().threads().import(&[missing.clone(), good], &frames, &cancel).await.unwrap();
    assert_eq!((report.threads.len(), report.failed.len()), (1, 1));
    assert!(
        environment.agent().threads().import(&[missing], &frames, &cancel).await.is_err(),
        "an import of only that file is an error"
    );
}

#[tokio::test]
async fn imported_messages_are_indexed_when_the_import_returns() {
    let environment = TestEnvironment::new();
    let path = environment.folder().join("all.json");
    let texts: Vec<String> = (0..1_500).map(|number| format!("heron {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    std::fs::write(&path, conversations_json(&[&texts, &["a short one"]])).unwrap();
    assert_eq!(import_report(&environment, &path).await.threads.len(), 2);
    let behind = "SELECT thread_id FROM thread_heads WHERE indexed_seq < last_seq";
    assert_eq!(environment.query_texts(behind), [""; 0], "a search has nothing left to index");
    assert_eq!(environment.query_texts("SELECT thread_id FROM thread_heads WHERE indexed_seq > 0").len(), 2);
}
