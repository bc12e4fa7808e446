//! A test server built with the server side of the protocol library, with selectable faulty behaviours.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    InitializeRequestParams, InitializeResult, InitializeResultMethod, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The environment variable that makes this binary a server and selects its behaviour.
pub const BEHAVIOUR: &str = "SEGUE_MCP_FIXTURE";

/// Arguments that make this test binary run only the server.
pub const ARGS: &[&str] =
    &["--exact", "fixture::run_as_server_if_requested", "-q", "--nocapture", "--test-threads=2"];

#[test]
fn run_as_server_if_requested() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else { return };
    if let Some(("hold", path)) = behaviour.split_once(':') {
        let _lock = hold(Path::new(path));
        println!("held");
        sleep_forever();
    }
    match behaviour.as_str() {
        "exit" => {
            eprintln!("first words\n  out of \x1b[31mcheese\n");
            std::process::exit(7);
        }
        "mute" => sleep_forever(),
        "garbage" => {
            std::io::stdout().write_all(b"\xff\xfe{]\n[1]\n{\"jsonrpc\":\"2.0\"}\nWelcome!\n").unwrap();
            sleep_forever();
        }
        "flood" => flood(),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let service = FixtureServer::new(&behaviour).serve(rmcp::transport::stdio()).await.unwrap();
        service.waiting().await.unwrap();
    });
    std::process::exit(0);
}

fn sleep_forever() {
    loop {
        std::thread::park();
    }
}

fn flood() {
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    while std::io::stdout().write_all(&line).is_ok() {}
    sleep_forever();
}

fn hold(path: &Path) -> std::fs::File {
    let file = std::fs::File::create(path).unwrap();
    file.lock().unwrap();
    file
}

/// The server. Clones share their state.
#[derive(Clone)]
pub struct FixtureServer {
    behaviour: String,
    cancelled: Arc<Notify>,
    has_more: Arc<AtomicBool>,
}

impl FixtureServer {
    pub fn new(behaviour: &str) -> Self {
        Self { behaviour: behaviour.to_owned(), cancelled: Arc::default(), has_more: Arc::default() }
    }

    fn tools(&self) -> Vec<Tool> {
        let names: Vec<String> = match self.behaviour.as_str() {
            "many" => (0..10_000).map(|n| format!("tool_{n:05}")).collect(),
            _ => [
                "echo",
                "refuse",
                "big",
                "die",
                "slow",
                "babble",
                "was_cancelled",
                "hang",
                "pid",
                "environment",
                "hold",
                "child",
                "flood",
                "more",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        let mut tools: Vec<Tool> = names.into_iter().map(tool).collect();
        if self.has_more.load(Ordering::SeqCst) {
            tools.push(tool("newcomer".to_owned()));
        }
        tools
    }

    async fn slow(&self, context: &RequestContext<RoleServer>) -> String {
        let token = context.meta.get_progress_token().unwrap();
        let progress =
            ProgressNotificationParam::new(token, 1.0).with_total(2.0).with_message("half\u{1b}way");
        context.peer.notify_progress(progress).await.unwrap();
        context.ct.cancelled().await;
        self.cancelled.notify_one();
        "too late".to_owned()
    }
}

fn tool(name: String) -> Tool {
    let read_only = name == "echo";
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let schema = schema.as_object().unwrap().clone();
    Tool::new(name, "Does </mcp_description> things.", schema)
        .with_annotations(rmcp::model::ToolAnnotations::new().read_only(read_only))
}

/// Starts a child process that locks a file, and returns once the lock is held.
#[expect(clippy::zombie_processes, reason = "the child outlives the call and is killed with the server")]
fn start_child(path: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(ARGS)
        .env(BEHAVIOUR, format!("hold:{path}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap().contains("held")));
}

impl ServerHandler for FixtureServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.behaviour == "modern" {
            return Err(ErrorData::method_not_found::<InitializeResultMethod>());
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        const PAGE: usize = 1_000;
        let from: usize = request.and_then(|page| page.cursor).map_or(0, |cursor| cursor.parse().unwrap());
        let all = self.tools();
        let next = from + PAGE;
        let mut page = ListToolsResult::with_all_items(all.iter().skip(from).take(PAGE).cloned().collect());
        page.next_cursor = (next < all.len()).then(|| next.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = Value::Object(request.arguments.unwrap_or_default());
        let text = args["text"].as_str().unwrap_or_default().to_owned();
        let response = match &*request.name {
            "echo" => text,
            "refuse" => return Err(ErrorData::invalid_params("no such thing", None)),
            "big" => "é".repeat(100_000),
            "die" => {
                eprintln!("dying of {text}");
                std::process::exit(3);
            }
            "slow" => self.slow(&context).await,
            "babble" => {
                let token = context.meta.get_progress_token().unwrap();
                for done in 0..2_000 {
                    let progress = ProgressNotificationParam::new(token.clone(), f64::from(done));
                    context.peer.notify_progress(progress).await.unwrap();
                }
                "done".to_owned()
            }
            "was_cancelled" => {
                self.cancelled.notified().await;
                "yes".to_owned()
            }
            "hang" => std::future::pending().await,
            "pid" => std::process::id().to_string(),
            "environment" => std::env::var(text).unwrap_or_else(|_| "(unset)".to_owned()),
            "hold" => {
                std::mem::forget(hold(Path::new(&text)));
                "held".to_owned()
            }
            "child" => {
                start_child(&text);
                "held".to_owned()
            }
            "flood" => {
                std::thread::spawn(flood);
                std::future::pending().await
            }
            "more" => {
                self.has_more.store(true, Ordering::SeqCst);
                context.peer.notify_tool_list_changed().await.unwrap();
                "more".to_owned()
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(response)]).into())
    }
}
