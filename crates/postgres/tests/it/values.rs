//! Values on their way to the server and back.

use postgres::{Connection, Error, Value};

use crate::scene;

fn back(db: &Connection, of: &str, value: Value<'_>) -> Result<Value<'static>, Error> {
    let rows = db.query(&format!("SELECT $1::{of}"), &[value])?;
    rows[0].at(0).map(Value::into_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_every_value_comes_back_as_it_was() {
    let (_database, pool) = scene().await;
    pool.read(|db| {
        for number in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(back(db, "bigint", number.into())?, Value::Integer(number));
        }
        for number in [0.0, -0.0, f64::MIN_POSITIVE, f64::MAX, f64::MIN, f64::INFINITY, 0.1 + 0.2] {
            assert_eq!(back(db, "double precision", Value::Real(number))?, Value::Real(number));
        }
        assert_eq!(back(db, "integer", Value::Integer(i32::MIN.into()))?, Value::Integer(i32::MIN.into()));
        assert_eq!(back(db, "smallint", Value::Integer(7))?, Value::Integer(7));
        assert_eq!(back(db, "boolean", Value::Integer(1))?, Value::Integer(1));
        for of in ["bigint", "double precision", "text", "bytea", "boolean"] {
            assert_eq!(back(db, of, Value::Null)?, Value::Null);
        }
        let huge = "ü\0".repeat(1 << 20);
        let texts =
            ["", "\0", "a\0b", "\u{10FFFE}", "\u{10FFFE}0", "\u{10FFFF}\u{85}\u{2028}\\'\"", "𝄞日本", &huge];
        for text in texts {
            assert_eq!(back(db, "text", text.into())?, Value::Text(text.into()));
        }
        for bytes in [&[][..], &[0, 255, 39, 92], &vec![0; 5 << 20]] {
            assert_eq!(back(db, "bytea", Value::Blob(bytes.into()))?, Value::Blob(bytes.into()));
        }
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_its_column_is_refused_and_the_connection_goes_on() {
    let (_database, pool) = scene().await;
    pool.with(|db| {
        assert!(back(db, "smallint", Value::Integer(1 << 20)).is_err());
        assert!(back(db, "bigint", "a text".into()).is_err());
        assert!(matches!(
            back(db, "inet", "127.0.0.1".into()),
            Err(Error::Malformed(_) | Error::Statement { .. })
        ));
        assert_eq!(back(db, "bigint", 3.into())?, Value::Integer(3));
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_in_lists_are_those_in_columns() {
    let (_database, pool) = scene().await;
    pool.read(|db| {
        let texts = Value::Texts(vec![Some("a\0b".into()), None, Some("\u{10FFFE}".into())]);
        let rows = db.query("SELECT t FROM unnest($1::text[]) AS t", &[texts])?;
        let found: Vec<Option<String>> = rows.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
        assert_eq!(found, [Some("a\0b".to_owned()), None, Some("\u{10FFFE}".to_owned())]);
        let rows = db.query(
            "SELECT 1 WHERE $1::text = ANY ($2::text[])",
            &["a\0b".into(), Value::Texts(vec![Some("a\0b".into())])],
        )?;
        assert_eq!(rows.len(), 1);
        Ok::<_, Error>(())
    })
    .await
    .unwrap();
}
