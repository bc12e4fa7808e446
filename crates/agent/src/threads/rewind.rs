//! Taking a thread back, and copying it up to a point. The journal keeps what is taken back; it is only out of sight.

use jiff::Timestamp;
use journal::{EventQuery, Superseded, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::{
    Category, CheckpointId, CheckpointSource, Event, Message, NewEvent, ParentKind, Seq, StepPoint, Thread,
    ThreadId,
};
use runtime::BackTo;
use serde::Serialize;

use super::back::{GoingBack, GoneWith};
use crate::agent::services::ThreadService;
use crate::workspace::WORKSPACE_KEY;
use crate::{Result, ThreadError};

/// Messages read at a time when a person's messages are looked for.
const PROMPTS_PAGE_ROWS: usize = 200;

/// A message of a person, as a place to go back to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prompt {
    /// Its position.
    pub seq: Seq,
    /// When it was said.
    pub created_at: Timestamp,
    /// What was said.
    pub text: String,
}

/// What a rewind did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewound {
    /// The last event that stays in sight.
    pub keep_seq: Seq,
    /// How many messages are out of sight.
    pub superseded: u64,
}

impl ThreadService<'_> {
    /// Returns the newest messages of people in the thread, newest first, up to `limit`.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn prompts(self, thread_id: ThreadId, limit: usize) -> Result<Vec<Prompt>> {
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
            prompts.extend(page.iter().rev().filter_map(prompt));
            before = page.first().map(|event| event.seq);
            if page.len() < PROMPTS_PAGE_ROWS {
                break;
            }
        }
        prompts.truncate(limit);
        Ok(prompts)
    }

    /// Returns the points of the thread's past that a rewind or a fork can name, newest first.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn checkpoints(
        self,
        thread_id: ThreadId,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> Result<Vec<StepPoint>> {
        let points = self.agent.store.checkpoints(thread_id, before, limit, Superseded::Hidden).await?;
        Ok(points.into_iter().filter(|point| point.source != CheckpointSource::Rewind).collect())
    }

    /// Takes the thread back to where it was at `keep_seq`: what came after is out of sight, and the state is that of
    /// the newest checkpoint up to there. Files that tools changed stay as they are.
    ///
    /// # Errors
    /// When a run is active, or the journal fails.
    pub async fn rewind(self, thread_id: ThreadId, keep_seq: Seq) -> Result<Rewound> {
        let last_seq = self.agent.thread(thread_id).await?.last_seq;
        if keep_seq > last_seq {
            return Err(ThreadError::UnknownEvent { thread_id, seq: keep_seq, last_seq }.into());
        }
        self.agent.runs().end_cut_off(thread_id).await?;
        let now = Timestamp::now();
        let head = self.agent.store.checkpoint(thread_id).await?;
        let GoneWith { superseded, writes: beside, .. } = self.gone_with(thread_id, keep_seq, now).await?;
        let (checkpoint_id, channels) = self.stood_at(thread_id, keep_seq).await?;
        let back = BackTo { keep_seq, superseded, channels, checkpoint_id };
        let writes = GoingBack { back, beside, ..GoingBack::default() }.writes(thread_id, head, now)?;
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(Rewound { keep_seq, superseded })
    }

    /// Copies the thread's transcript, up to and including `until`, into a new thread.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn fork(self, thread_id: ThreadId, until: Option<Seq>) -> Result<Thread> {
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
        let created = NewEvent::of(&origin, now)?;
        let writes = vec![
            Write::CreateThread(thread.stamped()),
            Write::CopyEvents { from: thread_id, until, into },
            Write::Append { thread_id: into, events: vec![created] },
        ];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(into).await
    }
}

fn prompt(event: &Event) -> Option<Prompt> {
    match event.message() {
        Some(message @ Message::Human(_)) => {
            Some(Prompt { seq: event.seq, created_at: event.created_at, text: message.text() })
        }
        Some(Message::Ai(_) | Message::Tool(_)) | None => None,
    }
}
