//! A server for one test, which the test can stop, crash and pause, and whose disk it can fill.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Pid, Signal};

use crate::programs::{self, PostgresPrograms};
use crate::server::{ClusterSettings, DataLocation};
use crate::shared::{self, ServerLease};
use crate::{Error, TestDatabase};

/// Bytes of one write that fills a disk.
const BALLAST_BYTES: usize = 64 * 1024;

/// A server that is not shared. It stops when this value and all its databases are dropped, or when the process exits.
/// Starting one takes about a second.
#[derive(Debug)]
pub struct Cluster {
    server: Arc<ServerLease>,
}

impl Cluster {
    /// Starts a server with the same settings as the shared one.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&ClusterSettings::default())
    }

    /// Starts a server with the given settings.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start_with(settings: &ClusterSettings) -> Result<Self, Error> {
        let (users, folder) = shared::create_server_folder(settings.data_location)?;
        let server = ServerLease::start_own(users, folder, settings)?;
        Ok(Self { server: Arc::new(server) })
    }

    /// Starts a server whose data is on a disk of the given size in MiB, of which an empty server uses about 60.
    ///
    /// Returns `None` and prints a message if the test may not mount a disk, because it does not run as root.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start_on_small_disk(mebibytes: u32) -> Result<Option<Self>, Error> {
        let Some(user) = PostgresPrograms::find()?.user else {
            eprintln!("no small disk: only root can mount one");
            return Ok(None);
        };
        let (users, folder) = shared::create_server_folder(DataLocation::Memory)?;
        let data = folder.join("data");
        fs::create_dir(&data).map_err(Error::file("make", &data))?;
        let mut mount = Command::new("mount");
        let options = format!("size={mebibytes}m,mode=0700,uid={},gid={}", user.uid, user.gid);
        mount.args(["-t", "tmpfs", "-o", &options, "segue-test"]).arg(&data);
        if let Err(error) = programs::run_command(mount) {
            eprintln!("no small disk: failed to {error}");
            return Ok(None);
        }
        let server = ServerLease::start_own(users, folder, &ClusterSettings::default())?;
        Ok(Some(Self { server: Arc::new(server) }))
    }

    /// Creates an empty database on this server.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn create_database(&self) -> Result<TestDatabase, Error> {
        TestDatabase::create_on(Arc::clone(&self.server))
    }

    /// Returns the TCP address of the server. It stays the same after a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.server.address()
    }

    /// Returns the path of the self-signed certificate for `localhost`, as PEM. The file exists only if the server offers TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.server.server.folder_path().join("cert.pem")
    }

    /// Stops the server as an operator does: connections end with an error, and no data is lost.
    ///
    /// # Errors
    /// If the server is not running.
    pub fn stop(&self) -> Result<(), Error> {
        self.server.server.stop("fast")
    }

    /// Stops the server without a checkpoint, like a crash. Committed data is recovered when it starts again, because the
    /// disk keeps all writes.
    ///
    /// # Errors
    /// If the server is not running.
    pub fn crash(&self) -> Result<(), Error> {
        self.server.server.stop("immediate")
    }

    /// Starts the server after a stop or a crash. Returns when it accepts connections.
    ///
    /// # Errors
    /// If the server does not start, with its log.
    pub fn start_again(&self) -> Result<(), Error> {
        self.server.server.start()
    }

    /// Stops the server and starts it again.
    ///
    /// # Errors
    /// As for [`Self::stop`] and [`Self::start_again`].
    pub fn restart(&self) -> Result<(), Error> {
        self.stop()?;
        self.start_again()
    }

    /// Suspends all processes of the server: connections stay open but get no answers.
    ///
    /// # Errors
    /// If the server is not running.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Continues all processes after [`Self::pause`].
    ///
    /// # Errors
    /// If the server is not running.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Fills the remaining space of the disk. Only for a server from [`Self::start_on_small_disk`].
    ///
    /// # Errors
    /// If a write fails for another reason than a full disk.
    pub fn fill_disk(&self) -> Result<(), Error> {
        let ballast = self.ballast_path();
        let fill = || {
            let mut file = File::create(&ballast)?;
            let block = vec![0; BALLAST_BYTES];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        };
        fill().map_err(Error::file("write", &ballast))
    }

    /// Frees the space that [`Self::fill_disk`] filled.
    ///
    /// # Errors
    /// If the disk was not filled.
    pub fn free_disk(&self) -> Result<(), Error> {
        let ballast = self.ballast_path();
        fs::remove_file(&ballast).map_err(Error::file("remove", &ballast))
    }

    fn ballast_path(&self) -> PathBuf {
        self.server.server.folder_path().join("data").join("ballast")
    }

    /// Sends a signal to the server's main process and then to its children. In this order, because a stopped parent cannot
    /// start further children.
    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let file = self.server.server.folder_path().join("data/postmaster.pid");
        let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        let parent = text.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
        let parent = parent.ok_or_else(|| Error::file("read", &file)(io::ErrorKind::InvalidData.into()))?;
        let failed = Error::io("signal a server");
        rustix::process::kill_process(parent, signal).map_err(|error| failed(error.into()))?;
        for child in child_pids(parent).map_err(Error::io("list the processes"))? {
            // A child that has just exited needs no signal.
            let _ = rustix::process::kill_process(child, signal);
        }
        Ok(())
    }
}

/// Returns the children of a process.
fn child_pids(parent: Pid) -> io::Result<Vec<Pid>> {
    let parent = parent.as_raw_nonzero().to_string();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw)
            && parent_pid(&entry.path()).as_ref() == Some(&parent)
        {
            children.push(pid);
        }
    }
    Ok(children)
}

/// Returns the parent's id of a process from its folder in `/proc`. In `stat`, this is the second word behind the name in
/// parentheses.
fn parent_pid(process: &Path) -> Option<String> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
}
