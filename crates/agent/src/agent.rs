//! The agent, opened: one assistant in one workspace over one journal. The calls themselves are in the files named
//! after what they do.

pub(crate) mod admin_error;
pub(crate) mod services;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compaction::BeforeCompaction;
use handoff::Acceptance;
use handoff::mirror::Mirror;
use journal::{PoolFigures, Postgres, Scoped, Sqlite, Store};
use memory::AgentFile;
use parking_lot::Mutex;
use protocol::{AssistantId, FailureKind, RunFailure, RunFeedback, Scope, Thread, ThreadId, UserId};
use runtime::{Contexts, Hook, Tool};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tools::permission::Policy;
use user_hooks::{Hooks, UserHook};

use crate::agent::services::AdminService;
use crate::assembly::Assemblies;
use crate::assembly::models::{ModelStatus, Models};
use crate::assembly::toolbox::{Toolbox, Toolboxes};
use crate::home::Home;
use crate::home::config::Config;
use crate::home::database::{self, Database};
use crate::home::lease::Leases;
use crate::home::machine;
use crate::requests::action::RequestReader;
use crate::states::transcripts::Transcripts;
use crate::workspace::canonical;
use crate::{HomeError, Result, ThreadError};

/// What an agent is opened with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything is kept.
    pub home: Home,
    /// Where the journal is; `None` follows the settings, and without these it is in the home folder.
    pub database: Option<Database>,
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
    /// Reads the requests of clients; without one no run begins with a request.
    pub read_request: RequestReader,
}

