//! Connections that break in the middle of a transaction, and servers that stop, crash or do not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postgres::{Error, Pool, PoolSettings};
use test_postgres::{Cluster, CutPoint, Proxy};

use crate::{SETTINGS, insert_number, make_table, open_database_and_pool, pool, read_numbers};

/// Upper bound for the bytes that a commit of one number sends in either direction.
const COMMIT_BYTES_MAX: usize = 700;

/// Creates a database, a proxy in front of it, and a pool of one connection that connects through the proxy.
async fn open_pool_behind_proxy() -> (test_postgres::TestDatabase, Proxy, Pool) {
    let (database, _direct) = open_database_and_pool().await;
    let proxy = Proxy::start(database.address()).unwrap();
    let pool_behind_proxy =
        pool(&database.url_through(proxy.address()), PoolSettings { max: 1, ..SETTINGS }).await;
    (database, proxy, pool_behind_proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_transaction_is_applied_once_wherever_the_connection_is_cut() {
    let (_database, proxy, pool) = open_pool_behind_proxy().await;
    let mut number = 0;
    for bytes in (0..COMMIT_BYTES_MAX).step_by(7) {
        for cut in [CutPoint::ToServer(bytes), CutPoint::ToClient(bytes)] {
            proxy.cut_at(cut);
            number += 1;
            insert_number(&pool, number).await.unwrap_or_else(|error| panic!("{cut:?}: {error}"));
        }
    }
    assert_eq!(read_numbers(&pool).await, (1..=number).collect::<Vec<_>>());
    assert!(pool.statistics().broken > 30, "{:?}", pool.statistics());
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_commit_whose_response_is_lost_is_not_repeated() {
    let (_database, proxy, pool) = open_pool_behind_proxy().await;
    for (number, cut) in
        (1..).zip([CutPoint::Answer("COMMIT"), CutPoint::Request("COMMIT"), CutPoint::Answer("INSERT")])
    {
        insert_number(&pool, -number).await.unwrap();
        proxy.cut_at(cut);
        insert_number(&pool, number).await.unwrap();
    }
    assert_eq!(read_numbers(&pool).await, [-3, -2, -1, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_retried_when_the_connection_breaks() {
    let (_database, proxy, pool) = open_pool_behind_proxy().await;
    insert_number(&pool, 1).await.unwrap();
    for bytes in (0..300).step_by(11) {
        proxy.cut_at(CutPoint::ToClient(bytes));
        assert_eq!(read_numbers(&pool).await, [1], "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_server_is_reported_as_unreachable() {
    let (database, proxy, _pool) = open_pool_behind_proxy().await;
    let url = format!("{}?connect_timeout=1", database.url_through(proxy.address()));
    let pool = pool(&url, PoolSettings { wait_timeout: Duration::from_secs(2), ..SETTINGS }).await;
    proxy.silence();
    let error = insert_number(&pool, 1).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    proxy.restore();
    insert_number(&pool, 2).await.unwrap();
    assert_eq!(read_numbers(&pool).await, [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_a_server_restart_are_replaced_without_a_delay() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let settings = PoolSettings { min_idle: 30, max: 30, wait_timeout: Duration::from_secs(5), ..SETTINGS };
    let pool = pool(&database.socket_url(), settings).await;
    make_table(&pool).await;
    crate::wait_until("all connections are open", || pool.statistics().idle == 30).await;
    cluster.restart().unwrap();
    insert_number(&pool, 1).await.unwrap();
    assert_eq!(read_numbers(&pool).await, [1]);
}

/// Number of acknowledged writes between two faults of the server.
const WRITES_BETWEEN_FAULTS: u64 = 30;

/// Writes numbers until `stop` is set. Returns the acknowledged numbers, and those whose commit is unknown; `done`
/// counts the acknowledged ones.
async fn write_until_stopped(
    pool: Pool,
    done: Arc<AtomicU64>,
    first: i64,
    stop: tokio::sync::watch::Receiver<bool>,
) -> (Vec<i64>, Vec<i64>) {
    let (mut acknowledged, mut unknown) = (Vec::new(), Vec::new());
    let mut number = first;
    while !*stop.borrow() {
        match insert_number(&pool, number).await {
            Ok(()) => {
                acknowledged.push(number);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::CommitUnknown(_)) => unknown.push(number),
            Err(Error::ConstraintViolation(_)) => panic!("{number} was written and not acknowledged"),
            Err(_) => {}
        }
        number += 1;
    }
    (acknowledged, unknown)
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_acknowledged_writes_survive_stops_and_crashes_under_load_and_are_applied_once() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let pools = [pool(&database.socket_url(), SETTINGS).await, pool(&database.url(), SETTINGS).await];
    make_table(&pools[0]).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let (pool, done) = (pools[writer % 2].clone(), Arc::clone(&done));
            tokio::spawn(write_until_stopped(pool, done, writer as i64 * 1_000_000, stopped.clone()))
        })
        .collect();
    let wait_for_writes = async || {
        let target = done.load(Ordering::Relaxed) + WRITES_BETWEEN_FAULTS;
        crate::wait_until("the writers make progress", || done.load(Ordering::Relaxed) >= target).await;
    };
    for round in 0..6 {
        wait_for_writes().await;
        if round % 3 == 0 { cluster.stop() } else { cluster.crash() }.unwrap();
        cluster.start_again().unwrap();
    }
    wait_for_writes().await;
    stop.send(true).unwrap();
    let (mut acknowledged, mut in_doubt) = (Vec::new(), Vec::new());
    for writer in writers {
        let (known, unknown) = writer.await.unwrap();
        acknowledged.extend(known);
        in_doubt.extend(unknown);
    }
    let stored = read_numbers(&pools[0]).await;
    let lost: Vec<_> = acknowledged.iter().filter(|number| stored.binary_search(number).is_err()).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let unexpected: Vec<_> =
        stored.iter().filter(|number| !acknowledged.contains(number) && !in_doubt.contains(number)).collect();
    assert!(unexpected.is_empty(), "refused and written nevertheless: {unexpected:?}");
}
