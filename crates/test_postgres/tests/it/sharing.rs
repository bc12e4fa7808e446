//! The server that all tests share, and databases on it. It does not wait for its end, which takes longer than a test.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_postgres::TestDatabase;

use crate::{ask, connect, wait_until};

/// Starts another process that holds a database, and returns it with the database's URLs, over the socket and over TCP.
fn other_process(args: &[&str]) -> (Child, [String; 2]) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_segue-test-postgres"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a program that was built");
    let mut lines = BufReader::new(process.stdout.as_mut().expect("a pipe")).lines();
    let urls = [(); 2].map(|()| lines.next().expect("two lines").expect("text"));
    (process, urls)
}

#[tokio::test]
async fn a_database_is_empty_and_owned_by_a_user_without_rights() {
    let database = TestDatabase::create().unwrap();
    for url in [database.url(), database.socket_url()] {
        let client = connect(&url).await;
        assert_eq!(ask(&client, "SELECT current_setting('server_encoding')").await, "UTF8");
        assert_eq!(ask(&client, "SELECT current_setting('is_superuser')").await, "off");
        assert_eq!(ask(&client, "SELECT ('a' < 'B')::text").await, "true", "the order of bytes");
        client.batch_execute("CREATE TABLE IF NOT EXISTS things (name text)").await.unwrap();
    }
    let other = connect(&TestDatabase::create().unwrap().url()).await;
    assert!(other.query("SELECT * FROM things", &[]).await.is_err());
}

#[tokio::test]
async fn a_database_is_gone_when_dropped_whoever_is_connected() {
    let (database, observer) = (TestDatabase::create().unwrap(), TestDatabase::create().unwrap());
    let url = database.socket_url();
    let user = connect(&url).await;
    assert_eq!(ask(&user, "SELECT 'here'").await, "here");
    drop(database);
    assert!(user.query("SELECT 1", &[]).await.is_err());
    let name = url.rsplit('/').next().unwrap();
    let count = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{name}'");
    assert_eq!(ask(&connect(&observer.socket_url()).await, &count).await, "0");
}

#[test]
fn all_threads_and_processes_share_one_server() {
    let (mut process, [_, url]) = other_process(&[]);
    let databases: Vec<TestDatabase> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| TestDatabase::create().unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut urls: Vec<String> = databases.iter().map(TestDatabase::url).chain([url]).collect();
    let server = format!("@{}/", databases[0].address());
    assert!(urls.iter().all(|url| url.contains(&server)), "{urls:?}");
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 5, "{urls:?}");
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_killed_process_leaves_no_server_behind() {
    let (mut process, [socket, tcp]) = other_process(&["--own"]);
    let folder = socket.split(['@', ':']).nth(2).unwrap().replace("%2F", "/");
    let address = tcp.split(['@', '/']).nth(3).unwrap();
    assert!(Path::new(&folder).exists() && TcpStream::connect(address).is_ok());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the server stops", || TcpStream::connect(address).is_err());
    wait_until("its folder is removed", || !Path::new(&folder).exists());
}
