//! Probes of pending proposals: questions that the next agent has to be able to answer. The `handoff` crate asks and
//! judges; here the model is chosen, and the report of a stored proposal is recorded with its cost.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;
use handoff::{ContinuityCheck, ContinuityResult};
use journal::{EventQuery, Transaction, Write};
use parking_lot::Mutex;
use protocol::event::body::ModelCalled;
use protocol::{Category, ContinuityReport, EventType, HandoffId};
use runtime::{FrameSender, RunScope};
use tokio_util::sync::CancellationToken;

use super::PendingHandoff;
use crate::home::config::HandoffProbe;
use crate::{HandoffError, HandoffService, Result};

/// The most trace events that are searched for a report. Reports are among the newest events of a pending handoff.
const EVENTS_SCANNED_MAX: usize = 200;

/// One lock for each text that is checked, by its handoff and hash.
type CheckSlots = HashMap<(HandoffId, String), Weak<tokio::sync::Mutex<()>>>;

/// The checks by a model that run in this process.
#[derive(Debug, Default)]
pub(crate) struct ContinuityChecks(Mutex<CheckSlots>);

impl ContinuityChecks {
    /// Returns the slot of a text, in which one check runs at a time.
    fn slot(&self, handoff_id: HandoffId, summary_sha256: &str) -> Arc<tokio::sync::Mutex<()>> {
        let key = (handoff_id, summary_sha256.to_owned());
        let mut slots = self.0.lock();
        slots.retain(|_, slot| slot.strong_count() > 0);
        if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
            return slot;
        }
        let slot = Arc::new(tokio::sync::Mutex::new(()));
        slots.insert(key, Arc::downgrade(&slot));
        slot
    }
}

/// The way in which the questions about a proposal are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeMethod {
    /// The model of the child thread answers; without a usable model the text is searched.
    Model,
    /// The text is searched for the answers. This costs nothing.
    Text,
}

impl ProbeMethod {
    /// Returns the method with this name: `model` or `text`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "model" => Some(Self::Model),
            "text" => Some(Self::Text),
            _ => None,
        }
    }
}

impl<'a> HandoffService<'a> {
    /// Returns the method with which a review probes each proposal by itself; `None` if the configuration turns that off.
    pub fn automatic_probe(self) -> Option<ProbeMethod> {
        match self.agent.config.handoff.probe {
            HandoffProbe::Auto => Some(ProbeMethod::Model),
            HandoffProbe::Text => Some(ProbeMethod::Text),
            HandoffProbe::Off => None,
        }
    }

    /// Probes a pending proposal; `None` if the user stopped it. No message is added to a thread. The report of a model about
    /// a stored proposal is recorded, and the next call returns it without a model call unless it has a problem. A report about a text that was
    /// only previewed is not stored.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn probe(
        self,
        pending: &'a PendingHandoff,
        method: ProbeMethod,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<ContinuityReport>>> {
        journal::box_future(async move {
            let model = match method {
                ProbeMethod::Model => self.agent.models.open_if_usable(),
                ProbeMethod::Text => None,
            };
            // Clients that check the same text at once share one check: all but the first wait for its report.
            let text = &pending.proposal.summary_sha256;
            let slot = self.agent.continuity_checks.slot(pending.handoff.handoff_id, text);
            let _permit = tokio::select! {
                permit = slot.lock(), if model.is_some() => Some(permit),
                () = cancel.cancelled(), if model.is_some() => return Ok(None),
                else => None,
            };
            if model.is_some()
                && let Some(stored) = self.recorded_continuity(pending).await?
            {
                return Ok(Some(stored));
            }
            let thread_id = pending.handoff.parent_thread_id;
            let scan_cache = &self.agent.handoff_scan_cache;
            let check = ContinuityCheck {
                store: &self.agent.store,
                scan_cache,
                model,
                handoff: &pending.handoff,
                proposal: &pending.proposal,
                scope: RunScope { frames, cancel },
            };
            let result = check
                .run()
                .await
                .map_err(|failure| HandoffError::NotProbed { thread_id, reason: failure.message })?;
            let ContinuityResult { report, event } = result;
            if let Some(event) = event.filter(|_| !pending.is_unstored()) {
                let writes = vec![Write::Append { thread_id, events: vec![event] }];
                self.agent.store.commit(Transaction { fence: None, writes }).await?;
            }
            Ok(report)
        })
    }

    /// Returns the price of a report's calls in US dollars; `None` without a model, or if the price is unknown.
    pub fn probe_price(self, report: &ContinuityReport) -> Option<f64> {
        self.agent.admin().usage_price(report.model.as_deref()?, &report.usage)
    }

    /// Returns the recorded report of a model about exactly this text, without a problem; `None` if there is none.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn recorded_continuity(
        self,
        pending: &'a PendingHandoff,
    ) -> BoxFuture<'a, Result<Option<ContinuityReport>>> {
        journal::box_future(async move {
            let query = EventQuery {
                categories: vec![Category::Trace],
                limit: EVENTS_SCANNED_MAX,
                ..EventQuery::default()
            };
            let events = self.agent.store.events(pending.handoff.parent_thread_id, query).await?;
            let calls = events.iter().rev().filter(|event| event.kind() == Some(EventType::ModelCalled));
            let mut reports = calls.filter_map(|event| event.body::<ModelCalled>().ok()?.continuity);
            Ok(reports.find(|report| {
                report.handoff_id == pending.handoff.handoff_id
                    && report.summary_sha256 == pending.proposal.summary_sha256
                    && report.model.is_some()
                    && report.problem.is_none()
            }))
        })
    }
}
