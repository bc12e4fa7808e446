//! A TCP relay that delays and counts: bytes, statements of PostgreSQL, and round trips. Its threads end with the
//! connections, the listener with the process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// A relay in front of a server.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    totals: Arc<RelayTotals>,
}

/// The totals of all connections.
#[derive(Debug, Default)]
struct RelayTotals {
    request_bytes: AtomicU64,
    statements: AtomicU64,
    round_trips: AtomicU64,
}

/// A reading of the totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayCounts {
    /// Bytes that clients sent.
    pub request_bytes: u64,
    /// Statements that clients executed, if the server is PostgreSQL: `Query` and `Execute` messages.
    pub statements: u64,
    /// Times at which a client sent something after it had received something, on one connection.
    pub round_trips: u64,
}

impl RelayCounts {
    /// Returns the counts since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            request_bytes: self.request_bytes - earlier.request_bytes,
            statements: self.statements - earlier.statements,
            round_trips: self.round_trips - earlier.round_trips,
        }
    }
}

impl Relay {
    /// Starts a relay that delays each direction by half of `round_trip`.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(target: SocketAddr, round_trip: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for a relay")?;
        let address = listener.local_addr()?;
        let totals = Arc::new(RelayTotals::default());
        let shared = Arc::clone(&totals);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A connection that cannot be relayed is closed, and its client reports it.
                let _ = relay_connection(client, target, round_trip / 2, &shared);
            }
        });
        Ok(Self { address, totals })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn counts(&self) -> RelayCounts {
        let read = |total: &AtomicU64| total.load(Ordering::Relaxed);
        RelayCounts {
            request_bytes: read(&self.totals.request_bytes),
            statements: read(&self.totals.statements),
            round_trips: read(&self.totals.round_trips),
        }
    }
}

/// Connects to the target and starts the threads of both directions.
fn relay_connection(
    client: TcpStream,
    target: SocketAddr,
    delay: Duration,
    totals: &Arc<RelayTotals>,
) -> anyhow::Result<()> {
    let server = TcpStream::connect(target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let is_client_turn = Arc::new(AtomicBool::new(true));
    let (turn, totals) = (Arc::clone(&is_client_turn), Arc::clone(totals));
    let mut messages = FrontendMessages::default();
    let count_request = move |bytes: &[u8]| {
        totals.request_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        totals.statements.fetch_add(messages.count_statements(bytes), Ordering::Relaxed);
        if turn.swap(false, Ordering::Relaxed) {
            totals.round_trips.fetch_add(1, Ordering::Relaxed);
        }
    };
    forward(client.try_clone()?, server.try_clone()?, delay, count_request);
    forward(server, client, delay, move |_: &[u8]| is_client_turn.store(true, Ordering::Relaxed));
    Ok(())
}

/// Starts the threads that read from one side and write to the other, `delay` later.
fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    delay: Duration,
    mut count: impl FnMut(&[u8]) + Send + 'static,
) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            count(&buffer[..length]);
            if sender.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other side may have closed already.
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The messages of a PostgreSQL client, found in a stream of bytes.
#[derive(Debug, Default)]
struct FrontendMessages {
    /// The beginning of a message's head.
    head: Vec<u8>,
    /// Bytes of the current message that follow.
    body_left: usize,
    /// True after the startup message, the only one without a type.
    has_started: bool,
}

impl FrontendMessages {
    /// Returns the number of `Query` and `Execute` messages that begin in these bytes.
    fn count_statements(&mut self, mut bytes: &[u8]) -> u64 {
        let mut statements = 0;
        while !bytes.is_empty() {
            let skipped = self.body_left.min(bytes.len());
            self.body_left -= skipped;
            bytes = &bytes[skipped..];
            let missing = (self.head_bytes() - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.head.len() < self.head_bytes() {
                break;
            }
            statements += u64::from(self.has_started && matches!(self.head[0], b'Q' | b'E'));
            let length =
                self.head[self.head.len() - 4..].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            self.body_left = length.saturating_sub(4);
            self.has_started = true;
            self.head.clear();
        }
        statements
    }

    /// Returns the bytes of a head: the type, which the first message lacks, and the length.
    fn head_bytes(&self) -> usize {
        4 + usize::from(self.has_started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with a type and a body of zeros.
    fn message(kind: u8, body: usize) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend((body as u32 + 4).to_be_bytes());
        bytes.extend(vec![0; body]);
        bytes
    }

    #[test]
    fn statements_are_counted_wherever_the_stream_is_cut() {
        let mut stream = vec![0, 0, 0, 8, 0, 3, 0, 0];
        for (kind, body) in [(b'Q', 7), (b'P', 9), (b'B', 3), (b'E', 5), (b'E', 0), (b'S', 0), (b'p', 2)] {
            stream.extend(message(kind, body));
        }
        for piece in 1..stream.len() {
            let mut messages = FrontendMessages::default();
            let count: u64 = stream.chunks(piece).map(|bytes| messages.count_statements(bytes)).sum();
            assert_eq!(count, 3, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_relay_counts_round_trips() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let relay = Relay::start(server.local_addr().unwrap(), Duration::ZERO).unwrap();
        let mut client = TcpStream::connect(relay.address()).unwrap();
        let (mut peer, _) = server.accept().unwrap();
        let mut byte = [0];
        for _ in 0..3 {
            client.write_all(&[1]).unwrap();
            peer.read_exact(&mut byte).unwrap();
            peer.write_all(&byte).unwrap();
            client.read_exact(&mut byte).unwrap();
        }
        assert_eq!(relay.counts(), RelayCounts { request_bytes: 3, statements: 0, round_trips: 3 });
    }
}
