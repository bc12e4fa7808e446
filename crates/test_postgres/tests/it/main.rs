//! Tests of the test servers: the shared server, dedicated servers, and the proxies that break connections and record statements. They use the
//! crate's public API and a plain PostgreSQL client.

#[cfg(test)]
mod dedicated;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod sharing;

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

/// Maximum time for which a test waits for a condition.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to the database. Dropping the client closes the connection.
async fn connect(url: &str) -> Client {
    try_connect(url).await.expect("the server accepts the connection")
}

/// Connects to the database, and returns an error if that fails.
async fn try_connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Executes a query that returns one row with one text, and returns the text.
async fn query_text(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.expect("the query returns one row").get(0)
}

/// Waits until a condition holds, for [`WAIT_TIMEOUT`] at most.
fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_met() {
        assert!(start.elapsed() < WAIT_TIMEOUT, "{condition}");
        std::thread::yield_now();
    }
}
