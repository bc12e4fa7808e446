//! A TCP proxy that simulates network faults between a client and a server. It runs on its own thread and does not interpret
//! the protocol: it sees bytes only.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// Maximum bytes of one read.
const CHUNK_BYTES: usize = 16 * 1024;
/// Maximum chunks in flight in one direction, while they are delayed or silenced.
const CHUNKS_MAX: usize = 256;

/// The point at which one connection is cut, once. Words are searched within single chunks of unencrypted traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPoint {
    /// After this number of further bytes to the server.
    ToServer(usize),
    /// After this number of further bytes to the client.
    ToClient(usize),
    /// Before a request with these words reaches the server.
    Request(&'static str),
    /// After the server has executed a request with these words, and before its answer reaches the client.
    Answer(&'static str),
}

/// The behaviour of the proxy towards connections.
#[derive(Debug, Clone, Copy, Default)]
struct ProxyMode {
    /// True if nothing is forwarded.
    is_silent: bool,
    /// Delay of each byte to the server.
    delay_to_server: Duration,
    /// Delay of each byte to the client.
    delay_to_client: Duration,
}

/// A command to [`serve`], which confirms each when it is done.
enum ProxyCommand {
    /// Stops listening, so that new connections are refused.
    Refuse,
    /// Listens again.
    Accept,
    /// Cuts all connections.
    Cut,
}

/// A proxy before a server. It forwards everything at first. Dropping it cuts its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
    cut_point: Arc<Mutex<Option<CutPoint>>>,
    commands: mpsc::UnboundedSender<(ProxyCommand, Sender<()>)>,
}

impl Proxy {
    /// Starts a proxy before the server at an address.
    ///
    /// # Errors
    /// If no port can be bound, or the thread cannot be started.
    pub fn start(server: SocketAddr) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("start a runtime"))?;
        let listen = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = listen().map_err(Error::io("listen"))?;
        let (mode, modes) = watch::channel(ProxyMode::default());
        let (commands, command_receiver) = mpsc::unbounded_channel();
        let cut_point = Arc::new(Mutex::new(None));
        let link = ProxyLink { server, modes, cut_point: Arc::clone(&cut_point) };
        let run = move || {
            let result = runtime
                .block_on(async { serve(TcpListener::from_std(listener)?, link, command_receiver).await });
            if let Err(error) = result {
                eprintln!("a proxy failed to listen: {error}");
            }
        };
        std::thread::Builder::new().spawn(run).map_err(Error::io("start a thread"))?;
        Ok(Self { address, mode, cut_point, commands })
    }

    /// Returns the address on which the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays every byte to the server and to the client by these times. The delay does not limit the throughput.
    pub fn delay(&self, to_server: Duration, to_client: Duration) {
        self.mode.send_modify(|mode| (mode.delay_to_server, mode.delay_to_client) = (to_server, to_client));
    }

    /// Stops forwarding: connections are accepted and stay open, but neither end receives anything.
    pub fn silence(&self) {
        self.mode.send_modify(|mode| mode.is_silent = true);
    }

    /// Refuses new connections. Existing connections continue.
    pub fn refuse(&self) {
        self.send_command(ProxyCommand::Refuse);
    }

    /// Reverts [`Self::silence`] and [`Self::refuse`]. Silenced bytes are forwarded.
    pub fn restore(&self) {
        self.send_command(ProxyCommand::Accept);
        self.mode.send_modify(|mode| mode.is_silent = false);
    }

    /// Cuts all connections: both ends get a connection reset.
    pub fn cut(&self) {
        self.send_command(ProxyCommand::Cut);
    }

    /// Cuts the first connection that reaches this point.
    pub fn cut_at(&self, cut_point: CutPoint) {
        *self.cut_point.lock() = Some(cut_point);
    }

    /// Sends a command and waits until it is done.
    fn send_command(&self, command: ProxyCommand) {
        let (done, confirmation) = std::sync::mpsc::channel();
        if self.commands.send((command, done)).is_ok() {
            // An error means that the proxy and its connections have ended.
            let _ = confirmation.recv();
        }
    }
}

/// The state that each connection shares with the proxy.
#[derive(Clone)]
struct ProxyLink {
    server: SocketAddr,
    modes: watch::Receiver<ProxyMode>,
    cut_point: Arc<Mutex<Option<CutPoint>>>,
}

