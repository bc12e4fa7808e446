//! Tests of interrupted imports: the thread is marked with the counts, the same import completes it, and the mark is
//! removed only when the thread has the whole session.

use std::path::{Path, PathBuf};

use agent::incomplete_import_notice;
use protocol::{IncompleteImport, Thread, ThreadId};

use super::{
    added_by_import, added_per_thread, conversations_json, import_report, import_report_of, message_texts,
    threads,
};
use crate::environment::{CrashingStore, TestEnvironment, answering_server, unwatched};

/// Number of entries that one transaction of an import stores at most.
const BATCH_ENTRIES: usize = 2_048;

/// Returns the texts of a session with that many messages.
fn session_texts(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("text {index}")).collect()
}

/// Writes a session with these messages, and returns its path.
fn write_texts(environment: &TestEnvironment, texts: &[String]) -> PathBuf {
    let path = environment.write_session();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    std::fs::write(&path, conversations_json(&[&texts])).unwrap();
    path
}

/// Imports a session onto a disk that is full after the first batch, and returns the thread.
async fn import_until_disk_is_full(environment: &TestEnvironment, path: &Path) -> Thread {
    let store = CrashingStore::never_crash(environment.store());
    store.fill_with_next_thread();
    let agent = environment.agent_over(store, "none");
    let (frames, cancel) = unwatched();
    let error = agent.threads().import(&[path.to_owned()], &frames, &cancel).await.unwrap_err();
    assert!(error.is_disk_full(), "{error:?}");
    let [thread]: [Thread; 1] = threads(environment).await.try_into().unwrap();
    thread
}

async fn find(environment: &TestEnvironment, thread_id: ThreadId) -> Thread {
    environment.agent().threads().find(&thread_id.to_string()).await.unwrap()
}

#[tokio::test]
async fn an_import_that_fills_the_disk_marks_its_thread_and_the_next_import_completes_it() {
    let environment = TestEnvironment::new();
    let texts = session_texts(5_000);
    let path = write_texts(&environment, &texts);
    let thread = import_until_disk_is_full(&environment, &path).await;
    let mark = thread.incomplete_import().unwrap();
    assert_eq!(
        mark,
        IncompleteImport {
            path: Some(path.to_str().unwrap().to_owned()),
            messages: BATCH_ENTRIES as u64,
            messages_total: Some(5_000),
            whole_thread_id: None,
        }
    );
    assert_eq!(thread.message_count, mark.messages, "the mark names what is stored");
    let notice = incomplete_import_notice(&thread).unwrap();
    assert!(notice.starts_with("import incomplete: 2048 of 5000 messages; run `segue import "), "{notice}");

    let completed = import_report(&environment, &path).await;
    assert_eq!(added_per_thread(&completed), [(false, 5_000 - mark.messages)]);
    assert_eq!(completed.threads[0].thread_id, thread.thread_id);
    let thread = find(&environment, thread.thread_id).await;
    assert_eq!((thread.incomplete_import(), incomplete_import_notice(&thread)), (None, None));
    assert_eq!(message_texts(&environment, thread.thread_id).await, texts);
    assert_eq!(added_by_import(&environment, &path).await, [(false, 0)]);
}

#[tokio::test]
async fn a_stopped_import_marks_its_thread_with_what_is_stored() {
    let environment = TestEnvironment::new();
    let texts = session_texts(BATCH_ENTRIES * 12);
    let path = write_texts(&environment, &texts);
    let store = CrashingStore::never_crash(environment.store());
    let (frames, cancel) = unwatched();
    let stop = cancel.clone();
    store.before_next_commit(async move { stop.cancel() });
    let agent = environment.agent_over(store, "none");
    let report = agent.threads().import(std::slice::from_ref(&path), &frames, &cancel).await.unwrap();
    assert!(report.threads.is_empty(), "{report:?}");
    let [thread]: [Thread; 1] = threads(&environment).await.try_into().unwrap();
    let mark = thread.incomplete_import().unwrap();
    assert_eq!(mark.messages, thread.message_count);
    assert!(mark.messages > 0 && mark.messages < texts.len() as u64, "{mark:?}");
    let completed = import_report(&environment, &path).await;
    assert_eq!(completed.threads[0].thread_id, thread.thread_id);
    assert_eq!(find(&environment, thread.thread_id).await.incomplete_import(), None);
    assert_eq!(message_texts(&environment, thread.thread_id).await, texts);
}

