//! Imports through the agent: what is new is added once, and nothing is lost.

use std::path::{Path, PathBuf};

use journal::{EventQuery, ThreadFilter};
use protocol::{Thread, ThreadId};

use crate::environment::{CrashingStore, SESSION_JSON, TestEnvironment, answering_server, unwatched};

async fn import_report(world: &TestEnvironment, path: &Path) -> agent::ImportReport {
    import_report_of(&world.agent(), path).await
}

async fn import_report_of(agent: &agent::Agent, path: &Path) -> agent::ImportReport {
    let (frames, cancel) = unwatched();
    agent.threads().import(&[path.to_owned()], &frames, &cancel).await.unwrap()
}

/// Returns what the messages of a thread say.
async fn message_texts(world: &TestEnvironment, thread_id: ThreadId) -> Vec<String> {
    let events = world.agent().threads().events(thread_id).await.unwrap();
    events.iter().filter_map(|event| event.message()).map(|message| message.text().to_string()).collect()
}

async fn threads(world: &TestEnvironment) -> Vec<Thread> {
    world.agent().threads().list(ThreadFilter { limit: 100, ..ThreadFilter::default() }).await.unwrap()
}

/// Returns, thread by thread, whether it is new and how many events were added.
fn added_per_thread(report: &agent::ImportReport) -> Vec<(bool, u64)> {
    report.threads.iter().map(|thread| (thread.is_new, thread.events_new)).collect()
}

/// Returns an array of conversations, each a list of what was said in turn.
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
async fn importing_again_adds_only_what_is_new() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&world, &path).await;
    assert_eq!((first.threads.len(), first.threads[0].events_new, first.threads[0].is_new), (1, 2, true));
    let same = import_report(&world, &path).await;
    assert_eq!((same.threads[0].events_new, same.threads[0].is_new), (0, false));
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    let grown = import_report(&world, &path).await;
    assert_eq!((grown.threads[0].events_new, grown.threads[0].thread_id), (1, first.threads[0].thread_id));
    std::fs::write(&path, claude_session(&["one"])).unwrap();
    assert_eq!(import_report(&world, &path).await.threads[0].events_new, 0, "an earlier copy adds nothing");
    let events =
        world.agent().store().events(first.threads[0].thread_id, EventQuery::after(0, 100)).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_session_whose_history_differs_becomes_a_thread_of_its_own() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&world, &path).await;
    std::fs::write(&path, claude_session(&["one", "other", "more"])).unwrap();
    let forked = import_report(&world, &path).await;
    assert_eq!((forked.threads[0].events_new, forked.threads[0].is_new), (3, true));
    assert_ne!(forked.threads[0].thread_id, first.threads[0].thread_id);
    let again = import_report(&world, &path).await;
    assert_eq!((again.threads[0].events_new, again.threads[0].thread_id), (0, forked.threads[0].thread_id));
}

#[tokio::test]
async fn a_folder_is_imported_file_by_file_and_the_rest_is_skipped() {
    let world = TestEnvironment::new();
    let folder = world.write_session().with_file_name("sessions");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("a.json"), SESSION_JSON).unwrap();
    std::fs::write(folder.join("deep/b.jsonl"), claude_session(&["one"])).unwrap();
    std::fs::write(folder.join("notes.txt"), "nothing to see").unwrap();
    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    let report = import_report(&world, &folder).await;
    assert_eq!((report.threads.len(), report.skipped.len()), (2, 2), "{report:?}");
}

#[tokio::test]
async fn a_damaged_record_is_reported_with_its_line_and_costs_only_itself() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    let text = claude_session(&["one", "two"]).replacen('\n', "\n{broken\n", 1);
    std::fs::write(&path, text).unwrap();
    let report = import_report(&world, &path).await;
    assert_eq!(report.threads[0].events_new, 2);
    assert_eq!(report.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [Some(2)]);
}

