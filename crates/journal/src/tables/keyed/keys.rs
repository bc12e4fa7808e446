//! The keys of clients: their hashes, whose they are, and whether they still count. Who may make one is not known here.

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::ApiKey;

use crate::tables::columns::{stored, stored_option, time};
use crate::tables::not_found;
use crate::{Error, Result};

const COLUMNS: &str = "key_id, user_id, label, sha256, created_at, revoked_at";

/// Stores a key; the same one stored again changes nothing.
pub(crate) fn put(db: &Connection, key: &ApiKey) -> Result<()> {
    if let Some(known) = find(db, &key.key_id)? {
        return match known == *key {
            true => Ok(()),
            false => Err(Error::Differs { what: "key", id: key.key_id.clone() }),
        };
    }
    db.prepare(&format!("INSERT INTO api_keys ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)"))?.send((
        &key.key_id,
        key.user_id.as_str(),
        &key.label,
        &key.sha256,
        time(key.created_at),
        key.revoked_at.map(time),
    ))
}

/// Revokes a key; the first time stays.
pub(crate) fn revoke(db: &Connection, key_id: &str, at: Timestamp) -> Result<()> {
    let changed = db
        .prepare("UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE key_id = $1")?
        .execute((key_id, time(at)))?;
    match changed {
        0 => Err(not_found("key", &key_id)),
        _ => Ok(()),
    }
}

/// Returns the key, or `None`.
pub(crate) fn find(db: &Connection, key_id: &str) -> Result<Option<ApiKey>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM api_keys WHERE key_id = $1"))?.find([key_id], read)
}

/// Returns all keys, oldest first.
pub(crate) fn list(db: &Connection) -> Result<Vec<ApiKey>> {
    let mut statement = db.prepare(&format!("SELECT {COLUMNS} FROM api_keys ORDER BY created_at, key_id"))?;
    statement.query_map((), read)
}

fn read(row: &Row<'_>) -> Result<ApiKey> {
    Ok(ApiKey {
        key_id: row.get("key_id")?,
        user_id: stored(row, "user_id")?,
        label: row.get("label")?,
        sha256: row.get("sha256")?,
        created_at: stored(row, "created_at")?,
        revoked_at: stored_option(row, "revoked_at")?,
    })
}
