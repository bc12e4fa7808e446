//! The server that all tests of a target folder share. The first process that needs it starts it.
//!
//! Only file locks determine its lifetime: each user holds a shared lock, which the system releases however the process
//! ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Error;
use crate::server::{ClusterSettings, DataLocation, PostgresServer};

/// Time that the server keeps running after its last user has exited. It bridges most gaps in a test run in which tests of
/// other crates run, and is short enough that no server remains when a developer checks.
const LINGER: Duration = Duration::from_secs(10);

/// A server, with the lock that keeps it running.
#[derive(Debug)]
pub struct ServerLease {
    /// The server.
    pub server: PostgresServer,
    /// The shared lock, which is never read. The server stops when all locks on this file are released.
    _users: File,
}

impl ServerLease {
    /// Starts a server in a folder from [`create_server_folder`]. `users` is the lock from there.
    pub fn start_own(users: File, folder: PathBuf, settings: &ClusterSettings) -> Result<Self, Error> {
        Ok(Self { server: PostgresServer::create(folder, settings)?, _users: users })
    }

    /// Returns the shared server, which is started if it does not run. All callers in one process share one lease.
    pub fn acquire_shared() -> Result<Arc<Self>, Error> {
        static LEASE: Mutex<Weak<ServerLease>> = Mutex::new(Weak::new());
        let mut lease = LEASE.lock();
        if let Some(server) = lease.upgrade() {
            return Ok(server);
        }
        let server = Arc::new(Self::join_or_start(&target_tmp_folder()?)?);
        *lease = Arc::downgrade(&server);
        Ok(server)
    }

    /// Joins the running server of a folder, or starts one. A second lock ensures that only one process starts it.
    fn join_or_start(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        let (users_file, state) = (folder.join("cluster.users"), folder.join("cluster.folder"));
        // This waits while the supervisor stops an earlier server. Once the lock is held, no server found is being stopped.
        let users = open_lock_file(&users_file)?;
        users.lock_shared().map_err(Error::file("lock", &users_file))?;
        if let Some(server) = find_running_server(&state) {
            return Ok(Self { server, _users: users });
        }
        let starting_file = folder.join("cluster.starting");
        let starting = open_lock_file(&starting_file)?;
        starting.lock().map_err(Error::file("lock", &starting_file))?;
        if let Some(server) = find_running_server(&state) {
            return Ok(Self { server, _users: users });
        }
        let folder =
            PostgresServer::create_folder(open_lock_file(&users_file)?, LINGER, DataLocation::Memory)?;
        let server = PostgresServer::create(folder, &ClusterSettings::default())?;
        let text = server.folder_path().to_string_lossy();
        fs::write(&state, text.as_bytes()).map_err(Error::file("write", &state))?;
        Ok(Self { server, _users: users })
    }
}

/// Creates a folder for a server that is not shared. Returns the lock that keeps the folder, and the folder.
pub fn create_server_folder(location: DataLocation) -> Result<(File, PathBuf), Error> {
    let lock = tempfile::NamedTempFile::new().map_err(Error::io("make a lock"))?;
    let users = lock.reopen().and_then(|file| file.lock_shared().map(|()| file));
    let users = users.map_err(Error::io("lock a file"))?;
    let folder = PostgresServer::create_folder(lock.into_file(), Duration::ZERO, location)?;
    Ok((users, folder))
}

/// Returns the server whose folder is recorded in the file `state`, if it runs.
fn find_running_server(state: &Path) -> Option<PostgresServer> {
    PostgresServer::attach(fs::read_to_string(state).ok()?.into())
}

/// Opens a lock file, which is created if necessary.
fn open_lock_file(path: &Path) -> Result<File, Error> {
    let file = File::options().create(true).truncate(false).write(true).read(true).open(path);
    file.map_err(Error::file("open", path))
}

/// Returns the folder `tmp` in Cargo's target folder. The target folder is the ancestor of the test's program that has a
/// `CACHEDIR.TAG`. Cargo writes none into a target folder that existed already; then it is the folder of the profile, which
/// contains programs itself and those of tests in `deps`.
fn target_tmp_folder() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let profile = || program.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let target = target.or_else(profile).unwrap_or(Path::new("."));
    Ok(target.join("tmp"))
}
