//! The acceptance service: what an accepted handoff does outside its parent's step (contract §7). One idempotent
//! saga, keyed by the handoff's id: every part notices what was done before.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffFilter, HandoffPatch, Store, ThreadPatch, Write};
use memory::{AgentFile, Written};
use protocol::event::body::{HandoffAccepted, HandoffExpired, HandoffSeeded, ThreadCreated};
use protocol::{
    AssistantId, Handoff, HandoffId, HandoffMark, HandoffStatus, NewEvent, ParentKind, PendingActivity,
    Proposal, Thread, ThreadStatus,
};
use runtime::{Activity, Channels, Failure, FailureKind, Frame, Frames, Update};
use serde_json::{Map, Value, json};

use crate::lifecycle::log::Line;
use crate::lifecycle::{Step, moved};
use crate::mirror::{self, Mirror};
use crate::request::tool;

/// The name the acceptance is stored under.
pub const ACCEPT_ACTIVITY: &str = "accept_handoff";

/// Handoffs that are looked at first for the newest pending one.
const NEWEST_FEW: usize = 8;

/// Gives each assistant's `agent.md`, the same value every time.
pub type AgentFiles = dyn Fn(&AssistantId) -> Arc<AgentFile> + Send + Sync;

/// Performs acceptances and keeps the managed block in step with the handoffs that are pending.
#[derive(Clone)]
pub struct Acceptance {
    /// Where threads and handoffs are.
    pub store: Arc<dyn Store>,
    /// Each assistant's `agent.md`: one value a file for as long as the process lives, because it watches the files
    /// it replaced for what an editor still appends to them.
    pub agent_md: Arc<AgentFiles>,
    /// Where accepted summaries are copied to.
    pub mirror: Mirror,
}

#[async_trait]
impl Activity for Acceptance {
    fn name(&self) -> &'static str {
        ACCEPT_ACTIVITY
    }

    async fn perform(&self, args: &Value, frames: &Frames) -> Result<Update, Failure> {
        let handoff_id = handoff_id(args)?;
        let iteration = args.get("iteration").and_then(Value::as_u64).unwrap_or(0);
        // Its row is in the outbox since the decision. Nothing here waits for it.
        self.mirror.begin();
        // A handoff whose record went with its threads has nothing left to do.
        let Some(handoff) = self.store.handoff(handoff_id).await? else { return Ok(Update::default()) };
        match handoff.status {
            HandoffStatus::Accepted => {
                self.seed(&handoff, &self.proposal(handoff_id, iteration).await?, frames).await
            }
            status => {
                Line::Skipped(&format!("it is {} already", status.as_str()))
                    .of(&handoff, self.accepted(&handoff).await?.as_ref());
                Ok(Update::default())
            }
        }
    }
}

/// Part one of the saga, durable together with the decision: the child, the marks on both threads, the status, the audit
/// event, the outbox row.
pub(crate) async fn accepted(
    store: &dyn Store,
    handoff: &Handoff,
    proposal: &Proposal,
    now: Timestamp,
) -> Result<Update, Failure> {
    let parent = handoff.parent_thread_id;
    let accepted = HandoffAccepted {
        handoff_id: handoff.handoff_id,
        iteration: proposal.iteration,
        summary_sha256: proposal.summary_sha256.clone(),
        child_thread_id: handoff.child_thread_id,
    };
    let accepted = NewEvent::of(&accepted, now)?;
    let origin = ThreadCreated::Handoff { handoff_id: handoff.handoff_id, parent_thread_id: parent };
    let created = NewEvent::of(&origin, now)?;
    let patch = HandoffPatch {
        iteration: Some(proposal.iteration),
        accepted_sha256: Some(proposal.summary_sha256.clone()),
        ..HandoffPatch::default()
    };
    let writes = vec![
        moved(handoff, Step::Accept, patch, now)?,
        Write::CreateThread(child(handoff, proposal, now)?),
        Write::Append { thread_id: handoff.child_thread_id, events: vec![created] },
        Write::UpdateThread { thread_id: parent, patch: parent_patch(store, handoff).await? },
        mirror::enqueue(handoff, now, now),
    ];
    let args = json!({
        "handoff_id": handoff.handoff_id, "iteration": proposal.iteration,
        "summary_sha256": proposal.summary_sha256,
    });
    let activities = vec![PendingActivity { name: ACCEPT_ACTIVITY.to_owned(), args }];
    Ok(Update { events: vec![accepted], writes, activities, ..Update::default() })
}

