//! SQL functions of PostgreSQL that SQLite lacks, registered under the same names, so that one statement works with
//! both engines. Nothing that is stored (an index, a view, a trigger) may use them, because other programs open the
//! file without them.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// Registers `strpos(text, substring)` and `encode(bytes, 'hex')` on a connection.
pub(super) fn register_functions(connection: &Connection) -> Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("strpos", 2, flags, strpos)?;
    connection.create_scalar_function("encode", 2, flags, encode)
}

/// Implements `strpos`: returns the one-based character position of the first occurrence of a substring, 0 if there
/// is none, and NULL for NULL.
fn strpos(context: &Context<'_>) -> Result<Option<i64>> {
    let (ValueRef::Text(text), ValueRef::Text(substring)) = (context.get_raw(0), context.get_raw(1)) else {
        return Ok(None);
    };
    let (text, substring) = (String::from_utf8_lossy(text), String::from_utf8_lossy(substring));
    let chars_before = text.find(&*substring).map(|offset| text[..offset].chars().count());
    Ok(Some(chars_before.map_or(0, |chars_before| chars_before as i64 + 1)))
}

/// Implements `encode`: returns bytes as lower-case hexadecimal digits, and NULL for NULL.
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
        let value: Value =
            connection.query_row(&format!("SELECT {expression}"), [], |row| row.get(0)).unwrap();
        assert_eq!(value, expected.into(), "{expression}");
    }

    #[test]
    fn functions_return_the_same_values_as_in_postgresql() {
        check("strpos('agent@alice', '@')", 6);
        check("strpos('äöü@x', '@')", 4);
        check("strpos('agent', '@')", 0);
        check("strpos(NULL, '@')", Value::Null);
        check("encode(x'00ff10', 'hex')", "00ff10".to_owned());
        check("encode(NULL, 'hex')", Value::Null);
    }
}
