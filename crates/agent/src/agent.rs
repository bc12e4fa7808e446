//! The agent, opened: one assistant in one workspace over one journal. The calls themselves are in the files named
//! after what they do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use compaction::BeforeCompaction;
use handoff::Acceptance;
use journal::{Sqlite, Store};
use memory::AgentFile;
use protocol::{AssistantId, Thread, ThreadId};
use runtime::{Contexts, Hook, Tool};
use tokio::sync::OnceCell;
use tools::permission::Policy;

use crate::assembly::toolbox::Toolbox;
use crate::home::Home;
use crate::home::config::Config;
use crate::home::lease::Leases;
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
    /// What becomes of a tool call that would ask a person.
    pub approve: Policy,
    /// What one run may use; what is not set follows `config.toml`.
    pub limits: RunLimits,
}

impl Settings {
    /// Returns the settings of the default assistant working in `workspace`, as `config.toml` has it.
    pub fn new(home: Home, workspace: impl Into<PathBuf>) -> Self {
        Self {
            home,
            workspace: workspace.into(),
            assistant_id: AssistantId::default(),
            model: None,
            approve: Policy::default(),
            limits: RunLimits::default(),
        }
    }
}

/// What one run may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// How often it may ask the model.
    pub model_calls_max: Option<u64>,
    /// Seconds on the clock.
    pub seconds_max: Option<u64>,
}

/// One assistant in one workspace over one journal.
pub struct Agent {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) config: Config,
    pub(crate) models: Arc<Models>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) folds: Arc<handoff::Folds>,
    pub(crate) sizes: Arc<compaction::Sizes>,
    pub(crate) toolbox: OnceCell<Toolbox>,
    pub(crate) own_tools: Vec<Arc<dyn Tool>>,
    pub(crate) own_hooks: Vec<Arc<dyn Hook>>,
    pub(crate) own_before: Vec<Arc<dyn BeforeCompaction>>,
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
        let models = Arc::new(Models::new(config.clone(), settings.model.clone()));
        let leases = Arc::new(Leases::at(settings.home.processes()));
        Ok(Self {
            store,
            settings,
            config,
            models,
            leases,
            contexts: Arc::default(),
            folds: Arc::default(),
            sizes: Arc::default(),
            toolbox: OnceCell::new(),
            own_tools: Vec::new(),
            own_hooks: Vec::new(),
            own_before: Vec::new(),
            files: Arc::default(),
        })
    }

    /// Adds a tool. Approvals apply to it like to any other.
    #[must_use]
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.own_tools.push(tool);
        self
    }

    /// Adds a hook, behind those there are.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.own_hooks.push(hook);
        self
    }

    /// Adds a say before a conversation is condensed, behind those there are.
    #[must_use]
    pub fn with_before_compaction(mut self, before: Arc<dyn BeforeCompaction>) -> Self {
        self.own_before.push(before);
        self
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

    /// Uses another model from the next run on; `None` follows the environment and the settings. What was remembered for
    /// the session, and the servers of tools, stay.
    pub fn use_model(&mut self, name: Option<String>) {
        self.settings.model.clone_from(&name);
        self.models = Arc::new(Models::new(self.config.clone(), name));
    }

    /// Returns which models are configured, and why the others are not.
    pub fn models(&self) -> ModelStatus {
        self.models.status()
    }

    pub(crate) fn acceptance(&self) -> Acceptance {
        let (home, files) = (self.settings.home.clone(), Arc::clone(&self.files));
        let agent_md = move |id: &AssistantId| agent_file(&home, &files, id);
        Acceptance { store: Arc::clone(&self.store), agent_md: Arc::new(agent_md) }
    }

    /// Returns the one value there is in this process for the assistant's agent.md.
    pub(crate) fn agent_file(&self, assistant_id: &AssistantId) -> Arc<AgentFile> {
        agent_file(&self.settings.home, &self.files, assistant_id)
    }

    /// Returns the thread, which must exist.
    pub(crate) async fn thread(&self, thread_id: ThreadId) -> Result<Thread> {
        let found = self.store.thread(thread_id).await?;
        found.ok_or_else(|| Error::UnknownThread { prefix: thread_id.to_string() })
    }
}

fn agent_file(
    home: &Home,
    files: &Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>,
    id: &AssistantId,
) -> Arc<AgentFile> {
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    let file = files.entry(id.clone()).or_insert_with(|| Arc::new(AgentFile::new(home.agent_md(id))));
    Arc::clone(file)
}
