//! The commands of the program. Each command calls the agent's services with its arguments and shows the result.
//! Decisions and storage belong to the crate `agent`.
//!
//! This file selects the command, opens the agent with the settings from the arguments and the environment, and closes
//! it.

pub(crate) mod agent_work;
pub(crate) mod approval;
pub(crate) mod chat;
pub(crate) mod compact;
pub(crate) mod handoff;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod memory;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod threads;

use std::io::{self, Read, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agent::{
    Agent, AgentSettings, ApprovalPolicy, DatabaseAddress, EnvironmentAccess, HomeFolder, RunLimitOverrides,
};
use protocol::{SHORT_ID_CHARS, ThreadId};
use serde::Serialize;
use terminal::{Screen, sanitize_line, wrap};

use crate::cli::demo::DemoArgs;
use crate::cli::{self, ApprovalChoice, CliArgs, CliCommand, GlobalArgs, OutputFormat};
use crate::commands::memory::{agent_md, pins};
use crate::exit::{CliFailure, CommandResult, ExitReason, error_chain};
use crate::logs::{self, LogVariables};
use crate::observers::RunObservers;

/// The lengths to which an id is shortened, in characters. Each ends before a hyphen, so that a double click selects the id.
const SHORT_ID_LENGTHS: [usize; 3] = [SHORT_ID_CHARS, DURABLE_ID_CHARS, 23];
/// The length of an id prefix that stays unique when more ids are created, in characters: it contains the whole timestamp and
/// the bits that distinguish ids of the same millisecond.
pub(crate) const DURABLE_ID_CHARS: usize = 18;

/// The default log level of a server. Other commands print their failures, but an HTTP client only learns that a
/// request failed, so the reason must be in the log.
const SERVER_LOG_LEVEL: &str = "warn";

/// Maximum time that a server takes to end its tasks and to close the database, after it has stopped.
const SERVER_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The environment variable with the database's URL. The option `--database-url` takes precedence.
const DATABASE_VARIABLE: &str = "SEGUE_DATABASE_URL";

/// The hint when no model is configured.
pub(crate) const NO_MODEL_HINT: &str =
    "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY; `segue models` shows what is missing";

/// The reason of a failure if a command would have to ask the user and has no terminal.
pub(crate) const NO_TERMINAL: &str = "there is no terminal to ask on";

/// The context of a command: the opened agent, and where the output goes. Clones share the agent.
#[derive(Clone)]
pub(crate) struct CommandContext {
    /// The opened agent.
    pub(crate) agent: Agent,
    /// The model that the arguments name; `None` leaves the choice to the configuration.
    pub(crate) model: Option<String>,
    /// The screen for text output.
    pub(crate) screen: Screen,
    /// The format of the output: text or JSON.
    pub(crate) format: OutputFormat,
    /// The trace export and the user hooks that observe the agent.
    pub(crate) observers: Arc<RunObservers>,
}

/// Opens the context of a command from the global arguments.
struct ContextOpener<'o> {
    /// The arguments that all commands share.
    global: &'o GlobalArgs,
    /// The observers to start. The program waits for them before it ends.
    observers: &'o Arc<RunObservers>,
}

impl ContextOpener<'_> {
    /// Opens the agent that the options select, and starts its observers.
    ///
    /// # Errors
    /// Fails if the options are invalid or the agent's database or configuration cannot be opened.
    async fn open_context(&self, options: AgentOptions) -> Result<CommandContext, CliFailure> {
        let settings = agent_settings(self.global, options)?;
        let model = settings.model.clone();
        let context = self.build_context(Agent::open(settings).await?, model);
        self.start_observers(&context);
        Ok(context)
    }

    /// Opens the agent for a server, which can be one of several servers on the same database, and starts its observers.
    ///
    /// # Errors
    /// Fails like [`Self::open_context`].
    async fn open_server_context(&self, options: AgentOptions) -> Result<CommandContext, CliFailure> {
        let settings = agent_settings(self.global, options)?;
        let model = settings.model.clone();
        let agent = Agent::open_to_serve(settings).await?;
        self.observers.start_for_server(&agent);
        Ok(self.build_context(agent, model))
    }

    /// Returns the context of an opened agent.
    fn build_context(&self, agent: Agent, model: Option<String>) -> CommandContext {
        let (screen, format) = (self.global.screen(), self.global.format());
        CommandContext { agent, model, screen, format, observers: Arc::clone(self.observers) }
    }

    /// Starts the trace export and the user hooks that are configured. If the export cannot start, a warning is printed
    /// and the command continues, because observers must not make work fail.
    fn start_observers(&self, context: &CommandContext) {
        if let Err(error) = self.observers.start(&context.agent) {
            let hint = error.hint().unwrap_or_default();
            let warning =
                format!("no traces are exported: failed to {}\n  hint: {hint}", error_chain(&error));
            context.screen.print_to_stderr(context.screen.style.warn(warning));
        }
    }
}