#[tokio::test]
async fn conversations_of_one_file_that_begin_alike_are_all_imported() {
    for (first, second) in [
        (&["go", "a", "b"][..], &["go", "c", "d"][..]),
        (&["go", "a", "b"], &["go", "a"]),
        (&["go", "a"], &["go", "a", "b"]),
        (&["go", "a"], &["go", "a"]),
    ] {
        let world = TestEnvironment::new();
        let path = world.write_session();
        std::fs::write(&path, conversations_json(&[first, second])).unwrap();
        let imported = import_report(&world, &path).await;
        let counts = [(true, first.len() as u64), (true, second.len() as u64)];
        assert_eq!(added_per_thread(&imported), counts, "{first:?} {second:?}");
        assert_eq!(message_texts(&world, imported.threads[0].thread_id).await, first);
        assert_eq!(message_texts(&world, imported.threads[1].thread_id).await, second);
        assert_eq!(
            added_per_thread(&import_report(&world, &path).await),
            [(false, 0), (false, 0)],
            "{first:?} {second:?}"
        );
        assert_eq!(threads(&world).await.len(), 2);
    }
}

#[tokio::test]
async fn each_of_several_alike_goes_on_in_its_own_thread() {
    let world = TestEnvironment::new();
    let path = world.write_session();
    std::fs::write(&path, conversations_json(&[&["go", "a"], &["go", "b"], &["go", "c"]])).unwrap();
    let first = import_report(&world, &path).await;
    std::fs::write(&path, conversations_json(&[&["go", "a", "1"], &["go", "b", "2"], &["go", "x", "3"]]))
        .unwrap();
    let grown = import_report(&world, &path).await;
    assert_eq!(added_per_thread(&grown), [(false, 1), (false, 1), (true, 3)]);
    assert_eq!(grown.threads[0].thread_id, first.threads[0].thread_id);
    assert_eq!(message_texts(&world, first.threads[1].thread_id).await, ["go", "b", "2"]);
    assert_eq!(message_texts(&world, grown.threads[2].thread_id).await, ["go", "x", "3"]);
}

#[tokio::test]
async fn a_copy_that_left_the_session_goes_on_in_its_own_thread() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    import_report(&world, &path).await;
    let mut copies = Vec::new();
    for lines in [&["one", "2"][..], &["one", "2", "3"], &["one", "2", "3", "4", "5"], &["one", "2", "3"]] {
        std::fs::write(&path, claude_session(lines)).unwrap();
        copies.extend(import_report(&world, &path).await.threads);
    }
    let news: Vec<_> = copies.iter().map(|thread| (thread.is_new, thread.events_new)).collect();
    assert_eq!(news, [(true, 2), (false, 1), (false, 2), (false, 0)]);
    assert!(copies.iter().all(|thread| thread.thread_id == copies[0].thread_id), "{copies:?}");
    std::fs::write(&path, claude_session(&["one", "2", "other"])).unwrap();
    assert_eq!(added_by_import(&world, &path).await, [(true, 3)], "a copy of the copy has its own");
    std::fs::write(&path, claude_session(&["one", "2", "other", "more"])).unwrap();
    assert_eq!(added_by_import(&world, &path).await, [(false, 1)]);
    assert_eq!(threads(&world).await.len(), 3);
}

async fn added_by_import(world: &TestEnvironment, path: &Path) -> Vec<(bool, u64)> {
    added_per_thread(&import_report(world, path).await)
}

#[tokio::test]
async fn what_grows_after_somebody_spoke_in_the_thread_becomes_a_thread_that_names_it() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&world, &path).await.threads[0].thread_id;
    let server = answering_server("Done.");
    let (frames, cancel) = unwatched();
    world.agent_with(&server).runs().send_message(first, "mine", &frames, &cancel).await.unwrap();
    assert_eq!(added_by_import(&world, &path).await, [(false, 0)], "nothing grew");
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    let grown = import_report(&world, &path).await;
    assert_eq!(added_per_thread(&grown), [(true, 3)]);
    let second = grown.threads[0].thread_id;
    assert_eq!(message_texts(&world, first).await, ["one", "two", "mine", "Done."]);
    assert_eq!(message_texts(&world, second).await, ["one", "two", "three"]);
    let thread = world.agent().threads().find(&second.to_string()).await.unwrap();
    assert_eq!(thread.metadata["source"]["continues"], serde_json::json!(first));
    std::fs::write(&path, claude_session(&["one", "two", "three", "four"])).unwrap();
    let more = import_report(&world, &path).await;
    assert_eq!((added_per_thread(&more), more.threads[0].thread_id), (vec![(false, 1)], second));
}

