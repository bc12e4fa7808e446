//! A server on a port of its own over a home of its own, and clients that send it requests.

mod folder;

use std::path::Path;

use agent::{Agent, CancellationToken};
use http::{Auth, Settings, Token};
use protocol::Scope;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use scheduler::{Dispatch, Limits, WebhookTargets};
use serde_json::Value;
use test_model::{Reply, Script, Server};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::folder::Folder;
use self::folder::{database, home};

/// A server, with everything it needs.
pub struct World {
    pub url: String,
    pub token: String,
    pub agent: Agent,
    pub folder: Folder,
    pub model: Server,
    client: reqwest::Client,
    shutdown: CancellationToken,
    served: JoinHandle<http::Result<()>>,
}

/// Whoever sends requests.
#[derive(Clone, Copy)]
pub enum As<'a> {
    /// Nobody says who they are.
    Nobody,
    /// The person at the machine.
    Local,
    /// Who has that key.
    Key(&'a str),
}

impl World {
    /// Returns a server whose model always says `Done.`.
    pub async fn start() -> Self {
        Self::with(|settings| settings).await
    }

    /// Returns one with other settings.
    pub async fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let reply = Reply { always: true, text: vec!["Done.".into()], ..Reply::default() };
        Self::playing(Script { replies: vec![reply], ..Script::default() }, change).await
    }

    /// Returns one whose model plays the script.
    pub async fn playing(script: Script, change: impl FnOnce(Settings) -> Settings) -> Self {
        let model = Server::start(script).unwrap();
        let folder = Folder::new();
        configure(folder.path(), &model);
        Self::on((model, folder), change).await
    }

    /// Returns one that goes on in the folder of another.
    pub async fn on((model, folder): (Server, Folder), change: impl FnOnce(Settings) -> Settings) -> Self {
        let served = serve(folder.path(), change).await;
        Self::of(served, (model, folder))
    }

    /// Returns one that tells every address of the ends of runs, those of this machine too.
    pub async fn telling_anybody(script: Script) -> Self {
        let (model, folder) = (Server::start(script).unwrap(), Folder::new());
        configure(folder.path(), &model);
        let limits = Limits { webhook_targets: WebhookTargets::Any, ..Limits::default() };
        let served = serve_within(folder.path(), limits, |settings| settings).await;
        Self::of(served, (model, folder))
    }

    fn of(served: Served, (model, folder): (Server, Folder)) -> Self {
        let Served { url, token, agent, shutdown, served } = served;
        Self { url, token, agent, folder, model, client: reqwest::Client::new(), shutdown, served }
    }

    /// Returns a request.
    pub fn request(&self, who: As<'_>, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        match who {
            As::Nobody => request,
            As::Local => request.header("x-api-key", &self.token),
            As::Key(key) => request.header("x-api-key", key),
        }
    }

    /// Returns what the person at the machine is answered.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(As::Local, Method::GET, path).send().await.unwrap()).await
    }

    /// Returns what the person at the machine is answered.
    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.send(As::Local, (Method::POST, path), body).await
    }

    /// Returns what somebody is answered.
    pub async fn send(
        &self,
        who: As<'_>,
        (method, path): (Method, &str),
        body: &Value,
    ) -> (StatusCode, Value) {
        answer(self.request(who, method, path).json(body).send().await.unwrap()).await
    }

    /// Returns a key of a user.
    pub async fn key(&self, user: &str) -> String {
        let agent = self.agent.scoped(Scope::Owner(None));
        agent.admin().create_key(&user.parse().unwrap(), None).await.unwrap().1
    }

    /// Makes a thread and returns its id.
    pub async fn thread(&self, who: As<'_>) -> String {
        let (status, thread) = self.send(who, (Method::POST, "/threads"), &serde_json::json!({})).await;
        assert_eq!(status, 200, "{thread}");
        thread["thread_id"].as_str().unwrap().to_owned()
    }

    /// Makes a thread in which something was said and answered, and returns its id.
    pub async fn talk(&self, who: As<'_>, text: &str) -> String {
        let thread = self.thread(who).await;
        self.say(who, (&thread, text)).await;
        thread
    }

    /// Says something in a thread, and waits for the answer.
    pub async fn say(&self, who: As<'_>, (thread, text): (&str, &str)) -> Value {
        let path = format!("/threads/{thread}/runs/wait");
        let body = serde_json::json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}});
        let (status, values) = self.send(who, (Method::POST, &path), &body).await;
        assert_eq!(status, 200, "{values}");
        assert!(values.get("__error__").is_none(), "{values}");
        values
    }

    /// Waits until so many streams are open.
    pub async fn streams_open(&self, count: usize) {
        let line = format!("segue_streams_open {count}\n");
        while !self.get("/metrics").await.1.as_str().unwrap().contains(&line) {
            tokio::task::yield_now().await;
        }
    }

    /// Stops the server, and waits until it has.
    pub async fn stop(self) -> Folder {
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
        self.folder
    }
}

/// A server at work.
pub struct Served {
    pub url: String,
    pub token: String,
    agent: Agent,
    shutdown: CancellationToken,
    served: JoinHandle<http::Result<()>>,
}

impl Served {
    /// Stops the server, and waits until it has.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
    }
}

/// Writes the settings by which a server in the folder talks to the model.
pub fn configure(folder: &Path, model: &Server) {
    let home = home(folder);
    home.create().unwrap();
    let config = format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"test\"\n", model.url());
    std::fs::write(home.config(), config).unwrap();
}

/// Starts a server in the folder, which takes up what an earlier one left.
pub async fn serve(folder: &Path, change: impl FnOnce(Settings) -> Settings) -> Served {
    serve_within(folder, Limits::default(), change).await
}

async fn serve_within(folder: &Path, limits: Limits, change: impl FnOnce(Settings) -> Settings) -> Served {
    let (home, workspace) = (home(folder), folder.join("workspace"));
    std::fs::create_dir_all(&workspace).unwrap();
    let settings = agent::Settings::new(home.clone(), workspace);
    let settings = agent::Settings { model: Some("anthropic/claude-test".to_owned()), ..settings };
    let read_request = http::read_request;
    let settings = agent::Settings { database: database(folder), read_request, ..settings };
    let agent = Agent::open(settings).await.unwrap();
    let dispatch = Dispatch::new(agent.clone(), limits);
    dispatch.recover().await.unwrap();
    let token = Token::at(&home.root().join("token")).unwrap();
    let settings = change(Settings::new(Auth::Token(token.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(http::serve(listener, dispatch, settings, shutdown.clone()));
    Served { url, token: token.expose().to_owned(), agent, shutdown, served }
}

/// Returns status and JSON of an answer; what is no JSON is a text.
pub async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let text = response.text().await.unwrap();
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (status, value)
}
