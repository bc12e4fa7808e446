//! Tests of dedicated servers, which one test uses alone: crashes, restarts, pauses, settings and a full disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use test_postgres::{Cluster, ClusterSettings, DataLocation, TlsMode};
use tokio::time::timeout;

use crate::{connect, query_text, try_connect};

#[tokio::test]
async fn committed_rows_survive_a_crash_and_a_restart() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let (url, address) = (database.url(), cluster.address());
    let client = connect(&url).await;
    client.batch_execute("CREATE TABLE things (name text)").await.unwrap();
    cluster.crash().unwrap();
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert!(try_connect(&url).await.is_err());
    cluster.start_again().unwrap();
    connect(&url).await.batch_execute("INSERT INTO things VALUES ('one')").await.unwrap();
    cluster.restart().unwrap();
    assert_eq!(cluster.address(), address);
    assert_eq!(query_text(&connect(&url).await, "SELECT name FROM things").await, "one");
}

#[tokio::test]
async fn a_paused_server_does_not_respond_until_it_is_resumed() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let url = database.socket_url();
    let client = connect(&url).await;
    cluster.pause().unwrap();
    let mut response = Box::pin(query_text(&client, "SELECT 'late'"));
    assert!(timeout(Duration::from_millis(100), &mut response).await.is_err());
    let mut new_connection = Box::pin(try_connect(&url));
    assert!(timeout(Duration::from_millis(100), &mut new_connection).await.is_err());
    cluster.resume().unwrap();
    assert_eq!(response.await, "late");
    assert!(new_connection.await.is_ok());
}

#[tokio::test]
async fn a_server_has_the_requested_settings() {
    let options = vec![("max_connections", "9"), ("fsync", "on")];
    let cluster = Cluster::start_with(&ClusterSettings {
        options,
        tls: TlsMode::Offered,
        data_location: DataLocation::Disk,
    })
    .unwrap();
    let database = cluster.create_database().unwrap();
    let client = connect(&database.url()).await;
    let settings = "SELECT concat_ws(' ', current_setting('max_connections'), current_setting('fsync'))";
    assert_eq!(query_text(&client, settings).await, "9 on");
    assert!(std::fs::read_to_string(cluster.certificate()).unwrap().starts_with("-----BEGIN CERTIFICATE"));
    assert_eq!(request_tls(&cluster), b'S');
    assert_eq!(request_tls(&Cluster::start().unwrap()), b'N');
}

/// Sends an `SSLRequest` message and returns the server's response: `S` if it supports TLS, `N` otherwise.
fn request_tls(cluster: &Cluster) -> u8 {
    let mut stream = TcpStream::connect(cluster.address()).expect("the server accepts the connection");
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).expect("the connection is open");
    let mut response = [0];
    stream.read_exact(&mut response).expect("the server responds");
    response[0]
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_loses_nothing() {
    let Some(cluster) = Cluster::start_on_small_disk(128).unwrap() else { return };
    let database = cluster.create_database().unwrap();
    let client = connect(&database.url()).await;
    client
        .batch_execute("CREATE TABLE things (name text); INSERT INTO things VALUES ('kept')")
        .await
        .unwrap();
    cluster.fill_disk().unwrap();
    let big = "INSERT INTO things SELECT repeat(md5(n::text), 100) FROM generate_series(1, 20000) n";
    assert!(client.batch_execute(big).await.is_err());
    cluster.free_disk().unwrap();
    // A server that cannot write its log crashes and restarts automatically.
    let start = std::time::Instant::now();
    let client = loop {
        match try_connect(&database.url()).await {
            Ok(client) => break client,
            Err(error) => assert!(start.elapsed() < crate::WAIT_TIMEOUT, "{error}"),
        }
    };
    assert_eq!(query_text(&client, "SELECT string_agg(name, ' ') FROM things").await, "kept");
    client.batch_execute(big).await.unwrap();
}
