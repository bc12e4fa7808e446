//! Calls one hook: runs its command or posts to its URL, with a timeout, and parses its answer.
//!
//! The dispatcher and the caller of `compaction.before` decide when to call a hook and how to report a failure.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rustix::process::{Pid, Signal};
use sandbox::{PrepareLaunch, ProgramLaunch, ProgramStart};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::payload::{HookEvent, HookPayload};
use crate::settings::{HookConfig, TIMEOUT_SECONDS};

/// The shell that runs the command lines.
const SHELL: &str = "sh";

/// The environment variable that a hook's command gets, with the name of the event. A program in whose environment it is
/// set calls no hooks, which prevents recursion when a hook uses `segue`.
const HOOK_VARIABLE: &str = "SEGUE_HOOK";

/// Maximum bytes kept of the answer of a hook: of each output of a command, or of a response body. More than that is read
/// and discarded from a command, and not read from a response.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Maximum characters of a hook's own text that are shown: the reason of a veto, or the last line on standard error.
const STDERR_TAIL_CHARS_MAX: usize = 200;
/// Maximum time for reading the remaining output of a command that has exited; at most half of its timeout is used.
///
/// A process that the command left in the background may keep the pipes open, so end of file may never come. Half the
/// timeout ensures that such a call still succeeds: the command itself has exited.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// The process group leaders of the commands that run now. A program that exits on a signal does not drop the futures of
/// the calls, so [`kill_commands`] uses this set instead.
static GROUP_LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A configured hook that can be called.
pub struct UserHook {
    /// The name in logs and messages.
    name: String,
    /// The events that the hook subscribes to.
    events: Vec<HookEvent>,
    transport: Transport,
    /// The timeout of one call.
    timeout: Duration,
}

/// The way a hook is called.
enum Transport {
    /// A command line.
    Command(HookCommand),
    /// A POST request to a URL.
    Post(Box<HookEndpoint>),
}

/// The command of a hook.
struct HookCommand {
    /// The line for [`SHELL`].
    line: String,
    /// The folder in which it runs.
    folder: PathBuf,
    /// Prepares its sandbox; `None` without a sandbox.
    sandbox: Option<PrepareLaunch>,
}

/// The URL of a hook, with the client that posts to it.
struct HookEndpoint {
    client: reqwest::Client,
    url: Url,
    /// The configured headers and the content type. Configured values are marked sensitive.
    headers: HeaderMap,
}

/// The answer of a hook that was called successfully.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// The hook has no objection.
    Acknowledged,
    /// The hook vetoes the action. Only `compaction.before` can be vetoed; for other events a veto has no effect.
    Veto {
        /// The reason, on one line of at most 200 characters, redacted.
        reason: String,
    },
}

/// A failed call of a hook. The message continues "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The command cannot be started.
    #[error("start its command in {}: {error}", folder.display())]
    CommandNotStarted {
        /// The folder in which the command was to run.
        folder: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The command cannot run in the sandbox that its settings require.
    #[error("run its command in the sandbox: {0}")]
    NotSandboxed(String),
    /// The exit status of the command cannot be determined.
    #[error("get the exit status of its command: {0}")]
    ExitUnknown(std::io::Error),
    /// The command exited with a status other than 0.
    #[error("run its command: exit status {status}{complaint}")]
    ExitStatus {
        /// The exit status.
        status: i32,
        /// `": "` and the last line on standard error, or an empty string.
        complaint: String,
    },
    /// A signal killed the command.
    #[error("run its command: a signal killed it{complaint}")]
    KilledBySignal {
        /// `": "` and the last line on standard error, or an empty string.
        complaint: String,
    },
    /// The call took longer than the timeout, and was cancelled.
    #[error("finish within its timeout of {seconds} s")]
    TimedOut {
        /// The timeout in seconds.
        seconds: u64,
    },
    /// The URL responded with a status other than 2xx.
    #[error("post to its URL: the response has status {0}")]
    HttpStatus(u16),
    /// The request could not be sent, or its response could not be read. The message does not contain the URL.
    #[error("reach its URL: {0}")]
    Unreachable(String),
    /// The payload cannot be serialized.
    #[error("serialize the payload: {0}")]
    PayloadNotSerialized(#[from] serde_json::Error),
}

/// The JSON answer of a hook. Other fields are ignored.
#[derive(Deserialize)]
struct HookReply {
    veto: Option<VetoField>,
}

/// The value of `veto`: the reason, or a flag.
#[derive(Deserialize)]
#[serde(untagged)]
enum VetoField {
    Reason(String),
    Flag(bool),
}

impl fmt::Debug for UserHook {
    /// Formats the name only, because the URL and the headers may contain keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("UserHook").field(&self.name).finish()
    }
}

