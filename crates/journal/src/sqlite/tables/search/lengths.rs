//! How long the texts of rows are, in words: a word in a short text says more about it than in a long one. What else makes
//! a row good is not known here.

use rusqlite::{Connection, OptionalExtension};

use crate::Result;

/// The part of a row's score that its length changes.
const SHARE: f64 = 0.1;

/// Returns by how much what a row holds counts: 1 for a row of usual length among these, less for longer ones.
pub(super) fn factors(connection: &Connection, rows: impl Iterator<Item = i64>) -> Result<Vec<f64>> {
    // The engine keeps the lengths for its own ranking, as one number a column in its usual coding.
    let mut statement = connection.prepare_cached("SELECT sz FROM search_index_docsize WHERE id = ?1")?;
    let mut lengths = Vec::new();
    for row in rows {
        let length = statement.query_row([row], |row| Ok(decoded(row.get_ref(0)?.as_blob()?))).optional()?;
        lengths.push(length.unwrap_or(0) as f64);
    }
    let usual = (lengths.iter().sum::<f64>() / lengths.len().max(1) as f64).max(1.0);
    Ok(lengths.into_iter().map(|length| 1.0 / (1.0 - SHARE + SHARE * length / usual)).collect())
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
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE VIRTUAL TABLE search_index USING fts5 (text, content = '')")
            .unwrap();
        let counts = [0, 1, 127, 128, 300, 20_000];
        for (row, count) in (1_i64..).zip(counts) {
            let text = "word ".repeat(count);
            connection
                .execute("INSERT INTO search_index (rowid, text) VALUES (?1, ?2)", (row, text))
                .unwrap();
        }
        let stored = connection.prepare("SELECT sz FROM search_index_docsize ORDER BY id").unwrap();
        let mut stored = stored;
        let lengths: Vec<u64> = stored
            .query_map([], |row| Ok(decoded(row.get_ref(0)?.as_blob()?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(lengths, counts.map(|count| count as u64));
        let factors = factors(&connection, 2..=4).unwrap();
        assert!(factors[0] > 1.0 && factors[0] > factors[1] && factors[1] > factors[2], "{factors:?}");
    }
}
