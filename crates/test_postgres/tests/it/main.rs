//! Guarantees that tests rely on: shared servers, servers of their own, and broken networks. Checked from outside, with a
//! plain client.

#[cfg(test)]
mod own;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod sharing;

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a client of the database, whose connection ends with it.
async fn connect(url: &str) -> Client {
    try_connect(url).await.expect("a connection")
}

async fn try_connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Returns the one text that a query answers.
async fn ask(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.expect("an answer").get(0)
}

/// Waits until something holds that another process brings about.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}
