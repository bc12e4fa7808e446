//! The test fixture: a server on its own port with its own home folder, and requests to it.

mod folder;

use std::path::Path;

use agent::{Agent, CancellationToken};
use http::{AuthMode, InstallToken, ServerSettings};
use protocol::OwnerScope;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use scheduler::{Scheduler, SchedulerLimits, WebhookTargetPolicy};
use serde_json::Value;
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::folder::TestFolder;
use self::folder::{database, home};

/// A running server with its agent, its folder and its model.
pub struct ServerFixture {
    pub url: String,
    pub token: String,
    pub agent: Agent,
    pub folder: TestFolder,
    pub model: ScriptedServer,
    client: reqwest::Client,
    shutdown: CancellationToken,
    task: JoinHandle<http::Result<()>>,
}

/// The sender of a request.
#[derive(Clone, Copy)]
pub enum TestCaller<'a> {
    /// A client without a key.
    Anonymous,
    /// The local operator, with the install token.
    Local,
    /// A user with that key.
    Key(&'a str),
}

impl ServerFixture {
    /// Starts a server whose model always answers `Done.`.
    pub async fn start_default() -> Self {
        Self::with_settings(|settings| settings).await
    }

    /// Starts a server with changed settings.
    pub async fn with_settings(change: impl FnOnce(ServerSettings) -> ServerSettings) -> Self {
        let reply = ScriptedReply { always: true, text: vec!["Done.".into()], ..ScriptedReply::default() };
        Self::with_script(Script { replies: vec![reply], ..Script::default() }, change).await
    }

    /// Starts a server whose model plays the script.
    pub async fn with_script(script: Script, change: impl FnOnce(ServerSettings) -> ServerSettings) -> Self {
        let model = ScriptedServer::start(script).unwrap();
        let folder = TestFolder::new();
        write_config(folder.path(), &model);
        Self::in_folder(model, folder, change).await
    }

    /// Starts a server in the folder of an earlier one.
    pub async fn in_folder(
        model: ScriptedServer,
        folder: TestFolder,
        change: impl FnOnce(ServerSettings) -> ServerSettings,
    ) -> Self {
        let running = start_server(folder.path(), change).await;
        Self::from_running(running, model, folder)
    }

    /// Starts a server that sends webhooks to any address, including those of this machine.
    pub async fn with_open_webhooks(script: Script) -> Self {
        let (model, folder) = (ScriptedServer::start(script).unwrap(), TestFolder::new());
        write_config(folder.path(), &model);
        let limits =
            SchedulerLimits { webhook_targets: WebhookTargetPolicy::Any, ..SchedulerLimits::default() };
        let running = start_server_with_limits(folder.path(), limits, |settings| settings).await;
        Self::from_running(running, model, folder)
    }

    /// Returns the fixture of a running server.
    fn from_running(running: RunningServer, model: ScriptedServer, folder: TestFolder) -> Self {
        let RunningServer { url, token, agent, shutdown, task } = running;
        Self { url, token, agent, folder, model, client: http_client(), shutdown, task }
    }

