//! Tool calls that tamper with agent.md, and concurrent writers.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use memory::managed_block::{self, CLOSE_TAG, OPEN_TAG, PLACEHOLDER};
use memory::{AgentFile, BlockWriteOutcome};
use protocol::{RunStatus, ThreadId, ToolStatus};
use runtime::Tool;
use serde_json::json;
use test_model::ScriptedReply;

use crate::fixture::{AgentMdFixture, FinishedRun, action_tool};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Runs a turn with one call that performs `work`, after `before` was applied to the file. Returns the fixture and
/// the run.
async fn check_tampering(
    before: impl Fn(&AgentFile),
    work: impl Fn(&PathBuf) + Send + Sync + 'static,
) -> (AgentMdFixture, ThreadId, FinishedRun) {
    let replies = [ScriptedReply::call("c1", "shell", json!({})), ScriptedReply::text("Done.")];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("agent.md"), "# Notes\n- a\n").unwrap();
    let world = AgentMdFixture::in_folder(folder, replies, |path| vec![action_tool("shell", path, work)]);
    before(&AgentFile::new(world.path()));
    let thread_id = world.create_thread().await;
    let end = world.run_turn(thread_id, "Go.").await;
    assert_eq!(end.status, RunStatus::Success);
    (world, thread_id, end)
}

fn write_test_block(file: &AgentFile) {
    file.write_block("S1\nS2", NOW).unwrap();
}

fn edit(path: &PathBuf, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

/// Asserts that the call's result and a notice report the repair.
async fn assert_reported(world: &AgentMdFixture, thread_id: ThreadId, end: &FinishedRun, what: &str) {
    let results = world.tool_results(thread_id).await;
    let (status, text) = &results[0];
    assert_eq!(*status, ToolStatus::Error);
    assert!(text.starts_with("done") && text.contains(what), "{text}");
    assert!(end.notices.iter().any(|notice| notice.contains(what)), "{:?}", end.notices);
}

async fn assert_not_reported(world: &AgentMdFixture, thread_id: ThreadId, end: &FinishedRun) {
    assert_eq!(world.tool_results(thread_id).await, [(ToolStatus::Success, "done".to_owned())]);
    assert_eq!(end.notices, Vec::<String>::new());
}

fn block_content(world: &AgentMdFixture) -> Option<String> {
    let text = world.text();
    assert_eq!(managed_block::marker_problems(text.as_bytes()), [], "{text}");
    assert!(!text.contains("forged"), "{text}");
    managed_block::block_content(text.as_bytes())
}

#[tokio::test]
async fn f4_a_changed_block_is_restored_and_other_changes_stay() {
    type ToolAction = fn(&PathBuf);
    let cases: [(&str, ToolAction); 6] = [
        ("text", |path| edit(path, "S1", "forged")),
        ("emptied", |path| edit(path, "S1\nS2\n", "")),
        ("markers", |path| {
            edit(path, &format!("{OPEN_TAG}\n"), "");
            edit(path, &format!("{CLOSE_TAG}\n"), "");
        }),
        ("second", |path| edit(path, "- a", &format!("{OPEN_TAG}\nforged\n{CLOSE_TAG}\n- a"))),
        ("unclosed", |path| edit(path, CLOSE_TAG, "")),
        ("fenced", |path| {
            edit(path, "- a", "- a\n```");
            edit(path, CLOSE_TAG, &format!("{CLOSE_TAG}\n```"));
        }),
    ];
    for (name, work) in cases {
        let both = move |path: &PathBuf| {
            work(path);
            edit(path, "# Notes\n", "# Notes\n- new\n");
        };
        let (world, thread_id, end) = check_tampering(write_test_block, both).await;
        assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"), "{name}");
        let outside = String::from_utf8(managed_block::remove_blocks(world.text().as_bytes())).unwrap();
        assert!(outside.starts_with("# Notes\n- new\n"), "{name}: {outside}");
        assert!(!outside.contains("S1"), "{name}: {outside}");
        assert_reported(&world, thread_id, &end, "has been put back").await;
    }
}

#[tokio::test]
async fn f4_a_deleted_file_or_folder_is_restored() {
    let gone = |path: &PathBuf| fs::remove_file(path).unwrap();
    let (world, thread_id, end) = check_tampering(write_test_block, gone).await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert!(world.text().starts_with("# Notes\n- a\n"));
    assert_reported(&world, thread_id, &end, "has been restored").await;
    let folder_gone = |path: &PathBuf| fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let (world, thread_id, end) = check_tampering(write_test_block, folder_gone).await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert_reported(&world, thread_id, &end, "has been restored").await;
    // The same without a block.
    let (world, thread_id, end) = check_tampering(|_| {}, gone).await;
    assert_eq!(world.text(), "# Notes\n- a\n");
    assert_reported(&world, thread_id, &end, "has been restored").await;
}

#[cfg(unix)]
#[tokio::test]
async fn f4_a_restored_file_has_its_mode_and_a_removed_link_is_restored() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (world, ..) = check_tampering(
        |file| fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap(),
        |path| fs::remove_file(path).unwrap(),
    )
    .await;
    assert_eq!(fs::metadata(world.path()).unwrap().permissions().mode() & 0o777, 0o640);
    let (world, thread_id, end) = check_tampering(
        |file| {
            fs::rename(file.path(), file.path().with_file_name("real.md")).unwrap();
            symlink("real.md", file.path()).unwrap();
            write_test_block(file);
        },
        |path| fs::remove_file(path).unwrap(),
    )
    .await;
    assert!(fs::symlink_metadata(world.path()).unwrap().is_symlink());
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert_reported(&world, thread_id, &end, "has been restored").await;
}