/// Returns whether this program runs inside a command of a hook.
pub fn is_run_by_hook() -> bool {
    std::env::var_os(HOOK_VARIABLE).is_some_and(|value| !value.is_empty())
}

impl UserHook {
    /// Returns the hook for a valid configuration (see [`HookConfig::validation_error`]). Its command runs in `folder`, in the
    /// sandbox that `sandbox` prepares; `None` runs it without one.
    ///
    /// # Errors
    /// [`HookError::Unreachable`] if the HTTP client cannot be built, for example because the machine has no usable root
    /// certificates.
    pub fn new(
        config: &HookConfig,
        folder: &Path,
        sandbox: Option<PrepareLaunch>,
    ) -> Result<Self, HookError> {
        let seconds = config.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        let timeout = Duration::from_secs(seconds.into());
        let transport = match config.parsed_url() {
            Some(url) => Transport::Post(Box::new(HookEndpoint::new(config, url)?)),
            None => Transport::Command(HookCommand {
                line: config.command.clone().unwrap_or_default(),
                folder: folder.to_owned(),
                sandbox,
            }),
        };
        Ok(Self { name: config.display_name(), events: config.on.clone(), transport, timeout })
    }

    /// Returns the name of the hook in logs and messages. It contains no secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the hook subscribes to this event.
    pub fn is_subscribed_to(&self, event: HookEvent) -> bool {
        self.events.contains(&event)
    }

    /// Returns the timeout of one call.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Calls the hook once and returns its answer.
    ///
    /// If the timeout passes or the future is dropped, the command is killed with its whole process group, or the request is
    /// aborted. The call is not retried.
    ///
    /// # Errors
    /// If the hook cannot be reached or started, if it fails, or if the timeout passes.
    pub async fn call_hook(&self, payload: &HookPayload) -> Result<HookAnswer, HookError> {
        let body = serde_json::to_vec(payload)?;
        let call = async {
            match &self.transport {
                Transport::Command(command) => {
                    let drain_time_max = DRAIN_TIME_MAX.min(self.timeout / 2);
                    run_command(command, payload.hook, body, drain_time_max).await
                }
                Transport::Post(endpoint) => endpoint.post(body).await,
            }
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => Ok(parse_reply(&answer?)),
            Err(_) => Err(HookError::TimedOut { seconds: self.timeout.as_secs() }),
        }
    }
}

/// Parses the answer of a hook. `{"veto": "reason"}` and `{"veto": true}` are vetoes; any other text, including text that
/// is not JSON, acknowledges the call.
fn parse_reply(answer: &[u8]) -> HookAnswer {
    let reason = match serde_json::from_slice(answer) {
        Ok(HookReply { veto: Some(VetoField::Reason(reason)) }) => short_line(&reason),
        Ok(HookReply { veto: Some(VetoField::Flag(true)) }) => String::new(),
        Ok(HookReply { veto: Some(VetoField::Flag(false)) | None }) | Err(_) => {
            return HookAnswer::Acknowledged;
        }
    };
    HookAnswer::Veto { reason: if reason.is_empty() { "no reason given".to_owned() } else { reason } }
}

/// Runs a command line and returns the first [`ANSWER_BYTES_MAX`] bytes of its standard output.
///
/// `body` is its standard input. The call is finished when the command has exited; its remaining output is read for at most
/// `drain_time_max`. Dropping the future before the command has exited kills its process group.
async fn run_command(
    hook: &HookCommand,
    event: HookEvent,
    body: Vec<u8>,
    drain_time_max: Duration,
) -> Result<Vec<u8>, HookError> {
    let HookCommand { line, folder, .. } = hook;
    let launch = hook.prepare_launch().await?;
    let (program, first_args) = launch.command_line(SHELL.into());
    let mut command = Command::new(program);
    command.args(first_args).arg("-c").arg(line).current_dir(folder).env(HOOK_VARIABLE, event.as_str());
    for name in launch.removed_variables {
        command.env_remove(name);
    }
    command.envs(launch.variables);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let not_started = |error| HookError::CommandNotStarted { folder: folder.to_owned(), error };
    let mut child = command.spawn().map_err(not_started)?;
    let mut group = HookProcessGroup::from_child(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut answer, mut errors) = (Vec::new(), Vec::new());
    let status = {
        let transfer = async {
            tokio::join!(
                write_input(stdin, &body),
                read_output(stdout, &mut answer),
                read_output(stderr, &mut errors)
            );
        };
        let mut transfer = std::pin::pin!(transfer);
        let (status, is_transferred) = tokio::select! {
            status = child.wait() => (status, false),
            () = &mut transfer => (child.wait().await, true),
        };
        group.release();
        if !is_transferred {
            // Output that arrives later is ignored: the command has exited, and only a background process can write it.
            let _ = tokio::time::timeout(drain_time_max, transfer).await;
        }
        status.map_err(HookError::ExitUnknown)?
    };
    let complaint = stderr_tail(&errors);
    match status.code() {
        Some(0) => Ok(answer),
        Some(status) => Err(HookError::ExitStatus { status, complaint }),
        None => Err(HookError::KilledBySignal { complaint }),
    }
}

