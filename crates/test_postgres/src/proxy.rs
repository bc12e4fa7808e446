//! A network that fails on order: a TCP proxy before a server, on a thread of its own. It knows nothing of what passes
//! but its bytes; what the two ends do about a fault is the test's matter.

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

/// How much is read at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// How many chunks may be on their way in one direction, while they are delayed or held back.
const CHUNKS_MAX: usize = 256;

/// A place at which one connection is cut, once. Words are looked for in what one end writes at once, without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPoint {
    /// When so many bytes more have gone to the server.
    ToServer(usize),
    /// When so many bytes more have come back.
    ToClient(usize),
    /// Before a request with these words reaches the server.
    Request(&'static str),
    /// When the server has done what a request with these words asks for, and before its answer reaches the client.
    Answer(&'static str),
}

/// The behaviour of the proxy towards connections.
#[derive(Debug, Clone, Copy, Default)]
struct ProxyMode {
    is_silent: bool,
    /// How long a byte takes to the server.
    delay_to_server: Duration,
    /// How long a byte takes to the client.
    delay_to_client: Duration,
}

/// A command to `serve`, which confirms it.
enum ProxyCommand {
    Refuse,
    Accept,
    Cut,
}

/// A proxy before a server. It starts as a plain way through; dropped, it cuts what goes through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
    cut_point: Arc<Mutex<Option<CutPoint>>>,
    commands: mpsc::UnboundedSender<(ProxyCommand, Sender<()>)>,
}

impl Proxy {
    /// Starts a proxy before the server at that address.
    ///
    /// # Errors
    /// When the machine has no port or no thread for it.
    pub fn start(server: SocketAddr) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("start a runtime"))?;
        let listen = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = listen().map_err(Error::io("listen"))?;
        let (way, ways) = watch::channel(ProxyMode::default());
        let (orders, ordered) = mpsc::unbounded_channel();
        let cut = Arc::new(Mutex::new(None));
        let link = ProxyLink { server, modes: ways, cut_point: Arc::clone(&cut) };
        let work = move || {
            let served =
                runtime.block_on(async { serve(TcpListener::from_std(listener)?, link, ordered).await });
            if let Err(error) = served {
                eprintln!("a proxy failed to listen: {error}");
            }
        };
        std::thread::Builder::new().spawn(work).map_err(Error::io("start a thread"))?;
        Ok(Self { address, mode: way, cut_point: cut, commands: orders })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has every byte take that long to the server, and that long back, however many are on their way.
    pub fn delay(&self, there: Duration, back: Duration) {
        self.mode.send_modify(|way| (way.delay_to_server, way.delay_to_client) = (there, back));
    }

    /// Has nothing pass any more: connections are taken and stay open, and neither end hears of the other.
    pub fn silence(&self) {
        self.mode.send_modify(|way| way.is_silent = true);
    }

    /// Has the machine refuse connections. Those there are go on.
    pub fn refuse(&self) {
        self.send_command(ProxyCommand::Refuse);
    }

    /// Takes back [`Self::silence`] and [`Self::refuse`]; what was held back passes.
    pub fn restore(&self) {
        self.send_command(ProxyCommand::Accept);
        self.mode.send_modify(|way| way.is_silent = false);
    }

    /// Cuts all connections: both ends are told that there is none.
    pub fn cut(&self) {
        self.send_command(ProxyCommand::Cut);
    }

    /// Cuts the connection that comes to that place first.
    pub fn cut_at(&self, place: CutPoint) {
        *self.cut_point.lock() = Some(place);
    }

    /// Has an order carried out before it returns.
    fn send_command(&self, order: ProxyCommand) {
        let (done, is_done) = std::sync::mpsc::channel();
        if self.commands.send((order, done)).is_ok() {
            // An error says that the proxy has ended, and its connections with it.
            let _ = is_done.recv();
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

/// Serves until the proxy is dropped.
async fn serve(
    listener: TcpListener,
    link: ProxyLink,
    mut orders: mpsc::UnboundedReceiver<(ProxyCommand, Sender<()>)>,
) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    // Who waits for a change of it hears of its end.
    let mut uncut = watch::channel(()).0;
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = orders.recv() => {
                let Some((order, done)) = order else { return Ok(()) };
                match order {
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

/// Why a connection ends.
enum ConnectionEnd {
    /// An end has failed, or the connection was cut.
    Broken,
    /// The answer to what the server was sent is to be lost.
    AnswerLost,
}

impl From<std::io::Error> for ConnectionEnd {
    fn from(_: std::io::Error) -> Self {
        Self::Broken
    }
}

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
            // The server works off what it has, and then notices that there is no more.
            let _ = server.shutdown().await;
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        }
    }
    // Both ends are told by a reset, as by a network or a machine that has lost the connection.
    let _ = client.set_zero_linger().and_then(|()| server.set_zero_linger());
}

/// A direction.
#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

/// Hands on what comes from one end, when its time has come.
async fn forward_bytes(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: Direction,
    link: ProxyLink,
) -> Result<(), ConnectionEnd> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_MAX);
    let mut ways = link.modes.clone();
    let read = async {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            from.read_buf(&mut chunk).await?;
            let way = *link.modes.borrow();
            let delay = match side {
                Direction::ToServer => way.delay_to_server,
                Direction::ToClient => way.delay_to_client,
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
            // The proxy itself is gone when there is nobody who could end the silence.
            ways.wait_for(|way| !way.is_silent).await.map_err(|_| ConnectionEnd::Broken)?;
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

/// Returns how much of a chunk passes, and how the connection ends behind it if this is the place to cut.
fn check_cut_point(
    cut: &Mutex<Option<CutPoint>>,
    side: Direction,
    chunk: &[u8],
) -> (usize, Option<ConnectionEnd>) {
    let mut cut = cut.lock();
    let unharmed = (chunk.len(), None);
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
        | (None, Direction::ToServer | Direction::ToClient) => unharmed,
    };
    if end.is_some() {
        *cut = None;
    }
    (passed, end)
}

fn contains_words(chunk: &[u8], words: &str) -> bool {
    chunk.windows(words.len()).any(|window| window == words.as_bytes())
}
