//! Tests of the proxy that simulates a broken network: delays, closed and refused connections, and silence.

use std::time::{Duration, Instant};

use test_postgres::{CutPoint, Proxy, TestDatabase};
use tokio::time::timeout;

use crate::{connect, query_text, try_connect};

/// The delay of a slow network, and the time after which a response counts as missing.
const SHORT: Duration = Duration::from_millis(100);

/// Creates a database with an empty table and a proxy in front of its server. Returns both, and the database's URL
/// through the proxy.
async fn start_proxied_database() -> (TestDatabase, Proxy, String) {
    let database = TestDatabase::create().expect("the database is created");
    let client = connect(&database.socket_url()).await;
    client.batch_execute("CREATE TABLE things (name text)").await.expect("the table is created");
    let proxy = Proxy::start(database.address()).expect("the proxy starts");
    let url = database.url_through(proxy.address());
    (database, proxy, url)
}

/// Returns the number of rows in the table, read without the proxy.
async fn count_rows(database: &TestDatabase) -> String {
    query_text(&connect(&database.socket_url()).await, "SELECT count(*)::text FROM things").await
}

#[tokio::test]
async fn a_delay_adds_to_every_round_trip_and_does_not_limit_the_throughput() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.delay(SHORT, 2 * SHORT);
    let start = Instant::now();
    query_text(&client, "SELECT ''").await;
    // One round trip prepares the statement, one executes it.
    assert!(start.elapsed() >= 6 * SHORT, "{:?}", start.elapsed());
    let start = Instant::now();
    let long = query_text(&client, "SELECT repeat('x', 2000000)").await;
    assert_eq!(long.len(), 2_000_000);
    // A proxy that delayed each chunk separately would take over a hundred times the delay.
    assert!(start.elapsed() < 50 * SHORT, "{:?}", start.elapsed());
}

#[tokio::test]
async fn cutting_closes_all_open_connections_and_accepts_new_ones() {
    let (_database, proxy, url) = start_proxied_database().await;
    let (first, second) = (connect(&url).await, connect(&url).await);
    proxy.cut();
    assert!(first.batch_execute("SELECT 1").await.is_err());
    assert!(second.batch_execute("SELECT 1").await.is_err());
    assert_eq!(query_text(&connect(&url).await, "SELECT 'new'").await, "new");
}

#[tokio::test]
async fn refusing_new_connections_does_not_affect_open_ones() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.refuse();
    let refused = try_connect(&url).await.err().unwrap();
    let cause = std::error::Error::source(&refused).unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(query_text(&client, "SELECT 'on'").await, "on");
    proxy.restore();
    assert_eq!(query_text(&connect(&url).await, "SELECT 'again'").await, "again");
}

#[tokio::test]
async fn a_silent_proxy_forwards_nothing_and_loses_nothing() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.silence();
    let mut response = Box::pin(query_text(&client, "SELECT 'late'"));
    assert!(timeout(SHORT, &mut response).await.is_err());
    let mut new_connection = Box::pin(try_connect(&url));
    assert!(timeout(SHORT, &mut new_connection).await.is_err());
    proxy.restore();
    assert_eq!(response.await, "late");
    assert!(new_connection.await.is_ok());
    proxy.silence();
    proxy.cut();
    assert!(client.batch_execute("SELECT 1").await.is_err());
}

#[tokio::test]
async fn a_connection_is_cut_at_the_requested_point() {
    let insert = "BEGIN; INSERT INTO things VALUES ('one');";
    // The point of the cut, and the number of rows in the table afterwards.
    for (cut_point, expected) in [
        (CutPoint::ToServer(20), "0"),
        (CutPoint::ToClient(1), "1"),
        (CutPoint::Request("COMMIT"), "0"),
        (CutPoint::Answer("COMMIT"), "1"),
    ] {
        let (database, proxy, url) = start_proxied_database().await;
        let client = connect(&url).await;
        client.batch_execute(insert).await.unwrap();
        proxy.cut_at(cut_point);
        assert!(
            client.batch_execute("COMMIT /* a comment that makes it longer */").await.is_err(),
            "{cut_point:?}"
        );
        assert_eq!(count_rows(&database).await, expected, "{cut_point:?}");
        assert_eq!(query_text(&connect(&url).await, "SELECT 'once'").await, "once", "{cut_point:?}");
    }
}
