//! One server in its own folder: creates, starts, stops and queries it. `shared` and `cluster` decide how long it lives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio_postgres::SimpleQueryMessage;

use crate::Error;
use crate::programs::PostgresPrograms;

/// The role that owns the databases and connects to them: an ordinary user without special rights, as in an installation.
const OWNER: &str = "segue";
/// The stored verifier of the owner's password, `segue`: one round of hashing instead of 4,096, which would take an
/// unoptimized client 70 ms per connection.
const PASSWORD: &str = "SCRAM-SHA-256$1:dGVzdCBkYXRhYmFzZS4uLg==$XdCm/TD5NTbAEgmgsWv1tKkzTLMWyviQyaWVgqWvhCU=:\
     HaKYqaPYKVdIBtUI+9lTfPT+ARmNgNGCN1mV7i+qa5A=";
/// The role that creates and drops databases, over the socket only.
const ADMIN: &str = "postgres";
/// The file system in memory, on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Minimum free bytes for using [`MEMORY_FOLDER`]. A server uses 50 MB and each database 8 MB; containers often have only
/// 64 MB there.
const MEMORY_MIN_BYTES: u64 = 1 << 30;
/// The shell script that stops the server and removes its folder when all users have exited.
const SUPERVISE_SCRIPT: &str = include_str!("supervise.sh");
/// Timeout of one statement. Creating a database under load takes a tenth of a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum ports to try. Another process can take a free port before the server binds it.
const PORTS_MAX: usize = 5;
/// Maximum lines of the server's log in an error.
const LOG_LINES_MAX: usize = 20;

/// The settings of every server. No test needs its data after a power failure, so nothing is synced to disk; benchmarks set
/// `fsync` and `full_page_writes`. The time zone differs from UTC by an unusual offset (5:45), so that a local time mistaken
/// for UTC is noticed.
const DEFAULT_OPTIONS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "300"),
    ("shared_buffers", "64MB"),
    ("min_wal_size", "32MB"),
    ("max_wal_size", "256MB"),
    ("autovacuum_naptime", "10s"),
    ("timezone", "Asia/Kathmandu"),
    ("log_line_prefix", "%m [%p] %d "),
];

/// The collations to try, as options of `initdb`. A language's collation is preferred, because it exposes code that relies
/// on the order of bytes; it needs a PostgreSQL with ICU.
const LOCALE_OPTIONS: [&[&str]; 2] = [&["--locale-provider=icu", "--icu-locale=en-US"], &[]];

/// The TLS mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// The server does not support TLS.
    #[default]
    Off,
    /// The server has a self-signed certificate for `localhost`, and accepts connections with and without TLS.
    Offered,
}

/// The location of a server's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataLocation {
    /// In memory if there is enough space, else on disk. Creating a database in memory takes a fifth of the time.
    #[default]
    Memory,
    /// On the disk with the folder for temporary files. Benchmarks use it.
    Disk,
}

/// The settings of a server that is not shared.
#[derive(Debug, Clone, Default)]
pub struct ClusterSettings {
    /// The location of the data.
    pub data_location: DataLocation,
    /// Names and values for `postgresql.conf`. They override the settings that every server has.
    pub options: Vec<(&'static str, &'static str)>,
    /// The TLS mode.
    pub tls: TlsMode,
}

/// A server and its folder.
#[derive(Debug)]
pub struct PostgresServer {
    /// The folder with `data`, `log`, the socket and the certificate.
    folder: PathBuf,
    /// The port on the loopback interface.
    port: u16,
}

impl PostgresServer {
    /// Returns the server that another process started in a folder, if it accepts connections.
    pub fn attach(folder: PathBuf) -> Option<Self> {
        // The fourth line of `postmaster.pid` is the port.
        let pid_file = fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
        let server = Self { port: pid_file.lines().nth(3)?.parse().ok()?, folder };
        UnixStream::connect(server.socket_path()).ok()?;
        Some(server)
    }