    /// Returns a request with the caller's authentication.
    pub fn request(&self, caller: TestCaller<'_>, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match caller {
            TestCaller::Anonymous => request,
            TestCaller::Local => request.header("x-api-key", &self.token),
            TestCaller::Key(key) => request.header("x-api-key", key),
        }
    }

    /// Sends a GET request as the local operator; returns status and body.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        read_response(self.request(TestCaller::Local, Method::GET, path).send().await.unwrap()).await
    }

    /// Sends a POST request as the local operator; returns status and body.
    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(TestCaller::Local, Method::POST, path, body).await
    }

    /// Sends a request with a body; returns status and body of the response.
    pub async fn send(
        &self,
        caller: TestCaller<'_>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> (StatusCode, Value) {
        read_response(self.request(caller, method, path).json(body).send().await.unwrap()).await
    }

    /// Creates a key for a user and returns it.
    pub async fn create_key(&self, user: &str) -> String {
        let agent = self.agent.scoped(OwnerScope::Owner(None));
        agent.admin().create_key(&user.parse().unwrap(), None).await.unwrap().1
    }

    /// Creates a thread and returns its id.
    pub async fn create_thread(&self, caller: TestCaller<'_>) -> String {
        let (status, thread) = self.send(caller, Method::POST, "/threads", &serde_json::json!({})).await;
        assert_eq!(status, 200, "{thread}");
        thread["thread_id"].as_str().unwrap().to_owned()
    }

    /// Creates a thread with one message and its answer, and returns its id.
    pub async fn create_thread_with_message(&self, caller: TestCaller<'_>, text: &str) -> String {
        let thread = self.create_thread(caller).await;
        self.send_message(caller, &thread, text).await;
        thread
    }

    /// Sends a message to a thread and waits for the end of the run; returns the values of the state.
    pub async fn send_message(&self, caller: TestCaller<'_>, thread: &str, text: &str) -> Value {
        let path = format!("/threads/{thread}/runs/wait");
        let body = serde_json::json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}});
        let (status, values) = self.send(caller, Method::POST, &path, &body).await;
        assert_eq!(status, 200, "{values}");
        assert!(values.get("__error__").is_none(), "{values}");
        values
    }

    /// Waits until exactly `count` streams are open.
    pub async fn wait_for_open_streams(&self, count: usize) {
        let line = format!("segue_streams_open {count}\n");
        while !self.get("/metrics").await.1.as_str().unwrap().contains(&line) {
            tokio::task::yield_now().await;
        }
    }

    /// Shuts the server down and returns its folder.
    pub async fn stop(self) -> TestFolder {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
        self.folder
    }
}

/// A server that runs in a task of this process.
pub struct RunningServer {
    pub url: String,
    pub token: String,
    agent: Agent,
    shutdown: CancellationToken,
    task: JoinHandle<http::Result<()>>,
}

impl RunningServer {
    /// Shuts the server down.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Writes the configuration with which a server in the folder uses the model.
pub fn write_config(folder: &Path, model: &ScriptedServer) {
    let home = home(folder);
    home.create().unwrap();
    let config = format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"test\"\n", model.url());
    std::fs::write(home.config_path(), config).unwrap();
}

/// Starts a server in the folder, which recovers the work of an earlier one.
pub async fn start_server(
    folder: &Path,
    change: impl FnOnce(ServerSettings) -> ServerSettings,
) -> RunningServer {
    start_server_with_limits(folder, SchedulerLimits::default(), change).await
}

async fn start_server_with_limits(
    folder: &Path,
    limits: SchedulerLimits,
    change: impl FnOnce(ServerSettings) -> ServerSettings,
) -> RunningServer {
    let (home, workspace) = (home(folder), folder.join("workspace"));
    std::fs::create_dir_all(&workspace).unwrap();
    let settings = agent::AgentSettings::new(home.clone(), workspace);
    let settings = agent::AgentSettings { model: Some("anthropic/claude-test".to_owned()), ..settings };
    let read_request = http::read_request;
    let settings =
        agent::AgentSettings { database: database(folder), request_reader: read_request, ..settings };
    let agent = Agent::open(settings).await.unwrap();
    let scheduler = Scheduler::new(agent.clone(), limits);
    scheduler.recover().await.unwrap();
    let token = InstallToken::load_or_create(&home.root().join("token")).unwrap();
    let settings = change(ServerSettings::new(AuthMode::Token(token.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(http::serve(listener, scheduler, settings, shutdown.clone()));
    RunningServer { url, token: token.expose().to_owned(), agent, shutdown, task }
}

/// Returns an HTTP client.
pub fn http_client() -> reqwest::Client {
    http_client::install_crypto_provider();
    reqwest::Client::new()
}

/// Returns the status and the JSON body of a response; a body that is not JSON is returned as a text.
pub async fn read_response(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (status, value)
}
