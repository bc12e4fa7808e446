//! Broken networks: what passes the proxy, what does not, and what both ends notice.

use std::time::{Duration, Instant};

use test_postgres::{CutPoint, Proxy, TestDatabase};
use tokio::time::timeout;

use crate::{ask, connect, try_connect};

const SHORT: Duration = Duration::from_millis(100);

/// Returns a database with an empty table, a proxy before its server, and the database's URL through the proxy.
async fn start_proxied_database() -> (TestDatabase, Proxy, String) {
    let database = TestDatabase::create().expect("a database");
    let client = connect(&database.socket_url()).await;
    client.batch_execute("CREATE TABLE things (name text)").await.expect("an empty database");
    let proxy = Proxy::start(database.address()).expect("a free port");
    let url = database.url_through(proxy.address());
    (database, proxy, url)
}

/// Returns how many things are in the table, looked at beside the proxy.
async fn count(database: &TestDatabase) -> String {
    ask(&connect(&database.socket_url()).await, "SELECT count(*)::text FROM things").await
}

#[tokio::test]
async fn a_delay_adds_to_every_round_trip_and_does_not_narrow_the_way() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.delay(SHORT, 2 * SHORT);
    let begin = Instant::now();
    ask(&client, "SELECT ''").await;
    // One round trip to prepare, one to ask.
    assert!(begin.elapsed() >= 6 * SHORT, "{:?}", begin.elapsed());
    let begin = Instant::now();
    let long = ask(&client, "SELECT repeat('x', 2000000)").await;
    assert_eq!(long.len(), 2_000_000);
    // A way that waits for each chunk would take over a hundred times the delay.
    assert!(begin.elapsed() < 50 * SHORT, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn all_connections_can_be_cut_and_new_ones_pass() {
    let (_database, proxy, url) = start_proxied_database().await;
    let (one, two) = (connect(&url).await, connect(&url).await);
    proxy.cut();
    assert!(one.batch_execute("SELECT 1").await.is_err());
    assert!(two.batch_execute("SELECT 1").await.is_err());
    assert_eq!(ask(&connect(&url).await, "SELECT 'new'").await, "new");
}

#[tokio::test]
async fn new_connections_can_be_refused_while_others_go_on() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.refuse();
    let refused = try_connect(&url).await.err().unwrap();
    let cause = std::error::Error::source(&refused).unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(ask(&client, "SELECT 'on'").await, "on");
    proxy.restore();
    assert_eq!(ask(&connect(&url).await, "SELECT 'again'").await, "again");
}

#[tokio::test]
async fn in_silence_nothing_passes_and_nothing_is_lost() {
    let (_database, proxy, url) = start_proxied_database().await;
    let client = connect(&url).await;
    proxy.silence();
    let mut answer = Box::pin(ask(&client, "SELECT 'late'"));
    assert!(timeout(SHORT, &mut answer).await.is_err());
    let mut newcomer = Box::pin(try_connect(&url));
    assert!(timeout(SHORT, &mut newcomer).await.is_err());
    proxy.restore();
    assert_eq!(answer.await, "late");
    assert!(newcomer.await.is_ok());
    proxy.silence();
    proxy.cut();
    assert!(client.batch_execute("SELECT 1").await.is_err());
}

#[tokio::test]
async fn a_connection_is_cut_at_the_place_that_was_named() {
    let insert = "BEGIN; INSERT INTO things VALUES ('one');";
    // Where it is cut, and how many things are there afterwards.
    for (place, expected) in [
        (CutPoint::ToServer(20), "0"),
        (CutPoint::ToClient(1), "1"),
        (CutPoint::Request("COMMIT"), "0"),
        (CutPoint::Answer("COMMIT"), "1"),
    ] {
        let (database, proxy, url) = start_proxied_database().await;
        let client = connect(&url).await;
        client.batch_execute(insert).await.unwrap();
        proxy.cut_at(place);
        assert!(
            client.batch_execute("COMMIT /* and that is all there is to say */").await.is_err(),
            "{place:?}"
        );
        assert_eq!(count(&database).await, expected, "{place:?}");
        assert_eq!(ask(&connect(&url).await, "SELECT 'once'").await, "once", "{place:?}");
    }
}
