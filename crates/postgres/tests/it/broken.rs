//! Ways that break in the middle of something, and servers that stop, crash, or stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postgres::{Error, Pool, PoolSettings};
use test_postgres::{Cluster, Cut, Proxy};

use crate::{SETTINGS, make_table, numbers, pool, put, scene};

/// The most bytes that a commit of one number takes in either direction.
const COMMIT_BYTES_MAX: usize = 700;

async fn behind_a_proxy() -> (test_postgres::Database, Proxy, Pool) {
    let (database, _direct) = scene().await;
    let proxy = Proxy::start(database.address()).unwrap();
    let through = pool(&database.url_through(proxy.address()), PoolSettings { max: 1, ..SETTINGS }).await;
    (database, proxy, through)
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_cut_at_any_byte_a_transaction_is_there_once() {
    let (_database, proxy, pool) = behind_a_proxy().await;
    let mut number = 0;
    for bytes in (0..COMMIT_BYTES_MAX).step_by(7) {
        for cut in [Cut::ToServer(bytes), Cut::ToClient(bytes)] {
            proxy.cut_at(cut);
            number += 1;
            put(&pool, number).await.unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        }
    }
    assert_eq!(numbers(&pool).await, (1..=number).collect::<Vec<_>>());
    assert!(pool.figures().broken > 30, "{:?}", pool.figures());
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_commit_whose_answer_is_lost_is_not_done_again() {
    let (_database, proxy, pool) = behind_a_proxy().await;
    for (number, cut) in (1..).zip([Cut::Answer("COMMIT"), Cut::Request("COMMIT"), Cut::Answer("INSERT")]) {
        put(&pool, -number).await.unwrap();
        proxy.cut_at(cut);
        put(&pool, number).await.unwrap();
    }
    assert_eq!(numbers(&pool).await, [-3, -2, -1, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_is_asked_again_when_the_way_breaks() {
    let (_database, proxy, pool) = behind_a_proxy().await;
    put(&pool, 1).await.unwrap();
    for bytes in (0..300).step_by(11) {
        proxy.cut_at(Cut::ToClient(bytes));
        assert_eq!(numbers(&pool).await, [1], "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let (database, proxy, _pool) = behind_a_proxy().await;
    let url = format!("{}?connect_timeout=1", database.url_through(proxy.address()));
    let pool = pool(&url, PoolSettings { patience: Duration::from_secs(2), ..SETTINGS }).await;
    proxy.silence();
    let told = put(&pool, 1).await.unwrap_err();
    assert!(matches!(told, Error::Unreachable(_)), "{told}");
    proxy.pass();
    put(&pool, 2).await.unwrap();
    assert_eq!(numbers(&pool).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_a_restart_ended_are_found_out_without_waiting() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let settings = PoolSettings { min_idle: 30, max: 30, patience: Duration::from_secs(5), ..SETTINGS };
    let pool = pool(&database.socket_url(), settings).await;
    make_table(&pool).await;
    crate::until("all are there", || pool.figures().idle == 30).await;
    cluster.restart().unwrap();
    put(&pool, 1).await.unwrap();
    assert_eq!(numbers(&pool).await, [1]);
}

/// Acknowledged writes between two things that befall a server.
const WRITES_BETWEEN: u64 = 30;

/// Writes until it is told to stop, and returns what was acknowledged and what is in doubt; `done` counts the former.
async fn write_on(
    (pool, done): (Pool, Arc<AtomicU64>),
    first: i64,
    stop: tokio::sync::watch::Receiver<bool>,
) -> (Vec<i64>, Vec<i64>) {
    let (mut acknowledged, mut unsettled) = (Vec::new(), Vec::new());
    let mut number = first;
    while !*stop.borrow() {
        match put(&pool, number).await {
            Ok(()) => {
                acknowledged.push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Unsettled(_)) => unsettled.push(number),
            Err(Error::Met(_)) => panic!("{number} was written and not acknowledged"),
            Err(_) => {}
        }
        number += 1;
    }
    (acknowledged, unsettled)
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_what_is_acknowledged_outlives_stops_and_crashes_under_load_and_nothing_is_there_twice() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let pools = [pool(&database.socket_url(), SETTINGS).await, pool(&database.url(), SETTINGS).await];
    make_table(&pools[0]).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let works = (pools[writer % 2].clone(), Arc::clone(&done));
            tokio::spawn(write_on(works, writer as i64 * 1_000_000, stopped.clone()))
        })
        .collect();
    let more = async || {
        let enough = done.load(Ordering::Relaxed) + WRITES_BETWEEN;
        crate::until("they write", || done.load(Ordering::Relaxed) >= enough).await;
    };
    for round in 0..6 {
        more().await;
        if round % 3 == 0 { cluster.stop() } else { cluster.crash() }.unwrap();
        cluster.begin().unwrap();
    }
    more().await;
    stop.send(true).unwrap();
    let (mut acknowledged, mut in_doubt) = (Vec::new(), Vec::new());
    for writer in writers {
        let (sure, unsettled) = writer.await.unwrap();
        acknowledged.extend(sure);
        in_doubt.extend(unsettled);
    }
    let stored = numbers(&pools[0]).await;
    let lost: Vec<_> = acknowledged.iter().filter(|number| stored.binary_search(number).is_err()).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let unexpected: Vec<_> =
        stored.iter().filter(|number| !acknowledged.contains(number) && !in_doubt.contains(number)).collect();
    assert!(unexpected.is_empty(), "refused, and written all the same: {unexpected:?}");
}