impl HookCommand {
    /// Returns how the command is started. A sandbox is prepared on a blocking thread.
    async fn prepare_launch(&self) -> Result<ProgramLaunch, HookError> {
        let Some(prepare) = &self.sandbox else { return Ok(ProgramLaunch::default()) };
        let (prepare, folder) = (Arc::clone(prepare), self.folder.clone());
        let prepared = tokio::task::spawn_blocking(move || {
            prepare(&ProgramStart { folder: &folder, program: Path::new(SHELL) })
        });
        let prepared = prepared.await.unwrap_or_else(|_| Err("it cannot be prepared".to_owned()));
        prepared.map_err(HookError::NotSandboxed)
    }
}

/// Writes the payload to the standard input of a command, and closes it.
async fn write_input(stdin: Option<tokio::process::ChildStdin>, body: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A command that does not read its input breaks the pipe, which is not an error.
        let _ = stdin.write_all(body).await;
    }
}

/// Reads an output of a command to its end and keeps the first [`ANSWER_BYTES_MAX`] bytes. The remaining bytes are read and
/// discarded, because a full pipe would block the command.
async fn read_output(output: Option<impl AsyncRead + Unpin>, buffer: &mut Vec<u8>) {
    let Some(output) = output else { return };
    let mut head = output.take(ANSWER_BYTES_MAX);
    // After a read error, the bytes before it count as the output.
    let _ = head.read_to_end(buffer).await;
    let _ = tokio::io::copy(&mut head.into_inner(), &mut tokio::io::sink()).await;
}

/// Returns `": "` and the last line of the standard error that is not blank, or an empty string if there is none.
fn stderr_tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().map(short_line).rfind(|line| !line.is_empty());
    last.map(|last| format!(": {last}")).unwrap_or_default()
}

/// Returns a hook's text on one line of at most [`STDERR_TAIL_CHARS_MAX`] characters, redacted and without control
/// characters.
fn short_line(text: &str) -> String {
    let line = secrets::redact(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(STDERR_TAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

impl HookEndpoint {
    /// Builds the client and headers for a URL. Headers that cannot be sent are skipped; validation refuses them earlier.
    fn new(config: &HookConfig, url: Url) -> Result<Self, HookError> {
        let client = http_client::client_builder(&url).build();
        let client = client.map_err(|error| unreachable_error(&error.without_url()))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &config.headers {
            let value = HeaderValue::try_from(value.expose_secret());
            if let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), value) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        Ok(Self { client, url, headers })
    }

    /// Posts the payload and returns the body of the response, cut after about [`ANSWER_BYTES_MAX`] bytes.
    async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, HookError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send();
        let mut response = request.await.map_err(|error| unreachable_error(&error.without_url()))?;
        if !response.status().is_success() {
            return Err(HookError::HttpStatus(response.status().as_u16()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| unreachable_error(&error.without_url()))?
        {
            answer.extend_from_slice(&chunk);
            if answer.len() as u64 > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(answer)
    }
}

/// Returns an error with the message and all causes of a failed request. The caller removes the URL from the error first,
/// because it may contain a key (M16).
fn unreachable_error(error: &dyn std::error::Error) -> HookError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    HookError::Unreachable(text)
}

/// A guard of a command's process group. Dropping it kills the group, unless [`release`](Self::release) was called because
/// the command has exited.
struct HookProcessGroup {
    /// Process id of the group's leader, which is the shell; `None` once the group is released.
    leader: Option<i32>,
}

impl HookProcessGroup {
    /// Registers the group that `child` leads.
    fn from_child(child: &Child) -> Self {
        let leader = child.id().map(u32::cast_signed);
        GROUP_LEADERS.lock().extend(leader);
        Self { leader }
    }

    /// Unregisters the group. Processes that the command left in the background keep running.
    fn release(&mut self) {
        if let Some(leader) = self.leader.take() {
            GROUP_LEADERS.lock().remove(&leader);
        }
    }
}

impl Drop for HookProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            kill_group(leader);
        }
        self.release();
    }
}

