//! Calling one hook: its command is run, or its address is posted to, within its time. When that is done, and who is told of a
//! failure, is not decided here.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rustix::process::{Pid, Signal};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::payload::{HookEvent, HookPayload};
use crate::settings::{HookConfig, TIMEOUT_SECONDS};

/// The variable by which a command knows that a hook called it. No hook is to be called where it is set, so that
/// none calls itself.
const HOOK_VARIABLE: &str = "SEGUE_HOOK";

/// The most bytes that are read of what a hook says.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The most characters of what a hook says that are repeated.
const STDERR_TAIL_CHARS_MAX: usize = 200;
/// How long the outputs of a command that has ended are still listened to, and at most half its time: what it left in the background may
/// hold them open, and it has heard.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// The leaders of the commands that are under way. A program that ends by a signal does not get to end them where they are called.
static GROUP_LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A hook that can be called.
pub struct UserHook {
    name: String,
    events: Vec<HookEvent>,
    transport: Transport,
    timeout: Duration,
}

enum Transport {
    /// A command line, and the folder it is run in.
    Command(String, PathBuf),
    Post(Box<HookEndpoint>),
}

struct HookEndpoint {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
}

/// The reply of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing that matters.
    Acknowledged,
    /// It refuses what is about to happen; it counts where it was asked before.
    Veto {
        /// Why.
        reason: String,
    },
}

/// Why a hook did not hear.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Its command cannot be started.
    #[error("start its command in {}: {error}", folder.display())]
    CommandNotStarted {
        /// Where it was to run.
        folder: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Nobody knows how its command ended.
    #[error("see how its command ended: {0}")]
    ExitUnknown(std::io::Error),
    /// Its command ended with another status than 0.
    #[error("have its command succeed: it ended with status {status}{complaint}")]
    ExitStatus {
        /// The status.
        status: i32,
        /// The end of what it wrote to its standard error.
        complaint: String,
    },
    /// Its command was ended by a signal.
    #[error("have its command succeed: a signal ended it{complaint}")]
    KilledBySignal {
        /// The end of what it wrote to its standard error.
        complaint: String,
    },
    /// It took too long, and was ended.
    #[error("wait for it: it took longer than {seconds} s")]
    TimedOut {
        /// The seconds it had.
        seconds: u64,
    },
    /// Its address answered with another status than 2xx.
    #[error("tell its address: it answered {0}")]
    HttpStatus(u16),
    /// Its address cannot be reached.
    #[error("reach its address: {0}")]
    Unreachable(String),
    /// The payload cannot be serialised.
    #[error("write what it is told: {0}")]
    PayloadNotSerialized(#[from] serde_json::Error),
}

/// The fields of an answer that are used.
#[derive(Deserialize)]
struct HookReply {
    veto: Option<VetoField>,
}

/// A refusal: why, or that there is one.
#[derive(Deserialize)]
#[serde(untagged)]
enum VetoField {
    Reason(String),
    Flag(bool),
}

impl fmt::Debug for UserHook {
    /// Shows its name: its address and its headers may hold keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("UserHook").field(&self.name).finish()
    }
}

/// Returns whether a hook called this program.
pub fn is_run_by_hook() -> bool {
    std::env::var_os(HOOK_VARIABLE).is_some_and(|value| !value.is_empty())
}

impl UserHook {
    /// Returns the hook that the configuration, which has no fault, describes; its command runs in `folder`.
    ///
    /// # Errors
    /// When requests cannot be sent from this machine.
    pub fn new(config: &HookConfig, folder: &Path) -> Result<Self, HookError> {
        let seconds = config.timeout_seconds.unwrap_or(TIMEOUT_SECONDS);
        let time_max = Duration::from_secs(seconds.into());
        let way = match config.parsed_url() {
            Some(url) => Transport::Post(Box::new(HookEndpoint::new(config, url)?)),
            None => Transport::Command(config.command.clone().unwrap_or_default(), folder.to_owned()),
        };
        Ok(Self { name: config.display_name(), events: config.on.clone(), transport: way, timeout: time_max })
    }

