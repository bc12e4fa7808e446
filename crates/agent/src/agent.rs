//! An open agent: one assistant in one workspace over one journal. Most operations are methods of the services
//! that it returns, such as `ThreadService` and `RunService`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compaction::BeforeCompactionHook;
use handoff::Acceptance;
use handoff::mirror::SummaryMirror;
use journal::{PostgresStore, ScopedStore, SqliteStore, Store};
use memory::{AgentFile, AgentFileLookup, EmbeddingModel};
use parking_lot::Mutex;
use protocol::{AssistantId, FailureKind, OwnerScope, RunFailure, RunFeedback, Thread, ThreadId, UserId};
use runtime::{ContextCache, Hook, Tool};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tools::permission::ApprovalPolicy;
use user_hooks::UserHook;

use crate::assembly::GraphCache;
use crate::assembly::models::{ModelRegistry, ModelStatus};
use crate::assembly::toolbox::{Toolbox, Toolboxes};
use crate::home::HomeFolder;
use crate::home::config::ConfigFile;
use crate::home::database::{self, DatabaseAddress};
use crate::home::lease::ProcessLeases;
use crate::home::machine;
use crate::memories::embeddings::open_embedder;
use crate::runs::request::action::RequestReader;
use crate::threads::states::transcript_cache::TranscriptCache;
use crate::workspace::canonical_folder;
use crate::{HomeError, Result, ThreadError};

/// The settings with which an agent is opened.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The home folder, which holds the configuration, the memory files and, by default, the database.
    pub home: HomeFolder,
    /// The address of the journal's database. `None` means the address of `config.toml`, and without one a
    /// file in the home folder.
    pub database: Option<DatabaseAddress>,
    /// The folder in which the agent's tools work.
    pub workspace: PathBuf,
    /// The assistant whose threads and memory the agent uses.
    pub assistant_id: AssistantId,
    /// `provider/name` of the model. `None` means the model that the environment or `config.toml` names.
    pub model: Option<String>,
    /// `provider/name` of the model that drafts handoffs. `None` means the model of `handoff.model`, and without one the
    /// model of the run.
    pub draft_model: Option<String>,
    /// The decision about tool calls that would otherwise require the approval of a person.
    pub approval_policy: ApprovalPolicy,
    /// Limits of one run that replace those of `config.toml`.
    pub limits: RunLimitOverrides,
    /// The function that reads the requests of clients. The default function refuses them, so that no run
    /// starts with a request.
    pub request_reader: RequestReader,
    /// The use of environment variables that hold settings.
    pub environment: EnvironmentAccess,
}

impl AgentSettings {
    /// Returns the settings of the default assistant that works in `workspace`; everything else follows
    /// `config.toml`.
    pub fn new(home: HomeFolder, workspace: impl Into<PathBuf>) -> Self {
        Self {
            home,
            database: None,
            workspace: workspace.into(),
            assistant_id: AssistantId::default(),
            model: None,
            draft_model: None,
            approval_policy: ApprovalPolicy::default(),
            limits: RunLimitOverrides::default(),
            request_reader: |_, _, _| {
                Err(RunFailure::new(FailureKind::Request, "this process does not serve client requests"))
            },
            environment: EnvironmentAccess::default(),
        }
    }
}

/// The use of environment variables that hold settings: the model, the API keys and base URLs of providers, and
/// the target of the export of handoffs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EnvironmentAccess {
    /// The variables are read.
    #[default]
    Read,
    /// Every variable counts as unset, so that the agent depends only on its settings and its home folder.
    Ignore,
}

impl EnvironmentAccess {
    /// Returns the value of an environment variable, unless it is unset, blank or ignored.
    pub(crate) fn variable(self, name: &str) -> Option<String> {
        match self {
            Self::Read => std::env::var(name).ok().filter(|value| !value.trim().is_empty()),
            Self::Ignore => None,
        }
    }
}

/// Limits of one run that replace those of `config.toml`. `None` keeps the configured limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLimitOverrides {
    /// The most model calls of the run.
    pub model_calls_max: Option<u64>,
    /// The longest duration of the run, in seconds of wall-clock time.
    pub seconds_max: Option<u64>,
}