    /// Creates a folder for a server, and starts its supervisor. The supervisor stops the server and removes the folder when
    /// no process has held a shared lock on the file `lock` for the time `linger`.
    pub fn create_folder(lock: File, linger: Duration, location: DataLocation) -> Result<PathBuf, Error> {
        let temporary = tempfile::Builder::new().prefix("segue-pg-").tempdir_in(location.base_folder());
        let folder = temporary.map_err(Error::io("make a temporary folder"))?.keep();
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISE_SCRIPT, "supervise"]).arg(&folder).arg(linger.as_secs().to_string());
        // The supervisor must survive the test: it shares no terminal and no process group with it, and holds no pipe open
        // that a test runner waits for.
        supervisor.process_group(0).current_dir("/").stdin(lock).stdout(Stdio::null()).stderr(Stdio::null());
        supervisor.spawn().map_err(Error::io("start the process that stops the server"))?;
        Ok(folder)
    }

    /// Initializes a server in a folder from [`Self::create_folder`] and starts it.
    pub fn create(folder: PathBuf, settings: &ClusterSettings) -> Result<Self, Error> {
        let programs = PostgresPrograms::find()?;
        let data = folder.join("data");
        if let Some(user) = programs.user {
            let chown = std::os::unix::fs::chown(&folder, Some(user.uid), Some(user.gid));
            chown.map_err(Error::file("give away", &folder))?;
        }
        initialize_data(&programs, &folder)?;
        if settings.tls == TlsMode::Offered {
            create_certificate(&programs, &folder)?;
        }
        write_config(&data.join("postgresql.conf"), &folder, settings)
            .map_err(Error::file("write the settings in", &data))?;
        let server = Self::start_on_free_port(&programs, folder)?;
        server.execute(&format!("CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'"))?;
        Ok(server)
    }

    /// Starts the server at a free port. If another process takes the port first, another port is tried.
    fn start_on_free_port(programs: &PostgresPrograms, folder: PathBuf) -> Result<Self, Error> {
        let mut server = Self { folder, port: 0 };
        for _ in 1..PORTS_MAX {
            server.port = free_port()?;
            match server.start_with(programs) {
                Err(Error::Program { .. }) if is_taken(server.port) => {}
                result => return result.map(|()| server),
            }
        }
        server.port = free_port()?;
        server.start_with(programs).map(|()| server)
    }

    /// Starts the server again at the same port.
    pub fn start(&self) -> Result<(), Error> {
        self.start_with(&PostgresPrograms::find()?)
    }

    /// Starts the server and waits until it accepts connections. An error contains the end of the server's log.
    fn start_with(&self, programs: &PostgresPrograms) -> Result<(), Error> {
        let log = self.folder.join("log");
        let options = format!("-p {}", self.port);
        let args = ["start", "-w", "-s", "-D", "data", "-l", "log", "-o", &options];
        programs.run_program("pg_ctl", &self.folder, &args).map_err(|error| match error {
            Error::Program { program, output } => {
                Error::Program { program, output: output + "\n" + &log_tail(&log) }
            }
            error => error,
        })
    }

    /// Stops the server with a mode of `pg_ctl`: `fast` ends connections and writes a checkpoint, `immediate` does neither
    /// and needs recovery at the next start.
    pub fn stop(&self, mode: &str) -> Result<(), Error> {
        PostgresPrograms::find()?.run_program(
            "pg_ctl",
            &self.folder,
            &["stop", "-w", "-s", "-D", "data", "-m", mode],
        )
    }

    /// Executes a statement in the administration database.
    pub fn execute(&self, statement: &str) -> Result<(), Error> {
        self.execute_in(ADMIN, statement)
    }

    /// Executes statements in a database and ignores their rows.
    pub fn execute_in(&self, database: &str, statement: &str) -> Result<(), Error> {
        self.query_texts(database, statement).map(drop)
    }

    /// Executes statements in a database as a superuser, and returns the first column of all rows. Blocks the calling thread.
    ///
    /// # Errors
    /// If the server refuses a statement, or does not answer within [`ANSWER_TIMEOUT`].
    pub fn query_texts(&self, database: &str, statement: &str) -> Result<Vec<String>, Error> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.folder).port(self.port).user(ADMIN).dbname(database);
        let failed = |source| Error::Statement { statement: statement.to_owned(), source };
        let query = async {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.map_err(failed)?;
            let connection_task = tokio::spawn(connection);
            let result = client.simple_query(statement).await.map_err(failed);
            connection_task.abort();
            result
        };
        let run_query = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Error::io("start a runtime"))?;
            let result = runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, query).await });
            result.unwrap_or(Err(Error::AnswerTimeout { statement: statement.to_owned() }))
        };
        // A separate thread, because the caller may be inside an async runtime, in which blocking on another one panics.
        let messages = std::thread::scope(|scope| scope.spawn(run_query).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let first_column = |message: SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(first_column).collect())
    }

    /// Creates an empty database that [`OWNER`] owns.
    pub fn create_database(&self, name: &str) -> Result<(), Error> {
        self.execute(&format!("CREATE DATABASE {name} OWNER {OWNER} TEMPLATE template0"))
    }

    /// Returns the URL of a database over the socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgres://{OWNER}@{folder}:{}/{database}", self.port)
    }

    /// Returns the URL of a database over TCP with the given address, which can be that of a proxy.
    pub fn url(&self, address: SocketAddr, database: &str) -> String {
        format!("postgres://{OWNER}:{OWNER}@{address}/{database}")
    }

    /// Returns the TCP address of the server.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the folder of the server, with `data`, `log` and the socket.
    pub fn folder_path(&self) -> &Path {
        &self.folder
    }

    fn socket_path(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }
}

