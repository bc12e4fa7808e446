//! The commands: each asks the agent for what its arguments name, and shows the answer.

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
pub(crate) mod work;

use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, Database, Home, Policy, RunLimits, Settings};
use protocol::ThreadId;
use serde::Serialize;
use terminal::{Screen, one_line, wrap};

use crate::cli::{self, Approve, Cli, Command, Format, Global};
use crate::exit::{Code, Failure, Outcome, chain};
use crate::logs;
use crate::watching::Watching;

/// The lengths an id is shortened to: up to a hyphen, so that it is easily read and selected.
const SHORT_IDS: [usize; 4] = [8, 13, 18, 23];
/// The beginning of an id that stays unique: all of its time, and what tells ids of the same millisecond apart.
pub(crate) const LASTING_ID: usize = 18;

/// What a server logs, unless somebody says otherwise: a client that is told no more than that something failed needs
/// somebody who can look.
const SERVER_LOG: &str = "warn";

/// The variable that says where the journal is; the option goes before it.
const DATABASE_VARIABLE: &str = "SEGUE_DATABASE_URL";

/// What to do where no model is configured.
pub(crate) const NO_MODEL_HINT: &str =
    "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY; `segue models` shows what is missing";

/// What every command works with.
pub(crate) struct Context {
    pub(crate) agent: Agent,
    /// The model it was opened with, if one was named.
    pub(crate) model: Option<String>,
    /// Where answers are shown.
    pub(crate) screen: Screen,
    pub(crate) format: Format,
    /// Who is told of what it does.
    pub(crate) watching: Arc<Watching>,
}

/// How commands get what they work with.
struct Opening<'o> {
    global: &'o Global,
    /// Who watches what they do, for who ends the program.
    watching: &'o Arc<Watching>,
}

impl Opening<'_> {
    /// Opens the agent that the options name.
    async fn context(&self, asked: Asked) -> Result<Context, Failure> {
        let settings = settings(self.global, asked)?;
        let model = settings.model.clone();
        let context = self.of(Agent::open(settings).await?, model);
        self.watch(&context);
        Ok(context)
    }

    /// Opens what a server needs, which may be one of several on one database.
    async fn to_serve(&self, asked: Asked) -> Result<Context, Failure> {
        let settings = settings(self.global, asked)?;
        let model = settings.model.clone();
        let agent = Agent::open_to_serve(settings).await?;
        self.watching.begin_to_serve(&agent);
        Ok(self.of(agent, model))
    }

    fn of(&self, agent: Agent, model: Option<String>) -> Context {
        let screen = self.global.screen();
        let watching = Arc::clone(self.watching);
        Context { agent, model, screen, format: self.global.format(), watching }
    }

    /// Has what the command does sent as traces, if they are sent anywhere, and hooks told of it.
    fn watch(&self, context: &Context) {
        if let Err(error) = self.watching.begin(&context.agent) {
            // Nobody's work fails because it cannot be watched.
            let hint = error.hint().unwrap_or_default();
            let told = format!("nothing is traced: failed to {}\n  hint: {hint}", chain(&error));
            context.screen.note(context.screen.style.warn(told));
        }
    }
}

impl Context {
    /// Writes one JSON object to stdout.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, value)?;
        stdout.write_all(b"\n")?;
        Ok(())
    }

    /// Tells a person something that fails nothing; a program finds it in the JSON it gets.
    pub(crate) fn notice(&self, text: &str) {
        if self.format == Format::Text {
            self.screen.note(self.screen.style.warn(wrap(&one_line(text), self.screen.columns, "", "")));
        }
    }

    /// Returns a beginning of the id that a person may come back with later, when there are more threads.
    pub(crate) async fn id_to_keep(&self, thread_id: ThreadId) -> String {
        let full = thread_id.to_string();
        let lasting = &full[..LASTING_ID];
        if self.agent.threads().find(lasting).await.is_ok() { lasting.to_owned() } else { full }
    }

    /// Returns the shortest beginning of the id that names this thread and no other.
    pub(crate) async fn short_id(&self, thread_id: ThreadId) -> String {
        let full = thread_id.to_string();
        for length in SHORT_IDS {
            if self.agent.threads().find(&full[..length]).await.is_ok() {
                return full[..length].to_owned();
            }
        }
        full
    }
}

/// Performs the command.
pub(crate) fn start(cli: Cli) -> Outcome {
    let is_server = matches!(cli.command, Some(Command::Serve(_)));
    logs::begin(&cli.global.logs, is_server.then_some(SERVER_LOG))?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if !is_server {
        // A chat waits for keys on this thread; what goes on meanwhile has one of its own.
        runtime.worker_threads(1);
    }
    let runtime = runtime.enable_all().build()?;
    let watching = Arc::new(Watching::default());
    let screen = cli.global.screen();
    let outcome = runtime.block_on(perform(cli, &watching));
    runtime.block_on(watching.finish(&screen));
    if !is_server {
        // A server has told of it in its log.
        watching.tell(&screen);
    }
    // Work that was given up must not keep the program from ending.
    runtime.shutdown_background();
    outcome
}

