//! Rewinding a thread, and forking it at a point. A rewind hides events; the journal keeps them.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{EventQuery, SupersededVisibility, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::event::metadata::EventMetadata;
use protocol::{
    Category, CheckpointEntry, CheckpointId, CheckpointSource, Event, Message, NewEvent, ParentKind, Seq,
    Thread, ThreadId,
};
use runtime::RewindRequest;
use serde::Serialize;

use super::rollback::{RollbackEffects, RollbackPlan};
use crate::ThreadService;
use crate::workspace::WORKSPACE_KEY;
use crate::{Error, Result, ThreadError};

/// Maximum number of attempts of a rewind while other processes change the thread at the same time.
const REWIND_ATTEMPTS_MAX: u32 = 8;
/// Messages per page when the messages of people are searched.
const PROMPTS_PAGE_ROWS: usize = 200;

/// A person's message as a target of a rewind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UserPrompt {
    /// The seq of the message.
    pub seq: Seq,
    /// The time of the message.
    pub created_at: Timestamp,
    /// The text of the message.
    pub text: String,
}

/// The result of a rewind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RewindResult {
    /// The seq of the last event that stays visible.
    pub keep_seq: Seq,
    /// The number of messages that were hidden.
    pub superseded: u64,
}

impl<'a> ThreadService<'a> {
    /// Returns the newest messages of people in the thread, newest first, at most `limit`.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn prompts(self, thread_id: ThreadId, limit: usize) -> BoxFuture<'a, Result<Vec<UserPrompt>>> {
        journal::box_future(async move {
            let mut prompts = Vec::new();
            let mut before = None;
            while prompts.len() < limit {
                let query = EventQuery {
                    before,
                    categories: vec![Category::Message],
                    limit: PROMPTS_PAGE_ROWS,
                    ..EventQuery::default()
                };
                let page = self.agent.store.events(thread_id, query).await?;
                prompts.extend(page.iter().rev().filter_map(user_prompt));
                before = page.first().map(|event| event.seq);
                if page.len() < PROMPTS_PAGE_ROWS {
                    break;
                }
            }
            prompts.truncate(limit);
            Ok(prompts)
        })
    }

    /// Returns the checkpoints that a rewind or a fork can name, newest first.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn checkpoints(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<CheckpointEntry>>> {
        journal::box_future(async move {
            let points =
                self.agent.store.checkpoints(thread_id, before, limit, SupersededVisibility::Hidden).await?;
            Ok(points.into_iter().filter(|point| point.source != CheckpointSource::Rewind).collect())
        })
    }

    /// Rewinds the thread to `keep_seq`: later events are hidden, and the state becomes that of the newest
    /// checkpoint up to that event. Files that tools changed are not restored.
    ///
    /// # Errors
    /// [`ThreadError::UnknownEvent`] if `keep_seq` is after the last event. Also fails if a run is active, or
    /// if the journal fails.
    pub fn rewind(self, thread_id: ThreadId, keep_seq: Seq) -> BoxFuture<'a, Result<RewindResult>> {
        journal::box_future(async move {
            let mut attempts_left = REWIND_ATTEMPTS_MAX;
            loop {
                attempts_left -= 1;
                match self.attempt_rewind(thread_id, keep_seq).await {
                    Err(Error::Journal(error)) if error.is_checkpoint_conflict() && attempts_left > 0 => {}
                    result => return result,
                }
            }
        })
    }

    /// Rewinds the thread as [`Self::rewind`] does.
    ///
    /// # Errors
    /// As [`Self::rewind`], and with a conflict of checkpoints if another process changed the thread meanwhile.
    async fn attempt_rewind(self, thread_id: ThreadId, keep_seq: Seq) -> Result<RewindResult> {
        let last_seq = self.agent.thread(thread_id).await?.last_seq;
        if keep_seq > last_seq {
            return Err(ThreadError::UnknownEvent { thread_id, seq: keep_seq, last_seq }.into());
        }
        self.agent.runs().end_orphaned_run(thread_id).await?;
        let now = Timestamp::now();
        let head = self.agent.store.checkpoint(thread_id).await?;
        let RollbackEffects { superseded_count: superseded, writes: extra_writes, .. } =
            self.rollback_effects(thread_id, keep_seq, now).await?;
        let (checkpoint_id, channels) = self.state_at_seq(thread_id, keep_seq).await?;
        let target = RewindRequest { keep_seq, superseded, channels, checkpoint_id };
        let writes = RollbackPlan { target, extra_writes, ..RollbackPlan::default() }
            .rollback_writes(thread_id, head, now)?;
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(RewindResult { keep_seq, superseded })
    }

    /// Copies the thread's transcript, up to and including `until`, into a new thread.
    ///
    /// # Errors
    /// [`ThreadError::UnknownEvent`] if `until` is after the last event. Also fails if the thread does not
    /// exist, or if the journal fails.
    pub fn fork(self, thread_id: ThreadId, until: Option<Seq>) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let parent = self.agent.thread(thread_id).await?;
            if let Some(seq) = until.filter(|until| *until > parent.last_seq) {
                return Err(ThreadError::UnknownEvent { thread_id, seq, last_seq: parent.last_seq }.into());
            }
            let now = Timestamp::now();
            let mut thread = Thread::blank(ThreadId::generate(), parent.assistant_id.clone(), now);
            thread.name = parent.name.as_ref().map(|name| format!("{name} (fork)"));
            thread
                .metadata
                .extend(parent.metadata.get_key_value(WORKSPACE_KEY).map(|(k, v)| (k.clone(), v.clone())));
            let into = thread.thread_id;
            thread.parent_id = Some(thread_id);
            thread.parent_kind = Some(ParentKind::Fork);
            let origin = ThreadCreated::Fork { parent_thread_id: Some(thread_id), until };
            let created = NewEvent::from_body(&origin, now)?;
            let writes = vec![
                Write::CreateThread(thread.with_assistant_metadata()),
                Write::CopyEvents { from: thread_id, until, into },
                Write::Append { thread_id: into, events: vec![created] },
            ];
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            self.agent.thread(into).await
        })
    }
}

/// Returns a person's message as a target of a rewind. Returns `None` for other events, and for text of an imported session that
/// its harness wrote in the person's name or that a sub-agent received.
fn user_prompt(event: &Event) -> Option<UserPrompt> {
    let EventMetadata { side, injected, .. } = event.parsed_metadata();
    match event.message() {
        Some(message @ Message::Human(_)) if !side && !injected => {
            Some(UserPrompt { seq: event.seq, created_at: event.created_at, text: message.text() })
        }
        Some(Message::Human(_) | Message::Ai(_) | Message::Tool(_)) | None => None,
    }
}
