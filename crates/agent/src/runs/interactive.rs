//! Runs of the person at the terminal. The thread is recovered first; then a run starts like any other and is
//! driven until it ends. Unlike for HTTP clients, an invalid request is an error of the call, and nothing is
//! written.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::Artifact;
use protocol::{ContentBlock, HumanMessage, Interrupt, RunId, RunRequest, Thread, ThreadId};
use runtime::{ADMISSION_ATTEMPTS_MAX, AdmissionSource, FrameSender, RunEnd, RunStart};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::admission::RequestAdmission;
use super::admission::refusal::AdmissionRefusal;
use super::request::client_threads::NewThread;
use super::{PreparedStart, RunStartContent, RunStartSpec, create_thread_writes};
use crate::assembly::RunPurpose;
use crate::runs::request::action::{RunAction, RunInput};
use crate::{Error, Result, RunError};
use crate::{RunService, ThreadService};

impl<'a> ThreadService<'a> {
    /// Creates a blank thread in the agent's folder.
    ///
    /// # Errors
    /// [`RunError::WorkspaceNotUtf8`] if the path of the folder cannot be stored; otherwise fails only if the
    /// journal does.
    pub fn create(self, name: Option<String>) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            self.agent.workspace_name()?;
            let mut thread = self.blank_thread(ThreadId::generate(), Map::new());
            thread.name = name;
            let writes = create_thread_writes(&thread)?.into();
            self.agent.store.commit(journal::Transaction { fence: None, writes }).await?;
            Ok(thread)
        })
    }

    /// Returns a blank thread in the agent's folder, which becomes durable with its first message
    /// ([`RunService::send_first_message`]).
    ///
    /// # Errors
    /// [`RunError::WorkspaceNotUtf8`] if the path of the folder cannot be stored.
    pub fn prepare(self) -> Result<NewThread> {
        self.agent.workspace_name()?;
        Ok(NewThread(self.blank_thread(ThreadId::generate(), Map::new())))
    }

    /// Stores the bytes of an image or document with the thread. Returns the content block that refers to
    /// them in a message.
    ///
    /// # Errors
    /// Fails if the bytes are too large, or if the journal fails.
    pub fn attach_file(
        self,
        thread_id: ThreadId,
        bytes: Vec<u8>,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<ContentBlock>> {
        journal::box_future(async move {
            let artifact = Artifact::new(thread_id, media_type, bytes, Timestamp::now());
            let block = ContentBlock::Media {
                media_type: media_type.to_owned(),
                sha256: Some(artifact.sha256.clone()),
                bytes: Some(artifact.bytes.len() as u64),
            };
            let writes = vec![journal::Write::PutArtifact(artifact)];
            self.agent.store.commit(journal::Transaction { fence: None, writes }).await?;
            Ok(block)
        })
    }
}

impl<'a> RunService<'a> {
    /// Adds a person's message to the thread, and drives the turn until it ends or is interrupted. The
    /// message is durable before any model is called.
    ///
    /// A failed turn is not an error of this call: the failure is in the returned end. Without a usable model
    /// the turn fails, and the next turn answers the message.
    ///
    /// # Errors
    /// Fails if another run is active, or if the journal fails. Nothing is written in that case.
    pub fn send_message<'b>(
        self,
        thread_id: ThreadId,
        message: impl Into<HumanMessage>,
        frames: &'b FrameSender,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<RunEnd>>
    where
        'a: 'b,
    {
        self.drive_turn(thread_id, RunInput::from_message(message.into()), frames, cancel)
    }

