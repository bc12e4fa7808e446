//! API keys of clients: their hashes, their owners and their revocation. The caller authorizes the creation of keys.

use crate::engines::sql::{SqlConnection, SqlRow};
use jiff::Timestamp;
use protocol::ApiKey;

use crate::tables::columns::{encode_time, read_column, read_optional_column};
use crate::tables::not_found;
use crate::{Error, Result};

/// The columns that [`read_key`] reads.
const COLUMNS: &str = "key_id, user_id, label, sha256, created_at, revoked_at";

/// Inserts a key. Inserting the same key again changes nothing.
///
/// # Errors
/// [`Error::Conflict`] if another key has the id.
pub(crate) fn put(db: &SqlConnection, key: &ApiKey) -> Result<()> {
    if let Some(stored) = find(db, &key.key_id)? {
        return match stored == *key {
            true => Ok(()),
            false => Err(Error::Conflict { what: "key", id: key.key_id.clone() }),
        };
    }
    db.prepare(&format!("INSERT INTO api_keys ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)"))?
        .execute_deferred((
            &key.key_id,
            key.user_id.as_str(),
            &key.label,
            &key.sha256,
            encode_time(key.created_at),
            key.revoked_at.map(encode_time),
        ))
}

/// Revokes a key. Revoking it again keeps the first time.
///
/// # Errors
/// [`Error::NotFound`] if there is no such key.
pub(crate) fn revoke(db: &SqlConnection, key_id: &str, at: Timestamp) -> Result<()> {
    let changed = db
        .prepare("UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE key_id = $1")?
        .execute((key_id, encode_time(at)))?;
    match changed {
        0 => Err(not_found("key", &key_id)),
        _ => Ok(()),
    }
}

/// Returns the key with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, key_id: &str) -> Result<Option<ApiKey>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM api_keys WHERE key_id = $1"))?
        .query_optional([key_id], read_key)
}

/// Returns all keys, oldest first.
pub(crate) fn list(db: &SqlConnection) -> Result<Vec<ApiKey>> {
    let mut statement = db.prepare(&format!("SELECT {COLUMNS} FROM api_keys ORDER BY created_at, key_id"))?;
    statement.query_map((), read_key)
}

/// Reads a key from a row with [`COLUMNS`].
fn read_key(row: &SqlRow<'_>) -> Result<ApiKey> {
    Ok(ApiKey {
        key_id: row.get("key_id")?,
        user_id: read_column(row, "user_id")?,
        label: row.get("label")?,
        sha256: row.get("sha256")?,
        created_at: read_column(row, "created_at")?,
        revoked_at: read_optional_column(row, "revoked_at")?,
    })
}