/// A parent that waits for its own first turn as a child keeps its mark: its summary is still due.
async fn parent_patch(store: &dyn Store, handoff: &Handoff) -> Result<ThreadPatch, Failure> {
    let parent = store.thread(handoff.parent_thread_id).await?;
    let own = parent.and_then(|parent| parent.handoff());
    let is_due =
        own.is_some_and(|mark| mark.child_thread_id == handoff.parent_thread_id && mark.cleanup_required);
    let last = json!({"handoff_id": handoff.handoff_id, "child_thread_id": handoff.child_thread_id});
    let mut metadata = Map::from_iter([(HandoffMark::LAST_KEY.to_owned(), last)]);
    if !is_due {
        metadata.insert(HandoffMark::KEY.to_owned(), serde_json::to_value(mark(handoff))?);
    }
    Ok(ThreadPatch { metadata, ..ThreadPatch::default() })
}

impl Acceptance {
    /// Part two: the block, then the status. A file that cannot be written does not undo the acceptance: the child
    /// gets its summary from the handoff's row, and the failure is shown and kept.
    async fn seed(&self, handoff: &Handoff, proposal: &Proposal, frames: &Frames) -> Result<Update, Failure> {
        let file = (self.agent_md)(&handoff.assistant_id);
        let path = file.path().to_owned();
        let written = match self.is_shown(handoff).await? {
            true => write_block(file, proposal.summary_md.clone()).await.map(|written| written.repair),
            false => Ok(None),
        };
        if let Ok(Some(repair)) = &written {
            let backup = repair.backup.display();
            let text =
                format!("The block's markers in agent.md were put in order; the file as it was is {backup}.");
            frames.send(Frame::Notice { text });
        }
        if let Err(problem) = &written {
            Line::NotSeeded(problem).of(handoff, Some(proposal));
            frames.send(Frame::Notice {
                text: format!(
                    "{problem}. The new thread has its summary all the same; `segue doctor` tells more."
                ),
            });
        }
        let now = Timestamp::now();
        let note = written.err();
        let seeded = HandoffSeeded { handoff_id: handoff.handoff_id, file: path, error: note.clone() };
        let events = vec![NewEvent::of(&seeded, now)?];
        let patch = HandoffPatch { note, ..HandoffPatch::default() };
        let writes = vec![moved(handoff, Step::Seed, patch, now)?];
        Line::Succeeded.of(handoff, Some(proposal));
        Ok(Update { events, writes, ..Update::default() })
    }

    /// Makes the block of `handoff` go away: the file then shows the newest other pending summary of the
    /// assistant, or the placeholder. A block that shows something else is left alone.
    ///
    /// # Errors
    /// One line that says what could not be read or written.
    pub async fn withdraw(&self, handoff: &Handoff) -> Result<(), String> {
        let failed = |error: journal::Error| error.to_string();
        let own = self.accepted(handoff).await.map_err(failed)?;
        let other = match self.newest_other(handoff).await.map_err(failed)? {
            Some(other) => self.accepted(&other).await.map_err(failed)?,
            None => None,
        };
        let file = (self.agent_md)(&handoff.assistant_id);
        let Some(own) = own else { return Ok(()) };
        let now = Timestamp::now();
        blocking(move || match other {
            Some(other) => file.swap_block(&own.summary_md, &other.summary_md, now),
            None => file.clear_block(&own.summary_md, now),
        })
        .await
        .map(drop)
    }

    /// Returns the summary that was accepted; `None` before that.
    pub async fn accepted(&self, handoff: &Handoff) -> journal::Result<Option<Proposal>> {
        let Some(sha256) = &handoff.accepted_sha256 else { return Ok(None) };
        let proposals = self.store.proposals(handoff.handoff_id).await?;
        Ok(proposals.into_iter().find(|proposal| proposal.summary_sha256 == *sha256))
    }

