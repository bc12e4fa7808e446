//! Clients that follow a run to its end whatever becomes of the servers: one whose connection breaks goes on at another server,
//! behind the last thing it was told.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::Begun;
use crate::serve::client::Api;

/// How long nothing may come, not even a sign of life, before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a reader may be sent away without having been told anything.
const ATTEMPTS_MAX: usize = 10_000;

/// What a reader was told from the beginning of a run to its end.
#[derive(Debug)]
pub struct Story {
    pub run: String,
    /// The ids and names of the events, in the order in which they came; what an error is, behind its name.
    pub events: Vec<(String, String)>,
    /// How often it came back.
    pub returns: usize,
}

/// Readers of many runs.
pub struct Readers {
    servers: Arc<Mutex<Vec<Api>>>,
    told: Sender<Story>,
    stories: Receiver<Story>,
}

impl Readers {
    /// Returns none, who will go to these servers.
    pub fn of(servers: Vec<Api>) -> Self {
        let (told, stories) = channel();
        Self { servers: Arc::new(Mutex::new(servers)), told, stories }
    }

    /// Has one follow the run, beginning at that server.
    pub fn follow(&self, begun: &Begun, server: usize) {
        let (servers, told, begun) = (Arc::clone(&self.servers), self.told.clone(), begun.clone());
        std::thread::spawn(move || {
            // Nobody listens any more when the test has failed.
            let _ = told.send(read(&servers, &begun, server));
        });
    }

    /// Tells them where a server is that took the place of another.
    pub fn moved(&self, server: usize, api: Api) {
        lock(&self.servers)[server] = api;
    }

    /// Waits until so many more have been told the end.
    pub fn ended(&self, count: usize) -> Vec<Story> {
        (0..count).map(|_| self.stories.recv_timeout(PATIENCE).expect("some run ends")).collect()
    }
}

fn lock(servers: &Mutex<Vec<Api>>) -> MutexGuard<'_, Vec<Api>> {
    servers.lock().unwrap()
}

fn read(servers: &Mutex<Vec<Api>>, begun: &Begun, mut server: usize) -> Story {
    let mut story = Story { run: begun.run.clone(), events: Vec::new(), returns: 0 };
    for attempt in 0..ATTEMPTS_MAX {
        let api = {
            let servers = lock(servers);
            servers[server % servers.len()].clone()
        };
        story.returns = attempt;
        if go_on(&api, begun, &mut story).is_some() {
            return story;
        }
        server += 1;
    }
    panic!("{begun:?} is followed in vain: {story:?}");
}

/// Reads what is told until the end, or `None` when there is no more here.
fn go_on(api: &Api, begun: &Begun, story: &mut Story) -> Option<()> {
    let mut connection = TcpStream::connect(&api.addr).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
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