    /// Returns what it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it is told of this.
    pub fn is_subscribed_to(&self, occasion: HookEvent) -> bool {
        self.events.contains(&occasion)
    }

    /// Returns how long it may take.
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Tells it, and returns what it says; after its time it is ended.
    ///
    /// # Errors
    /// When it did not hear.
    pub async fn call_hook(&self, payload: &HookPayload) -> Result<HookAnswer, HookError> {
        let body = serde_json::to_vec(payload)?;
        let telling = async {
            match &self.transport {
                Transport::Command(line, folder) => {
                    let rest_max = DRAIN_TIME_MAX.min(self.timeout / 2);
                    run_command(line, folder, payload.hook, body, rest_max).await
                }
                Transport::Post(address) => address.post(body).await,
            }
        };
        match tokio::time::timeout(self.timeout, telling).await {
            Ok(said) => Ok(parse_reply(&said?)),
            Err(_) => Err(HookError::TimedOut { seconds: self.timeout.as_secs() }),
        }
    }
}

/// Reads what a hook said: `{"veto": "why"}`, or anything else.
fn parse_reply(said: &[u8]) -> HookAnswer {
    let reason = match serde_json::from_slice(said) {
        Ok(HookReply { veto: Some(VetoField::Reason(reason)) }) => short_line(&reason),
        Ok(HookReply { veto: Some(VetoField::Flag(true)) }) => String::new(),
        Ok(HookReply { veto: Some(VetoField::Flag(false)) | None }) | Err(_) => {
            return HookAnswer::Acknowledged;
        }
    };
    HookAnswer::Veto { reason: if reason.is_empty() { "it gave no reason".to_owned() } else { reason } }
}

/// Runs a command line, and returns what it wrote to its standard output.
async fn run_command(
    line: &str,
    folder: &Path,
    occasion: HookEvent,
    body: Vec<u8>,
    rest_max: Duration,
) -> Result<Vec<u8>, HookError> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).current_dir(folder).env(HOOK_VARIABLE, occasion.as_str());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let not_started = |error| HookError::CommandNotStarted { folder: folder.to_owned(), error };
    let mut child = command.spawn().map_err(not_started)?;
    let mut group = HookProcessGroup::from_child(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    let status = {
        let talking = async {
            tokio::join!(
                write_input(stdin, &body),
                read_output(stdout, &mut said),
                read_output(stderr, &mut complaint)
            );
        };
        let mut talking = std::pin::pin!(talking);
        let (status, is_all) = tokio::select! {
            status = child.wait() => (status, false),
            () = &mut talking => (child.wait().await, true),
        };
        group.release();
        if !is_all {
            // What is not heard by then is not waited for.
            let _ = tokio::time::timeout(rest_max, talking).await;
        }
        status.map_err(HookError::ExitUnknown)?
    };
    let complaint = stderr_tail(&complaint);
    match status.code() {
        Some(0) => Ok(said),
        Some(status) => Err(HookError::ExitStatus { status, complaint }),
        None => Err(HookError::KilledBySignal { complaint }),
    }
}

/// Gives a command its input, as far as it takes it.
async fn write_input(stdin: Option<tokio::process::ChildStdin>, body: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A command need not read what it is told.
        let _ = stdin.write_all(body).await;
    }
}

/// Reads what a command writes: its beginning is kept, the rest is read so that it can go on.
async fn read_output(output: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(output) = output else { return };
    let mut kept = output.take(ANSWER_BYTES_MAX);
    // What breaks off is what was heard.
    let _ = kept.read_to_end(into).await;
    let _ = tokio::io::copy(&mut kept.into_inner(), &mut tokio::io::sink()).await;
}

/// Returns the last line of what a command complained, to stand behind a reason.
fn stderr_tail(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    let last = text.lines().map(short_line).rfind(|line| !line.is_empty());
    last.map(|last| format!(": {last}")).unwrap_or_default()
}

