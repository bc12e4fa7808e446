//! Which of a project's servers a person has agreed to, kept in a file of the home folder. An answer holds for a
//! server as it was described then; another description is another question. Asking is the front end's matter.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::plan::PlannedServer;
use crate::{Error, Result};

const CONSENT_FILE: &str = "consent.json";
/// Held locked while an answer is added to the file, which is replaced and so cannot be locked itself.
const LOCK_FILE: &str = "consent.lock";

/// A person's decision about a server of the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsentDecision {
    /// It may be started.
    Allow,
    /// It may not.
    Refuse,
}

/// The answers given for one project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectConsents {
    servers: BTreeMap<String, RecordedConsent>,
    /// Those of them that were given since the file was read.
    #[serde(skip)]
    recorded: BTreeMap<String, RecordedConsent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedConsent {
    /// The description that was agreed to, by hash.
    sha256: String,
    answer: ConsentDecision,
}

impl ProjectConsents {
    /// Reads the answers from the project's folder in the home folder; without a file there are none.
    ///
    /// # Errors
    /// When the file is there but unreadable.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONSENT_FILE);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Error::Format { path, reason: error.to_string() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Adds the recorded answers to those kept in that folder, which must exist. Answers that another process gave
    /// meanwhile stay.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(CONSENT_FILE);
        let failed = |source| Error::Write { path: path.clone(), source };
        let lock =
            OpenOptions::new().create(true).append(true).open(folder.join(LOCK_FILE)).map_err(failed)?;
        // The system frees it with the file, however this function ends.
        lock.lock().map_err(failed)?;
        let mut kept = Self::read(folder)?;
        kept.servers.extend(self.recorded.clone());
        let text = serde_json::to_vec_pretty(&kept).expect("names, hashes and words have a JSON form");
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Takes the answer about a server, in place of an earlier one.
    pub fn record_decision(&mut self, server: &PlannedServer, answer: ConsentDecision) {
        let given = RecordedConsent { sha256: server.sha256.clone(), answer };
        self.recorded.insert(server.name.clone(), given.clone());
        self.servers.insert(server.name.clone(), given);
    }

    /// Returns the answer about a server of that name and description.
    pub(crate) fn decision(&self, name: &str, sha256: &str) -> Option<ConsentDecision> {
        self.servers.get(name).filter(|given| given.sha256 == sha256).map(|given| given.answer)
    }
}
