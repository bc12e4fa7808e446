//! The tool `edit_memory`, called as a model calls it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::SqliteStore;
use memory::{AgentFile, EditMemoryTool};
use protocol::{Message, RunId, ThreadId, ToolMessage, ToolStatus};
use runtime::{
    CallSubject, Channels, FrameSender, RepeatSafety, ReviewDetail, Tool, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
use test_model::ScriptedReply;
use tokio_util::sync::CancellationToken;

use crate::fixture::AgentMdFixture;

pub fn tool_context() -> ToolContext {
    ToolContext {
        thread_id: ThreadId::generate(),
        run_id: RunId::generate(),
        call_id: "c1".to_owned(),
        workspace: std::env::temp_dir(),
        cancel: CancellationToken::new(),
        store: Arc::new(SqliteStore::in_memory().unwrap()),
        frames: FrameSender::default(),
        channels: Arc::new(Channels::new()),
        answers: Vec::new(),
    }
}

pub fn status_and_text(output: ToolOutput) -> (ToolStatus, String) {
    let message = ToolMessage {
        id: None,
        call_id: String::new(),
        name: None,
        content: output.content,
        status: output.status,
    };
    (output.status, Message::Tool(message).text())
}

async fn call_tool(file: &Arc<AgentFile>, args: Value) -> (ToolStatus, String) {
    status_and_text(EditMemoryTool::new(Arc::clone(file)).call(&args, &tool_context()).await)
}

#[tokio::test]
async fn f4_the_agent_edits_its_memory_and_reads_it_in_the_next_step() {
    let args = json!({"edits": [{"old_string": "tabs", "new_string": "spaces"}], "append": "- likes tea"});
    let world = AgentMdFixture::new(
        [ScriptedReply::call("c1", "edit_memory", args), ScriptedReply::text("Done.")],
        vec![],
    );
    world.write("- tabs\n");
    AgentFile::new(world.path()).write_block("S", Timestamp::UNIX_EPOCH).unwrap();
    let thread_id = world.create_thread().await;
    let end = world.run_turn(thread_id, "Remember.").await;
    let results = world.tool_results(thread_id).await;
    assert_eq!((results[0].0, &*results[0].1), (ToolStatus::Success, results[0].1.as_str()));
    assert!(results[0].1.starts_with("agent.md is changed (2 of 2 parts;"), "{results:?}");
    assert!(
        world.text().starts_with("- spaces\n- likes tea\n\n## Recent Thread Snapshot\n"),
        "{}",
        world.text()
    );
    assert_eq!(world.file.read().unwrap().block.as_deref(), Some("S"));
    assert!(world.system_prompts()[1].contains("- spaces\n- likes tea"));
    assert_eq!(end.notices, Vec::<String>::new());
}

#[tokio::test]
async fn f4_refused_parts_leave_the_others_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
    fs::write(file.path(), "- a\n- b\n").unwrap();
    file.write_block("S", Timestamp::UNIX_EPOCH).unwrap();
    let edits = json!([
        {"old_string": "- a", "new_string": "- x"},
        {"old_string": "S\n</current", "new_string": "T\n</current"},
        {"old_string": "- b", "new_string": "</current_thread_summary>"},
    ]);
    let (status, text) = call_tool(&file, json!({"edits": edits})).await;
    assert_eq!(status, ToolStatus::Error);
    let lines: Vec<&str> = text.lines().map(|line| line.split([':', ';']).next().unwrap()).collect();
    assert_eq!(lines, ["agent.md is changed (1 of 3 parts", "edit 2 was refused", "edit 3 was refused"]);
    assert!(fs::read_to_string(file.path()).unwrap().starts_with("- x\n- b\n"));
    assert_eq!(file.read().unwrap().block.as_deref(), Some("S"));
    let (status, text) =
        call_tool(&file, json!({"edits": [{"old_string": "absent", "new_string": ""}]})).await;
    assert_eq!((status, text.lines().next()), (ToolStatus::Error, Some("agent.md is unchanged.")));
    for args in [json!({}), json!({"append": 1}), json!({"edits": [], "path": "x"})] {
        let (status, text) = call_tool(&file, args).await;
        assert_eq!(status, ToolStatus::Error);
        assert!(text.starts_with("bad arguments: "), "{text}");
    }
}

#[tokio::test]
async fn f4_a_missing_memory_is_made_privately() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(AgentFile::new(folder.path().join("agents/agent/agent.md")));
    let (status, _) = call_tool(&file, json!({"append": "- a"})).await;
    assert_eq!(status, ToolStatus::Success);
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "- a\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn the_user_reviews_a_diff_before_anything_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
    fs::write(file.path(), "- a\n- b\n").unwrap();
    let tool = EditMemoryTool::new(Arc::clone(&file));
    assert_eq!(tool.repeat_safety(), RepeatSafety::Unsafe);
    let args = json!({"edits": [{"old_string": "- a", "new_string": "- x"}], "append": "- c"});
    let review = tool.review(&args, &tool_context()).await;
    assert_eq!(review.subjects, [CallSubject::Path(PathBuf::from("agent.md"))]);
    let diff = "--- a/agent.md\n+++ b/agent.md\n@@ -1,2 +1,3 @@\n-- a\n+- x\n - b\n+- c\n";
    assert_eq!(review.detail, ReviewDetail::Diff(diff.to_owned()));
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "- a\n- b\n");
    // A call that would be refused has no review.
    assert_eq!(tool.review(&json!({"edits": []}), &tool_context()).await.subjects, []);
}

#[tokio::test]
async fn f9_the_result_states_the_number_of_redacted_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
    fs::write(file.path(), "- a\n").unwrap();
    let edits = json!([{"old_string": "- a", "new_string": "- a, password=hunter2hunter2"}]);
    let key = "sk-ant-api03-abcdefghijklmnop1234";
    let (status, text) =
        call_tool(&file, json!({"edits": edits, "append": format!("- the key is {key}")})).await;
    assert_eq!(status, ToolStatus::Success);
    assert!(text.contains("2 secrets were withheld: secrets are never kept in agent.md"), "{text}");
    let stored = fs::read_to_string(file.path()).unwrap();
    assert_eq!(stored, "- a, password=[redacted]\n- the key is [redacted]\n");
    // The review shows the text as it would be stored, with secrets redacted.
    let tool = EditMemoryTool::new(file);
    let review = tool.review(&json!({"append": format!("- {key}")}), &tool_context()).await;
    let ReviewDetail::Diff(diff) = review.detail else { panic!("no diff") };
    assert!(diff.contains("+- [redacted]") && !diff.contains(key), "{diff}");
}

#[tokio::test]
async fn f9_nothing_is_noted_without_a_call() {
    let world =
        AgentMdFixture::new([ScriptedReply::text("Hello, Ada."), ScriptedReply::text("Nice.")], vec![]);
    let thread_id = world.create_thread().await;
    world.run_turn(thread_id, "I am Ada, I always use tabs, and I live in Paris.").await;
    world.run_turn(thread_id, "My cat is called Ida.").await;
    assert!(!world.path().exists(), "what a person says is no note until somebody keeps it");
}
