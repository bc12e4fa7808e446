//! The index itself, as each engine keeps it: SQLite as an FTS5 table, PostgreSQL as a table of `tsvector`s. Both are given the
//! words that `words` cuts and stems; neither engine's own rules for words are used. What a row stands for is not known here.

use std::ops::{ControlFlow, Range};

use super::beginning;
use super::words::{self, vector};
use crate::Result;
use crate::engines::sql::{Connection, Dialect, Row, Value};
use crate::tables::columns::integer;

/// The most pages of SQLite's index, of about 4 KB, that are merged at once. Of a larger one the rest is merged by and by,
/// with what is indexed later.
const PAGES_MAX: i64 = 2_000;

/// An expression that finds rows, in the engine's language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression(String);

impl Expression {
    /// Returns the expression that finds a word; `None` when it has no letter or digit. One of a script without spaces is
    /// found where its characters follow each other.
    pub(crate) fn word(dialect: Dialect, word: &str) -> Option<Self> {
        match dialect {
            Dialect::Sqlite => Some(words::joined(word))
                .filter(|terms| !terms.is_empty())
                .map(|terms| Self(format!("\"{terms}\""))),
            Dialect::Postgres => vector::phrase(word).map(Self),
        }
    }

    /// Returns what finds the rows that each of these finds.
    pub(crate) fn all(dialect: Dialect, of: &[&Self]) -> Self {
        Self::joined(of, if dialect == Dialect::Sqlite { " AND " } else { " & " })
    }

    /// Returns what finds the rows that any of these finds.
    pub(crate) fn any(dialect: Dialect, of: &[&Self]) -> Self {
        Self::joined(of, if dialect == Dialect::Sqlite { " OR " } else { " | " })
    }

    fn joined(of: &[&Self], operator: &str) -> Self {
        let parts: Vec<&str> = of.iter().map(|part| part.0.as_str()).collect();
        Self(format!("({})", parts.join(operator)))
    }
}

/// Returns what finds the rows that hold any of the words; `None` when none of them can be found.
pub(crate) fn any_of(dialect: Dialect, words: &[String]) -> Option<String> {
    let found: Vec<Expression> = words.iter().filter_map(|word| Expression::word(dialect, word)).collect();
    let parts: Vec<&Expression> = found.iter().collect();
    (!parts.is_empty()).then(|| Expression::any(dialect, &parts).0)
}

/// Returns the statement for the rows `$2 .. $3` that `$1` finds, each with its score: the best first, and of equally good
/// ones the one first kept last.
pub(crate) const fn best_first(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "SELECT rowid, -rank FROM search_index WHERE search_index MATCH $1 AND rowid >= $2 AND rowid < $3
            ORDER BY rank, rowid DESC"
        }
        Dialect::Postgres => {
            "SELECT rowid, CAST(ts_rank(words, q, 1) AS double precision) FROM search_index, CAST(CAST($1 AS text) AS tsquery) q
            WHERE words @@ q AND rowid >= $2 AND rowid < $3 ORDER BY 2 DESC, rowid DESC"
        }
    }
}

/// The order in which rows are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// Which messages of a range are looked through, as far as the engine is to know: whoever reads the rows asks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Among {
    All,
    /// Those of these threads, which have so few that reading all of them takes less time than looking at everybody's that hold
    /// a word.
    Threads(Vec<i64>),
    /// Those of an assistant, of an owner, or of both.
    Of {
        assistant_id: Option<String>,
        /// The owner, as the column has it.
        owner: Option<String>,
    },
}

/// The rows that are looked through.
#[derive(Clone, Copy)]
pub(super) struct RowScope<'a> {
    pub(super) range: &'a Range<i64>,
    pub(super) among: &'a Among,
}

