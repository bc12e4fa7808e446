//! One attempt: what waits in the outbox goes into the mirror's table, oldest first, and leaves the outbox with it. How many
//! attempts are made, and who makes them, is not decided here.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use journal::{OutboxItem, OutboxQuery, Store, Transaction, Write};
use parking_lot::Mutex;
use postgres::{Pool, PoolSettings, Target};
use protocol::NewEvent;
use protocol::event::body::HandoffMirrored;
use serde::{Deserialize, Serialize};

use super::Error;
use super::rows::{self, MIRROR_KIND, Row};
use super::settings::ATTEMPT_MAX;
use super::state::{MirrorStatus, Rejected, State, Turn};
use super::table::{self, Rows};

/// The outbox kind under which the state is kept: one item, of all processes.
const STATE_KIND: &str = "mirror_state";
const STATE_KEY: &str = "mirror";

/// What is noted under on an item that was not taken.
const ERROR: &str = "error";

/// Rows that are sent together.
const BATCH_ROWS: usize = 100;

/// What an attempt did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Delivered {
    /// Items that left the outbox.
    pub sent: u64,
    /// Items that the database did not take because of what is in them; they wait.
    pub rejected: u64,
}

/// Takes what waits to the mirror.
pub(super) struct Courier {
    store: Arc<dyn Store>,
    target: Target,
    settings: PoolSettings,
    /// The connections, as long as they work, and as whom the server knows us, once the table is known to be there.
    pool: Mutex<Option<(Pool, Option<Arc<str>>)>>,
}

impl Courier {
    pub(super) fn new(store: Arc<dyn Store>, target: Target, settings: PoolSettings) -> Self {
        Self { store, target, settings, pool: Mutex::default() }
    }

    pub(super) fn location(&self) -> String {
        self.target.to_string()
    }

    pub(super) fn figures(&self) -> Option<postgres::Figures> {
        self.pool.lock().as_ref().map(|(pool, _)| pool.figures())
    }

    /// Sends everything that waits. While the mirror is degraded, one row shows whether the others may follow.
    ///
    /// # Errors
    /// What it failed with; what was sent before has left the outbox.
    pub(super) async fn deliver(&self, told: &mut (dyn FnMut(u64) + Send)) -> Result<Delivered, Error> {
        let mut query = OutboxQuery::of(MIRROR_KIND, BATCH_ROWS);
        if self.state().await?.status() == MirrorStatus::Degraded {
            query.limit = 1;
        }
        let mut delivered = Delivered::default();
        loop {
            let items = self.store.outbox(query.clone()).await?;
            let Some(last) = items.last() else { return Ok(delivered) };
            // What is rejected stays, and is not come back to here.
            query = OutboxQuery { after: Some(last.place()), ..OutboxQuery::of(MIRROR_KIND, BATCH_ROWS) };
            let batch = self.send(items).await?;
            delivered.sent += batch.sent;
            delivered.rejected += batch.rejected;
            told(delivered.sent);
        }
    }

    /// Makes sure that the mirror can be used, though nothing may wait: what was told of it before may be long ago.
    pub(super) async fn check(&self) -> Result<(), Error> {
        match self.rows().await {
            Ok(_) => self.note_success(Vec::new()).await,
            Err(error) => self.note_failure(error, None).await,
        }
    }

    pub(super) async fn rows(&self) -> Result<Rows, Error> {
        self.attempt(async {
            let (pool, _) = self.ready().await?;
            table::count(&pool).await
        })
        .await
    }

    /// Returns how long to wait before the next attempt; `None` when it is not to be made by itself.
    pub(super) async fn pause(&self) -> Result<Option<Duration>, Error> {
        Ok(self.state().await?.pause())
    }

    pub(super) async fn state(&self) -> Result<State, Error> {
        let item = self.store.outbox_item(STATE_KIND, STATE_KEY).await?;
        Ok(item.and_then(|item| State::deserialize(item.payload).ok()).unwrap_or_default())
    }

    /// Returns what was rejected, unless it has left the outbox or something took its place there.
    pub(super) async fn still_rejected(&self, rejected: Option<Rejected>) -> Result<Option<Rejected>, Error> {
        let Some(rejected) = rejected else { return Ok(None) };
        let item = self.store.outbox_item(MIRROR_KIND, &rejected.key).await?;
        Ok(item.and_then(|item| item.payload.get(ERROR).is_some().then_some(rejected)))
    }

