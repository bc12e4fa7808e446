//! The PostgreSQL engine. Any number of processes on any number of machines share a database. The rules about rows
//! are in `tables`; this module orders concurrent transactions, retries them, and notifies other processes.

mod copy_connection;
mod errors;
mod group_commit;
mod health;
mod index_update;
pub(crate) mod locks;
mod notifications;
mod schema;

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use postgres::{DatabaseTarget, Pool};

pub use postgres::{PoolSettings, PoolStatistics};

pub(crate) use self::copy_connection::{PostgresCopyConnection, schema_version};

use self::errors::DatabaseLocation;
use self::group_commit::GroupCommitter;
use self::index_update::IndexUpdater;
use self::notifications::CommitNotifier;
use crate::commit_feed::CommitFeed;
use crate::commit_feed::local::LocalCommitFeed;
use crate::copy::check_copy_complete;
use crate::engines::sql::SqlConnection;
use crate::engines::{EmbedderCell, Engine, ErasedQuery, ErasedResult, ReadSize};
use crate::tables::replicas;
use crate::tables::search::{IndexScope, PurgeState, ScopeIndexState};
use crate::tables::threads::{ThreadHeadCache, purges};
use crate::{CommitReceipt, Error, HealthCheckDepth, Result, StoreHealth, StoreScope, Transaction};

/// A journal in a PostgreSQL database. Cloning is cheap: clones share the connections.
#[derive(Clone)]
pub struct PostgresStore(Arc<PostgresInner>);

/// The state that the clones of a store share.
struct PostgresInner {
    /// The connections to the database.
    pool: Pool,
    /// The address of the database, named in every error.
    location: DatabaseLocation,
    /// Commits of other processes.
    feed: CommitFeed,
    /// Commits of this process.
    local_feed: LocalCommitFeed,
    /// The model that represents questions for searches.
    embedder: EmbedderCell,
    /// Exchanges notifications with other processes.
    notifier: CommitNotifier,
    /// Executes transactions, several together where possible.
    group_commit: GroupCommitter,
    /// Updates the search index.
    index_updater: IndexUpdater,
}

impl PostgresStore {
    /// Opens the database at `url` (`postgres://…`), and creates or migrates its schema. The store uses the current
    /// Tokio runtime for as long as it exists.
    ///
    /// # Errors
    /// [`crate::Error::ConnectionRejected`] if the URL is invalid or the server refuses the login,
    /// [`crate::Error::Unreachable`] if the server cannot be reached, and [`crate::Error::NewerSchema`] if a later
    /// version of the program created the schema.
    pub async fn open(url: &str, settings: PoolSettings) -> Result<Self> {
        let target: DatabaseTarget =
            url.parse().map_err(|error| DatabaseLocation(redacted_url(url)).convert_error(error))?;
        let pool = Pool::open(target.with_application_name("segue"), settings).await;
        let database = DatabaseLocation(pool.location());
        let display_location = pool.location();
        let migrated = pool.with_connection(move |connection| {
            schema::migrate(connection, &display_location)?;
            check_copy_complete(
                &SqlConnection::Postgres(connection, &ThreadHeadCache::default()),
                &display_location,
            )
        });
        migrated.await.map_err(|error| database.classify_error(error))?;
        let feed = CommitFeed::default();
        let notifier = CommitNotifier::start(pool.clone(), feed.clone());
        let group_commit = GroupCommitter::start(&pool);
        Ok(Self(Arc::new(PostgresInner {
            pool,
            location: database,
            feed,
            local_feed: LocalCommitFeed::default(),
            embedder: EmbedderCell::new(),
            notifier,
            group_commit,
            index_updater: IndexUpdater::default(),
        })))
    }

    /// Returns whether `url` is the URL of a PostgreSQL database.
    pub fn is_url(url: &str) -> bool {
        DatabaseTarget::is_url(url)
    }

    /// Returns the statistics of the connection pool.
    pub fn pool_statistics(&self) -> PoolStatistics {
        self.0.pool.statistics()
    }
}

/// Removes the rows that the deletion of threads left, each part in a transaction of its own.
async fn purge_threads(pool: &Pool, thread_keys: Vec<i64>) -> Result<()> {
    for thread_key in thread_keys {
        loop {
            let part = pool.write(Vec::new(), move |connection| {
                let heads = ThreadHeadCache::default();
                purges::purge_part(&SqlConnection::Postgres(connection, &heads), thread_key)
            });
            if part.await? == PurgeState::Complete {
                break;
            }
        }
    }
    Ok(())
}

/// Returns the form in which an unparsable URL is shown: its scheme only, because the rest may contain a password.
fn redacted_url(url: &str) -> String {
    url.split("://").next().map_or_else(String::new, |scheme| format!("{scheme}://…"))
}

impl Engine for PostgresStore {
    const STORE_SCOPE: StoreScope = StoreScope::AnyHost;

    async fn database_time(&self) -> Result<Timestamp> {
        self.read(ReadSize::OneStatement, replicas::current_time).await
    }

    async fn perform_transaction(&self, transaction: Transaction) -> Result<CommitReceipt> {
        let changed_threads = notifications::changed_threads(&transaction);
        let receipt = self
            .0
            .group_commit
            .commit(transaction)
            .await
            .map_err(|error| self.0.location.classify_error(error))?;
        self.0.notifier.notify(changed_threads);
        Ok(receipt)
    }

    async fn purge_threads(&self, thread_keys: Vec<i64>) -> Result<()> {
        let pool = self.0.pool.clone();
        // A task of its own completes the purge even if the caller is dropped.
        let purge = tokio::spawn(async move { purge_threads(&pool, thread_keys).await });
        let result = purge.await.map_err(|_| Error::Closed)?;
        result.map_err(|error| self.0.location.classify_error(error))
    }

    fn read_erased(&self, rows: ReadSize, query: ErasedQuery) -> BoxFuture<'_, Result<ErasedResult>> {
        let query = move |connection: &postgres::Connection| {
            query(&SqlConnection::Postgres(connection, &ThreadHeadCache::default()))
        };
        Box::pin(async move {
            let result = match rows {
                ReadSize::OneStatement | ReadSize::LargeStatement => self.0.pool.read_statement(query).await,
                ReadSize::Small | ReadSize::Large => self.0.pool.read(query).await,
            };
            result.map_err(|error| self.0.location.classify_error(error))
        })
    }

    async fn update_index(&self) -> Result<()> {
        self.0
            .index_updater
            .update_index(&self.0.pool)
            .await
            .map_err(|error| self.0.location.classify_error(error))
    }

    async fn index_scope_batch(&self, scope: Arc<IndexScope>) -> Result<ScopeIndexState> {
        self.0
            .index_updater
            .index_scope_batch(&self.0.pool, scope)
            .await
            .map_err(|error| self.0.location.classify_error(error))
    }

    fn update_index_in_background(&self) {
        self.0.index_updater.start_background(Arc::downgrade(&self.0));
    }

    fn check_files(&self) -> Result<()> {
        // A server notices by itself if its files are replaced.
        Ok(())
    }

    async fn check_health(&self, depth: HealthCheckDepth) -> Result<StoreHealth> {
        let location = self.0.location.clone();
        let checked =
            self.0.pool.read(move |connection| health::check_health(connection, &location, depth)).await;
        checked.map_err(|error| self.0.location.classify_error(error))
    }

    fn embedder(&self) -> &EmbedderCell {
        &self.0.embedder
    }

    fn local_feed(&self) -> &LocalCommitFeed {
        &self.0.local_feed
    }

    fn remote_feed(&self) -> CommitFeed {
        self.0.feed.clone()
    }
}
