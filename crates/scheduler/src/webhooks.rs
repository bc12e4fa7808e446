//! Webhook delivery: one POST request to the client's URL after a run has ended, with a few retries. A pending delivery
//! is a row of the journal's outbox until it is done, and one process claims it. This module holds only the ids of some
//! of them; a later scan finds the others. It does not decide on the content of the request, only on where it may be
//! sent.
//!
//! A delivery is attempted up to [`WEBHOOK_ATTEMPTS_MAX`] times, with growing pauses. Any status other than 2xx is a
//! failure. A target that the policy refuses is not attempted again. After the last attempt the row is removed,
//! whatever the result is.
//!
//! Deliveries happen at least once: a process that dies between the response and the removal of the row delivers again.

pub(crate) mod resolver;
pub(crate) mod target;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::{Agent, OutboxCursor, PendingWebhook};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::{OwnerScope, Run, RunId, RunRequest};

use self::resolver::HostResolver;
use self::target::{WebhookTarget, WebhookTargetError};
use crate::limits::{
    WEBHOOK_ATTEMPTS_MAX, WEBHOOK_BACKOFF, WEBHOOK_CONCURRENCY_LIMITS, WEBHOOK_QUEUE_LIMITS, WEBHOOK_TIMEOUT,
    WEBHOOKS_PAGE_SIZE, WEBHOOKS_PAGES_MAX,
};
use crate::maintenance;
use crate::queue::{Quota, QuotaPermit};
use crate::scheduler::Scheduler;

/// A run that has ended and has a webhook.
pub struct EndedRun {
    /// The agent of the run's owner.
    pub agent: Arc<Agent>,
    /// The final row of the run.
    pub run: Run,
    /// The request of the run.
    pub request: RunRequest,
}

/// Renders the JSON body of a webhook request.
pub type WebhookRenderer = Arc<dyn Fn(EndedRun) -> BoxFuture<'static, agent::Result<Vec<u8>>> + Send + Sync>;

/// The pending webhook deliveries that this process knows of.
pub(crate) struct WebhookQueue {
    /// Unset until [`Scheduler::enable_webhooks`] is called. Nothing is delivered before that.
    render: OnceLock<WebhookRenderer>,
    pending: Mutex<PendingDeliveries>,
    /// Limits the deliveries in memory.
    quota: Arc<Quota>,
    /// Limits the requests that are sent at the same time.
    concurrency: Arc<Quota>,
    pub(crate) resolver: HostResolver,
}

/// Deliveries that are due, in progress, or waiting for a retry.
#[derive(Default)]
struct PendingDeliveries {
    /// All known deliveries, each with its permit.
    permits: HashMap<RunId, QuotaPermit>,
    /// The deliveries to attempt now, in order.
    due: VecDeque<(RunId, OwnerScope)>,
    /// The position at which the next scan of the outbox continues; `None` for its beginning.
    scan_cursor: Option<OutboxCursor>,
}

/// The outcome of one delivery attempt.
enum DeliveryOutcome {
    /// This process has nothing left to do for the delivery.
    Done,
    /// The delivery has to be attempted again after that time.
    RetryAfter(Duration),
}

impl Default for WebhookQueue {
    fn default() -> Self {
        Self {
            render: OnceLock::new(),
            pending: Mutex::default(),
            quota: Quota::new(WEBHOOK_QUEUE_LIMITS),
            concurrency: Quota::new(WEBHOOK_CONCURRENCY_LIMITS),
            resolver: HostResolver::default(),
        }
    }
}

impl WebhookQueue {
    /// Adds a delivery unless it is known. Without a free permit it is left to a later scan.
    fn enqueue(&self, run_id: RunId, scope: &OwnerScope) {
        let mut pending = self.pending.lock();
        if pending.permits.contains_key(&run_id) {
            return;
        }
        if let Ok(permit) = self.quota.acquire(scope) {
            pending.permits.insert(run_id, permit);
            pending.due.push_back((run_id, scope.clone()));
        }
    }