impl DataLocation {
    /// Returns the folder in which the server's folder is created.
    fn base_folder(self) -> PathBuf {
        let has_space = |stat: rustix::fs::StatVfs| stat.f_bavail * stat.f_frsize >= MEMORY_MIN_BYTES;
        match self {
            Self::Memory if rustix::fs::statvfs(MEMORY_FOLDER).is_ok_and(has_space) => MEMORY_FOLDER.into(),
            Self::Memory | Self::Disk => std::env::temp_dir(),
        }
    }
}

/// Runs `initdb` with the first collation of [`LOCALE_OPTIONS`] that works.
fn initialize_data(programs: &PostgresPrograms, folder: &Path) -> Result<(), Error> {
    let common_options = [
        "--pgdata=data",
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
        "--no-sync",
        "--no-instructions",
    ];
    let mut result = Ok(());
    for locale in LOCALE_OPTIONS {
        result = programs.run_program("initdb", folder, &[&common_options, locale].concat());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Appends the settings to `postgresql.conf`. Of repeated settings PostgreSQL uses the last one.
fn write_config(file: &Path, folder: &Path, settings: &ClusterSettings) -> io::Result<()> {
    let mut file = File::options().append(true).open(file)?;
    writeln!(file, "unix_socket_directories = '{}'", folder.display())?;
    let tls: &[(&str, &str)] = match settings.tls {
        TlsMode::Off => &[],
        TlsMode::Offered => {
            &[("ssl", "on"), ("ssl_cert_file", "../cert.pem"), ("ssl_key_file", "../key.pem")]
        }
    };
    for (name, value) in DEFAULT_OPTIONS.iter().chain(tls).chain(&settings.options) {
        writeln!(file, "{name} = '{value}'")?;
    }
    Ok(())
}

/// Creates a self-signed certificate for the name `localhost` and no IP address.
fn create_certificate(programs: &PostgresPrograms, folder: &Path) -> Result<(), Error> {
    let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem -out cert.pem \
                -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    programs.run_program("openssl", folder, &args.split_whitespace().collect::<Vec<_>>())
}

/// Returns a port that is free now. Another process can take it at any time.
fn free_port() -> Result<u16, Error> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(Error::io("find a free port"))
}

/// Returns whether the port cannot be bound.
fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}

/// Returns the last [`LOG_LINES_MAX`] lines of a log.
fn log_tail(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}
