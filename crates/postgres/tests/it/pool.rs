//! Tests of the pool: its size, the lifetime of its connections, retries and locks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use postgres::{Error, PoolSettings, TransactionLocks};
use test_postgres::{Cluster, ClusterSettings};

use crate::{
    SETTINGS, insert_number, make_table, open_database_and_pool, pool, read_numbers, select_numbers,
    wait_until,
};

#[tokio::test(flavor = "multi_thread")]
async fn statistics_count_the_use_of_a_pool() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let pool = pool(&database.socket_url(), PoolSettings { min_idle: 2, max: 3, ..SETTINGS }).await;
    wait_until("two idle connections are opened in the background", || pool.statistics().idle == 2).await;
    let sleeps = (0..8).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            pool.with_connection(|db| db.query("SELECT pg_sleep(0.05)::text", &[])).await.map(drop)
        })
    });
    for sleep in sleeps.collect::<Vec<_>>() {
        sleep.await.unwrap().unwrap();
    }
    let statistics = pool.statistics();
    assert_eq!(
        (statistics.connections, statistics.max, statistics.checkouts, statistics.created),
        (3, 3, 8, 3)
    );
    assert!(statistics.waits >= 5 && statistics.total_wait >= Duration::from_millis(50), "{statistics:?}");
    assert_eq!((statistics.timeouts, statistics.broken, statistics.expired), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_unused_or_old_are_closed() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let short = Duration::from_millis(300);
    let unused =
        pool(&database.socket_url(), PoolSettings { min_idle: 1, idle_timeout: short, ..SETTINGS }).await;
    let old = pool(&database.socket_url(), PoolSettings { max_lifetime: short, ..SETTINGS }).await;
    for pool in [&unused, &old] {
        let both = [pool.clone(), pool.clone()].map(|pool| {
            tokio::spawn(async move {
                pool.with_connection(|db| db.query("SELECT pg_sleep(0.05)::text", &[])).await
            })
        });
        for task in both {
            task.await.unwrap().unwrap();
        }
    }
    wait_until("unused connections are closed except one", || unused.statistics().connections == 1).await;
    wait_until("old connections are closed", || old.statistics().connections == 0).await;
    assert_eq!((old.statistics().expired, old.statistics().broken), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_of_zero_means_no_limit() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let settings = PoolSettings {
        min_idle: 9,
        max: 1,
        idle_timeout: Duration::ZERO,
        max_lifetime: Duration::ZERO,
        ..SETTINGS
    };
    let pool = pool(&database.socket_url(), settings).await;
    make_table(&pool).await;
    insert_number(&pool, 1).await.unwrap();
    assert_eq!(pool.statistics().connections, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_exceeds_the_wait_timeout_reports_an_exhausted_pool() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let settings = PoolSettings { max: 1, wait_timeout: Duration::from_millis(200), ..SETTINGS };
    let pool = pool(&database.socket_url(), settings).await;
    let (busy, holder) = (Arc::new(AtomicU32::new(0)), pool.clone());
    let is_busy = Arc::clone(&busy);
    let holding = tokio::spawn(async move {
        holder
            .with_connection(move |db| {
                is_busy.store(1, Ordering::SeqCst);
                db.query("SELECT pg_sleep(1)::text", &[]).map(drop)
            })
            .await
    });
    wait_until("the only connection is in use", || busy.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(pool.with_connection(|db| db.batch_execute("SELECT 1")).await, Err(Error::Exhausted)));
    holding.await.unwrap().unwrap();
    assert_eq!(pool.statistics().timeouts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_to_connect_is_reported_at_once_with_its_reason() {
    let database = test_postgres::TestDatabase::create().unwrap();
    // With this timeout, a request that waited would exceed the time limit of a test.
    let settings = PoolSettings { wait_timeout: Duration::from_secs(3_600), ..SETTINGS };
    let wrong = database.url().replace("segue:segue@", "segue:secret@");
    let error =
        pool(&wrong, settings).await.with_connection(|db| db.batch_execute("SELECT 1")).await.unwrap_err();
    assert!(
        matches!(error, Error::ConnectionRejected(_)) && !error.to_string().contains("secret"),
        "{error}"
    );
    let unknown = database.socket_url().replace("/test_", "/no_test_");
    let error = pool(&unknown, settings).await.read(select_numbers).await.unwrap_err();
    assert!(matches!(error, Error::ConnectionRejected(_)), "{error}");
    let closed_port = "postgres://a@127.0.0.1:9/d";
    let error = pool(closed_port, settings)
        .await
        .with_connection(|db| db.batch_execute("SELECT 1"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_requests_wait_when_the_server_refuses_more_connections() {
    let few_connections = ClusterSettings {
        options: vec![("max_connections", "5"), ("superuser_reserved_connections", "1")],
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start_with(&few_connections).unwrap();
    let database = cluster.create_database().unwrap();
    let pool = pool(&database.socket_url(), PoolSettings { max: 12, ..SETTINGS }).await;
    make_table(&pool).await;
    let inserts = (0..60).map(|number| {
        let pool = pool.clone();
        tokio::spawn(async move { insert_number(&pool, number).await })
    });
    for task in inserts.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    assert_eq!(read_numbers(&pool).await, (0..60).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_transaction_rolls_it_back_and_discards_its_connection() {
    let (_database, pool) = open_database_and_pool().await;
    let panicked = pool.write(vec![], |db| {
        db.execute("INSERT INTO t VALUES (1)", &[])?;
        if select_numbers(db)?.len() == 1 {
            panic!("in the middle");
        }
        Ok::<_, Error>(())
    });
    assert!(panicked.await.is_err());
    insert_number(&pool, 2).await.unwrap();
    assert_eq!(read_numbers(&pool).await, [2]);
    assert_eq!(pool.statistics().broken, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constraint_violation_caused_by_a_concurrent_insert_is_retried() {
    let (_database, pool) = open_database_and_pool().await;
    let (other_pool, runtime) = (pool.clone(), tokio::runtime::Handle::current());
    let attempts = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&attempts);
    let existed = pool.write(vec![], move |db| {
        let exists = select_numbers(db)?.contains(&5);
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            runtime.block_on(insert_number(&other_pool, 5))?;
        }
        if !exists {
            db.execute("INSERT INTO t VALUES (5)", &[])?;
        }
        Ok::<_, Error>(exists)
    });
    assert!(existed.await.unwrap());
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    let duplicate = pool.write(vec![], |db| {
        db.execute("INSERT INTO t VALUES (6)", &[])?;
        db.execute("INSERT INTO t VALUES (6)", &[])
    });
    assert!(
        matches!(duplicate.await, Err(Error::ConstraintViolation(_))),
        "a violation by the transaction's own rows is reported"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_exceeds_its_lock_timeout_fails_without_effect() {
    let (_database, pool) = open_database_and_pool().await;
    let (held, holder) = (Arc::new(AtomicU32::new(0)), pool.clone());
    let is_held = Arc::clone(&held);
    let holding = tokio::spawn(async move {
        holder
            .write(vec![1], move |db| {
                select_numbers(db)?;
                is_held.store(1, Ordering::SeqCst);
                db.query("SELECT pg_sleep(1)::text", &[]).map(drop)
            })
            .await
    });
    wait_until("the lock is held", || held.load(Ordering::SeqCst) == 1).await;
    let locks = TransactionLocks { locks: vec![1], lock_timeout: Some(Duration::from_millis(50)) };
    let result = pool.write(locks, |db| db.execute("INSERT INTO t VALUES (1)", &[])).await;
    assert!(matches!(result, Err(Error::TimedOut(_))), "{result:?}");
    holding.await.unwrap().unwrap();
    assert_eq!(read_numbers(&pool).await, [0_i64; 0]);
    let result =
        pool.with_connection(|db| db.batch_execute("SET statement_timeout = 50; SELECT pg_sleep(5)")).await;
    assert!(matches!(result, Err(Error::TimedOut(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_a_deadlock_of_two_transactions_is_resolved_and_both_succeed() {
    let (_database, pool) = open_database_and_pool().await;
    insert_number(&pool, 1).await.unwrap();
    insert_number(&pool, 2).await.unwrap();
    let both = [[1, 2], [2, 1]].map(|order| {
        let pool = pool.clone();
        tokio::spawn(async move {
            pool.write(vec![], move |db| {
                for number in order {
                    db.execute("UPDATE t SET n = n WHERE n = $1", &[number.into()])?;
                    db.query("SELECT pg_sleep(0.1)::text", &[])?;
                }
                Ok::<_, Error>(())
            })
            .await
        })
    });
    for task in both {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_transactions_that_discover_each_others_locks_are_repeated_with_all_locks_and_never_deadlock() {
    let (_database, pool) = open_database_and_pool().await;
    let starting = Arc::new(Barrier::new(2));
    let attempts = [(1, 2), (2, 1)].map(|(first, second)| {
        let (pool, starting) = (pool.clone(), Arc::clone(&starting));
        tokio::spawn(async move {
            let attempts = Mutex::new(Vec::new());
            pool.write(vec![first], move |db| {
                let held = db.query(
                    "SELECT objid::bigint::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
                    &[],
                )?;
                attempts.lock().unwrap().push(held.len());
                // Each transaction of the first attempt holds its first lock before the other requests it.
                if attempts.lock().unwrap().len() == 1 {
                    starting.wait();
                }
                db.acquire_locks(vec![second])?;
                Ok::<_, Error>(attempts.lock().unwrap().clone())
            })
            .await
        })
    });
    let mut was_repeated = false;
    for task in attempts {
        let held = task.await.unwrap().unwrap();
        was_repeated |= held == [1, 2];
        assert!(held == [1] || held == [1, 2], "locks held at the start of each attempt: {held:?}");
    }
    assert!(was_repeated, "one of them held the lock that the other requested");
    let sql = "SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()";
    let deadlocks = pool.with_connection(|db| db.query(sql, &[])?[0].text(0)).await.unwrap();
    assert_eq!(deadlocks.as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_a_transaction_that_waited_long_for_its_first_lock_still_waits_for_one_that_it_discovers() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let wait_timeout = Duration::from_secs(1);
    let holders = pool(&database.socket_url(), SETTINGS).await;
    let waiting = pool(&database.socket_url(), PoolSettings { wait_timeout, ..SETTINGS }).await;
    let held = Arc::new(AtomicU32::new(0));
    // The first lock is held for longer than the wait timeout.
    let first = tokio::spawn({
        let (holders, held) = (holders.clone(), Arc::clone(&held));
        async move {
            let hold = move |db: &postgres::Connection| {
                db.query("SELECT 1", &[])?;
                held.fetch_add(1, Ordering::SeqCst);
                db.query("SELECT pg_sleep(1.3)::text", &[]).map(drop)
            };
            holders.write(vec![1], hold).await
        }
    });
    let release = Arc::new(Barrier::new(2));
    let second = tokio::spawn({
        let (held, release) = (Arc::clone(&held), Arc::clone(&release));
        async move {
            let hold = move |db: &postgres::Connection| {
                db.query("SELECT 1", &[])?;
                held.fetch_add(1, Ordering::SeqCst);
                release.wait();
                Ok::<_, Error>(())
            };
            holders.write(vec![2], hold).await
        }
    });
    wait_until("both locks are held", || held.load(Ordering::SeqCst) == 2).await;
    let discovering = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.write(vec![1], |db| db.acquire_locks(vec![2])).await }
    });
    wait_until("the second attempt waits for both locks", || waiting.statistics().checkouts == 2).await;
    release.wait();
    for task in [first, second, discovering] {
        task.await.unwrap().unwrap();
    }
}
