//! The middleware of agent.md: it puts the file into every model request, a child's summary into its first turn only,
//! and it sees to it that no tool call touches the managed block or leaves a secret in the file.

pub(crate) mod per_run;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::Store;
use model::ChatRequest;
use protocol::event::body::{MemoryRead, MemorySource};
use protocol::{Block, NewEvent, ThreadId, ToolStatus};
use runtime::{
    Channels, Failure, FailureKind, Frame, Hook, NextCall, Point, StepContext, ToolCall, ToolOutput, Update,
};

use crate::edit::tool::{EDIT_MEMORY, withheld_from};
use crate::file::watch::{Damage, Undone, Watch};
use crate::file::{AGENT_MD_BYTES_MAX, AgentFile};
use crate::hook::per_run::PerRun;
use crate::inject::{HandedOver, Section, prompt_section};
use crate::{Error, Extent, Snapshot};

/// Looks at agent.md before every request, so that an edit on disk is seen at once; a file that did not change costs a
/// look at its metadata.
pub struct AgentMdHook {
    file: Arc<AgentFile>,
    /// The summary a run's thread is due, if any. It stays the same for a whole run: only the end of a first complete turn,
    /// after which the run asks no model, ends it.
    summaries: PerRun<Option<Arc<HandedOver>>>,
}

impl AgentMdHook {
    /// Returns the hook for the assistant's agent.md. Give it the one value there is for the file in this process.
    pub fn new(file: Arc<AgentFile>) -> Self {
        Self { file, summaries: PerRun::default() }
    }

    async fn summary(&self, step: &StepContext<'_>) -> journal::Result<Option<Arc<HandedOver>>> {
        let run = step.run_ref();
        if let Some(known) = self.summaries.get(run) {
            return Ok(known);
        }
        let summary = summary_of(&**step.store, step.thread_id).await?.map(Arc::new);
        let bytes = summary.as_ref().map_or(0, |summary| summary.summary_md.len());
        self.summaries.keep(run, summary.clone(), bytes);
        Ok(summary)
    }

    /// Returns what the request gets, with or without the file.
    fn section(&self, summary: Option<&HandedOver>, step: &StepContext<'_>) -> Result<Section, Failure> {
        match (self.file.reading(), summary) {
            (Ok(reading), None) => Ok(reading.section().clone()),
            (Ok(reading), Some(_)) => Ok(prompt_section(&reading.snapshot, summary)),
            (Err(error), Some(_)) => {
                // The summary comes from the handoff's row, so the child goes on without the file.
                step.frames.send(Frame::Notice { text: format!("failed to {error}") });
                Ok(prompt_section(&Snapshot::default(), summary))
            }
            (Err(error), None) => {
                Err(Failure::new(FailureKind::Config, error.to_string()).with_hint(error.hint()))
            }
        }
    }

    /// Returns what a model and a person are told when the file had to be put back after `watch`, or secrets taken out of
    /// it, or that could not be done.
    async fn settle(&self, watch: Watch) -> Option<String> {
        if self.file.is_as(&watch) {
            return None;
        }
        let file = Arc::clone(&self.file);
        let put_back = tokio::task::spawn_blocking(move || file.put_back(&watch)).await;
        match put_back.unwrap_or_else(|_| Err(self.broke_off())) {
            Ok(undone) => told(undone),
            Err(error) => Some(format!(
                "agent.md was changed while this call ran, and its block could not be checked or put back: failed \
                 to {error}. To do: {}.",
                error.hint()
            )),
        }
    }

    fn broke_off(&self) -> Error {
        let source = std::io::Error::other("the guard broke off");
        Error::Io { action: "check", path: self.file.path().to_owned(), source }
    }
}