#[tokio::test]
async fn f4_a_call_may_change_the_notes_and_create_the_file() {
    let (world, thread_id, end) = check_tampering(write_test_block, |path| edit(path, "- a", "- b")).await;
    assert!(world.text().starts_with("# Notes\n- b\n"));
    assert_not_reported(&world, thread_id, &end).await;
    let (world, thread_id, end) = check_tampering(
        |file| fs::remove_file(file.path()).unwrap(),
        |path| fs::write(path, "- made\n").unwrap(),
    )
    .await;
    assert_eq!(world.text(), "- made\n");
    assert_not_reported(&world, thread_id, &end).await;
    let (world, thread_id, end) = check_tampering(write_test_block, |_| {}).await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert_not_reported(&world, thread_id, &end).await;
}

#[tokio::test]
async fn f4_a_block_without_a_record_is_removed() {
    let (world, thread_id, end) = check_tampering(
        |_| {},
        |path| {
            edit(path, "- a\n", &format!("- a\n{OPEN_TAG}\nforged\n{CLOSE_TAG}\n"));
        },
    )
    .await;
    assert_eq!(world.text(), "# Notes\n- a\n");
    assert_reported(&world, thread_id, &end, "has been put back").await;
}

#[tokio::test]
async fn f4_concurrent_writes_of_accept_and_cleanup_stay() {
    // A separate `AgentFile` shares no state with the agent's, like another process.
    let (world, thread_id, end) = check_tampering(
        |_| {},
        |path| {
            AgentFile::new(path).write_block("accepted", NOW).unwrap();
        },
    )
    .await;
    assert_eq!(block_content(&world).as_deref(), Some("accepted"));
    assert_not_reported(&world, thread_id, &end).await;

    let (world, thread_id, end) = check_tampering(write_test_block, |path| {
        let file = AgentFile::new(path);
        assert_eq!(file.clear_block("S1\nS2", NOW).unwrap().outcome, BlockWriteOutcome::Changed);
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some(PLACEHOLDER));
    assert_not_reported(&world, thread_id, &end).await;

    // The block is cleared while the user or a call edits the notes around it.
    let (world, thread_id, end) = check_tampering(write_test_block, |path| {
        AgentFile::new(path).compare_and_swap_block("S1\nS2", "other", NOW).unwrap();
        edit(path, "- a", "- b");
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some("other"));
    assert!(world.text().contains("- b"));
    assert_not_reported(&world, thread_id, &end).await;
}

#[tokio::test]
async fn f4_a_repair_keeps_what_a_concurrent_writer_wrote() {
    // A script reads the file before an acceptance and writes the whole file after it.
    let (world, thread_id, end) = check_tampering(write_test_block, |path| {
        let old = fs::read_to_string(path).unwrap();
        AgentFile::new(path).write_block("accepted", NOW).unwrap();
        fs::write(path, old.replace("- a", "- b")).unwrap();
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some("accepted"));
    assert!(world.text().contains("- b"));
    assert_reported(&world, thread_id, &end, "has been put back").await;

    let (world, thread_id, end) = check_tampering(write_test_block, |path| {
        AgentFile::new(path).write_block("accepted", NOW).unwrap();
        fs::remove_file(path).unwrap();
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some("accepted"));
    assert!(world.text().starts_with("# Notes\n- a\n"));
    assert_reported(&world, thread_id, &end, "has been restored").await;

    // The block belongs to another thread when the child's cleanup runs. The child's text must not return either.
    let (world, _, _) = check_tampering(write_test_block, |path| {
        edit(path, "S1", "forged");
        let write = AgentFile::new(path).clear_block("S1\nS2", NOW).unwrap();
        assert_eq!(write.outcome, BlockWriteOutcome::Skipped);
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some(PLACEHOLDER));
    let lock = fs::read_to_string(world.path().with_file_name("agent.md.lock")).unwrap();
    assert!(!lock.contains("S1") && !lock.contains("forged"), "{lock}");
}

#[tokio::test]
async fn f4_a_lock_file_that_is_deleted_too_changes_nothing() {
    let (world, thread_id, end) = check_tampering(write_test_block, |path| {
        edit(path, "S1", "forged");
        fs::remove_file(path.with_file_name("agent.md.lock")).unwrap();
    })
    .await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert_reported(&world, thread_id, &end, "has been put back").await;
}

#[tokio::test]
async fn f4_a_failed_repair_is_reported() {
    let replies = [ScriptedReply::call("c1", "shell", json!({}))];
    let work = |path: &PathBuf| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    let world = AgentMdFixture::in_folder(tempfile::tempdir().unwrap(), replies, |path| {
        vec![action_tool("shell", path, work)]
    });
    write_test_block(&AgentFile::new(world.path()));
    let thread_id = world.create_thread().await;
    let end = world.run_turn(thread_id, "Go.").await;
    // The model is not called without its notes either.
    assert_eq!(end.status, RunStatus::Error);
    assert_reported(&world, thread_id, &end, "could not be checked or put back").await;
}

#[tokio::test]
async fn f4_calls_at_the_same_time_do_not_undo_each_other() {
    let replies = [
        ScriptedReply::call("c1", "shell", json!({}))
            .with_call("c2", "look", json!({}))
            .with_call("c3", "edit_memory", json!({"append": "- mine"}))
            .with_call("c4", "shell", json!({})),
        ScriptedReply::text("Done."),
    ];
    let tools = |path: PathBuf| -> Vec<Arc<dyn Tool>> {
        let shell = |path: &PathBuf| {
            let _ = fs::write(path, "# Notes\nrewritten\n");
        };
        vec![action_tool("shell", path.clone(), shell), action_tool("look", path, |_| {})]
    };
    let world = AgentMdFixture::in_folder(tempfile::tempdir().unwrap(), replies, tools);
    world.write("# Notes\n- a\n");
    write_test_block(&AgentFile::new(world.path()));
    let thread_id = world.create_thread().await;
    world.run_turn(thread_id, "Go.").await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    let results = world.tool_results(thread_id).await;
    assert!(results.iter().any(|(_, text)| text.contains("has been put back")), "{results:?}");
}

#[tokio::test]
async fn m16_a_secret_that_a_call_writes_into_the_file_is_redacted() {
    const KEY: &str = "sk-ant-api03-abcdefghijklmnop1234";
    let own = |file: &AgentFile| fs::write(file.path(), format!("# Notes\n- mine: {KEY}\n- a\n")).unwrap();
    let noted = |path: &PathBuf| edit(path, "- a", "- a\n- token=0123456789abcdef\n- b");
    let (world, thread_id, end) = check_tampering(own, noted).await;
    // A secret that the user wrote before stays.
    assert_eq!(world.text(), format!("# Notes\n- mine: {KEY}\n- a\n- token=[redacted]\n- b\n"));
    assert_reported(&world, thread_id, &end, "1 secret was withheld").await;
    // The call changes the block as well.
    let both = |path: &PathBuf| {
        edit(path, "S1", "forged");
        edit(path, "- a", &format!("- {KEY}"));
    };
    let (world, thread_id, end) = check_tampering(write_test_block, both).await;
    assert_eq!(block_content(&world).as_deref(), Some("S1\nS2"));
    assert!(world.text().starts_with("# Notes\n- [redacted]\n"), "{}", world.text());
    assert_reported(&world, thread_id, &end, "has been put back").await;
    assert_reported(&world, thread_id, &end, "1 secret was withheld").await;
    // The call creates the file.
    let made = |path: &PathBuf| fs::write(path, format!("{KEY}\n")).unwrap();
    let (world, thread_id, end) = check_tampering(|file| fs::remove_file(file.path()).unwrap(), made).await;
    assert_eq!(world.text(), "[redacted]\n");
    assert_reported(&world, thread_id, &end, "1 secret was withheld").await;
}

#[tokio::test]
async fn m16_a_secret_that_the_user_writes_between_turns_stays() {
    let (world, thread_id, _) = check_tampering(|_| {}, |_| {}).await;
    let own = "# Notes\n- password=hunter2hunter2\n";
    world.write(own);
    world.run_turn(thread_id, "Go on.").await;
    assert_eq!(world.text(), own);
}
