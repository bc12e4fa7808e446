//! A blocking PostgreSQL connection with pipelining, cursors, snapshots and transactions. One thread uses a
//! connection at a time; the pool decides how long a connection lives.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::session::connect;
use crate::target::CONNECT_TIMEOUT;
use crate::{DatabaseTarget, Error, Result, Row, SqlValue, TransactionLocks, tls};

/// Maximum number of prepared statements that a connection caches. The journal's fixed statements are fewer, but
/// statements built from a client's filter can exceed this number; the cache is then cleared.
const STATEMENTS_MAX: usize = 512;
/// Maximum time to wait for a response before the connection counts as lost, unless timeouts are disabled. It is
/// longer than the server's own `statement_timeout`, so a slow statement is reported by the server first.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);

/// Acquires the advisory locks `$1` in the given order and returns the transaction id.
const ACQUIRE_LOCKS_SQL: &str =
    "SELECT pg_current_xact_id()::text, pg_advisory_xact_lock(k)::text FROM unnest($1::bigint[]) AS k";
/// Acquires the advisory locks `$1` that are free, and returns whether all of them were.
const TRY_LOCKS_SQL: &str =
    "SELECT bool_and(pg_try_advisory_xact_lock(k))::text FROM unnest($1::bigint[]) AS k";
/// Returns the transaction id.
const TRANSACTION_ID_SQL: &str = "SELECT pg_current_xact_id()::text";

/// Number of rows that a stream fetches from its cursor in one round trip.
const FETCH_BATCH_ROWS: usize = 256;

/// The response to a pipelined statement: the number of affected rows.
type PendingResponse = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send>>;

/// A blocking connection to a PostgreSQL server. It owns a current-thread Tokio runtime, which makes progress only
/// inside its methods.
pub struct Connection {
    /// The runtime that drives the connection. `None` only while the connection is dropped.
    runtime: Option<Runtime>,
    /// The protocol client. Pipelined statements share it.
    client: Arc<Client>,
    /// Prepared statements, by SQL text. At most [`STATEMENTS_MAX`].
    statements: RefCell<HashMap<String, Statement>>,
    /// Statements that were sent and have unread responses, in the order of sending.
    pipelined: RefCell<Vec<PipelinedStatement>>,
    /// Number of open cursors. It also names them.
    open_cursors: Cell<u32>,
    /// Advisory locks that the current transaction requested after its start ([`Connection::acquire_locks`]).
    requested_locks: RefCell<Vec<i64>>,
    /// Set when another transaction held one of them.
    was_lock_held: Cell<bool>,
    /// Set when the connection no longer accepts statements.
    is_lost: Cell<bool>,
    /// Set from the start of a unit of work to its end. It stays set if the work panicked.
    is_in_use: Cell<bool>,
    /// Maximum time to wait for a response. `None` waits as long as the server is reachable.
    response_timeout: Cell<Option<Duration>>,
    /// Number of statements that may still be executed outside of a transaction. `None` is no limit.
    statements_left: Cell<Option<u32>>,
    /// Identifies the server incarnation that this connection was opened to, see [`crate::session`].
    server_incarnation: Arc<str>,
}

/// A statement that was sent and has an unread response.
struct PipelinedStatement {
    /// The response, to be awaited in order.
    response: PendingResponse,
    /// `false` if the failure of this statement is ignored, because its transaction is rolled back anyway.
    reports_failure: bool,
}

/// The two ways in which a transaction is ended without a pending commit.
#[derive(Clone, Copy)]
enum TransactionEnd {
    /// Commit without waiting for the response. Used for read-only transactions, which have nothing to lose.
    Finish,
    /// Roll back and wait for the response, because locks are released only then.
    Rollback,
}

/// The outcome of a transaction whose work succeeded.
pub(crate) enum CommitOutcome<T> {
    /// The server confirmed the commit.
    Committed(T),
    /// The connection was lost during the commit. The second field is the transaction id with which the server can be
    /// asked for the outcome.
    Unknown(T, String),
    /// Nothing was written, because another transaction held a lock that this one had not acquired at its start. It can be
    /// repeated at once with all its locks.
    LocksRefused,
}

