//! Fixtures of the integration tests: a temporary home folder, sessions to import, scripted model servers, and agents over a
//! store that can simulate crashes.

mod crashing_store;
mod event_lines;
mod raw_database;

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent::{
    Agent, AgentSettings, ApprovalPolicy, CancellationToken, DatabaseAddress, FrameSender, HomeFolder,
    PendingHandoff,
};
use journal::{PoolSettings, PostgresStore, SqliteStore, Store};
use protocol::{Decisions, Event, Message, ThreadId};
use serde_json::Value;
use tempfile::TempDir;
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio::runtime::Runtime;

pub use self::crashing_store::CrashingStore;
pub use self::event_lines::event_lines;

/// Opens a PostgreSQL database. Its connections are bound to a Tokio runtime that lasts as long as the process, because the
/// runtime of a test ends with the test. A separate thread opens the database, because `block_on` panics inside the runtime
/// of a test.
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

/// The model of the agents in these tests.
pub const TEST_MODEL: &str = "anthropic/claude-test";

/// The name of the file that holds the URL of the environment's database if that is a PostgreSQL database.
const DATABASE_URL_FILE: &str = "database-url";

/// A temporary folder with a home folder and a workspace, and the database of its journal.
pub struct TestEnvironment {
    folder: PathBuf,
    /// The PostgreSQL database of the journal, or `None` for SQLite. Other processes read its URL from
    /// [`DATABASE_URL_FILE`].
    database: Option<test_postgres::TestDatabase>,
    /// The guard that removes the folder on drop. `None` if another process owns the folder.
    _temp_dir: Option<TempDir>,
}

impl TestEnvironment {
    /// Creates an empty environment, which is removed on drop.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = test_postgres::TestDatabase::create_if_configured().unwrap();
        if let Some(database) = &database {
            std::fs::write(folder.path().join(DATABASE_URL_FILE), database.socket_url()).unwrap();
        }
        Self { folder: folder.path().to_owned(), database, _temp_dir: Some(folder) }
    }

    /// Returns the environment in a folder that another process created. It is not removed on drop.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, database: None, _temp_dir: None }
    }

    /// Returns the folder that contains the home folder and the workspace.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns Segue's home folder. It need not exist yet.
    pub fn home(&self) -> HomeFolder {
        HomeFolder::locate(Some(self.folder.join("home").as_os_str())).unwrap()
    }

    /// Returns the path of the default assistant's `agent.md`.
    pub fn agent_md(&self) -> PathBuf {
        self.home().agent_md_path(&"agent".parse().unwrap())
    }

    /// Returns the text of the default assistant's `agent.md`, or an empty text if there is no such file.
    pub fn read_agent_md(&self) -> String {
        std::fs::read_to_string(self.agent_md()).unwrap_or_default()
    }

    /// Opens the journal of the environment: PostgreSQL if a URL file exists, otherwise SQLite.
    pub fn store(&self) -> Arc<dyn Store> {
        self.home().create().unwrap();
        match std::fs::read_to_string(self.folder.join(DATABASE_URL_FILE)) {
            Ok(url) => open_on_server(url),
            Err(_) => Arc::new(SqliteStore::open(&self.home().database_path()).unwrap()),
        }
    }

    /// Returns the address of the database if it is on a server; `None` for the file in the home folder.
    pub fn server_address(&self) -> Option<DatabaseAddress> {
        self.database.as_ref().map(|database| DatabaseAddress::Server(database.socket_url().into()))
    }

    /// Returns an agent without a model.
    pub fn agent(&self) -> Agent {
        self.agent_over(self.store(), "none")
    }

    /// Returns an agent whose models are served by `server`.
    pub fn agent_with(&self, server: &ScriptedServer) -> Agent {
        self.configure(server);
        self.agent_over(self.store(), TEST_MODEL)
    }

    /// Returns an agent whose models are served by `server`, with more configuration text and an approval policy.
    pub fn agent_with_policy(
        &self,
        server: &ScriptedServer,
        (config, approve): (&str, ApprovalPolicy),
    ) -> Agent {
        self.configure_with_extra(server, config);
        let settings = AgentSettings { approval_policy: approve, ..self.settings(TEST_MODEL) };
        Agent::with_store(settings, self.store()).unwrap()
    }

    /// Writes a configuration in which every provider is served by `server`.
    pub fn configure(&self, server: &ScriptedServer) {
        self.configure_with_extra(server, "");
    }

    /// Writes a configuration in which every provider is served by `server`, followed by the text `extra`.
    pub fn configure_with_extra(&self, server: &ScriptedServer, extra: &str) {
        self.home().create().unwrap();
        let mut text = String::new();
        for (provider, version) in
            [("anthropic", ""), ("openai", "/v1"), ("openai-chat", "/v1"), ("gemini", "")]
        {
            let url = server.url();
            text += &format!("[providers.{provider}]\nbase_url = \"{url}{version}\"\napi_key = \"test\"\n");
        }
        std::fs::write(self.home().config_path(), text + extra).unwrap();
    }

    /// Returns settings for an agent with this home, workspace and model. Creates the workspace.
    pub fn settings(&self, model: &str) -> AgentSettings {
        std::fs::create_dir_all(self.workspace()).unwrap();
        AgentSettings {
            model: Some(model.to_owned()),
            request_reader: langgraph::read_request,
            ..AgentSettings::new(self.home(), self.workspace())
        }
    }

    /// Returns an agent over `store` with this home, workspace and model.
    pub fn agent_over(&self, store: Arc<dyn Store>, model: &str) -> Agent {
        Agent::with_store(self.settings(model), store).unwrap()
    }

    /// Returns the folder in which tools work.
    pub fn workspace(&self) -> PathBuf {
        self.folder.join("workspace")
    }

    /// Writes a file of the workspace.
    pub fn write_file(&self, name: &str, text: &str) {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Returns the text of a file of the workspace, or an empty text if there is no such file.
    pub fn read_file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace().join(name)).unwrap_or_default()
    }

    /// Writes the session [`SESSION_JSON`] and returns its path.
    pub fn write_session(&self) -> PathBuf {
        let path = self.folder.join("session.json");
        std::fs::write(&path, SESSION_JSON).unwrap();
        path
    }

    /// Writes a variant of [`SESSION_JSON`] about the files of `name`, so that each name gives a different session.
    /// Returns its path.
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

