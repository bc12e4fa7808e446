//! Decisions on proposed facts. An accepted fact becomes a note in agent.md. The file is written first, because writing a
//! note twice changes nothing: after a crash between the two, the fact is still proposed, and a repeated decision completes
//! it.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{
    FactDecision, FactQuery, FactState, MemoryFact, PAGE_ROWS_MAX, RevisionCause, Transaction, Write,
    comparison_key,
};
use protocol::FactId;

use super::remember::{NoteReplacement, RememberedNote, remove_note, write_note};
use crate::file::history::{HistoryError, NotesHistory};
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
    /// note still stands there exactly once, and at the end of the notes otherwise.
    ///
    /// # Errors
    /// [`FactError::AlreadyDecided`] if it was decided before. Fails if the file or the journal does; then the fact is still
    /// proposed, and the same call completes the decision.
    pub fn decide(
        &self,
        fact_id: FactId,
        verdict: FactVerdict,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<FactReceipt, FactError>> {
        journal::box_future(async move {
            let fact = self.read_fact(fact_id).await?;
            if fact.state != FactState::Proposed {
                return Err(FactError::AlreadyDecided { fact: Box::new(fact) });
            }
            let (to, text) = match verdict {
                FactVerdict::Accept => (FactState::Accepted, Some(fact.text.clone())),
                FactVerdict::Edit(text) if text.trim() == fact.text => (FactState::Accepted, Some(text)),
                FactVerdict::Edit(text) => (FactState::Edited, Some(text)),
                FactVerdict::Decline => (FactState::Declined, None),
            };
            let (note, replacement) = match text {
                Some(text) => {
                    let (note, replacement) = self.write_fact(&fact, text).await?;
                    (Some(note), replacement)
                }
                None => (None, NoteReplacement::NotRequested),
            };
            let text = note.as_ref().map(|note| note.line.clone());
            let decision = FactDecision { fact_id, from: FactState::Proposed, to, text, at: now };
            let replaced = fact.replaces.filter(|_| replacement == NoteReplacement::Replaced);
            match self.store_decision(decision, replaced.as_deref()).await {
                Ok(fact) => Ok(FactReceipt { fact, note, replacement }),
                Err(FactError::AlreadyDecided { fact }) => {
                    if let Some(note) = note {
                        self.remove_unwanted_note(&fact, note, replaced).await?;
                    }
                    Err(FactError::AlreadyDecided { fact })
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Writes the note of an accepted fact to agent.md.
    async fn write_fact(
        &self,
        fact: &MemoryFact,
        text: String,
    ) -> Result<(RememberedNote, NoteReplacement), HistoryError> {
        let (project, replaces) = (fact.project.clone(), fact.replaces.clone());
        self.history
            .change(RevisionCause::Fact, move |file| {
                let owner = project.as_deref().map_or(NoteOwner::Personal, NoteOwner::Project);
                write_note(file, owner, &text, replaces.as_deref())
            })
            .await
    }

    /// Removes the note of a decision that came second, unless the first decision wants the same note, and puts the note back that
    /// it replaced. So agent.md follows the decision that stands.
    async fn remove_unwanted_note(
        &self,
        fact: &MemoryFact,
        note: RememberedNote,
        replaced: Option<String>,
    ) -> Result<(), HistoryError> {
        if note.was_already_noted || fact.decided_text.as_deref() == Some(note.line.as_str()) {
            return Ok(());
        }
        let project = fact.project.clone();
        self.history
            .change(RevisionCause::Fact, move |file| {
                let owner = project.as_deref().map_or(NoteOwner::Personal, NoteOwner::Project);
                remove_note(file, owner, &note.line, replaced.as_deref())
            })
            .await
    }

    /// Stores a decision. Earlier facts that stood in agent.md as the note `replaced` are superseded in the same transaction.
    async fn store_decision(
        &self,
        decision: FactDecision,
        replaced: Option<&str>,
    ) -> Result<MemoryFact, FactError> {
        let fact_id = decision.fact_id;
        for _ in 0..ATTEMPTS_MAX {
            let mut writes = vec![Write::DecideFact(decision.clone())];
            for earlier in self.facts_of_note(replaced).await? {
                let (from, to) = (earlier.state, FactState::Superseded);
                let superseded =
                    FactDecision { fact_id: earlier.fact_id, from, to, text: None, at: decision.at };
                writes.push(Write::DecideFact(superseded));
            }
            match self.history.store.commit(Transaction { fence: None, writes }).await {
                Ok(_) => return self.read_fact(fact_id).await,
                Err(journal::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let fact = self.read_fact(fact_id).await?;
            if fact.state != FactState::Proposed {
                return Err(FactError::AlreadyDecided { fact: Box::new(fact) });
            }
        }
        Err(FactError::Contended { fact_id })
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