/// The fields with a name that may be taken from a message.
const NAME_FIELDS: [&str; 5] = ["name", "first_prompt", "thread_name", "title", "goal"];

/// Redacts secrets in all fields with the name or the beginning of a thread.
fn redact_names(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(redact_names),
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    serde_json::Value::String(text) if NAME_FIELDS.contains(&field.as_str()) => {
                        *text = agent::redact(text).into_owned();
                    }
                    value => redact_names(value),
                }
            }
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

/// Writes a value to stdout as one line of JSON.
///
/// # Errors
/// Fails with [`CliFailure::OutputClosed`] if the reader has closed the output, or if the value cannot be serialized.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliFailure> {
    let mut stdout = io::stdout().lock();
    terminal::write_json(&mut stdout, value)?;
    stdout.write_all(b"\n")?;
    Ok(())
}

impl CommandContext {
    /// Writes a value to stdout as one line of JSON.
    ///
    /// # Errors
    /// Fails with [`CliFailure::OutputClosed`] if the reader has closed the output, or if the value cannot be
    /// serialized.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<(), CliFailure> {
        print_json(value)
    }

    /// Writes a value to stdout as one line of JSON, like [`Self::print_json`], with the secrets redacted in the names and
    /// beginnings of threads: lists are pasted and logged, and a name may be a person's first message.
    ///
    /// # Errors
    /// As for [`Self::print_json`].
    pub(crate) fn print_json_with_names(&self, value: &impl Serialize) -> Result<(), CliFailure> {
        let mut value = serde_json::to_value(value)?;
        redact_names(&mut value);
        self.print_json(&value)
    }

    /// Prints a warning to stderr. With JSON output, nothing is printed, because the report contains the same
    /// information.
    pub(crate) fn print_notice(&self, text: &str) {
        if self.format == OutputFormat::Text {
            self.screen.print_to_stderr(self.screen.style.warn(wrap(
                &sanitize_line(text),
                self.screen.columns,
                "",
                "",
            )));
        }
    }

    /// Returns a prefix of the id that still identifies the thread when more threads exist, for commands that the user
    /// runs later. Falls back to the whole id if the prefix is ambiguous.
    pub(crate) async fn durable_id(&self, thread_id: ThreadId) -> String {
        let full = thread_id.to_string();
        let prefix = &full[..DURABLE_ID_CHARS];
        if self.agent.threads().find(prefix).await.is_ok() { prefix.to_owned() } else { full }
    }

    /// Returns the shortest prefix of the id that identifies the thread at present, of the lengths in [`SHORT_ID_LENGTHS`].
    /// Each length costs a query.
    pub(crate) async fn short_id(&self, thread_id: ThreadId) -> String {
        let full = thread_id.to_string();
        for length in SHORT_ID_LENGTHS {
            if self.agent.threads().find(&full[..length]).await.is_ok() {
                return full[..length].to_owned();
            }
        }
        full
    }
}

