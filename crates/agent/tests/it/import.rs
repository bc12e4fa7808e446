//! Imports through the agent: what is new is added once.

use std::path::Path;

use journal::EventQuery;

use crate::world::{SESSION, World, quiet};

async fn report(world: &World, path: &Path) -> agent::ImportReport {
    let (frames, cancel) = quiet();
    world.agent().import(&[path.to_owned()], &frames, &cancel).await.unwrap()
}

fn claude(lines: &[&str]) -> String {
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
    let world = World::new();
    let path = world.session().with_extension("jsonl");
    std::fs::write(&path, claude(&["one", "two"])).unwrap();
    let first = report(&world, &path).await;
    assert_eq!((first.threads.len(), first.threads[0].events_new, first.threads[0].is_new), (1, 2, true));
    let same = report(&world, &path).await;
    assert_eq!((same.threads[0].events_new, same.threads[0].is_new), (0, false));
    std::fs::write(&path, claude(&["one", "two", "three"])).unwrap();
    let grown = report(&world, &path).await;
    assert_eq!((grown.threads[0].events_new, grown.threads[0].thread_id), (1, first.threads[0].thread_id));
    std::fs::write(&path, claude(&["one"])).unwrap();
    assert_eq!(report(&world, &path).await.threads[0].events_new, 0, "an earlier copy adds nothing");
    let events =
        world.agent().store().events(first.threads[0].thread_id, EventQuery::after(0, 100)).await.unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn a_session_whose_history_differs_becomes_a_thread_of_its_own() {
    let world = World::new();
    let path = world.session().with_extension("jsonl");
    std::fs::write(&path, claude(&["one", "two"])).unwrap();
    let first = report(&world, &path).await;
    std::fs::write(&path, claude(&["one", "other", "more"])).unwrap();
    let forked = report(&world, &path).await;
    assert_eq!((forked.threads[0].events_new, forked.threads[0].is_new), (3, true));
    assert_ne!(forked.threads[0].thread_id, first.threads[0].thread_id);
    let again = report(&world, &path).await;
    assert_eq!((again.threads[0].events_new, again.threads[0].thread_id), (0, forked.threads[0].thread_id));
}

#[tokio::test]
async fn a_folder_is_imported_file_by_file_and_the_rest_is_skipped() {
    let world = World::new();
    let folder = world.session().with_file_name("sessions");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("a.json"), SESSION).unwrap();
    std::fs::write(folder.join("deep/b.jsonl"), claude(&["one"])).unwrap();
    std::fs::write(folder.join("notes.txt"), "nothing to see").unwrap();
    std::fs::write(folder.join("empty.jsonl"), "").unwrap();
    let report = report(&world, &folder).await;
    assert_eq!((report.threads.len(), report.skipped.len()), (2, 2), "{report:?}");
}

#[tokio::test]
async fn a_damaged_record_is_reported_with_its_line_and_costs_only_itself() {
    let world = World::new();
    let path = world.session().with_extension("jsonl");
    let text = claude(&["one", "two"]).replacen('\n', "\n{broken\n", 1);
    std::fs::write(&path, text).unwrap();
    let report = report(&world, &path).await;
    assert_eq!(report.threads[0].events_new, 2);
    assert_eq!(report.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [Some(2)]);
}
