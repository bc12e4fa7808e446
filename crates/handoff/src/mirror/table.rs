//! The mirror's table in PostgreSQL: made when it is missing, written, counted. When, and what is done about a failure, is
//! not decided here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use postgres::{Connection, Pool, Value};

use super::Error;
use super::rows::Row;

const TABLE: &str = include_str!("table.sql");
const UPSERT: &str = include_str!("upsert.sql");
const VIEWS: &str = include_str!("views.sql");

/// The version of the views; they are made again where it is another one.
const VIEWS_VERSION: &str = "Segue 1";
/// The lock under which tables and views are made: of several processes one does.
const MAKING: i64 = 0x5365_6775_654d;
/// The code of an UPSERT whose key the table does not have.
const NO_SUCH_KEY: &str = "42P10";
/// Codes that begin so are about what is written, not about the way there or the table: data, constraints, limits, and what a
/// trigger says.
const DATA: [&str; 4] = ["22", "23", "54", "P0"];

/// The columns, as the server names their types. What is written fits each of several.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("assistant_id", &["text", "character varying"]),
    ("handoff_id", &["uuid", "text", "character varying"]),
    ("summary_json", &["jsonb"]),
    ("summary_md", &["text", "character varying"]),
    ("created_at", &["timestamp with time zone"]),
    ("updated_at", &["timestamp with time zone"]),
];

/// One question, for the way to the server may be long. The columns come as `name type` in lines.
const LOOK: &str = "SELECT current_user::text, current_schema()::text,
    obj_description(to_regclass('thread_summary_stats'), 'pg_class'),
    (SELECT string_agg(attname || ' ' || regexp_replace(format_type(atttypid, atttypmod), '[(].*[)]', ''), E'\\n' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = to_regclass('thread_summaries') AND attnum > 0 AND NOT attisdropped)";
const COUNT: &str = "SELECT count(*) FILTER (WHERE NOT summary_json ? 'deleted_at'),
    count(*) FILTER (WHERE summary_json ? 'deleted_at') FROM thread_summaries";

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Rows {
    /// Of handoffs that are there.
    pub summaries: u64,
    /// Of handoffs that were deleted: their ids alone.
    pub deleted: u64,
}

/// Makes what is missing, checks what is there, and returns as whom the server knows us.
///
/// # Errors
/// [`Error::Denied`] with the statement that would help, [`Error::Columns`], and those of the way to the server.
pub(super) async fn prepare(pool: &Pool) -> Result<String, Error> {
    let there = pool.with(look).await?;
    match &there.columns {
        Some(columns) => check(columns)?,
        None => {
            let made = pool.write(vec![MAKING], |connection: &Connection| connection.batch(TABLE)).await;
            let statement = || format!("GRANT CREATE ON SCHEMA {} TO {}", there.schema, there.user);
            made.map_err(|error| denied(error, statement))?;
        }
    }
    if there.views.as_deref() != Some(VIEWS_VERSION) {
        let views = format!("{VIEWS}\nCOMMENT ON VIEW thread_summary_stats IS '{VIEWS_VERSION}'");
        let made = pool.write(vec![MAKING], move |connection: &Connection| connection.batch(&views)).await;
        // Who may write the rows need not be allowed to make views; the rows are what counts.
        if let Err(error) = made {
            tracing::info!(%error, "the views over the mirror are not there");
        }
    }
    Ok(there.user)
}

/// Writes the rows in one statement as `user`, and returns how many of them changed.
///
/// # Errors
/// [`Error::Rejected`] when the server takes none because of what is in one of them.
pub(super) async fn upsert(pool: &Pool, user: &str, rows: &[Row], now: Timestamp) -> Result<u64, Error> {
    // No statement writes a row twice.
    let rows: BTreeMap<_, _> =
        rows.iter().map(|row| ((row.assistant_id.as_str(), row.handoff_id), row)).collect();
    let texts =
        |of: fn(&Row) -> String| Value::Texts(rows.values().map(|row| Some(Cow::Owned(of(row)))).collect());
    let values = [
        texts(|row| row.assistant_id.clone()),
        texts(|row| row.handoff_id.to_string()),
        texts(|row| row.summary_json.clone()),
        texts(|row| row.summary_md.clone()),
        texts(|row| row.created_at.to_string()),
        Value::from(now.to_string()),
    ];
    let written = pool.with(move |connection| connection.execute(UPSERT, &values)).await;
    written.map_err(|error| match error {
        postgres::Error::Statement { code, message } if code == NO_SUCH_KEY => {
            Error::Columns { found: message }
        }
        postgres::Error::Statement { code, message } if DATA.iter().any(|class| code.starts_with(class)) => {
            Error::Rejected { reason: message }
        }
        // The table's own key is met by writing over what is there: it is another's.
        postgres::Error::Met(reason) => Error::Rejected { reason },
        error => denied(error, || format!("GRANT SELECT, INSERT, UPDATE ON thread_summaries TO {user}")),
    })
}

pub(super) async fn count(pool: &Pool) -> Result<Rows, Error> {
    let counted = pool.with(|connection| {
        let rows = connection.query(COUNT, &[])?;
        let number = |place| rows.first().map_or(Ok(None), |row| row.integer(place));
        let unsigned = |number: Option<i64>| number.unwrap_or(0).unsigned_abs();
        Ok::<_, postgres::Error>(Rows { summaries: unsigned(number(0)?), deleted: unsigned(number(1)?) })
    });
    Ok(counted.await?)
}

struct There {
    user: String,
    schema: String,
    views: Option<String>,
    /// The table's; `None` where it is missing.
    columns: Option<String>,
}

fn look(connection: &Connection) -> Result<There, Error> {
    let rows = connection.query(LOOK, &[])?;
    let text = |place| rows.first().map_or(Ok(None), |row| row.text(place));
    Ok(There {
        user: text(0)?.unwrap_or_default(),
        schema: text(1)?.unwrap_or_else(|| "public".to_owned()),
        views: text(2)?,
        columns: text(3)?,
    })
}

fn check(columns: &str) -> Result<(), Error> {
    let fits = |(name, types): &(&str, &[&str])| {
        let mut found = columns.lines().filter_map(|column| column.split_once(' '));
        found.any(|(known, kind)| known == *name && types.contains(&kind))
    };
    match COLUMNS.iter().all(fits) {
        true => Ok(()),
        false => Err(Error::Columns { found: format!("it has {}", columns.replace('\n', ", ")) }),
    }
}

fn denied(error: postgres::Error, statement: impl FnOnce() -> String) -> Error {
    match error {
        postgres::Error::Forbidden(reason) => Error::Denied { reason, statement: statement() },
        error => error.into(),
    }
}
