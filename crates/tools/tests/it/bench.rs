//! The fixture of the tests: a small workspace, the built-in tools, and the context of a call.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use protocol::message::joined_text;
use protocol::{AssistantId, RunId, Thread, ThreadId, ToolStatus};
use runtime::{CallReview, FrameSender, Tool, ToolContext, ToolOutput};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A workspace with the built-in tools.
pub struct ToolFixture {
    pub folder: tempfile::TempDir,
    pub tools: Vec<Arc<dyn Tool>>,
    pub context: ToolContext,
}

impl ToolFixture {
    /// Creates a workspace `work` with a few files, and next to it a file `secret` that no tool may reach.
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir_all(work.join("src/deep")).unwrap();
        fs::create_dir_all(work.join("target")).unwrap();
        fs::create_dir_all(folder.path().join("home")).unwrap();
        fs::write(folder.path().join("secret"), "needle").unwrap();
        fs::write(work.join(".gitignore"), "target/\n").unwrap();
        fs::write(work.join("src/a.rs"), "fn a() {}\r\n// needle\nlast").unwrap();
        fs::write(work.join("src/deep/b.rs"), "fn b() {}\n").unwrap();
        fs::write(work.join("target/out.rs"), "needle").unwrap();
        fs::write(work.join("blob"), b"needle\0needle").unwrap();
        let protected = vec![folder.path().join("home"), work.join("protected")];
        let secrets = vec!["SEGUE_TEST_SECRET".to_owned()];
        let tools = tools::builtin_tools(tools::ToolSettings {
            protected,
            secrets,
            ..tools::ToolSettings::default()
        });
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
        let thread_id = ThreadId::generate();
        let create = Write::CreateThread(blank_thread(thread_id));
        store.commit(Transaction { fence: None, writes: vec![create] }).await.unwrap();
        let context = ToolContext {
            thread_id,
            run_id: RunId::generate(),
            call_id: "c1".to_owned(),
            workspace: work,
            cancel: CancellationToken::new(),
            store,
            frames: FrameSender::default(),
            channels: Arc::default(),
            answers: Vec::new(),
        };
        Self { folder, tools, context }
    }

    pub fn workspace(&self) -> PathBuf {
        self.context.workspace.clone()
    }

    pub fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub async fn output(&self, name: &str, args: Value) -> ToolOutput {
        self.tool(name).call(&args, &self.context).await
    }

    /// Makes a call and commits the writes of its output.
    pub async fn commit_output(&self, name: &str, args: Value) -> ToolOutput {
        let output = self.output(name, args).await;
        let writes = output.update.writes.clone();
        self.context.store.commit(Transaction { fence: None, writes }).await.unwrap();
        output
    }

    pub async fn call(&self, name: &str, args: Value) -> (ToolStatus, String) {
        let output = self.output(name, args).await;
        (output.status, joined_text(&output.content))
    }

    pub async fn review(&self, name: &str, args: Value) -> CallReview {
        self.tool(name).review(&args, &self.context).await
    }

    pub async fn assert_success(&self, name: &str, args: Value, expected: &str) {
        assert_eq!(self.call(name, args).await, (ToolStatus::Success, expected.to_owned()));
    }

    pub async fn assert_error(&self, name: &str, args: Value, expected: &str) {
        let (status, text) = self.call(name, args).await;
        assert!(status == ToolStatus::Error && text.contains(expected), "{text}");
    }
}

pub fn blank_thread(thread_id: ThreadId) -> Thread {
    let now = Timestamp::now();
    Thread::blank(thread_id, AssistantId::default(), now)
}
