//! Clients that follow a run to its end whatever becomes of the servers: one whose connection breaks goes on at another server,
//! behind the last thing it was told.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::FleetRun;
use crate::serve::client::ApiClient;

/// How long nothing may come, not even a sign of life, before a test fails.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How often a reader may be sent away without having been told anything.
const ATTEMPTS_MAX: usize = 10_000;

/// The frames that a reader received from the beginning of a run to its end.
#[derive(Debug)]
pub struct StreamRecord {
    pub run: String,
    /// The ids and names of the events, in the order in which they came; what an error is, behind its name.
    pub events: Vec<(String, String)>,
    /// How often it came back.
    pub reconnects: usize,
}

/// Readers of many runs.
pub struct StreamReaders {
    servers: Arc<Mutex<Vec<ApiClient>>>,
    sender: Sender<StreamRecord>,
    receiver: Receiver<StreamRecord>,
}

impl StreamReaders {
    /// Returns none, who will go to these servers.
    pub fn new(servers: Vec<ApiClient>) -> Self {
        let (sender, receiver) = channel();
        Self { servers: Arc::new(Mutex::new(servers)), sender, receiver }
    }

    /// Has one follow the run, beginning at that server.
    pub fn follow_run(&self, begun: &FleetRun, server: usize) {
        let (servers, told, begun) = (Arc::clone(&self.servers), self.sender.clone(), begun.clone());
        std::thread::spawn(move || {
            // Nobody listens any more when the test has failed.
            let _ = told.send(read_run(&servers, &begun, server));
        });
    }

    /// Tells them where a server is that took the place of another.
    pub fn replace_server(&self, server: usize, api: ApiClient) {
        lock_servers(&self.servers)[server] = api;
    }

    /// Waits until so many more have been told the end.
    pub fn wait_for_records(&self, count: usize) -> Vec<StreamRecord> {
        (0..count).map(|_| self.receiver.recv_timeout(SILENCE_MAX).expect("some run ends")).collect()
    }
}

fn lock_servers(servers: &Mutex<Vec<ApiClient>>) -> MutexGuard<'_, Vec<ApiClient>> {
    servers.lock().unwrap()
}

fn read_run(servers: &Mutex<Vec<ApiClient>>, begun: &FleetRun, mut server: usize) -> StreamRecord {
    let mut story = StreamRecord { run: begun.run.clone(), events: Vec::new(), reconnects: 0 };
    for attempt in 0..ATTEMPTS_MAX {
        let api = {
            let servers = lock_servers(servers);
            servers[server % servers.len()].clone()
        };
        story.reconnects = attempt;
        if read_stream(&api, begun, &mut story).is_some() {
            return story;
        }
        server += 1;
    }
    panic!("{begun:?} is followed in vain: {story:?}");
}

/// Reads what is told until the end, or `None` when there is no more here.
fn read_stream(api: &ApiClient, begun: &FleetRun, story: &mut StreamRecord) -> Option<()> {
    let mut connection = TcpStream::connect(&api.addr).ok()?;
    connection.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    let last = story.events.iter().rev().map(|(id, _)| id.as_str()).find(|id| !id.is_empty()).unwrap_or("-1");
    // The older version has the body end with the connection, and not in pieces.
    let head = format!(
        "GET /threads/{}/runs/{}/stream HTTP/1.0\r\nhost: {}\r\nx-api-key: {}\r\nlast-event-id: {last}\r\n\r\n",
        begun.thread,
        begun.run,
        api.addr,
        api.key.as_deref().unwrap_or_default(),
    );
    connection.write_all(head.as_bytes()).ok()?;
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let status = lines.next()?;
    // One that ends takes no more requests.
    let is_taken =
        ["200", "503"].map(|status| format!(" {status} ")).iter().any(|code| status.contains(code));
    assert!(is_taken, "{begun:?}: {status}, {:?}", lines.collect::<Vec<_>>());
    let (mut id, mut name) = (String::new(), String::new());
    for line in lines {
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        } else if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if let Some(text) = line.strip_prefix("data: ").filter(|_| name == "error") {
            name.push_str(text);
        } else if line.is_empty() && !name.is_empty() {
            // What the connection broke off in the middle of was not told.
            let is_end = name == "end";
            story.events.push((std::mem::take(&mut id), std::mem::take(&mut name)));
            if is_end {
                return Some(());
            }
        }
    }
    None
}
