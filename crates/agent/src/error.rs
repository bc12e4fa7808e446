//! What can go wrong at the surface, sorted by who can mend it, with what to do next.

use std::path::PathBuf;

use protocol::{HandoffId, HandoffStatus, InterruptId, RunId, Seq, ThreadId};

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
    /// The remembered rules about tool calls could not be read or written.
    #[error(transparent)]
    Permission(#[from] tools::permission::Error),
    /// What is written down about MCP servers could not be read or written.
    #[error("use the MCP servers that are written down: {0}")]
    Mcp(#[from] mcp::Error),
    /// Something could not be written as JSON.
    #[error("write JSON")]
    Json(#[from] serde_json::Error),
}

// What a person can do, where it is the same for every failure of a kind.
const NO_MODEL: &str = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or pass `--model \
                        PROVIDER/NAME`; `segue models` shows what is missing";
const THREADS_LIST: &str = "`segue threads list` shows the threads; the beginning of an id is enough";
const HISTORY: &str = "`segue history THREAD` shows the events with their numbers";
const CONTEXT: &str = "`segue context THREAD` shows what fills its context";
const AS_IT_WAS: &str = "nothing was changed; `segue handoff THREAD` goes on in a short thread";
const MARKERS: &str = "`segue history THREAD --markers` shows what was condensed, and what was taken back";
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
            | Self::CommentTooLong { .. }
            | Self::Input { .. }
            | Self::Transcript(_) => Class::User,
            Self::Decided { .. } | Self::Expired { .. } | Self::Redrafting { .. } => Class::Conflict,
            Self::Home { .. } | Self::Memory(_) | Self::Permission(_) => Class::Store,
            Self::Config { .. } | Self::Mcp(_) => Class::Config,
            Self::NoModel { .. } => Class::Config,
            Self::NotCompacted { .. } => Class::Model,
            Self::NotDrafted { .. } | Self::Preview { .. } | Self::Json(_) => Class::Internal,
            Self::Journal(error) | Self::Recall(memory::RecallError::Journal(error)) => journal_class(error),
            Self::Recall(_) => Class::User,
            Self::Tiers(memory::SummarizationError::Journal(error)) => journal_class(error),
            Self::Tiers(error) => tiers_class(error),
            Self::Item(memory::ItemError::Journal(error)) => journal_class(error),
            Self::Item(_) => Class::User,
            Self::Runtime(error) => match error {
                runtime::Error::Journal(error) => journal_class(error),
                runtime::Error::Rejected { .. } => Class::User,
                _ => Class::Internal,
            },
            Self::Model(error) => match error {
                model::Error::Setup { .. } | model::Error::Unauthorized { .. } => Class::Config,
                _ => Class::Model,
            },
        }
    }

    /// Returns what a person can do about it, as one sentence.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Home { .. } => "set SEGUE_HOME to a folder you can write to".to_owned(),
            Self::Config { .. } => "mend the file, or move it away to go on with the defaults".to_owned(),
            Self::OtherWorkspace { workspace, .. } => {
                format!("run it in {}; a new message may be sent from anywhere", workspace.display())
            }
            Self::NoModel { .. } => NO_MODEL.to_owned(),
            Self::UnknownThread { .. } => THREADS_LIST.to_owned(),
            Self::UnknownEvent { .. } => HISTORY.to_owned(),
            Self::AmbiguousThread { matches, .. } => more_of(matches),
            Self::UnknownHandoff { .. } => "`segue handoff --list` shows those that wait".to_owned(),
            Self::AmbiguousHandoff { matches, .. } => more_of(matches),
            Self::NotAHandoff { interrupt_id } => {
                format!("`segue decide {interrupt_id}` answers what it asks")
            }
            Self::ForeignHandoff { parent_thread_id, .. } => {
                format!("it is of thread {parent_thread_id}; `segue handoff --list` shows which waits where")
            }
            Self::EmptyThread { .. } => "there is nothing to carry over: begin a new thread with `segue chat`".to_owned(),
            Self::Redrafting { handoff_id } => {
                format!("look at it again in a moment: `segue handoff --decide {handoff_id}`")
            }
            Self::Expired { .. } => {
                "ask for it again: `segue handoff THREAD`; `handoff.expires_after_days` in config.toml says how long one waits"
                    .to_owned()
            }
            Self::Decided { handoff_id, .. } => {
                format!("the first decision holds; `segue handoff --show {handoff_id}` shows what came of it")
            }
            Self::NotDrafted { .. } => {
                "run the same command again: it goes on where this one stopped".to_owned()
            }
            Self::AmbiguousRun { matches, .. } => more_of(matches),
            Self::CommentTooLong { .. } => "say it in fewer words".to_owned(),
            Self::NothingToCompact { .. } => CONTEXT.to_owned(),
            Self::NotCompacted { .. } => AS_IT_WAS.to_owned(),
            Self::NothingToUndo { .. } => MARKERS.to_owned(),
            Self::UnknownRun { .. } => RUNS.to_owned(),
            Self::Permission(_) => {
                "mend or remove the file; it holds nothing but remembered rules".to_owned()
            }
            Self::Mcp(_) => "mend the file; `segue mcp list` shows what is written down".to_owned(),
            Self::Preview { .. } => "`segue doctor` checks what a request is made of".to_owned(),
            Self::Input { .. } => "check the path and its permissions".to_owned(),
            Self::Journal(error) | Self::Runtime(runtime::Error::Journal(error)) => {
                return journal_hint(error);
            }
            Self::Runtime(runtime::Error::Rejected { .. }) => {
                "nothing was changed and it still waits; mend the decision and give it again".to_owned()
            }
            // What is wrong with a session file says what to do in the same line.
            Self::Runtime(_) | Self::Json(_) | Self::Transcript(_) => return None,
            Self::Model(error) => return Some(runtime::model_hint(error).to_owned()),
            Self::Recall(error) => return Some(error.hint()),
            Self::Memory(error) => return Some(error.hint().to_owned()),
            Self::Tiers(error) => return Some(error.hint().to_owned()),
            Self::Item(error) => return Some(error.hint()),
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

fn journal_class(error: &journal::Error) -> Class {
    match error {
        journal::Error::NotFound { .. } | journal::Error::Invalid { .. } => Class::User,
        journal::Error::Busy { .. }
        | journal::Error::Fenced { .. }
        | journal::Error::AlreadyDecided { .. }
        | journal::Error::HandoffPending { .. }
        | journal::Error::HandoffMoved { .. } => Class::Conflict,
        _ => Class::Store,
    }
}

fn journal_hint(error: &journal::Error) -> Option<String> {
    let hint = match error {
        journal::Error::Busy { .. } | journal::Error::Fenced { .. } => {
            "wait until it is done, or stop the other process; then try again"
        }
        journal::Error::HandoffPending { handoff_id, .. } => {
            return Some(format!(
                "it was asked for with another goal or window; decide it first: `segue handoff --decide {handoff_id}`"
            ));
        }
        journal::Error::NewerSchema { .. } => "update segue, or point SEGUE_HOME at another folder",
        journal::Error::Corrupt { .. } => {
            "nothing was changed; copy the file away, then `segue doctor` says what can be read"
        }
        journal::Error::Locked { .. } => "close the other segue, or try again in a moment",
        journal::Error::Denied { .. } => "make the folder writable, or set SEGUE_HOME to one that is",
        journal::Error::DiskFull { .. } => "free some space and try again; nothing half-written was kept",
        _ => return None,
    };
    Some(hint.to_owned())
}
