//! Servers of a test's own: what happens to them, and what is left afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use test_postgres::{Cluster, ClusterSettings, DataLocation, TlsMode};
use tokio::time::timeout;

use crate::{ask, connect, try_connect};

#[tokio::test]
async fn what_was_committed_outlives_a_crash_and_a_restart() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let (url, address) = (database.url(), cluster.address());
    let before = connect(&url).await;
    before.batch_execute("CREATE TABLE things (name text)").await.unwrap();
    cluster.crash().unwrap();
    assert!(before.batch_execute("SELECT 1").await.is_err());
    assert!(try_connect(&url).await.is_err());
    cluster.start_again().unwrap();
    connect(&url).await.batch_execute("INSERT INTO things VALUES ('one')").await.unwrap();
    cluster.restart().unwrap();
    assert_eq!(cluster.address(), address);
    assert_eq!(ask(&connect(&url).await, "SELECT name FROM things").await, "one");
}

#[tokio::test]
async fn a_paused_server_is_silent_until_it_goes_on() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let url = database.socket_url();
    let client = connect(&url).await;
    cluster.pause().unwrap();
    let mut answer = Box::pin(ask(&client, "SELECT 'late'"));
    assert!(timeout(Duration::from_millis(100), &mut answer).await.is_err());
    let mut newcomer = Box::pin(try_connect(&url));
    assert!(timeout(Duration::from_millis(100), &mut newcomer).await.is_err());
    cluster.resume().unwrap();
    assert_eq!(answer.await, "late");
    assert!(newcomer.await.is_ok());
}

#[tokio::test]
async fn a_server_has_the_settings_that_were_asked_for() {
    let options = vec![("max_connections", "9"), ("fsync", "on")];
    let cluster = Cluster::start_with(&ClusterSettings {
        options,
        tls: TlsMode::Offered,
        data_location: DataLocation::Disk,
    })
    .unwrap();
    let database = cluster.create_database().unwrap();
    let client = connect(&database.url()).await;
    let facts = "SELECT concat_ws(' ', current_setting('max_connections'), current_setting('fsync'))";
    assert_eq!(ask(&client, facts).await, "9 on");
    assert!(std::fs::read_to_string(cluster.certificate()).unwrap().starts_with("-----BEGIN CERTIFICATE"));
    assert_eq!(offer_of_tls(&cluster), b'S');
    assert_eq!(offer_of_tls(&Cluster::start().unwrap()), b'N');
}

/// Returns what the server answers to the question for TLS.
fn offer_of_tls(cluster: &Cluster) -> u8 {
    let mut stream = TcpStream::connect(cluster.address()).expect("a server");
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).expect("an open connection");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    answer[0]
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
    // A server that could not write its log has crashed, and comes back by itself.
    let begin = std::time::Instant::now();
    let client = loop {
        match try_connect(&database.url()).await {
            Ok(client) => break client,
            Err(error) => assert!(begin.elapsed() < crate::PATIENCE, "{error}"),
        }
    };
    assert_eq!(ask(&client, "SELECT string_agg(name, ' ') FROM things").await, "kept");
    client.batch_execute(big).await.unwrap();
}
