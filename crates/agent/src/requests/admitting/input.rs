//! What is put into a thread with a run: the messages of a client as events, whatever of them the thread has already, and
//! the point of its past that they go behind.

use protocol::{FailureKind, RunFailure};
use std::collections::BTreeSet;

use journal::Write;
use protocol::{Block, CheckpointId, Message, NewEvent};
use runtime::{BackTo, Update};
use uuid::Uuid;

use super::Admitting;
use super::refused::{Refused, Tried};
use crate::requests::What;
use crate::requests::messages::{Change, InputMessage};
use crate::{Error, ThreadError};

/// What goes into a thread with a run.
#[derive(Debug, Default)]
pub(super) struct PutIn {
    /// The point of the past it goes behind; `None` is where the thread stands.
    pub(super) back_to: Option<BackTo>,
    /// The messages, the bytes of images and files in them, and what else changes with the admission.
    pub(super) update: Update,
    /// The node that was to come next at that point.
    pub(super) next: Option<String>,
}

impl Admitting<'_> {
    /// Works out what goes into the thread. `fork` is a point of its past. Messages the thread has already in the same
    /// words are left out; one in other words takes the place of the one there is, with what follows it said again.
    pub(super) async fn put_in(
        &self,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<PutIn> {
        let messages = self.of_calls(messages, fork).await?;
        let is_new = fork.is_none() && self.are_new(&messages).await?;
        let mut messages = self.own(messages);
        if is_new {
            let artifacts = messages.iter_mut().flat_map(|message| std::mem::take(&mut message.artifacts));
            let writes: Vec<Write> = artifacts.map(Write::PutArtifact).collect();
            let said = messages.into_iter().filter_map(|message| match message.change {
                Change::Put(said) => Some((said, message.id)),
                Change::Remove | Change::RemoveAll => None,
            });
            let event = |(said, id): (Message, Option<String>)| {
                let event = NewEvent::message(&said, self.now)?;
                Ok(match id {
                    Some(id) => event.keyed(format!("message:{id}")),
                    None => event,
                })
            };
            let events = said.map(event).collect::<Result<Vec<_>, serde_json::Error>>()?;
            return Ok(PutIn { update: Update { events, writes, ..Update::default() }, ..PutIn::default() });
        }
        let beginning =
            self.agent.threads().beginning(self.thread.thread_id, fork, messages).await.map_err(refused)?;
        let update = Update { events: beginning.events, writes: beginning.writes, ..Update::default() };
        Ok(PutIn { back_to: beginning.back, update, next: beginning.next })
    }

    /// Gives every message of a client that has no id one that follows from the run. What a person says at the terminal is
    /// known by its position.
    fn own(&self, messages: Vec<InputMessage>) -> Vec<InputMessage> {
        if !matches!(self.beginning.what, What::Requested) {
            return messages;
        }
        let own = |(index, mut message): (usize, InputMessage)| {
            if let Change::Put(said) = &mut message.change {
                let id = message.id.take().unwrap_or_else(|| {
                    let name = format!("input:{index}");
                    Uuid::new_v5(&self.beginning.run_id.uuid(), name.as_bytes()).hyphenated().to_string()
                });
                match said {
                    Message::Human(said) => said.id = Some(id.clone()),
                    Message::Ai(said) => said.id = Some(id.clone()),
                    Message::Tool(said) => said.id = Some(id.clone()),
                }
                message.id = Some(id);
            }
            message
        };
        messages.into_iter().enumerate().map(own).collect()
    }

    /// Leaves out results that are of no call, or of one that has its result. A question about a handoff is no call.
    async fn of_calls(
        &self,
        mut messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<Vec<InputMessage>> {
        if !messages.iter().any(|message| result_of(message).is_some()) {
            return Ok(messages);
        }
        let thread_id = self.thread.thread_id;
        let held = match fork {
            Some(fork) => self.agent.threads().state_at(thread_id, fork).await.map_err(refused)?.messages,
            None => self.agent.threads().messages_after(thread_id, 0).await?,
        };
        let (mut open, mut known) = (BTreeSet::new(), BTreeSet::new());
        for shown in held {
            known.insert(shown.id.clone());
            if !shown.is_projected {
                see(&shown.message, &mut open);
            }
        }
        messages.retain(|message| {
            // One that is said again is compared with what there is.
            let is_known = message.id.as_ref().is_some_and(|id| known.contains(id));
            let is_kept = is_known || result_of(message).is_none_or(|call_id| open.contains(call_id));
            if let Change::Put(said) = &message.change {
                see(said, &mut open);
            }
            is_kept
        });
        Ok(messages)
    }

    /// Returns whether the messages can only come behind those there are. Ids that a person's client made are looked for
    /// one by one; whatever else has an id may be of ours.
    pub(super) async fn are_new(&self, messages: &[InputMessage]) -> Tried<bool> {
        let mut ids = BTreeSet::new();
        for message in messages {
            let Change::Put(said) = &message.change else { return Ok(false) };
            // One without an id gets one that nothing has.
            let Some(id) = &message.id else { continue };
            if !matches!(said, Message::Human(_)) || !ids.insert(id) {
                return Ok(false);
            }
            let (thread_id, key) = (self.thread.thread_id, format!("message:{id}"));
            let is_blank = self.thread.last_seq == 0;
            if !is_blank && self.agent.store.seq_of_key(thread_id, &key).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the call that the message is the result of.
fn result_of(message: &InputMessage) -> Option<&str> {
    match &message.change {
        Change::Put(Message::Tool(result)) => Some(&result.call_id),
        Change::Put(Message::Human(_) | Message::Ai(_)) | Change::Remove | Change::RemoveAll => None,
    }
}

/// Notes which calls a message opens or closes.
fn see(message: &Message, open: &mut BTreeSet<String>) {
    match message {
        Message::Human(_) => {}
        Message::Ai(answer) => open.extend(answer.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, .. } => Some(id.clone()),
            Block::Text { .. } | Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => None,
        })),
        Message::Tool(result) => drop(open.remove(&result.call_id)),
    }
}

fn refused(error: Error) -> Refused {
    match error {
        Error::Thread(ThreadError::UnknownCheckpoint { .. }) => {
            Refused::Fault(RunFailure::new(FailureKind::UnknownCheckpoint, error.to_string()))
        }
        Error::Thread(ThreadError::StateChange { .. }) => {
            Refused::Fault(RunFailure::new(FailureKind::InvalidUpdate, error.to_string()))
        }
        error => Refused::Error(error),
    }
}
