//! Selects the folder in which a run works, and moves a thread to another folder ("rehoming").

use std::path::PathBuf;

use journal::Write;
use protocol::{Checkpoint, Decisions, Interrupt, InterruptId};
use runtime::{GraphUpdate, RunStart};

use super::immediate_end::ImmediateOutcome;
use super::input::InputPlan;
use super::refusal::AdmissionResult;
use super::{RequestAdmission, RunPlan, SubagentQuestions};
use crate::assembly::RunPurpose;
use crate::runs::StartedRun;
use crate::workspace::{RehomePlan, already_in_workspace_error, is_canonical_folder, needs_call_folder};
use crate::{Result, RunError};

impl RequestAdmission<'_> {
    /// Returns the folder of a run that does not continue the tool calls of an earlier run: the folder that its
    /// request names, or else the thread's folder.
    pub(super) async fn run_workspace(&self) -> Result<PathBuf> {
        match &self.spec.request.workspace {
            Some(workspace) => Ok(PathBuf::from(workspace)),
            None => self.agent.default_workspace(self.thread).await,
        }
    }

    /// Moves the thread to the folder of the run. Tool calls that await a decision are proposed again in that folder.
    pub(super) async fn rehome_thread(
        &self,
        head: Option<Checkpoint>,
        interrupt_id: Option<InterruptId>,
    ) -> AdmissionResult<StartedRun> {
        let to = match &self.spec.request.workspace {
            Some(workspace) => PathBuf::from(workspace),
            None => self.agent.workspace().to_owned(),
        };
        let pending = self.pending_interrupts().await?;
        let (question, from) = self.agent.interrupt_to_rehome(self.thread, &pending, interrupt_id).await?;
        let is_same_folder = from.as_ref() == Some(&to);
        let rehome = RehomePlan { thread: self.thread, from, to: &to };
        let event = rehome.event(self.now)?;
        let interrupt = match question {
            Some(_) if is_same_folder => return Err(already_in_workspace_error(self.thread_id(), &to).into()),
            Some(interrupt) => interrupt,
            None if is_same_folder => {
                return Ok(self.end_immediately(ImmediateOutcome::NothingToDo, head, pending).await?);
            }
            None => {
                let thread_id = self.thread_id();
                let append_event =
                    Write::Append { thread_id, events: vec![event.with_run(self.spec.run_id)] };
                let writes = vec![rehome.workspace_write(), append_event];
                return Ok(self
                    .end_with_writes(writes, ImmediateOutcome::NothingToDo, head, pending)
                    .await?);
            }
        };
        let mut channels = RunPurpose::Turn.entry_channels();
        channels.extend(rehome.channels_to_repropose(interrupt));
        let update = GraphUpdate {
            events: vec![event],
            writes: vec![rehome.workspace_write()],
            ..GraphUpdate::default()
        };
        let planned_input = InputPlan { update, ..InputPlan::default() };
        let start = RunStart { node: Some(interrupt.node.clone()), channels, ..RunStart::default() };
        let (purpose, subagents) = (RunPurpose::Turn, SubagentQuestions::Kept);
        self.admit(RunPlan { purpose, workspace: to, head, input: planned_input, start, subagents }).await
    }

    /// Returns the folder of a run that resumes with these answers: the folder in which the tool calls were
    /// proposed. If it does not exist and all calls are refused, returns [`Self::run_workspace`] instead.
    ///
    /// # Errors
    /// [`RunError::WorkspaceGone`] if a call is approved or deferred whose folder does not exist.
    pub(super) async fn answers_workspace(
        &self,
        answers: &[(&Interrupt, Decisions)],
    ) -> AdmissionResult<PathBuf> {
        let Some((interrupt, _)) = answers.first() else { return Ok(self.run_workspace().await?) };
        let question_folder = answers.iter().find_map(|(interrupt, _)| interrupt.payload.workspace.clone());
        let proposed_in = match question_folder {
            Some(workspace) => Some(PathBuf::from(workspace)),
            None => self.agent.run_workspace(self.thread, Some(interrupt.run_id)).await?,
        };
        let is_about_calls = RunPurpose::from_node(Some(&interrupt.node), None) == RunPurpose::Turn;
        match proposed_in {
            Some(workspace) if is_canonical_folder(&workspace) => Ok(workspace),
            Some(workspace)
                if is_about_calls && answers.iter().any(|(_, decisions)| needs_call_folder(decisions)) =>
            {
                Err(RunError::WorkspaceGone { thread_id: self.thread_id(), workspace }.into())
            }
            Some(_) | None => Ok(self.run_workspace().await?),
        }
    }
}
