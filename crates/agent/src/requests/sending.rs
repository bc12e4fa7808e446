//! Runs of the person at the terminal: the thread is recovered first, then a run begins like any other and is driven until
//! it rests. A request that cannot be met is an error here, and nothing is written.

use jiff::Timestamp;
use journal::Artifact;
use protocol::{Block, HumanMessage, Interrupt, RunId, RunRequest, Thread, ThreadId};
use runtime::{ATTEMPTS_MAX, Frames, Origin, RunEnd, Start};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::action::{RunAction, RunInput};
use super::{Beginning, PreparedStart, What, made};
use crate::agent::services::{RunService, ThreadService};
use crate::assembly::Purpose;
use crate::{Error, Result, RunError};

impl ThreadService<'_> {
    /// Creates a blank thread in the agent's folder.
    ///
    /// # Errors
    /// [`RunError::WorkspaceNotUtf8`], and when the journal fails.
    pub async fn create(self, name: Option<String>) -> Result<Thread> {
        self.agent.named_workspace()?;
        let mut thread = self.blank(ThreadId::generate(), Map::new());
        thread.name = name;
        let writes = made(&thread)?.into();
        self.agent.store.commit(journal::Transaction { fence: None, writes }).await?;
        Ok(thread)
    }

    /// Keeps the bytes of an image or document in the thread, and returns the block that names them in a message.
    ///
    /// # Errors
    /// When they are too large, or the journal fails.
    pub async fn attach(self, thread_id: ThreadId, bytes: Vec<u8>, media_type: &str) -> Result<Block> {
        let artifact = Artifact::new(thread_id, media_type, bytes, Timestamp::now());
        let block = Block::Media {
            media_type: media_type.to_owned(),
            sha256: Some(artifact.sha256.clone()),
            bytes: Some(artifact.bytes.len() as u64),
        };
        let writes = vec![journal::Write::PutArtifact(artifact)];
        self.agent.store.commit(journal::Transaction { fence: None, writes }).await?;
        Ok(block)
    }
}

impl RunService<'_> {
    /// Takes a person's message into the thread and drives the turn until it rests. The message is durable before any model
    /// is called. How the turn ended is in the result, not in an error: without a model that can be used it fails, and the
    /// next turn answers the message.
    ///
    /// # Errors
    /// When another run is active, or the journal fails; nothing is written then.
    pub async fn send(
        self,
        thread_id: ThreadId,
        message: impl Into<HumanMessage>,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        self.agent.thread(thread_id).await?;
        self.sweep(frames, cancel).await?;
        self.take_up(thread_id, frames, cancel).await?;
        let input = RunInput::message(message.into());
        self.run_here(thread_id, What::Given(&input), frames, cancel).await
    }

    /// Moves the thread of a question about calls to this agent's folder. The calls are asked about again, to be made here.
    ///
    /// # Errors
    /// [`RunError::NotMoved`], when another run is active, or when the journal fails.
    pub async fn rehome(
        self,
        interrupt: &Interrupt,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let Interrupt { thread_id, interrupt_id, .. } = *interrupt;
        self.take_up(thread_id, frames, cancel).await?;
        self.check_rehome(thread_id, Some(interrupt_id)).await?;
        self.run_here(thread_id, What::Given(&RunInput::rehome(Some(interrupt_id))), frames, cancel).await
    }

    /// Begins a run that is not a turn, and drives it until it rests.
    pub(crate) async fn run_prepared(
        self,
        thread_id: ThreadId,
        start: Start,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let prepared = PreparedStart { purpose: Purpose::of(&start.channels)?, start };
        self.run_here(thread_id, What::Prepared(&prepared), frames, cancel).await
    }

    /// Begins a run in this agent's folder and drives it until it rests.
    pub(super) async fn run_here(
        self,
        thread_id: ThreadId,
        what: What<'_>,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let action = match what {
            What::Given(input) => Some(&input.action),
            What::Requested | What::Prepared(_) => None,
        };
        let rehome = matches!(action, Some(RunAction::Rehome(_)));
        let workspace = match self.agent.named_workspace() {
            // It is given in the folder of its question.
            Err(_) if matches!(action, Some(RunAction::Answer(_))) => None,
            named => named?,
        };
        let request = RunRequest { workspace, rehome, strict_resume: true, ..RunRequest::default() };
        let mut attempts = 0;
        loop {
            let (origin, run_id, request) = (Origin::New, RunId::generate(), &request);
            let beginning = Beginning { origin, run_id, thread_id, request, what };
            let begun = self.begin_planned(beginning, frames).await?;
            let ended = match what {
                // It ends a draft that was stopped, and is not ended itself.
                What::Prepared(_) => self.drive_work(begun, frames, cancel).await,
                What::Requested | What::Given(_) => Box::pin(self.drive_begun(begun, frames, cancel)).await,
            };
            match ended {
                // The admission was to become durable with the first step, and nothing was written.
                Err(Error::Run(RunError::Runtime(runtime::Error::Outrun))) if attempts < ATTEMPTS_MAX => {
                    attempts += 1
                }
                ended => return ended,
            }
        }
    }
}
