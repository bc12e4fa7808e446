//! Fixtures around a server: folders, a plan, and the context of a call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use journal::SqliteStore;
use mcp::{
    McpServerState, McpServerStatus, McpServers, PlannedServer, ProjectConsents, ProjectServers,
    ServerConfig, ServerFolders, StartupWait,
};
use protocol::{ContentBlock, RunId, ThreadId, ToolStatus};
use runtime::{Channels, FrameSender, FrameSubscription, Tool, ToolContext, ToolOutput};
use sandbox::{NetworkAccess, PrepareLaunch, ProgramLaunch, ProgramStart};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fixture::{ARGS, BEHAVIOUR};

/// A workspace and a state folder.
pub struct McpFixture {
    folder: tempfile::TempDir,
}

impl McpFixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "state"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn folders(&self) -> ServerFolders {
        ServerFolders { workspace: self.path("work"), state_folder: self.path("state") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub async fn connect(&self, servers: &[(&str, Value)]) -> McpServers {
        McpServers::connect(plan(servers), &self.folders(), StartupWait::WaitForAll, no_sandbox).await
    }

    /// Connects to one fixture server under the name `s`.
    pub async fn connect_one(&self, behaviour: &str) -> McpServers {
        self.connect(&[("s", program(behaviour))]).await
    }

    pub fn context(&self) -> (ToolContext, FrameSubscription) {
        let (frames, subscription) = FrameSender::channel();
        let context = ToolContext {
            thread_id: ThreadId::generate(),
            run_id: RunId::generate(),
            call_id: "c1".to_owned(),
            workspace: self.path("work"),
            cancel: CancellationToken::new(),
            store: Arc::new(SqliteStore::in_memory().unwrap()),
            frames,
            channels: Arc::new(Channels::new()),
            answers: Vec::new(),
        };
        (context, subscription)
    }

    /// Calls a tool of the server `s`.
    pub async fn call(&self, servers: &McpServers, name: &str, text: &str) -> String {
        let (context, _frames) = self.context();
        output_text(&tool(servers, &format!("mcp__s__{name}")).call(&json!({"text": text}), &context).await)
    }
}

/// The source of sandboxes for plans in which no server asks for one.
pub fn no_sandbox(_network: NetworkAccess) -> PrepareLaunch {
    Arc::new(|start: &ProgramStart<'_>| -> Result<ProgramLaunch, String> {
        Err(format!("{} asks for a sandbox", start.program.display()))
    })
}

/// Returns the configuration of a fixture server: this binary with the given behaviour.
pub fn program(behaviour: &str) -> Value {
    json!({"command": std::env::current_exe().unwrap(), "args": ARGS, "env": {BEHAVIOUR: behaviour}})
}

/// Returns the configuration with one more setting.
pub fn with(mut server: Value, key: &str, value: impl Into<Value>) -> Value {
    server[key] = value.into();
    server
}

pub fn plan(servers: &[(&str, Value)]) -> Vec<PlannedServer> {
    let config: BTreeMap<String, ServerConfig> = servers
        .iter()
        .map(|(name, server)| ((*name).to_owned(), serde_json::from_value(server.clone()).unwrap()))
        .collect();
    mcp::plan_servers(&config, &ProjectServers::new(), &ProjectConsents::default(), &|_| None)
}

pub fn tool(servers: &McpServers, name: &str) -> Arc<dyn Tool> {
    servers.tools().into_iter().find(|tool| tool.spec().name == name).unwrap_or_else(|| panic!("no {name}"))
}

pub fn output_text(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("|");
    match output.status {
        ToolStatus::Success => text,
        ToolStatus::Error => format!("error: {text}"),
    }
}

/// Returns the status of one server.
pub fn status(servers: &McpServers, name: &str) -> McpServerStatus {
    servers.status().into_iter().find(|status| status.name == name).unwrap()
}

/// Returns the state of one server and the reason for it.
pub fn state(servers: &McpServers, name: &str) -> (McpServerState, String) {
    let status = status(servers, name);
    (status.state, status.error.unwrap_or_default())
}

/// Waits until no other process holds the lock of a file.
pub async fn wait_for_lock(path: PathBuf) {
    let locked = tokio::task::spawn_blocking(move || std::fs::File::open(path).unwrap().lock());
    locked.await.unwrap().unwrap();
}