    /// Sends some items, and takes them out of the outbox.
    async fn send(&self, items: Vec<OutboxItem>) -> Result<Delivered, Error> {
        let (mut readable, mut rejected) = (Vec::new(), 0);
        for item in items {
            match rows::row(&*self.store, &item).await {
                Ok(row) => readable.push((item, row)),
                Err(error) if error.is_damage() => {
                    self.note_rejected(item, None, &format!("failed to {error}")).await?;
                    rejected += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let all: Vec<Row> = readable.iter().filter_map(|(_, row)| row.clone()).collect();
        match self.put(&all).await {
            Ok(()) if readable.is_empty() => Ok(Delivered { sent: 0, rejected }),
            Ok(()) => {
                let sent = readable.len() as u64;
                self.note_success(readable.iter().map(|(item, _)| taken(item)).collect()).await?;
                self.tell_threads(&all, None).await;
                Ok(Delivered { sent, rejected })
            }
            Err(Error::Rejected { .. }) => {
                let singly = self.send_singly(readable.into_iter()).await?;
                Ok(Delivered { rejected: rejected + singly.rejected, ..singly })
            }
            Err(error) => self.note_failure(error, all.first()).await,
        }
    }

    /// Sends each item by itself, so that one that is rejected holds up no other.
    async fn send_singly(
        &self,
        items: impl Iterator<Item = (OutboxItem, Option<Row>)> + Send,
    ) -> Result<Delivered, Error> {
        let mut delivered = Delivered::default();
        for (item, row) in items {
            match self.put(row.as_slice()).await {
                Ok(()) => {
                    self.note_success(vec![taken(&item)]).await?;
                    self.tell_threads(row.as_slice(), None).await;
                    delivered.sent += 1;
                }
                Err(Error::Rejected { reason }) => {
                    self.note_rejected(item, row.as_ref(), &reason).await?;
                    delivered.rejected += 1;
                }
                Err(error) => self.note_failure(error, row.as_ref()).await?,
            }
        }
        Ok(delivered)
    }

    async fn put(&self, rows: &[Row]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        self.attempt(async {
            let (pool, user) = self.ready().await?;
            match table::upsert(&pool, &user, rows, Timestamp::now()).await {
                // Somebody removed the table while we knew it to be there.
                Err(Error::Database(postgres::Error::Missing(_))) => {
                    let user = self.prepare(&pool).await?;
                    table::upsert(&pool, &user, rows, Timestamp::now()).await
                }
                written => written,
            }
        })
        .await
        .map(drop)
    }

    /// Does something with the database within the time of an attempt. After a failure of the way there, the next attempt
    /// begins with new connections: an old one may wait for an answer for long.
    async fn attempt<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let done = tokio::time::timeout(ATTEMPT_MAX, work).await.unwrap_or(Err(Error::Silent));
        let is_lost = matches!(
            done,
            Err(Error::Silent
                | Error::Database(
                    postgres::Error::Unreachable(_)
                        | postgres::Error::TimedOut(_)
                        | postgres::Error::Exhausted
                        | postgres::Error::Refused(_)
                ))
        );
        if is_lost {
            *self.pool.lock() = None;
        }
        done
    }

    /// Returns connections to a database that has the table.
    async fn ready(&self) -> Result<(Pool, Arc<str>), Error> {
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
        let user = self.prepare(&pool).await?;
        Ok((pool, user))
    }

    async fn prepare(&self, pool: &Pool) -> Result<Arc<str>, Error> {
        let user: Arc<str> = table::prepare(pool).await?.into();
        *self.pool.lock() = Some((pool.clone(), Some(Arc::clone(&user))));
        Ok(user)
    }

    /// Takes what was sent out of the outbox, and notes that it works.
    async fn note_success(&self, mut writes: Vec<Write>) -> Result<(), Error> {
        let now = Timestamp::now();
        let (state, turn) = self.state().await?.succeeded(now);
        writes.push(keep(&state, now));
        self.store.commit(Transaction { fence: None, writes }).await?;
        if turn == Some(Turn::Recovered) {
            let status = state.status().as_str();
            tracing::info!(
                handoff_store_status = status,
                "handoff_store_status={status}: the mirror is written again"
            );
        }
        Ok(())
    }

    /// Notes a failure that is not a row's own, and returns it.
    async fn note_failure<T>(&self, error: Error, first: Option<&Row>) -> Result<T, Error> {
        if let Error::Journal(_) = error {
            return Err(error);
        }
        let now = Timestamp::now();
        let before = self.state().await?;
        let (state, turn) = before.failed(error.to_string(), Some(error.hint()), now);
        if !before.says_as_much_as(&state) {
            self.store.commit(Transaction { fence: None, writes: vec![keep(&state, now)] }).await?;
        }
        if turn == Some(Turn::Degraded) {
            warn(&error, state.status(), first);
        }
        Err(error)
    }

    /// Notes on an item why it was not taken; somebody may have replaced it meanwhile.
    async fn note_rejected(&self, item: OutboxItem, row: Option<&Row>, reason: &str) -> Result<(), Error> {
        tracing::warn!(
            handoff_id = item.key,
            model_run_id = row.and_then(|row| row.model_run_id).map(display),
            tokens_used = row.map_or(0, |row| row.tokens_used),
            "the mirror does not take the summary of handoff {}: {reason}",
            item.key
        );
        let (mut payload, attempts) = (item.payload.clone(), item.attempts.saturating_add(1));
        payload[ERROR] = reason.into();
        let rejected = Rejected { key: item.key.clone(), reason: reason.to_owned() };
        let state = State { rejected: Some(rejected), ..self.state().await? };
        let state = keep(&state, Timestamp::now());
        let writes = vec![Write::ChangeQueued { was: item, payload, attempts }, state];
        match self.store.commit(Transaction { fence: None, writes }).await {
            Ok(_) => {
                self.tell_threads(row.map_or(&[], std::slice::from_ref), Some(reason)).await;
                Ok(())
            }
            Err(journal::Error::Differs { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds to the threads what became of their summaries. It is told there and nothing rests on it: a thread may be gone.
    async fn tell_threads(&self, rows: &[Row], error: Option<&str>) {
        for row in rows {
            let Some(thread_id) = row.parent_thread_id else { continue };
            let (id, error) = (row.handoff_id, error.map(facts::redact));
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
            let Ok(event) = NewEvent::of(&mirrored, Timestamp::now()) else {
                continue;
            };
            let writes = vec![Write::Append { thread_id, events: vec![event.keyed(key)] }];
            if let Err(error) = self.store.commit(Transaction { fence: None, writes }).await {
                tracing::debug!(
                    handoff_id = %id, %thread_id, model_run_id = row.model_run_id.map(display), tokens_used = row.tokens_used,
                    %error, "failed to note in the thread what became of the summary of handoff {id}"
                );
            }
        }
    }
}

/// Returns the write that takes an item out of the outbox; one that has taken its place stays.
fn taken(item: &OutboxItem) -> Write {
    Write::Dequeue { kind: item.kind.clone(), key: item.key.clone(), created_at: Some(item.created_at) }
}

fn keep(state: &State, now: Timestamp) -> Write {
    Write::Enqueue(OutboxItem {
        kind: STATE_KIND.to_owned(),
        key: STATE_KEY.to_owned(),
        // A state is serializable: it has text and times only.
        payload: serde_json::to_value(state).unwrap_or_default(),
        attempts: 0,
        created_at: now,
    })
}

/// Tells once that summaries wait from here on.
fn warn(error: &Error, status: MirrorStatus, first: Option<&Row>) {
    let status = status.as_str();
    let hint = error.hint();
    match first {
        Some(row) => tracing::warn!(
            handoff_store_status = status, handoff_id = %row.handoff_id, model_run_id = row.model_run_id.map(display),
            tokens_used = row.tokens_used,
            "handoff_store_status={status}: handoff {} is not mirrored yet: failed to {error}; {hint}", row.handoff_id
        ),
        None => tracing::warn!(
            handoff_store_status = status,
            "handoff_store_status={status}: failed to {error}; {hint}"
        ),
    }
}
