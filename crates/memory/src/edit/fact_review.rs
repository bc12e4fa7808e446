//! Decisions on proposed facts. An accepted fact becomes a note in agent.md. The decision is stored first, so that the first one
//! wins, with a mark that its note is pending. Then the note is written, and at last the mark is removed. A decision that a crash
//! leaves with its mark is completed later, which is safe because writing a note twice changes nothing.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{
    FactDecision, FactQuery, FactState, MemoryFact, PAGE_ROWS_MAX, RevisionCause, Transaction, Write,
    comparison_key,
};
use protocol::FactId;

use super::remember::{
    FormattedNote, NoteReplacement, RememberedNote, format_note, note_replacement, report_note, write_note,
};
use crate::file::history::{HistoryError, NotesHistory, NotesSession};
use crate::file::project_notes::NoteOwner;

/// Maximum number of attempts to store a decision while other processes decide on other facts.
const ATTEMPTS_MAX: u32 = 8;

/// Decides on the proposed facts of an assistant.
#[derive(Clone)]
pub struct FactReview {
    /// The agent.md of the assistant, with its journal.
    pub history: NotesHistory,
}

/// A decision on a proposed fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactVerdict {
    /// Write it to agent.md as it is.
    Accept,
    /// Write this text to agent.md instead.
    Edit(String),
    /// Do not keep it, and do not propose it again.
    Decline,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactReceipt {
    /// The fact after the decision.
    pub fact: MemoryFact,
    /// The note in agent.md; `None` for a declined fact.
    pub note: Option<RememberedNote>,
    /// The effect on the note that the fact replaces.
    pub replacement: NoteReplacement,
}

/// A decision on a fact failed.
///
/// The messages read on after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum FactError {
    /// The assistant has no fact with this id.
    #[error("find fact {0}")]
    Unknown(String),
    /// Several facts have an id with this beginning.
    #[error("find fact {prefix}: several ids begin with it")]
    Ambiguous {
        /// The given beginning.
        prefix: String,
    },
    /// The fact was decided before. The first decision stands.
    #[error("decide on the fact `{}`: it is already {}", .fact.text, .fact.state.as_str())]
    AlreadyDecided {
        /// The fact with its decision.
        fact: Box<MemoryFact>,
    },
    /// Other processes decided on other facts again and again.
    #[error("decide on fact {fact_id}: others decide at the same time")]
    Contended {
        /// The fact.
        fact_id: FactId,
    },
    /// agent.md could not be changed.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The journal failed.
    #[error("read or decide on a fact")]
    Journal(#[from] journal::Error),
}

/// The effect of a transaction with decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitOutcome {
    /// They are stored.
    Stored,
    /// A fact has another state than expected, and nothing is stored.
    Conflict,
}

impl FactError {
    /// Returns what the user can do about the error, as a clause without a period.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "`segue memory review --list` lists the facts",
            Self::Ambiguous { .. } => "give more of the id",
            Self::AlreadyDecided { fact } => match fact.state {
                FactState::Declined => "`segue remember` adds it to agent.md all the same",
                FactState::Proposed | FactState::Accepted | FactState::Edited | FactState::Superseded => {
                    "change agent.md with `segue memory edit`"
                }
            },
            Self::History(error) => error.hint(),
            Self::Contended { .. } | Self::Journal(_) => "try again",
        }
    }
}

impl FactReview {
    /// Returns the only fact of the assistant whose id begins with `prefix`.
    ///
    /// # Errors
    /// When there is none or there are several. Fails if the journal does.
    pub fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<MemoryFact, FactError>> {
        journal::box_future(async move {
            let agent_id = self.history.agent_id.clone();
            let id_prefix = prefix.trim().to_owned();
            let query = FactQuery { id_prefix, limit: 2, ..FactQuery::for_agent(agent_id) };
            let is_blank = query.id_prefix.is_empty();
            let mut found = self.history.store.facts(query).await?;
            match (found.pop(), found.pop()) {
                (Some(fact), None) if !is_blank => Ok(fact),
                (Some(_), Some(_)) if !is_blank => Err(FactError::Ambiguous { prefix: prefix.to_owned() }),
                _ => Err(FactError::Unknown(prefix.to_owned())),
            }
        })
    }