/// One assistant in one workspace over one journal, restricted to the data of one owner. [`Agent::scoped`] returns
/// the agent of another owner.
///
/// Cloning is cheap: the clones share caches, models, tools and leases.
#[derive(Clone)]
pub struct Agent {
    /// The journal, restricted to the threads that this person may read and write.
    pub(crate) store: Arc<dyn Store>,
    /// The whole journal, without the restriction to one owner. Only recovery, maintenance and process
    /// bookkeeping use it directly.
    pub(crate) journal: Arc<dyn Store>,
    /// The connection to the journal if the journal is on a PostgreSQL server, for its pool statistics.
    pub(crate) postgres: Option<PostgresStore>,
    /// The owner whose threads this agent sees.
    pub(crate) scope: OwnerScope,
    /// The settings with which the agent was opened, with the workspace in canonical form.
    pub(crate) settings: AgentSettings,
    /// The contents of `config.toml`.
    pub(crate) config: Arc<ConfigFile>,
    /// The configured models and the resolution of model names.
    pub(crate) models: Arc<ModelRegistry>,
    /// The leases of the processes that share the journal.
    pub(crate) leases: Arc<ProcessLeases>,
    /// The contexts of threads, so that a run reads only new events.
    pub(crate) contexts: Arc<ContextCache>,
    /// The messages of threads, from which state snapshots are made.
    pub(crate) transcripts: Arc<TranscriptCache>,
    /// The scans of threads from which handoffs are drafted.
    pub(crate) handoff_scan_cache: Arc<handoff::ThreadScanCache>,
    /// The checks of proposals that run in this process.
    pub(crate) continuity_checks: Arc<crate::handoffs::ContinuityChecks>,
    /// The measured sizes of recent model requests.
    pub(crate) request_sizes: Arc<compaction::RequestSizes>,
    /// The tools of this agent's workspace. They are created on first use.
    pub(crate) toolbox: Arc<OnceCell<Toolbox>>,
    /// The tools of the other folders in which runs work.
    pub(crate) toolboxes: Arc<Toolboxes>,
    /// The assembled graphs of this agent. Every change of a part of the graph replaces the cache with an
    /// empty one.
    pub(crate) graph_cache: Arc<GraphCache>,
    /// The export of accepted handoffs. It covers the whole journal, independent of the owner of this agent.
    pub(crate) mirror: SummaryMirror,
    /// The embedding model, if one is configured.
    pub(crate) embedder: Option<Arc<EmbeddingModel>>,
    /// Counters and histograms of what the runs of this process do.
    pub(crate) metrics: Arc<telemetry::TelemetryMetrics>,
    /// The hooks of the configuration. The list is empty in a program that a hook started, so that hooks
    /// cannot call themselves.
    pub(crate) user_hooks: Arc<[Arc<UserHook>]>,
    /// A fingerprint of the client that this agent works for; see [`Agent::with_client`].
    pub(crate) client: Option<Arc<str>>,
    /// Stops runs between two steps when it is cancelled; see [`Agent::with_halt_token`].
    pub(crate) halt_token: CancellationToken,
    /// Tools that the embedding program added.
    pub(crate) extra_tools: Vec<Arc<dyn Tool>>,
    /// Hooks that the embedding program added.
    pub(crate) extra_hooks: Vec<Arc<dyn Hook>>,
    /// Hooks before compaction that the embedding program added.
    pub(crate) extra_compaction_hooks: Vec<Arc<dyn BeforeCompactionHook>>,
    /// The agent whose journal this agent only reads, while its own journal is in memory: see
    /// [`Agent::with_scratch_journal`]. `None` for an agent that stores what it does.
    pub(crate) scratch_of: Option<Arc<Agent>>,
    /// The one [`AgentFile`] of each assistant in this process, which serializes the writes to its `agent.md`.
    agent_files: Arc<Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>>,
}

