//! Queries about handoffs: lists, one handoff with all its proposals, the search by a part of an id, and the check that a
//! decision is about the current proposal. They
//! change nothing.

use futures::future::BoxFuture;
use std::collections::BTreeMap;

use journal::HandoffFilter;
use protocol::{
    Decision, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, InterruptId, ParentKind, Proposal,
    Thread, ThreadId,
};
use serde::Serialize;
use serde_json::Value;

use super::{PendingHandoff, ProposalPresentation};
use crate::home::config::HandoffKeep;
use crate::{HandoffError, HandoffService, Result};

/// An entry in a list of handoffs.
#[derive(Debug, Clone, Serialize)]
pub struct ListedHandoff {
    /// The handoff.
    pub handoff: Handoff,
    /// The title of its newest proposal; `None` while the first one is drafted.
    pub title: Option<String>,
    /// The name of its parent thread, or else the thread's first prompt.
    pub thread_name: Option<String>,
}

/// A handoff with all its proposals.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffReview {
    /// The handoff.
    pub handoff: Handoff,
    /// The proposals, in the order of iterations.
    pub proposals: Vec<Proposal>,
    /// The pending decision; `None` if the handoff is not pending.
    pub pending: Option<PendingHandoff>,
}

/// The handoff that created a thread, with the summary that the thread began with.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffOrigin {
    /// The handoff.
    pub handoff: Handoff,
    /// The accepted proposal.
    pub proposal: Proposal,
    /// The proposal as it is now, if lines of the accepted one were updated.
    pub updated: Option<Proposal>,
}