#[tokio::test]
async fn growth_after_a_rename_stays_in_the_thread_and_moves_its_time_only_forward() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let first = import_report(&world, &path).await.threads[0].thread_id;
    let renamed = world.agent().threads().rename(first, "Mine").await.unwrap();
    std::fs::write(&path, claude_session(&["one", "two", "three"])).unwrap();
    assert_eq!(added_by_import(&world, &path).await, [(false, 1)]);
    let thread = world.agent().threads().find(&first.to_string()).await.unwrap();
    assert_eq!((thread.name.as_deref(), thread.updated_at >= renamed.updated_at), (Some("Mine"), true));
}

#[tokio::test]
async fn growth_is_not_added_while_a_run_is_active() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one"])).unwrap();
    let first = import_report(&world, &path).await.threads[0].thread_id;
    let now = jiff::Timestamp::now();
    let run = protocol::Run {
        run_id: protocol::RunId::generate(),
        thread_id: first,
        assistant_id: "agent".parse().unwrap(),
        status: protocol::RunStatus::Running,
        model: None,
        failure: None,
        lease_owner: Some("somebody".to_owned()),
        lease_until: Some(now + jiff::SignedDuration::from_secs(60)),
        usage: protocol::Usage::default(),
        created_at: now,
        updated_at: now,
    };
    let writes = vec![journal::Write::AdmitRun(run)];
    world.store().commit(journal::Transaction { fence: None, writes }).await.unwrap();
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let grown = import_report(&world, &path).await;
    assert_eq!(added_per_thread(&grown), [(true, 2)]);
    assert_eq!(message_texts(&world, first).await, ["one"]);
}

#[tokio::test]
async fn m2_a_session_and_its_first_events_are_one_commit() {
    let world = TestEnvironment::new();
    let path = world.write_session().with_extension("jsonl");
    std::fs::write(&path, claude_session(&["one", "two"])).unwrap();
    let counting = CrashingStore::crash_at(world.store(), usize::MAX);
    import_report_of(&world.agent_over(counting.clone(), "none"), &path).await;
    assert_eq!(counting.commit_count(), 1);
}

#[tokio::test]
async fn two_processes_that_import_the_same_sessions_make_each_thread_once() {
    let world = TestEnvironment::new();
    let folder = world.write_session().with_file_name("sessions");
    std::fs::create_dir_all(&folder).unwrap();
    for session in 0..20 {
        let text = claude_session(&["one", "two"]).replace("s-1", &format!("s-{session}"));
        std::fs::write(folder.join(format!("{session}.jsonl")), text).unwrap();
    }
    let (one, other) = (world.agent(), world.agent());
    let (first, second) = tokio::join!(import_report_of(&one, &folder), import_report_of(&other, &folder));
    let added = first.threads.iter().chain(&second.threads).map(|thread| thread.events_new).sum::<u64>();
    let created = first.threads.iter().chain(&second.threads).filter(|thread| thread.is_new).count();
    assert_eq!((added, created, threads(&world).await.len()), (40, 20, 20));
    let ids = |report: &agent::ImportReport| report.threads.iter().map(|thread| thread.thread_id).collect();
    let (first, second): (Vec<ThreadId>, Vec<ThreadId>) = (ids(&first), ids(&second));
    assert_eq!(first, second);
}