/// Accepts connections and executes commands until the proxy is dropped.
async fn serve(
    listener: TcpListener,
    link: ProxyLink,
    mut commands: mpsc::UnboundedReceiver<(ProxyCommand, Sender<()>)>,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    // Replacing this sender drops it, which ends the wait for a change in all connections.
    let mut uncut = watch::channel(()).0;
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = commands.recv() => {
                let Some((command, done)) = command else { return Ok(()) };
                match command {
                    ProxyCommand::Refuse => listener = None,
                    ProxyCommand::Accept if listener.is_none() => listener = Some(TcpListener::bind(address).await?),
                    ProxyCommand::Accept => {}
                    ProxyCommand::Cut => {
                        uncut = watch::channel(()).0;
                        while connections.join_next().await.is_some() {}
                    }
                }
                let _ = done.send(());
            }
            Ok((client, _)) = accepted => {
                connections.spawn(proxy_connection(client, link.clone(), uncut.subscribe()));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// The reason for which a connection ends.
enum ConnectionEnd {
    /// One end has failed, or the connection was cut.
    Broken,
    /// The server executes what it has received, and its answer is lost.
    AnswerLost,
}

impl From<std::io::Error> for ConnectionEnd {
    fn from(_: std::io::Error) -> Self {
        Self::Broken
    }
}

/// Forwards one connection until an end closes it or it is cut.
async fn proxy_connection(mut client: TcpStream, link: ProxyLink, mut uncut: watch::Receiver<()>) {
    let Ok(mut server) = TcpStream::connect(link.server).await else { return };
    let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    let ended = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        tokio::select! {
            ended = async { tokio::try_join!(
                forward_bytes(client_read, server_write, Direction::ToServer, link.clone()),
                forward_bytes(server_read, client_write, Direction::ToClient, link),
            ) } => ended.map(|_| ()),
            _ = uncut.changed() => Err(ConnectionEnd::Broken),
        }
    };
    match ended {
        Ok(()) => return,
        Err(ConnectionEnd::Broken) => {}
        Err(ConnectionEnd::AnswerLost) => {
            // The server executes what it has received, and then sees the end of the stream.
            let _ = server.shutdown().await;
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        }
    }
    // A reset, as from a network or a machine that has lost the connection.
    let _ = client.set_zero_linger().and_then(|()| server.set_zero_linger());
}

/// The direction of forwarded bytes.
#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

/// Forwards bytes in one direction, each chunk after its delay, until the end of the stream or the cut point.
async fn forward_bytes(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: Direction,
    link: ProxyLink,
) -> Result<(), ConnectionEnd> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let mut modes = link.modes.clone();
    let read = async {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            from.read_buf(&mut chunk).await?;
            let mode = *link.modes.borrow();
            let delay = match side {
                Direction::ToServer => mode.delay_to_server,
                Direction::ToClient => mode.delay_to_client,
            };
            let is_end = chunk.is_empty();
            if queue.send((Instant::now() + delay, chunk)).await.is_err() || is_end {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some((due, chunk)) = queued.recv().await {
            sleep_until(due).await;
            // The wait fails if the proxy was dropped, because nothing can end the silence then.
            modes.wait_for(|mode| !mode.is_silent).await.map_err(|_| ConnectionEnd::Broken)?;
            if chunk.is_empty() {
                break;
            }
            let (passed, end) = check_cut_point(&link.cut_point, side, &chunk);
            to.write_all(&chunk[..passed]).await?;
            if let Some(end) = end {
                return Err(end);
            }
        }
        Ok(to.shutdown().await?)
    };
    tokio::try_join!(read, write).map(|_| ())
}

/// Returns the number of bytes of a chunk to forward, and the end of the connection if the cut point is in this chunk. A cut
/// point is removed when it is reached.
fn check_cut_point(
    cut: &Mutex<Option<CutPoint>>,
    side: Direction,
    chunk: &[u8],
) -> (usize, Option<ConnectionEnd>) {
    let mut cut = cut.lock();
    let whole_chunk = (chunk.len(), None);
    let (passed, end) = match (cut.as_mut(), side) {
        (Some(CutPoint::ToServer(left)), Direction::ToServer)
        | (Some(CutPoint::ToClient(left)), Direction::ToClient) => {
            let passed = chunk.len().min(*left);
            *left -= passed;
            (passed, (*left == 0).then_some(ConnectionEnd::Broken))
        }
        (Some(CutPoint::Request(words)), Direction::ToServer) if contains_words(chunk, words) => {
            (0, Some(ConnectionEnd::Broken))
        }
        (Some(CutPoint::Answer(words)), Direction::ToServer) if contains_words(chunk, words) => {
            (chunk.len(), Some(ConnectionEnd::AnswerLost))
        }
        (Some(CutPoint::Request(_) | CutPoint::Answer(_) | CutPoint::ToClient(_)), Direction::ToServer)
        | (Some(CutPoint::Request(_) | CutPoint::Answer(_) | CutPoint::ToServer(_)), Direction::ToClient)
        | (None, Direction::ToServer | Direction::ToClient) => whole_chunk,
    };
    if end.is_some() {
        *cut = None;
    }
    (passed, end)
}

/// Returns whether a chunk contains a text.
fn contains_words(chunk: &[u8], words: &str) -> bool {
    chunk.windows(words.len()).any(|window| window == words.as_bytes())
}
