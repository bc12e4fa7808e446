//! SQL functions that PostgreSQL has and SQLite lacks, under PostgreSQL's names, so that one statement serves both engines.
//! Nothing that is stored (an index, a view, a trigger) may use them: other programs open the file without them.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// Registers `strpos(text, part)` and `encode(bytes, 'hex')` on a connection.
pub(super) fn register_functions(connection: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("strpos", 2, flags, strpos)?;
    connection.create_scalar_function("encode", 2, flags, encode)
}

/// Returns the character, counted from 1, where a part of a text first begins; 0 when it is not in it, NULL for NULL.
fn strpos(context: &Context<'_>) -> Result<Option<i64>> {
    let (ValueRef::Text(text), ValueRef::Text(part)) = (context.get_raw(0), context.get_raw(1)) else {
        return Ok(None);
    };
    let (text, part) = (String::from_utf8_lossy(text), String::from_utf8_lossy(part));
    let before = text.find(&*part).map(|at| text[..at].chars().count());
    Ok(Some(before.map_or(0, |before| before as i64 + 1)))
}

/// Returns bytes as lower-case hexadecimal digits; NULL for NULL.
fn encode(context: &Context<'_>) -> Result<Option<String>> {
    let format: String = context.get(1)?;
    if format != "hex" {
        return Err(rusqlite::Error::UserFunctionError(format!("encode bytes as {format}").into()));
    }
    let bytes: Option<Vec<u8>> = context.get(0)?;
    Ok(bytes.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: impl Into<Value>) {
        let connection = Connection::open_in_memory().unwrap();
        register_functions(&connection).unwrap();
        let found: Value =
            connection.query_row(&format!("SELECT {expression}"), [], |row| row.get(0)).unwrap();
        assert_eq!(found, expected.into(), "{expression}");
    }

    #[test]
    fn functions_answer_as_those_of_the_other_engine() {
        check("strpos('agent@alice', '@')", 6);
        check("strpos('äöü@x', '@')", 4);
        check("strpos('agent', '@')", 0);
        check("strpos(NULL, '@')", Value::Null);
        check("encode(x'00ff10', 'hex')", "00ff10".to_owned());
        check("encode(NULL, 'hex')", Value::Null);
    }
}
