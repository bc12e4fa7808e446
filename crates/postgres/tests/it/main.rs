//! Connections against real servers, and against ways to them that break. What is stored is no journal's.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod broken;
mod listener;
mod pool;
mod statements;
mod tls;
mod values;

use std::time::{Duration, Instant};

use postgres::{Connection, Error, Pool, PoolSettings};

/// Connections of one test.
const SETTINGS: PoolSettings = PoolSettings {
    min_idle: 0,
    max: 4,
    idle: Duration::from_secs(60),
    lifetime: Duration::from_secs(600),
    patience: Duration::from_secs(10),
};

async fn pool(url: &str, settings: PoolSettings) -> Pool {
    Pool::open(url.parse().unwrap(), settings).await
}

/// A database of its own with the table `t (n BIGINT PRIMARY KEY)`.
async fn scene() -> (test_postgres::Database, Pool) {
    let database = test_postgres::Database::create().unwrap();
    let pool = pool(&database.socket_url(), SETTINGS).await;
    make_table(&pool).await;
    (database, pool)
}

async fn make_table(pool: &Pool) {
    pool.with(|db| db.batch("CREATE TABLE t (n BIGINT PRIMARY KEY)")).await.unwrap();
}

/// Stores a number in a transaction.
async fn put(pool: &Pool, number: i64) -> Result<(), Error> {
    pool.write(vec![1], move |db| db.execute("INSERT INTO t VALUES ($1)", &[number.into()]).map(drop)).await
}

fn numbers_on(db: &Connection) -> Result<Vec<i64>, Error> {
    let rows = db.query("SELECT n FROM t ORDER BY n", &[])?;
    rows.iter().map(|row| row.integer(0).map(Option::unwrap_or_default)).collect()
}

async fn numbers(pool: &Pool) -> Vec<i64> {
    pool.read(numbers_on).await.unwrap()
}

/// Waits until something is so, as long as a test may take.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