/// Shows each row of a range that an expression finds to `look`, until that has seen enough.
pub(super) fn each_row(
    db: &Connection,
    expression: &Expression,
    scope: RowScope<'_>,
    order: Order,
    mut look: impl FnMut(i64) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let direction = if order == Order::Descending { "DESC" } else { "ASC" };
    let (text, first, end) = (&expression.0, scope.range.start, scope.range.end);
    let matching = match db.dialect() {
        Dialect::Sqlite => "search_index MATCH $1",
        Dialect::Postgres => "words @@ CAST(CAST($1 AS text) AS tsquery)",
    };
    let bounded = format!("{matching} AND rowid >= $2 AND rowid < $3");
    let mut look = |row: &Row<'_>| look(row.get(0)?);
    match (db.dialect(), scope.among) {
        (Dialect::Postgres, Among::Threads(keys)) if first >= 0 => db
            .prepare(&format!(
                // The fence keeps the engine from looking for the word among everybody's messages.
                "SELECT rowid FROM unnest(CAST($4 AS bigint[])) AS own (key), LATERAL (
                     SELECT rowid, words FROM search_index WHERE rowid >= own.key << 32 AND rowid < (own.key + 1) << 32 OFFSET 0) s
                 WHERE {bounded} ORDER BY rowid {direction}"
            ))?
            .stream((text, first, end, Value::Integers(keys.into())), &mut look),
        (Dialect::Postgres, Among::Of { assistant_id, owner }) if first >= 0 => db
            .prepare(&format!(
                "SELECT rowid FROM search_index WHERE {bounded} AND EXISTS (
                     SELECT 1 FROM thread_heads h WHERE h.thread_key = search_index.rowid >> 32
                         AND (CAST($4 AS TEXT) IS NULL OR h.assistant_id = $4) AND (CAST($5 AS TEXT) IS NULL OR h.owner = $5))
                 ORDER BY rowid {direction}"
            ))?
            .stream((text, first, end, assistant_id.as_deref(), owner.as_deref()), &mut look),
        (Dialect::Postgres | Dialect::Sqlite, Among::All | Among::Threads(_) | Among::Of { .. }) => db
            .prepare(&format!("SELECT rowid FROM search_index WHERE {bounded} ORDER BY rowid {direction}"))?
            .stream((text, first, end), &mut look),
    }
}

/// Makes a text findable under a row that has none.
pub(super) fn put(db: &Connection, row: i64, text: &str) -> Result<()> {
    let text = beginning(text);
    match db.dialect() {
        Dialect::Sqlite => db
            .prepare("INSERT INTO search_index (rowid, text) VALUES ($1, $2)")?
            .send((row, words::joined(text))),
        Dialect::Postgres => {
            let (words, length) = vector::vector(text);
            db
                .prepare(
                    "INSERT INTO search_index (rowid, words, length) VALUES ($1, CAST(CAST($2 AS text) AS tsvector), $3)",
                )?
                .send((row, words, integer(length)))
        }
    }
}

/// Makes a row unfindable; nothing when it is not there.
pub(super) fn remove(db: &Connection, row: i64) -> Result<()> {
    db.prepare("DELETE FROM search_index WHERE rowid = $1")?.send([row])
}

/// Returns how many words the texts of rows have; 0 for one that is not there.
pub(super) fn lengths(db: &Connection, rows: &[i64]) -> Result<Vec<u64>> {
    match db.dialect() {
        // The engine keeps the lengths for its own ranking, as one number a column in its usual coding.
        Dialect::Sqlite => {
            let mut statement =
                db.prepare("SELECT sz FROM search_index_docsize WHERE id = $1")?;
            let mut lengths = Vec::with_capacity(rows.len());
            for row in rows {
                let coded: Option<Vec<u8>> = statement.find([row], |row| row.get(0))?;
                lengths.push(coded.map_or(0, |coded| decoded(&coded)));
            }
            Ok(lengths)
        }
        Dialect::Postgres => db
            .prepare(
                "SELECT coalesce(i.length, 0) FROM unnest(CAST($1 AS bigint[])) WITH ORDINALITY AS wanted (rowid, place)
                 LEFT JOIN search_index i ON i.rowid = wanted.rowid ORDER BY wanted.place",
            )?
            .query_map([Value::Integers(rows.into())], |row| {
                Ok(row.get::<_, i64>(0)?.unsigned_abs())
            }),
    }
}

/// Drops the words of deleted rows. SQLite only notes which rows are gone: their words are in the file until it merges what
/// it has. The other engine forgets them when it next cleans its tables.
pub(crate) fn purge(db: &Connection) -> Result<()> {
    if db.dialect() == Dialect::Sqlite {
        db.prepare("INSERT INTO search_index (search_index, rank) VALUES ('merge', $1)")?
            .send([-PAGES_MAX])?;
    }
    Ok(())
}

/// Returns the number at the beginning of `bytes`: seven bits a byte, the highest first, the eighth bit set on all but the
/// last.
fn decoded(bytes: &[u8]) -> u64 {
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
    fn lengths_are_decoded_as_the_engine_codes_them() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE VIRTUAL TABLE search_index USING fts5 (text, content = '')").unwrap();
        let counts = [0, 1, 127, 128, 300, 20_000];
        for (row, count) in (1_i64..).zip(counts) {
            let text = "word ".repeat(count);
            db.execute("INSERT INTO search_index (rowid, text) VALUES ($1, $2)", (row, text)).unwrap();
        }
        let found = lengths(&Connection::Sqlite(&db), &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(found, [0, 1, 127, 128, 300, 20_000, 0]);
    }
}
