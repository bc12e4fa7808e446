//! Turns: a person's message in, an answer out; and going on after a crash.

use jiff::Timestamp;
use model::ChatModel;
use protocol::{AssistantId, EventType, Message, NewEvent, RunId, Thread, ThreadId, ThreadStatus};
use runtime::{Admission, Frame, Frames, MODEL_NODE, RunEnd, Start, Update};
use serde_json::{Map, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::assembly::Purpose;
use crate::home::lease;
use crate::{Class, Error, Result};

impl Agent {
    /// Creates a blank thread.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn create_thread(&self, name: Option<String>) -> Result<Thread> {
        let now = Timestamp::now();
        let thread = blank(ThreadId::generate(), self.settings.assistant_id.clone(), name, now);
        let created = NewEvent::new(EventType::ThreadCreated, &json!({"origin": "new"}), now)?;
        let writes = vec![
            journal::Write::CreateThread(thread.clone()),
            journal::Write::Append { thread_id: thread.thread_id, events: vec![created] },
        ];
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
        text: &str,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let thread = self.thread(thread_id).await?;
        let model = self.models.open()?.ok_or(Error::NoModel { thread_id })?;
        self.sweep(frames, cancel).await?;
        self.recover(thread_id, frames, cancel).await?;
        let now = Timestamp::now();
        let message = NewEvent::message(&Message::human(text), now)?;
        let mut channels = Purpose::Turn.channels();
        channels.extend(handoff::turn_channels(&thread));
        let start = Start { update: Update { events: vec![message], ..Update::default() }, channels };
        self.run(thread_id, start, Some(&model), (frames, cancel)).await
    }

    /// Does what runs of any thread had decided and not done when their process ended, such as an acceptance. Runs
    /// that live elsewhere are left to themselves, and what cannot be done is told and stays to be done.
    pub(crate) async fn sweep(&self, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        for checkpoint in self.store.unfinished_checkpoints().await? {
            let thread_id = checkpoint.thread_id;
            match self.recover(thread_id, &Frames::default(), cancel).await {
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
        let model = self.models.open().unwrap_or(None);
        if let Some(run) = self.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.after_lease(&run)?;
            let driver = self.driver(&run.assistant_id, model.as_ref())?;
            let before = self.store.checkpoint(thread_id).await?;
            let next = before.as_ref().and_then(|point| point.next.as_deref());
            if next == Some(MODEL_NODE) && model.is_none() {
                runtime::give_up(&*self.store, &run, &driver.owner, now).await?;
                return Ok(None);
            }
            let reclaimed = runtime::reclaim(&*self.store, &run, &driver.owner, now).await;
            let checkpoint = match reclaimed {
                // It came to its end between being read and being taken over.
                Err(runtime::Error::Journal(journal::Error::Fenced { status, .. }))
                    if !status.is_active() =>
                {
                    return Ok(None);
                }
                reclaimed => reclaimed?,
            };
            return Ok(Some(driver.drive(&checkpoint, frames, cancel).await?));
        }
        match self.store.checkpoint(thread_id).await? {
            Some(checkpoint) if !checkpoint.activities.is_empty() => {
                let start = Start { update: Update::default(), channels: Purpose::Rest.channels() };
                Ok(Some(self.run(thread_id, start, model.as_ref(), (frames, cancel)).await?))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Returns a time at which the run's lease has ended: the present, or just after the lease when its process is
    /// known to be gone.
    fn after_lease(&self, run: &protocol::Run) -> Result<Timestamp> {
        let now = Timestamp::now();
        let Some(until) = run.lease_until else { return Ok(now) };
        let owner = run.lease_owner.as_deref().unwrap_or_default();
        if until < now {
            return Ok(now);
        }
        if owner == self.owner()? || !lease::is_gone(&self.settings.home.processes(), owner) {
            return Err(journal::Error::Busy { thread_id: run.thread_id, run_id: run.run_id }.into());
        }
        Ok(until + jiff::SignedDuration::from_millis(1))
    }

    /// Admits a run that begins with `start` and drives it until it rests.
    pub(crate) async fn run(
        &self,
        thread_id: ThreadId,
        start: Start,
        model: Option<&Arc<dyn ChatModel>>,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<RunEnd> {
        let assistant_id = self.thread(thread_id).await?.assistant_id;
        let driver = self.driver(&assistant_id, model)?;
        let admission = admission(thread_id, assistant_id, model, &driver.owner);
        let checkpoint = runtime::admit(&*self.store, &driver.graph, &admission, start).await?;
        Ok(driver.drive(&checkpoint, frames, cancel).await?)
    }

    /// Ends a run of the thread whose process is gone, without going on with it.
    pub(crate) async fn end_cut_off(&self, thread_id: ThreadId) -> Result<()> {
        if let Some(run) = self.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.after_lease(&run)?;
            runtime::give_up(&*self.store, &run, self.owner()?, now).await?;
        }
        Ok(())
    }
}

/// Returns the admission of a new run of `owner`.
pub(crate) fn admission(
    thread_id: ThreadId,
    assistant_id: AssistantId,
    model: Option<&Arc<dyn ChatModel>>,
    owner: &str,
) -> Admission {
    Admission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id,
        model: model.map(|model| model.name().to_string()),
        owner: owner.to_owned(),
        now: Timestamp::now(),
    }
}

/// Returns a thread in which nothing has happened.
pub(crate) fn blank(
    thread_id: ThreadId,
    assistant_id: AssistantId,
    name: Option<String>,
    now: Timestamp,
) -> Thread {
    Thread {
        thread_id,
        assistant_id,
        parent_id: None,
        parent_kind: None,
        name,
        status: ThreadStatus::Idle,
        metadata: Map::new(),
        first_prompt: None,
        message_count: 0,
        last_seq: 0,
        created_at: now,
        updated_at: now,
    }
}