/// Kills the commands of all hook calls that run now. A program calls this before it exits without dropping the calls.
pub fn kill_commands() {
    for leader in std::mem::take(&mut *GROUP_LEADERS.lock()) {
        kill_group(leader);
    }
}

/// Sends SIGKILL to all processes of a group.
fn kill_group(leader: i32) {
    if let Some(leader) = Pid::from_raw(leader) {
        // The call fails if all processes have exited, which is fine.
        let _ = rustix::process::kill_process_group(leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{AssistantId, RunStatus, ThreadId, Usage};
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::payload::{PayloadDetails, RunHookPayload};

    fn payload() -> HookPayload {
        HookPayload {
            schema_version: 1,
            hook: HookEvent::RunEnded,
            at: Timestamp::UNIX_EPOCH,
            thread_id: ThreadId::generate(),
            thread_name: Some("x".repeat(300_000)),
            assistant_id: AssistantId::default(),
            run_id: None,
            seq: Some(7),
            about: PayloadDetails::Run(RunHookPayload {
                status: RunStatus::Success,
                error: None,
                waits_for: Vec::new(),
                answer: None,
                duration_ms: 1,
                usage: Usage::default(),
            }),
        }
    }

    fn hook(config: &HookConfig) -> UserHook {
        UserHook::new(config, &std::env::temp_dir(), None).unwrap()
    }

    fn command(line: &str) -> HookConfig {
        HookConfig { on: vec![HookEvent::RunEnded], command: Some(line.to_owned()), ..HookConfig::default() }
    }

    #[tokio::test]
    async fn a_command_gets_the_payload_on_standard_input_and_its_answer_is_parsed() {
        let call = async |line: &str| hook(&command(line)).call_hook(&payload()).await;
        let veto = |reason: &str| HookAnswer::Veto { reason: reason.to_owned() };
        assert_eq!(
            call(r#"grep -q '"hook":"run.ended"' && test "$SEGUE_HOOK" = run.ended"#).await.unwrap(),
            HookAnswer::Acknowledged
        );
        assert_eq!(call(r#"echo '{"veto": "not now"}'"#).await.unwrap(), veto("not now"));
        assert_eq!(call("cat").await.unwrap(), HookAnswer::Acknowledged, "other output acknowledges");
        assert_eq!(call(r#"echo '{"veto": true}'"#).await.unwrap(), veto("no reason given"));
        assert_eq!(call(r#"echo '{"veto": " "}'"#).await.unwrap(), veto("no reason given"));
        assert_eq!(call(r#"echo '{"veto": false}'"#).await.unwrap(), HookAnswer::Acknowledged);
        // A command that does not read its input, one whose background process keeps the pipes open, and one that closes
        // its outputs.
        assert_eq!(call("true").await.unwrap(), HookAnswer::Acknowledged);
        assert_eq!(call(r#"sleep 60 & echo '{"veto": "x"}'"#).await.unwrap(), veto("x"));
        assert_eq!(call("exec >&- 2>&-; cat > /dev/null").await.unwrap(), HookAnswer::Acknowledged);
    }

    #[tokio::test]
    async fn a_command_is_started_as_its_sandbox_requires_and_not_without_it() {
        let config = command(r#"test "$STARTED" = sh && test "$TMPDIR" = /private && test -z "$LANG""#);
        let call = async |prepare: PrepareLaunch| {
            UserHook::new(&config, &std::env::temp_dir(), Some(prepare)).unwrap().call_hook(&payload()).await
        };
        let prefixed: PrepareLaunch = Arc::new(|start: &ProgramStart<'_>| {
            Ok(ProgramLaunch {
                prefix: vec!["env".into(), format!("STARTED={}", start.program.display()).into()],
                variables: vec![("TMPDIR", "/private".into())],
                removed_variables: &["LANG"],
            })
        });
        assert_eq!(call(prefixed).await.unwrap(), HookAnswer::Acknowledged);
        let missing: PrepareLaunch = Arc::new(|_: &ProgramStart<'_>| -> Result<ProgramLaunch, String> {
            Err("this system has none".to_owned())
        });
        let failed = call(missing).await.unwrap_err();
        assert_eq!(failed.to_string(), "run its command in the sandbox: this system has none");
    }

    #[tokio::test]
    async fn a_failed_command_is_reported_with_the_last_line_of_its_standard_error() {
        let failed =
            async |line: &str| hook(&command(line)).call_hook(&payload()).await.unwrap_err().to_string();
        assert_eq!(
            failed("echo first >&2; printf 'no \\033[31mway\\n\\n' >&2; exit 3").await,
            "run its command: exit status 3: no [31mway"
        );
        assert_eq!(failed("kill -9 $$").await, "run its command: a signal killed it");
        assert!(failed("/no/such/program").await.contains("status 127"));
    }

    #[tokio::test]
    async fn a_command_that_leaves_a_background_process_does_not_time_out() {
        let short = HookConfig { timeout_seconds: Some(1), ..command("sleep 60 & true") };
        assert_eq!(hook(&short).call_hook(&payload()).await.unwrap(), HookAnswer::Acknowledged);
    }

    #[tokio::test]
    async fn a_command_that_times_out_is_killed_with_all_processes_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut receiver = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        let hanging = format!("exec > '{}'; echo here; sleep 600 & sleep 600", fifo.display());
        let hook = hook(&HookConfig { timeout_seconds: Some(1), ..command(&hanging) });
        let failed = hook.call_hook(&payload()).await.unwrap_err();
        assert!(matches!(failed, HookError::TimedOut { seconds: 1 }), "{failed}");
        // The read ends when no process has the other end open.
        let mut output = String::new();
        receiver.read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "here\n");
    }

    /// Starts a server that sends `response` to one request. Returns its URL, and the task that returns the request.
    async fn serve(response: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/T0-secret", listener.local_addr().unwrap());
        let request = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let line_start = head.len();
                stream.read_line(&mut head).await.unwrap();
                let line = head[line_start..].to_ascii_lowercase();
                length = line.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            stream.write_all(response.as_bytes()).await.unwrap();
            head + &String::from_utf8(body).unwrap()
        });
        (url, request)
    }

    fn webhook(url: &str) -> HookConfig {
        let headers = [("authorization".to_owned(), "Bearer x".into())].into();
        let on = vec![HookEvent::RunEnded];
        HookConfig { on, url: Some(url.into()), headers, ..HookConfig::default() }
    }

    #[tokio::test]
    async fn a_url_gets_the_payload_with_the_headers_and_its_response_is_parsed() {
        let (url, request) = serve("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert_eq!(hook(&webhook(&url)).call_hook(&payload()).await.unwrap(), HookAnswer::Acknowledged);
        let request = request.await.unwrap();
        assert!(request.starts_with("POST /hooks/T0-secret HTTP/1.1\r\n"), "{request:.300}");
        assert!(request.contains("authorization: Bearer x\r\n") && request.contains(r#""hook":"run.ended""#));
        let (url, _request) =
            serve("HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"veto\":\"later\"}").await;
        let later = HookAnswer::Veto { reason: "later".to_owned() };
        assert_eq!(hook(&webhook(&url)).call_hook(&payload()).await.unwrap(), later);
    }

    #[tokio::test]
    async fn a_url_that_does_not_complete_its_response_times_out() {
        for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"veto\":"] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let server = tokio::spawn(async move {
                let mut stream = listener.accept().await.unwrap().0;
                stream.read_exact(&mut [0; 4]).await.unwrap();
                stream.write_all(response.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            });
            let slow = hook(&HookConfig { timeout_seconds: Some(1), ..webhook(&url) });
            let failed = slow.call_hook(&payload()).await.unwrap_err();
            assert!(matches!(failed, HookError::TimedOut { seconds: 1 }), "{response}: {failed}");
            server.abort();
        }
        let (url, _request) = serve("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}").await;
        let cut = hook(&webhook(&url)).call_hook(&payload()).await.unwrap_err();
        assert!(matches!(cut, HookError::Unreachable(_)), "{cut}");
    }

    #[tokio::test]
    async fn m16_the_error_of_a_failed_request_does_not_contain_the_url() {
        let (url, _request) =
            serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
        let failed = hook(&webhook(&url)).call_hook(&payload()).await.unwrap_err();
        assert_eq!(failed.to_string(), "post to its URL: the response has status 302");
        let failed = hook(&webhook("http://127.0.0.1:1/T0-secret")).call_hook(&payload()).await.unwrap_err();
        assert!(
            matches!(failed, HookError::Unreachable(_)) && !failed.to_string().contains("secret"),
            "{failed}"
        );
    }
}
