//! The one server that all tests of a target folder share: found, or started by whoever comes first. How long it
//! lives is a matter of locks alone, so that a process may end in any way.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Error;
use crate::server::{ClusterSettings, DataLocation, PostgresServer};

/// How long the server waits for somebody new when its last user is gone: longer than the tests of other rooms that
/// run between two of its own mostly take, and short enough to be gone when a person looks.
const LINGER: Duration = Duration::from_secs(10);

/// A server with the lock that keeps it running.
#[derive(Debug)]
pub struct ServerLease {
    /// The server.
    pub server: PostgresServer,
    /// Held, never read: the server stops when nobody holds it any more.
    _users: File,
}

impl ServerLease {
    /// Returns a server of its own in a folder of [`own_folder`].
    pub fn start_own(users: File, folder: PathBuf, settings: &ClusterSettings) -> Result<Self, Error> {
        Ok(Self { server: PostgresServer::create(folder, settings)?, _users: users })
    }

    /// Returns the shared server.
    pub fn acquire_shared() -> Result<Arc<Self>, Error> {
        static JOINED: Mutex<Weak<ServerLease>> = Mutex::new(Weak::new());
        let mut joined = JOINED.lock();
        if let Some(running) = joined.upgrade() {
            return Ok(running);
        }
        let running = Arc::new(Self::join_or_start(&target_tmp_folder()?)?);
        *joined = Arc::downgrade(&running);
        Ok(running)
    }

    /// Joins the users of the server of that place, or starts it.
    fn join_or_start(place: &Path) -> Result<Self, Error> {
        fs::create_dir_all(place).map_err(Error::file("make", place))?;
        let (users_file, state) = (place.join("cluster.users"), place.join("cluster.folder"));
        // Waits while the server of before is being stopped; from here on no server that is found is stopped.
        let users = open_lock_file(&users_file)?;
        users.lock_shared().map_err(Error::file("lock", &users_file))?;
        if let Some(server) = find_running_server(&state) {
            return Ok(Self { server, _users: users });
        }
        let starting_file = place.join("cluster.starting");
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

/// Returns a folder for a server, and the lock for which it is there.
pub fn create_server_folder(place: DataLocation) -> Result<(File, PathBuf), Error> {
    let lock = tempfile::NamedTempFile::new().map_err(Error::io("make a lock"))?;
    let users = lock.reopen().and_then(|file| file.lock_shared().map(|()| file));
    let users = users.map_err(Error::io("lock a file"))?;
    let folder = PostgresServer::create_folder(lock.into_file(), Duration::ZERO, place)?;
    Ok((users, folder))
}

fn find_running_server(state: &Path) -> Option<PostgresServer> {
    PostgresServer::attach(fs::read_to_string(state).ok()?.into())
}

fn open_lock_file(path: &Path) -> Result<File, Error> {
    let file = File::options().create(true).truncate(false).write(true).read(true).open(path);
    file.map_err(Error::file("open", path))
}

/// Returns the folder for the files of tests in cargo's target folder, in which the program of a test is.
fn target_tmp_folder() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let target = target.or_else(|| program.parent()).unwrap_or(Path::new("."));
    Ok(target.join("tmp"))
}