impl Connection {
    /// Connects to `target` and prepares the session. Blocks the calling thread for the target's connect timeout at
    /// most.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server cannot be reached in time, [`Error::ConnectionRejected`] if it refuses
    /// the login or its certificate is not accepted.
    pub fn open(target: &DatabaseTarget) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Unreachable(error.to_string()))?;
        let connector = tls::connector(&target.verification)?;
        let limit = target.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        // The timeout is created inside this connection's runtime, because the surrounding runtime may be shutting
        // down.
        let attempt = async { tokio::time::timeout(limit, connect(target, connector)).await };
        let (client, server_incarnation) = match runtime.block_on(attempt) {
            Ok(Ok(connected)) => connected,
            failed => {
                // A DNS lookup may still be running in a blocking thread; do not wait for it.
                runtime.shutdown_background();
                let timed_out = || Error::Unreachable(format!("no answer within {} s", limit.as_secs()));
                return Err(failed.map_or_else(
                    |_| timed_out(),
                    |refused| refused.err().map_or_else(timed_out, Error::from_connect_error),
                ));
            }
        };
        Ok(Self {
            runtime: Some(runtime),
            client: Arc::new(client),
            statements: RefCell::default(),
            pipelined: RefCell::default(),
            open_cursors: Cell::new(0),
            requested_locks: RefCell::default(),
            was_lock_held: Cell::new(false),
            is_lost: Cell::new(false),
            is_in_use: Cell::new(false),
            response_timeout: Cell::new(Some(RESPONSE_TIMEOUT)),
            statements_left: Cell::new(None),
            server_incarnation,
        })
    }

    /// Marks the start of a unit of work.
    pub(crate) fn mark_in_use(&self) {
        self.is_in_use.set(true);
    }

    /// Marks the end of a unit of work.
    pub(crate) fn mark_unused(&self) {
        self.is_in_use.set(false);
    }

    /// Returns whether the connection must not be reused: it is lost, or a unit of work did not end because it
    /// panicked.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_lost() || self.is_in_use.get()
    }

    /// Returns the identity of the server incarnation that this connection was opened to.
    pub(crate) fn server_incarnation(&self) -> Arc<str> {
        Arc::clone(&self.server_incarnation)
    }

    /// Returns whether the connection no longer accepts statements.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.get() || self.client.is_closed()
    }

    /// Disables the time limits of all later statements on this connection. Use it for statements that read or rewrite
    /// whole tables. Afterwards only TCP keepalives detect a server that no longer exists.
    ///
    /// # Errors
    /// Fails like [`Self::query`].
    pub fn disable_timeouts(&self) -> Result<()> {
        self.batch_execute("SET statement_timeout = 0")?;
        self.response_timeout.set(None);
        Ok(())
    }

    /// Runs `work` without time limits for its statements. Call it only within a snapshot or a transaction, because
    /// the setting is local to the transaction.
    ///
    /// # Errors
    /// Returns the errors of `work`, and fails like [`Self::query`].
    pub fn without_timeouts<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.batch_execute("SET LOCAL statement_timeout = 0")?;
        let limit = self.response_timeout.replace(None);
        let result = work();
        self.response_timeout.set(limit);
        result
    }

    /// Executes a statement and returns all its rows.
    ///
    /// # Errors
    /// Returns the failure of this statement, or of an earlier pipelined statement with an unread response.
    pub fn query(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<Row>> {
        self.count_statement()?;
        let statement = self.prepare(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.await_response(self.client.query(&statement, &parameters))?;
        Ok(rows.into_iter().map(Row).collect())
    }

    /// Executes a query and passes its rows to `visit` until the visitor breaks. Rows are fetched in batches of 256, so
    /// memory use does not grow with the result. Call it only within a snapshot or a transaction, because cursors exist
    /// only there.
    ///
    /// # Errors
    /// Returns the errors of `visit`, and fails like [`Self::query`].
    pub fn stream<E: From<Error>>(
        &self,
        sql: &str,
        values: &[SqlValue<'_>],
        mut visit: impl FnMut(&Row) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        self.open_cursors.set(self.open_cursors.get() + 1);
        let cursor = format!("rows_{}", self.open_cursors.get());
        let result = self.open_cursor(&cursor, sql, values).map_err(E::from).and_then(|()| {
            let fetch = format!("FETCH {FETCH_BATCH_ROWS} FROM {cursor}");
            loop {
                let rows = self.await_response(self.client.query_typed(&fetch, &[]))?;
                let is_last = rows.len() < FETCH_BATCH_ROWS;
                for row in rows {
                    if visit(&Row(row))?.is_break() {
                        return Ok(self.close_cursor(&cursor)?);
                    }
                }
                if is_last {
                    return Ok(self.close_cursor(&cursor)?);
                }
            }
        });
        self.open_cursors.set(self.open_cursors.get() - 1);
        result
    }

    /// Declares a forward-only cursor for a query.
    fn open_cursor(&self, cursor: &str, sql: &str, values: &[SqlValue<'_>]) -> Result<()> {
        self.execute(&format!("DECLARE {cursor} NO SCROLL CURSOR FOR {sql}"), values).map(|_| ())
    }

    /// Closes a cursor without waiting for the response.
    fn close_cursor(&self, cursor: &str) -> Result<()> {
        self.send(&format!("CLOSE {cursor}"), Vec::new())
    }

    /// Executes a statement and returns the number of affected rows.
    ///
    /// # Errors
    /// Fails like [`Self::query`].
    pub fn execute(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64> {
        self.count_statement()?;
        let statement = self.prepare(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.await_response(self.client.execute(&statement, &parameters))
    }

    /// Pipelines a statement: sends it without waiting for its response. A failure is returned by the next call that
    /// waits.
    ///
    /// # Errors
    /// Fails if the statement cannot be prepared or sent, or if an earlier pipelined statement failed.
    pub fn send(&self, sql: &str, values: Vec<SqlValue<'static>>) -> Result<()> {
        self.count_statement()?;
        let statement = self.prepare(sql)?;
        let client = Arc::clone(&self.client);
        Ok(self.pipeline_statement(Box::pin(async move { client.execute_raw(&statement, values).await }))?)
    }

    /// Executes several statements without parameters, separated by semicolons.
    ///
    /// # Errors
    /// Fails like [`Self::query`].
    pub fn batch_execute(&self, sql: &str) -> Result<()> {
        self.await_response(self.client.batch_execute(sql))
    }

    /// Runs `work` in a read-only transaction with isolation level REPEATABLE READ, so that all its queries see one
    /// snapshot.
    ///
    /// # Errors
    /// Returns the errors of `work` and of the connection.
    pub fn read_snapshot<T, E: From<Error>>(&self, work: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        self.send_simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let result = work(self);
        self.end_transaction(TransactionEnd::Finish);
        result
    }

    /// Runs `work`, which executes one query. It needs no transaction, because a single statement sees one snapshot.
    ///
    /// # Errors
    /// Returns the errors of `work` and of the connection. A second statement fails with [`Error::Malformed`], because it
    /// would see another snapshot.
    pub fn read_statement<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.statements_left.set(Some(1));
        let result = work(self);
        self.statements_left.set(None);
        result
    }

    /// Counts a statement that is about to be executed.
    fn count_statement(&self) -> Result<()> {
        match self.statements_left.get() {
            None => Ok(()),
            Some(left) => {
                let left = left.checked_sub(1).ok_or_else(|| {
                    Error::Malformed("several statements need a snapshot or a transaction".to_owned())
                })?;
                self.statements_left.set(Some(left));
                Ok(())
            }
        }
    }

    /// Acquires advisory locks that the work of a transaction discovered, until its end. It does not wait for them, because
    /// two transactions could deadlock. [`crate::Pool::write`] repeats the transaction with these locks if one is held.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another transaction holds one of the locks.
    pub fn acquire_locks(&self, locks: Vec<i64>) -> Result<()> {
        self.requested_locks.borrow_mut().extend_from_slice(&locks);
        let rows = self.query(TRY_LOCKS_SQL, &[SqlValue::Integers(locks.into())])?;
        if rows.first().map(|row| row.text(0)).transpose()?.flatten().as_deref() == Some("false") {
            self.was_lock_held.set(true);
            return Err(Error::Conflict("another transaction holds a lock".to_owned()));
        }
        Ok(())
    }

    /// Returns the locks that the last transaction requested after its start, if another transaction held one of them.
    pub(crate) fn take_refused_locks(&self) -> Option<Vec<i64>> {
        let locks = self.requested_locks.take();
        self.was_lock_held.take().then_some(locks)
    }

    /// Runs `work` in one transaction, after acquiring the locks. If `work` fails, everything is rolled back. If the
    /// connection is lost during the commit, the outcome is [`CommitOutcome::Unknown`].
    ///
    /// # Errors
    /// Returns the errors of `work`, of an earlier pipelined statement and of the commit. Nothing is written then.
    pub(crate) fn transaction<T, E: From<Error>>(
        &self,
        locks: &TransactionLocks,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<CommitOutcome<T>, E> {
        self.requested_locks.take();
        self.was_lock_held.set(false);
        let transaction_id = self.begin_transaction(locks)?;
        // Ensure that the transaction id is known before the commit. Without it the outcome of a commit could not be
        // looked up after a lost response.
        let is_id_known = || transaction_id.lock().is_some();
        let result = work(self).and_then(|value| {
            let id_read = if is_id_known() { Ok(()) } else { self.await_pipelined() };
            id_read.map(|()| value).map_err(E::from)
        });
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                self.end_transaction(TransactionEnd::Rollback);
                return Err(error);
            }
        };
        match self.commit() {
            Ok(()) => Ok(CommitOutcome::Committed(value)),
            Err(Error::Unreachable(_)) => {
                self.is_lost.set(true);
                let transaction_id = transaction_id.lock().take();
                Ok(CommitOutcome::Unknown(value, transaction_id.unwrap_or_default()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Commits the transaction. If a pipelined statement failed, the server executes the commit as a rollback, and the
    /// failure of the statement is returned. The transaction has ended in every case.
    fn commit(&self) -> Result<()> {
        let is_answered = Cell::new(false);
        let result = self.prepare("COMMIT").and_then(|statement| {
            self.await_response(async {
                let answer = self.client.execute(&statement, &[]).await;
                is_answered.set(answer.is_ok());
                answer
            })
        });
        // A second end of the transaction would make the server log a warning.
        if matches!(&result, Err(error) if !is_answered.get() && !matches!(error, Error::Unreachable(_))) {
            self.end_transaction(TransactionEnd::Rollback);
        }
        result.map(drop)
    }

    /// Pipelines the start of a transaction and the acquisition of its locks. The server makes later statements wait
    /// for the locks; this call does not wait. Returns a cell that holds the transaction id once the response has
    /// been read. If it fails, no transaction is open.
    fn begin_transaction(&self, locks: &TransactionLocks) -> Result<Arc<Mutex<Option<String>>>> {
        let (sql, values) = match &locks.locks[..] {
            [] => (TRANSACTION_ID_SQL, Vec::new()),
            keys => (ACQUIRE_LOCKS_SQL, vec![SqlValue::Integers(Cow::Owned(keys.to_vec()))]),
        };
        let statement = self.prepare(sql)?;
        match locks.lock_timeout {
            None => self.send_simple("BEGIN"),
            Some(timeout) => {
                self.send_simple(format!("BEGIN; SET LOCAL lock_timeout = {}", timeout.as_millis()))
            }
        }
        let transaction_id = Arc::new(Mutex::new(None));
        let (client, cell) = (Arc::clone(&self.client), Arc::clone(&transaction_id));
        let acquisition = self.pipeline_statement(Box::pin(async move {
            let parameters: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
            let rows = client.query(&statement, &parameters).await?;
            let id = rows.first().map(|row| row.try_get(0)).transpose()?;
            *cell.lock() = id;
            Ok(0)
        }));
        match acquisition {
            Ok(()) => Ok(transaction_id),
            Err(error) => {
                self.end_transaction(TransactionEnd::Rollback);
                Err(error.into())
            }
        }
    }

    /// Reads the responses of all pipelined statements, so that a failure of one of them is returned here and not by
    /// the commit.
    fn await_pipelined(&self) -> Result<()> {
        if self.pipelined.borrow().is_empty() {
            return Ok(());
        }
        self.await_response(async { Ok(()) })
    }

    /// Ends the current transaction. The end of a read-only transaction is not awaited. A rollback is awaited,
    /// because the transaction may hold locks.
    fn end_transaction(&self, ending: TransactionEnd) {
        if self.is_lost() {
            return;
        }
        for statement in self.pipelined.borrow_mut().iter_mut() {
            statement.reports_failure = false;
        }
        match ending {
            TransactionEnd::Finish => {
                self.send_simple("COMMIT");
                self.flush_pipeline();
            }
            // If the rollback fails, the connection is closed, which rolls back as well.
            TransactionEnd::Rollback => {
                self.is_lost.set(self.await_response(self.client.batch_execute("ROLLBACK")).is_err())
            }
        }
    }

    /// Pipelines a statement without parameters that begins or ends a transaction. A failure to send it is returned
    /// by the next call that waits.
    fn send_simple(&self, sql: impl Into<Cow<'static, str>>) {
        let sql = sql.into();
        let client = Arc::clone(&self.client);
        if let Err(error) =
            self.pipeline_statement(Box::pin(async move { client.batch_execute(&sql).await.map(|()| 0) }))
        {
            // The connection is closed. Queue the error, so that the next call that waits returns it.
            let response = Box::pin(std::future::ready(Err(error)));
            self.pipelined.borrow_mut().push(PipelinedStatement { response, reports_failure: true });
        }
    }

    /// Queues a statement to be sent, in order, with the next statement that waits.
    ///
    /// A statement that fails before it is sent, because a parameter cannot be encoded, is reported at once. The
    /// server does not know of such a statement and would commit the rest of the transaction without it.
    fn pipeline_statement(&self, mut response: PendingResponse) -> Result<(), tokio_postgres::Error> {
        // The first poll encodes the statement into the connection's send queue.
        match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(|_| ()),
            Poll::Pending => {
                self.pipelined.borrow_mut().push(PipelinedStatement { response, reports_failure: true });
                Ok(())
            }
        }
    }

    /// Returns the prepared statement for `sql`, from the cache if possible. Otherwise it waits for one round trip.
    fn prepare(&self, sql: &str) -> Result<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.await_response(self.client.prepare(sql))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Lets the runtime write the pipelined statements to the socket, without waiting for a response.
    fn flush_pipeline(&self) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Waits for a response, and for the responses of all statements pipelined before it. The connection is marked as
    /// lost if the server is unreachable or does not respond in time.
    fn await_response<T>(
        &self,
        response: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::Unreachable("the connection is closed".to_owned()));
        };
        let earlier = std::mem::take(&mut *self.pipelined.borrow_mut());
        // The timeout is created inside this connection's runtime, because the surrounding runtime may be shutting
        // down.
        let bounded = async {
            match self.response_timeout.get() {
                Some(limit) => {
                    tokio::time::timeout(limit, await_in_order(earlier, response)).await.map_err(|_| limit)
                }
                None => Ok(await_in_order(earlier, response).await),
            }
        };
        let outcome = runtime.block_on(bounded).map_or_else(
            |limit| Err(Error::Unreachable(format!("no response within {} s", limit.as_secs()))),
            |response| response.map_err(Error::from),
        );
        if matches!(outcome, Err(Error::Unreachable(_))) {
            self.is_lost.set(true);
        }
        outcome
    }
}

/// Sends `last` after the statements that were pipelined before it, and waits for all responses. Returns the first
/// failure, because later failures follow from it.
async fn await_in_order<T>(
    earlier: Vec<PipelinedStatement>,
    last: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let mut last = std::pin::pin!(last);
    let first_poll = futures::poll!(&mut last);
    let mut failure = None;
    for statement in earlier {
        match statement.response.await {
            Err(error) if statement.reports_failure => failure = failure.or(Some(error)),
            Ok(_) | Err(_) => {}
        }
    }
    let response = match first_poll {
        Poll::Ready(response) => response,
        Poll::Pending => last.await,
    };
    failure.map_or(response, Err)
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The pool also drops connections on async threads, where waiting for the runtime's shutdown is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
