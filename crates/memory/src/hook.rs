//! The hook of agent.md: adds the file to every model request and, to those of a child thread, the summary that it was
//! handed, and ensures that no tool call changes the managed block or leaves a secret in the file.

pub(crate) mod inherited_summary;
pub(crate) mod lru_cache;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use model::ChatRequest;
use protocol::event::body::{MemoryRead, MemorySource};
use protocol::{ContentBlock, NewEvent, RunRef, ToolStatus};
use runtime::{
    Channels, FailureKind, Frame, GraphUpdate, Hook, HookPoint, StepContext, StepFailure, ToolCall,
    ToolCallHandler, ToolOutput,
};

use crate::edit::tool::{EDIT_MEMORY, redaction_notice};
use crate::file::project_notes::NotesScope;
use crate::file::tamper_guard::{TamperBaseline, TamperKind, TamperRepair};
use crate::file::{AGENT_MD_BYTES_MAX, AgentFile};
use crate::hook::inherited_summary::SummaryRetention;
use crate::hook::lru_cache::LruCache;
use crate::prompt::{InheritedSummary, PromptSection, build_prompt_section};
use crate::{AgentFileSnapshot, Error, ReadExtent};

/// Adds agent.md to every model request and guards the file during tool calls.
///
/// The file is checked before every request, so that an edit on disk takes effect at once. An unchanged file
/// costs only a check of its metadata.
pub struct AgentMdHook {
    file: Arc<AgentFile>,
    /// The notes that conversations see.
    scope: NotesScope,
    /// How long a child thread is sent its summary.
    retention: SummaryRetention,
    /// The handed-over summaries of each run's thread. They are constant for a whole run, because whether it applies
    /// is decided by the turns before.
    summaries: LruCache<RunRef, Arc<Vec<InheritedSummary>>>,
}

impl AgentMdHook {
    /// Returns the hook for the assistant's agent.md, with the notes of all projects. Pass the process's single
    /// [`AgentFile`] of that path.
    pub fn new(file: Arc<AgentFile>, retention: SummaryRetention) -> Self {
        Self { file, scope: NotesScope::AllProjects, retention, summaries: LruCache::default() }
    }

    /// Returns the hook with the notes of another scope.
    #[must_use]
    pub fn with_scope(self, scope: NotesScope) -> Self {
        Self { scope, ..self }
    }

    /// Returns the handed-over summaries of the run's thread. Reads them on the first request of a run.
    async fn load_summaries(&self, step: &StepContext<'_>) -> journal::Result<Arc<Vec<InheritedSummary>>> {
        let run = step.run_ref();
        if let Some(summaries) = self.summaries.get(run) {
            return Ok(summaries);
        }
        let summaries =
            inherited_summary::find_inherited_summaries(&**step.store, step.thread_id, self.retention)
                .await?;
        let bytes = summaries.iter().map(|summary| summary.package_md.len()).sum();
        let summaries = Arc::new(summaries);
        self.summaries.insert(run, Arc::clone(&summaries), bytes);
        Ok(summaries)
    }

    /// Returns the prompt section for the request. A child continues with its summary alone when the file is
    /// unreadable.
    fn build_section(
        &self,
        summaries: &[InheritedSummary],
        step: &StepContext<'_>,
    ) -> Result<PromptSection, StepFailure> {
        match (self.file.read_cached(), summaries) {
            (Ok(reading), []) => Ok(reading.prompt_section(&self.scope)),
            (Ok(reading), _) => Ok(build_prompt_section(&reading.snapshot, &self.scope, summaries)),
            (Err(error), [_, ..]) => {
                // The summary comes from the handoff's row, so the child can continue without the file.
                step.frames.send(Frame::Notice { text: format!("failed to {error}") });
                Ok(build_prompt_section(&AgentFileSnapshot::default(), &self.scope, summaries))
            }
            (Err(error), []) => {
                Err(StepFailure::new(FailureKind::Config, error.to_string()).with_hint(error.hint()))
            }
        }
    }

    /// Restores the file if it was tampered with since `baseline`. Returns the notice for the model and the user
    /// about the repair or its failure. Returns `None` when nothing had to be repaired.
    ///
    /// An unchanged file costs only a check of its metadata.
    async fn repair_after_call(&self, baseline: TamperBaseline) -> Option<String> {
        if self.file.is_unchanged_since(&baseline) {
            return None;
        }
        let file = Arc::clone(&self.file);
        let result = tokio::task::spawn_blocking(move || file.undo_tampering(&baseline)).await;
        match result.unwrap_or_else(|_| Err(self.guard_panicked_error())) {
            Ok(repair) => repair_notice(repair),
            Err(error) => Some(format!(
                "agent.md was changed while this call ran, and its block could not be checked or put back: failed \
                 to {error}. To do: {}.",
                error.hint()
            )),
        }
    }

