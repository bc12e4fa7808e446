//! What can go wrong at the surface, sorted by who can mend it, with what to do next.

mod database;
mod trace;

use std::path::PathBuf;

use protocol::{CheckpointId, HandoffId, HandoffStatus, InterruptId, RunId, Seq, ThreadId};

pub use trace::TraceError;

/// Who can mend a failure; front ends turn it into exit codes and HTTP statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The person asked for something that is not there or not possible.
    User,
    /// Another client was first, or a run is active.
    Conflict,
    /// A setting is wrong.
    Config,
    /// A model could not be used.
    Model,
    /// The data cannot be read or written.
    Store,
    /// Segue is at fault.
    Internal,
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The home folder cannot be used.
    #[error("use the home folder {}: {reason}", path.display())]
    Home {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting cannot be read.
    #[error("read {}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        reason: String,
    },
    /// The address of a database cannot be understood; it may hold a password, and is not repeated.
    #[error("read the database's URL: {reason}")]
    DatabaseUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// No model is configured, and the call needs one.
    #[error("answer in thread {thread_id}: no model is configured")]
    NoModel {
        /// The thread.
        thread_id: ThreadId,
    },
    /// No thread's id begins with that.
    #[error("find a thread `{prefix}`")]
    UnknownThread {
        /// What was given.
        prefix: String,
    },
    /// The thread has no event with that seq.
    #[error("find event {seq} in thread {thread_id}: its last one is {last_seq}")]
    UnknownEvent {
        /// The thread.
        thread_id: ThreadId,
        /// What was given.
        seq: Seq,
        /// The newest event there is.
        last_seq: Seq,
    },
    /// Several threads' ids begin with that.
    #[error("choose among {} threads that begin with `{prefix}`", matches.len())]
    AmbiguousThread {
        /// What was given.
        prefix: String,
        /// The first of them.
        matches: Vec<ThreadId>,
    },
    /// There is no handoff with that id.
    #[error("find handoff `{given}`")]
    UnknownHandoff {
        /// What was given.
        given: String,
    },
    /// Several handoffs' ids begin with that.
    #[error("choose among {} handoffs that begin with `{prefix}`", matches.len())]
    AmbiguousHandoff {
        /// What was given.
        prefix: String,
        /// The first of them.
        matches: Vec<HandoffId>,
    },
    /// The interrupt asks about something other than a handoff.
    #[error("decide interrupt {interrupt_id} as a handoff: it asks about something else")]
    NotAHandoff {
        /// The interrupt.
        interrupt_id: InterruptId,
    },
    /// The handoff is of another thread than the one that was named with it.
    #[error("decide handoff {handoff_id} in thread {thread_id}: it is of another thread")]
    ForeignHandoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The thread that was named.
        thread_id: ThreadId,
        /// The thread it is of.
        parent_thread_id: ThreadId,
    },
    /// Nothing was said in the thread.
    #[error("hand off thread {thread_id}: nothing was said in it")]
    EmptyThread {
        /// The thread.
        thread_id: ThreadId,
    },
    /// The handoff was given up because nobody decided about it.
    #[error("decide handoff {handoff_id}: it was given up: {reason}")]
    Expired {
        /// The handoff.
        handoff_id: HandoffId,
        /// Why.
        reason: String,
    },
    /// The handoff is being drafted again for another client.
    #[error("decide handoff {handoff_id}: another draft of it is being made")]
    Redrafting {
        /// The handoff.
        handoff_id: HandoffId,
    },
    /// The handoff was decided before, here or elsewhere.
    #[error("decide handoff {handoff_id}: it is {} already", status.outcome())]
    Decided {
        /// The handoff.
        handoff_id: HandoffId,
        /// Its outcome.
        status: HandoffStatus,
    },
    /// The run that carries a handoff ended without a proposal.
    #[error("draft a handoff of thread {thread_id}: {reason}")]
    NotDrafted {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// What the thread waits for belongs to another folder: what was shown there is done there.
    #[error("go on with thread {thread_id} here: it works in {}", workspace.display())]
    OtherWorkspace {
        /// The thread.
        thread_id: ThreadId,
        /// Its folder.
        workspace: PathBuf,
    },
    /// The journal is a file that processes of several machines may have open, which cannot see each other's locks.
    #[error("share {} with other machines: {reason}", path.display())]
    Shared {
        /// The file.
        path: PathBuf,
        /// How that is known.
        reason: String,
    },
    /// What a thread's next request would hold cannot be told.
    #[error("work out the context of thread {thread_id}: {reason}")]
    Preview {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// There is nothing to condense.
    #[error("condense thread {thread_id}: there is nothing to condense: {reason}")]
    NothingToCompact {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// The thread was not condensed, and is as it was.
    #[error("condense thread {thread_id}: {reason}")]
    NotCompacted {
        /// The thread.
        thread_id: ThreadId,
        /// Why.
        reason: String,
    },
    /// Nothing is condensed in the thread.
    #[error("take a compaction of thread {thread_id} back: nothing is condensed in it")]
    NothingToUndo {
        /// The thread.
        thread_id: ThreadId,
    },
    /// No run's id begins with that.
    #[error("find a run `{given}`")]
    UnknownRun {
        /// What was given.
        given: String,
    },
    /// Several runs' ids begin with that.
    #[error("choose among {} runs that begin with `{prefix}`", matches.len())]
    AmbiguousRun {
        /// What was given.
        prefix: String,
        /// The first of them.
        matches: Vec<RunId>,
    },
    /// The thread has no such point in its past.
    #[error("find checkpoint `{given}` in thread {thread_id}")]
    UnknownCheckpoint {
        /// The thread.
        thread_id: ThreadId,
        /// What was given.
        given: CheckpointId,
    },
    /// The state of a thread cannot be changed like that.
    #[error("change the state of thread {thread_id}: {reason}")]
    StateChange {
        /// The thread.
        thread_id: ThreadId,
        /// What is wrong with the change.
        reason: String,
    },
    /// The graph has no such node.
    #[error("go on behind node `{node}`: there is none; there are {known}")]
    UnknownNode {
        /// What was given.
        node: String,
        /// Those there are.
        known: String,
    },
    /// A thread with that id is there already.
    #[error("create thread {thread_id}: there is one already")]
    ThreadExists {
        /// The thread.
        thread_id: ThreadId,
    },
    /// The run is not waiting and has not ended: it cannot be taken back or forgotten.
    #[error("take run {run_id} back: it is running")]
    RunIsActive {
        /// The run.
        run_id: RunId,
    },
    /// Another run came after it in the thread, and would be taken back with it.
    #[error("take run {run_id} back: run {behind} came after it")]
    RunIsFollowed {
        /// The run.
        run_id: RunId,
        /// The other one.
        behind: RunId,
    },
    /// Keys are managed by the person at the machine only.
    #[error("manage keys: only the person at the machine may")]
    KeysDenied,
    /// No key begins with that.
    #[error("find a key `{given}`")]
    UnknownKey {
        /// What was given.
        given: String,
    },
    /// Notes about a thread hold what looks like a key, a token or a password.
    #[error("keep `{key}` among the notes about the thread: it holds what looks like a secret")]
    SecretInMetadata {
        /// The key of the metadata.
        key: String,
    },
    /// A request for a run holds what looks like a key, a token or a password.
    #[error("keep `{field}` of the request: it holds what looks like a secret")]
    SecretInRequest {
        /// Its place.
        field: String,
    },
    /// Notes about a thread are too large.
    #[error("keep notes about the thread: they have {bytes} bytes, the most is {bytes_max}")]
    MetadataTooLarge {
        /// What was given.
        bytes: usize,
        /// The most.
        bytes_max: usize,
    },
    /// The system has no randomness to make a key of.
    #[error("make a key: {reason}")]
    NoRandomness {
        /// Why.
        reason: String,
    },
    /// A comment on a run is too long.
    #[error("keep the comment: it is longer than {graphemes_max} characters")]
    CommentTooLong {
        /// The most characters.
        graphemes_max: usize,
    },
    /// A file or folder cannot be read.
    #[error("read {}: {reason}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// A run could not be admitted or driven.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
    /// A model could not be set up.
    #[error(transparent)]
    Model(#[from] model::Error),
    /// A session file could not be read.
    #[error(transparent)]
    Transcript(#[from] transcripts::Error),
    /// agent.md could not be read or written.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// Nothing could be recalled.
    #[error(transparent)]
    Recall(#[from] memory::RecallError),
    /// Turns could not become a summary, or be read again.
    #[error(transparent)]
    Tiers(#[from] memory::SummarizationError),
    /// Something could not be kept under a name, or found there.
    #[error(transparent)]
    Item(#[from] memory::ItemError),
    /// The mirror could not be read or written.
    #[error(transparent)]
    Mirror(#[from] handoff::mirror::Error),
    /// The remembered rules about tool calls could not be read or written.
    #[error(transparent)]
    Permission(#[from] tools::permission::Error),
    /// What happened cannot be shown, or sent where it should be.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What is written down about MCP servers could not be read or written.
    #[error("use the MCP servers that are written down: {0}")]
    Mcp(#[from] mcp::Error),
    /// Something could not be written as JSON.
    #[error("write JSON")]
    Json(#[from] serde_json::Error),
}

// What a person can do, where it is the same for every failure of a kind.
const SHARED: &str = "servers on several machines share a PostgreSQL database, which `--database-url` or SEGUE_DATABASE_URL names; with \
     SQLite one machine serves, from a folder on a disk of its own";
const NO_MODEL: &str = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass `--model \
                        PROVIDER/NAME`; `segue models` shows what is missing";
const THREADS_LIST: &str = "`segue threads list` shows the threads; the beginning of an id is enough";
const HISTORY: &str = "`segue history THREAD` shows the events with their numbers";
const CONTEXT: &str = "`segue context THREAD` shows what fills its context";
const AS_IT_WAS: &str = "nothing was changed; `segue handoff THREAD` goes on in a short thread";
const MARKERS: &str = "`segue history THREAD --markers` shows what was condensed, and what was taken back";
const EXPIRED: &str = "ask for it again: `segue handoff THREAD`; `handoff.expires_after_days` in config.toml says how \
                       long one waits";
const AGAIN: &str = "run the same command again: it goes on where this one stopped";
const REMEMBERED_RULES: &str = "mend or remove the file; it holds nothing but remembered rules";
const RUNS: &str = "`segue history THREAD` shows the runs; the beginning of an id is enough";

impl Error {
    /// Returns who can mend it.
    pub fn class(&self) -> Class {
        match self {
            Self::UnknownThread { .. }
            | Self::UnknownEvent { .. }
            | Self::AmbiguousThread { .. }
            | Self::UnknownHandoff { .. }
            | Self::AmbiguousHandoff { .. }
            | Self::NotAHandoff { .. }
            | Self::ForeignHandoff { .. }
            | Self::EmptyThread { .. }
            | Self::OtherWorkspace { .. }
            | Self::NothingToCompact { .. }
            | Self::NothingToUndo { .. }
            | Self::UnknownRun { .. }
            | Self::AmbiguousRun { .. }
            | Self::Trace(_)
            | Self::UnknownCheckpoint { .. }
            | Self::StateChange { .. }
            | Self::UnknownNode { .. }
            | Self::KeysDenied
            | Self::UnknownKey { .. }
            | Self::SecretInMetadata { .. }
            | Self::SecretInRequest { .. }
            | Self::MetadataTooLarge { .. }
            | Self::CommentTooLong { .. }
            | Self::Input { .. }
            | Self::Transcript(_) => Class::User,
            Self::Decided { .. }
            | Self::Expired { .. }
            | Self::Redrafting { .. }
            | Self::ThreadExists { .. }
            | Self::RunIsActive { .. }
            | Self::RunIsFollowed { .. } => Class::Conflict,
            Self::Home { .. } | Self::Memory(_) | Self::Permission(_) => Class::Store,
            Self::Config { .. } | Self::DatabaseUrl { .. } | Self::Shared { .. } | Self::Mcp(_) => {
                Class::Config
            }
            Self::NoModel { .. } => Class::Config,
            Self::NotCompacted { .. } => Class::Model,
            Self::NoRandomness { .. } | Self::NotDrafted { .. } | Self::Preview { .. } | Self::Json(_) => {
                Class::Internal
            }
            Self::Journal(error) | Self::Recall(memory::RecallError::Journal(error)) => {
                database::class(error)
            }
            Self::Recall(_) => Class::User,
            Self::Tiers(memory::SummarizationError::Journal(error)) => database::class(error),
            Self::Tiers(error) => tiers_class(error),
            Self::Item(memory::ItemError::Journal(error)) => database::class(error),
            Self::Item(_) => Class::User,
            Self::Mirror(error) => match error {
                handoff::mirror::Error::Journal(error) => database::class(error),
                error if error.is_setting() => Class::Config,
                _ => Class::Store,
            },
            Self::Runtime(error) => match error {
                runtime::Error::Journal(error) => database::class(error),
                runtime::Error::Rejected { .. } => Class::User,
                runtime::Error::Outrun => Class::Conflict,
                runtime::Error::LeaseEnded { .. } => Class::Store,
                _ => Class::Internal,
            },
            Self::Model(error) => match error {
                model::Error::Setup { .. } | model::Error::Unauthorized { .. } => Class::Config,
                _ => Class::Model,
            },
        }
    }

    /// Returns whether another run of the thread, or another process, was there first.
    pub const fn is_outrun(&self) -> bool {
        let store = match self {
            Self::Runtime(runtime::Error::Outrun) | Self::RunIsActive { .. } => return true,
            Self::Journal(error) | Self::Runtime(runtime::Error::Journal(error)) => error,
            _ => return false,
        };
        matches!(store, journal::Error::Busy { .. } | journal::Error::Fenced { .. })
    }

    /// Returns whether a run stopped between two steps because this process is about to end.
    pub const fn is_halted(&self) -> bool {
        matches!(self, Self::Runtime(runtime::Error::Halted))
    }

    /// Returns whether nobody could say in time that this process works on a run, for no fault of the run.
    pub const fn is_lease_end(&self) -> bool {
        matches!(self, Self::Runtime(runtime::Error::LeaseEnded { .. }))
    }

    /// Returns whether what was named is not there, or is somebody else's, which looks the same.
    pub const fn is_absent(&self) -> bool {
        let store = match self {
            Self::Journal(error)
            | Self::Runtime(runtime::Error::Journal(error))
            | Self::Recall(memory::RecallError::Journal(error))
            | Self::Tiers(memory::SummarizationError::Journal(error))
            | Self::Item(memory::ItemError::Journal(error)) => error,
            Self::UnknownThread { .. }
            | Self::UnknownEvent { .. }
            | Self::UnknownHandoff { .. }
            | Self::UnknownRun { .. }
            | Self::UnknownCheckpoint { .. } => return true,
            _ => return false,
        };
        matches!(store, journal::Error::NotFound { .. } | journal::Error::UnknownRun { .. })
    }

    /// Returns what a person can do about it, as one sentence.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Home { .. } => "set SEGUE_HOME to a folder you can write to".to_owned(),
            Self::Config { .. } => "mend the file, or move it away to go on with the defaults".to_owned(),
            Self::DatabaseUrl { .. } => database::DATABASE_URL.to_owned(),
            Self::Shared { .. } => SHARED.to_owned(),
            Self::OtherWorkspace { workspace, .. } => {
                format!("run it in {}; a new message may be sent from anywhere", workspace.display())
            }
            Self::NoModel { .. } => NO_MODEL.to_owned(),
            Self::UnknownThread { .. } => THREADS_LIST.to_owned(),
            Self::UnknownEvent { .. } => HISTORY.to_owned(),
            Self::AmbiguousThread { matches, .. } => more_of(matches),
            Self::UnknownHandoff { .. }
            | Self::AmbiguousHandoff { .. }
            | Self::NotAHandoff { .. }
            | Self::ForeignHandoff { .. }
            | Self::EmptyThread { .. }
            | Self::Redrafting { .. }
            | Self::Expired { .. }
            | Self::Decided { .. }
            | Self::NotDrafted { .. } => return self.handoff_hint(),
            Self::AmbiguousRun { matches, .. } => more_of(matches),
            Self::Trace(error) => error.hint(),
            Self::CommentTooLong { .. } => "say it in fewer words".to_owned(),
            Self::UnknownCheckpoint { .. } => "the thread's history lists its checkpoints".to_owned(),
            Self::StateChange { .. } => "nothing was changed; mend the change and send it again".to_owned(),
            Self::UnknownNode { .. } => {
                "leave `as_node` out to change the state without running on".to_owned()
            }
            Self::ThreadExists { .. } => "choose another id, or let the server choose one".to_owned(),
            Self::RunIsActive { .. } => "stop it first".to_owned(),
            Self::RunIsFollowed { .. } => "begin at a checkpoint before it instead".to_owned(),
            Self::KeysDenied => "use the token of the installation".to_owned(),
            Self::UnknownKey { .. } => "`segue keys list` shows the keys".to_owned(),
            Self::SecretInRequest { .. } => {
                "leave it out: what a run was asked with is shown wherever runs are listed".to_owned()
            }
            Self::SecretInMetadata { .. } => {
                "leave it out: notes are shown wherever threads are listed".to_owned()
            }
            Self::MetadataTooLarge { .. } => "keep large values as items of the store".to_owned(),
            Self::NothingToCompact { .. } => CONTEXT.to_owned(),
            Self::NotCompacted { .. } => AS_IT_WAS.to_owned(),
            Self::NothingToUndo { .. } => MARKERS.to_owned(),
            Self::UnknownRun { .. } => RUNS.to_owned(),
            Self::Permission(_) => REMEMBERED_RULES.to_owned(),
            Self::Mcp(_) => "mend the file; `segue mcp list` shows what is written down".to_owned(),
            Self::Preview { .. } => "`segue doctor` checks what a request is made of".to_owned(),
            Self::Input { .. } => "check the path and its permissions".to_owned(),
            Self::Journal(error) | Self::Runtime(runtime::Error::Journal(error)) => {
                return database::hint(error);
            }
            Self::Runtime(runtime::Error::Rejected { .. }) => {
                "nothing was changed and it still waits; mend the decision and give it again".to_owned()
            }
            // What is wrong with a session file says what to do in the same line.
            Self::Runtime(_) | Self::Json(_) | Self::Transcript(_) | Self::NoRandomness { .. } => {
                return None;
            }
            Self::Model(error) => return Some(runtime::model_hint(error).to_owned()),
            Self::Recall(error) => return Some(error.hint()),
            Self::Memory(error) => return Some(error.hint().to_owned()),
            Self::Tiers(error) => return Some(error.hint().to_owned()),
            Self::Item(error) => return Some(error.hint()),
            Self::Mirror(error) => return Some(error.hint()),
        };
        Some(hint)
    }

    /// Returns what a person can do where a handoff is not as they think.
    fn handoff_hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownHandoff { .. } => "`segue handoff --list` shows those that wait".to_owned(),
            Self::AmbiguousHandoff { matches, .. } => more_of(matches),
            Self::NotAHandoff { interrupt_id } => {
                format!("`segue decide {interrupt_id}` answers what it asks")
            }
            Self::ForeignHandoff { parent_thread_id, .. } => {
                format!("it is of thread {parent_thread_id}; `segue handoff --list` shows which waits where")
            }
            Self::EmptyThread { .. } => {
                "there is nothing to carry over: begin a new thread with `segue chat`".to_owned()
            }
            Self::Redrafting { handoff_id } => {
                format!("look at it again in a moment: `segue handoff --decide {handoff_id}`")
            }
            Self::Expired { .. } => EXPIRED.to_owned(),
            Self::Decided { handoff_id, .. } => {
                format!("the first decision holds; `segue handoff --show {handoff_id}` shows what came of it")
            }
            Self::NotDrafted { .. } => AGAIN.to_owned(),
            _ => return None,
        };
        Some(hint)
    }
}

/// Returns what to do where several ids begin with what was given.
fn more_of(matches: &[impl ToString]) -> String {
    let ids: Vec<String> = matches.iter().take(5).map(ToString::to_string).collect();
    format!("give more of the id: {}", ids.join(", "))
}

const fn tiers_class(error: &memory::SummarizationError) -> Class {
    use memory::SummarizationError as Failed;
    match error {
        Failed::NoSummary { .. } | Failed::Model(_) => Class::Model,
        Failed::TooManyTurns { .. } => Class::User,
        Failed::Busy { .. } | Failed::Waiting { .. } | Failed::Contended { .. } | Failed::Stopped => {
            Class::Conflict
        }
        Failed::Journal(_) => Class::Store,
        Failed::Prompt(_) | Failed::Json(_) => Class::Internal,
    }
}
