//! Tests of statements on one connection: pipelining, cursors, time limits, snapshots and the cache of prepared
//! statements.

use std::ops::ControlFlow;

use postgres::{Connection, Error};
use test_postgres::{StatementRecorder, TestDatabase};

use crate::{
    SETTINGS, insert_number, make_table, open_database_and_pool, pool, read_numbers, select_numbers,
};

const SERIES_QUERY: &str = "SELECT g::bigint FROM generate_series(1, $1::bigint) AS g";

/// Streams the numbers from 1 to `last` and returns those of the first `rows_max` rows.
fn stream_first_rows(db: &Connection, last: i64, rows_max: i64) -> Result<Vec<i64>, Error> {
    let mut numbers = Vec::new();
    db.stream(SERIES_QUERY, &[last.into()], |row| {
        numbers.extend(row.integer(0)?);
        Ok::<_, Error>(if numbers.len() as i64 == rows_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(numbers)
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_can_be_nested_and_stopped_early() {
    let (_database, pool) = open_database_and_pool().await;
    pool.read(|db| {
        for last in [0, 1, 255, 256, 257, 1_000] {
            assert_eq!(stream_first_rows(db, last, -1)?, (1..=last).collect::<Vec<_>>());
            assert_eq!(stream_first_rows(db, last, 300)?.len() as i64, last.min(300));
        }
        let mut inner = 0;
        db.stream(SERIES_QUERY, &[400.into()], |_| {
            inner += stream_first_rows(db, 300, 2)?.len() + db.query(SERIES_QUERY, &[1.into()])?.len();
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        assert_eq!(inner, 400 * 3);
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_statement_is_read_outside_of_a_transaction_and_a_second_one_is_refused() {
    let (_database, pool) = open_database_and_pool().await;
    let read =
        |db: &Connection| db.query("SELECT 1::bigint", &[])?.first().map_or(Ok(None), |row| row.integer(0));
    assert_eq!(pool.read_statement(read).await.unwrap(), Some(1));
    let twice = pool.read_statement(move |db| read(db).and_then(|_| read(db)));
    let refused = twice.await.unwrap_err().to_string();
    assert_eq!(refused, "read the database: several statements need a snapshot or a transaction");
    assert_eq!(
        pool.read(move |db| read(db).and_then(|_| read(db))).await.unwrap(),
        Some(1),
        "no limit is left"
    );
    assert_eq!((pool.statistics().created, pool.statistics().broken), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_visitor_ends_the_stream_and_keeps_the_connection_usable() {
    let (_database, pool) = open_database_and_pool().await;
    let failed = pool.read(|db| {
        db.stream(SERIES_QUERY, &[1_000.into()], |_| {
            Err::<ControlFlow<()>, _>(Error::Malformed("seen".to_owned()))
        })
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "read the database: seen");
    assert_eq!(read_numbers(&pool).await, [0_i64; 0]);
    assert_eq!((pool.statistics().created, pool.statistics().broken), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_failed_pipelined_statement_is_reported_by_the_next_call_and_rolls_back() {
    let (_database, pool) = open_database_and_pool().await;
    insert_number(&pool, 1).await.unwrap();
    for ends_at_once in [true, false] {
        let failed = pool.write(vec![], move |db| {
            db.send("INSERT INTO t VALUES ($1)", vec![2.into()])?;
            db.send("INSERT INTO t VALUES ($1 / 0)", vec![3.into()])?;
            db.send("INSERT INTO t VALUES ($1)", vec![4.into()])?;
            if !ends_at_once {
                select_numbers(db)?;
            }
            Ok(())
        });
        let error = failed.await.unwrap_err();
        assert!(matches!(&error, Error::Statement { code, .. } if code == "22012"), "{error}");
        assert_eq!(read_numbers(&pool).await, [1]);
    }
    assert_eq!(pool.statistics().broken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_statement_that_cannot_be_encoded_is_reported_and_rolls_back() {
    let (_database, pool) = open_database_and_pool().await;
    // After this transaction its COMMIT is prepared and needs no further round trip.
    insert_number(&pool, 7).await.unwrap();
    let failed = pool.write(vec![], |db| {
        db.send("INSERT INTO t VALUES ($1)", vec![1.into()])?;
        // The value does not fit into a 32-bit integer.
        db.send("INSERT INTO t VALUES (CAST($1 AS int))", vec![i64::MAX.into()])?;
        db.send("INSERT INTO t VALUES ($1)", vec![2.into()])
    });
    let error = failed.await.unwrap_err();
    assert!(matches!(error, Error::Malformed(_)), "{error}");
    assert_eq!(read_numbers(&pool).await, [7]);
    assert_eq!(pool.statistics().broken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limits_are_disabled_only_where_that_was_requested() {
    let (database, pool) = open_database_and_pool().await;
    let read_timeout = |db: &Connection| db.query("SHOW statement_timeout", &[])?[0].text(0);
    let disabled = pool.read(move |db| db.without_timeouts(|| read_timeout(db))).await.unwrap();
    assert_eq!(disabled.as_deref(), Some("0"));
    let restored = pool.with_connection(read_timeout).await.unwrap();
    assert_eq!((restored.as_deref(), pool.statistics().created), (Some("1min"), 1));
    let url = database.socket_url();
    let disabled_for_connection = tokio::task::spawn_blocking(move || {
        let db = Connection::open(&url.parse().unwrap())?;
        db.disable_timeouts()?;
        db.read_snapshot(read_timeout)
    });
    assert_eq!(disabled_for_connection.await.unwrap().unwrap().as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_sees_the_pipelined_statements_before_it() {
    let (_database, pool) = open_database_and_pool().await;
    let count = pool.write(vec![], |db| {
        (0..500_i64).try_for_each(|number| db.send("INSERT INTO t VALUES ($1)", vec![number.into()]))?;
        Ok::<_, Error>(select_numbers(db)?.len())
    });
    assert_eq!(count.await.unwrap(), 500);
    assert_eq!(read_numbers(&pool).await.len(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_see_later_commits() {
    let (_database, pool) = open_database_and_pool().await;
    let (other_pool, runtime) = (pool.clone(), tokio::runtime::Handle::current());
    let snapshots = pool.read(move |db| {
        let before = select_numbers(db)?;
        runtime.block_on(insert_number(&other_pool, 7))?;
        Ok::<_, Error>((before, select_numbers(db)?))
    });
    assert_eq!(snapshots.await.unwrap(), (vec![], vec![]));
    assert_eq!(read_numbers(&pool).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_distinct_statements_than_the_cache_holds_are_executed() {
    let (_database, pool) = open_database_and_pool().await;
    pool.read(|db| {
        for number in 0..1_100 {
            assert_eq!(db.query(&format!("SELECT {number}"), &[])?[0].integer(0)?, Some(number));
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_ended_once_whichever_statement_fails() {
    const INSERT: &str = "INSERT INTO t VALUES (1)";
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let pool = pool(&database.url_through(recorder.address()), SETTINGS).await;
    make_table(&pool).await;
    // A connection that has not prepared the commit yet learns of the failure before it sends the commit.
    for (number, end) in [(7, "ROLLBACK"), (8, "COMMIT")] {
        let _ = recorder.take_statements();
        let ends = || {
            let statements = recorder.take_statements().into_iter().filter(|sent| !sent.is_preparation);
            let ends = statements.filter(|sent| sent.sql == "COMMIT" || sent.sql == "ROLLBACK");
            ends.map(|sent| sent.sql).collect::<Vec<_>>()
        };
        // The commit is sent without waiting for the statement that fails.
        let failed = pool.write(vec![1], |db| {
            db.query(INSERT, &[])?;
            db.send("SELECT 1 / (n - n) FROM t", Vec::new())
        });
        assert!(matches!(failed.await, Err(Error::Statement { .. })));
        assert_eq!(ends(), [end]);
        let failed = pool.write(vec![1], |db| {
            db.query(INSERT, &[])?;
            db.query("SELECT 1 / (n - n) FROM t", &[])
        });
        assert!(matches!(failed.await, Err(Error::Statement { .. })));
        assert_eq!(ends(), ["ROLLBACK"]);
        insert_number(&pool, number).await.unwrap();
    }
    assert_eq!(read_numbers(&pool).await, [7, 8]);
    assert_eq!((pool.statistics().created, pool.statistics().broken), (1, 0));
}