/// Performs the command on a new Tokio runtime, then waits for its observers.
///
/// # Errors
/// Fails if the log cannot be set up, or with the failure of the command.
pub(crate) fn run_command(cli: CliArgs) -> CommandResult {
    let is_server =
        matches!(cli.command, Some(CliCommand::Serve(_) | CliCommand::Demo(DemoArgs { open: true, .. })));
    let log_variables = match &cli.command {
        Some(CliCommand::Demo(_)) => LogVariables::Ignore,
        Some(_) | None => LogVariables::Read,
    };
    logs::init_logging(&cli.global.logs, log_variables, is_server.then_some(SERVER_LOG_LEVEL))?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if !is_server {
        // The chat blocks this thread while it waits for keys. One worker is enough for everything else.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let observers = Arc::new(RunObservers::default());
    let screen = cli.global.screen();
    let outcome = runtime.block_on(dispatch_command(cli, &observers));
    runtime.block_on(observers.finish(&screen));
    if !is_server {
        // A server logs missed hooks instead.
        observers.report_missed_hooks(&screen);
    }
    if is_server {
        // Ending its tasks closes the database, which empties a long write-ahead log.
        runtime.shutdown_timeout(SERVER_CLOSE_WAIT);
    } else {
        // Abandoned tasks must not keep the program from ending.
        runtime.shutdown_background();
    }
    outcome
}

/// Opens the context that the command needs, and performs the command in it.
async fn dispatch_command(cli: CliArgs, observers: &Arc<RunObservers>) -> CommandResult {
    let global = cli.global;
    let opener = ContextOpener { global: &global, observers };
    let open = async |options: AgentOptions| opener.open_context(options).await;
    let open_default = async || open(AgentOptions::default()).await;
    match cli.command {
        None => run_chat(&opener, cli.chat).await,
        Some(CliCommand::Demo(args)) => handoff::demo::run(&global, &args).await,
        Some(CliCommand::Chat(args)) => run_chat(&opener, args).await,
        Some(CliCommand::Handoff(args)) => {
            handoff::run(&open(AgentOptions::with_draft_model(&args.model)).await?, args).await
        }
        Some(CliCommand::Mirror(command)) => handoff::export::run(&open_default().await?, command).await,
        Some(CliCommand::Import(args)) => import::run(&open_default().await?, args).await,
        Some(CliCommand::Run(args)) => {
            let options = AgentOptions {
                limits: limits_from_args(&args.limits),
                approve: approval_policy(args.limits.approve),
                folder: FolderRequirement::Required,
                ..AgentOptions::with_model(&args.model)
            };
            run::run(&open(options).await?, args).await
        }
        Some(CliCommand::Decide(args)) => {
            let limits = build_run_limits(args.max_turns, args.timeout);
            let folder = if args.here { FolderRequirement::Required } else { FolderRequirement::Optional };
            let options = AgentOptions { limits, folder, ..AgentOptions::with_model(&args.model) };
            run::decide::run(&open(options).await?, args).await
        }
        Some(CliCommand::Threads(args)) => threads::run(&open_default().await?, args).await,
        Some(CliCommand::History(args)) => history::run(&open_default().await?, args).await,
        Some(CliCommand::Search(args)) => history::search::run(&open_default().await?, args).await,
        Some(CliCommand::Recall(args)) => run_recall(&opener, args).await,
        Some(CliCommand::Memory(args)) => memory::run(&open_default().await?, args).await,
        Some(CliCommand::Remember(args)) => agent_md::run_remember(&open_default().await?, args).await,
        Some(CliCommand::Pin(args)) => pins::run_pin(&open_default().await?, args).await,
        Some(CliCommand::Unpin(args)) => pins::run_unpin(&open_default().await?, args).await,
        Some(CliCommand::Store(args)) => memory::store::run(&open_default().await?, args).await,
        Some(CliCommand::Context(args)) => {
            compact::run_context(&open(AgentOptions::with_model(&args.model)).await?, &args.thread).await
        }
        Some(CliCommand::Compact(args)) => {
            compact::run(&open(AgentOptions::with_model(&args.model)).await?, args).await
        }
        Some(CliCommand::Uncompact(args)) => {
            compact::run_uncompact(&open_default().await?, &args.thread).await
        }
        Some(CliCommand::Feedback(args)) => run::feedback::run(&open_default().await?, args).await,
        Some(CliCommand::Trace(args)) => run::trace::run(&open_default().await?, &args).await,
        Some(CliCommand::Serve(args)) => {
            setup::serve::run(opener.open_server_context(AgentOptions::in_folder(&args.model)).await?, args)
                .await
        }
        Some(CliCommand::Ping(args)) => setup::ping::run(&global, &args).await,
        Some(CliCommand::Keys(args)) => setup::keys::run(&open_default().await?, args).await,
        Some(CliCommand::Db(args)) => setup::database::run(&global, args).await,
        Some(CliCommand::Prune(args)) => threads::prune::run(&open_default().await?, args).await,
        Some(CliCommand::Models) => setup::models::run(&open_default().await?),
        Some(CliCommand::Mcp(args)) => {
            let options = AgentOptions { folder: FolderRequirement::Required, ..AgentOptions::default() };
            setup::mcp::run(&open(options).await?, args).await
        }
        Some(CliCommand::Config(cli::ConfigCommand::Keys(args))) => {
            setup::config::print_config_keys(&global, &args)
        }
        Some(CliCommand::Doctor(args)) => setup::doctor::run(&global, &args).await,
        Some(CliCommand::Completions(args)) => setup::generate::print_completions(&args),
        Some(CliCommand::Man(args)) => setup::generate::write_man_pages(&args),
    }
}

/// Performs `segue recall`. The arguments are checked before anything is opened.
async fn run_recall(
    opener: &ContextOpener<'_>,
    args: crate::cli::handoff::RecallCommandArgs,
) -> CommandResult {
    let request = history::recall::RecallRequest::from_args(args)?;
    history::recall::run(&opener.open_context(AgentOptions::default()).await?, request).await
}

/// Opens the context of a chat and runs the chat.
async fn run_chat(opener: &ContextOpener<'_>, args: crate::cli::ChatArgs) -> CommandResult {
    chat::run(opener.open_context(AgentOptions::in_folder(&args.model)).await?, args).await
}

/// The settings of the agent that come from the arguments of a command.
#[derive(Debug, Default)]
pub(crate) struct AgentOptions {
    /// The model; `None` leaves the choice to the configuration.
    model: Option<String>,
    /// The model that drafts handoffs; `None` leaves the choice to the configuration.
    draft_model: Option<String>,
    /// The limits of a run that override the configuration.
    limits: RunLimitOverrides,
    /// The way in which tool calls that need approval are answered.
    approve: ApprovalPolicy,
    /// Selects whether the current folder must exist.
    folder: FolderRequirement,
}

/// Selects whether a command needs the current folder.
#[derive(Debug, Clone, Copy, Default)]
enum FolderRequirement {
    /// The command works even if the current folder was deleted.
    #[default]
    Optional,
    /// The command fails if the current folder cannot be determined.
    Required,
}

impl AgentOptions {
    /// Returns the options of a command that may call this model and needs no folder.
    fn with_model(model: &crate::cli::ModelArgs) -> Self {
        Self { model: model.name.clone(), ..Self::default() }
    }

    /// Returns the options of a command whose model option names the model of the draft: it overrides `handoff.model`.
    fn with_draft_model(model: &crate::cli::ModelArgs) -> Self {
        Self { draft_model: model.name.clone(), ..Self::with_model(model) }
    }

    /// Returns the options of a command whose agent works in the current folder.
    fn in_folder(model: &crate::cli::ModelArgs) -> Self {
        Self { folder: FolderRequirement::Required, ..Self::with_model(model) }
    }
}

/// Reads standard input to its end, as text. `content` names what it contains.
///
/// # Errors
/// Fails if it cannot be read, or is not UTF-8.
pub(crate) fn read_stdin(content: &str) -> Result<String, CliFailure> {
    let failed = |reason: String| {
        CliFailure::new(ExitReason::User, format!("read {content} from standard input: {reason}"))
    };
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to() + 1;
        failed(format!("it is not UTF-8 text, from byte {position} on"))
            .with_hint("convert it to UTF-8, for example with `iconv`")
    })
}

