//! One connection, used by one thread at a time, which it blocks. How long a connection lives is the pool's matter.

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
use tokio_postgres::{Client, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::target::CONNECT_TIMEOUT;
use crate::{Error, Result, Row, Taking, Target, Value, tls};

/// Statements that a connection keeps prepared. Ours are fewer; those put together from a client's filter may be more.
const STATEMENTS_MAX: usize = 512;
/// How long an answer may take before the connection counts as lost, unless somebody is patient. The server gives up on a
/// statement before.
const ANSWERED_WITHIN: Duration = Duration::from_secs(75);

/// What every connection asks of its session. What is committed survives a power cut of the server, whatever its own
/// setting; nobody waits for ever for a lock, and a process that was stopped in the middle of a transaction lets go of
/// what it holds. Statements are planned once: each names what it is looked up by, and planning the same one anew each time
/// would take longer than doing it.
const SESSION: &str = "SET statement_timeout = '60s'; SET lock_timeout = '20s'; \
    SET idle_in_transaction_session_timeout = '10s'; SET TimeZone = 'UTC'; SET extra_float_digits = 3; \
    SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
/// Tells one life of a server from the next: what it counts begins anew when it recovers from a crash, and only then.
const LIFE: &str = "SELECT stats_reset::text FROM pg_stat_bgwriter";

/// Takes locks, in the order given, and tells the transaction's number.
const LOCKS: &str =
    "SELECT pg_current_xact_id()::text, pg_advisory_xact_lock(k)::text FROM unnest($1::bigint[]) AS k";
/// Tells the transaction's number.
const NUMBER: &str = "SELECT pg_current_xact_id()::text";

/// Rows of a stream that are read at once.
const STREAMED_AT_ONCE: usize = 256;

type Answer = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send>>;

/// A connection to a server.
pub struct Connection {
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    client: Arc<Client>,
    statements: RefCell<HashMap<String, Statement>>,
    /// Statements that were sent, and whose answers nobody has looked at.
    sent: RefCell<Vec<Sent>>,
    /// How many cursors are open.
    cursors: Cell<u32>,
    /// Whether nothing can be asked any longer.
    is_lost: Cell<bool>,
    /// Whether something was begun that has not come to an end.
    is_used: Cell<bool>,
    /// How long an answer may take; `None` while it may take as long as the server lives.
    limit: Cell<Option<Duration>>,
    /// Which life of the server this is.
    server: Arc<str>,
}

/// A statement that was sent.
struct Sent {
    answer: Answer,
    /// Whether its failure is anybody's matter: what is undone anyway may have failed.
    is_told: bool,
}

/// How something that was begun ends.
#[derive(Clone, Copy)]
enum Ending {
    Read,
    Undone,
}

/// How a transaction ended.
pub(crate) enum Ended<T> {
    Committed(T),
    /// The connection was lost while it was being committed; the server knows by this number.
    Unknown(T, String),
}

impl Connection {
    /// Connects; it blocks the thread.
    ///
    /// # Errors
    /// When the server cannot be reached or entered.
    pub fn open(target: &Target) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Unreachable(error.to_string()))?;
        let connector = tls::connector(&target.verification)?;
        let limit = target.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        // Within it, so that the time is this runtime's: the one around may be about to end.
        let connected = async { tokio::time::timeout(limit, connected(target, connector)).await };
        let connected = runtime.block_on(connected);
        let (client, server) = match connected {
            Ok(Ok(connected)) => connected,
            failed => {
                // A name may still be looked up, for longer than anybody waits.
                runtime.shutdown_background();
                let silent = || Error::Unreachable(format!("no answer within {} s", limit.as_secs()));
                return Err(failed.map_or_else(
                    |_| silent(),
                    |failed| failed.err().map_or_else(silent, Error::of_connecting),
                ));
            }
        };
        Ok(Self {
            runtime: Some(runtime),
            client: Arc::new(client),
            statements: RefCell::default(),
            sent: RefCell::default(),
            cursors: Cell::new(0),
            is_lost: Cell::new(false),
            is_used: Cell::new(false),
            limit: Cell::new(Some(ANSWERED_WITHIN)),
            server,
        })
    }

    /// Notes that something is begun.
    pub(crate) fn begin_use(&self) {
        self.is_used.set(true);
    }

    /// Notes that it has come to an end.
    pub(crate) fn end_use(&self) {
        self.is_used.set(false);
    }

    /// Returns whether it cannot be used by anybody else: it is lost, or what was begun never came to an end.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_lost() || self.is_used.get()
    }

    /// Returns which life of the server it is connected to.
    pub(crate) fn server(&self) -> Arc<str> {
        Arc::clone(&self.server)
    }

    /// Returns whether nothing can be asked any longer.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.get() || self.client.is_closed()
    }

    /// Has every statement take as long as it needs from here on: for one that reads or cleans whole tables. That the server is
    /// gone is found out by the way there alone.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn be_patient(&self) -> Result<()> {
        self.batch("SET statement_timeout = 0")?;
        self.limit.set(None);
        Ok(())
    }

    /// Has the statements of `work` take as long as they need. Only within a snapshot or a transaction.
    ///
    /// # Errors
    /// Those of `work`, and as [`Self::query`].
    pub fn patiently<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.batch("SET LOCAL statement_timeout = 0")?;
        let limit = self.limit.replace(None);
        let done = work();
        self.limit.set(limit);
        done
    }

    /// Returns all rows that a statement gives.
    ///
    /// # Errors
    /// The failure of this statement, or of one that was sent before and not looked at.
    pub fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let statement = self.prepared(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let rows = self.wait(self.client.query(&statement, &parameters))?;
        Ok(rows.into_iter().map(Row).collect())
    }

    /// Shows each row of a statement to `look`, a few at a time, until that has seen enough. Only within a snapshot or a
    /// transaction.
    ///
    /// # Errors
    /// As [`Self::query`], and those of `look`.
    pub fn stream<E: From<Error>>(
        &self,
        sql: &str,
        values: &[Value<'_>],
        mut look: impl FnMut(&Row) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        self.cursors.set(self.cursors.get() + 1);
        let cursor = format!("rows_{}", self.cursors.get());
        let streamed = self.open_cursor(&cursor, sql, values).map_err(E::from).and_then(|()| {
            let fetch = format!("FETCH {STREAMED_AT_ONCE} FROM {cursor}");
            loop {
                let rows = self.wait(self.client.query_typed(&fetch, &[]))?;
                let is_last = rows.len() < STREAMED_AT_ONCE;
                for row in rows {
                    if look(&Row(row))?.is_break() {
                        return Ok(self.close_cursor(&cursor)?);
                    }
                }
                if is_last {
                    return Ok(self.close_cursor(&cursor)?);
                }
            }
        });
        self.cursors.set(self.cursors.get() - 1);
        streamed
    }

    fn open_cursor(&self, cursor: &str, sql: &str, values: &[Value<'_>]) -> Result<()> {
        self.execute(&format!("DECLARE {cursor} NO SCROLL CURSOR FOR {sql}"), values).map(|_| ())
    }

    fn close_cursor(&self, cursor: &str) -> Result<()> {
        self.send(&format!("CLOSE {cursor}"), Vec::new())
    }

    /// Performs a statement and returns how many rows it changed.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        let statement = self.prepared(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        self.wait(self.client.execute(&statement, &parameters))
    }

    /// Sends a statement without waiting for its answer: a failure is told by the next one that waits.
    ///
    /// # Errors
    /// When the statement is unknown to the server or cannot be sent, or one sent before failed.
    pub fn send(&self, sql: &str, values: Vec<Value<'static>>) -> Result<()> {
        let statement = self.prepared(sql)?;
        let client = Arc::clone(&self.client);
        Ok(self.dispatch(Box::pin(async move { client.execute_raw(&statement, values).await }))?)
    }

    /// Performs several statements without parameters.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn batch(&self, sql: &str) -> Result<()> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Answers questions about one moment.
    ///
    /// # Errors
    /// Those of `work`, and of the connection.
    pub fn snapshot<T, E: From<Error>>(&self, work: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        self.send_plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let answer = work(self);
        self.end(Ending::Read);
        answer
    }

    /// Performs what `work` does together, or nothing of it, after taking these locks. It may be lost on the way whether it
    /// was committed.
    pub(crate) fn transaction<T, E: From<Error>>(
        &self,
        taking: &Taking,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<Ended<T>, E> {
        let number = match self.begin(taking) {
            Ok(number) => number,
            Err(error) => {
                self.end(Ending::Undone);
                return Err(error.into());
            }
        };
        // Without the number nobody could ask what became of a commit whose answer is lost.
        let is_known = || number.lock().is_some();
        let worked = work(self);
        let worked = worked
            .and_then(|done| if is_known() { Ok(()) } else { self.settle() }.map(|()| done).map_err(E::from));
        let done = match worked {
            Ok(done) => done,
            Err(error) => {
                self.end(Ending::Undone);
                return Err(error);
            }
        };
        // What was sent before goes out with it, and if any of that fails, the server undoes all of it.
        match self.execute("COMMIT", &[]) {
            Ok(_) => Ok(Ended::Committed(done)),
            Err(Error::Unreachable(_)) => {
                self.is_lost.set(true);
                let number = number.lock().take();
                Ok(Ended::Unknown(done, number.unwrap_or_default()))
            }
            Err(error) => {
                self.end(Ending::Undone);
                Err(error.into())
            }
        }
    }

    /// Begins a transaction and takes its locks; nobody waits for it: whatever follows does, at the server. Returns where the
    /// transaction's number will be.
    fn begin(&self, taking: &Taking) -> Result<Arc<Mutex<Option<String>>>> {
        let (sql, values) = match &taking.locks[..] {
            [] => (NUMBER, Vec::new()),
            locks => (LOCKS, vec![Value::Integers(Cow::Owned(locks.to_vec()))]),
        };
        let statement = self.prepared(sql)?;
        match taking.wait {
            None => self.send_plain("BEGIN"),
            Some(wait) => self.send_plain(format!("BEGIN; SET LOCAL lock_timeout = {}", wait.as_millis())),
        }
        let number = Arc::new(Mutex::new(None));
        let (client, known) = (Arc::clone(&self.client), Arc::clone(&number));
        self.dispatch(Box::pin(async move {
            let parameters: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
            let rows = client.query(&statement, &parameters).await?;
            let told = rows.first().map(|row| row.try_get(0)).transpose()?;
            *known.lock() = told;
            Ok(0)
        }))?;
        Ok(number)
    }

    /// Looks at all answers that are left, so that a failure is not told by the commit.
    fn settle(&self) -> Result<()> {
        if self.sent.borrow().is_empty() {
            return Ok(());
        }
        self.wait(async { Ok(()) })
    }

    /// Ends what was begun. Nobody waits for the end of what only read; what held locks is waited for.
    fn end(&self, ending: Ending) {
        if self.is_lost() {
            return;
        }
        for answer in self.sent.borrow_mut().iter_mut() {
            answer.is_told = false;
        }
        match ending {
            Ending::Read => {
                self.send_plain("COMMIT");
                self.flush();
            }
            // One that cannot even be undone ends with its connection.
            Ending::Undone => self.is_lost.set(self.wait(self.client.batch_execute("ROLLBACK")).is_err()),
        }
    }

    /// Sends what begins or ends a transaction.
    fn send_plain(&self, sql: impl Into<Cow<'static, str>>) {
        let sql = sql.into();
        let client = Arc::clone(&self.client);
        if let Err(error) =
            self.dispatch(Box::pin(async move { client.batch_execute(&sql).await.map(|()| 0) }))
        {
            // The connection is closed: whoever waits next is told.
            let answer = Box::pin(std::future::ready(Err(error)));
            self.sent.borrow_mut().push(Sent { answer, is_told: true });
        }
    }

    /// Has a statement go out with the next one that waits, in order. What fails before it goes out, because a value cannot be
    /// written as the server takes it, is told at once: the server, which knows nothing of it, would commit all the rest.
    fn dispatch(&self, mut answer: Answer) -> Result<(), tokio_postgres::Error> {
        // The first look at it puts its bytes into the connection's queue.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => answered.map(|_| ()),
            Poll::Pending => {
                self.sent.borrow_mut().push(Sent { answer, is_told: true });
                Ok(())
            }
        }
    }

    fn prepared(&self, sql: &str) -> Result<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.wait(self.client.prepare(sql))?;
        let mut statements = self.statements.borrow_mut();
        if statements.len() >= STATEMENTS_MAX {
            statements.clear();
        }
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Lets what was sent go out.
    fn flush(&self) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Waits for an answer, and for those before it.
    fn wait<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::Unreachable("the connection is closed".to_owned()));
        };
        let before = std::mem::take(&mut *self.sent.borrow_mut());
        // Within it, so that the time is this runtime's: the one around may be about to end.
        let answered = async {
            match self.limit.get() {
                Some(limit) => tokio::time::timeout(limit, in_order(before, answer)).await.map_err(|_| limit),
                None => Ok(in_order(before, answer).await),
            }
        };
        let outcome = runtime.block_on(answered).map_or_else(
            |limit| Err(Error::Unreachable(format!("no answer within {} s", limit.as_secs()))),
            |answer| answer.map_err(Error::from),
        );
        if matches!(outcome, Err(Error::Unreachable(_))) {
            self.is_lost.set(true);
        }
        outcome
    }
}

/// Connects, prepares the session, and returns which life of the server it is in.
async fn connected(
    target: &Target,
    connector: MakeRustlsConnect,
) -> Result<(Client, Arc<str>), tokio_postgres::Error> {
    let (client, connection) = target.config.connect(connector).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    });
    let told = client.simple_query(&format!("{SESSION}; {LIFE}")).await?;
    let life = told.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(row.len().saturating_sub(1)),
        _ => None,
    });
    let life = life.last().unwrap_or_default().into();
    Ok((client, life))
}

/// Sends what `last` asks for behind what was sent, and waits for all of it. The first failure is the one that counts: the
/// others follow from it.
async fn in_order<T>(
    before: Vec<Sent>,
    last: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let mut last = std::pin::pin!(last);
    let at_once = futures::poll!(&mut last);
    let mut failure = None;
    for sent in before {
        match sent.answer.await {
            Err(error) if sent.is_told => failure = failure.or(Some(error)),
            Ok(_) | Err(_) => {}
        }
    }
    let answer = match at_once {
        Poll::Ready(answer) => answer,
        Poll::Pending => last.await,
    };
    failure.map_or(answer, Err)
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The pool lets go of connections on threads that may not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
