//! The part of agent.md that a model receives, turn after turn.

mod pins;

use std::fs;

use protocol::{EventType, RunStatus};
use serde_json::json;
use test_model::ScriptedReply;

use crate::fixture::AgentMdFixture;

fn answers(count: usize) -> Vec<ScriptedReply> {
    (0..count).map(|_| ScriptedReply::text("Done.")).collect()
}

type FixtureEdit = fn(&AgentMdFixture);

#[tokio::test]
async fn f1_an_edit_on_disk_is_seen_by_the_next_turn_of_the_same_thread() {
    let mut world = AgentMdFixture::new(answers(7), vec![]);
    let thread_id = world.create_thread().await;
    world.run_turn(thread_id, "No file.").await;
    let edits: [FixtureEdit; 5] = [
        |world| world.write("- aaaa\n"),
        // The same size and the same modification time, written at once.
        |world| {
            let before = fs::metadata(world.path()).unwrap().modified().unwrap();
            world.write("- bbbb\n");
            fs::File::options().write(true).open(world.path()).unwrap().set_modified(before).unwrap();
        },
        // Most editors save by replacing the file.
        |world| {
            fs::write(world.folder.path().join("new"), "- cccc\n").unwrap();
            fs::rename(world.folder.path().join("new"), world.path()).unwrap();
        },
        |world| fs::remove_file(world.path()).unwrap(),
        |world| world.write("- dddd\n"),
    ];
    for edit in edits {
        edit(&world);
        world.run_turn(thread_id, "Go on.").await;
    }
    world.forget_cached_file();
    world.write("- eeee\n");
    world.run_turn(thread_id, "And after a restart.").await;
    let notes: Vec<String> = world.system_prompts().iter().map(|prompt| notes_of(prompt)).collect();
    assert_eq!(notes, ["", "- aaaa", "- bbbb", "- cccc", "", "- dddd", "- eeee"]);
}

fn notes_of(prompt: &str) -> String {
    prompt.rsplit_once("<agent_md>\n").unwrap().1.split_once("\n</agent_md>").unwrap().0.to_owned()
}

#[tokio::test]
async fn f1_an_unchanged_file_is_not_read_again() {
    let world = AgentMdFixture::new(answers(0), vec![]);
    world.write("- a\n");
    let (first, second) = (world.file.read().unwrap(), world.file.read().unwrap());
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    world.write("- a\n");
    // The same content again: the cached snapshot stays valid.
    assert!(std::sync::Arc::ptr_eq(&first, &world.file.read().unwrap()));
    world.write("- b\n");
    assert_eq!(world.file.read().unwrap().bytes, b"- b\n");
}

#[tokio::test]
async fn f2_an_unreadable_file_fails_the_turn_and_a_missing_file_does_not() {
    let world = AgentMdFixture::new(answers(3), vec![]);
    let thread_id = world.create_thread().await;
    assert_eq!(world.run_turn(thread_id, "No file.").await.status, RunStatus::Success);
    fs::create_dir(world.path()).unwrap();
    let end = world.run_turn(thread_id, "A folder.").await;
    assert_eq!(end.status, RunStatus::Error);
    assert!(end.error.clone().unwrap().contains("it is not a regular file"));
    fs::remove_dir(world.path()).unwrap();
    fs::write(world.path(), b"\xff\xfea\0").unwrap();
    let end = world.run_turn(thread_id, "UTF-16.").await;
    assert!(end.error.clone().unwrap().contains("is UTF-16, save it as UTF-8"));
    assert_eq!(world.server.call_count(), 1);
}

#[tokio::test]
async fn f2_a_child_continues_with_its_summary_when_the_file_is_unreadable() {
    let world = AgentMdFixture::new(answers(1), vec![]);
    let child = world.create_child_thread("Mine.").await;
    fs::remove_file(world.path()).unwrap();
    fs::create_dir(world.path()).unwrap();
    let end = world.run_turn(child, "Go on.").await;
    assert_eq!(end.status, RunStatus::Success);
    assert!(end.notices.iter().any(|text| text.contains("it is not a regular file")), "{:?}", end.notices);
    assert!(world.system_prompts()[0].contains("Mine."));
}

#[tokio::test]
async fn f2_a_file_over_the_limit_is_reported_once_a_turn() {
    let calls = ScriptedReply::call("c1", "edit_memory", json!({"append": "x"}));
    let world = AgentMdFixture::new([calls, ScriptedReply::text("Done.")], vec![]);
    world.write(&"0123456789abcde\n".repeat(20_000));
    let thread_id = world.create_thread().await;
    let end = world.run_turn(thread_id, "Go.").await;
    assert_eq!(end.notices.len(), 1, "{:?}", end.notices);
    assert!(end.notices[0].contains("is longer than 262144 bytes"), "{:?}", end.notices);
    assert!(world.system_prompts()[1].contains("the rest is left out"));
    let results = world.tool_results(thread_id).await;
    assert!(results[0].1.contains("the file has 320000 bytes, and 262144 is the limit"), "{results:?}");
}

#[tokio::test]
async fn f3_two_pending_children_neither_see_nor_lose_each_others_summary() {
    let world = AgentMdFixture::new(answers(5), vec![]);
    world.write("# Notes\n");
    let (b, d) =
        (world.create_child_thread("Summary of B.").await, world.create_child_thread("Summary of D.").await);
    let stranger = world.create_thread().await;
    assert!(world.text().contains("Summary of D."), "the file shows the newest");
    for thread_id in [b, d, stranger, b, d] {
        world.run_turn(thread_id, "Go on.").await;
    }
    let seen = |prompt: &String| (prompt.contains("of B."), prompt.contains("of D."));
    let seen: Vec<(bool, bool)> = world.system_prompts().iter().map(seen).collect();
    assert_eq!(seen, [(true, false), (false, true), (false, false), (true, false), (false, true)]);
    assert!(world.system_prompts().iter().all(|prompt| notes_of(prompt) == "# Notes"));
}

#[tokio::test]
async fn f5_the_sources_of_a_prompt_are_recorded_once_a_run_by_hash() {
    let calls = ScriptedReply::call("c1", "edit_memory", json!({"append": "- new"}));
    let replies = [ScriptedReply::text("One."), calls, ScriptedReply::text("Two.")];
    let world = AgentMdFixture::new(replies, vec![]);
    world.write("- a\n");
    let thread_id = world.create_thread().await;
    world.run_turn(thread_id, "One.").await;
    world.run_turn(thread_id, "Two.").await;
    let events = world.events(thread_id).await;
    let read = events.iter().filter(|event| event.event_type == EventType::MemoryRead.as_str());
    // The file changed during the second run, so that run read two versions.
    assert_eq!(read.count(), 3);
    assert!(events.iter().all(|event| !event.content.get().contains("reference data")));
}

#[tokio::test]
async fn prompts_before_agent_md_stay_in_the_providers_cache() {
    let world = AgentMdFixture::new(answers(1), vec![]);
    world.write("- a\n");
    let thread_id = world.create_thread().await;
    world.run_turn(thread_id, "Go.").await;
    let body = &world.server.requests()[0].body;
    let last = body["system"].as_array().unwrap().last().unwrap();
    assert_eq!(last.get("cache_control"), None, "what changes between turns ends no cached part: {body}");
}
