//! Tests of the server that all tests share, and of its databases. They do not wait until the shared server stops,
//! which takes longer than a test.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_postgres::TestDatabase;

use crate::{connect, query_text, wait_until};

/// Starts the program `segue-test-postgres`, which creates a database and holds it until its input is closed. Returns
/// the process and the URLs of the database, over the socket and over TCP.
fn start_program(args: &[&str]) -> (Child, [String; 2]) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_segue-test-postgres"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(process.stdout.as_mut().expect("its output is a pipe")).lines();
    let urls = [(); 2].map(|()| lines.next().expect("it prints two lines").expect("the lines are text"));
    (process, urls)
}

#[tokio::test]
async fn a_database_is_empty_and_owned_by_a_user_without_privileges() {
    let database = TestDatabase::create().unwrap();
    for url in [database.url(), database.socket_url()] {
        let client = connect(&url).await;
        assert_eq!(query_text(&client, "SELECT current_setting('server_encoding')").await, "UTF8");
        assert_eq!(query_text(&client, "SELECT current_setting('is_superuser')").await, "off");
        assert_eq!(
            query_text(&client, "SELECT ('a' < 'B')::text").await,
            "true",
            "texts have a linguistic order, not a byte order"
        );
        client.batch_execute("CREATE TABLE IF NOT EXISTS things (name text)").await.unwrap();
    }
    let other = connect(&TestDatabase::create().unwrap().url()).await;
    assert!(other.query("SELECT * FROM things", &[]).await.is_err());
}

#[tokio::test]
async fn dropping_a_database_closes_its_connections_and_deletes_it() {
    let (database, observer) = (TestDatabase::create().unwrap(), TestDatabase::create().unwrap());
    let url = database.socket_url();
    let client = connect(&url).await;
    assert_eq!(query_text(&client, "SELECT 'here'").await, "here");
    drop(database);
    assert!(client.query("SELECT 1", &[]).await.is_err());
    let name = url.rsplit('/').next().unwrap();
    let count = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{name}'");
    assert_eq!(query_text(&connect(&observer.socket_url()).await, &count).await, "0");
}

#[test]
fn all_threads_and_processes_share_one_server() {
    let (mut process, [_, url]) = start_program(&[]);
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
    let (mut process, [socket_url, tcp_url]) = start_program(&["--own"]);
    let folder = socket_url.split(['@', ':']).nth(2).unwrap().replace("%2F", "/");
    let address = tcp_url.split(['@', '/']).nth(3).unwrap();
    assert!(Path::new(&folder).exists() && TcpStream::connect(address).is_ok());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_until("the server stops", || TcpStream::connect(address).is_err());
    wait_until("its folder is removed", || !Path::new(&folder).exists());
}
