//! The mirror's table and views in PostgreSQL: creating and checking them, upserting rows, counting rows.
//!
//! Scheduling and the handling of failures are in [`super::deliver`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use postgres::{Connection, Pool, SqlValue};

use super::Error;
use super::rows::MirrorRow;

/// The statement that creates the table.
const TABLE: &str = include_str!("table.sql");
/// The statement that upserts rows.
const UPSERT: &str = include_str!("upsert.sql");
/// The statements that create the views.
const VIEWS: &str = include_str!("views.sql");

/// The version of the views, stored as the comment of a view. Views with another version are created again.
const VIEWS_VERSION: &str = "Segue 1";
/// The key of the advisory lock under which the table and the views are created, so that only one process does.
const SCHEMA_LOCK_KEY: i64 = 0x5365_6775_654d;
/// SQLSTATE `invalid_column_reference`: the table has no unique key on the conflict columns of the upsert.
const INVALID_CONFLICT_TARGET: &str = "42P10";
/// The SQLSTATE classes of errors that are due to the content of a row, not to the connection or the table: data
/// exceptions, integrity constraints, program limits, and exceptions raised by a trigger.
const DATA_ERROR_CLASSES: [&str; 4] = ["22", "23", "54", "P0"];

/// The required columns, each with the accepted types under the names that the server gives them. The written values
/// fit each of the types.
const COLUMNS: [(&str, &[&str]); 6] = [
    ("assistant_id", &["text", "character varying"]),
    ("handoff_id", &["uuid", "text", "character varying"]),
    ("summary_json", &["jsonb"]),
    ("summary_md", &["text", "character varying"]),
    ("created_at", &["timestamp with time zone"]),
    ("updated_at", &["timestamp with time zone"]),
];

/// The query that inspects the schema. It is a single query because the round trip to the server may be long. The last
/// column lists the table's columns, one `name type` a line.
const INSPECT_TABLE: &str = "SELECT current_user::text, current_schema()::text,
    obj_description(to_regclass('thread_summary_stats'), 'pg_class'),
    (SELECT string_agg(attname || ' ' || regexp_replace(format_type(atttypid, atttypmod), '[(].*[)]', ''), E'\\n' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = to_regclass('thread_summaries') AND attnum > 0 AND NOT attisdropped)";
/// The query that counts the rows of existing and of deleted handoffs.
const COUNT_ROWS: &str = "SELECT count(*) FILTER (WHERE NOT summary_json ? 'deleted_at'),
    count(*) FILTER (WHERE summary_json ? 'deleted_at') FROM thread_summaries";

/// The number of rows in the mirror's table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct MirrorRowCounts {
    /// Rows with a summary.
    pub summaries: u64,
    /// Rows of deleted handoffs, which contain only ids and the time of the deletion.
    pub deleted: u64,
}

/// Creates the table and the views if they are missing, checks the columns of an existing table, and returns the name
/// of the database user.
///
/// Missing privileges for the views are only logged, because the rows are written without them.
///
/// # Errors
///
/// [`Error::Denied`] with the statement that would grant the privilege, [`Error::WrongColumns`], and connection errors.
pub(super) async fn prepare_table(pool: &Pool) -> Result<String, Error> {
    let table = pool.with_connection(inspect_table).await?;
    match &table.columns {
        Some(columns) => check_columns(columns)?,
        None => {
            let created = pool
                .write(vec![SCHEMA_LOCK_KEY], |connection: &Connection| connection.batch_execute(TABLE))
                .await;
            let statement = || format!("GRANT CREATE ON SCHEMA {} TO {}", table.schema, table.user);
            created.map_err(|error| map_permission_error(error, statement))?;
        }
    }
    if table.views_version.as_deref() != Some(VIEWS_VERSION) {
        let views = format!("{VIEWS}\nCOMMENT ON VIEW thread_summary_stats IS '{VIEWS_VERSION}'");
        let created = pool
            .write(vec![SCHEMA_LOCK_KEY], move |connection: &Connection| connection.batch_execute(&views))
            .await;
        // A user that may write rows need not have the privilege to create views.
        if let Err(error) = created {
            tracing::info!(%error, "the views of the mirror could not be created: {error}");
        }
    }
    Ok(table.user)
}