/// Returns the limits of a run that the arguments override.
fn limits_from_args(limits: &crate::cli::RunLimitArgs) -> RunLimitOverrides {
    build_run_limits(limits.max_turns, limits.timeout)
}

/// Returns the limits of a run. `None` leaves a limit at its configured value. A timeout is cut to whole seconds.
fn build_run_limits(model_calls_max: Option<u64>, timeout: Option<Duration>) -> RunLimitOverrides {
    RunLimitOverrides { model_calls_max, seconds_max: timeout.map(|time| time.as_secs()) }
}

/// Converts the choice of the arguments to the agent's policy.
const fn approval_policy(approve: ApprovalChoice) -> ApprovalPolicy {
    match approve {
        ApprovalChoice::Ask => ApprovalPolicy::Ask,
        ApprovalChoice::Sandboxed => ApprovalPolicy::Sandboxed,
        ApprovalChoice::Deny => ApprovalPolicy::Deny,
        ApprovalChoice::Allow => ApprovalPolicy::Allow,
    }
}

/// Returns the settings of the agent. Arguments take precedence over environment variables.
///
/// # Errors
/// Fails if the current folder is required and cannot be determined, or if the home folder or the database is invalid.
fn agent_settings(global: &GlobalArgs, options: AgentOptions) -> Result<AgentSettings, CliFailure> {
    let home = global.home.clone().or_else(|| std::env::var_os("SEGUE_HOME"));
    let workspace = match (std::env::current_dir(), options.folder) {
        (Ok(folder), _) => folder,
        // The shell's name of the deleted folder. No file can be created there, but threads of the folder are still found.
        (Err(_), FolderRequirement::Optional) => std::env::var_os("PWD").unwrap_or_default().into(),
        (Err(error), FolderRequirement::Required) => {
            return Err(CliFailure::new(ExitReason::User, format!("use the current folder: {error}"))
                .with_hint("change to a folder that exists"));
        }
    };
    Ok(AgentSettings {
        home: HomeFolder::locate(home.as_deref())?,
        database: database_override(global)?,
        workspace,
        assistant_id: global.assistant.clone(),
        model: options.model,
        draft_model: options.draft_model,
        approval_policy: options.approve,
        limits: options.limits,
        request_reader: http::read_request,
        environment: EnvironmentAccess::Read,
    })
}

/// Returns the database of the arguments, else that of the environment; `None` leaves the choice to the configuration.
///
/// # Errors
/// Fails if the URL is invalid.
fn database_override(global: &GlobalArgs) -> Result<Option<DatabaseAddress>, CliFailure> {
    let url = global.database_url.clone().or_else(|| std::env::var(DATABASE_VARIABLE).ok());
    let url = url.filter(|url| !url.trim().is_empty());
    Ok(url.as_deref().map(DatabaseAddress::from_str).transpose()?)
}
