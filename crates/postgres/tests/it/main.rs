//! Tests of the client against real servers, and through a proxy that breaks connections. They do not use the tables of
//! the journal.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod broken;
mod listener;
mod pool;
mod statements;
mod tls;
mod values;

use std::time::{Duration, Instant};

use postgres::{Connection, Error, Pool, PoolSettings};

/// Default pool settings of the tests.
const SETTINGS: PoolSettings = PoolSettings {
    min_idle: 0,
    max: 4,
    idle_timeout: Duration::from_secs(60),
    max_lifetime: Duration::from_secs(600),
    wait_timeout: Duration::from_secs(10),
};

async fn pool(url: &str, settings: PoolSettings) -> Pool {
    Pool::open(url.parse().unwrap(), settings).await
}

/// Creates a database with the table `t (n BIGINT PRIMARY KEY)`, and a pool for it.
async fn open_database_and_pool() -> (test_postgres::TestDatabase, Pool) {
    let database = test_postgres::TestDatabase::create().unwrap();
    let pool = pool(&database.socket_url(), SETTINGS).await;
    make_table(&pool).await;
    (database, pool)
}

async fn make_table(pool: &Pool) {
    pool.with_connection(|db| db.batch_execute("CREATE TABLE t (n BIGINT PRIMARY KEY)")).await.unwrap();
}

/// Inserts a number in a transaction.
async fn insert_number(pool: &Pool, number: i64) -> Result<(), Error> {
    pool.write(vec![1], move |db| db.execute("INSERT INTO t VALUES ($1)", &[number.into()]).map(drop)).await
}

fn select_numbers(db: &Connection) -> Result<Vec<i64>, Error> {
    let rows = db.query("SELECT n FROM t ORDER BY n", &[])?;
    rows.iter().map(|row| row.integer(0).map(Option::unwrap_or_default)).collect()
}

async fn read_numbers(pool: &Pool) -> Vec<i64> {
    pool.read(select_numbers).await.unwrap()
}

/// Waits until the condition holds, for 20 seconds at most.
async fn wait_until(condition: &str, is_met: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_met() {
        assert!(Instant::now() < deadline, "{condition}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
