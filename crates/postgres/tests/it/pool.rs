//! Connections that many share: how many there are, how long, and what becomes of what is done on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postgres::{Error, PoolSettings, Taking};
use test_postgres::{Cluster, Settings};

use crate::{SETTINGS, make_table, numbers, numbers_on, pool, put, scene, until};

#[tokio::test(flavor = "multi_thread")]
async fn figures_say_how_a_pool_is_used() {
    let database = test_postgres::Database::create().unwrap();
    let pool = pool(&database.socket_url(), PoolSettings { min_idle: 2, max: 3, ..SETTINGS }).await;
    until("two wait before anybody asks", || pool.figures().idle == 2).await;
    let sleeps = (0..8).map(|_| {
        let pool = pool.clone();
        tokio::spawn(
            async move { pool.with(|db| db.query("SELECT pg_sleep(0.05)::text", &[])).await.map(drop) },
        )
    });
    for sleep in sleeps.collect::<Vec<_>>() {
        sleep.await.unwrap().unwrap();
    }
    let figures = pool.figures();
    assert_eq!((figures.connections, figures.max, figures.gets, figures.created), (3, 3, 8, 3));
    assert!(figures.waited >= 5 && figures.wait >= Duration::from_millis(50), "{figures:?}");
    assert_eq!((figures.timed_out, figures.broken, figures.expired), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_unused_or_old_are_closed() {
    let database = test_postgres::Database::create().unwrap();
    let short = Duration::from_millis(300);
    let unused = pool(&database.socket_url(), PoolSettings { min_idle: 1, idle: short, ..SETTINGS }).await;
    let old = pool(&database.socket_url(), PoolSettings { lifetime: short, ..SETTINGS }).await;
    for pool in [&unused, &old] {
        let both = [pool.clone(), pool.clone()].map(|pool| {
            tokio::spawn(async move { pool.with(|db| db.query("SELECT pg_sleep(0.05)::text", &[])).await })
        });
        for one in both {
            one.await.unwrap().unwrap();
        }
    }
    until("what nobody uses goes, but for one", || unused.figures().connections == 1).await;
    until("what is old goes", || old.figures().connections == 0).await;
    assert_eq!((old.figures().expired, old.figures().broken), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_zero_are_none() {
    let database = test_postgres::Database::create().unwrap();
    let settings =
        PoolSettings { min_idle: 9, max: 1, idle: Duration::ZERO, lifetime: Duration::ZERO, ..SETTINGS };
    let pool = pool(&database.socket_url(), settings).await;
    make_table(&pool).await;
    put(&pool, 1).await.unwrap();
    assert_eq!(pool.figures().connections, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_longer_than_patience_is_told_that_all_are_in_use() {
    let database = test_postgres::Database::create().unwrap();
    let settings = PoolSettings { max: 1, patience: Duration::from_millis(200), ..SETTINGS };
    let pool = pool(&database.socket_url(), settings).await;
    let (busy, holder) = (Arc::new(AtomicU32::new(0)), pool.clone());
    let is_busy = Arc::clone(&busy);
    let held = tokio::spawn(async move {
        holder
            .with(move |db| {
                is_busy.store(1, Ordering::SeqCst);
                db.query("SELECT pg_sleep(1)::text", &[]).map(drop)
            })
            .await
    });
    until("the only one is in use", || busy.load(Ordering::SeqCst) == 1).await;
    assert!(matches!(pool.with(|db| db.batch("SELECT 1")).await, Err(Error::Exhausted)));
    held.await.unwrap().unwrap();
    assert_eq!(pool.figures().timed_out, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_let_in_is_told_at_once_and_why() {
    let database = test_postgres::Database::create().unwrap();
    // Who waited for something would wait longer than a test may take.
    let settings = PoolSettings { patience: Duration::from_secs(3_600), ..SETTINGS };
    let wrong = database.url().replace("segue:segue@", "segue:secret@");
    let told = pool(&wrong, settings).await.with(|db| db.batch("SELECT 1")).await.unwrap_err();
    assert!(matches!(told, Error::Refused(_)) && !told.to_string().contains("secret"), "{told}");
    let unknown = database.socket_url().replace("/test_", "/no_test_");
    let told = pool(&unknown, settings).await.read(numbers_on).await.unwrap_err();
    assert!(matches!(told, Error::Refused(_)), "{told}");
    let nobody = "postgres://a@127.0.0.1:9/d";
    let told = pool(nobody, settings).await.with(|db| db.batch("SELECT 1")).await.unwrap_err();
    assert!(matches!(told, Error::Unreachable(_)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_more_connections_than_the_server_takes_are_waited_for() {
    let few = Settings {
        options: vec![("max_connections", "5"), ("superuser_reserved_connections", "1")],
        ..Settings::default()
    };
    let cluster = Cluster::start_with(&few).unwrap();
    let database = cluster.create_database().unwrap();
    let pool = pool(&database.socket_url(), PoolSettings { max: 12, ..SETTINGS }).await;
    make_table(&pool).await;
    let all = (0..60).map(|number| {
        let pool = pool.clone();
        tokio::spawn(async move { put(&pool, number).await })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap().unwrap();
    }
    assert_eq!(numbers(&pool).await, (0..60).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_transaction_leaves_nothing_of_it_to_the_next() {
    let (_database, pool) = scene().await;
    let panicked = pool.write(vec![], |db| {
        db.execute("INSERT INTO t VALUES (1)", &[])?;
        if numbers_on(db)?.len() == 1 {
            panic!("in the middle");
        }
        Ok::<_, Error>(())
    });
    assert!(panicked.await.is_err());
    put(&pool, 2).await.unwrap();
    assert_eq!(numbers(&pool).await, [2]);
    assert_eq!(pool.figures().broken, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_in_vain_for_what_another_stores_meanwhile_finds_it_the_second_time() {
    let (_database, pool) = scene().await;
    let (other, runtime) = (pool.clone(), tokio::runtime::Handle::current());
    let tries = Arc::new(AtomicU32::new(0));
    let tried = Arc::clone(&tries);
    let was_there = pool.write(vec![], move |db| {
        let is_there = numbers_on(db)?.contains(&5);
        if tried.fetch_add(1, Ordering::SeqCst) == 0 {
            runtime.block_on(put(&other, 5))?;
        }
        if !is_there {
            db.execute("INSERT INTO t VALUES (5)", &[])?;
        }
        Ok::<_, Error>(is_there)
    });
    assert!(was_there.await.unwrap());
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    let own = pool.write(vec![], |db| {
        db.execute("INSERT INTO t VALUES (6)", &[])?;
        db.execute("INSERT INTO t VALUES (6)", &[])
    });
    assert!(matches!(own.await, Err(Error::Met(_))), "who meets itself is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_lock_longer_than_it_may_is_told_and_does_nothing() {
    let (_database, pool) = scene().await;
    let (held, holder) = (Arc::new(AtomicU32::new(0)), pool.clone());
    let is_held = Arc::clone(&held);
    let holding = tokio::spawn(async move {
        holder
            .write(vec![1], move |db| {
                numbers_on(db)?;
                is_held.store(1, Ordering::SeqCst);
                db.query("SELECT pg_sleep(1)::text", &[]).map(drop)
            })
            .await
    });
    until("the lock is held", || held.load(Ordering::SeqCst) == 1).await;
    let taking = Taking { locks: vec![1], wait: Some(Duration::from_millis(50)) };
    let told = pool.write(taking, |db| db.execute("INSERT INTO t VALUES (1)", &[])).await;
    assert!(matches!(told, Err(Error::TimedOut(_))), "{told:?}");
    holding.await.unwrap().unwrap();
    assert_eq!(numbers(&pool).await, [0_i64; 0]);
    let told = pool.with(|db| db.batch("SET statement_timeout = 50; SELECT pg_sleep(5)")).await;
    assert!(matches!(told, Err(Error::TimedOut(_))), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_two_that_wait_for_each_other_both_come_to_an_end() {
    let (_database, pool) = scene().await;
    put(&pool, 1).await.unwrap();
    put(&pool, 2).await.unwrap();
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
    for one in both {
        one.await.unwrap().unwrap();
    }
}
