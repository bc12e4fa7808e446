//! In which folder a run works, and a thread's move to another one.

use std::path::PathBuf;

use journal::Write;
use protocol::{Checkpoint, Decisions, Interrupt, InterruptId};
use runtime::{Start, Update};

use super::ending::Outcome;
use super::input::PutIn;
use super::refused::Tried;
use super::{Admitting, RunPlan, SubagentQuestions};
use crate::assembly::Purpose;
use crate::requests::Begun;
use crate::workspace::{Rehoming, already_there, is_in_place, makes_a_call};
use crate::{Result, RunError};

impl Admitting<'_> {
    /// Returns the folder in which a run works that does not go on with calls of another: the one its request names, or the
    /// thread's.
    pub(super) async fn workspace(&self) -> Result<PathBuf> {
        match &self.beginning.request.workspace {
            Some(workspace) => Ok(PathBuf::from(workspace)),
            None => self.agent.default_workspace(self.thread).await,
        }
    }

    /// Moves the thread to the folder of the run. Calls that wait for a decision are asked about again, there.
    pub(super) async fn rehome(
        &self,
        head: Option<Checkpoint>,
        interrupt_id: Option<InterruptId>,
    ) -> Tried<Begun> {
        let to = match &self.beginning.request.workspace {
            Some(workspace) => PathBuf::from(workspace),
            None => self.agent.workspace().to_owned(),
        };
        let pending = self.pending().await?;
        let (asked, from) = self.agent.question_to_move(self.thread, &pending, interrupt_id).await?;
        let is_there = from.as_ref() == Some(&to);
        let rehoming = Rehoming { thread: self.thread, from, to: &to };
        let event = rehoming.event(self.now)?;
        let asked = match asked {
            Some(_) if is_there => return Err(already_there(self.thread_id(), &to).into()),
            Some(asked) => asked,
            None if is_there => return Ok(self.end(Outcome::Nothing, head, pending).await?),
            None => {
                let thread_id = self.thread_id();
                let told = Write::Append { thread_id, events: vec![event.in_run(self.beginning.run_id)] };
                let writes = vec![rehoming.write(), told];
                return Ok(self.end_with(writes, Outcome::Nothing, head, pending).await?);
            }
        };
        let mut channels = Purpose::Turn.channels();
        channels.extend(rehoming.channels(asked));
        let update = Update { events: vec![event], writes: vec![rehoming.write()], ..Update::default() };
        let put_in = PutIn { update, ..PutIn::default() };
        let start = Start { node: Some(asked.node.clone()), channels, ..Start::default() };
        let (purpose, subagents) = (Purpose::Turn, SubagentQuestions::Kept);
        self.admit(RunPlan { purpose, workspace: to, head, put_in, start, subagents }).await
    }

    /// Returns the folder in which a run works that goes on with these answers: the one in which the calls were proposed. Where
    /// that does not exist, no call is made, and the run goes on in another one.
    pub(super) async fn workspace_of_answers(&self, answers: &[(&Interrupt, Decisions)]) -> Tried<PathBuf> {
        let Some((interrupt, _)) = answers.first() else { return Ok(self.workspace().await?) };
        let named = answers.iter().find_map(|(asked, _)| asked.payload.workspace.clone());
        let proposed = match named {
            Some(workspace) => Some(PathBuf::from(workspace)),
            None => self.agent.workspace_of_run(self.thread, Some(interrupt.run_id)).await?,
        };
        let is_about_calls = Purpose::at(Some(&interrupt.node), None) == Purpose::Turn;
        match proposed {
            Some(workspace) if is_in_place(&workspace) => Ok(workspace),
            Some(workspace) if is_about_calls && answers.iter().any(|(_, given)| makes_a_call(given)) => {
                Err(RunError::WorkspaceGone { thread_id: self.thread_id(), workspace }.into())
            }
            Some(_) | None => Ok(self.workspace().await?),
        }
    }
}