#[tokio::test]
async fn an_import_that_no_failure_interrupts_leaves_no_mark() {
    let environment = TestEnvironment::new();
    for count in [1, BATCH_ENTRIES, BATCH_ENTRIES + 1, 3 * BATCH_ENTRIES] {
        let path = write_texts(&environment, &session_texts(count));
        import_report(&environment, &path).await;
        for thread in threads(&environment).await {
            assert_eq!(thread.incomplete_import(), None, "{count} messages");
        }
    }
    let [thread]: [Thread; 1] = threads(&environment).await.try_into().unwrap();
    assert_eq!(thread.message_count, 3 * BATCH_ENTRIES as u64, "the session grew in one thread");
}

#[tokio::test]
async fn the_mark_goes_when_the_file_has_nothing_beyond_what_is_stored() {
    let environment = TestEnvironment::new();
    let texts = session_texts(5_000);
    let path = write_texts(&environment, &texts);
    let thread_id = import_until_disk_is_full(&environment, &path).await.thread_id;
    write_texts(&environment, &texts[..BATCH_ENTRIES - 1]);
    assert_eq!(added_by_import(&environment, &path).await, [(false, 0)]);
    let mark = find(&environment, thread_id).await.incomplete_import();
    assert!(mark.is_some(), "an earlier copy completes nothing");
    write_texts(&environment, &texts[..BATCH_ENTRIES]);
    assert_eq!(added_by_import(&environment, &path).await, [(false, 0)]);
    assert_eq!(find(&environment, thread_id).await.incomplete_import(), None);
}

#[tokio::test]
async fn the_mark_of_a_thread_that_was_continued_names_the_thread_with_the_whole_session() {
    let environment = TestEnvironment::new();
    let texts = session_texts(5_000);
    let path = write_texts(&environment, &texts);
    let first = import_until_disk_is_full(&environment, &path).await;
    let server = answering_server("Done.");
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    agent.runs().send_message(first.thread_id, "mine", &frames, &cancel).await.unwrap();
    drop(agent);
    let whole = import_report(&environment, &path).await;
    assert_eq!(added_per_thread(&whole), [(true, 5_000)]);
    let whole = find(&environment, whole.threads[0].thread_id).await;
    assert_eq!(whole.incomplete_import(), None);
    let first = find(&environment, first.thread_id).await;
    let mark = first.incomplete_import().unwrap();
    assert_eq!((mark.messages, mark.whole_thread_id), (BATCH_ENTRIES as u64, Some(whole.thread_id)));
    let notice = incomplete_import_notice(&first).unwrap();
    assert!(notice.ends_with(&format!("; thread {} has the whole session", whole.thread_id)), "{notice}");
}

#[tokio::test]
async fn reading_an_incompletely_imported_session_for_a_preview_has_all_of_it_and_stores_nothing() {
    let environment = TestEnvironment::new();
    let texts = session_texts(5_000);
    let path = write_texts(&environment, &texts);
    let stored = import_until_disk_is_full(&environment, &path).await;
    let (frames, cancel) = unwatched();
    let agent = environment.agent();
    let read =
        agent.threads().import_to_scratch(std::slice::from_ref(&path), &frames, &cancel).await.unwrap();
    let scratch = read.agent_of(stored.thread_id).await.unwrap();
    let thread = scratch.threads().find(&stored.thread_id.to_string()).await.unwrap();
    assert_eq!((thread.message_count, thread.incomplete_import()), (5_000, None));
    assert_eq!(find(&environment, stored.thread_id).await, stored);
}

#[tokio::test]
async fn an_interrupted_import_of_a_session_that_grew_marks_the_thread_again() {
    let environment = TestEnvironment::new();
    let texts = session_texts(BATCH_ENTRIES * 12);
    let path = write_texts(&environment, &texts[..10]);
    let thread_id = import_report(&environment, &path).await.threads[0].thread_id;
    write_texts(&environment, &texts);
    let store = CrashingStore::never_crash(environment.store());
    let (frames, cancel) = unwatched();
    let stop = cancel.clone();
    store.before_next_commit(async move { stop.cancel() });
    let agent = environment.agent_over(store, "none");
    agent.threads().import(std::slice::from_ref(&path), &frames, &cancel).await.unwrap();
    let thread = find(&environment, thread_id).await;
    let mark = thread.incomplete_import().unwrap();
    assert_eq!(mark.messages, thread.message_count);
    import_report_of(&environment.agent(), &path).await;
    assert_eq!(find(&environment, thread_id).await.incomplete_import(), None);
    assert_eq!(message_texts(&environment, thread_id).await, texts);
}
