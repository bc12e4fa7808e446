//! Tests that values are sent to the server and read back without a change.

use postgres::{Connection, Error, SqlValue};

use crate::open_database_and_pool;

/// Sends a value as type `sql_type` and returns the value that the server sends back.
fn round_trip(db: &Connection, sql_type: &str, value: SqlValue<'_>) -> Result<SqlValue<'static>, Error> {
    let rows = db.query(&format!("SELECT $1::{sql_type}"), &[value])?;
    rows[0].get(0).map(SqlValue::into_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_every_value_is_read_back_unchanged() {
    let (_database, pool) = open_database_and_pool().await;
    pool.read(|db| {
        for number in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(round_trip(db, "bigint", number.into())?, SqlValue::Integer(number));
        }
        for number in [0.0, -0.0, f64::MIN_POSITIVE, f64::MAX, f64::MIN, f64::INFINITY, 0.1 + 0.2] {
            assert_eq!(round_trip(db, "double precision", SqlValue::Real(number))?, SqlValue::Real(number));
        }
        assert_eq!(
            round_trip(db, "integer", SqlValue::Integer(i32::MIN.into()))?,
            SqlValue::Integer(i32::MIN.into())
        );
        assert_eq!(round_trip(db, "smallint", SqlValue::Integer(7))?, SqlValue::Integer(7));
        assert_eq!(round_trip(db, "boolean", SqlValue::Integer(1))?, SqlValue::Integer(1));
        for sql_type in ["bigint", "double precision", "text", "bytea", "boolean"] {
            assert_eq!(round_trip(db, sql_type, SqlValue::Null)?, SqlValue::Null);
        }
        let huge = "ü\0".repeat(1 << 20);
        let texts =
            ["", "\0", "a\0b", "\u{10FFFE}", "\u{10FFFE}0", "\u{10FFFF}\u{85}\u{2028}\\'\"", "𝄞日本", &huge];
        for text in texts {
            assert_eq!(round_trip(db, "text", text.into())?, SqlValue::Text(text.into()));
        }
        for bytes in [&[][..], &[0, 255, 39, 92], &vec![0; 5 << 20]] {
            assert_eq!(round_trip(db, "bytea", SqlValue::Blob(bytes.into()))?, SqlValue::Blob(bytes.into()));
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_does_not_fit_its_type_is_refused_and_the_connection_stays_usable() {
    let (_database, pool) = open_database_and_pool().await;
    pool.with_connection(|db| {
        assert!(round_trip(db, "smallint", SqlValue::Integer(1 << 20)).is_err());
        assert!(round_trip(db, "bigint", "a text".into()).is_err());
        assert!(matches!(
            round_trip(db, "inet", "127.0.0.1".into()),
            Err(Error::Malformed(_) | Error::Statement { .. })
        ));
        assert_eq!(round_trip(db, "bigint", 3.into())?, SqlValue::Integer(3));
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_in_arrays_equal_texts_in_columns() {
    let (_database, pool) = open_database_and_pool().await;
    pool.read(|db| {
        let texts = SqlValue::Texts(vec![Some("a\0b".into()), None, Some("\u{10FFFE}".into())]);
        let rows = db.query("SELECT t FROM unnest($1::text[]) AS t", &[texts])?;
        let values: Vec<Option<String>> = rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
        assert_eq!(values, [Some("a\0b".to_owned()), None, Some("\u{10FFFE}".to_owned())]);
        let rows = db.query(
            "SELECT 1 WHERE $1::text = ANY ($2::text[])",
            &["a\0b".into(), SqlValue::Texts(vec![Some("a\0b".into())])],
        )?;
        assert_eq!(rows.len(), 1);
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}
