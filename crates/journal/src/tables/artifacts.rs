//! Bytes that threads keep under their hash. What they are, and whether the hash is theirs, is the caller's matter.

use crate::engines::postgres::locks;
use crate::engines::sql::{Connection, Dialect};
use protocol::ThreadId;

use super::columns::{instant, stored};
use super::threads;
use crate::{ARTIFACT_BYTES_MAX, Artifact, Error, Result};

/// Bytes of a SHA-256.
const HASH_BYTES: usize = 32;
/// The fewest hex digits that may stand for a whole name.
const PREFIX_DIGITS_MIN: usize = 8;

/// Keeps bytes in a thread; the same ones again change nothing.
pub(crate) fn put(db: &Connection, artifact: &Artifact) -> Result<()> {
    let head = threads::head(db, artifact.thread_id)?;
    let hash = checked_hash(artifact)?;
    let is_same: Option<bool> = db
        .prepare("SELECT bytes = $2 FROM artifact_bytes WHERE sha256 = $1")?
        .find((hash, &artifact.bytes), |row| row.get(0))?;
    match is_same {
        Some(true) => {}
        Some(false) => return Err(Error::Differs { what: "artifact", id: artifact.sha256.clone() }),
        None => {
            db.prepare("INSERT INTO artifact_bytes (sha256, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING")?
                .send((hash, &artifact.bytes))?;
        }
    }
    db.prepare(
        "INSERT INTO artifacts (thread_key, sha256, media_type, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (thread_key, sha256) DO NOTHING",
    )?
    .send((head.key, hash, &artifact.media_type, instant(artifact.created_at)))
}

/// Returns the hash the artifact's name gives, unless it is none or the bytes are too many.
fn checked_hash(artifact: &Artifact) -> Result<[u8; HASH_BYTES]> {
    let invalid = |reason: String| Error::Invalid { what: "an artifact to store", reason };
    let length = artifact.bytes.len();
    if length > ARTIFACT_BYTES_MAX {
        return Err(invalid(format!("it has {length} bytes, the most is {ARTIFACT_BYTES_MAX}")));
    }
    let is_whole =
        artifact.sha256.len() == 2 * HASH_BYTES && artifact.sha256 == artifact.sha256.to_lowercase();
    hashes_beginning_with(&artifact.sha256)
        .filter(|_| is_whole)
        .map(|(hash, _)| hash)
        .ok_or_else(|| invalid(format!("`{}` is no SHA-256 in lowercase hex digits", artifact.sha256)))
}

/// Returns the thread's artifact whose name begins with `prefix`.
pub(crate) fn find(db: &Connection, thread_id: ThreadId, prefix: &str) -> Result<Option<Artifact>> {
    let invalid = |reason: String| Error::Invalid { what: "artifact", reason };
    let (first, last) =
        hashes_beginning_with(prefix).filter(|_| prefix.len() >= PREFIX_DIGITS_MIN).ok_or_else(|| {
            invalid(format!(
                "`{prefix}` is not the beginning of a SHA-256 of {PREFIX_DIGITS_MIN} digits or more"
            ))
        })?;
    let Some(key) = threads::key(db, thread_id)? else { return Ok(None) };
    let mut statement = db.prepare(
        "SELECT a.sha256, a.media_type, a.created_at, b.bytes
         FROM artifacts a CROSS JOIN artifact_bytes b
         WHERE b.sha256 = a.sha256 AND a.thread_key = $1 AND a.sha256 BETWEEN $2 AND $3 LIMIT 2",
    )?;
    let mut found = statement.query_map((key, first, last), |row| {
        Ok(Artifact {
            thread_id,
            sha256: protocol::hex(&row.get::<_, [u8; HASH_BYTES]>("sha256")?),
            media_type: row.get("media_type")?,
            bytes: row.get("bytes")?,
            created_at: stored(row, "created_at")?,
        })
    })?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(invalid(format!("`{prefix}` is the beginning of several names"))),
    }
}

/// Returns the first and the last hash whose hex digits begin with `prefix`; `None` when none do.
fn hashes_beginning_with(prefix: &str) -> Option<([u8; HASH_BYTES], [u8; HASH_BYTES])> {
    if prefix.len() > 2 * HASH_BYTES {
        return None;
    }
    let (mut first, mut last) = ([0; HASH_BYTES], [0xFF; HASH_BYTES]);
    for (at, digit) in prefix.chars().enumerate() {
        let digit = u8::try_from(digit.to_digit(16)?).ok()?;
        let (shift, kept) = if at % 2 == 0 { (4, 0x0F) } else { (0, 0xF0) };
        first[at / 2] = first[at / 2] & kept | digit << shift;
        last[at / 2] = last[at / 2] & kept | digit << shift;
    }
    Some((first, last))
}

/// Lets the thread `into` read what `from` keeps.
pub(crate) fn share(db: &Connection, from: i64, into: i64) -> Result<()> {
    db.execute(
        "INSERT INTO artifacts (thread_key, sha256, media_type, created_at)
         SELECT $2, sha256, media_type, created_at FROM artifacts WHERE thread_key = $1",
        (from, into),
    )?;
    Ok(())
}

/// Removes what only this thread keeps.
pub(crate) fn delete(db: &Connection, key: i64) -> Result<()> {
    hold(db, key)?;
    db.execute(
        "DELETE FROM artifact_bytes WHERE sha256 IN (
             SELECT a.sha256 FROM artifacts a WHERE a.thread_key = $1 AND NOT EXISTS (
                 SELECT 1 FROM artifacts o WHERE o.sha256 = a.sha256 AND o.thread_key <> $1))",
        [key],
    )?;
    db.execute("DELETE FROM artifacts WHERE thread_key = $1", [key])?;
    Ok(())
}

/// Has nobody else keep, or give away, what this thread keeps: of two threads that are deleted, each would leave it to the
/// other.
fn hold(db: &Connection, key: i64) -> Result<()> {
    if db.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let firsts: Vec<[u8; 1]> = db
        .prepare("SELECT DISTINCT substr(sha256, 1, 1) FROM artifacts WHERE thread_key = $1")?
        .query_map([key], |row| row.get(0))?;
    match firsts.is_empty() {
        true => Ok(()),
        false => threads::take(db, firsts.into_iter().map(|[first]| locks::of_artifacts(first)).collect()),
    }
}
