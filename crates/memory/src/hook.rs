//! The hook that puts agent.md into every model request, and a child's summary into its first turn only.

use std::path::PathBuf;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::Store;
use model::ChatRequest;
use protocol::{EventType, NewEvent, Thread};
use runtime::{Failure, FailureKind, Frame, Hook, StepContext, Update};
use serde_json::json;

use crate::file::AgentFile;
use crate::inject::{Section, prompt_section};

/// Re-reads agent.md for every request, so that an edit on disk is seen by the next turn.
pub struct AgentMdHook {
    /// The assistant's agent.md.
    pub path: PathBuf,
}

#[async_trait]
impl Hook for AgentMdHook {
    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        let thread = step.store.thread(step.thread_id).await?;
        let summary = match &thread {
            Some(thread) => summary_of(&**step.store, thread).await?,
            None => None,
        };
        let snapshot = match AgentFile::new(&self.path).read() {
            Ok(snapshot) => snapshot,
            Err(error) if summary.is_some() => {
                // The summary comes from the handoff's row, so the child goes on without the file.
                step.frames.send(Frame::Notice { text: format!("failed to {error}") });
                crate::Snapshot::default()
            }
            Err(error) => {
                let hint = error.hint();
                return Err(Failure::new(FailureKind::Config, error.to_string()).with_hint(hint));
            }
        };
        let section = prompt_section(&snapshot, summary.as_deref());
        request.system.push(section.text.clone());
        Ok(Update { events: vec![recorded(&section)?], ..Update::default() })
    }
}

/// Returns the summary that `thread` is due: it is a child, and its first turn is not complete. The handoff's row is
/// the truth, whatever the file shows.
///
/// # Errors
/// When the journal fails.
pub async fn summary_of(store: &dyn Store, thread: &Thread) -> journal::Result<Option<String>> {
    let Some(mark) = thread.handoff().filter(|mark| mark.pending && mark.child_thread_id == thread.thread_id)
    else {
        return Ok(None);
    };
    let Some(handoff) = store.handoff(mark.handoff_id).await? else { return Ok(None) };
    let proposals = store.proposals(mark.handoff_id).await?;
    let accepted =
        proposals.into_iter().find(|p| Some(&p.summary_sha256) == handoff.accepted_sha256.as_ref());
    Ok(accepted.map(|proposal| proposal.summary_md))
}

/// The texts are known by their hashes; storing them again with every run would double the journal.
fn recorded(section: &Section) -> Result<NewEvent, serde_json::Error> {
    let sources: Vec<_> =
        section.sources.iter().map(|source| json!({"name": source.name, "sha256": source.sha256})).collect();
    let content = json!({"sources": sources});
    let key = format!("memory_read:{}", crate::file::sha256(content.to_string().as_bytes()));
    Ok(NewEvent::new(EventType::MemoryRead, &content, Timestamp::now())?.keyed(key))
}