#[tokio::test]
async fn two_processes_that_import_one_long_session_store_each_entry_once_and_in_order() {
    let world = TestEnvironment::new();
    let path = world.write_session();
    let texts: Vec<String> = (0..20_000).map(|index| format!("text {index}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    std::fs::write(&path, conversations_json(&[&texts])).unwrap();
    let (one, other) = (world.agent(), world.agent());
    let (first, second) = tokio::join!(import_report_of(&one, &path), import_report_of(&other, &path));
    assert!(first.problems.is_empty() && second.problems.is_empty(), "{first:?} {second:?}");
    assert_eq!(first.threads[0].thread_id, second.threads[0].thread_id);
    assert_eq!(first.threads[0].events_new + second.threads[0].events_new, 20_000);
    assert_eq!((first.threads[0].events_total, second.threads[0].events_total), (20_000, 20_000));
    assert_eq!(message_texts(&world, first.threads[0].thread_id).await, texts);
}

/// Makes a folder below `folder` that nobody can list, not even an administrator: its path is too long to be named.
fn create_unlistable_folder(folder: &Path) {
    const PART: usize = 200;
    let deep = |name: &str| {
        let below = std::iter::repeat_n("d".repeat(PART), 15);
        std::iter::once(name.to_owned()).chain(below).fold(folder.to_owned(), |path, part| path.join(part))
    };
    let (outer, inner): (PathBuf, PathBuf) = (deep("x"), deep("y"));
    std::fs::create_dir_all(&outer).unwrap();
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::rename(folder.join("y"), outer.join("y")).unwrap();
}

#[tokio::test]
async fn a_folder_that_cannot_be_listed_is_reported_and_the_others_are_imported() {
    let world = TestEnvironment::new();
    let folder = world.write_session().with_file_name("sessions");
    std::fs::create_dir_all(&folder).unwrap();
    create_unlistable_folder(&folder);
    std::fs::write(folder.join("a.jsonl"), claude_session(&["one"])).unwrap();
    let report = import_report(&world, &folder).await;
    assert_eq!((added_per_thread(&report), report.problems.len()), (vec![(true, 1)], 1), "{report:?}");
    assert!(report.problems[0].path.starts_with(folder.join("x")));
}

#[tokio::test]
async fn a_long_session_is_compared_by_batches_and_continued_where_it_ended() {
    let world = TestEnvironment::new();
    let path = world.write_session();
    let mut texts: Vec<String> = (0..5_000).map(|index| format!("text {index}")).collect();
    let write = |texts: &[String]| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        std::fs::write(&path, conversations_json(&[&texts])).unwrap();
    };
    write(&texts);
    assert_eq!(added_by_import(&world, &path).await, [(true, 5_000)]);
    let counting = CrashingStore::crash_at(world.store(), usize::MAX);
    let again = import_report_of(&world.agent_over(counting.clone(), "none"), &path).await;
    assert_eq!((added_per_thread(&again), counting.commit_count()), (vec![(false, 0)], 0));
    assert!(counting.lookup_count() <= 3, "{} lookups for 5,000 entries", counting.lookup_count());
    texts.push("more".to_owned());
    write(&texts);
    assert_eq!(added_by_import(&world, &path).await, [(false, 1)]);
    for (at, expected) in [(4_500, 5_001), (1, 5_001), (2_047, 5_001), (2_048, 5_001), (5_000, 5_001)] {
        let mut other = texts.clone();
        other[at] = "changed".to_owned();
        write(&other);
        assert_eq!(added_by_import(&world, &path).await, [(true, expected)], "changed at {at}");
        assert_eq!(added_by_import(&world, &path).await, [(false, 0)], "changed at {at}");
        other.push("and on".to_owned());
        write(&other);
        assert_eq!(added_by_import(&world, &path).await, [(false, 1)], "changed at {at}");
    }
}

#[tokio::test]
async fn one_file_that_cannot_be_imported_does_not_keep_the_others_out() {
    let world = TestEnvironment::new();
    let good = world.write_session();
    let missing = good.with_file_name("missing.jsonl");
    let (frames, cancel) = unwatched();
    let report = world.agent().threads().import(&[missing.clone(), good], &frames, &cancel).await.unwrap();
    assert_eq!((report.threads.len(), report.failed.len()), (1, 1));
    assert!(
        world.agent().threads().import(&[missing], &frames, &cancel).await.is_err(),
        "alone, it is an error"
    );
}
