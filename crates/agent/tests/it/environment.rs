//! A home folder of its own, a session to import, and an agent over a journal that can be made to crash.

mod crashing_store;
mod event_lines;
mod raw_database;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent::{
    Agent, AgentSettings, ApprovalPolicy, CancellationToken, FrameSender, HomeFolder, PendingHandoff,
};
use journal::{PoolSettings, PostgresStore, SqliteStore, Store};
use protocol::{Decisions, Event, Message, ThreadId};
use serde_json::Value;
use tempfile::TempDir;
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio::runtime::Runtime;

pub use self::crashing_store::CrashingStore;
pub use self::event_lines::event_lines;

/// Opens a database of a server, whose connections are kept on a runtime that lasts as long as the process: a test's own ends
/// with the test, and may wait for nobody while it opens one.
fn open_on_server(url: String) -> Arc<dyn Store> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let pool = PoolSettings {
        min_idle: 0,
        max: 6,
        idle_timeout: Duration::from_secs(60),
        max_lifetime: Duration::from_secs(600),
        wait_timeout: Duration::from_secs(10),
    };
    let opened = std::thread::spawn(move || RUNTIME.block_on(PostgresStore::open(&url, pool)));
    Arc::new(opened.join().unwrap().unwrap())
}

/// The model of a world's agents.
pub const TEST_MODEL: &str = "anthropic/claude-test";

/// The file that has the URL of a world's database, where that is on a server.
const DATABASE_URL_FILE: &str = "database-url";

pub struct TestEnvironment {
    folder: PathBuf,
    /// Where it keeps what happened, when that is to be on a server; other processes read it from a file.
    database: Option<test_postgres::TestDatabase>,
    _removed_at_end: Option<TempDir>,
}

impl TestEnvironment {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = test_postgres::TestDatabase::create_if_configured().unwrap();
        if let Some(database) = &database {
            std::fs::write(folder.path().join(DATABASE_URL_FILE), database.socket_url()).unwrap();
        }
        Self { folder: folder.path().to_owned(), database, _removed_at_end: Some(folder) }
    }

    /// Returns the world that another process made.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, database: None, _removed_at_end: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn home(&self) -> HomeFolder {
        HomeFolder::locate(Some(self.folder.join("home").as_os_str())).unwrap()
    }

    pub fn agent_md(&self) -> PathBuf {
        self.home().agent_md_path(&"agent".parse().unwrap())
    }

    pub fn read_agent_md(&self) -> String {
        std::fs::read_to_string(self.agent_md()).unwrap_or_default()
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.home().create().unwrap();
        match std::fs::read_to_string(self.folder.join(DATABASE_URL_FILE)) {
            Ok(url) => open_on_server(url),
            Err(_) => Arc::new(SqliteStore::open(&self.home().database_path()).unwrap()),
        }
    }

    /// Returns an agent without a model.
    pub fn agent(&self) -> Agent {
        self.agent_over(self.store(), "none")
    }

    /// Returns an agent that talks to `server`.
    pub fn agent_with(&self, server: &ScriptedServer) -> Agent {
        self.configure(server);
        self.agent_over(self.store(), TEST_MODEL)
    }

    /// Returns an agent that talks to `server`, with more settings and a policy of its own.
    pub fn agent_with_policy(
        &self,
        server: &ScriptedServer,
        (config, approve): (&str, ApprovalPolicy),
    ) -> Agent {
        self.configure_with_extra(server, config);
        let settings = AgentSettings { approval_policy: approve, ..self.settings(TEST_MODEL) };
        Agent::with_store(settings, self.store()).unwrap()
    }

    pub fn configure(&self, server: &ScriptedServer) {
        self.configure_with_extra(server, "");
    }

    /// Writes settings for every provider, and `more`.
    pub fn configure_with_extra(&self, server: &ScriptedServer, more: &str) {
        self.home().create().unwrap();
        let mut text = String::new();
        for (provider, version) in
            [("anthropic", ""), ("openai", "/v1"), ("openai-chat", "/v1"), ("gemini", "")]
        {
            let url = server.url();
            text += &format!("[providers.{provider}]\nbase_url = \"{url}{version}\"\napi_key = \"test\"\n");
        }
        std::fs::write(self.home().config_path(), text + more).unwrap();
    }

    pub fn settings(&self, model: &str) -> AgentSettings {
        std::fs::create_dir_all(self.workspace()).unwrap();
        AgentSettings {
            model: Some(model.to_owned()),
            request_reader: langgraph::read_request,
            ..AgentSettings::new(self.home(), self.workspace())
        }
    }

    pub fn agent_over(&self, store: Arc<dyn Store>, model: &str) -> Agent {
        Agent::with_store(self.settings(model), store).unwrap()
    }

    /// Returns the folder that tools work in.
    pub fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// Puts a file into the workspace.
    pub fn write_file(&self, name: &str, text: &str) {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns a file of the workspace; nothing when there is none.
    pub fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace().join(name)).unwrap_or_default()
    }

    /// Writes a small session of an agent and returns its path.
    pub fn write_session(&self) -> PathBuf {
        let path = self.folder.join("session.json");
        std::fs::write(&path, SESSION_JSON).unwrap();
        path
    }

    /// Writes a session like it about the files of `name`, which no other session names.
    pub fn write_session_about(&self, name: &str) -> PathBuf {
        let path = self.folder.join(format!("session-{name}.json"));
        std::fs::write(&path, SESSION_JSON.replace("every file", &format!("every file of {name}"))).unwrap();
        path
    }
}