/// Returns a frame sender without subscribers, and a cancellation token that is not cancelled.
pub fn unwatched() -> (FrameSender, CancellationToken) {
    (FrameSender::default(), CancellationToken::new())
}

/// Parses decisions from JSON.
pub fn decisions(json: &str) -> Decisions {
    serde_json::from_str(json).unwrap()
}

/// Returns decisions that approve the proposal that `pending` shows, named by its hash.
pub fn approval(pending: &PendingHandoff) -> Decisions {
    let sha256 = &pending.proposal.summary_sha256;
    decisions(&format!(r#"{{"decisions":[{{"type":"approve","summary_sha256":"{sha256}"}}]}}"#))
}

/// Imports the session [`SESSION_JSON`] and returns its thread.
pub async fn import_session(environment: &TestEnvironment, agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let report = agent.threads().import(&[environment.write_session()], &frames, &cancel).await?;
    Ok(report.threads[0].thread_id)
}

/// Returns a server that answers every request with `text`.
pub fn answering_server(text: &str) -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply::text(text).with_repeat()])).unwrap()
}

/// A phrase of the drafting prompt, which identifies requests for a draft.
pub const DRAFT_PROMPT: &str = "You write the handoff summary";

/// A model's reply to the drafting prompt. It names only files and facts that [`SESSION_JSON`] contains.
pub const DRAFT: &str = r#"{"title":"Importer drops the last row","tldr":"The loop is mended; a test for one row is still to be written.",
"body":[{"kind":"objective","text":"Find out why the importer drops the last row and fix it in src/import.rs.","refs":[1]},
{"kind":"decision","text":"Never change the file format.","refs":[1]},
{"kind":"next_step","text":"Add a test for a file with one row only.","refs":[6]}]}"#;

/// A phrase of the prompt for a part of a long conversation.
pub const PART_PROMPT: &str = "You read one part of a conversation";

/// Configuration text under which a draft gets only 4,000 tokens of a conversation.
pub const LONG_INPUT_CONFIG: &str = "[handoff]\nmax_input_tokens = 4000\n";

/// Returns the seqs and the texts of a session of `count` messages with about 200 tokens each: requests, answers with a
/// call, and results.
pub fn long_session(count: u64) -> Vec<(u64, String)> {
    let words = |seq: u64| format!("detail-{seq} ").repeat(70);
    let text = |seq: u64| match seq % 4 {
        1 => format!("Port topic-{seq}-request. {}", words(seq)),
        2 => format!("I port topic-{seq}-answer. {}", words(seq)),
        3 => format!("built target {seq}: {}", words(seq)),
        _ => format!("Ported topic-{seq}-done. {}", words(seq)),
    };
    (1..=count).map(|seq| (seq, text(seq))).collect()
}

/// Imports [`long_session`] and returns its thread.
pub async fn import_long_session(
    environment: &TestEnvironment,
    agent: &Agent,
    count: u64,
) -> agent::Result<ThreadId> {
    let message = |(seq, text): (u64, String)| match seq % 4 {
        1 => serde_json::json!({"role": "user", "content": text}),
        2 => {
            serde_json::json!({"role": "assistant", "content": text, "tool_calls": [{"id": format!("c{seq}"),
            "type": "function", "function": {"name": "run", "arguments": format!("{{\"command\":\"make target {}\"}}", seq + 1)}}]})
        }
        3 => serde_json::json!({"role": "tool", "tool_call_id": format!("c{}", seq - 1), "content": text}),
        _ => serde_json::json!({"role": "assistant", "content": text}),
    };
    let messages: Vec<Value> = long_session(count).into_iter().map(message).collect();
    let path = environment.folder().join("long.json");
    std::fs::write(&path, Value::from(messages).to_string()).unwrap();
    let (frames, cancel) = unwatched();
    let report = agent.threads().import(&[path], &frames, &cancel).await?;
    Ok(report.threads[0].thread_id)
}

/// Returns an answer to every part of [`long_session`]: a note about each of its requests. A part takes those about its own
/// messages.
pub fn notes_of_parts() -> String {
    (0..100).map(|n| format!("[{0}] note {0}\n", 4 * n + 1)).collect()
}

/// Returns a server that answers the drafting prompt with [`DRAFT`], and all other requests with a short text.
pub fn drafting_server() -> ScriptedServer {
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    ScriptedServer::start(Script::new([draft, ScriptedReply::text("The test passes.").with_repeat()]))
        .unwrap()
}

/// Returns the visible messages of a thread.
pub async fn messages(agent: &Agent, thread: ThreadId) -> Vec<Message> {
    agent.threads().events(thread).await.unwrap().iter().filter_map(Event::message).collect()
}

/// Returns the texts of a thread's visible messages.
pub async fn message_texts(agent: &Agent, thread: ThreadId) -> Vec<String> {
    messages(agent, thread).await.iter().map(Message::text).collect()
}

/// Asserts, for a request body in Anthropic's format, that the next message holds the results of each message's tool calls,
/// and that every result has its call.
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
