//! Proposed facts and their review, and the history of `agent.md`. The `memory` crate decides what a decision does.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{FactQuery, FactState, MemoryFact, NotesRevision, PAGE_ROWS_MAX, ProjectScope};
use memory::{FactReceipt, FactReview, FactVerdict, NotesHistory, RestoreOutcome, RevisionEntry};
use protocol::FactId;

use super::MemoryService;
use crate::Result;

/// A page of the facts that a model proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactListRequest {
    /// Only facts that conversations in this scope see: those of the project, and those of no project.
    pub project: ProjectScope,
    /// Only facts in one of these states; empty means any.
    pub states: Vec<FactState>,
    /// Number of facts to skip.
    pub offset: usize,
    /// Maximum number of facts, from 1 to 5,000.
    pub limit: usize,
}

impl<'a> MemoryService<'a> {
    /// Returns a page of the facts that a model proposed, oldest first. Decisions whose process ended before `agent.md` was
    /// written are completed first.
    ///
    /// # Errors
    /// Fails only if the journal does, or if the limit is out of range.
    pub fn facts(self, request: FactListRequest) -> BoxFuture<'a, Result<Vec<MemoryFact>>> {
        journal::box_future(async move {
            self.fact_review().complete_pending(Timestamp::now()).await?;
            let FactListRequest { project, states, offset, limit } = request;
            let agent_id = self.agent.settings.assistant_id.clone();
            let query = FactQuery { project, states, offset, limit, ..FactQuery::for_agent(agent_id) };
            Ok(self.agent.store.facts(query).await?)
        })
    }

    /// Returns the facts that await review in this scope, oldest first, at most 5,000.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn facts_to_review(self, project: ProjectScope) -> BoxFuture<'a, Result<Vec<MemoryFact>>> {
        let states = vec![FactState::Proposed];
        self.facts(FactListRequest { project, states, offset: 0, limit: PAGE_ROWS_MAX })
    }

    /// Returns the fact whose id begins with `prefix`.
    ///
    /// # Errors
    /// [`memory::FactError`] if there is none or there are several. Fails if the journal does.
    pub fn find_fact(self, prefix: &'a str) -> BoxFuture<'a, Result<MemoryFact>> {
        journal::box_future(async move { Ok(self.fact_review().find(prefix).await?) })
    }

    /// Decides on a proposed fact. An accepted one becomes a note in `agent.md`. The first decision stands.
    ///
    /// # Errors
    /// [`memory::FactError`] if the fact is unknown, or was decided before. Fails if `agent.md` cannot be written, or if the
    /// journal fails.
    pub fn decide_fact(self, fact_id: FactId, verdict: FactVerdict) -> BoxFuture<'a, Result<FactReceipt>> {
        journal::box_future(async move {
            Ok(self.fact_review().decide(fact_id, verdict, Timestamp::now()).await?)
        })
    }

    /// Returns a page of the revisions of `agent.md`, newest first. A change by another program is recorded first.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if the journal fails.
    pub fn notes_revisions(
        self,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<RevisionEntry>>> {
        journal::box_future(async move { Ok(self.notes_history().revisions(before, limit).await?) })
    }

    /// Returns a revision of `agent.md`.
    ///
    /// # Errors
    /// [`memory::HistoryError`] if there is none with this number. Fails if the journal does.
    pub fn notes_revision(self, number: u64) -> BoxFuture<'a, Result<NotesRevision>> {
        journal::box_future(async move { Ok(self.notes_history().revision(number).await?) })
    }

    /// Returns the unified diff of a revision of `agent.md` to the one before it.
    ///
    /// # Errors
    /// [`memory::HistoryError`] if there is none with this number. Fails if the journal does.
    pub fn notes_diff(self, number: u64) -> BoxFuture<'a, Result<String>> {
        journal::box_future(async move { Ok(self.notes_history().diff(number).await?) })
    }

    /// Writes the notes of a revision back to `agent.md`. The managed block is not changed.
    ///
    /// # Errors
    /// [`memory::HistoryError`] if there is no such revision, or if the file cannot be written. Fails if the journal does.
    pub fn restore_notes(self, number: u64) -> BoxFuture<'a, Result<RestoreOutcome>> {
        journal::box_future(async move { Ok(self.notes_history().restore(number).await?) })
    }

    /// Returns the history of the assistant's `agent.md`.
    pub(super) fn notes_history(self) -> NotesHistory {
        self.agent.notes_history(&self.agent.settings.assistant_id)
    }

    /// Returns the review of the assistant's facts.
    fn fact_review(self) -> FactReview {
        FactReview { history: self.notes_history() }
    }
}

impl crate::Agent {
    /// Returns the history of an assistant's `agent.md`.
    pub(crate) fn notes_history(&self, assistant_id: &protocol::AssistantId) -> NotesHistory {
        NotesHistory {
            store: Arc::clone(&self.store),
            agent_id: assistant_id.clone(),
            file: self.agent_file(assistant_id),
        }
    }
}