/// A conversation of six messages: a request, a rule, a call, a failing check and an open question.
pub const SESSION_JSON: &str = r#"[
 {"role":"user","content":"The importer drops the last row of every file. Find out why and fix it in src/import.rs. Never change the file format."},
 {"role":"assistant","content":"I look at the reader first.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"src/import.rs\"}"}}]},
 {"role":"tool","tool_call_id":"c1","content":"fn rows(text: &str) -> Vec<&str> { text.split('\\n').collect() }"},
 {"role":"assistant","content":"The loop stops one row early because the count excludes the header.","tool_calls":[{"id":"c2","type":"function","function":{"name":"edit_file","arguments":"{\"path\":\"src/import.rs\",\"old\":\"a\",\"new\":\"b\"}"}}]},
 {"role":"tool","tool_call_id":"c2","content":"edited src/import.rs"},
 {"role":"user","content":"Good. Now add a test for a file with one row only, and tell me when it passes."}
]"#;

pub fn unwatched() -> (FrameSender, CancellationToken) {
    (FrameSender::default(), CancellationToken::new())
}

pub fn decisions(json: &str) -> Decisions {
    serde_json::from_str(json).unwrap()
}

pub fn approval(pending: &PendingHandoff) -> Decisions {
    let sha256 = &pending.proposal.summary_sha256;
    decisions(&format!(r#"{{"decisions":[{{"type":"approve","summary_sha256":"{sha256}"}}]}}"#))
}

pub async fn import_session(world: &TestEnvironment, agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let report = agent.threads().import(&[world.write_session()], &frames, &cancel).await?;
    Ok(report.threads[0].thread_id)
}

/// Returns a server whose model answers every request with a text.
pub fn answering_server(text: &str) -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply::text(text).with_repeat()])).unwrap()
}

/// Words of the drafting prompt, by which its requests are known.
pub const DRAFT_PROMPT: &str = "You write the handoff summary";

/// A draft as a model answers it; it names only what the session contains.
pub const DRAFT: &str = r#"{"title":"Importer drops the last row","tldr":"The loop is mended; a test for one row is still to be written.",
"body":[{"kind":"objective","text":"Find out why the importer drops the last row and fix it in src/import.rs.","refs":[1]},
{"kind":"decision","text":"Never change the file format.","refs":[1]},
{"kind":"next_step","text":"Add a test for a file with one row only.","refs":[6]}]}"#;

/// Returns a server whose model drafts when it is asked to, and answers everything else.
pub fn drafting_server() -> ScriptedServer {
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    ScriptedServer::start(Script::new([draft, ScriptedReply::text("The test passes.").with_repeat()]))
        .unwrap()
}

/// Returns the thread's messages that are in sight.
pub async fn messages(agent: &Agent, thread: ThreadId) -> Vec<Message> {
    agent.threads().events(thread).await.unwrap().iter().filter_map(Event::message).collect()
}

/// Returns the texts of the thread's messages that are in sight.
pub async fn message_texts(agent: &Agent, thread: ThreadId) -> Vec<String> {
    messages(agent, thread).await.iter().map(Message::text).collect()
}

/// Fails unless every call in the request, in Anthropic's format, has its result in the next message, and no result
/// is without its call.
#[track_caller]
pub fn assert_paired(body: &Value) {
    let empty = Vec::new();
    let ids = |message: &Value, kind: &str, key: &str| -> Vec<String> {
        let blocks = message["content"].as_array().unwrap_or(&empty).iter();
        let blocks = blocks.filter(|block| block["type"] == kind);
        let mut ids: Vec<String> = blocks.map(|block| block[key].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(ids(&messages[0], "tool_result", "tool_use_id"), Vec::<String>::new(), "{body}");
    for pair in messages.windows(2) {
        let (calls, results) = (ids(&pair[0], "tool_use", "id"), ids(&pair[1], "tool_result", "tool_use_id"));
        assert_eq!(calls, results, "{body}");
    }
    let last = messages.last().unwrap();
    assert_eq!(ids(last, "tool_use", "id"), Vec::<String>::new(), "{body}");
}