impl Agent {
    /// Opens an agent and its journal. Creates the home folder and the database if they are missing.
    ///
    /// # Errors
    /// Fails if the home folder, the configuration or the database cannot be used. Nothing is changed in that
    /// case.
    pub async fn open(mut settings: AgentSettings) -> Result<Self> {
        settings.home.create()?;
        let config = ConfigFile::read(&settings.home.config_path())?;
        let chosen = database::choose_address(
            settings.database.as_ref(),
            &config.database,
            &settings.home.database_path(),
        )?;
        let (store, server): (Arc<dyn Store>, _) = match &chosen {
            DatabaseAddress::File(path) => (Arc::new(SqliteStore::open(path)?), None),
            DatabaseAddress::Server(url) => {
                let server =
                    PostgresStore::open(url.expose_secret(), config.database.pool_settings()).await?;
                (Arc::new(server.clone()), Some(server))
            }
        };
        settings.database = Some(chosen);
        let agent = Self { postgres: server, ..Self::from_parts(settings, config, store)? };
        agent.resolve_recorded_folders().await?;
        Ok(agent)
    }

    /// Opens an agent as [`Agent::open`] does, for a server process that may share the journal with other
    /// processes that drive runs.
    ///
    /// # Errors
    /// Fails as [`Agent::open`] does, and with [`HomeError::SharedBetweenMachines`] if the journal is a file
    /// that other machines may have open.
    pub async fn open_to_serve(settings: AgentSettings) -> Result<Self> {
        settings.home.create()?;
        let config = ConfigFile::read(&settings.home.config_path())?;
        let chosen = database::choose_address(
            settings.database.as_ref(),
            &config.database,
            &settings.home.database_path(),
        )?;
        if let DatabaseAddress::File(path) = &chosen {
            // The check precedes every access to the file, which SQLite would otherwise already have locked
            // and changed.
            machine::check_local_file_system(path)?;
        }
        let agent = Self::open(settings).await?;
        agent.runs().check_not_shared().await?;
        Ok(agent)
    }

    /// Opens an agent over a journal that is already open. The agent belongs to the owner of the assistant.
    ///
    /// # Errors
    /// Fails if `config.toml` cannot be read or a setting is wrong.
    pub fn with_store(settings: AgentSettings, store: Arc<dyn Store>) -> Result<Self> {
        let config = ConfigFile::read(&settings.home.config_path())?;
        Self::from_parts(settings, config, store)
    }

    /// Builds the agent from its settings, the parsed configuration and the open journal. A workspace without
    /// a canonical path is used as given.
    fn from_parts(mut settings: AgentSettings, config: ConfigFile, store: Arc<dyn Store>) -> Result<Self> {
        if let Some(workspace) = canonical_folder(&settings.workspace) {
            settings.workspace = workspace;
        }
        secrets::install_patterns(config.secret_patterns(&settings.home.config_path())?);
        let config = Arc::new(config);
        let models =
            Arc::new(ModelRegistry::new(Arc::clone(&config), settings.model.clone(), settings.environment));
        let lease = config.serve.lease_duration();
        let locks = database::process_locks_path(settings.database.as_ref(), &settings.home);
        let leases = Arc::new(ProcessLeases::new(locks, Arc::clone(&store), lease));
        let scope = OwnerScope::Owner(settings.assistant_id.owner());
        let user_hooks = user_hooks(&config, &settings)?;
        let embedder = open_embedder(&config, settings.environment, &*store)?;
        let mirror = crate::handoffs::mirror::open_mirror(&config, &settings, Arc::clone(&store))?;
        Ok(Self {
            store: Arc::new(ScopedStore::new(Arc::clone(&store), scope.clone())),
            journal: store,
            postgres: None,
            scope,
            settings,
            config,
            models,
            leases,
            contexts: Arc::default(),
            transcripts: Arc::default(),
            handoff_scan_cache: Arc::default(),
            continuity_checks: Arc::default(),
            request_sizes: Arc::default(),
            toolbox: Arc::default(),
            toolboxes: Arc::default(),
            graph_cache: Arc::default(),
            mirror,
            embedder,
            metrics: Arc::default(),
            user_hooks,
            client: None,
            halt_token: CancellationToken::new(),
            extra_tools: Vec::new(),
            extra_hooks: Vec::new(),
            extra_compaction_hooks: Vec::new(),
            scratch_of: None,
            agent_files: Arc::default(),
        })
    }

