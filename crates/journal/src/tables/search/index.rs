//! The full-text index of each engine: an FTS5 table in SQLite, a table of `tsvector`s in PostgreSQL. Both receive
//! the terms that `tokenizer` produces; the tokenizers of the engines are not used. The meaning of a row id is not
//! known here.

use std::ops::{ControlFlow, Range};

use super::searchable_prefix;
use super::tokenizer::{self, tsvector};
use crate::Result;
use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow, SqlValue};
use crate::tables::columns::encode_counter;

/// Number of pages (about 4 KB each) of SQLite's index that one step of a purge writes. A commit waits for one step at most.
const PURGE_STEP_PAGES: i64 = 64;
/// The first row id of the pages in which FTS5 lists the deleted rows of a segment. The pages of terms have lower ids.
const FIRST_TOMBSTONE_PAGE: i64 = 1 << 53;

/// A full-text search expression in the syntax of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchExpression(String);

impl SearchExpression {
    /// Returns the expression for a word, or `None` if the word has no letter or digit. A word with several terms, as
    /// in scripts without spaces, is searched as a phrase.
    pub(crate) fn for_word(dialect: SqlDialect, word: &str) -> Option<Self> {
        match dialect {
            SqlDialect::Sqlite => Some(tokenizer::join_terms(word))
                .filter(|terms| !terms.is_empty())
                .map(|terms| Self(format!("\"{terms}\""))),
            SqlDialect::Postgres => tsvector::to_tsquery_phrase(word).map(Self),
        }
    }

    /// Returns the expression for rows that match all given expressions.
    pub(crate) fn all(dialect: SqlDialect, expressions: &[&Self]) -> Self {
        Self::join(expressions, if dialect == SqlDialect::Sqlite { " AND " } else { " & " })
    }

    /// Returns the expression for rows that match any of the given expressions.
    pub(crate) fn any(dialect: SqlDialect, expressions: &[&Self]) -> Self {
        Self::join(expressions, if dialect == SqlDialect::Sqlite { " OR " } else { " | " })
    }

    /// Joins expressions with an operator.
    fn join(expressions: &[&Self], operator: &str) -> Self {
        let texts: Vec<&str> = expressions.iter().map(|expression| expression.0.as_str()).collect();
        Self(format!("({})", texts.join(operator)))
    }
}

/// Returns the expression for rows that contain any of the words, or `None` if no word can be searched.
pub(crate) fn any_word_expression(dialect: SqlDialect, words: &[String]) -> Option<String> {
    let expressions: Vec<SearchExpression> =
        words.iter().filter_map(|word| SearchExpression::for_word(dialect, word)).collect();
    let references: Vec<&SearchExpression> = expressions.iter().collect();
    (!references.is_empty()).then(|| SearchExpression::any(dialect, &references).0)
}

/// Returns the statement for the rows in `$2 .. $3` that match `$1`, with their scores, best first. Rows with equal
/// scores are ordered by descending row id.
pub(crate) const fn best_first_sql(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::Sqlite => {
            "SELECT rowid, -rank FROM search_index WHERE search_index MATCH $1 AND rowid >= $2 AND rowid < $3
            ORDER BY rank, rowid DESC"
        }
        SqlDialect::Postgres => {
            "SELECT rowid, CAST(ts_rank(words, q, 1) AS double precision) FROM search_index, CAST(CAST($1 AS text) AS tsquery) q
            WHERE words @@ q AND rowid >= $2 AND rowid < $3 ORDER BY 2 DESC, rowid DESC"
        }
    }
}

/// The order in which matching rows are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// By ascending row id.
    Ascending,
    /// By descending row id, so that newer messages of a thread come first.
    Descending,
}

/// The messages of a range that a search covers. It only helps the engine to skip rows; the caller checks every row
/// again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageSubset {
    /// All messages of the range.
    All,
    /// The messages of these threads. They are so few that reading all of them takes less time than reading all
    /// messages that contain a word.
    Threads(Vec<i64>),
    /// The messages of an assistant, of an owner, or of both.
    Matching {
        /// The assistant; `None` for any.
        assistant_id: Option<String>,
        /// The value of the column `owner`; `None` for any.
        owner: Option<String>,
    },
}

