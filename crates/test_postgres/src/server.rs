//! One server in a folder of its own: made, started, stopped, asked. Who may use it, and for how long, is not known here.

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
/// Where files are in memory, on Linux.
const MEMORY_FOLDER: &str = "/dev/shm";
/// How much room there must be in memory. A server takes 50 MB, and each database 8 MB; containers often have 64 MB.
const MEMORY_MIN_BYTES: u64 = 1 << 30;
/// Stops the server when its users are gone.
const SUPERVISE_SCRIPT: &str = include_str!("supervise.sh");
/// How long a statement may take. Making a database under load takes a tenth of a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often another port is tried when somebody else took the free one first.
const PORTS_MAX: usize = 5;
/// How much of the log an error shows.
const LOG_LINES_MAX: usize = 20;

/// The settings of every server. No test needs its data after a power cut, so nothing is synced to disk; speed
/// comparisons set `fsync` and `full_page_writes`. The time zone is one that nobody lives in, so that a local time
/// mistaken for UTC shows.
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

/// The orders of text to try: one of a language, so that whoever relies on the order of bytes finds out.
const LOCALE_OPTIONS: [&[&str]; 2] = [&["--locale-provider=icu", "--icu-locale=en-US"], &[]];

/// The TLS mode of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// It does not know TLS.
    #[default]
    Off,
    /// It has a certificate of its own making for the name `localhost`, and takes connections with and without TLS.
    Offered,
}

/// Where a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataLocation {
    /// In memory where there is room: making a database there takes a fifth of the time.
    #[default]
    Memory,
    /// On the disk that has the folder for temporary files: for who measures it.
    Disk,
}

/// The settings of a test's own server.
#[derive(Debug, Clone, Default)]
pub struct ClusterSettings {
    /// Where its data is.
    pub data_location: DataLocation,
    /// Lines for `postgresql.conf`, which come after those every server has.
    pub options: Vec<(&'static str, &'static str)>,
    /// The TLS mode.
    pub tls: TlsMode,
}

/// A server and its folder.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    port: u16,
}

impl PostgresServer {
    /// Returns the server that an earlier process started in that folder, if it answers.
    pub fn attach(folder: PathBuf) -> Option<Self> {
        // The fourth line of the file is the port.
        let facts = fs::read_to_string(folder.join("data/postmaster.pid")).ok()?;
        let server = Self { port: facts.lines().nth(3)?.parse().ok()?, folder };
        UnixStream::connect(server.socket_path()).ok()?;
        Some(server)
    }

    /// Makes a folder for a server that lives while somebody holds the lock on that file, and `linger` longer.
    pub fn create_folder(lock: File, linger: Duration, place: DataLocation) -> Result<PathBuf, Error> {
        let temporary = tempfile::Builder::new().prefix("segue-pg-").tempdir_in(place.base_folder());
        let folder = temporary.map_err(Error::io("make a temporary folder"))?.keep();
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISE_SCRIPT, "supervise"]).arg(&folder).arg(linger.as_secs().to_string());
        // It must not share a fate with the test: no terminal, no group, no pipe that a test runner waits for.
        supervisor.process_group(0).current_dir("/").stdin(lock).stdout(Stdio::null()).stderr(Stdio::null());
        supervisor.spawn().map_err(Error::io("start the process that stops the server"))?;
        Ok(folder)
    }

    /// Makes a server in that folder and starts it.
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

    /// Starts it at a free port, which somebody else may take before the server does.
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

    /// Starts it again, at the same port.
    pub fn start(&self) -> Result<(), Error> {
        self.start_with(&PostgresPrograms::find()?)
    }

    fn start_with(&self, programs: &PostgresPrograms) -> Result<(), Error> {
        let log = self.folder.join("log");
        let options = format!("-p {}", self.port);
        let args = ["start", "-w", "-s", "-D", "data", "-l", "log", "-o", &options];
        programs.run_program("pg_ctl", &self.folder, &args).map_err(|error| match error {
            Error::Program { program, said } => {
                Error::Program { program, said: said + "\n" + &log_tail(&log) }
            }
            other => other,
        })
    }

    /// Stops it in one of the ways of `pg_ctl`: `fast` ends connections and writes what is open, `immediate` crashes.
    pub fn stop(&self, mode: &str) -> Result<(), Error> {
        PostgresPrograms::find()?.run_program(
            "pg_ctl",
            &self.folder,
            &["stop", "-w", "-s", "-D", "data", "-m", mode],
        )
    }

    /// Performs statements that return nothing, each in a transaction of its own.
    pub fn execute(&self, statement: &str) -> Result<(), Error> {
        self.execute_in(ADMIN, statement)
    }

    /// Performs statements in a database.
    pub fn execute_in(&self, database: &str, statement: &str) -> Result<(), Error> {
        self.query_texts(database, statement).map(drop)
    }

    /// Performs statements in a database, and returns the first column of what they answer.
    pub fn query_texts(&self, database: &str, statement: &str) -> Result<Vec<String>, Error> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.folder).port(self.port).user(ADMIN).dbname(database);
        let failed = |source| Error::Statement { statement: statement.to_owned(), source };
        let perform = async {
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.map_err(failed)?;
            let talk = tokio::spawn(connection);
            let result = client.simple_query(statement).await.map_err(failed);
            talk.abort();
            result
        };
        let ask = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Error::io("start a runtime"))?;
            let answered = runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, perform).await });
            answered.unwrap_or(Err(Error::AnswerTimeout { statement: statement.to_owned() }))
        };
        // A thread of its own, for the caller may be in a runtime, where nothing may block on another one.
        let messages = std::thread::scope(|scope| scope.spawn(ask).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let first = |message: SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(first).collect())
    }

    /// Makes an empty database of that name.
    pub fn create_database(&self, name: &str) -> Result<(), Error> {
        self.execute(&format!("CREATE DATABASE {name} OWNER {OWNER} TEMPLATE template0"))
    }

    /// Returns the URL of a database over the socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgres://{OWNER}@{folder}:{}/{database}", self.port)
    }

    /// Returns the URL of a database over TCP, by way of that address.
    pub fn url(&self, address: SocketAddr, database: &str) -> String {
        format!("postgres://{OWNER}:{OWNER}@{address}/{database}")
    }

    /// Returns where the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns its folder: `data`, `log`, and the socket.
    pub fn folder_path(&self) -> &Path {
        &self.folder
    }

    fn socket_path(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }
}

impl DataLocation {
    fn base_folder(self) -> PathBuf {
        let has_room = |facts: rustix::fs::StatVfs| facts.f_bavail * facts.f_frsize >= MEMORY_MIN_BYTES;
        match self {
            Self::Memory if rustix::fs::statvfs(MEMORY_FOLDER).is_ok_and(has_room) => MEMORY_FOLDER.into(),
            Self::Memory | Self::Disk => std::env::temp_dir(),
        }
    }
}

fn initialize_data(programs: &PostgresPrograms, folder: &Path) -> Result<(), Error> {
    let always = [
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
        result = programs.run_program("initdb", folder, &[&always, locale].concat());
        if result.is_ok() {
            break;
        }
    }
    result
}

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

/// Makes a certificate that is its own authority, for the name `localhost` and no address.
fn create_certificate(programs: &PostgresPrograms, folder: &Path) -> Result<(), Error> {
    let args = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem -out cert.pem \
                -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    programs.run_program("openssl", folder, &args.split_whitespace().collect::<Vec<_>>())
}

fn free_port() -> Result<u16, Error> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(Error::io("find a free port"))
}

fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}

fn log_tail(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}