    /// Adds a tool. The permission rules and approvals apply to it like to any other tool.
    #[must_use]
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.extra_tools.push(tool);
        self.graph_cache = Arc::default();
        self
    }

    /// Adds a hook. It runs after the built-in hooks and after the hooks that were added earlier.
    #[must_use]
    pub fn with_hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.extra_hooks.push(hook);
        self.graph_cache = Arc::default();
        self
    }

    /// Adds a hook that runs before a compaction and can change or veto it. It runs after the hooks that were added
    /// earlier.
    #[must_use]
    pub fn with_before_compaction(mut self, before: Arc<dyn BeforeCompactionHook>) -> Self {
        self.extra_compaction_hooks.push(before);
        self.graph_cache = Arc::default();
        self
    }

    /// Sets the fingerprint of the client that this agent works for. It is stored with the runs of decisions, so that
    /// a client that names no proposal can accept those that it requested itself, and no others.
    #[must_use]
    pub fn with_client(mut self, client: Arc<str>) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets the token that stops runs between two steps when it is cancelled. The runs do not end: the next
    /// process resumes them.
    #[must_use]
    pub fn with_halt_token(mut self, halt: CancellationToken) -> Self {
        self.halt_token = halt;
        self
    }

    /// Returns the same agent for another owner: the owner's own assistant of the same name, with its own
    /// threads and memory, over the same journal.
    ///
    /// Tools, models and cached contexts are shared, so the call is cheap. [`OwnerScope::Everyone`] is for
    /// recovery: that agent sees every thread, and works on each thread as the agent of its owner would.
    #[must_use]
    pub fn scoped(&self, scope: OwnerScope) -> Self {
        let mut agent = self.clone();
        let owner = match &scope {
            OwnerScope::Everyone => None,
            OwnerScope::Owner(owner) => owner.as_ref(),
        };
        agent.settings.assistant_id = self.settings.assistant_id.with_owner(owner);
        agent.store = Arc::new(ScopedStore::new(Arc::clone(&self.journal), scope.clone()));
        agent.scope = scope;
        agent.graph_cache = Arc::default();
        agent
    }

    /// Returns the same agent over an empty journal in memory, to find out what an operation would do without storing it.
    /// The agent's settings, models and owner stay the same.
    ///
    /// # Errors
    /// Fails if SQLite cannot be started.
    pub(crate) fn with_scratch_journal(&self) -> Result<Self> {
        let journal: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
        Ok(Self {
            store: Arc::new(ScopedStore::new(Arc::clone(&journal), self.scope.clone())),
            journal,
            postgres: None,
            contexts: Arc::default(),
            transcripts: Arc::default(),
            handoff_scan_cache: Arc::default(),
            continuity_checks: Arc::default(),
            request_sizes: Arc::default(),
            graph_cache: Arc::default(),
            scratch_of: Some(Arc::new(self.clone())),
            ..self.clone()
        })
    }

    /// Returns the agent whose journal is stored: this one, or the one of which this is a scratch copy.
    pub(crate) fn stored_agent(&self) -> &Self {
        self.scratch_of.as_deref().unwrap_or(self)
    }

    /// Returns the user who owns this agent. `None` is the person at the machine.
    pub const fn user(&self) -> Option<&UserId> {
        match &self.scope {
            OwnerScope::Owner(owner) => owner.as_ref(),
            OwnerScope::Everyone => None,
        }
    }

    /// Returns the user name under which the feedback of this person is stored.
    pub fn feedback_user(&self) -> &str {
        self.user().map_or(RunFeedback::LOCAL_USER, UserId::as_str)
    }

    /// Returns the journal, restricted to what this person may read and write.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the home folder.
    pub fn home(&self) -> &HomeFolder {
        &self.settings.home
    }
}