    /// Returns the next due delivery. Skips owners that have reached their limit of concurrent requests.
    fn next_due(&self) -> Option<(RunId, OwnerScope, QuotaPermit)> {
        self.render.get()?;
        let mut pending = self.pending.lock();
        let permit = |(_, scope): &(RunId, OwnerScope)| self.concurrency.acquire(scope).ok();
        let (index, permit) =
            pending.due.iter().enumerate().find_map(|(index, entry)| Some((index, permit(entry)?)))?;
        let (run_id, scope) = pending.due.remove(index)?;
        Some((run_id, scope, permit))
    }

    /// Makes a delivery due again.
    fn requeue(&self, run_id: RunId, scope: OwnerScope) {
        self.pending.lock().due.push_back((run_id, scope));
    }

    /// Removes a delivery from memory.
    fn forget(&self, run_id: RunId) {
        self.pending.lock().permits.remove(&run_id);
    }

    /// Returns whether the delivery is in memory.
    fn contains(&self, run_id: RunId) -> bool {
        self.pending.lock().permits.contains_key(&run_id)
    }
}

/// The reason why a delivery attempt failed. It never contains the URL, which may contain a secret.
#[derive(Debug, thiserror::Error)]
enum DeliveryError {
    #[error(transparent)]
    Refused(#[from] WebhookTargetError),
    #[error("the server responded with status {0}")]
    Status(u16),
    #[error("reach the server: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

impl DeliveryError {
    /// Returns whether another attempt would fail in the same way.
    const fn is_permanent(&self) -> bool {
        match self {
            Self::Refused(refusal) => !refusal.is_transient(),
            Self::Status(_) | Self::Unreachable(_) | Self::Agent(_) => false,
        }
    }
}

impl Scheduler {
    /// Enables webhooks with that renderer and starts the delivery of pending ones. Nothing is delivered before this
    /// call. Only the first call has an effect.
    pub fn enable_webhooks(self: &Arc<Self>, render: WebhookRenderer) {
        if self.webhooks.render.set(render).is_ok() {
            let scheduler = Arc::clone(self);
            self.spawn_background(async move { scheduler.scan_webhooks().await });
        }
    }

    /// Schedules the webhook of a run whose rows are final.
    pub(crate) fn enqueue_webhook(self: &Arc<Self>, run_id: RunId, scope: &OwnerScope) {
        self.webhooks.enqueue(run_id, scope);
        self.deliver_due_webhooks();
    }

    /// Scans the outbox for pending deliveries that are not in memory: those of dead processes, and those above the
    /// quota.
    pub(crate) async fn scan_webhooks(self: &Arc<Self>) {
        if self.webhooks.render.get().is_none() {
            return;
        }
        for _ in 0..WEBHOOKS_PAGES_MAX {
            match self.scan_webhook_page().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "failed to read the pending webhooks");
                    break;
                }
            }
        }
        self.deliver_due_webhooks();
    }

    /// Adds the deliveries of the next page of the outbox; returns whether another page follows.
    async fn scan_webhook_page(&self) -> agent::Result<bool> {
        let after = self.webhooks.pending.lock().scan_cursor.take();
        let page = self.system_agent.runs().due_webhooks(after, WEBHOOKS_PAGE_SIZE).await?;
        for webhook in &page.due {
            let run_id = webhook.run_id;
            if self.streams.is_open(run_id) || self.webhooks.contains(run_id) {
                continue;
            }
            match self.system_agent.runs().get(run_id).await? {
                Some(run) if run.status.is_active() => {}
                Some(run) => self.webhooks.enqueue(run_id, &OwnerScope::Owner(run.assistant_id.owner())),
                // The run was forgotten, so that there is nothing to deliver.
                None => self.system_agent.runs().finish_webhook(webhook).await?,
            }
        }
        let is_more = page.next.is_some();
        self.webhooks.pending.lock().scan_cursor = page.next;
        Ok(is_more)
    }

    /// Starts as many due deliveries as the concurrency limits allow.
    fn deliver_due_webhooks(self: &Arc<Self>) {
        while let Some((run_id, scope, permit)) = self.webhooks.next_due() {
            let scheduler = Arc::clone(self);
            self.spawn_background(async move {
                let outcome = tokio::select! {
                    outcome = scheduler.deliver_webhook(run_id, &scope) => outcome,
                    // Only a halt drops a request in flight: it may already have arrived and would be delivered twice.
                    () = scheduler.halt.cancelled() => return,
                };
                drop(permit);
                match outcome {
                    Ok(DeliveryOutcome::Done) => scheduler.webhooks.forget(run_id),
                    Ok(DeliveryOutcome::RetryAfter(pause)) => {
                        scheduler.deliver_due_webhooks();
                        tokio::select! {
                            () = tokio::time::sleep(pause) => {}
                            () = scheduler.closing.cancelled() => return,
                        }
                        scheduler.webhooks.requeue(run_id, scope);
                    }
                    Err(error) => {
                        tracing::warn!(run_id = %run_id, %error, "failed to deliver the webhook of run {run_id}");
                        // The next scan finds it.
                        scheduler.webhooks.forget(run_id);
                    }
                }
                scheduler.deliver_due_webhooks();
            });
        }
    }

    /// Attempts the delivery once if this process can claim it.
    async fn deliver_webhook(&self, run_id: RunId, scope: &OwnerScope) -> agent::Result<DeliveryOutcome> {
        let agent = self.agent(scope);
        let Some(mut webhook) = agent.runs().pending_webhook(run_id).await? else {
            return Ok(DeliveryOutcome::Done);
        };
        let Some(run) = agent.runs().get(run_id).await? else {
            agent.runs().finish_webhook(&webhook).await?;
            return Ok(DeliveryOutcome::Done);
        };
        // The process that drives an active run delivers its webhook.
        if run.status.is_active() || !agent.runs().claim_webhook(&mut webhook).await? {
            return Ok(DeliveryOutcome::Done);
        }
        let request = agent.runs().stored_request(run_id).await?.unwrap_or_default();
        let (thread_id, is_temporary) = (run.thread_id, request.temporary);
        let ended = EndedRun { agent: Arc::clone(&agent), run, request };
        if let Err(error) = self.send_webhook(&webhook, scope, ended).await {
            tracing::warn!(run_id = %run_id, "failed to deliver the webhook of run {run_id}: {}", agent::redact(&error.to_string()));
            let attempts = webhook.attempts;
            if attempts + 1 < WEBHOOK_ATTEMPTS_MAX && !error.is_permanent() {
                let is_pending = agent.runs().record_webhook_failure(&mut webhook).await?;
                return Ok(if is_pending {
                    DeliveryOutcome::RetryAfter(backoff_after(attempts))
                } else {
                    DeliveryOutcome::Done
                });
            }
        }
        agent.runs().finish_webhook(&webhook).await?;
        if is_temporary && !self.streams.needs_thread(run_id) {
            maintenance::remove_thread(&agent, thread_id).await;
        }
        Ok(DeliveryOutcome::Done)
    }

    /// Sends the request once.
    async fn send_webhook(
        &self,
        webhook: &PendingWebhook,
        scope: &OwnerScope,
        ended: EndedRun,
    ) -> Result<(), DeliveryError> {
        let Some(render) = self.webhooks.render.get() else { return Ok(()) };
        let target = WebhookTarget::parse(&webhook.url, self.webhook_policy)?;
        let body = render(ended).await?;
        let client = target.client(&self.webhooks.resolver, scope, WEBHOOK_TIMEOUT).await?;
        let response = client
            .post(target.url().clone())
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| DeliveryError::Unreachable(error_chain(&error.without_url())))?;
        // The body of the response is not read.
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(DeliveryError::Status(status.as_u16())),
        }
    }
}

/// Returns the pause after `attempts` earlier attempts: one second, then four times as long each time.
fn backoff_after(attempts: u32) -> Duration {
    WEBHOOK_BACKOFF * 4_u32.saturating_pow(attempts.min(WEBHOOK_ATTEMPTS_MAX))
}

/// Returns the error and its sources as one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
