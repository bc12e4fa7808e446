//! A TCP proxy that records the statements of its clients, and how often they wait for the server. It reads the messages of
//! the protocol, and changes nothing.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Error;

/// Maximum bytes of one read.
const CHUNK_BYTES: usize = 64 * 1024;
/// The content of a client's request for encryption.
const ENCRYPTION_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();
/// The response of a server without encryption.
const ENCRYPTION_REFUSED: u8 = b'N';
/// Bytes of the length of a message.
const LENGTH_BYTES: usize = 4;

/// A statement that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedStatement {
    /// The number of the connection, in the order in which connections were opened.
    pub connection: usize,
    /// The number of the round trip of that connection. Statements with the same number were sent without waiting for a
    /// response in between.
    pub round_trip: usize,
    /// The text.
    pub sql: String,
    /// True if the statement was only prepared, not executed.
    pub is_preparation: bool,
}

/// A recording proxy before a server. Connections that are open when it is dropped stay open.
#[derive(Debug)]
pub struct StatementRecorder {
    address: SocketAddr,
    statements: Arc<Mutex<Vec<RecordedStatement>>>,
}

impl StatementRecorder {
    /// Starts a proxy before the server at an address.
    ///
    /// # Errors
    /// If no port can be bound, or the thread cannot be started.
    pub fn start(server: SocketAddr) -> Result<Self, Error> {
        let listen = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = listen().map_err(Error::io("listen"))?;
        let statements = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&statements);
        let accept = move || {
            for (connection, client) in listener.incoming().enumerate() {
                if let Ok(client) = client {
                    // A connection that cannot be forwarded is closed, which its client reports.
                    let _ = record_connection(client, server, connection, &recorded);
                }
            }
        };
        std::thread::Builder::new().spawn(accept).map_err(Error::io("start a thread"))?;
        Ok(Self { address, statements })
    }

    /// Returns the address on which the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the statements since the previous call, in the order in which they passed the proxy.
    #[must_use]
    pub fn take_statements(&self) -> Vec<RecordedStatement> {
        std::mem::take(&mut self.statements.lock())
    }
}

/// The state of a connection that its two directions share.
#[derive(Debug, Default)]
struct ConnectionState {
    /// Number of requests that the server has not completed.
    pending: usize,
    /// True if a request has begun that is not completely sent.
    is_sending: bool,
    /// Number of round trips that have begun.
    round_trips: usize,
}

impl ConnectionState {
    /// Begins a request, and with it a round trip unless an earlier request is pending.
    fn begin_request(&mut self) {
        if self.pending == 0 && !self.is_sending {
            self.round_trips += 1;
        }
        self.is_sending = true;
    }

    /// Ends a request: the server will answer it as a whole.
    fn end_request(&mut self) {
        self.pending += 1;
        self.is_sending = false;
    }
}

/// Forwards a connection on two threads until an end closes it.
fn record_connection(
    client: TcpStream,
    server: SocketAddr,
    connection: usize,
    statements: &Arc<Mutex<Vec<RecordedStatement>>>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let state = Arc::new(Mutex::new(ConnectionState::default()));
    let mut requests = RequestLog {
        connection,
        prepared: HashMap::new(),
        portals: HashMap::new(),
        state: Arc::clone(&state),
        statements: Arc::clone(statements),
    };
    let (from, to) = (client.try_clone()?, server.try_clone()?);
    let of_client = MessageReader::new(StreamStart::Client);
    std::thread::spawn(move || forward(from, to, of_client, |kind, body| requests.record(kind, body)));
    std::thread::spawn(move || {
        forward(server, client, MessageReader::new(StreamStart::Server), |kind, _| {
            if kind == b'Z' {
                let mut state = state.lock();
                state.pending = state.pending.saturating_sub(1);
            }
        });
    });
    Ok(())
}

