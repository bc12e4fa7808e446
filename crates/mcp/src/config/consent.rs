//! The user's consent to the servers of a project, stored in a file in Segue's home folder. A decision applies to one
//! configuration of a server, identified by its hash; a changed configuration needs a new decision. Asking the user is
//! the task of the front end.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::plan::PlannedServer;
use crate::{Error, Result};

/// Name of the file that stores the decisions, in the project's folder in the home folder.
const CONSENT_FILE: &str = "consent.json";
/// Name of the file that is locked while a decision is added. It is separate because the consent file is replaced on
/// every write, which would drop a lock on it.
const LOCK_FILE: &str = "consent.lock";

/// The user's decision about a server of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsentDecision {
    /// The server may be started.
    Allow,
    /// The server must not be started.
    Refuse,
}

/// The decisions about the servers of one project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectConsents {
    /// Decisions by server name.
    servers: BTreeMap<String, RecordedConsent>,
    /// Decisions that were recorded since the file was read. Only these are written.
    #[serde(skip)]
    recorded: BTreeMap<String, RecordedConsent>,
}

/// A decision with the configuration that it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedConsent {
    /// Lowercase hex SHA-256 of the server's configuration.
    sha256: String,
    answer: ConsentDecision,
}

impl ProjectConsents {
    /// Reads the decisions from `folder`, the project's folder in the home folder. Without a file there are none.
    ///
    /// # Errors
    /// Returns [`Error::Read`] or [`Error::Format`] if the file exists and cannot be read or parsed.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONSENT_FILE);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Error::Format { path, reason: error.to_string() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Adds the recorded decisions to the file in `folder`, which must exist. The file is locked, read again and
    /// replaced atomically, so decisions that another process has stored in the meantime are kept.
    ///
    /// # Errors
    /// Returns an error if the file cannot be locked, read, parsed or written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(CONSENT_FILE);
        let failed = |source| Error::Write { path: path.clone(), source };
        let lock =
            OpenOptions::new().create(true).append(true).open(folder.join(LOCK_FILE)).map_err(failed)?;
        // The operating system releases the lock when the file is closed, however this function ends.
        lock.lock().map_err(failed)?;
        let mut stored = Self::read(folder)?;
        stored.servers.extend(self.recorded.clone());
        let text = serde_json::to_vec_pretty(&stored).expect("strings and enums have a JSON form");
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Records the decision about a server and its present configuration. It replaces an earlier decision and is stored
    /// by [`Self::write`].
    pub fn record_decision(&mut self, server: &PlannedServer, answer: ConsentDecision) {
        let consent = RecordedConsent { sha256: server.sha256.clone(), answer };
        self.recorded.insert(server.name.clone(), consent.clone());
        self.servers.insert(server.name.clone(), consent);
    }

    /// Returns the decision about the server `name` with the configuration hash `sha256`, or `None` if there is no
    /// decision about this configuration.
    pub(crate) fn decision(&self, name: &str, sha256: &str) -> Option<ConsentDecision> {
        self.servers.get(name).filter(|consent| consent.sha256 == sha256).map(|consent| consent.answer)
    }
}
