//! Looking at handoffs: those that wait, one with all its proposals, one by a part of its id. Nothing is decided here.

use std::collections::BTreeMap;

use journal::HandoffFilter;
use protocol::{Handoff, HandoffId, HandoffStatus, Interrupt, InterruptId, Proposal, ThreadId};
use serde::Serialize;
use serde_json::Value;

use super::{PendingHandoff, Shown};
use crate::agent::services::HandoffService;
use crate::{HandoffError, Result};

/// A handoff in a list.
#[derive(Debug, Clone, Serialize)]
pub struct ListedHandoff {
    /// The handoff.
    pub handoff: Handoff,
    /// The title of its newest proposal; `None` while the first is drafted.
    pub title: Option<String>,
    /// The name of its thread.
    pub thread_name: Option<String>,
}

/// A handoff with everything that was proposed.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffReview {
    /// The handoff.
    pub handoff: Handoff,
    /// Its proposals, in order of iteration.
    pub proposals: Vec<Proposal>,
    /// What is to be decided, while it waits.
    pub pending: Option<PendingHandoff>,
}

impl HandoffService<'_> {
    /// Returns the handoffs that are being drafted or wait for a decision, in all threads, newest first.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn undecided(self) -> Result<Vec<ListedHandoff>> {
        let pending = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending());
        self.list(None, &pending.collect::<Vec<_>>(), usize::MAX).await
    }

    /// Returns up to `limit` handoffs that stand at one of `statuses`, of one thread or of all, newest first. One that
    /// nobody decided about in time counts as expired, though nobody gave it up yet.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn list(
        self,
        thread_id: Option<ThreadId>,
        statuses: &[HandoffStatus],
        limit: usize,
    ) -> Result<Vec<ListedHandoff>> {
        let mut looked_at = statuses.to_vec();
        if statuses.contains(&HandoffStatus::Expired) {
            let pending = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending());
            looked_at.extend(pending.filter(|status| !statuses.contains(status)));
        }
        // Where age makes no difference to who is among them, no more are read than are asked for.
        let counts_age =
            statuses.contains(&HandoffStatus::Expired) != statuses.contains(&HandoffStatus::AwaitingDecision);
        let filter = HandoffFilter {
            parent_thread_id: thread_id,
            statuses: looked_at,
            limit: (!counts_age).then_some(limit),
            ..HandoffFilter::default()
        };
        let mut listed = Vec::new();
        for mut handoff in self.agent.store.handoffs(filter).await? {
            if self.is_old(&handoff) {
                handoff.status = HandoffStatus::Expired;
            }
            if !statuses.contains(&handoff.status) {
                continue;
            }
            if listed.len() == limit {
                break;
            }
            listed.push(self.listed(handoff).await?);
        }
        Ok(listed)
    }

    /// Returns the handoffs that wait for a decision, or are being drafted, by the threads they would hand off.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn waiting(self) -> Result<BTreeMap<ThreadId, HandoffId>> {
        let statuses = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect();
        let waiting =
            self.agent.store.handoffs(HandoffFilter { statuses, ..HandoffFilter::default() }).await?;
        let waiting = waiting.into_iter().filter(|handoff| !self.is_old(handoff));
        Ok(waiting.map(|handoff| (handoff.parent_thread_id, handoff.handoff_id)).collect())
    }

    async fn listed(self, handoff: Handoff) -> Result<ListedHandoff> {
        let newest = self.agent.store.proposals(handoff.handoff_id).await?.pop();
        let thread = self.agent.store.thread(handoff.parent_thread_id).await?;
        Ok(ListedHandoff {
            title: newest.map(|proposal| proposal.summary_json.title),
            thread_name: thread.and_then(|thread| thread.name.or(thread.first_prompt)),
            handoff,
        })
    }

    /// Returns the handoff of that id, of the only id that begins so, or that the interrupt of that id is about.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`], [`HandoffError::Ambiguous`], or [`HandoffError::NotAHandoff`] for an interrupt that asks about
    /// something else.
    pub async fn find(self, text: &str) -> Result<Handoff> {
        if let Ok(interrupt_id) = text.parse::<InterruptId>()
            && let Some(interrupt) = self.agent.store.interrupt(interrupt_id).await?
        {
            let handoff_id = handoff_of(&interrupt).ok_or(HandoffError::NotAHandoff(interrupt_id))?;
            return self.get(handoff_id).await;
        }
        if let Ok(handoff_id) = text.parse::<HandoffId>() {
            return self.get(handoff_id).await;
        }
        let mut matches = self.handoffs_by_prefix(text).await?;
        if matches.len() > 1 {
            let matches = matches.iter().map(|handoff| handoff.handoff_id).collect();
            return Err(HandoffError::Ambiguous { prefix: text.to_owned(), matches }.into());
        }
        Ok(matches.pop().ok_or_else(|| HandoffError::Unknown(text.to_owned()))?)
    }

    /// Returns the handoffs whose ids begin with `prefix`; hyphens and case are ignored. Nothing begins with an empty one.
    pub(crate) async fn handoffs_by_prefix(self, prefix: &str) -> Result<Vec<Handoff>> {
        let bare = |id: &str| id.replace('-', "").to_ascii_lowercase();
        let prefix = bare(prefix.trim());
        if prefix.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.agent.store.handoffs(HandoffFilter::default()).await?;
        let begins = |handoff: &Handoff| bare(&handoff.handoff_id.to_string()).starts_with(&prefix);
        Ok(all.into_iter().filter(begins).collect())
    }

    /// Returns the handoff as [`HandoffService::find`] does, which must be one of the thread.
    ///
    /// # Errors
    /// Those of [`HandoffService::find`], and [`HandoffError::Foreign`].
    pub async fn find_in(self, text: &str, thread_id: ThreadId) -> Result<Handoff> {
        let handoff = self.find(text).await?;
        match handoff.parent_thread_id {
            parent if parent == thread_id => Ok(handoff),
            parent_thread_id => {
                let handoff_id = handoff.handoff_id;
                Err(HandoffError::Foreign { handoff_id, thread_id, parent_thread_id }.into())
            }
        }
    }

    /// Returns the handoff with all its proposals.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`] when it does not exist.
    pub async fn review(self, handoff_id: HandoffId) -> Result<HandoffReview> {
        let mut handoff = self.get(handoff_id).await?;
        let is_old = self.is_old(&handoff);
        if is_old {
            // It is given up by whoever comes to decide about it; a look changes nothing.
            handoff.status = HandoffStatus::Expired;
        }
        let proposals = self.agent.store.proposals(handoff_id).await?;
        let pending = match self.interrupt_of(&handoff).await?.filter(|_| !is_old) {
            Some(interrupt) => Some(self.shown(handoff.clone(), interrupt, Shown::Again).await?),
            None => None,
        };
        Ok(HandoffReview { handoff, proposals, pending })
    }
}

/// Returns the handoff that a question is about.
pub(crate) fn handoff_of(interrupt: &Interrupt) -> Option<HandoffId> {
    let mut requests = interrupt.payload.action_requests.iter();
    requests.find_map(|request| request.args.get("handoff_id").and_then(Value::as_str)?.parse().ok())
}