impl<'a> HandoffService<'a> {
    /// Checks that the proposal with this hash is the current one. A hash of no proposal passes.
    ///
    /// # Errors
    /// [`HandoffError::Superseded`] if another proposal has replaced it, or fails if the journal does.
    pub fn check_current(self, handoff_id: HandoffId, sha256: &'a str) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let proposals = self.agent.store.proposals(handoff_id).await?;
            Ok(check_current_hash(handoff_id, &proposals, sha256)?)
        })
    }

    /// Checks that `text`, by which a decision names its handoff, is not the interrupt of a proposal that another one has
    /// replaced. Other ids pass, because they name the handoff and no proposal.
    ///
    /// # Errors
    /// [`HandoffError::Superseded`] if another proposal has replaced it, or fails if the journal does.
    pub fn check_named_proposal(self, text: &'a str) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let Ok(interrupt_id) = text.parse::<InterruptId>() else { return Ok(()) };
            let Some(interrupt) = self.agent.store.interrupt(interrupt_id).await? else { return Ok(()) };
            let args = interrupt.payload.action_requests.first().map(|request| &request.args);
            let hash = args.and_then(|args| args["summary_sha256"].as_str());
            match (handoff_id_of(&interrupt), hash) {
                (Some(handoff_id), Some(hash)) => self.check_current(handoff_id, hash).await,
                (_, _) => Ok(()),
            }
        })
    }

    /// Checks that the answer to a handoff's interrupt names no hash of a proposal that another one has replaced. Other
    /// interrupts pass.
    ///
    /// # Errors
    /// [`HandoffError::Superseded`], or fails if the journal does.
    pub(crate) async fn check_decisions_current(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
    ) -> Result<()> {
        let Some(handoff_id) = handoff_id_of(interrupt) else { return Ok(()) };
        let proposals = self.agent.store.proposals(handoff_id).await?;
        Ok(check_not_superseded(handoff_id, &proposals, decisions)?)
    }

    /// Checks that a client which accepts a handoff without naming a proposal was shown the current one: it is the first
    /// of the handoff, or the client requested it. `interrupt` is the pending one. Other interrupts pass.
    ///
    /// # Errors
    /// [`HandoffError::NotShown`] with the current proposal, or fails if the journal does.
    pub(crate) async fn check_proposal_shown(
        self,
        interrupt: &Interrupt,
        client: Option<&str>,
    ) -> Result<()> {
        let Some(handoff_id) = handoff_id_of(interrupt) else { return Ok(()) };
        let Some(current) = self.agent.store.proposals(handoff_id).await?.pop() else { return Ok(()) };
        if current.iteration == 0 {
            return Ok(());
        }
        let requested_by = self.agent.runs().stored_request(interrupt.run_id).await?;
        let requested_by = requested_by.and_then(|request| request.client);
        match client.is_some() && requested_by.as_deref() == client {
            true => Ok(()),
            false => {
                let (iteration, title) = (current.iteration, current.summary_json.title);
                let summary_sha256 = current.summary_sha256;
                Err(HandoffError::NotShown { handoff_id, iteration, title, summary_sha256 }.into())
            }
        }
    }

    /// Returns how long a child thread is sent the summary that it was handed.
    pub fn keep(self) -> HandoffKeep {
        self.agent.config.handoff.keep
    }

    /// Returns the handoffs into the thread, the oldest first: the one that created it, and those that were merged into it. None
    /// if no handoff created it, or if they were deleted with their parents.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn origins(self, thread: &'a Thread) -> BoxFuture<'a, Result<Vec<HandoffOrigin>>> {
        journal::box_future(async move {
            if thread.parent_kind != Some(ParentKind::Handoff) {
                return Ok(Vec::new());
            }
            let filter =
                HandoffFilter { child_thread_id: Some(thread.thread_id), ..HandoffFilter::default() };
            let mut origins = Vec::new();
            // The journal returns the newest handoff first.
            for handoff in self.agent.store.handoffs(filter).await?.into_iter().rev() {
                let Some(sha256) = handoff.accepted_sha256.clone() else { continue };
                let proposals = self.agent.store.proposals(handoff.handoff_id).await?;
                let updated = proposals.last().filter(|last| last.summary_sha256 != sha256).cloned();
                let accepted = proposals.into_iter().find(|proposal| proposal.summary_sha256 == sha256);
                origins.extend(accepted.map(|proposal| HandoffOrigin { handoff, proposal, updated }));
            }
            Ok(origins)
        })
    }

    /// Returns the handoffs that are being drafted or await a decision, in all threads, newest first.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn undecided(self) -> BoxFuture<'a, Result<Vec<ListedHandoff>>> {
        journal::box_future(async move {
            let pending = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending());
            self.list(None, &pending.collect::<Vec<_>>(), usize::MAX).await
        })
    }

    /// Returns up to `limit` handoffs with one of `statuses`, of one thread or of all, newest first. A
    /// handoff past its time limit counts as expired, even if it has not been expired yet.
    ///
    /// # Errors
    /// Fails only if the journal does.
    /// When the journal fails.
    pub fn list(
        self,
        thread_id: Option<ThreadId>,
        statuses: &'a [HandoffStatus],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ListedHandoff>>> {
        journal::box_future(async move {
            let mut queried = statuses.to_vec();
            if statuses.contains(&HandoffStatus::Expired) {
                let pending = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending());
                queried.extend(pending.filter(|status| !statuses.contains(status)));
            }
            // If both or neither of the two statuses are requested, age does not change which handoffs match, so
            // that the query itself can have the limit.
            let depends_on_age = statuses.contains(&HandoffStatus::Expired)
                != statuses.contains(&HandoffStatus::AwaitingDecision);
            let filter = HandoffFilter {
                parent_thread_id: thread_id,
                statuses: queried,
                limit: (!depends_on_age).then_some(limit),
                ..HandoffFilter::default()
            };
            let mut listed = Vec::new();
            for mut handoff in self.agent.store.handoffs(filter).await? {
                if self.is_past_expiry(&handoff) {
                    handoff.status = HandoffStatus::Expired;
                }
                if !statuses.contains(&handoff.status) {
                    continue;
                }
                if listed.len() == limit {
                    break;
                }
                listed.push(self.list_entry(handoff).await?);
            }
            Ok(listed)
        })
    }

    /// Returns the handoffs that are being drafted or await a decision, by their parent threads.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn pending_by_thread(self) -> BoxFuture<'a, Result<BTreeMap<ThreadId, HandoffId>>> {
        journal::box_future(async move {
            let statuses = HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect();
            let pending =
                self.agent.store.handoffs(HandoffFilter { statuses, ..HandoffFilter::default() }).await?;
            let pending = pending.into_iter().filter(|handoff| !self.is_past_expiry(handoff));
            Ok(pending.map(|handoff| (handoff.parent_thread_id, handoff.handoff_id)).collect())
        })
    }

    /// Returns the list entry of a handoff.
    async fn list_entry(self, handoff: Handoff) -> Result<ListedHandoff> {
        let newest = self.agent.store.proposals(handoff.handoff_id).await?.pop();
        let thread = self.agent.store.thread(handoff.parent_thread_id).await?;
        Ok(ListedHandoff {
            title: newest.map(|proposal| proposal.summary_json.title),
            thread_name: thread.and_then(|thread| thread.name.or(thread.first_prompt)),
            handoff,
        })
    }

    /// Finds the handoff with that id, with the only id that begins with the text, or of the interrupt with
    /// that id.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`] if there is none, [`HandoffError::Ambiguous`] if several ids begin with the
    /// text, and [`HandoffError::NotAHandoff`] for an interrupt that is not the question of a handoff.
    pub fn find(self, text: &'a str) -> BoxFuture<'a, Result<Handoff>> {
        journal::box_future(async move {
            if let Ok(interrupt_id) = text.parse::<InterruptId>()
                && let Some(interrupt) = self.agent.store.interrupt(interrupt_id).await?
            {
                let handoff_id = handoff_id_of(&interrupt).ok_or(HandoffError::NotAHandoff(interrupt_id))?;
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
        })
    }

    /// Returns the handoffs whose ids begin with `prefix`, ignoring hyphens and case. An empty prefix matches
    /// none. Reads all handoffs of the owner.
    pub(crate) async fn handoffs_by_prefix(self, prefix: &str) -> Result<Vec<Handoff>> {
        let normalize = |id: &str| id.replace('-', "").to_ascii_lowercase();
        let prefix = normalize(prefix.trim());
        if prefix.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.agent.store.handoffs(HandoffFilter::default()).await?;
        let has_prefix = |handoff: &Handoff| normalize(&handoff.handoff_id.to_string()).starts_with(&prefix);
        Ok(all.into_iter().filter(has_prefix).collect())
    }

    /// Finds a handoff of the thread as [`HandoffService::find`] does.
    ///
    /// # Errors
    /// Fails as [`HandoffService::find`] does, and with [`HandoffError::OtherThread`] if the handoff belongs
    /// to another thread.
    pub fn find_in_thread(self, text: &'a str, thread_id: ThreadId) -> BoxFuture<'a, Result<Handoff>> {
        journal::box_future(async move {
            let handoff = self.find(text).await?;
            match handoff.parent_thread_id {
                parent if parent == thread_id => Ok(handoff),
                parent_thread_id => {
                    let handoff_id = handoff.handoff_id;
                    Err(HandoffError::OtherThread { handoff_id, thread_id, parent_thread_id }.into())
                }
            }
        })
    }

    /// Returns a handoff with all its proposals.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`] if it does not exist.
    pub fn review(self, handoff_id: HandoffId) -> BoxFuture<'a, Result<HandoffReview>> {
        journal::box_future(async move {
            let mut handoff = self.get(handoff_id).await?;
            let is_expired = self.is_past_expiry(&handoff);
            if is_expired {
                // Only the status in the result changes. The handoff itself is expired by the next decision.
                handoff.status = HandoffStatus::Expired;
            }
            let proposals = self.agent.store.proposals(handoff_id).await?;
            let pending = match self.handoff_interrupt(&handoff).await?.filter(|_| !is_expired) {
                Some(interrupt) => Some(
                    self.pending_handoff(handoff.clone(), interrupt, ProposalPresentation::Repeated).await?,
                ),
                None => None,
            };
            Ok(HandoffReview { handoff, proposals, pending })
        })
    }
}

/// Returns the handoff that an interrupt belongs to; `None` if it is not the question of a handoff.
pub(crate) fn handoff_id_of(interrupt: &Interrupt) -> Option<HandoffId> {
    let mut requests = interrupt.payload.action_requests.iter();
    requests.find_map(|request| request.args.get("handoff_id").and_then(Value::as_str)?.parse().ok())
}

/// Checks that the decisions do not name the hash of a proposal that another one has replaced. `proposals` are those of
/// the handoff, in their order. A hash of no proposal is refused as invalid by the handoff's node.
pub(super) fn check_not_superseded(
    handoff_id: HandoffId,
    proposals: &[Proposal],
    decisions: &Decisions,
) -> std::result::Result<(), HandoffError> {
    let mut hashes = decisions.decisions.iter().filter_map(|decision| match decision {
        Decision::Approve { summary_sha256: Some(hash), .. } => Some(hash.as_str()),
        Decision::Approve { args: Some(args), .. } => args.get(Decision::SUMMARY_HASH_ARG)?.as_str(),
        Decision::Edit { edited_action } => edited_action.args.get(Decision::SUMMARY_HASH_ARG)?.as_str(),
        Decision::Approve { .. }
        | Decision::Reject { .. }
        | Decision::Respond { .. }
        | Decision::Preview {}
        | Decision::Defer {} => None,
    });
    hashes.try_for_each(|hash| check_current_hash(handoff_id, proposals, hash))
}

/// Checks that the hash is not that of a proposal which another one has replaced.
fn check_current_hash(
    handoff_id: HandoffId,
    proposals: &[Proposal],
    hash: &str,
) -> std::result::Result<(), HandoffError> {
    let Some(current) = proposals.last().filter(|current| current.summary_sha256 != hash) else {
        return Ok(());
    };
    match proposals.iter().rev().find(|proposal| proposal.summary_sha256 == hash) {
        Some(decided) => Err(HandoffError::Superseded {
            handoff_id,
            decided: decided.iteration,
            current: current.iteration,
        }),
        None => Ok(()),
    }
}
