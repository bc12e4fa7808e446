//! A server of a test's own, which it may stop, crash, pause and fill up.

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

/// How much is written at once to fill a disk.
const BALLAST_BYTES: usize = 64 * 1024;

/// A server of its own, in about a second. It stops when this and all its databases are dropped, or the process ends.
#[derive(Debug)]
pub struct Cluster {
    server: Arc<ServerLease>,
}

impl Cluster {
    /// Starts a server like the shared one.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&ClusterSettings::default())
    }

    /// Starts a server with settings of its own.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start_with(settings: &ClusterSettings) -> Result<Self, Error> {
        let (users, folder) = shared::create_server_folder(settings.data_location)?;
        let running = ServerLease::start_own(users, folder, settings)?;
        Ok(Self { server: Arc::new(running) })
    }

    /// Starts a server whose data is on a disk of so many mebibytes, of which an empty server takes about 60.
    ///
    /// `None`, with a message for the log of the test, when the test may not mount one: it is not run as root.
    ///
    /// # Errors
    /// As for [`TestDatabase::create`].
    pub fn start_on_small_disk(mebibytes: u32) -> Result<Option<Self>, Error> {
        let Some(user) = PostgresPrograms::find()?.user else {
            eprintln!("no small disk: only root may mount one");
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
        let running = ServerLease::start_own(users, folder, &ClusterSettings::default())?;
        Ok(Some(Self { server: Arc::new(running) }))
    }

    /// Makes an empty database on it.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn create_database(&self) -> Result<TestDatabase, Error> {
        TestDatabase::create_on(Arc::clone(&self.server))
    }

    /// Returns where it listens: the same after it was stopped and begun again.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.server.address()
    }

    /// Returns the certificate of a server that offers TLS, as PEM; who trusts it trusts the server as `localhost`.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.server.server.folder_path().join("cert.pem")
    }

    /// Stops it as an operator does: connections end with an error, and nothing is lost.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop(&self) -> Result<(), Error> {
        self.server.server.stop("fast")
    }

    /// Stops it as a power cut does, but for the disk: what was committed is there when it begins again.
    ///
    /// # Errors
    /// When it is not running.
    pub fn crash(&self) -> Result<(), Error> {
        self.server.server.stop("immediate")
    }

    /// Has it begin again after a stop or a crash, and returns when it takes connections.
    ///
    /// # Errors
    /// When it does not start, with its log.
    pub fn start_again(&self) -> Result<(), Error> {
        self.server.server.start()
    }

    /// Stops it and has it begin again.
    ///
    /// # Errors
    /// As for [`Self::stop`] and [`Self::start_again`].
    pub fn restart(&self) -> Result<(), Error> {
        self.stop()?;
        self.start_again()
    }

    /// Has all its processes hang, as on a machine that stands still: connections stay open and say nothing.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Has it go on after a pause.
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Takes all space that is left on its disk, which is small.
    ///
    /// # Errors
    /// When it has no disk of its own.
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

    /// Gives back what [`Self::fill_disk`] took.
    ///
    /// # Errors
    /// When the disk was not filled.
    pub fn free_disk(&self) -> Result<(), Error> {
        let ballast = self.ballast_path();
        fs::remove_file(&ballast).map_err(Error::file("remove", &ballast))
    }

    fn ballast_path(&self) -> PathBuf {
        self.server.server.folder_path().join("data").join("ballast")
    }

    /// Sends a signal to the server's first process and then to its children: a stopped parent has no more of them.
    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let file = self.server.server.folder_path().join("data/postmaster.pid");
        let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        let parent = text.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
        let parent = parent.ok_or_else(|| Error::file("read", &file)(io::ErrorKind::InvalidData.into()))?;
        let failed = Error::io("signal a server");
        rustix::process::kill_process(parent, signal).map_err(|error| failed(error.into()))?;
        for child in child_pids(parent).map_err(Error::io("list the processes"))? {
            // One that has just ended needs no signal.
            let _ = rustix::process::kill_process(child, signal);
        }
        Ok(())
    }
}

/// Returns the processes whose parent is that one.
fn child_pids(parent: Pid) -> io::Result<Vec<Pid>> {
    let parent = parent.as_raw_nonzero().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw)
            && parent_pid(&entry.path()).as_ref() == Some(&parent)
        {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Returns the parent of the process of that folder of `/proc`: the second word behind its name in brackets.
fn parent_pid(process: &Path) -> Option<String> {
    let facts = fs::read_to_string(process.join("stat")).ok()?;
    facts.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
}