    /// Decides on a proposed fact. An accepted one is written to agent.md: in the place of the note that it replaces, if that
    /// note still stands there exactly once among those of the same project, and at the end of the notes otherwise.
    ///
    /// # Errors
    /// [`FactError::AlreadyDecided`] if it was decided before. If the file cannot be written, the fact is still proposed. If the
    /// journal fails after the decision is stored, [`Self::complete_pending`] completes it.
    pub fn decide(
        &self,
        fact_id: FactId,
        verdict: FactVerdict,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<FactReceipt, FactError>> {
        journal::box_future(async move {
            let fact = self.read_fact(fact_id).await?;
            let (to, text) = match verdict {
                FactVerdict::Accept => (FactState::Accepted, Some(fact.text.clone())),
                FactVerdict::Edit(text) if text.trim() == fact.text => (FactState::Accepted, Some(text)),
                FactVerdict::Edit(text) => (FactState::Edited, Some(text)),
                FactVerdict::Decline => (FactState::Declined, None),
            };
            self.complete_pending(now).await?;
            let note = text.map(|text| format_note(&text)).transpose().map_err(HistoryError::File)?;
            let text = note.as_ref().map(|note| note.line.clone());
            self.store_decision(FactDecision { fact_id, from: FactState::Proposed, to, text, at: now })
                .await?;
            match note {
                Some(note) => self.complete(fact_id, note, now).await,
                None => {
                    let fact = self.read_fact(fact_id).await?;
                    Ok(FactReceipt { fact, note: None, replacement: NoteReplacement::NotRequested })
                }
            }
        })
    }

    /// Completes the decisions whose process ended before their note was known to stand in agent.md. If the file cannot be
    /// written, the facts are proposed again.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn complete_pending(&self, now: Timestamp) -> BoxFuture<'_, Result<(), FactError>> {
        journal::box_future(async move {
            let agent_id = self.history.agent_id.clone();
            let query = FactQuery { is_note_pending: true, ..FactQuery::for_agent(agent_id) };
            for fact in self.history.store.facts(query).await? {
                let line = fact.decided_text.unwrap_or_default();
                match self.complete(fact.fact_id, FormattedNote { line, redacted_secrets: 0 }, now).await {
                    Ok(_) | Err(FactError::History(HistoryError::File(_)) | FactError::Contended { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Stores the decision on a proposed fact.
    async fn store_decision(&self, decision: FactDecision) -> Result<(), FactError> {
        let fact_id = decision.fact_id;
        for _ in 0..ATTEMPTS_MAX {
            let fact = self.read_fact(fact_id).await?;
            if fact.state != FactState::Proposed {
                return Err(FactError::AlreadyDecided { fact: Box::new(fact) });
            }
            if self.commit_decisions(vec![decision.clone()]).await? == CommitOutcome::Stored {
                return Ok(());
            }
        }
        Err(FactError::Contended { fact_id })
    }

    /// Writes the note of an accepted fact and removes the mark of the fact. Undoes the decision if the file cannot be written.
    async fn complete(
        &self,
        fact_id: FactId,
        note: FormattedNote,
        now: Timestamp,
    ) -> Result<FactReceipt, FactError> {
        let review = self.clone();
        let completed = self
            .history
            .with_locked_file(move |session| {
                let completed = review.complete_locked(session, fact_id, &note, now);
                if is_file_error(&completed) {
                    session.wait(review.undo(fact_id, now))?;
                }
                completed
            })
            .await;
        if is_file_error(&completed) {
            // The file could not even be locked.
            self.undo(fact_id, now).await?;
        }
        completed
    }

    /// Does the work of [`Self::complete`] while the file is locked, so that a note is written for a decision that stands.
    fn complete_locked(
        &self,
        session: &mut NotesSession<'_>,
        fact_id: FactId,
        note: &FormattedNote,
        now: Timestamp,
    ) -> Result<FactReceipt, FactError> {
        let fact = session.wait(self.read_fact(fact_id))?;
        let owner = fact.project.as_deref().map_or(NoteOwner::Personal, NoteOwner::Project);
        let replaces = fact.replaces.as_deref();
        if fact.decided_text.as_deref() != Some(note.line.as_str()) {
            // Another process could not write the note and undid the decision.
            return Err(FactError::Contended { fact_id });
        }
        if !fact.is_note_pending {
            // Another process has completed the decision.
            let snapshot = self.history.file.read().map_err(HistoryError::File)?;
            let replacement = note_replacement(&snapshot.bytes, owner, note, replaces);
            let note = report_note(&self.history.file, owner, note, snapshot.bytes.len());
            return Ok(FactReceipt { note: Some(note), replacement, fact });
        }
        let (written, replacement) =
            session.change(RevisionCause::Fact, |file| write_note(file, owner, note, replaces))?;
        let replaced = replaces.filter(|_| replacement == NoteReplacement::Replaced);
        session.wait(self.confirm(&fact, replaced, now))?;
        let fact = session.wait(self.read_fact(fact_id))?;
        Ok(FactReceipt { note: Some(written), replacement, fact })
    }

    /// Removes the mark of an accepted fact. Earlier facts that stood in agent.md as the note `replaced` are superseded in the
    /// same transaction.
    async fn confirm(
        &self,
        fact: &MemoryFact,
        replaced: Option<&str>,
        now: Timestamp,
    ) -> Result<(), FactError> {
        let decision = |fact: &MemoryFact, to| FactDecision {
            fact_id: fact.fact_id,
            from: fact.state,
            to,
            text: None,
            at: now,
        };
        for _ in 0..ATTEMPTS_MAX {
            let earlier = self.facts_of_note(replaced).await?;
            let superseded = earlier
                .iter()
                .filter(|earlier| earlier.fact_id != fact.fact_id && earlier.project == fact.project)
                .map(|earlier| decision(earlier, FactState::Superseded));
            let decisions = [decision(fact, fact.state)].into_iter().chain(superseded).collect();
            if self.commit_decisions(decisions).await? == CommitOutcome::Stored {
                return Ok(());
            }
        }
        Err(FactError::Contended { fact_id: fact.fact_id })
    }

    /// Undoes a decision whose note is pending. Does nothing if it is not.
    async fn undo(&self, fact_id: FactId, now: Timestamp) -> Result<(), FactError> {
        let fact = self.read_fact(fact_id).await?;
        if fact.is_note_pending {
            let (from, to) = (fact.state, FactState::Proposed);
            self.commit_decisions(vec![FactDecision { fact_id, from, to, text: None, at: now }]).await?;
        }
        Ok(())
    }

    /// Stores all of these decisions or none.
    async fn commit_decisions(&self, decisions: Vec<FactDecision>) -> Result<CommitOutcome, FactError> {
        let writes = decisions.into_iter().map(Write::DecideFact).collect();
        match self.history.store.commit(Transaction { fence: None, writes }).await {
            Ok(_) => Ok(CommitOutcome::Stored),
            Err(journal::Error::Conflict { .. }) => Ok(CommitOutcome::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the accepted facts whose note in agent.md is `note`.
    async fn facts_of_note(&self, note: Option<&str>) -> Result<Vec<MemoryFact>, FactError> {
        let Some(key) = note.map(comparison_key) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut offset = 0;
        loop {
            let states = vec![FactState::Accepted, FactState::Edited];
            let query = FactQuery { states, offset, ..FactQuery::for_agent(self.history.agent_id.clone()) };
            let page = self.history.store.facts(query).await?;
            let is_last = page.len() < PAGE_ROWS_MAX;
            offset += page.len();
            let is_note =
                |fact: &MemoryFact| fact.decided_text.as_deref().map(comparison_key).as_ref() == Some(&key);
            found.extend(page.into_iter().filter(is_note));
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Returns a fact of the assistant.
    async fn read_fact(&self, fact_id: FactId) -> Result<MemoryFact, FactError> {
        let fact = self.history.store.fact(fact_id).await?;
        let own = fact.filter(|fact| fact.agent_id == self.history.agent_id);
        own.ok_or_else(|| FactError::Unknown(fact_id.to_string()))
    }
}

/// Returns whether a decision failed because of the file.
const fn is_file_error(completed: &Result<FactReceipt, FactError>) -> bool {
    matches!(completed, Err(FactError::History(HistoryError::File(_))))
}
