//! One attempt to deliver the pending outbox items to the mirror's table, oldest first.
//!
//! An item is removed from the outbox only after its row has been written, so a crash in between repeats a row and
//! loses none. The number of attempts is decided by the caller and by [`MirrorState`].

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use journal::{OutboxItem, OutboxQuery, Store, Transaction, Write};
use parking_lot::Mutex;
use postgres::{DatabaseTarget, Pool, PoolSettings};
use protocol::NewEvent;
use protocol::event::body::HandoffMirrored;
use serde::{Deserialize, Serialize};

use super::Error;
use super::rows::{self, MIRROR_KIND, MirrorRow};
use super::settings::ATTEMPT_MAX;
use super::state::{MirrorState, MirrorStatus, RejectedSummary, StatusChange};
use super::table::{self, MirrorRowCounts};
use crate::lifecycle::log::NO_MODEL_RUN;

/// The outbox kind of the item that holds the mirror's state. All processes share this one item.
const STATE_KIND: &str = "mirror_state";
/// The outbox key of the state item.
const STATE_KEY: &str = "mirror";

/// The payload field of an outbox item that holds the reason why its row was rejected.
const ERROR_FIELD: &str = "error";

/// The number of rows sent in one statement.
const BATCH_ROWS: usize = 100;

/// The result of an attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MirrorDelivery {
    /// The number of items that were sent and removed from the outbox.
    pub sent: u64,
    /// The number of items that the database rejected because of their content. They stay in the outbox.
    pub rejected: u64,
}

/// The sender of outbox items to the mirror's database.
pub(super) struct MirrorSender {
    /// The store that holds the outbox.
    store: Arc<dyn Store>,
    /// The mirror's database.
    target: DatabaseTarget,
    /// The limits of the connection pool.
    settings: PoolSettings,
    /// The open pool, and the name of the database user once the table is known to exist. `None` before the first
    /// attempt and after a connection failure.
    pool: Mutex<Option<(Pool, Option<Arc<str>>)>>,
}

impl MirrorSender {
    /// Returns a sender without connections.
    pub(super) fn new(store: Arc<dyn Store>, target: DatabaseTarget, settings: PoolSettings) -> Self {
        Self { store, target, settings, pool: Mutex::default() }
    }

    /// Returns the host and database of the mirror, without the password.
    pub(super) fn location(&self) -> String {
        self.target.to_string()
    }

    /// Returns the statistics of the open pool.
    pub(super) fn pool_metrics(&self) -> Option<postgres::PoolStatistics> {
        self.pool.lock().as_ref().map(|(pool, _)| pool.statistics())
    }