impl Agent {
    /// Returns the id of the assistant.
    pub fn assistant_id(&self) -> &AssistantId {
        &self.settings.assistant_id
    }

    /// Returns the path of the journal's file. For a journal on a server it is the default path in the home
    /// folder, which is not used.
    pub(crate) fn database_file(&self) -> PathBuf {
        match &self.settings.database {
            Some(DatabaseAddress::File(path)) => path.clone(),
            Some(DatabaseAddress::Server(_)) | None => self.settings.home.database_path(),
        }
    }

    /// Returns the folder in which the agent's tools work.
    pub fn workspace(&self) -> &Path {
        &self.settings.workspace
    }

    /// Selects another model for all later runs. `None` means the model that the environment or `config.toml`
    /// names. The approvals of the session and the running MCP servers are kept.
    pub fn use_model(&mut self, name: Option<String>) {
        self.settings.model.clone_from(&name);
        self.models = Arc::new(ModelRegistry::new(Arc::clone(&self.config), name, self.settings.environment));
        self.graph_cache = Arc::default();
    }

    /// Returns the status of all models: the selected one, and for each provider whether it can be used.
    pub fn model_status(&self) -> ModelStatus {
        self.models.status()
    }

    /// Returns the activity that performs an accepted handoff.
    pub(crate) fn acceptance_activity(&self) -> Acceptance {
        let mirror = self.mirror.clone();
        Acceptance { store: Arc::clone(&self.store), agent_md: self.agent_file_lookup(), mirror }
    }

    /// Returns a function that returns the [`AgentFile`] of an assistant, like [`Self::agent_file`].
    pub(crate) fn agent_file_lookup(&self) -> AgentFileLookup {
        let (home, files) = (self.settings.home.clone(), Arc::clone(&self.agent_files));
        Arc::new(move |id: &AssistantId| agent_file(&home, &files, id))
    }

    /// Returns the [`AgentFile`] of an assistant. There is one for each assistant in this process, so that
    /// writes do not interleave.
    pub(crate) fn agent_file(&self, assistant_id: &AssistantId) -> Arc<AgentFile> {
        agent_file(&self.settings.home, &self.agent_files, assistant_id)
    }

    /// Returns a thread.
    ///
    /// # Errors
    /// [`ThreadError::Unknown`] if the thread does not exist or belongs to another owner; otherwise fails
    /// only if the journal does.
    pub(crate) async fn thread(&self, thread_id: ThreadId) -> Result<Thread> {
        let thread = self.store.thread(thread_id).await?;
        Ok(thread.ok_or_else(|| ThreadError::Unknown(thread_id.to_string()))?)
    }
}

/// Returns the [`AgentFile`] of an assistant from `files`, creating it at its first use.
fn agent_file(
    home: &HomeFolder,
    files: &Mutex<BTreeMap<AssistantId, Arc<AgentFile>>>,
    id: &AssistantId,
) -> Arc<AgentFile> {
    let mut files = files.lock();
    let file = files.entry(id.clone()).or_insert_with(|| Arc::new(AgentFile::new(home.agent_md_path(id))));
    Arc::clone(file)
}

/// Returns the hooks of the configuration. Returns none in a program that a hook started, so that hooks
/// cannot call themselves.
fn user_hooks(config: &ConfigFile, settings: &AgentSettings) -> Result<Arc<[Arc<UserHook>]>> {
    if user_hooks::is_run_by_hook() {
        return Ok(Arc::default());
    }
    let hook = |hook: &user_hooks::HookConfig| {
        let sandbox = hook.sandbox_network().map(|network| {
            let protected = [settings.home.root().to_owned()];
            tools::sandbox_for_program(&config.sandbox, network, settings.workspace.clone(), &protected)
        });
        UserHook::new(hook, &settings.workspace, sandbox).map(Arc::new)
    };
    let hooks: std::result::Result<_, user_hooks::HookError> = config.hooks.iter().map(hook).collect();
    let path = settings.home.config_path();
    Ok(hooks.map_err(|error| HomeError::Config { path, reason: error.to_string() })?)
}
