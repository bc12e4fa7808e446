//! Clients that follow a run to its end while servers fail. A client whose connection breaks resumes at
//! another server after the last event that it received.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::FleetRun;
use crate::serve::client::ApiClient;

/// Maximum time without any bytes, including heartbeats, before a test fails.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of consecutive attempts without an event.
const ATTEMPTS_MAX: usize = 10_000;

/// The events that a reader received from the beginning of a run to its end.
#[derive(Debug)]
pub struct StreamRecord {
    pub run: String,
    /// Ids and names of the events in the order of their arrival. The name of an error is followed by
    /// its text.
    pub events: Vec<(String, String)>,
    /// Number of reconnections.
    pub reconnects: usize,
}

/// Readers of many runs.
pub struct StreamReaders {
    servers: Arc<Mutex<Vec<ApiClient>>>,
    sender: Sender<StreamRecord>,
    receiver: Receiver<StreamRecord>,
}

impl StreamReaders {
    /// Returns an empty set of readers for these servers.
    pub fn new(servers: Vec<ApiClient>) -> Self {
        let (sender, receiver) = channel();
        Self { servers: Arc::new(Mutex::new(servers)), sender, receiver }
    }

    /// Starts a reader that follows the run, at this server first.
    pub fn follow_run(&self, started: &FleetRun, server: usize) {
        let (servers, result_sender, started) =
            (Arc::clone(&self.servers), self.sender.clone(), started.clone());
        std::thread::spawn(move || {
            // The channel is closed when the test has failed.
            let _ = result_sender.send(read_run(&servers, &started, server));
        });
    }

    /// Gives the readers the address of a replacement server.
    pub fn replace_server(&self, server: usize, api: ApiClient) {
        lock_servers(&self.servers)[server] = api;
    }

    /// Waits until this many more readers have reached the end, and returns their records.
    pub fn wait_for_records(&self, count: usize) -> Vec<StreamRecord> {
        (0..count).map(|_| self.receiver.recv_timeout(SILENCE_MAX).expect("some run ends")).collect()
    }
}

fn lock_servers(servers: &Mutex<Vec<ApiClient>>) -> MutexGuard<'_, Vec<ApiClient>> {
    servers.lock().unwrap()
}

fn read_run(servers: &Mutex<Vec<ApiClient>>, started: &FleetRun, mut server: usize) -> StreamRecord {
    let mut record = StreamRecord { run: started.run.clone(), events: Vec::new(), reconnects: 0 };
    for attempt in 0..ATTEMPTS_MAX {
        let api = {
            let servers = lock_servers(servers);
            servers[server % servers.len()].clone()
        };
        record.reconnects = attempt;
        if read_stream(&api, started, &mut record).is_some() {
            return record;
        }
        server += 1;
    }
    panic!("{started:?} is followed in vain: {record:?}");
}

/// Reads events until the end of the run. Returns `None` when the connection ends before that.
fn read_stream(api: &ApiClient, started: &FleetRun, record: &mut StreamRecord) -> Option<()> {
    let mut connection = TcpStream::connect(&api.addr).ok()?;
    connection.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    let last =
        record.events.iter().rev().map(|(id, _)| id.as_str()).find(|id| !id.is_empty()).unwrap_or("-1");
    // HTTP/1.0 ends the body with the connection and does not use chunks.
    let head = format!(
        "GET /threads/{}/runs/{}/stream HTTP/1.0\r\nhost: {}\r\nx-api-key: {}\r\nlast-event-id: {last}\r\n\r\n",
        started.thread,
        started.run,
        api.addr,
        api.key.as_deref().unwrap_or_default(),
    );
    connection.write_all(head.as_bytes()).ok()?;
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let status = lines.next()?;
    // A server that shuts down refuses new requests.
    let is_taken =
        ["200", "503"].map(|status| format!(" {status} ")).iter().any(|code| status.contains(code));
    assert!(is_taken, "{started:?}: {status}, {:?}", lines.collect::<Vec<_>>());
    let (mut id, mut name) = (String::new(), String::new());
    for line in lines {
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        } else if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if let Some(text) = line.strip_prefix("data: ").filter(|_| name == "error") {
            name.push_str(text);
        } else if line.is_empty() && !name.is_empty() {
            // An event that the end of the connection cut off is incomplete and does not count.
            let is_end = name == "end";
            record.events.push((std::mem::take(&mut id), std::mem::take(&mut name)));
            if is_end {
                return Some(());
            }
        }
    }
    None
}
