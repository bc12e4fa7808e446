//! Turns: a person's message in, an answer out; and going on after a crash.

mod questions;

use std::sync::Arc;

use jiff::Timestamp;
use journal::Artifact;
use model::ChatModel;
use protocol::{
    AssistantId, Block, Checkpoint, HumanMessage, Message, NewEvent, Run, RunId, RunStatus, Scope, Thread,
    ThreadId,
};
use runtime::{Admission, Admitted, Driver, Frame, Frames, Lease, RunEnd, Start, Taken, Update};
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::assembly::Purpose;
use crate::requests::{made, stamped};
use crate::{Class, Error, Result};

/// How a run ends that was cut off and that nobody can go on with.
const LEFT: &str = "its process ended before it was done";

/// The key of a thread's metadata that names the folder it was begun in.
pub const WORKSPACE_KEY: &str = "workspace";

/// Which threads a sweep goes through.
#[derive(Clone, Copy)]
enum Swept {
    /// Those of runs that were cut off, too.
    CutOff,
    /// Those on which no run is.
    AtRest,
}

impl Agent {
    /// Creates a blank thread, which remembers the folder it was begun in.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn create_thread(&self, name: Option<String>) -> Result<Thread> {
        let mut thread = self.blank(ThreadId::generate(), Map::new());
        thread.name = name;
        let writes = made(&thread)?.into();
        self.store.commit(journal::Transaction { fence: None, writes }).await?;
        Ok(thread)
    }

    /// Takes a person's message into the thread and drives the turn until it rests. The message is durable before
    /// any model is called; how the turn ended is in the result, not in an error.
    ///
    /// # Errors
    /// When no model is configured, another run is active, or the journal fails.
    pub async fn send(
        &self,
        thread_id: ThreadId,
        message: impl Into<HumanMessage>,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let thread = self.thread(thread_id).await?;
        let model = self.models.open()?.ok_or(Error::NoModel { thread_id })?;
        self.sweep(frames, cancel).await?;
        self.take_up(thread_id, frames, cancel).await?;
        let now = Timestamp::now();
        let before = self.store.checkpoint(thread_id).await?;
        let waiting = match before {
            Some(point) => handoff::left_waiting(&*self.store, &point.channels, now).await?,
            None => None,
        };
        let message = NewEvent::message(&Message::Human(message.into()), now)?;
        let events = waiting.into_iter().chain([message]).collect();
        let mut channels = Purpose::Turn.channels();
        channels.extend(handoff::turn_channels(&thread));
        let writes = self.taken_back(&self.pending(thread_id).await?, now).await?;
        let update = Update { events, writes, ..Update::default() };
        let start = Start { update, channels, ..Start::default() };
        let end = self.run(thread_id, start, Some(&model), (frames, cancel)).await?;
        self.end_stopped(thread_id, &end, frames).await?;
        Ok(end)
    }

    /// Does what runs of any thread had decided and not done when their process ended, such as an acceptance. Runs
    /// that live elsewhere are left to themselves, and what cannot be done is told and stays to be done.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn sweep(&self, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        self.sweep_through(Swept::CutOff, (frames, cancel)).await
    }

    /// Does the same for threads that are at rest: runs that were cut off are gone on with by whoever calls this.
    ///
    /// # Errors
    /// As for [`Self::sweep`].
    pub async fn sweep_at_rest(&self, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        self.sweep_through(Swept::AtRest, (frames, cancel)).await
    }

    async fn sweep_through(
        &self,
        swept: Swept,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<()> {
        self.mirror.start();
        for checkpoint in self.store.unfinished_checkpoints().await? {
            let thread_id = checkpoint.thread_id;
            // What asks a model goes on when somebody opens its thread; a turn with that person's rules.
            match Purpose::at(checkpoint.next.as_deref(), Some(&checkpoint.channels)) {
                Purpose::Turn | Purpose::Compaction => continue,
                Purpose::Handoff | Purpose::Rest | Purpose::Drop => {}
            }
            let done = match swept {
                Swept::CutOff => self.recover(thread_id, &Frames::default(), cancel).await,
                Swept::AtRest => self.finish_at_rest(thread_id, cancel).await,
            };
            match done {
                Ok(_) => {}
                Err(error) if error.class() == Class::Conflict => {}
                Err(error) => {
                    let text = format!("failed to finish what was begun in thread {thread_id}: {error}");
                    frames.send(Frame::Notice { text });
                }
            }
        }
        Ok(())
    }

    async fn finish_at_rest(
        &self,
        thread_id: ThreadId,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let agent = self.of_whom(thread_id).await?;
        match agent.store.active_runs(Some(thread_id)).await?.is_empty() {
            true => agent.finish(thread_id, (&Frames::default(), cancel)).await,
            false => Ok(None),
        }
    }

    /// Returns the agent that reads and writes as whoever the thread belongs to.
    async fn of_whom(&self, thread_id: ThreadId) -> Result<Self> {
        let owner = self.thread(thread_id).await?.assistant_id.owner();
        Ok(self.scoped(Scope::Owner(owner)))
    }

    /// Goes on where a run of the thread was cut off by a crash, and does what it left to do. Nothing that was
    /// stored is done again. A run that waits for a model where none is configured is ended.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when the run is alive in another process.
    pub async fn recover(
        &self,
        thread_id: ThreadId,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        if self.scope == Scope::Everyone {
            let agent = self.of_whom(thread_id).await?;
            return Box::pin(agent.recover(thread_id, frames, cancel)).await;
        }
        if let Some(run) = self.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let ended = Taken::Ended(self.leases.ended(&run).await?);
            return self.take_over(&run, ended, (frames, cancel)).await;
        }
        self.finish(thread_id, (frames, cancel)).await
    }

    /// Does what a thread that is at rest was left to do.
    async fn finish(
        &self,
        thread_id: ThreadId,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<Option<RunEnd>> {
        let opened = self.models.open();
        match self.store.checkpoint(thread_id).await? {
            Some(checkpoint) if !checkpoint.activities.is_empty() => {
                let start = Start { channels: Purpose::Rest.channels(), ..Start::default() };
                let model = opened.unwrap_or(None);
                Ok(Some(self.run(thread_id, start, model.as_ref(), (frames, cancel)).await?))
            }
            Some(checkpoint) => self.begin_answered(&checkpoint, (frames, cancel)).await,
            None => Ok(None),
        }
    }

    /// Goes on with a run that this process has claimed, as it was before that. Nothing that was stored is done again.
    ///
    /// # Errors
    /// As for [`Agent::recover`].
    pub async fn go_on(
        &self,
        run: &Run,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        self.take_over(run, Taken::Claimed, (frames, cancel)).await
    }

    async fn take_over(
        &self,
        run: &Run,
        taken: Taken,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<Option<RunEnd>> {
        let thread_id = run.thread_id;
        let opened = self.models.open();
        let before = self.store.checkpoint(thread_id).await?;
        let next = before.as_ref().and_then(|point| point.next.as_deref());
        let purpose = self.purpose(thread_id, next, before.as_ref()).await?;
        let model = match purpose {
            Purpose::Turn => opened?,
            Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop => opened.unwrap_or(None),
        };
        let mut driver = self.driver(&run.assistant_id, model.as_ref(), purpose).await?;
        self.bind_again(&mut driver, run.run_id).await?;
        if next.is_some_and(|next| driver.graph.get(next).is_none()) {
            self.end_taken(run, taken).await?;
            return Ok(None);
        }
        let reclaimed = runtime::reclaim(&*self.store, run, &driver.lease, taken).await;
        let admitted = match reclaimed {
            // It came to its end between being read and being taken over.
            Err(runtime::Error::Journal(journal::Error::Fenced { status, .. })) if !status.is_active() => {
                return Ok(None);
            }
            reclaimed => reclaimed?,
        };
        Ok(Some(self.drive(&driver, admitted, (frames, cancel)).await?))
    }

    /// Ends a run that was cut off, without going on with it.
    async fn end_taken(&self, run: &Run, taken: Taken) -> Result<()> {
        let lease = self.leases.lease().await?;
        match taken {
            Taken::Claimed => runtime::fail(&*self.store, run, lease.owner(), (LEFT, lease.now())).await?,
            Taken::Ended(now) => runtime::give_up(&*self.store, run, lease, now).await?,
        }
        Ok(())
    }

    /// Returns what a graph is needed for that goes on at `node` of the thread. A handoff that the agent asked for goes
    /// back into its turn, and only where that may go on; elsewhere the turn ends with the call's result.
    pub(crate) async fn purpose(
        &self,
        thread_id: ThreadId,
        node: Option<&str>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Purpose> {
        let purpose = Purpose::at(node, checkpoint.map(|point| &point.channels));
        let is_asked = checkpoint.is_some_and(|point| handoff::asked_by_agent(&point.channels));
        match (purpose, is_asked) {
            (Purpose::Turn, _) => self.check_workspace(thread_id).await.map(|()| purpose),
            (Purpose::Handoff, true) => match self.check_workspace(thread_id).await {
                Ok(()) => Ok(Purpose::Turn),
                Err(Error::OtherWorkspace { .. }) => Ok(purpose),
                Err(error) => Err(error),
            },
            (Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop, _) => Ok(purpose),
        }
    }

    /// Recovers the thread before something else begins in it. A turn that was cut off in another folder is ended: what
    /// it was about to do there is not done here.
    pub(crate) async fn take_up(
        &self,
        thread_id: ThreadId,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<()> {
        match self.recover(thread_id, frames, cancel).await {
            Err(Error::OtherWorkspace { .. }) => self.end_cut_off(thread_id).await,
            recovered => recovered.map(drop),
        }
    }

    /// Goes on with a run whose questions were all answered by a process that ended before it could.
    async fn begin_answered(
        &self,
        checkpoint: &Checkpoint,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<Option<RunEnd>> {
        let Some(asked) = runtime::answered(&*self.store, checkpoint).await? else { return Ok(None) };
        let (thread_id, model) = (checkpoint.thread_id, self.models.open()?);
        let purpose = self.purpose(thread_id, Some(&asked.node), Some(checkpoint)).await?;
        let assistant_id = self.thread(thread_id).await?.assistant_id;
        let driver = self.driver(&assistant_id, model.as_ref(), purpose).await?;
        if driver.graph.get(&asked.node).is_none() {
            return Ok(None);
        }
        let admission = admission(thread_id, assistant_id, model.as_ref(), &driver.lease);
        match runtime::begin_answered(&*self.store, &admission, &asked).await? {
            Some(admitted) => Ok(Some(self.drive(&driver, admitted, (frames, cancel)).await?)),
            None => Ok(None),
        }
    }

    /// Asks the thread's run to stop, in whatever process it works; says whether there was one. It stops at its next
    /// look into the journal, about a second later.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn stop(&self, thread_id: ThreadId) -> Result<bool> {
        self.thread(thread_id).await?;
        match self.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            Some(run) => self.stop_run(run.run_id).await,
            None => Ok(false),
        }
    }

    /// Asks this run to stop as [`Agent::stop`] does, and no other; says whether it was under way.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn stop_run(&self, run_id: RunId) -> Result<bool> {
        let asked = runtime::request_stop(&*self.store, run_id, Timestamp::now()).await;
        match asked {
            Err(runtime::Error::Journal(journal::Error::NotFound { .. })) => {
                Err(Error::UnknownRun { given: run_id.to_string() })
            }
            asked => Ok(asked?.is_active()),
        }
    }

    /// Keeps the bytes of an image or document in the thread, and returns the block that names them in a message.
    ///
    /// # Errors
    /// When they are too large, or the journal fails.
    pub async fn attach(&self, thread_id: ThreadId, bytes: Vec<u8>, media_type: &str) -> Result<Block> {
        let artifact = Artifact::new(thread_id, media_type, bytes, Timestamp::now());
        let block = Block::Media {
            media_type: media_type.to_owned(),
            sha256: Some(artifact.sha256.clone()),
            bytes: Some(artifact.bytes.len() as u64),
        };
        let writes = vec![journal::Write::PutArtifact(artifact)];
        self.store.commit(journal::Transaction { fence: None, writes }).await?;
        Ok(block)
    }

    /// Admits a run that begins with `start` and drives it until it rests.
    pub(crate) async fn run(
        &self,
        thread_id: ThreadId,
        mut start: Start,
        model: Option<&Arc<dyn ChatModel>>,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<RunEnd> {
        let thread = self.thread(thread_id).await?;
        let stamp = stamped(&thread).map(|patch| journal::Write::UpdateThread { thread_id, patch });
        start.update.writes.extend(stamp);
        let assistant_id = thread.assistant_id;
        let purpose = Purpose::of(&start.channels);
        let driver = self.driver(&assistant_id, model, purpose).await?;
        self.tell_notices(frames);
        let admission = admission(thread_id, assistant_id, model, &driver.lease);
        let admitted = runtime::admit(&*self.store, &driver.graph, &admission, start).await?;
        Ok(self.drive(&driver, admitted, (frames, cancel)).await?)
    }

    /// Drives the run until it rests, then lets memory notice what is due in its thread.
    pub(crate) async fn drive(
        &self,
        driver: &Driver,
        admitted: Admitted,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> runtime::Result<RunEnd> {
        let thread_id = admitted.checkpoint.thread_id;
        let end = driver.drive(admitted, frames, cancel).await?;
        self.look_at_memory(thread_id, &end, frames).await;
        Ok(end)
    }

    /// Returns whether what was cut off in the thread may be gone on with in this folder.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn is_of_here(&self, thread_id: ThreadId) -> Result<bool> {
        let before = self.store.checkpoint(thread_id).await?;
        let next = before.as_ref().and_then(|point| point.next.as_deref());
        match self.purpose(thread_id, next, before.as_ref()).await {
            Ok(_) => Ok(true),
            Err(Error::OtherWorkspace { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a run of the thread whose process is gone, without going on with it.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when its process may live; when the journal fails.
    pub async fn end_cut_off(&self, thread_id: ThreadId) -> Result<()> {
        if let Some(run) = self.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.leases.ended(&run).await?;
            runtime::give_up(&*self.store, &run, self.leases.lease().await?, now).await?;
        }
        Ok(())
    }
}

impl Agent {
    /// Ends a run of this process that nobody drives any more because of a fault of ours; says whether it was working. One
    /// that had not begun is ended as one that waits.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn fail_run(&self, run_id: RunId, why: &str) -> Result<bool> {
        let unknown = || Error::UnknownRun { given: run_id.to_string() };
        let run = self.store.run(run_id).await?.ok_or_else(unknown)?;
        match run.status {
            RunStatus::Running => {
                let now = Timestamp::now();
                runtime::fail(&*self.store, &run, self.leases.name().await?, (why, now)).await?;
                Ok(true)
            }
            RunStatus::Pending => self.end_queued(run_id, RunStatus::Error, why).await,
            RunStatus::Success
            | RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Timeout
            | RunStatus::Cancelled => Ok(false),
        }
    }
}

/// Returns the admission of a new run of `owner`.
pub(crate) fn admission(
    thread_id: ThreadId,
    assistant_id: AssistantId,
    model: Option<&Arc<dyn ChatModel>>,
    lease: &Lease,
) -> Admission {
    Admission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id,
        model: model.map(|model| model.name().to_string()),
        lease: lease.clone(),
        now: Timestamp::now(),
        origin: runtime::Origin::New,
    }
}
