//! Passages of what was found, with the words marked. They are cut and marked by the same rules by which the words were found;
//! where the texts come from is not known here.

use crate::engines::sql::Dialect;

use super::{MARKS, SEPARATOR, index, words};
use crate::Result;

/// Words of a passage.
const PASSAGE_WORDS: u32 = 24;
/// Characters of a passage; words can be very long.
const PASSAGE_CHARS_MAX: usize = 400;
/// Characters kept before the first word found, when a passage is cut.
const PASSAGE_LEAD_CHARS: usize = 80;

/// Returns of each text, which is spaced, the passage that holds most of the words; its beginning when it holds none.
pub(super) fn cut(words: &[String], texts: &[String]) -> Result<Vec<String>> {
    let Some(any) = index::any_of(Dialect::Sqlite, words)? else {
        return Ok(texts.iter().map(|text| shortened(text)).collect());
    };
    let mut passages = vec![None; texts.len()];
    words::with_cutter(|connection| {
        for (number, text) in (0_i64..).zip(texts) {
            connection
                .prepare_cached("INSERT INTO passages (rowid, text) VALUES (?1, ?2)")?
                .execute((number, text))?;
        }
        let mut statement = connection.prepare_cached(
            "SELECT rowid, snippet(passages, 0, char(2), char(3), '…', ?2) FROM passages WHERE passages MATCH ?1",
        )?;
        let mut rows = statement.query((any, PASSAGE_WORDS))?;
        while let Some(row) = rows.next()? {
            if let Some(passage) = passages.get_mut(row.get::<_, u32>(0)? as usize) {
                *passage = Some(shortened(row.get_ref(1)?.as_str()?));
            }
        }
        drop(rows);
        connection.prepare_cached("DELETE FROM passages")?.execute([]).map(|_| ())
    })?;
    let cut = |(passage, text): (Option<String>, &String)| passage.unwrap_or_else(|| shortened(text));
    Ok(passages.into_iter().zip(texts).map(cut).collect())
}

/// Returns the passage without separators and line breaks, cut around the first word found.
fn shortened(passage: &str) -> String {
    let chars: Vec<char> = passage
        .chars()
        .filter(|char| *char != SEPARATOR)
        .map(|char| if char.is_whitespace() { ' ' } else { char })
        .collect();
    if chars.len() <= PASSAGE_CHARS_MAX {
        return chars.into_iter().collect();
    }
    let first = chars.iter().position(|char| *char == MARKS[0]).unwrap_or(0);
    let start = first.saturating_sub(PASSAGE_LEAD_CHARS);
    let window = &chars[start..chars.len().min(start + PASSAGE_CHARS_MAX)];
    let mut text: String = window.iter().collect();
    let count = |mark| window.iter().filter(|char| **char == mark).count();
    if count(MARKS[0]) > count(MARKS[1]) {
        text.push(MARKS[1]);
    }
    text
}