/// The rows that a query covers.
#[derive(Clone, Copy)]
pub(super) struct RowScope<'a> {
    /// The range of row ids.
    pub(super) range: &'a Range<i64>,
    /// The messages of the range.
    pub(super) subset: &'a MessageSubset,
}

/// Passes the ids of matching rows to `visit`, until the visitor breaks. Rows are streamed, so their number is not
/// limited.
pub(super) fn for_each_row(
    db: &SqlConnection,
    expression: &SearchExpression,
    scope: RowScope<'_>,
    order: RowOrder,
    mut visit: impl FnMut(i64) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let direction = if order == RowOrder::Descending { "DESC" } else { "ASC" };
    let (text, first, end) = (&expression.0, scope.range.start, scope.range.end);
    let matching = match db.dialect() {
        SqlDialect::Sqlite => "search_index MATCH $1",
        SqlDialect::Postgres => "words @@ CAST(CAST($1 AS text) AS tsquery)",
    };
    let bounded = format!("{matching} AND rowid >= $2 AND rowid < $3");
    let mut visit = |row: &SqlRow<'_>| visit(row.get(0)?);
    match (db.dialect(), scope.subset) {
        (SqlDialect::Postgres, MessageSubset::Threads(keys)) if first >= 0 => db
            .prepare(&format!(
                // `OFFSET 0` keeps PostgreSQL from searching the word in all rows first.
                "SELECT rowid FROM unnest(CAST($4 AS bigint[])) AS selected (key), LATERAL (
                     SELECT rowid, words FROM search_index WHERE rowid >= selected.key << 32 AND rowid < (selected.key + 1) << 32 OFFSET 0) s
                 WHERE {bounded} ORDER BY rowid {direction}"
            ))?
            .stream_rows((text, first, end, SqlValue::Integers(keys.into())), &mut visit),
        (SqlDialect::Postgres, MessageSubset::Matching { assistant_id, owner }) if first >= 0 => db
            .prepare(&format!(
                "SELECT rowid FROM search_index WHERE {bounded} AND EXISTS (
                     SELECT 1 FROM thread_heads h WHERE h.thread_key = search_index.rowid >> 32
                         AND (CAST($4 AS TEXT) IS NULL OR h.assistant_id = $4) AND (CAST($5 AS TEXT) IS NULL OR h.owner = $5))
                 ORDER BY rowid {direction}"
            ))?
            .stream_rows((text, first, end, assistant_id.as_deref(), owner.as_deref()), &mut visit),
        (SqlDialect::Postgres | SqlDialect::Sqlite, MessageSubset::All | MessageSubset::Threads(_) | MessageSubset::Matching { .. }) => db
            .prepare(&format!("SELECT rowid FROM search_index WHERE {bounded} ORDER BY rowid {direction}"))?
            .stream_rows((text, first, end), &mut visit),
    }
}

/// Indexes a text under a row id that is not in use.
pub(super) fn insert_row(db: &SqlConnection, row: i64, text: &str) -> Result<()> {
    let text = searchable_prefix(text);
    match db.dialect() {
        SqlDialect::Sqlite => db
            .prepare("INSERT INTO search_index (rowid, text) VALUES ($1, $2)")?
            .execute_deferred((row, tokenizer::join_terms(text))),
        SqlDialect::Postgres => {
            let (words, length) = tsvector::to_tsvector(text);
            db
                .prepare(
                    "INSERT INTO search_index (rowid, words, length) VALUES ($1, CAST(CAST($2 AS text) AS tsvector), $3)",
                )?
                .execute_deferred((row, words, encode_counter(length)))
        }
    }
}

/// Removes a row from the index. A missing row is not an error.
pub(super) fn delete_row(db: &SqlConnection, row: i64) -> Result<()> {
    db.prepare("DELETE FROM search_index WHERE rowid = $1")?.execute_deferred([row])
}

/// Removes a range of rows from the index.
pub(super) fn delete_rows(db: &SqlConnection, rows: Range<i64>) -> Result<()> {
    db.prepare("DELETE FROM search_index WHERE rowid >= $1 AND rowid < $2")?
        .execute_deferred((rows.start, rows.end))
}

