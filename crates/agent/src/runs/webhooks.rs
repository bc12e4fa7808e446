//! Pending webhooks: the rows that record which address is called when a run ends.
//!
//! A row exists from the transaction that admits the run until the delivery is finished, so that a crash
//! loses no webhook. One process delivers it: the one that admitted the run, or, once that has exited, the
//! first one that claims the row. The scheduler delivers webhooks and decides when to give up.

use futures::future::BoxFuture;
use std::collections::HashMap;

use jiff::Timestamp;
use journal::{OutboxCursor, OutboxItem, OutboxQuery, Transaction, Write};
use protocol::{RunId, RunRequest};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::RunService;

/// The kind of the outbox rows.
const WEBHOOK_KIND: &str = "webhook";

/// A webhook that is called when a run ends.
#[derive(Debug, Clone)]
pub struct PendingWebhook {
    /// The id of the run.
    pub run_id: RunId,
    /// The address to call.
    pub url: String,
    /// The number of failed delivery attempts.
    pub attempts: u32,
    /// The process that delivers the webhook while its heartbeats continue.
    owner_process: String,
    /// The outbox row as it was read, for optimistic updates.
    item: OutboxItem,
}

/// A page of pending webhooks.
#[derive(Debug, Clone)]
pub struct PendingWebhookPage {
    /// The webhooks of this process and of exited processes, oldest first. Their runs may not have ended yet.
    pub due: Vec<PendingWebhook>,
    /// The cursor of the next page; `None` after the last page.
    pub next: Option<OutboxCursor>,
}

/// The stored payload of an outbox row.
#[derive(Debug, Serialize, Deserialize)]
struct StoredWebhook {
    /// The id of the run.
    run_id: RunId,
    /// The address to call.
    url: String,
    /// The process that delivers the webhook.
    process: String,
}

impl<'a> RunService<'a> {
    /// Returns the webhooks that this process may deliver among the next `limit` rows after the cursor
    /// `after`.
    ///
    /// # Errors
    /// Fails if the journal fails, or if this process cannot take a name.
    pub fn due_webhooks(
        self,
        after: Option<OutboxCursor>,
        limit: usize,
    ) -> BoxFuture<'a, Result<PendingWebhookPage>> {
        journal::box_future(async move {
            let this_process = self.agent.leases.process_name().await?;
            let items = self
                .agent
                .store
                .outbox(OutboxQuery { after, ..OutboxQuery::for_kind(WEBHOOK_KIND, limit) })
                .await?;
            let next = if items.len() < limit { None } else { items.last().map(OutboxItem::cursor) };
            let live_processes = self.agent.leases.live_processes().await?;
            let mut dead_processes: HashMap<String, bool> = HashMap::new();
            let mut due: Vec<PendingWebhook> =
                items.into_iter().filter_map(PendingWebhook::from_outbox_item).collect();
            due.retain(|webhook| {
                webhook.owner_process == this_process
                    || *dead_processes.entry(webhook.owner_process.clone()).or_insert_with(|| {
                        self.agent.leases.is_presumed_dead(&webhook.owner_process, &live_processes)
                    })
            });
            Ok(PendingWebhookPage { due, next })
        })
    }

    /// Returns the pending webhook of a run; `None` if it has none.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn pending_webhook(self, run_id: RunId) -> BoxFuture<'a, Result<Option<PendingWebhook>>> {
        journal::box_future(async move {
            let item = self.agent.store.outbox_item(WEBHOOK_KIND, &run_id.to_string()).await?;
            Ok(item.and_then(PendingWebhook::from_outbox_item))
        })
    }

    /// Claims a webhook for this process. Returns whether this process delivers it; otherwise another live
    /// process owns it or has finished it.
    ///
    /// # Errors
    /// Fails if the journal fails, or if this process cannot take a name.
    pub fn claim_webhook(self, webhook: &'a mut PendingWebhook) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            // Other processes leave the webhook to this one only while it sends heartbeats.
            self.agent.leases.start_heartbeat().await?;
            let this_process = self.agent.leases.process_name().await?.to_owned();
            if webhook.owner_process == this_process {
                return Ok(true);
            }
            let live_processes = self.agent.leases.live_processes().await?;
            if !self.agent.leases.is_presumed_dead(&webhook.owner_process, &live_processes) {
                return Ok(false);
            }
            let attempts = webhook.attempts;
            self.update_webhook(webhook, this_process, attempts).await
        })
    }

    /// Records a failed delivery attempt. Returns whether this process still owns the webhook.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn record_webhook_failure(self, webhook: &'a mut PendingWebhook) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            let (process, attempts) = (webhook.owner_process.clone(), webhook.attempts + 1);
            self.update_webhook(webhook, process, attempts).await
        })
    }

    /// Removes a webhook that was delivered or given up.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn finish_webhook(self, webhook: &'a PendingWebhook) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let (kind, key) = (WEBHOOK_KIND.to_owned(), webhook.item.key.clone());
            let created_at = Some(webhook.item.created_at);
            let writes = vec![Write::RemoveOutboxItem { kind, key, created_at }];
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            Ok(())
        })
    }

    /// Updates the owner and the attempts of a webhook's row. Returns `false` if another process has changed
    /// the row since it was read.
    async fn update_webhook(
        self,
        webhook: &mut PendingWebhook,
        process: String,
        attempts: u32,
    ) -> Result<bool> {
        let stored = StoredWebhook { run_id: webhook.run_id, url: webhook.url.clone(), process };
        let payload = serde_json::to_value(&stored)?;
        let change =
            Write::UpdateOutboxItem { expected: webhook.item.clone(), payload: payload.clone(), attempts };
        match self.agent.store.commit(Transaction { fence: None, writes: vec![change] }).await {
            Ok(_) => {
                (webhook.owner_process, webhook.attempts) = (stored.process, attempts);
                (webhook.item.payload, webhook.item.attempts) = (payload, attempts);
                Ok(true)
            }
            Err(journal::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the write that stores the webhook of a run; `None` if the request has none.
    pub(super) async fn webhook_write(self, run_id: RunId, request: &RunRequest) -> Result<Option<Write>> {
        let Some(url) = request.webhook.clone() else { return Ok(None) };
        let stored =
            StoredWebhook { run_id, url, process: self.agent.leases.process_name().await?.to_owned() };
        let (kind, key, payload) =
            (WEBHOOK_KIND.to_owned(), run_id.to_string(), serde_json::to_value(stored)?);
        let item = OutboxItem { kind, key, payload, attempts: 0, created_at: Timestamp::now() };
        Ok(Some(Write::PutOutboxItem(item)))
    }
}

impl PendingWebhook {
    /// Parses an outbox row; `None` if its payload has another shape.
    fn from_outbox_item(item: OutboxItem) -> Option<Self> {
        let StoredWebhook { run_id, url, process } = StoredWebhook::deserialize(&item.payload).ok()?;
        Some(Self { run_id, url, attempts: item.attempts, owner_process: process, item })
    }
}
