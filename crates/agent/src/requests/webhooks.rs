//! Who is to be told of a run's end: kept from the transaction that takes the run until it was done, so that no crash
//! forgets it. One process tells it: the one that took the run, and once that is gone whichever claims it first. How it is
//! told, and when it is given up, is not decided here.

use std::collections::HashMap;

use jiff::Timestamp;
use journal::{OutboxItem, OutboxPlace, OutboxQuery, Transaction, Write};
use protocol::{RunId, RunRequest};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::agent::services::RunService;

/// The kind under which the journal keeps them.
const KIND: &str = "webhook";

/// An address that is to be told of a run's end.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// The run.
    pub run_id: RunId,
    /// The address.
    pub url: String,
    /// How often it was tried.
    pub attempts: u32,
    /// The process that tells it, as long as it lives.
    process: String,
    /// What is kept of it, as the agent sees it that returned it.
    item: OutboxItem,
}

/// A page of what is owed.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Those that this process owes, and those of processes that are gone; oldest first. Their runs may not have ended.
    pub due: Vec<Webhook>,
    /// Where the next page begins; `None` when there is none.
    pub next: Option<OutboxPlace>,
}

/// What is kept of it.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    run_id: RunId,
    url: String,
    process: String,
}

impl RunService<'_> {
    /// Returns a page of what is owed that this process may tell: of the first `limit` rows behind `after`, or of all.
    ///
    /// # Errors
    /// When the journal fails, or this process has no name.
    pub async fn webhooks_due(self, after: Option<OutboxPlace>, limit: usize) -> Result<Webhooks> {
        let here = self.agent.leases.name().await?;
        let items = self.agent.store.outbox(OutboxQuery { after, ..OutboxQuery::of(KIND, limit) }).await?;
        let next = if items.len() < limit { None } else { items.last().map(OutboxItem::place) };
        let living = self.agent.leases.living().await?;
        let mut gone: HashMap<String, bool> = HashMap::new();
        let mut due: Vec<Webhook> = items.into_iter().filter_map(Webhook::read).collect();
        due.retain(|webhook| {
            webhook.process == here
                || *gone
                    .entry(webhook.process.clone())
                    .or_insert_with(|| self.agent.leases.has_gone(&webhook.process, &living))
        });
        Ok(Webhooks { due, next })
    }

    /// Returns what is owed of the end of a run of this agent's; `None` when nothing is.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn webhook(self, run_id: RunId) -> Result<Option<Webhook>> {
        let item = self.agent.store.outbox_item(KIND, &run_id.to_string()).await?;
        Ok(item.and_then(Webhook::read))
    }

    /// Takes on what is owed, and returns whether it is this process's to tell: another one took it on, or has told it,
    /// otherwise.
    ///
    /// # Errors
    /// When the journal fails, or this process has no name.
    pub async fn claim_webhook(self, webhook: &mut Webhook) -> Result<bool> {
        // Others leave it to this process as long as that says that it lives.
        self.agent.leases.announce().await?;
        let here = self.agent.leases.name().await?.to_owned();
        if webhook.process == here {
            return Ok(true);
        }
        let living = self.agent.leases.living().await?;
        if !self.agent.leases.has_gone(&webhook.process, &living) {
            return Ok(false);
        }
        let attempts = webhook.attempts;
        self.change(webhook, here, attempts).await
    }

    /// Notes that it was tried in vain, and returns whether it is still this process's to tell.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn webhook_failed(self, webhook: &mut Webhook) -> Result<bool> {
        let (process, attempts) = (webhook.process.clone(), webhook.attempts + 1);
        self.change(webhook, process, attempts).await
    }

    /// Lets go of it: it was told, or given up.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn webhook_done(self, webhook: &Webhook) -> Result<()> {
        let (kind, key) = (KIND.to_owned(), webhook.item.key.clone());
        let created_at = Some(webhook.item.created_at);
        let writes = vec![Write::Dequeue { kind, key, created_at }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    async fn change(self, webhook: &mut Webhook, process: String, attempts: u32) -> Result<bool> {
        let stored = Stored { run_id: webhook.run_id, url: webhook.url.clone(), process };
        let payload = serde_json::to_value(&stored)?;
        let change = Write::ChangeQueued { was: webhook.item.clone(), payload: payload.clone(), attempts };
        match self.agent.store.commit(Transaction { fence: None, writes: vec![change] }).await {
            Ok(_) => {
                (webhook.process, webhook.attempts) = (stored.process, attempts);
                (webhook.item.payload, webhook.item.attempts) = (payload, attempts);
                Ok(true)
            }
            Err(journal::Error::Differs { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the write that keeps what is to be told of the run's end.
    pub(super) async fn owed(self, run_id: RunId, request: &RunRequest) -> Result<Option<Write>> {
        let Some(url) = request.webhook.clone() else { return Ok(None) };
        let stored = Stored { run_id, url, process: self.agent.leases.name().await?.to_owned() };
        let (kind, key, payload) = (KIND.to_owned(), run_id.to_string(), serde_json::to_value(stored)?);
        let item = OutboxItem { kind, key, payload, attempts: 0, created_at: Timestamp::now() };
        Ok(Some(Write::Enqueue(item)))
    }
}

impl Webhook {
    fn read(item: OutboxItem) -> Option<Self> {
        let Stored { run_id, url, process } = Stored::deserialize(&item.payload).ok()?;
        Some(Self { run_id, url, attempts: item.attempts, process, item })
    }
}
