//! Artifacts: binary data that threads store under its SHA-256. Identical data is stored once for all threads. The
//! caller computes the hash.

use crate::engines::postgres::locks;
use crate::engines::sql::{SqlConnection, SqlDialect};
use protocol::ThreadId;

use super::columns::{compact_timestamp, read_column};
use super::threads;
use crate::{ARTIFACT_BYTES_MAX, Artifact, Error, Result};

/// Size of a SHA-256 in bytes.
const HASH_BYTES: usize = 32;
/// Minimum number of hex digits of an abbreviated hash.
const PREFIX_DIGITS_MIN: usize = 8;

/// Stores an artifact in a thread. Storing it again changes nothing.
///
/// # Errors
/// [`Error::InvalidRequest`] if the hash is malformed or the data is too large, [`Error::Conflict`] if other data is
/// stored under the hash.
pub(crate) fn put(db: &SqlConnection, artifact: &Artifact) -> Result<()> {
    let head = threads::load_head(db, artifact.thread_id)?;
    let hash = validate_hash(artifact)?;
    let is_same: Option<bool> = db
        .prepare("SELECT bytes = $2 FROM artifact_bytes WHERE sha256 = $1")?
        .query_optional((hash, &artifact.bytes), |row| row.get(0))?;
    match is_same {
        Some(true) => {}
        Some(false) => return Err(Error::Conflict { what: "artifact", id: artifact.sha256.clone() }),
        None => {
            db.prepare("INSERT INTO artifact_bytes (sha256, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING")?
                .execute_deferred((hash, &artifact.bytes))?;
        }
    }
    db.prepare(
        "INSERT INTO artifacts (thread_key, sha256, media_type, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (thread_key, sha256) DO NOTHING",
    )?
    .execute_deferred((head.key, hash, &artifact.media_type, compact_timestamp(artifact.created_at)))
}

/// Parses the hash of an artifact, and checks its size.
fn validate_hash(artifact: &Artifact) -> Result<[u8; HASH_BYTES]> {
    let invalid = |reason: String| Error::InvalidRequest { what: "an artifact to store", reason };
    let length = artifact.bytes.len();
    if length > ARTIFACT_BYTES_MAX {
        return Err(invalid(format!("it has {length} bytes; the maximum is {ARTIFACT_BYTES_MAX}")));
    }
    let is_whole =
        artifact.sha256.len() == 2 * HASH_BYTES && artifact.sha256 == artifact.sha256.to_lowercase();
    hash_range(&artifact.sha256)
        .filter(|_| is_whole)
        .map(|(hash, _)| hash)
        .ok_or_else(|| invalid(format!("`{}` is not a SHA-256 in lowercase hex digits", artifact.sha256)))
}

/// Returns the artifact of a thread whose hash begins with `prefix`, or `None`.
///
/// # Errors
/// [`Error::InvalidRequest`] if the prefix is malformed, too short, or matches several artifacts.
pub(crate) fn find(db: &SqlConnection, thread_id: ThreadId, prefix: &str) -> Result<Option<Artifact>> {
    let invalid = |reason: String| Error::InvalidRequest { what: "artifact", reason };
    let (first, last) =
        hash_range(prefix).filter(|_| prefix.len() >= PREFIX_DIGITS_MIN).ok_or_else(|| {
            invalid(format!(
                "`{prefix}` is not the beginning of a SHA-256 of {PREFIX_DIGITS_MIN} digits or more"
            ))
        })?;
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(None) };
    let mut statement = db.prepare(
        "SELECT a.sha256, a.media_type, a.created_at, b.bytes
         FROM artifacts a CROSS JOIN artifact_bytes b
         WHERE b.sha256 = a.sha256 AND a.thread_key = $1 AND a.sha256 BETWEEN $2 AND $3 LIMIT 2",
    )?;
    let mut artifacts = statement.query_map((key, first, last), |row| {
        Ok(Artifact {
            thread_id,
            sha256: protocol::hex(&row.get::<_, [u8; HASH_BYTES]>("sha256")?),
            media_type: row.get("media_type")?,
            bytes: row.get("bytes")?,
            created_at: read_column(row, "created_at")?,
        })
    })?;
    match artifacts.len() {
        0 | 1 => Ok(artifacts.pop()),
        _ => Err(invalid(format!("`{prefix}` is the beginning of several hashes"))),
    }
}

/// Returns the first and the last hash that begin with a prefix of hex digits. `None` if the prefix is not
/// hexadecimal or too long.
fn hash_range(prefix: &str) -> Option<([u8; HASH_BYTES], [u8; HASH_BYTES])> {
    if prefix.len() > 2 * HASH_BYTES {
        return None;
    }
    let (mut first, mut last) = ([0; HASH_BYTES], [0xFF; HASH_BYTES]);
    for (index, digit) in prefix.chars().enumerate() {
        let digit = u8::try_from(digit.to_digit(16)?).ok()?;
        let (shift, mask) = if index % 2 == 0 { (4, 0x0F) } else { (0, 0xF0) };
        first[index / 2] = first[index / 2] & mask | digit << shift;
        last[index / 2] = last[index / 2] & mask | digit << shift;
    }
    Some((first, last))
}

/// Gives the thread `into` access to all artifacts of the thread `from`.
pub(crate) fn share_artifacts(db: &SqlConnection, from: i64, into: i64) -> Result<()> {
    db.execute(
        "INSERT INTO artifacts (thread_key, sha256, media_type, created_at)
         SELECT $2, sha256, media_type, created_at FROM artifacts WHERE thread_key = $1",
        (from, into),
    )?;
    Ok(())
}

/// Deletes the artifacts of a thread, and the data that no other thread refers to.
pub(crate) fn delete(db: &SqlConnection, key: i64) -> Result<()> {
    lock_artifacts(db, key)?;
    db.prepare(
        "DELETE FROM artifact_bytes WHERE sha256 IN (
             SELECT a.sha256 FROM artifacts a WHERE a.thread_key = $1 AND NOT EXISTS (
                 SELECT 1 FROM artifacts o WHERE o.sha256 = a.sha256 AND o.thread_key <> $1))",
    )?
    .execute_deferred([key])?;
    db.prepare("DELETE FROM artifacts WHERE thread_key = $1")?.execute_deferred([key])
}

/// Locks the hashes of the thread's artifacts, so that no other transaction adds or removes a reference to them.
/// Otherwise two threads that are deleted concurrently would each leave shared data to the other.
fn lock_artifacts(db: &SqlConnection, key: i64) -> Result<()> {
    if db.dialect() == SqlDialect::Sqlite {
        return Ok(());
    }
    let first_bytes: Vec<[u8; 1]> = db
        .prepare("SELECT DISTINCT substr(sha256, 1, 1) FROM artifacts WHERE thread_key = $1")?
        .query_map([key], |row| row.get(0))?;
    match first_bytes.is_empty() {
        true => Ok(()),
        false => threads::acquire_locks(
            db,
            first_bytes.into_iter().map(|[first]| locks::artifact_lock(first)).collect(),
        ),
    }
}