    /// Returns the error for a tamper guard that panicked.
    fn guard_panicked_error(&self) -> Error {
        let source = std::io::Error::other("the guard broke off");
        Error::Io { action: "check", path: self.file.path().to_owned(), source }
    }
}

/// Returns the notice about a repair, or `None` when nothing was repaired.
fn repair_notice(repair: TamperRepair) -> Option<String> {
    let restored = match repair.kind {
        None => None,
        Some(TamperKind::Block) => Some(format!(
            "agent.md: the block between {} and {} was changed while this call ran. Only Segue writes it; it has \
                 been put back, other changes stay. To change the notes around it, use {EDIT_MEMORY}.",
            crate::managed_block::OPEN_TAG,
            crate::managed_block::CLOSE_TAG
        )),
        Some(TamperKind::File) => Some(format!(
            "agent.md was deleted while this call ran. It has been restored. To change it, use {EDIT_MEMORY}."
        )),
    };
    let redacted = (repair.redacted_secrets > 0).then(|| redaction_notice(repair.redacted_secrets));
    let notices: Vec<String> = restored.into_iter().chain(redacted).collect();
    (!notices.is_empty()).then(|| notices.join(" "))
}

#[async_trait]
impl Hook for AgentMdHook {
    fn name(&self) -> &'static str {
        "AgentMemory"
    }

    /// Only `before_agent` has work to do: it reports, once a turn, that a file is too long for the model. An
    /// unreadable file is reported by the model request that needs it.
    fn can_skip(&self, point: HookPoint, _channels: &Channels) -> bool {
        match point {
            HookPoint::BeforeAgent => false,
            HookPoint::AfterModel | HookPoint::AfterAgent => true,
        }
    }

    /// Sends a notice if the file is too long for the model.
    async fn before_agent(&self, step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        if self.file.read_cached().is_ok_and(|reading| reading.snapshot.extent == ReadExtent::Beginning) {
            let path = self.file.path().display();
            let text =
                format!("{path} is longer than {AGENT_MD_BYTES_MAX} bytes; the model sees its beginning");
            step.frames.send(Frame::Notice { text });
        }
        Ok(GraphUpdate::default())
    }

    /// Appends the section to the system prompt, and records its sources as an event. The section is marked as
    /// volatile, so that the provider's cache covers the parts before it.
    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let summaries = self.load_summaries(step).await?;
        let section = self.build_section(&summaries, step)?;
        let event = memory_read_event(&section)?;
        request.system.push(section.text);
        request.system_volatile += 1;
        Ok(GraphUpdate { events: vec![event], ..GraphUpdate::default() })
    }

    /// Checks the file after a tool call and undoes tampering. The call's result then becomes an error with the notice.
    ///
    /// `edit_memory` is exempt, because it cannot change the block. If the file is unreadable before the call, the
    /// call runs without the guard and a notice says so.
    async fn wrap_tool_call(
        &self,
        step: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        if call.name == EDIT_MEMORY {
            return next.run(call).await;
        }
        let baseline = match self.file.take_baseline() {
            Ok(baseline) => baseline,
            Err(error) => {
                let text = format!("agent.md is not guarded while `{}` runs: failed to {error}", call.name);
                step.frames.send(Frame::Notice { text });
                return next.run(call).await;
            }
        };
        let result = next.run(call).await;
        let Some(text) = self.repair_after_call(baseline).await else { return result };
        step.frames.send(Frame::Notice { text: text.clone() });
        result.map(|mut output| {
            output.status = ToolStatus::Error;
            output.content.push(ContentBlock::text(text));
            output
        })
    }
}

/// Returns the `memory_read` event with the hashes of the sources. The texts themselves are not stored, because
/// that would double the journal with every run.
pub(crate) fn memory_read_event(section: &PromptSection) -> Result<NewEvent, serde_json::Error> {
    let sources = section.sources.iter();
    let sources = sources
        .map(|source| MemorySource { name: source.name.to_owned(), sha256: source.sha256.clone() })
        .collect();
    let event = NewEvent::from_body(&MemoryRead { sources }, Timestamp::now())?;
    let key = format!("memory_read:{}", protocol::sha256_hex(event.content.get()));
    Ok(event.with_key(key))
}