    fn drive_turn<'b>(
        self,
        thread_id: ThreadId,
        input: RunInput,
        frames: &'b FrameSender,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<RunEnd>>
    where
        'a: 'b,
    {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            self.sweep_all_threads(frames, cancel).await?;
            self.recover_before_run(thread_id, frames, cancel).await?;
            self.run_in_workspace(thread_id, RunStartContent::Input(&input), frames, cancel).await
        })
    }

    /// Creates a thread with a person's message in one transaction, and drives the turn as
    /// [`RunService::send_message`] does.
    ///
    /// # Errors
    /// Fails if the journal fails. The thread does not exist in that case.
    pub fn send_first_message<'b>(
        self,
        new: &'b NewThread,
        message: impl Into<HumanMessage>,
        frames: &'b FrameSender,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<RunEnd>>
    where
        'a: 'b,
    {
        self.drive_first_turn(new, RunInput::from_message(message.into()), frames, cancel)
    }

    fn drive_first_turn<'b>(
        self,
        new: &'b NewThread,
        input: RunInput,
        frames: &'b FrameSender,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<RunEnd>>
    where
        'a: 'b,
    {
        journal::box_future(async move {
            self.sweep_all_threads(frames, cancel).await?;
            let (thread_id, content) = (new.thread_id(), RunStartContent::Input(&input));
            let workspace = self.agent.workspace_name()?;
            let request = RunRequest { workspace, strict_resume: true, ..RunRequest::default() };
            let (origin, run_id, request) = (AdmissionSource::New, RunId::generate(), &request);
            let spec = RunStartSpec { origin, run_id, thread_id, request, content };
            let admission =
                RequestAdmission { agent: self.agent, spec, thread: &new.0, now: Timestamp::now() };
            match admission.begin_turn_on_new_thread().await.map_err(AdmissionRefusal::into_error)? {
                Some(started) => {
                    self.send_notices(frames);
                    Box::pin(self.drive_started(started, frames, cancel)).await
                }
                None => {
                    self.agent.threads().store_new_thread(new).await?;
                    self.run_in_workspace(thread_id, content, frames, cancel).await
                }
            }
        })
    }

    /// Moves the thread of a pending question about tool calls to this agent's folder, where the calls are
    /// proposed again.
    ///
    /// # Errors
    /// [`RunError::NotRehomed`] if the thread cannot be moved. Also fails if another run is active, or if the
    /// journal fails.
    pub fn rehome_thread(
        self,
        interrupt: &'a Interrupt,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<RunEnd>> {
        journal::box_future(async move {
            let Interrupt { thread_id, interrupt_id, .. } = *interrupt;
            self.recover_before_run(thread_id, frames, cancel).await?;
            self.check_rehome(thread_id, Some(interrupt_id)).await?;
            self.run_in_workspace(
                thread_id,
                RunStartContent::Input(&RunInput::for_rehome(Some(interrupt_id))),
                frames,
                cancel,
            )
            .await
        })
    }

    /// Starts a run that is not a turn, and drives it until it ends or is interrupted.
    pub(crate) async fn run_prepared(
        self,
        thread_id: ThreadId,
        start: RunStart,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let prepared = PreparedStart { purpose: RunPurpose::from_channels(&start.channels)?, start };
        self.run_in_workspace(thread_id, RunStartContent::Prepared(&prepared), frames, cancel).await
    }

    /// Starts a run in this agent's folder, and drives it until it ends or is interrupted. An answer does not
    /// need the folder to be storable, because its calls are made in the folder of the question.
    pub(super) async fn run_in_workspace(
        self,
        thread_id: ThreadId,
        content: RunStartContent<'_>,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let action = match content {
            RunStartContent::Input(input) => Some(&input.action),
            RunStartContent::FromRequest | RunStartContent::Prepared(_) => None,
        };
        let rehome = matches!(action, Some(RunAction::Rehome(_)));
        let workspace = match self.agent.workspace_name() {
            // An answer is given in the folder of its question, so the path of this folder is not needed.
            Err(_) if matches!(action, Some(RunAction::Answer(_))) => None,
            workspace => workspace?,
        };
        let client = self.agent.client.as_deref().map(str::to_owned);
        let request = RunRequest { workspace, rehome, client, strict_resume: true, ..RunRequest::default() };
        let mut attempts = 0;
        loop {
            let (origin, run_id, request) = (AdmissionSource::New, RunId::generate(), &request);
            let spec = RunStartSpec { origin, run_id, thread_id, request, content };
            let started = self.begin_with_replanning(spec, frames).await?;
            let ended = match content {
                // A prepared run is itself used to complete a cancelled draft, so none is completed after it.
                RunStartContent::Prepared(_) => self.drive_remaining(started, frames, cancel).await,
                RunStartContent::FromRequest | RunStartContent::Input(_) => {
                    Box::pin(self.drive_started(started, frames, cancel)).await
                }
            };
            match ended {
                // The admission is committed together with the first step. That commit failed, so nothing was
                // written and the start is repeated.
                Err(Error::Run(RunError::Runtime(runtime::Error::HeadConflict)))
                    if attempts < ADMISSION_ATTEMPTS_MAX =>
                {
                    attempts += 1
                }
                ended => return ended,
            }
        }
    }
}