/// Returns what a hook said as one short line without keys.
fn short_line(said: &str) -> String {
    let line = facts::redact(said).split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(STDERR_TAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

impl HookEndpoint {
    fn new(config: &HookConfig, url: Url) -> Result<Self, HookError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("segue/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry what is told, and the key, to another host.
            .redirect(Policy::none());
        if url.scheme() == "http" {
            // It needs no certificates, and a machine may have none.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| unreachable_error(&error.without_url()))?;
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

    /// Posts what happened, and returns what it answers.
    async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, HookError> {
        let posting = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body).send();
        let mut answered = posting.await.map_err(|error| unreachable_error(&error.without_url()))?;
        if !answered.status().is_success() {
            return Err(HookError::HttpStatus(answered.status().as_u16()));
        }
        let mut said = Vec::new();
        while let Some(piece) =
            answered.chunk().await.map_err(|error| unreachable_error(&error.without_url()))?
        {
            said.extend_from_slice(&piece);
            if said.len() as u64 > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(said)
    }
}

/// Returns why an address cannot be reached, without the address: it may hold a key.
fn unreachable_error(error: &dyn std::error::Error) -> HookError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    HookError::Unreachable(text)
}

/// The processes of one command. Dropping it ends them all, unless the command has ended by itself.
struct HookProcessGroup {
    leader: Option<i32>,
}

impl HookProcessGroup {
    fn from_child(child: &Child) -> Self {
        let leader = child.id().map(u32::cast_signed);
        GROUP_LEADERS.lock().extend(leader);
        Self { leader }
    }

    /// Releases the processes that the command left in the background, which keep running.
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

/// Ends the commands of all hooks that are under way: for a program that ends without coming back to them.
pub fn kill_commands() {
    for leader in std::mem::take(&mut *GROUP_LEADERS.lock()) {
        kill_group(leader);
    }
}

fn kill_group(leader: i32) {
    if let Some(leader) = Pid::from_raw(leader) {
        // It fails when all of them have ended.
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
        UserHook::new(config, &std::env::temp_dir()).unwrap()
    }

    fn command(line: &str) -> HookConfig {
        HookConfig { on: vec![HookEvent::RunEnded], command: Some(line.to_owned()), ..HookConfig::default() }
    }

    #[tokio::test]
    async fn a_command_is_told_on_its_standard_input_and_what_it_says_is_heard() {
        let said = async |line: &str| hook(&command(line)).call_hook(&payload()).await;
        let veto = |reason: &str| HookAnswer::Veto { reason: reason.to_owned() };
        assert_eq!(
            said(r#"grep -q '"hook":"run.ended"' && test "$SEGUE_HOOK" = run.ended"#).await.unwrap(),
            HookAnswer::Acknowledged
        );
        assert_eq!(said(r#"echo '{"veto": "not now"}'"#).await.unwrap(), veto("not now"));
        assert_eq!(said("cat").await.unwrap(), HookAnswer::Acknowledged, "what is no veto is nothing");
        assert_eq!(said(r#"echo '{"veto": true}'"#).await.unwrap(), veto("it gave no reason"));
        assert_eq!(said(r#"echo '{"veto": " "}'"#).await.unwrap(), veto("it gave no reason"));
        assert_eq!(said(r#"echo '{"veto": false}'"#).await.unwrap(), HookAnswer::Acknowledged);
        // One that does not read, one that leaves something behind which holds its outputs, and one that closes them.
        assert_eq!(said("true").await.unwrap(), HookAnswer::Acknowledged);
        assert_eq!(said(r#"sleep 60 & echo '{"veto": "x"}'"#).await.unwrap(), veto("x"));
        assert_eq!(said("exec >&- 2>&-; cat > /dev/null").await.unwrap(), HookAnswer::Acknowledged);
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_of_with_its_last_words() {
        let failed =
            async |line: &str| hook(&command(line)).call_hook(&payload()).await.unwrap_err().to_string();
        assert_eq!(
            failed("echo first >&2; printf 'no \\033[31mway\\n\\n' >&2; exit 3").await,
            "have its command succeed: it ended with status 3: no [31mway"
        );
        assert_eq!(failed("kill -9 $$").await, "have its command succeed: a signal ended it");
        assert!(failed("/no/such/program").await.contains("status 127"));
    }

    #[tokio::test]
    async fn a_command_that_leaves_something_behind_has_heard_however_short_its_time() {
        let short = HookConfig { timeout_seconds: Some(1), ..command("sleep 60 & true") };
        assert_eq!(hook(&short).call_hook(&payload()).await.unwrap(), HookAnswer::Acknowledged);
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut held = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        let hanging = format!("exec > '{}'; echo here; sleep 600 & sleep 600", fifo.display());
        let hook = hook(&HookConfig { timeout_seconds: Some(1), ..command(&hanging) });
        let failed = hook.call_hook(&payload()).await.unwrap_err();
        assert!(matches!(failed, HookError::TimedOut { seconds: 1 }), "{failed}");
        // It ends once nobody holds the other end.
        let mut said = String::new();
        held.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "here\n");
    }

    /// Answers one request, and returns it with the address that was told.
    async fn serve(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/T0-secret", listener.local_addr().unwrap());
        let heard = tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let from = head.len();
                stream.read_line(&mut head).await.unwrap();
                let line = head[from..].to_ascii_lowercase();
                length = line.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            head + &String::from_utf8(body).unwrap()
        });
        (url, heard)
    }

    fn address(url: &str) -> HookConfig {
        let headers = [("authorization".to_owned(), "Bearer x".into())].into();
        let on = vec![HookEvent::RunEnded];
        HookConfig { on, url: Some(url.into()), headers, ..HookConfig::default() }
    }

    #[tokio::test]
    async fn an_address_is_posted_to_with_its_headers_and_its_answer_is_heard() {
        let (url, heard) = serve("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert_eq!(hook(&address(&url)).call_hook(&payload()).await.unwrap(), HookAnswer::Acknowledged);
        let heard = heard.await.unwrap();
        assert!(heard.starts_with("POST /hooks/T0-secret HTTP/1.1\r\n"), "{heard:.300}");
        assert!(heard.contains("authorization: Bearer x\r\n") && heard.contains(r#""hook":"run.ended""#));
        let (url, _heard) = serve("HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"veto\":\"later\"}").await;
        let later = HookAnswer::Veto { reason: "later".to_owned() };
        assert_eq!(hook(&address(&url)).call_hook(&payload()).await.unwrap(), later);
    }

    #[tokio::test]
    async fn an_address_that_does_not_come_to_an_end_took_too_long() {
        for answered in ["", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"veto\":"] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/", listener.local_addr().unwrap());
            let held = tokio::spawn(async move {
                let mut stream = listener.accept().await.unwrap().0;
                stream.read_exact(&mut [0; 4]).await.unwrap();
                stream.write_all(answered.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            });
            let slow = hook(&HookConfig { timeout_seconds: Some(1), ..address(&url) });
            let failed = slow.call_hook(&payload()).await.unwrap_err();
            assert!(matches!(failed, HookError::TimedOut { seconds: 1 }), "{answered}: {failed}");
            held.abort();
        }
        let (url, _heard) = serve("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}").await;
        let cut = hook(&address(&url)).call_hook(&payload()).await.unwrap_err();
        assert!(matches!(cut, HookError::Unreachable(_)), "{cut}");
    }

    #[tokio::test]
    async fn m16_an_address_that_fails_is_told_of_without_itself() {
        let (url, _heard) =
            serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
        let failed = hook(&address(&url)).call_hook(&payload()).await.unwrap_err();
        assert_eq!(failed.to_string(), "tell its address: it answered 302");
        let failed = hook(&address("http://127.0.0.1:1/T0-secret")).call_hook(&payload()).await.unwrap_err();
        assert!(
            matches!(failed, HookError::Unreachable(_)) && !failed.to_string().contains("secret"),
            "{failed}"
        );
    }
}
