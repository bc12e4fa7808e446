//! Statements of one connection: several under way, many rows, failures that are told later.

use std::ops::ControlFlow;

use postgres::{Connection, Error};

use crate::{numbers, numbers_on, put, scene};

const MANY: &str = "SELECT g::bigint FROM generate_series(1, $1::bigint) AS g";

fn first_of(db: &Connection, many: i64, stop: i64) -> Result<Vec<i64>, Error> {
    let mut seen = Vec::new();
    db.stream(MANY, &[many.into()], |row| {
        seen.extend(row.integer(0)?);
        Ok::<_, Error>(if seen.len() as i64 == stop {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_streamed_within_each_other_and_up_to_where_enough_is_seen() {
    let (_database, pool) = scene().await;
    pool.read(|db| {
        for many in [0, 1, 255, 256, 257, 1_000] {
            assert_eq!(first_of(db, many, -1)?, (1..=many).collect::<Vec<_>>());
            assert_eq!(first_of(db, many, 300)?.len() as i64, many.min(300));
        }
        let mut inner = 0;
        db.stream(MANY, &[400.into()], |_| {
            inner += first_of(db, 300, 2)?.len() + db.query(MANY, &[1.into()])?.len();
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        assert_eq!(inner, 400 * 3);
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_while_rows_are_looked_at_is_told_and_the_connection_goes_on() {
    let (_database, pool) = scene().await;
    let failed = pool.read(|db| {
        db.stream(MANY, &[1_000.into()], |_| Err::<ControlFlow<()>, _>(Error::Malformed("seen".to_owned())))
    });
    assert_eq!(failed.await.unwrap_err().to_string(), "read the database: seen");
    assert_eq!(numbers(&pool).await, [0_i64; 0]);
    assert_eq!((pool.figures().created, pool.figures().broken), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_statement_sent_that_fails_is_told_by_the_next_and_nothing_is_written() {
    let (_database, pool) = scene().await;
    put(&pool, 1).await.unwrap();
    for ends_at_once in [true, false] {
        let failed = pool.write(vec![], move |db| {
            db.send("INSERT INTO t VALUES ($1)", vec![2.into()])?;
            db.send("INSERT INTO t VALUES ($1 / 0)", vec![3.into()])?;
            db.send("INSERT INTO t VALUES ($1)", vec![4.into()])?;
            if !ends_at_once {
                numbers_on(db)?;
            }
            Ok(())
        });
        let told = failed.await.unwrap_err();
        assert!(matches!(&told, Error::Statement { code, .. } if code == "22012"), "{told}");
        assert_eq!(numbers(&pool).await, [1]);
    }
    assert_eq!(pool.figures().broken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_statement_that_cannot_be_sent_is_told_and_nothing_is_written() {
    let (_database, pool) = scene().await;
    // From here on its end is prepared, and waits for nothing.
    put(&pool, 7).await.unwrap();
    let failed = pool.write(vec![], |db| {
        db.send("INSERT INTO t VALUES ($1)", vec![1.into()])?;
        // No number of the server's kind has so many bits.
        db.send("INSERT INTO t VALUES (CAST($1 AS int))", vec![i64::MAX.into()])?;
        db.send("INSERT INTO t VALUES ($1)", vec![2.into()])
    });
    let told = failed.await.unwrap_err();
    assert!(matches!(told, Error::Malformed(_)), "{told}");
    assert_eq!(numbers(&pool).await, [7]);
    assert_eq!(pool.figures().broken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_is_patient_has_no_limit() {
    let (database, pool) = scene().await;
    let shown = |db: &Connection| db.query("SHOW statement_timeout", &[])?[0].text(0);
    let during = pool.read(move |db| db.patiently(|| shown(db))).await.unwrap();
    assert_eq!(during.as_deref(), Some("0"));
    let usual = pool.with(shown).await.unwrap();
    assert_eq!((usual.as_deref(), pool.figures().created), (Some("1min"), 1));
    let url = database.socket_url();
    let always = tokio::task::spawn_blocking(move || {
        let db = Connection::open(&url.parse().unwrap())?;
        db.be_patient()?;
        db.snapshot(shown)
    });
    assert_eq!(always.await.unwrap().unwrap().as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_seen_by_what_follows() {
    let (_database, pool) = scene().await;
    let seen = pool.write(vec![], |db| {
        (0..500_i64).try_for_each(|number| db.send("INSERT INTO t VALUES ($1)", vec![number.into()]))?;
        Ok::<_, Error>(numbers_on(db)?.len())
    });
    assert_eq!(seen.await.unwrap(), 500);
    assert_eq!(numbers(&pool).await.len(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_see_what_is_committed_meanwhile() {
    let (_database, pool) = scene().await;
    let (other, runtime) = (pool.clone(), tokio::runtime::Handle::current());
    let seen = pool.read(move |db| {
        let before = numbers_on(db)?;
        runtime.block_on(put(&other, 7))?;
        Ok::<_, Error>((before, numbers_on(db)?))
    });
    assert_eq!(seen.await.unwrap(), (vec![], vec![]));
    assert_eq!(numbers(&pool).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_statements_than_are_kept_prepared_are_no_matter() {
    let (_database, pool) = scene().await;
    pool.read(|db| {
        for number in 0..1_100 {
            assert_eq!(db.query(&format!("SELECT {number}"), &[])?[0].integer(0)?, Some(number));
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}