    /// Returns the newest other handoff of the assistant whose child waits for its first turn.
    async fn newest_other(&self, handoff: &Handoff) -> journal::Result<Option<Handoff>> {
        // Nearly always one of the newest few is it; only when none is are all of them looked at.
        for limit in [Some(NEWEST_FEW), None] {
            let filter = HandoffFilter {
                assistant_id: Some(handoff.assistant_id.clone()),
                statuses: vec![HandoffStatus::Seeded],
                limit,
                ..HandoffFilter::default()
            };
            for candidate in self.store.handoffs(filter).await? {
                if candidate.handoff_id != handoff.handoff_id && self.is_pending(&candidate).await? {
                    return Ok(Some(candidate));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the file shall show this handoff: its child is there and waits, and none was asked for later.
    /// That is so when it was just accepted, and not always when an acceptance is finished after a crash.
    async fn is_shown(&self, handoff: &Handoff) -> journal::Result<bool> {
        let newer = self.newest_other(handoff).await?.filter(|other| other.created_at > handoff.created_at);
        Ok(newer.is_none() && self.is_pending(handoff).await?)
    }

    async fn is_pending(&self, handoff: &Handoff) -> journal::Result<bool> {
        let child = self.store.thread(handoff.child_thread_id).await?;
        let mark = child.and_then(|child| child.handoff());
        Ok(mark.is_some_and(|mark| mark.handoff_id == handoff.handoff_id && mark.pending))
    }

    async fn proposal(&self, handoff_id: HandoffId, iteration: u64) -> Result<Proposal, Failure> {
        let proposals = self.store.proposals(handoff_id).await?;
        let found = proposals.into_iter().find(|proposal| u64::from(proposal.iteration) == iteration);
        found.ok_or_else(|| {
            Failure::new(FailureKind::Internal, format!("find proposal {iteration} of handoff {handoff_id}"))
        })
    }
}

pub(crate) fn handoff_id(args: &Value) -> Result<HandoffId, Failure> {
    let text = args.get("handoff_id").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|error| Failure::new(FailureKind::Internal, format!("read an activity: {error}")))
}

async fn write_block(file: Arc<AgentFile>, summary: String) -> Result<Written, String> {
    blocking(move || file.write_block(&summary, Timestamp::now())).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, memory::Error> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("write the summary block: the writer stopped".to_owned()),
    }
}

fn child(handoff: &Handoff, proposal: &Proposal, now: Timestamp) -> Result<Thread, serde_json::Error> {
    let pending = HandoffMark { pending: true, cleanup_required: true, ..mark(handoff) };
    let metadata = Map::from_iter([(HandoffMark::KEY.to_owned(), serde_json::to_value(pending)?)]);
    Ok(Thread {
        thread_id: handoff.child_thread_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_id: Some(handoff.parent_thread_id),
        parent_kind: Some(ParentKind::Handoff),
        name: Some(proposal.summary_json.title.clone()),
        status: ThreadStatus::Idle,
        metadata,
        first_prompt: None,
        message_count: 0,
        last_seq: 0,
        created_at: now,
        updated_at: now,
    }
    .stamped())
}

/// The mark as the parent carries it: nothing of it is due there.
fn mark(handoff: &Handoff) -> HandoffMark {
    HandoffMark {
        handoff_id: handoff.handoff_id,
        source_thread_id: handoff.parent_thread_id,
        child_thread_id: handoff.child_thread_id,
        pending: false,
        cleanup_required: false,
        created_at: handoff.created_at,
        last_cleanup_at: None,
    }
}

/// Returns the writes that give up a handoff nobody can answer any more, because the thread was taken back to before
/// it was asked about.
pub fn rewound(handoff: &Handoff, at: Timestamp) -> Vec<Write> {
    expire(handoff, "the thread was rewound to before it", at).into_iter().collect()
}

/// Returns the writes that give up a handoff nobody decided, in a thread with these channels.
pub fn expired(
    handoff: &Handoff,
    channels: &Channels,
    at: Timestamp,
) -> Result<Vec<Write>, serde_json::Error> {
    let mut events = vec![NewEvent::of(&HandoffExpired { handoff_id: handoff.handoff_id }, at)?];
    events.extend(tool::unanswered(channels, at)?);
    let append = Write::Append { thread_id: handoff.parent_thread_id, events };
    Ok(expire(handoff, UNDECIDED, at).into_iter().chain([append]).collect())
}

/// Why a handoff is given up that waited for too long.
pub const UNDECIDED: &str = "nobody decided";

fn expire(handoff: &Handoff, why: &str, at: Timestamp) -> Option<Write> {
    let patch = HandoffPatch { note: Some(why.to_owned()), ..HandoffPatch::default() };
    moved(handoff, Step::Expire, patch, at).ok()
}

/// Returns the writes that end an accepted handoff whose child goes away.
pub fn settled(handoff: &Handoff, at: Timestamp) -> Vec<Write> {
    let patch = HandoffPatch { note: Some("the child was deleted".to_owned()), ..HandoffPatch::default() };
    let mut handoff = handoff.clone();
    let mut writes = Vec::new();
    for step in [Step::Seed, Step::Clean] {
        if let Ok(write) = moved(&handoff, step, patch.clone(), at) {
            handoff.status = if step == Step::Seed { HandoffStatus::Seeded } else { HandoffStatus::Cleaned };
            writes.push(write);
        }
    }
    writes
}
