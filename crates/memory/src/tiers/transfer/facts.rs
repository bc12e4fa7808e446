//! Durable facts of a transfer: the notes that the model is shown, the proposals that are stored with the summary, and their
//! acceptance without a review where `memory.auto_accept` allows it.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use journal::{FactProposal, FactScope, FactSource, FactState, Write, comparison_key};
use protocol::{AssistantId, FactId, MediumTermSummary, MessageRole};
use runtime::{Frame, FrameSender};

use crate::NotesScope;
use crate::edit::fact_review::{FactReview, FactVerdict};
use crate::file::history::NotesHistory;
use crate::tiers::coverage::SummaryCoverage;
use crate::tiers::model_summary::{KnownNotes, UnstoredFact};
use crate::tiers::{MemoryScope, SummarizationHandoff};

/// Maximum number of facts that are proposed with one summary.
const FACTS_MAX: usize = 20;

/// The path of no project. Conversations of this scope see the personal notes only.
const NO_PROJECT: &str = "";

/// The facts that were stored with a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::tiers) struct ProposedFacts {
    /// Number of facts that await review.
    pub to_review: u64,
    /// Number of facts that were accepted without a review.
    pub accepted: u64,
}

impl SummarizationHandoff {
    /// Returns the notes that the model is shown; `None` if it is to propose no facts. Only personal notes are shown with
    /// threads of several projects.
    pub(super) async fn known_notes(
        &self,
        agent_id: &AssistantId,
        coverage: &SummaryCoverage,
    ) -> journal::Result<Option<KnownNotes>> {
        if let Some(review) = self.fact_review(agent_id) {
            // A decision that cannot be completed has no effect on the summary.
            let _ = review.complete_pending(Timestamp::now()).await;
        }
        let Some(agent_md) = self.agent_md.as_ref().filter(|_| self.settings.propose_facts) else {
            return Ok(None);
        };
        let scope = match self.settings.scope {
            MemoryScope::Assistant => NotesScope::AllProjects,
            MemoryScope::Project => {
                let mut projects = HashSet::new();
                for thread in &coverage.threads {
                    let thread = self.store.thread(thread.thread_id).await?;
                    projects.insert(thread.and_then(|thread| thread.project));
                }
                let only = projects.iter().next().filter(|_| projects.len() == 1).cloned().flatten();
                NotesScope::Project(only.unwrap_or_else(|| NO_PROJECT.to_owned()))
            }
        };
        // A file that cannot be read is reported by the requests that contain it.
        Ok(agent_md(agent_id).read().ok().map(|agent_md| KnownNotes::new(&agent_md, &scope)))
    }

    /// Returns the writes that propose facts together with their summary, and the ids of the facts.
    pub(super) fn fact_writes(
        &self,
        facts: &[UnstoredFact],
        summary: &MediumTermSummary,
    ) -> (Vec<Write>, Vec<FactId>) {
        let mut keys = HashSet::new();
        let new_facts = facts.iter().filter(|fact| keys.insert(comparison_key(&fact.text)));
        // Facts are listed by their time, so it has the order of the answer.
        let proposals = new_facts.take(FACTS_MAX).zip(0..).map(|(fact, rank)| FactProposal {
            fact_id: FactId::for_summary(summary.id, &fact.text),
            agent_id: summary.agent_id.clone(),
            scope: match self.settings.scope {
                MemoryScope::Project => fact.scope,
                MemoryScope::Assistant => FactScope::Personal,
            },
            kind: fact.kind,
            text: fact.text.clone(),
            quote: fact.quote.clone(),
            source: FactSource { thread_id: fact.thread_id, seq: fact.seq, role: fact.role },
            summary_id: summary.id,
            replaces: fact.replaces.clone(),
            created_at: summary.created_at + SignedDuration::from_micros(rank),
        });
        let proposals: Vec<FactProposal> = proposals.collect();
        let ids = proposals.iter().map(|fact| fact.fact_id).collect();
        (proposals.into_iter().map(Write::ProposeFact).collect(), ids)
    }

    /// Accepts those of the proposed facts that need no review, and counts the others. Facts that the journal knew already are
    /// not counted. A fact that cannot be accepted awaits review.
    pub(super) async fn review_proposed(
        &self,
        agent_id: &AssistantId,
        fact_ids: &[FactId],
        frames: &FrameSender,
    ) -> journal::Result<ProposedFacts> {
        let mut proposed = ProposedFacts::default();
        for fact_id in fact_ids {
            let Some(fact) = self.store.fact(*fact_id).await? else { continue };
            // Neither the model's own words nor the loss of a note are ever accepted without a review.
            let needs_review =
                !self.settings.auto_accept || fact.role != MessageRole::User || fact.replaces.is_some();
            let review =
                self.fact_review(agent_id).filter(|_| !needs_review && fact.state == FactState::Proposed);
            let Some(review) = review else {
                proposed.to_review += 1;
                continue;
            };
            match review.decide(*fact_id, FactVerdict::Accept, Timestamp::now()).await {
                Ok(_) => proposed.accepted += 1,
                Err(error) => {
                    proposed.to_review += 1;
                    frames.send(Frame::Notice { text: format!("failed to {error}; the fact awaits review") });
                }
            }
        }
        Ok(proposed)
    }

    /// Returns the review of the assistant's facts; `None` without an agent.md.
    fn fact_review(&self, agent_id: &AssistantId) -> Option<FactReview> {
        let file = self.agent_md.as_ref()?(agent_id);
        let history = NotesHistory { store: Arc::clone(&self.store), agent_id: agent_id.clone(), file };
        Some(FactReview { history })
    }
}
