//! Handing several threads off into one: the thread of an accepted handoff, which has no message yet, gets a further package.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use handoff::HandoffOptions;
use journal::HandoffFilter;
use protocol::{
    Decision, Decisions, FailureKind, Handoff, HandoffId, HandoffStatus, Interrupt, ParentKind, Thread,
    ThreadId,
};
use runtime::RunEnd;
use serde::Serialize;

use super::queries::handoff_id_of;
use crate::{Error, HandoffError, HandoffService, Result, RunError};

/// The reason why a thread with messages gets no further package.
const HAS_MESSAGES: &str = "it has messages already";

/// A thread that was handed off into a child that another thread's handoff had created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MergedParent {
    /// The thread.
    pub thread_id: ThreadId,
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The accepted handoffs into children that others had created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MergedHandoffs {
    /// The further parents of each child, in the order in which they were handed off.
    pub(crate) parents: BTreeMap<ThreadId, Vec<MergedParent>>,
    /// The children of each further parent.
    pub(crate) children: BTreeMap<ThreadId, Vec<ThreadId>>,
}

impl MergedHandoffs {
    /// Adds a handoff. One that was not accepted, or that created its child, is left out.
    fn add(&mut self, handoff: &Handoff) {
        let is_merged = serde_json::from_value::<HandoffOptions>(handoff.options.clone())
            .is_ok_and(|options| options.into.is_some());
        if !is_merged || handoff.accepted_sha256.is_none() {
            return;
        }
        let Handoff { handoff_id, parent_thread_id, child_thread_id, .. } = *handoff;
        let parent = MergedParent { thread_id: parent_thread_id, handoff_id };
        self.parents.entry(child_thread_id).or_default().push(parent);
        self.children.entry(parent_thread_id).or_default().push(child_thread_id);
    }
}

impl<'a> HandoffService<'a> {
    /// Returns the threads that were handed off into the thread after the one that it continues; none for most threads.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn merged_parents(self, thread: &'a Thread) -> BoxFuture<'a, Result<Vec<MergedParent>>> {
        journal::box_future(async move {
            if thread.parent_kind != Some(ParentKind::Handoff) {
                return Ok(Vec::new());
            }
            let child_thread_id = Some(thread.thread_id);
            let merged = self.merged(HandoffFilter { child_thread_id, ..HandoffFilter::default() }).await?;
            Ok(merged.parents.into_values().flatten().collect())
        })
    }

    /// Returns the accepted handoffs of the filter into children that others had created.
    pub(crate) async fn merged(self, filter: HandoffFilter) -> Result<MergedHandoffs> {
        let mut merged = MergedHandoffs::default();
        // The journal returns the newest handoff first.
        self.agent.store.handoffs(filter).await?.iter().rev().for_each(|handoff| merged.add(handoff));
        Ok(merged)
    }

    /// Returns the accepted handoffs of all threads into children that others had created.
    pub(crate) async fn all_merged(self) -> Result<MergedHandoffs> {
        let statuses = vec![HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];
        self.merged(HandoffFilter { statuses, ..HandoffFilter::default() }).await
    }
}

impl<'a> HandoffService<'a> {
    /// Checks that the answer to the question of a handoff does not add its package to a thread that cannot get it. Answers that
    /// end the handoff, and other questions, pass. Every client's answer is checked here, whichever endpoint it uses.
    ///
    /// # Errors
    /// [`HandoffError::NotMergeable`] with the reason, or fails if the journal does.
    pub(crate) async fn check_answer_mergeable(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
    ) -> Result<()> {
        let ends = |decision: &Decision| matches!(decision, Decision::Reject { .. } | Decision::Preview {});
        if decisions.decisions.iter().all(ends) {
            return Ok(());
        }
        let Some(handoff_id) = handoff_id_of(interrupt) else { return Ok(()) };
        // A handoff that another client has decided is refused for that reason.
        let handoff = self.agent.store.handoff(handoff_id).await?;
        let Some(handoff) = handoff.filter(|handoff| handoff.status.is_pending()) else { return Ok(()) };
        let options = serde_json::from_value::<HandoffOptions>(handoff.options).unwrap_or_default();
        self.check_merge_target(handoff.parent_thread_id, options.into).await
    }

    /// Replaces the error of an answer that failed because the named child got its first message between the check and the
    /// decision. Returns any other `ended`, the end of the run that took the answer, unchanged.
    ///
    /// # Errors
    /// [`HandoffError::NotMergeable`] in that case, or the error of `ended`.
    pub(crate) async fn explain_merge_race(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        ended: Result<RunEnd>,
    ) -> Result<RunEnd> {
        let is_race = match &ended {
            Err(Error::Journal(error) | Error::Run(RunError::Runtime(runtime::Error::Journal(error)))) => {
                error.is_message_conflict()
            }
            Err(_) => false,
            Ok(end) => {
                end.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::InvalidDecision)
            }
        };
        if is_race {
            self.check_answer_mergeable(interrupt, decisions).await?;
        }
        ended
    }

    /// Checks that a handoff of the thread `parent` can add its package to the thread `into`.
    ///
    /// # Errors
    /// [`HandoffError::NotMergeable`] with the reason, or fails if the journal does.
    pub fn check_mergeable(self, parent: ThreadId, into: ThreadId) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move { self.check_merge_target(parent, Some(into)).await })
    }

    /// Checks that the thread `into` can get a further package, from `parent`. `None` stands for a new thread, which can.
    ///
    /// # Errors
    /// [`HandoffError::NotMergeable`] with the reason, or fails if the journal does.
    pub(crate) async fn check_merge_target(self, parent: ThreadId, into: Option<ThreadId>) -> Result<()> {
        let Some(thread_id) = into else { return Ok(()) };
        let child = self.agent.thread(thread_id).await?;
        let parent = self.agent.thread(parent).await?;
        let is_merged = self
            .origins(&child)
            .await?
            .iter()
            .any(|origin| origin.handoff.parent_thread_id == parent.thread_id);
        let repeated = is_merged.then_some("it has a summary of the same thread already");
        match merge_problem(&parent, &child).or(repeated) {
            Some(reason) => Err(HandoffError::NotMergeable { thread_id, reason }.into()),
            None => Ok(()),
        }
    }
}

/// Returns the reason why `child` cannot get the package of `parent`; `None` if it can.
fn merge_problem(parent: &Thread, child: &Thread) -> Option<&'static str> {
    match () {
        () if child.thread_id == parent.thread_id => Some("a thread cannot be handed off into itself"),
        () if child.parent_kind != Some(ParentKind::Handoff) => Some("no handoff created it"),
        () if child.message_count > 0 => Some(HAS_MESSAGES),
        () if child.assistant_id != parent.assistant_id => Some("it belongs to another assistant"),
        () => None,
    }
}
