//! The journal in PostgreSQL: any number of processes on any number of machines share it. It holds no rule of its own; what is
//! done to the tables is said in `tables`, and this is who waits for whom, what is tried again, and what others are told.

mod faults;
mod groups;
mod health;
mod indexing;
pub(crate) mod locks;
mod news;
mod plain;
mod schema;

use std::sync::Arc;

use jiff::Timestamp;
use postgres::{Pool, Target};

pub use postgres::{Figures as PoolFigures, PoolSettings};

pub(crate) use self::plain::{Plain, version as plain_version};

use self::faults::Place;
use self::groups::Groups;
use self::indexing::Indexing;
use self::news::Telling;
use crate::engines::sql::Connection;
use crate::engines::{Engine, Rows};
use crate::moving::check_whole;
use crate::news::News;
use crate::news::commits::Commits;
use crate::tables::replicas;
use crate::tables::threads::Heads;
use crate::{Committed, Health, HealthDepth, Reach, Result, Transaction};

/// A journal in a PostgreSQL database. Cheap to clone: the clones share its connections.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    pool: Pool,
    place: Place,
    news: News,
    commits: Commits,
    telling: Telling,
    groups: Groups,
    indexing: Indexing,
}

impl Postgres {
    /// Opens the database at `url` (`postgres://…`), in which the schema is made or brought up to date. It needs the Tokio
    /// runtime it is opened in for as long as it lives.
    ///
    /// # Errors
    /// When the address cannot be understood, the server cannot be reached or entered, or its schema is of a later version.
    pub async fn open(url: &str, settings: PoolSettings) -> Result<Self> {
        let target: Target = url.parse().map_err(|error| Place(url_place(url)).explain(error))?;
        let pool = Pool::open(target.named("segue"), settings).await;
        let place = Place(pool.location());
        let location = pool.location();
        let migrated = pool.with(move |connection| {
            schema::migrate(connection, &location)?;
            check_whole(&Connection::Postgres(connection, &Heads::default()), &location)
        });
        migrated.await.map_err(|error| place.told(error))?;
        let news = News::default();
        let telling = Telling::begin(pool.clone(), news.clone());
        let groups = Groups::begin(&pool);
        Ok(Self(Arc::new(Inner {
            pool,
            place,
            news,
            commits: Commits::default(),
            telling,
            groups,
            indexing: Indexing::default(),
        })))
    }

    /// Returns whether `url` is the address of such a database.
    pub fn is_url(url: &str) -> bool {
        Target::is_url(url)
    }

    /// Returns how the connections are used.
    pub fn pool(&self) -> PoolFigures {
        self.0.pool.figures()
    }
}

/// Returns what is told of an address that cannot be understood: nothing of it, for there may be a password in it.
fn url_place(url: &str) -> String {
    url.split("://").next().map_or_else(String::new, |scheme| format!("{scheme}://…"))
}

impl Engine for Postgres {
    const REACH: Reach = Reach::Network;

    async fn now(&self) -> Result<Timestamp> {
        self.read(Rows::Few, replicas::clock).await
    }

    async fn perform(&self, transaction: Transaction) -> Result<Committed> {
        let changed = news::about(&transaction);
        let done = self.0.groups.commit(transaction).await.map_err(|error| self.0.place.told(error))?;
        self.0.telling.tell(changed);
        Ok(done)
    }

    async fn read<T: Send + 'static>(
        &self,
        _rows: Rows,
        question: impl Fn(&Connection<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let pool = &self.0.pool;
        let question = move |connection: &postgres::Connection| {
            question(&Connection::Postgres(connection, &Heads::default()))
        };
        pool.read(question).await.map_err(|error| self.0.place.told(error))
    }

    async fn catch_up(&self) -> Result<()> {
        self.0.indexing.catch_up(&self.0.pool).await.map_err(|error| self.0.place.told(error))
    }

    async fn checked(&self, depth: HealthDepth) -> Result<Health> {
        let place = self.0.place.clone();
        let checked = self.0.pool.read(move |connection| health::check(connection, &place, depth)).await;
        checked.map_err(|error| self.0.place.told(error))
    }

    fn own_commits(&self) -> &Commits {
        &self.0.commits
    }

    fn heard(&self) -> News {
        self.0.news.clone()
    }
}