/// Returns what a model and a person are told of what was undone.
fn told(undone: Undone) -> Option<String> {
    let put_back = match undone.damage {
        None => None,
        Some(Damage::Block) => Some(format!(
            "agent.md: the block between {} and {} was changed while this call ran. Only Segue writes it; it has \
                 been put back, other changes stay. To change the notes around it, use {EDIT_MEMORY}.",
            crate::block::OPEN,
            crate::block::CLOSE
        )),
        Some(Damage::File) => Some(format!(
            "agent.md was deleted while this call ran. It has been restored. To change it, use {EDIT_MEMORY}."
        )),
    };
    let withheld = (undone.withheld > 0).then(|| withheld_from(undone.withheld));
    let told: Vec<String> = put_back.into_iter().chain(withheld).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

#[async_trait]
impl Hook for AgentMdHook {
    fn name(&self) -> &'static str {
        "AgentMemory"
    }

    /// Says once a turn that the model does not see all of a file. What is wrong with one that cannot be read is said
    /// when it is needed.
    fn is_idle(&self, point: Point, _channels: &Channels) -> bool {
        match point {
            Point::BeforeAgent => false,
            Point::AfterModel | Point::AfterAgent => true,
        }
    }

    async fn before_agent(&self, step: &StepContext<'_>) -> Result<Update, Failure> {
        if self.file.reading().is_ok_and(|reading| reading.snapshot.extent == Extent::Beginning) {
            let path = self.file.path().display();
            let text =
                format!("{path} is longer than {AGENT_MD_BYTES_MAX} bytes; the model sees its beginning");
            step.frames.send(Frame::Notice { text });
        }
        Ok(Update::default())
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        let summary = self.summary(step).await?;
        let section = self.section(summary.as_deref(), step)?;
        let event = recorded(&section)?;
        request.system.push(section.text);
        request.system_volatile += 1;
        Ok(Update { events: vec![event], ..Update::default() })
    }

    async fn wrap_tool_call(
        &self,
        step: &StepContext<'_>,
        call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        if call.name == EDIT_MEMORY {
            return next.run(call).await;
        }
        let watch = match self.file.watch() {
            Ok(watch) => watch,
            Err(error) => {
                let text = format!("agent.md is not guarded while `{}` runs: failed to {error}", call.name);
                step.frames.send(Frame::Notice { text });
                return next.run(call).await;
            }
        };
        let result = next.run(call).await;
        let Some(text) = self.settle(watch).await else { return result };
        step.frames.send(Frame::Notice { text: text.clone() });
        result.map(|mut output| {
            output.status = ToolStatus::Error;
            output.content.push(Block::text(text));
            output
        })
    }
}

/// Returns the summary that the thread is due: it is a child, and its first turn is not complete. The handoff's row is
/// the truth, whatever the file shows.
async fn summary_of(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Option<HandedOver>> {
    let mark = store.thread(thread_id).await?.and_then(|thread| thread.handoff());
    let Some(mark) = mark.filter(|mark| mark.pending && mark.child_thread_id == thread_id) else {
        return Ok(None);
    };
    let Some(handoff) = store.handoff(mark.handoff_id).await? else { return Ok(None) };
    let proposals = store.proposals(mark.handoff_id).await?;
    let accepted =
        proposals.into_iter().find(|p| Some(&p.summary_sha256) == handoff.accepted_sha256.as_ref());
    Ok(accepted.map(|proposal| HandedOver {
        summary_md: proposal.summary_md,
        carry_over: proposal.summary_json.carry_over,
    }))
}

/// The texts are known by their hashes; storing them again with every run would double the journal.
pub(crate) fn recorded(section: &Section) -> Result<NewEvent, serde_json::Error> {
    let sources = section.sources.iter();
    let sources = sources
        .map(|source| MemorySource { name: source.name.to_owned(), sha256: source.sha256.clone() })
        .collect();
    let event = NewEvent::of(&MemoryRead { sources }, Timestamp::now())?;
    let key = format!("memory_read:{}", protocol::sha256_hex(event.content.get()));
    Ok(event.keyed(key))
}