/// Forwards bytes and passes each complete message to `observe` before its last bytes are forwarded.
fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    mut messages: MessageReader,
    mut observe: impl FnMut(u8, &[u8]),
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk) {
            Ok(length) if length > 0 => {
                messages.read(&chunk[..length], &mut observe);
                if to.write_all(&chunk[..length]).is_err() {
                    break;
                }
            }
            Ok(_) | Err(_) => break,
        }
    }
    // The other end sees the end of the stream; it may have closed already.
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// The part of a stream that is not read yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamStart {
    /// The start of a client's stream: messages without a kind, up to the one that names the user.
    Client,
    /// The start of a server's stream, which may refuse encryption with a single byte.
    Server,
    /// Messages.
    Messages,
}

/// Splits a stream of bytes into messages.
struct MessageReader {
    /// Bytes of an incomplete message.
    buffered: Vec<u8>,
    /// The part of the stream that comes next.
    next: StreamStart,
}

impl MessageReader {
    /// Returns a reader at the start of a stream.
    fn new(next: StreamStart) -> Self {
        Self { buffered: Vec::new(), next }
    }

    /// Adds bytes, and passes the kind and the body of each complete message to `observe`.
    fn read(&mut self, bytes: &[u8], observe: &mut impl FnMut(u8, &[u8])) {
        self.buffered.extend_from_slice(bytes);
        if self.next == StreamStart::Server && !self.buffered.is_empty() {
            self.next = StreamStart::Messages;
            if self.buffered[0] == ENCRYPTION_REFUSED {
                self.buffered.remove(0);
            }
        }
        loop {
            let kind_bytes = usize::from(self.next == StreamStart::Messages);
            let header = kind_bytes + LENGTH_BYTES;
            let Some(length) = self.buffered.get(kind_bytes..header) else { return };
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let end = kind_bytes + length.max(LENGTH_BYTES);
            if self.buffered.len() < end {
                return;
            }
            let message: Vec<u8> = self.buffered.drain(..end).collect();
            if self.next == StreamStart::Messages {
                observe(message[0], &message[header..]);
            } else if message[header..] != ENCRYPTION_REQUEST {
                self.next = StreamStart::Messages;
            }
        }
    }
}

/// Records the requests of one connection.
struct RequestLog {
    connection: usize,
    /// Texts of prepared statements by name.
    prepared: HashMap<String, String>,
    /// Names of the statements that portals execute.
    portals: HashMap<String, String>,
    state: Arc<Mutex<ConnectionState>>,
    statements: Arc<Mutex<Vec<RecordedStatement>>>,
}

impl RequestLog {
    /// Records a message of the client.
    fn record(&mut self, kind: u8, body: &[u8]) {
        let mut texts = body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        let (first, second) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        match kind {
            b'Q' => {
                self.state.lock().begin_request();
                self.add(self.execution(first));
                self.state.lock().end_request();
            }
            b'P' => {
                self.state.lock().begin_request();
                self.add(RecordedStatement { is_preparation: true, ..self.execution(second.clone()) });
                self.prepared.insert(first, second);
            }
            b'B' => {
                self.state.lock().begin_request();
                self.portals.insert(first, second);
            }
            b'E' => {
                let statement = self.portals.get(&first).and_then(|name| self.prepared.get(name));
                let sql = statement.cloned().unwrap_or_default();
                self.add(self.execution(sql));
            }
            b'S' => self.state.lock().end_request(),
            _ => {}
        }
    }

    /// Returns the record of a statement that is executed in the current round trip. Runs of spaces become one space.
    fn execution(&self, sql: String) -> RecordedStatement {
        RecordedStatement {
            connection: self.connection,
            round_trip: self.state.lock().round_trips,
            sql: sql.split_whitespace().collect::<Vec<_>>().join(" "),
            is_preparation: false,
        }
    }

    /// Adds a statement.
    fn add(&self, statement: RecordedStatement) {
        self.statements.lock().push(statement);
    }
}
