//! The agent, opened: one assistant in one workspace over one journal. The calls themselves are in the files named
//! after what they do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use handoff::Acceptance;
use journal::{Sqlite, Store};
use memory::AgentFile;
use protocol::{AssistantId, Thread, ThreadId};

use crate::home::Home;
use crate::home::config::Config;
use crate::home::lease::Owner;
use crate::models::{ModelStatus, Models};
use crate::{Error, Result};

/// What an agent is opened with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything is kept.
    pub home: Home,
    /// The folder its tools work in.
    pub workspace: PathBuf,
    /// Which assistant.
    pub assistant_id: AssistantId,
    /// `provider/name` of the model; `None` follows the environment and the settings.
    pub model: Option<String>,
}

/// One assistant in one workspace over one journal.
pub struct Agent {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) config: Config,
    pub(crate) models: Models,
    owner: OnceLock<Owner>,
    files: Arc<Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>>,
}

impl Agent {
    /// Opens the journal of the home folder, creating both when they are missing.
    ///
    /// # Errors
    /// When the folder, the settings or the database cannot be used; nothing was changed then.
    pub fn open(settings: Settings) -> Result<Self> {
        settings.home.create()?;
        let store = Sqlite::open(&settings.home.database())?;
        Self::with_store(settings, Arc::new(store))
    }

    /// Opens an agent over a journal that is open already.
    ///
    /// # Errors
    /// When the settings cannot be read.
    pub fn with_store(settings: Settings, store: Arc<dyn Store>) -> Result<Self> {
        let config = Config::read(&settings.home.config())?;
        let models = Models::new(config.clone(), settings.model.clone());
        Ok(Self { store, settings, config, models, owner: OnceLock::new(), files: Arc::default() })
    }

    /// Returns the journal, for reading.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns where everything is kept.
    pub fn home(&self) -> &Home {
        &self.settings.home
    }

    /// Returns the assistant.
    pub fn assistant_id(&self) -> &AssistantId {
        &self.settings.assistant_id
    }

    /// Returns the folder its tools work in.
    pub fn workspace(&self) -> &Path {
        &self.settings.workspace
    }

    /// Returns which models are configured, and why the others are not.
    pub fn models(&self) -> ModelStatus {
        self.models.status()
    }

    /// Returns the name of this process in leases, taking one the first time.
    pub(crate) fn owner(&self) -> Result<&str> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner.name());
        }
        let claimed = Owner::claim(&self.settings.home.processes())?;
        Ok(self.owner.get_or_init(|| claimed).name())
    }

    pub(crate) fn acceptance(&self) -> Acceptance {
        let (home, files) = (self.settings.home.clone(), Arc::clone(&self.files));
        let agent_md = move |id: &AssistantId| {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            let file = files.entry(id.clone()).or_insert_with(|| Arc::new(AgentFile::new(home.agent_md(id))));
            Arc::clone(file)
        };
        Acceptance { store: Arc::clone(&self.store), agent_md: Arc::new(agent_md) }
    }

    /// Returns the thread, which must exist.
    pub(crate) async fn thread(&self, thread_id: ThreadId) -> Result<Thread> {
        let found = self.store.thread(thread_id).await?;
        found.ok_or_else(|| Error::UnknownThread { prefix: thread_id.to_string() })
    }
}
