//! The input of a run: which of a client's messages the thread already has, which ones become events, and the
//! past checkpoint after which they are put.

use std::collections::BTreeSet;

use journal::Write;
use protocol::{CheckpointId, ContentBlock, FailureKind, Message, NewEvent, RunFailure};
use runtime::{GraphUpdate, RewindRequest};
use uuid::Uuid;

use super::RequestAdmission;
use super::refusal::{AdmissionRefusal, AdmissionResult};
use crate::runs::RunStartContent;
use crate::runs::request::messages::{InputMessage, MessageChange};
use crate::{Error, ThreadError};

/// The planned input of a run.
#[derive(Debug, Default)]
pub(super) struct InputPlan {
    /// The rewind that precedes the messages; `None` if they are appended to the current state.
    pub(super) rewind_target: Option<RewindRequest>,
    /// The messages as events, the artifacts in them, and other changes of the admission.
    pub(super) update: GraphUpdate,
    /// The next node at the point to which the thread is rewound.
    pub(super) next_node: Option<String>,
}

impl RequestAdmission<'_> {
    /// Plans the input of the run. `fork` is a past checkpoint after which the messages are put.
    ///
    /// Messages that the thread already has with the same content are left out. A message with the id of an
    /// existing one and different content replaces it: the thread is rewound to before it, and the messages
    /// after it are appended again.
    pub(super) async fn plan_input(
        &self,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<InputPlan> {
        let messages = self.drop_orphan_results(messages, fork).await?;
        let is_new = fork.is_none() && self.has_only_new_messages(&messages).await?;
        let mut messages = self.assign_message_ids(messages);
        if is_new {
            let artifacts = messages.iter_mut().flat_map(|message| std::mem::take(&mut message.artifacts));
            let writes: Vec<Write> = artifacts.map(Write::PutArtifact).collect();
            let new_messages = messages.into_iter().filter_map(|message| match message.change {
                MessageChange::Put(content) => Some((content, message.id)),
                MessageChange::Remove | MessageChange::RemoveAll => None,
            });
            let event = |(content, id): (Message, Option<String>)| {
                let event = NewEvent::from_message(&content, self.now)?;
                Ok(match id {
                    Some(id) => event.with_key(format!("message:{id}")),
                    None => event,
                })
            };
            let events = new_messages.map(event).collect::<Result<Vec<_>, serde_json::Error>>()?;
            return Ok(InputPlan {
                update: GraphUpdate { events, writes, ..GraphUpdate::default() },
                ..InputPlan::default()
            });
        }
        let branch = self
            .agent
            .threads()
            .branch_plan(self.thread.thread_id, fork, messages)
            .await
            .map_err(into_refusal)?;
        let update = GraphUpdate { events: branch.events, writes: branch.writes, ..GraphUpdate::default() };
        Ok(InputPlan { rewind_target: branch.rewind_target, update, next_node: branch.next_node })
    }

    /// Gives each message of a client without an id one that is derived from the run, so that a repeated
    /// admission produces the same ids. Messages of the terminal get none, because they are identified by
    /// their position.
    fn assign_message_ids(&self, messages: Vec<InputMessage>) -> Vec<InputMessage> {
        if !matches!(self.spec.content, RunStartContent::FromRequest) {
            return messages;
        }
        let assign_id = |(index, mut message): (usize, InputMessage)| {
            if let MessageChange::Put(content) = &mut message.change {
                let id = message.id.take().unwrap_or_else(|| {
                    let name = format!("input:{index}");
                    Uuid::new_v5(&self.spec.run_id.uuid(), name.as_bytes()).hyphenated().to_string()
                });
                match content {
                    Message::Human(content) => content.id = Some(id.clone()),
                    Message::Ai(content) => content.id = Some(id.clone()),
                    Message::Tool(content) => content.id = Some(id.clone()),
                }
                message.id = Some(id);
            }
            message
        };
        messages.into_iter().enumerate().map(assign_id).collect()
    }

    /// Drops tool results whose call does not exist or already has a result. The question of a handoff does
    /// not count as a call.
    async fn drop_orphan_results(
        &self,
        mut messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<Vec<InputMessage>> {
        if !messages.iter().any(|message| answered_call_id(message).is_some()) {
            return Ok(messages);
        }
        let thread_id = self.thread.thread_id;
        let existing_messages = match fork {
            Some(fork) => {
                self.agent.threads().state_at(thread_id, fork).await.map_err(into_refusal)?.messages
            }
            None => self.agent.threads().messages_after(thread_id, 0).await?,
        };
        let (mut open, mut known) = (BTreeSet::new(), BTreeSet::new());
        for existing in existing_messages {
            known.insert(existing.id.clone());
            if !existing.is_projected {
                track_calls(&existing.message, &mut open);
            }
        }
        messages.retain(|message| {
            // A message with a known id is kept, because it is compared with the existing one later.
            let is_known = message.id.as_ref().is_some_and(|id| known.contains(id));
            let is_retained =
                is_known || answered_call_id(message).is_none_or(|call_id| open.contains(call_id));
            if let MessageChange::Put(content) = &message.change {
                track_calls(content, &mut open);
            }
            is_retained
        });
        Ok(messages)
    }

    /// Returns whether all messages can simply be appended. The ids of a person's messages are looked up
    /// individually. Any other message with an id may be one of the thread's own, so that the result is
    /// `false`.
    pub(super) async fn has_only_new_messages(&self, messages: &[InputMessage]) -> AdmissionResult<bool> {
        let mut ids = BTreeSet::new();
        for message in messages {
            let MessageChange::Put(content) = &message.change else { return Ok(false) };
            // A message without an id gets a new one later.
            let Some(id) = &message.id else { continue };
            if !matches!(content, Message::Human(_)) || !ids.insert(id) {
                return Ok(false);
            }
            let (thread_id, key) = (self.thread.thread_id, format!("message:{id}"));
            let is_blank = self.thread.last_seq == 0;
            if !is_blank && self.agent.store.seq_of_event_key(thread_id, &key).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the id of the call whose result the message is.
fn answered_call_id(message: &InputMessage) -> Option<&str> {
    match &message.change {
        MessageChange::Put(Message::Tool(result)) => Some(&result.call_id),
        MessageChange::Put(Message::Human(_) | Message::Ai(_))
        | MessageChange::Remove
        | MessageChange::RemoveAll => None,
    }
}

/// Adds the calls of a message to `open`, or removes the call that it answers.
fn track_calls(message: &Message, open: &mut BTreeSet<String>) {
    match message {
        Message::Human(_) => {}
        Message::Ai(answer) => open.extend(answer.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall { id, .. } => Some(id.clone()),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        })),
        Message::Tool(result) => drop(open.remove(&result.call_id)),
    }
}

/// Converts invalid input into a failure of the client's run. Other errors stay errors of the call.
fn into_refusal(error: Error) -> AdmissionRefusal {
    match error {
        Error::Thread(ThreadError::UnknownCheckpoint { .. }) => {
            AdmissionRefusal::Fault(RunFailure::new(FailureKind::UnknownCheckpoint, error.to_string()))
        }
        Error::Thread(ThreadError::InvalidStateChange { .. }) => {
            AdmissionRefusal::Fault(RunFailure::new(FailureKind::InvalidUpdate, error.to_string()))
        }
        error => AdmissionRefusal::Error(error),
    }
}