impl Settings {
    /// Returns the settings of the default assistant working in `workspace`, as `config.toml` has it.
    pub fn new(home: Home, workspace: impl Into<PathBuf>) -> Self {
        Self {
            home,
            database: None,
            workspace: workspace.into(),
            assistant_id: AssistantId::default(),
            model: None,
            approve: Policy::default(),
            limits: RunLimits::default(),
            read_request: |_, _, _| {
                Err(RunFailure::new(FailureKind::Request, "requests of clients are not served here"))
            },
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

/// One assistant in one workspace over one journal, as one person has it. Others have their own: [`Agent::scoped`].
#[derive(Clone)]
pub struct Agent {
    /// What this person may read and write of the journal.
    pub(crate) store: Arc<dyn Store>,
    /// All of the journal.
    pub(crate) journal: Arc<dyn Store>,
    /// The journal where it is on a server.
    pub(crate) server: Option<Postgres>,
    pub(crate) scope: Scope,
    pub(crate) settings: Settings,
    pub(crate) config: Arc<Config>,
    pub(crate) models: Arc<Models>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) transcripts: Arc<Transcripts>,
    pub(crate) folds: Arc<handoff::Folds>,
    pub(crate) sizes: Arc<compaction::Sizes>,
    /// The tools of this agent's folder.
    pub(crate) toolbox: Arc<OnceCell<Toolbox>>,
    /// Those of other folders in which runs work.
    pub(crate) toolboxes: Arc<Toolboxes>,
    /// Of this very agent: whoever changes what they are made of begins anew.
    pub(crate) assemblies: Arc<Assemblies>,
    /// Of all of the journal, whoever's agent this is.
    pub(crate) mirror: Mirror,
    pub(crate) counted: Arc<telemetry::Counted>,
    /// What the configuration has told of what happens; none in a program that a hook called.
    pub(crate) user_hooks: Arc<[Arc<UserHook>]>,
    pub(crate) halt: CancellationToken,
    pub(crate) own_tools: Vec<Arc<dyn Tool>>,
    pub(crate) own_hooks: Vec<Arc<dyn Hook>>,
    pub(crate) own_before: Vec<Arc<dyn BeforeCompaction>>,
    files: Arc<Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>>,
}

impl Agent {
    /// Opens the journal where the settings have it, creating it and the home folder when they are missing.
    ///
    /// # Errors
    /// When the folder, the settings or the database cannot be used; nothing was changed then.
    pub async fn open(mut settings: Settings) -> Result<Self> {
        settings.home.create()?;
        let config = Config::read(&settings.home.config())?;
        let chosen =
            database::choose(settings.database.as_ref(), &config.database, &settings.home.database())?;
        let (store, server): (Arc<dyn Store>, _) = match &chosen {
            Database::File(path) => (Arc::new(Sqlite::open(path)?), None),
            Database::Server(url) => {
                let server = Postgres::open(url.expose_secret(), config.database.pool()).await?;
                (Arc::new(server.clone()), Some(server))
            }
        };
        settings.database = Some(chosen);
        Ok(Self { server, ..Self::assembled(settings, config, store)? })
    }

    /// Opens the journal as [`Agent::open`] does, for a process that may share it with others that look after runs.
    ///
    /// # Errors
    /// Beside those, [`HomeError::Shared`] when it is a file that other machines may have open.
    pub async fn open_to_serve(settings: Settings) -> Result<Self> {
        settings.home.create()?;
        let config = Config::read(&settings.home.config())?;
        let chosen =
            database::choose(settings.database.as_ref(), &config.database, &settings.home.database())?;
        if let Database::File(path) = &chosen {
            // Before anything of it is touched.
            machine::check(path)?;
        }
        let agent = Self::open(settings).await?;
        agent.runs().check_sharing().await?;
        Ok(agent)
    }

    /// Opens an agent over a journal that is open already, for whom the assistant belongs to.
    ///
    /// # Errors
    /// When the settings cannot be read.
    pub fn with_store(settings: Settings, store: Arc<dyn Store>) -> Result<Self> {
        let config = Config::read(&settings.home.config())?;
        Self::assembled(settings, config, store)
    }

    fn assembled(mut settings: Settings, config: Config, store: Arc<dyn Store>) -> Result<Self> {
        if let Some(workspace) = canonical(&settings.workspace) {
            settings.workspace = workspace;
        }
        let config = Arc::new(config);
        let models = Arc::new(Models::new(Arc::clone(&config), settings.model.clone()));
        let lease = config.serve.lease();
        let locks = database::processes(settings.database.as_ref(), &settings.home);
        let leases = Arc::new(Leases::new(locks, Arc::clone(&store), lease));
        let scope = Scope::Owner(settings.assistant_id.owner());
        let user_hooks = user_hooks(&config, &settings)?;
        let mirror = crate::handoffs::mirror::open(&config, settings.database.as_ref(), Arc::clone(&store))?;
        Ok(Self {
            store: Arc::new(Scoped::new(Arc::clone(&store), scope.clone())),
            journal: store,
            server: None,
            scope,
            settings,
            config,
            models,
            leases,
            contexts: Arc::default(),
            transcripts: Arc::default(),
            folds: Arc::default(),
            sizes: Arc::default(),
            toolbox: Arc::default(),
            toolboxes: Arc::default(),
            assemblies: Arc::default(),
            mirror,
            counted: Arc::default(),
            user_hooks,
            halt: CancellationToken::new(),
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
        self.assemblies = Arc::default();
        self
    }

    /// Adds a hook, behind those there are.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.own_hooks.push(hook);
        self.assemblies = Arc::default();
        self
    }

    /// Adds a say before a conversation is condensed, behind those there are.
    #[must_use]
    pub fn with_before_compaction(mut self, before: Arc<dyn BeforeCompaction>) -> Self {
        self.own_before.push(before);
        self.assemblies = Arc::default();
        self
    }

    /// Has runs stop between two steps once `halt` is cancelled, without ending them: the next process goes on with them.
    #[must_use]
    pub fn halted_by(mut self, halt: CancellationToken) -> Self {
        self.halt = halt;
        self
    }

    /// Returns the same agent as another person has it: their own assistant of the same name, with its own threads and
    /// memory, over the same journal. Tools, models and what is remembered of contexts are shared, so this is cheap.
    /// [`Scope::Everyone`] is for recovery: it sees every thread, and works on each as its owner's agent would.
    #[must_use]
    pub fn scoped(&self, scope: Scope) -> Self {
        let mut agent = self.clone();
        let owner = match &scope {
            Scope::Everyone => None,
            Scope::Owner(owner) => owner.as_ref(),
        };
        agent.settings.assistant_id = self.settings.assistant_id.owned_by(owner);
        agent.store = Arc::new(Scoped::new(Arc::clone(&self.journal), scope.clone()));
        agent.scope = scope;
        agent.assemblies = Arc::default();
        agent
    }

    /// Returns whose agent this is; `None` is the person at the machine.
    pub const fn user(&self) -> Option<&UserId> {
        match &self.scope {
            Scope::Owner(owner) => owner.as_ref(),
            Scope::Everyone => None,
        }
    }

    /// Returns the name under which this person's feedback is kept.
    pub fn feedback_user(&self) -> &str {
        self.user().map_or(RunFeedback::LOCAL, UserId::as_str)
    }

    /// Returns what this person may read of the journal.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns where everything is kept.
    pub fn home(&self) -> &Home {
        &self.settings.home
    }
}

impl AdminService<'_> {
    /// Begins to tell the hooks of the configuration what this process does; `None` when there are none, or when it is done already.
    /// Called on an async runtime, it works there.
    pub fn tell_hooks(self) -> Option<Hooks> {
        Hooks::begin(Arc::clone(&self.agent.journal), &self.agent.user_hooks)
    }

    /// Returns how the connections to the journal's server are used; `None` where the journal is a file.
    pub fn connections(self) -> Option<PoolFigures> {
        self.agent.server.as_ref().map(Postgres::pool)
    }
}

impl Agent {
    /// Returns the assistant.
    pub fn assistant_id(&self) -> &AssistantId {
        &self.settings.assistant_id
    }

    /// Returns the file the journal is in, where it is in one.
    pub(crate) fn database_file(&self) -> PathBuf {
        match &self.settings.database {
            Some(Database::File(path)) => path.clone(),
            Some(Database::Server(_)) | None => self.settings.home.database(),
        }
    }

    /// Returns the folder its tools work in.
    pub fn workspace(&self) -> &Path {
        &self.settings.workspace
    }

    /// Uses another model from the next run on; `None` follows the environment and the settings. What was remembered for
    /// the session, and the servers of tools, stay.
    pub fn use_model(&mut self, name: Option<String>) {
        self.settings.model.clone_from(&name);
        self.models = Arc::new(Models::new(Arc::clone(&self.config), name));
        self.assemblies = Arc::default();
    }

    /// Returns which models are configured, and why the others are not.
    pub fn models(&self) -> ModelStatus {
        self.models.status()
    }

    pub(crate) fn acceptance(&self) -> Acceptance {
        let (home, files) = (self.settings.home.clone(), Arc::clone(&self.files));
        let agent_md = move |id: &AssistantId| agent_file(&home, &files, id);
        let mirror = self.mirror.clone();
        Acceptance { store: Arc::clone(&self.store), agent_md: Arc::new(agent_md), mirror }
    }

    /// Returns the one value there is in this process for the assistant's agent.md.
    pub(crate) fn agent_file(&self, assistant_id: &AssistantId) -> Arc<AgentFile> {
        agent_file(&self.settings.home, &self.files, assistant_id)
    }

    /// Returns the thread, which must exist.
    pub(crate) async fn thread(&self, thread_id: ThreadId) -> Result<Thread> {
        let found = self.store.thread(thread_id).await?;
        Ok(found.ok_or_else(|| ThreadError::Unknown(thread_id.to_string()))?)
    }
}

fn agent_file(
    home: &Home,
    files: &Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>,
    id: &AssistantId,
) -> Arc<AgentFile> {
    let mut files = files.lock();
    let file = files.entry(id.clone()).or_insert_with(|| Arc::new(AgentFile::new(home.agent_md(id))));
    Arc::clone(file)
}

/// Returns the hooks of the configuration, ready to be called.
fn user_hooks(config: &Config, settings: &Settings) -> Result<Arc<[Arc<UserHook>]>> {
    if user_hooks::is_called_by_a_hook() {
        return Ok(Arc::default());
    }
    let hook = |hook| UserHook::new(hook, &settings.workspace).map(Arc::new);
    let hooks: std::result::Result<_, user_hooks::Failed> = config.hooks.iter().map(hook).collect();
    let path = settings.home.config();
    Ok(hooks.map_err(|failed| HomeError::Config { path, reason: failed.to_string() })?)
}