/// Returns the number of terms of each row, or 0 for a missing row.
pub(super) fn row_lengths(db: &SqlConnection, rows: &[i64]) -> Result<Vec<u64>> {
    match db.dialect() {
        // FTS5 stores the lengths for its own ranking, as one variable-length integer per column.
        SqlDialect::Sqlite => {
            let mut statement =
                db.prepare("SELECT sz FROM search_index_docsize WHERE id = $1")?;
            let mut lengths = Vec::with_capacity(rows.len());
            for row in rows {
                let encoded: Option<Vec<u8>> = statement.query_optional([row], |row| row.get(0))?;
                lengths.push(encoded.map_or(0, |encoded| decode_varint(&encoded)));
            }
            Ok(lengths)
        }
        SqlDialect::Postgres => db
            .prepare(
                "SELECT coalesce(i.length, 0) FROM unnest(CAST($1 AS bigint[])) WITH ORDINALITY AS requested (rowid, position)
                 LEFT JOIN search_index i ON i.rowid = requested.rowid ORDER BY requested.position",
            )?
            .query_map([SqlValue::Integers(rows.into())], |row| {
                Ok(row.get::<_, i64>(0)?.unsigned_abs())
            }),
    }
}

/// The result of a step of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PurgeState {
    /// Nothing is left to be purged: no term of a deleted row in the index, or no row of a deleted thread.
    Complete,
    /// Something may be left to be purged.
    Incomplete,
}

/// Removes the terms of deleted rows from the index, step by step. SQLite only marks rows as deleted, and their terms stay in
/// the index until its segments are merged. The freed pages of the file keep them until they are used again. PostgreSQL removes them with its next vacuum.
///
/// A step writes a limited number of pages, whatever the size of the index. The step that completes a merge also deletes one
/// row for each merged page. The caller commits after each step, and repeats until the purge is complete.
pub(crate) fn purge_step(db: &SqlConnection) -> Result<PurgeState> {
    if !needs_purge(db)? {
        return Ok(PurgeState::Complete);
    }
    // A positive number continues a merge that has begun. A negative number begins one with all segments, which would
    // start a merge of the previous step again if rows were indexed since.
    let before = total_changes(db)?;
    merge_segments(db, PURGE_STEP_PAGES)?;
    // A merge that only took up the segments of rows that were indexed since makes few changes.
    if total_changes(db)? - before <= PURGE_STEP_PAGES {
        merge_segments(db, -PURGE_STEP_PAGES)?;
    }
    Ok(if has_tombstones(db)? { PurgeState::Incomplete } else { PurgeState::Complete })
}

/// Returns whether the index may contain terms of deleted rows. Only reads.
pub(crate) fn needs_purge(db: &SqlConnection) -> Result<bool> {
    Ok(db.dialect() == SqlDialect::Sqlite && has_tombstones(db)?)
}

/// Returns the maximum number of steps that a purge of the index needs while nothing else writes.
pub(crate) fn purge_steps_max(db: &SqlConnection) -> Result<u64> {
    let pages: i64 = db.prepare("SELECT count(*) FROM search_index_data")?.query_row((), |row| row.get(0))?;
    Ok(2 * pages.unsigned_abs() / PURGE_STEP_PAGES.unsigned_abs() + 2)
}

/// Returns whether SQLite's index contains terms of deleted rows.
fn has_tombstones(db: &SqlConnection) -> Result<bool> {
    db.prepare("SELECT 1 FROM search_index_data WHERE id >= $1 LIMIT 1")?.exists([FIRST_TOMBSTONE_PAGE])
}

/// Returns the number of rows that the SQLite connection has changed.
fn total_changes(db: &SqlConnection) -> Result<i64> {
    db.prepare("SELECT total_changes()")?.query_row((), |row| row.get(0))
}

/// Merges segments of SQLite's index until about `pages` pages are written.
fn merge_segments(db: &SqlConnection, pages: i64) -> Result<()> {
    db.prepare("INSERT INTO search_index (search_index, rank) VALUES ('merge', $1)")?
        .execute_deferred([pages])
}