/// Upserts the rows in one statement and returns the number of rows that changed. `user` is the name of the database
/// user, for the advice in an error.
///
/// # Errors
///
/// [`Error::Rejected`] when the server rejects the statement because of the content of a row; no row is written then.
pub(super) async fn upsert_rows(
    pool: &Pool,
    user: &str,
    rows: &[MirrorRow],
    now: Timestamp,
) -> Result<u64, Error> {
    // An upsert statement must not name the same row twice.
    let rows: BTreeMap<_, _> =
        rows.iter().map(|row| ((row.assistant_id.as_str(), row.handoff_id), row)).collect();
    let texts = |field: fn(&MirrorRow) -> String| {
        SqlValue::Texts(rows.values().map(|row| Some(Cow::Owned(field(row)))).collect())
    };
    let values = [
        texts(|row| row.assistant_id.clone()),
        texts(|row| row.handoff_id.to_string()),
        texts(|row| row.summary_json.clone()),
        texts(|row| row.summary_md.clone()),
        texts(|row| row.created_at.to_string()),
        SqlValue::from(now.to_string()),
    ];
    let written = pool.with_connection(move |connection| connection.execute(UPSERT, &values)).await;
    written.map_err(|error| match error {
        postgres::Error::Statement { code, message } if code == INVALID_CONFLICT_TARGET => {
            Error::WrongColumns { found: message }
        }
        postgres::Error::Statement { code, message }
            if DATA_ERROR_CLASSES.iter().any(|class| code.starts_with(class)) =>
        {
            Error::Rejected { reason: message }
        }
        // The upsert resolves conflicts on the table's own key, so this is a constraint that an administrator added.
        postgres::Error::ConstraintViolation(reason) => Error::Rejected { reason },
        error => map_permission_error(error, || {
            format!("GRANT SELECT, INSERT, UPDATE ON thread_summaries TO {user}")
        }),
    })
}

/// Returns the number of rows.
///
/// # Errors
///
/// When the database cannot be reached or the query fails.
pub(super) async fn count_rows(pool: &Pool) -> Result<MirrorRowCounts, Error> {
    let counted = pool.with_connection(|connection| {
        let rows = connection.query(COUNT_ROWS, &[])?;
        let number = |column| rows.first().map_or(Ok(None), |row| row.integer(column));
        let unsigned = |number: Option<i64>| number.unwrap_or(0).unsigned_abs();
        Ok::<_, postgres::Error>(MirrorRowCounts {
            summaries: unsigned(number(0)?),
            deleted: unsigned(number(1)?),
        })
    });
    Ok(counted.await?)
}

/// The result of [`INSPECT_TABLE`].
struct TableInspection {
    /// The database user.
    user: String,
    /// The schema in which the table is created.
    schema: String,
    /// The version of the views; `None` when they are missing.
    views_version: Option<String>,
    /// The columns of the table, one `name type` a line; `None` when the table is missing.
    columns: Option<String>,
}

/// Runs [`INSPECT_TABLE`].
fn inspect_table(connection: &Connection) -> Result<TableInspection, Error> {
    let rows = connection.query(INSPECT_TABLE, &[])?;
    let text = |column| rows.first().map_or(Ok(None), |row| row.text(column));
    Ok(TableInspection {
        user: text(0)?.unwrap_or_default(),
        schema: text(1)?.unwrap_or_else(|| "public".to_owned()),
        views_version: text(2)?,
        columns: text(3)?,
    })
}

/// Checks that the table has every required column with an accepted type. Additional columns are allowed.
fn check_columns(columns: &str) -> Result<(), Error> {
    let fits = |(name, types): &(&str, &[&str])| {
        let mut existing = columns.lines().filter_map(|column| column.split_once(' '));
        existing.any(|(known, kind)| known == *name && types.contains(&kind))
    };
    match COLUMNS.iter().all(fits) {
        true => Ok(()),
        false => Err(Error::WrongColumns { found: format!("it has {}", columns.replace('\n', ", ")) }),
    }
}

/// Returns [`Error::Denied`] with `statement` for a missing privilege, and any other error unchanged.
fn map_permission_error(error: postgres::Error, statement: impl FnOnce() -> String) -> Error {
    match error {
        postgres::Error::InsufficientPrivilege(reason) => Error::Denied { reason, statement: statement() },
        error => error.into(),
    }
}