    /// Sends all pending items. While the mirror is degraded, the first batch has a single row, which probes whether
    /// the database can be written again. `on_progress` gets the number of items sent so far after each batch.
    ///
    /// # Errors
    ///
    /// The failure of the first batch that cannot be sent. Batches before it have been removed from the outbox.
    pub(super) async fn send_pending(
        &self,
        on_progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<MirrorDelivery, Error> {
        let mut query = OutboxQuery::for_kind(MIRROR_KIND, BATCH_ROWS);
        if self.read_state().await?.status() == MirrorStatus::Degraded {
            query.limit = 1;
        }
        let mut delivery = MirrorDelivery::default();
        loop {
            let items = self.store.outbox(query.clone()).await?;
            let Some(last) = items.last() else { return Ok(delivery) };
            // Rejected items stay in the outbox. The cursor moves past them, so this attempt does not send them again.
            query =
                OutboxQuery { after: Some(last.cursor()), ..OutboxQuery::for_kind(MIRROR_KIND, BATCH_ROWS) };
            let batch = self.send_items(items).await?;
            delivery.sent += batch.sent;
            delivery.rejected += batch.rejected;
            on_progress(delivery.sent);
        }
    }

    /// Checks that the database can be used, and records the result. A flush with an empty outbox needs this, because
    /// the recorded state may be old.
    ///
    /// # Errors
    ///
    /// The failure of the check.
    pub(super) async fn probe_database(&self) -> Result<(), Error> {
        match self.count_rows().await {
            Ok(_) => self.note_success(Vec::new()).await,
            Err(error) => self.note_failure(error, None).await,
        }
    }

    /// Returns the number of rows in the mirror's table.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached or the table cannot be used.
    pub(super) async fn count_rows(&self) -> Result<MirrorRowCounts, Error> {
        self.run_attempt(async {
            let (pool, _) = self.prepared_pool().await?;
            table::count_rows(&pool).await
        })
        .await
    }

    /// Returns the delay before the next automatic attempt; `None` when there is none.
    pub(super) async fn retry_delay(&self) -> Result<Option<Duration>, Error> {
        Ok(self.read_state().await?.retry_delay())
    }

    /// Returns the recorded state. A state that is missing or cannot be parsed counts as the default one.
    pub(super) async fn read_state(&self) -> Result<MirrorState, Error> {
        let item = self.store.outbox_item(STATE_KIND, STATE_KEY).await?;
        Ok(item.and_then(|item| MirrorState::deserialize(item.payload).ok()).unwrap_or_default())
    }

    /// Returns `rejected` if its item is still in the outbox and still marked as rejected; another process may have
    /// sent or replaced it.
    pub(super) async fn current_rejection(
        &self,
        rejected: Option<RejectedSummary>,
    ) -> Result<Option<RejectedSummary>, Error> {
        let Some(rejected) = rejected else { return Ok(None) };
        let item = self.store.outbox_item(MIRROR_KIND, &rejected.key).await?;
        Ok(item.and_then(|item| item.payload.get(ERROR_FIELD).is_some().then_some(rejected)))
    }

    /// Sends a batch in one statement and removes its items from the outbox. If the database rejects the statement
    /// because of its content, the items are sent one by one. An item whose handoff cannot be read counts as
    /// rejected.
    async fn send_items(&self, items: Vec<OutboxItem>) -> Result<MirrorDelivery, Error> {
        let (mut readable, mut rejected) = (Vec::new(), 0);
        for item in items {
            match rows::build_row(&*self.store, &item).await {
                Ok(row) => readable.push((item, row)),
                Err(error) if error.is_corruption() => {
                    self.note_rejected(item, None, &format!("failed to {error}")).await?;
                    rejected += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let rows: Vec<MirrorRow> = readable.iter().filter_map(|(_, row)| row.clone()).collect();
        match self.upsert_rows(&rows).await {
            Ok(()) if readable.is_empty() => Ok(MirrorDelivery { sent: 0, rejected }),
            Ok(()) => {
                let sent = readable.len() as u64;
                self.note_success(readable.iter().map(|(item, _)| dequeue_write(item)).collect()).await?;
                self.notify_threads(&rows, None).await;
                Ok(MirrorDelivery { sent, rejected })
            }
            Err(Error::Rejected { .. }) => {
                let singly = self.send_one_by_one(readable.into_iter()).await?;
                Ok(MirrorDelivery { rejected: rejected + singly.rejected, ..singly })
            }
            Err(error) => self.note_failure(error, rows.first()).await,
        }
    }

    /// Sends each item in a statement of its own, so that a rejected row does not hold up the others.
    async fn send_one_by_one(
        &self,
        items: impl Iterator<Item = (OutboxItem, Option<MirrorRow>)> + Send,
    ) -> Result<MirrorDelivery, Error> {
        let mut delivery = MirrorDelivery::default();
        for (item, row) in items {
            match self.upsert_rows(row.as_slice()).await {
                Ok(()) => {
                    self.note_success(vec![dequeue_write(&item)]).await?;
                    self.notify_threads(row.as_slice(), None).await;
                    delivery.sent += 1;
                }
                Err(Error::Rejected { reason }) => {
                    self.note_rejected(item, row.as_ref(), &reason).await?;
                    delivery.rejected += 1;
                }
                Err(error) => self.note_failure(error, row.as_ref()).await?,
            }
        }
        Ok(delivery)
    }

    /// Writes the rows within the time of one attempt. If the table has been dropped meanwhile, it is created again.
    async fn upsert_rows(&self, rows: &[MirrorRow]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.run_attempt(async {
            let (pool, user) = self.prepared_pool().await?;
            match table::upsert_rows(&pool, &user, rows, Timestamp::now()).await {
                // The table was dropped after this process had checked it.
                Err(Error::Database(postgres::Error::UndefinedObject(_))) => {
                    let user = self.prepare_pool(&pool).await?;
                    table::upsert_rows(&pool, &user, rows, Timestamp::now()).await
                }
                written => written,
            }
        })
        .await
        .map(drop)
    }

    /// Runs `work` for at most [`ATTEMPT_MAX`]. After a connection failure the pool is discarded, because an old
    /// connection might wait long for an answer; the next attempt opens new ones.
    async fn run_attempt<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let result = tokio::time::timeout(ATTEMPT_MAX, work).await.unwrap_or(Err(Error::Timeout));
        let is_connection_lost = matches!(
            result,
            Err(Error::Timeout
                | Error::Database(
                    postgres::Error::Unreachable(_)
                        | postgres::Error::TimedOut(_)
                        | postgres::Error::Exhausted
                        | postgres::Error::ConnectionRejected(_)
                ))
        );
        if is_connection_lost {
            *self.pool.lock() = None;
        }
        result
    }

    /// Returns a pool of connections to a database that has the table, and the name of the database user. Opens the
    /// pool and creates the table if necessary.
    async fn prepared_pool(&self) -> Result<(Pool, Arc<str>), Error> {
        let known = self.pool.lock().clone();
        let pool = match known {
            Some((pool, Some(user))) => return Ok((pool, user)),
            Some((pool, None)) => pool,
            None => {
                let pool = Pool::open(self.target.clone(), self.settings).await;
                *self.pool.lock() = Some((pool.clone(), None));
                pool
            }
        };
        let user = self.prepare_pool(&pool).await?;
        Ok((pool, user))
    }

    /// Creates or checks the table and remembers the pool as prepared. Returns the name of the database user.
    async fn prepare_pool(&self, pool: &Pool) -> Result<Arc<str>, Error> {
        let user: Arc<str> = table::prepare_table(pool).await?.into();
        *self.pool.lock() = Some((pool.clone(), Some(Arc::clone(&user))));
        Ok(user)
    }

    /// Commits `writes`, which remove sent items, together with the state after a success. Logs a recovery.
    async fn note_success(&self, mut writes: Vec<Write>) -> Result<(), Error> {
        let now = Timestamp::now();
        let (state, change) = self.read_state().await?.after_success(now);
        writes.push(state_write(&state, now));
        self.store.commit(Transaction { fence: None, writes }).await?;
        if change == Some(StatusChange::Recovered) {
            let status = state.status().as_str();
            tracing::info!(
                handoff_store_status = status,
                "handoff_store_status={status}: summaries reach the mirror again"
            );
        }
        Ok(())
    }

    /// Records a failure that is not due to the content of a row, and returns it. Logs the transition to degraded.
    /// `first` is the first row of the failed batch, for the log.
    async fn note_failure<T>(&self, error: Error, first: Option<&MirrorRow>) -> Result<T, Error> {
        if let Error::Journal(_) = error {
            return Err(error);
        }
        let now = Timestamp::now();
        let before = self.read_state().await?;
        let (state, change) = before.after_failure(error.to_string(), Some(error.hint()), now);
        if !before.is_same_failure(&state) {
            self.store.commit(Transaction { fence: None, writes: vec![state_write(&state, now)] }).await?;
        }
        if change == Some(StatusChange::Degraded) {
            warn_degraded(&error, state.status(), first);
        }
        Err(error)
    }

    /// Records on an item why its row was rejected, logs it and notifies the thread. An item that another process has
    /// replaced meanwhile is left alone.
    async fn note_rejected(
        &self,
        item: OutboxItem,
        row: Option<&MirrorRow>,
        reason: &str,
    ) -> Result<(), Error> {
        tracing::warn!(
            handoff_id = item.key,
            model_run_id = row.and_then(|row| row.model_run_id.as_deref()).unwrap_or(NO_MODEL_RUN),
            tokens_used = row.map_or(0, |row| row.tokens_used),
            "the mirror rejected the summary of handoff {}: {reason}",
            item.key
        );
        let (mut payload, attempts) = (item.payload.clone(), item.attempts.saturating_add(1));
        payload[ERROR_FIELD] = reason.into();
        let rejected = RejectedSummary { key: item.key.clone(), reason: reason.to_owned() };
        let state = MirrorState { rejected: Some(rejected), ..self.read_state().await? };
        let state = state_write(&state, Timestamp::now());
        let writes = vec![Write::UpdateOutboxItem { expected: item, payload, attempts }, state];
        match self.store.commit(Transaction { fence: None, writes }).await {
            Ok(_) => {
                self.notify_threads(row.map_or(&[], std::slice::from_ref), Some(reason)).await;
                Ok(())
            }
            Err(journal::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends an event about the delivery or rejection to the thread of each row.
    ///
    /// The events inform people only. A failure to append one, for example because the thread was deleted, is logged at
    /// DEBUG and otherwise ignored.
    async fn notify_threads(&self, rows: &[MirrorRow], error: Option<&str>) {
        for row in rows {
            let Some(thread_id) = row.parent_thread_id else { continue };
            let (id, error) = (row.handoff_id, error.map(secrets::redact));
            let mirrored = HandoffMirrored {
                handoff_id: id,
                accepted_at: Some(row.created_at),
                error: error.map(Cow::into_owned),
            };
            let key = if mirrored.error.is_some() {
                format!("mirror_rejected:{id}")
            } else {
                format!("mirrored:{id}")
            };
            let Ok(event) = NewEvent::from_body(&mirrored, Timestamp::now()) else {
                continue;
            };
            let writes = vec![Write::Append { thread_id, events: vec![event.with_key(key)] }];
            if let Err(error) = self.store.commit(Transaction { fence: None, writes }).await {
                tracing::debug!(
                    handoff_id = %id, %thread_id, model_run_id = row.model_run_id.as_deref().unwrap_or(NO_MODEL_RUN), tokens_used = row.tokens_used,
                    %error, "failed to record in the thread that the summary of handoff {id} was sent or rejected"
                );
            }
        }
    }
}

/// Returns the write that removes an item from the outbox, unless the item has been replaced by a newer one.
fn dequeue_write(item: &OutboxItem) -> Write {
    Write::RemoveOutboxItem {
        kind: item.kind.clone(),
        key: item.key.clone(),
        created_at: Some(item.created_at),
    }
}

/// Returns the write that stores the mirror's state.
fn state_write(state: &MirrorState, now: Timestamp) -> Write {
    Write::PutOutboxItem(OutboxItem {
        kind: STATE_KIND.to_owned(),
        key: STATE_KEY.to_owned(),
        // Serializing cannot fail: a state has only numbers, texts and times.
        payload: serde_json::to_value(state).unwrap_or_default(),
        attempts: 0,
        created_at: now,
    })
}

/// Logs that the mirror has become degraded and summaries wait from now on.
fn warn_degraded(error: &Error, status: MirrorStatus, first: Option<&MirrorRow>) {
    let status = status.as_str();
    let hint = error.hint();
    match first {
        Some(row) => tracing::warn!(
            handoff_store_status = status, handoff_id = %row.handoff_id, model_run_id = row.model_run_id.as_deref().unwrap_or(NO_MODEL_RUN),
            tokens_used = row.tokens_used,
            "handoff_store_status={status}: handoff {} is not mirrored yet: failed to {error}; {hint}", row.handoff_id
        ),
        None => tracing::warn!(
            handoff_store_status = status,
            "handoff_store_status={status}: failed to {error}; {hint}"
        ),
    }
}