/// Decodes a variable-length integer of SQLite: seven bits per byte, most significant first, with the high bit set on
/// all bytes except the last.
fn decode_varint(bytes: &[u8]) -> u64 {
    const BYTES_MAX: usize = 8;
    let mut number = 0;
    for byte in bytes.iter().take(BYTES_MAX) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_lengths_are_decoded_from_the_fts5_format() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE VIRTUAL TABLE search_index USING fts5 (text, content = '')").unwrap();
        let counts = [0, 1, 127, 128, 300, 20_000];
        for (row, count) in (1_i64..).zip(counts) {
            let text = "word ".repeat(count);
            db.execute("INSERT INTO search_index (rowid, text) VALUES ($1, $2)", (row, text)).unwrap();
        }
        let lengths = row_lengths(&SqlConnection::Sqlite(&db), &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(lengths, [0, 1, 127, 128, 300, 20_000, 0]);
    }

    /// Returns a database with an index of this many rows, one of them with a rare word, in several segments.
    fn create_index(rows: i64) -> rusqlite::Connection {
        let sqlite = crate::engines::sqlite::open_in_memory().unwrap();
        let db = SqlConnection::Sqlite(&sqlite);
        for row in 1..=rows {
            let text = format!("row {row} has the words w{row} and v{}", row * row);
            insert_row(&db, row, if row == rows / 2 { "xyloquartz" } else { &text }).unwrap();
        }
        sqlite
    }

    /// Returns the number and the total length of the pages of terms, and whether any of them contains the text.
    fn read_term_pages(sqlite: &rusqlite::Connection, text: &str) -> (i64, i64, bool) {
        let sql = "SELECT count(*), sum(length(block)), max(instr(block, CAST($1 AS BLOB)) > 0)
            FROM search_index_data WHERE id > 10 AND id < $2";
        sqlite
            .query_row(sql, (text, FIRST_TOMBSTONE_PAGE), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
    }

    #[test]
    fn a_deletion_changes_the_same_number_of_rows_in_an_index_of_any_size() {
        let changes = [100, 20_000].map(|rows| {
            let sqlite = create_index(rows);
            let db = SqlConnection::Sqlite(&sqlite);
            let (pages, before) = (read_term_pages(&sqlite, "row"), total_changes(&db).unwrap());
            delete_row(&db, rows / 2).unwrap();
            assert_eq!(read_term_pages(&sqlite, "row"), pages, "a deletion merges no segment");
            total_changes(&db).unwrap() - before
        });
        assert_eq!(changes[0], changes[1]);
    }

    #[test]
    fn k9_a_purge_removes_the_terms_of_deleted_rows_in_small_steps() {
        for late_rows in [1, 8, 40] {
            check_purge(late_rows);
        }
    }

    /// Purges a deleted row while this number of rows is indexed between two steps.
    fn check_purge(late_rows: i64) {
        const ROWS: i64 = 20_000;
        // Pages that are written, pages of the merged segments that are deleted, and entries about both.
        const CHANGES_PER_STEP_MAX: i64 = 8 * PURGE_STEP_PAGES;
        let sqlite = create_index(ROWS);
        let db = SqlConnection::Sqlite(&sqlite);
        assert_eq!(purge_step(&db).unwrap(), PurgeState::Complete, "nothing is deleted");
        delete_row(&db, ROWS / 2).unwrap();
        assert!(read_term_pages(&sqlite, "yloquartz").2);
        let mut steps = 0;
        loop {
            let before = total_changes(&db).unwrap();
            let state = purge_step(&db).unwrap();
            let changes = total_changes(&db).unwrap() - before;
            steps += 1;
            if state == PurgeState::Complete {
                break;
            }
            assert!(changes <= CHANGES_PER_STEP_MAX, "{changes} changes");
            // Rows that are indexed meanwhile, each in a segment of its own, do not start the purge again.
            for row in 0..late_rows {
                insert_row(&db, ROWS + steps * late_rows + row, "a late row").unwrap();
            }
        }
        let pages = read_term_pages(&sqlite, "yloquartz");
        assert!(!pages.2);
        assert!(
            steps > 1 && steps <= 2 * pages.0 / PURGE_STEP_PAGES + 2,
            "{steps} steps for {} pages",
            pages.0
        );
        sqlite.execute("INSERT INTO search_index (search_index) VALUES ('integrity-check')", []).unwrap();
    }
}