async fn perform(cli: Cli, watching: &Arc<Watching>) -> Outcome {
    let global = cli.global;
    let opening = Opening { global: &global, watching };
    let open = async |asked: Asked| opening.context(asked).await;
    match cli.command {
        None => talk(&opening, cli.chat).await,
        Some(Command::Chat(args)) => talk(&opening, args).await,
        Some(Command::Handoff(args)) => handoff::run(&open(Asked::model(&args.model)).await?, args).await,
        Some(Command::Handoffs(args)) => handoff::stats::run(&open(Asked::default()).await?, args).await,
        Some(Command::Mirror(args)) => handoff::mirror::run(&open(Asked::default()).await?, args).await,
        Some(Command::Import(args)) => import::run(&open(Asked::default()).await?, args).await,
        Some(Command::Run(args)) => {
            let asked = Asked { limits: limits(&args.limits), ..Asked::model(&args.model) };
            let asked = Asked { approve: policy(args.limits.approve), folder: Folder::Needed, ..asked };
            run::run(&open(asked).await?, args).await
        }
        Some(Command::Decide(args)) => {
            let limits = run_limits(args.max_turns, args.timeout);
            let folder = if args.here { Folder::Needed } else { Folder::Optional };
            let asked = Asked { limits, folder, ..Asked::model(&args.model) };
            run::decide::run(&open(asked).await?, args).await
        }
        Some(Command::Threads(args)) => threads::run(&open(Asked::default()).await?, args).await,
        Some(Command::History(args)) => history::run(&open(Asked::default()).await?, args).await,
        Some(Command::Search(args)) => history::search::run(&open(Asked::default()).await?, args).await,
        Some(Command::Recall(args)) => history::recall::run(&open(Asked::default()).await?, args).await,
        Some(Command::Memory(args)) => memory::run(&open(Asked::default()).await?, args).await,
        Some(Command::Remember(args)) => memory::notes::remember(&open(Asked::default()).await?, args).await,
        Some(Command::Store(args)) => memory::store::run(&open(Asked::default()).await?, args).await,
        Some(Command::Window(args)) => {
            compact::window(&open(Asked::model(&args.model)).await?, &args.thread).await
        }
        Some(Command::Compact(args)) => compact::run(&open(Asked::model(&args.model)).await?, args).await,
        Some(Command::Uncompact(args)) => compact::undo(&open(Asked::default()).await?, &args.thread).await,
        Some(Command::Feedback(args)) => run::feedback::run(&open(Asked::default()).await?, args).await,
        Some(Command::Trace(args)) => run::trace::run(&open(Asked::default()).await?, &args).await,
        Some(Command::Serve(args)) => {
            let asked = Asked { folder: Folder::Needed, ..Asked::model(&args.model) };
            setup::serve::run(opening.to_serve(asked).await?, args).await
        }
        Some(Command::Keys(args)) => setup::keys::run(&open(Asked::default()).await?, args).await,
        Some(Command::Db(args)) => setup::database::run(&global, args).await,
        Some(Command::Prune(args)) => threads::prune::run(&open(Asked::default()).await?, args).await,
        Some(Command::Models) => setup::models::run(&open(Asked::default()).await?),
        Some(Command::Mcp(args)) => {
            let asked = Asked { folder: Folder::Needed, ..Asked::default() };
            setup::mcp::run(&open(asked).await?, args).await
        }
        Some(Command::Config(cli::Config::Keys(args))) => setup::config::keys(&global, &args),
        Some(Command::Doctor) => setup::doctor::run(&global).await,
        Some(Command::Completions(args)) => setup::generate::completions(&args),
        Some(Command::Man(args)) => setup::generate::man(&args),
    }
}

async fn talk(opening: &Opening<'_>, args: crate::cli::Chat) -> Outcome {
    let asked = Asked { folder: Folder::Needed, ..Asked::model(&args.model) };
    chat::run(opening.context(asked).await?, args).await
}

/// What the arguments ask of the agent.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    model: Option<String>,
    limits: RunLimits,
    approve: Policy,
    folder: Folder,
}

/// Whether a command needs the current folder.
#[derive(Debug, Clone, Copy, Default)]
enum Folder {
    #[default]
    Optional,
    Needed,
}

impl Asked {
    fn model(model: &crate::cli::Model) -> Self {
        Self { model: model.name.clone(), ..Self::default() }
    }
}

fn limits(limits: &crate::cli::Limits) -> RunLimits {
    run_limits(limits.max_turns, limits.timeout)
}

fn run_limits(model_calls_max: Option<u64>, timeout: Option<Duration>) -> RunLimits {
    RunLimits { model_calls_max, seconds_max: timeout.map(|time| time.as_secs()) }
}

const fn policy(approve: Approve) -> Policy {
    match approve {
        Approve::Ask => Policy::Ask,
        Approve::Deny => Policy::Deny,
        Approve::Allow => Policy::Allow,
    }
}

/// Returns what the agent is opened with.
fn settings(global: &Global, asked: Asked) -> Result<Settings, Failure> {
    let home = global.home.clone().or_else(|| std::env::var_os("SEGUE_HOME"));
    let workspace = match (std::env::current_dir(), asked.folder) {
        (Ok(folder), _) => folder,
        // The name that the folder had: nothing can be made in it.
        (Err(_), Folder::Optional) => std::env::var_os("PWD").unwrap_or_default().into(),
        (Err(error), Folder::Needed) => {
            return Err(Failure::new(Code::User, format!("use the current folder: {error}"))
                .with_hint("change to a folder that exists"));
        }
    };
    Ok(Settings {
        home: Home::locate(home.as_deref())?,
        database: database(global)?,
        workspace,
        assistant_id: global.assistant.clone(),
        model: asked.model,
        approve: asked.approve,
        limits: asked.limits,
        read_request: http::read_request,
    })
}

/// Returns the database that the arguments name, or else the environment.
fn database(global: &Global) -> Result<Option<Database>, Failure> {
    let named = global.database_url.clone().or_else(|| std::env::var(DATABASE_VARIABLE).ok());
    let named = named.filter(|url| !url.trim().is_empty());
    Ok(named.as_deref().map(Database::from_str).transpose()?)
}
