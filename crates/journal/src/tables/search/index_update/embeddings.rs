//! The embeddings of messages: which messages lack them, and how they are stored. A message has one embedding for each of its
//! parts. Making embeddings and comparing them is not done here.

use std::ops::{Range, RangeInclusive};

use jiff::tz::TimeZone;
use protocol::{AssistantId, OwnerScope, Seq, ThreadId};

use super::super::message_row;
use super::super::search_scope::SEARCHED_THREADS;
use super::permanent_threads_condition;
use crate::engines::sql::SqlConnection;
use crate::tables::columns::{encode_counter, encode_time, read_column};
use crate::tables::memory::turns::visible_text;
use crate::tables::threads::projects;
use crate::tables::{owners, threads};
use crate::{
    DailyTokens, EMBEDDED_PARTS_MAX, Embedding, EmbeddingCounts, Error, MessageEmbeddings, OTHER_DIMENSIONS,
    QuestionMeaning, Result, SearchQuery, UnembeddedBatch, UnembeddedMessages,
};

/// Maximum number of threads that one call returns.
const THREADS_MAX: u64 = 32;
/// Number of content bytes of messages after which a call returns no further message.
const BYTES_MAX: usize = 1 << 20;
/// Minimum number of words of a message that is embedded.
const EMBEDDED_WORDS_MIN: usize = 3;
/// Number of bits of a vector's id that hold the number of the part.
const PART_BITS: u32 = EMBEDDED_PARTS_MAX.ilog2();

/// Estimated number of messages of a thread after `embedded_seq`, up to which it has embeddings. It is exact if the thread has none.
const MISSING_MESSAGES: &str =
    "CASE WHEN coalesce(e.embedded_seq, 0) <= base_seq - copied_count THEN message_count
    ELSE (message_count * (last_seq - e.embedded_seq) + last_seq - base_seq + copied_count - 1)
        / (last_seq - base_seq + copied_count) END";

/// Returns the id of the first vector of an index row. The vectors of a row, and those of a thread, form a range.
pub(in super::super) const fn first_vector(row: i64) -> i64 {
    row << PART_BITS
}

/// Returns the index row that a vector belongs to.
pub(in super::super) const fn vector_row(vector_id: i64) -> i64 {
    vector_id >> PART_BITS
}

/// Returns the key of a model. `None` if nothing is stored for it.
pub(in super::super) fn model_key(db: &SqlConnection, model: &str) -> Result<Option<i64>> {
    db.prepare("SELECT model_key FROM embedding_models WHERE name = $1")?
        .query_optional([model], |row| row.get(0))
}

/// Returns whether the embedding of a question cannot be compared with those that are stored, because it has another length.
pub(crate) fn has_other_dimensions(db: &SqlConnection, meaning: &QuestionMeaning) -> Result<bool> {
    let Some(key) = model_key(db, &meaning.model)? else { return Ok(false) };
    Ok(stored_dimensions(db, key)?.is_some_and(|stored| stored != meaning.embedding.dimensions()))
}

/// Returns the number of dimensions of the stored embeddings of a model; `None` if it has none.
fn stored_dimensions(db: &SqlConnection, model_key: i64) -> Result<Option<u64>> {
    let stored: Option<i64> = db
        .prepare("SELECT octet_length(vector) FROM embeddings WHERE model_key = $1 ORDER BY vector_id DESC LIMIT 1")?
        .query_optional([model_key], |row| row.get(0))?;
    Ok(stored.map(i64::unsigned_abs))
}

/// Fails with [`Error::InvalidRequest`] if embeddings have another length than those that are stored for the model.
fn check_dimensions(db: &SqlConnection, model_key: i64, embeddings: &MessageEmbeddings) -> Result<()> {
    let Some(stored) = stored_dimensions(db, model_key)? else { return Ok(()) };
    let parts = embeddings.messages.iter().flat_map(|(_, parts)| parts);
    match parts.map(Embedding::dimensions).find(|dimensions| *dimensions != stored) {
        None => Ok(()),
        Some(_) => Err(Error::InvalidRequest { what: "embeddings", reason: OTHER_DIMENSIONS.to_owned() }),
    }
}

/// Returns messages without embeddings of a model, at most `limit`, those of the most recently changed threads first. Messages
/// of temporary threads are not embedded.
pub(crate) fn list_unembedded(db: &SqlConnection, model: &str, limit: usize) -> Result<UnembeddedBatch> {
    let model_key = model_key(db, model)?;
    let heads: Vec<(i64, ThreadId, i64, i64)> = db
        .prepare(&format!(
            "SELECT h.thread_key, h.thread_id, coalesce(e.embedded_seq, 0), h.last_seq FROM thread_heads h
             LEFT JOIN embedding_heads e ON e.thread_key = h.thread_key AND e.model_key = $1
             WHERE h.updated_at IS NOT NULL AND h.message_count > 0 AND coalesce(e.embedded_seq, 0) < h.last_seq
                 AND {}
             ORDER BY h.updated_at DESC, h.thread_key DESC LIMIT $2",
            permanent_threads_condition(db.dialect(), "h")
        ))?
        .query_map((model_key.unwrap_or(0), encode_counter(THREADS_MAX)), |row| {
            Ok((row.get(0)?, read_column(row, "thread_id")?, row.get(2)?, row.get(3)?))
        })?;
    let mut remaining = ReadBudget { messages: limit, bytes: BYTES_MAX };
    let mut unembedded = Vec::new();
    for (thread_key, thread_id, embedded_seq, last_seq) in heads {
        if remaining.messages == 0 || remaining.bytes == 0 {
            break;
        }
        let (texts, through_seq) = read_texts(db, thread_key, embedded_seq..=last_seq, &mut remaining)?;
        unembedded.push(UnembeddedMessages { thread_id, texts, through_seq });
    }
    let dimensions = match model_key {
        Some(key) => stored_dimensions(db, key)?,
        None => None,
    };
    Ok(UnembeddedBatch { threads: unembedded, daily_tokens: read_daily_tokens(db)?, dimensions })
}

/// Returns what all models together read on the newest day on which one read messages.
fn read_daily_tokens(db: &SqlConnection) -> Result<Option<DailyTokens>> {
    let newest: Option<(String, i64)> = db
        .prepare(
            "SELECT spent_on, CAST(sum(tokens) AS BIGINT) FROM embedding_models GROUP BY spent_on ORDER BY spent_on DESC LIMIT 1",
        )?
        .query_optional((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(newest.and_then(|(day, tokens)| {
        Some(DailyTokens { day: day.parse().ok()?, tokens: tokens.unsigned_abs() })
    }))
}

/// The rest of what one call may read.
struct ReadBudget {
    /// Number of messages.
    messages: usize,
    /// Number of content bytes.
    bytes: usize,
}

/// Reads the texts of messages after the start of the range, up to its end, until the rest of the number of messages or of bytes is
/// used. Returns the texts and the seq that was reached.
fn read_texts(
    db: &SqlConnection,
    thread_key: i64,
    seqs: RangeInclusive<i64>,
    remaining: &mut ReadBudget,
) -> Result<(Vec<(Seq, String)>, Seq)> {
    let limit = encode_counter(remaining.messages as u64);
    let messages = db
        .prepare(
            "SELECT seq, content FROM events
             WHERE thread_key = $1 AND seq > $2 AND seq <= $3 AND category = 'message'
                 AND event_type IN ('human_message', 'ai_message') ORDER BY seq LIMIT $4",
        )?
        .query_map((thread_key, *seqs.start(), *seqs.end(), limit), |row| {
            // A damaged text gets no embedding.
            let content = match row.get_text(1) {
                Err(Error::Malformed(_)) => String::new(),
                content => content?.into_owned(),
            };
            Ok((row.get::<_, i64>(0)?, content))
        })?;
    let is_complete = messages.len() < remaining.messages;
    let mut reached = *seqs.start();
    let mut texts = Vec::new();
    for (seq, content) in messages {
        if remaining.bytes == 0 {
            return Ok((texts, reached.unsigned_abs()));
        }
        if let Some(text) = visible_text(&content).filter(|text| has_meaning(text)) {
            texts.push((seq.unsigned_abs(), text.into_owned()));
        }
        remaining.messages -= 1;
        remaining.bytes = remaining.bytes.saturating_sub(content.len());
        reached = seq;
    }
    Ok((texts, if is_complete { *seqs.end() } else { reached }.unsigned_abs()))
}

/// Returns whether a text has enough words to be embedded. The vector of "Go on." is close to any question.
fn has_meaning(text: &str) -> bool {
    text.split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .nth(EMBEDDED_WORDS_MIN - 1)
        .is_some()
}

/// Stores embeddings of messages of a thread, in place of earlier ones of the same messages.
///
/// # Errors
/// [`Error::NotFound`] if the thread does not exist, and [`Error::InvalidRequest`] if a message has too many parts.
pub(crate) fn store_embeddings(db: &SqlConnection, embeddings: &MessageEmbeddings) -> Result<()> {
    let head = threads::load_head(db, embeddings.thread_id)?;
    let model_key = ensure_model(db, &embeddings.model)?;
    check_dimensions(db, model_key, embeddings)?;
    add_daily_tokens(db, model_key, embeddings)?;
    let mut insert =
        db.prepare("INSERT INTO embeddings (vector_id, model_key, vector) VALUES ($1, $2, $3)")?;
    for (seq, parts) in &embeddings.messages {
        if parts.len() > EMBEDDED_PARTS_MAX {
            let reason = format!("a message has {EMBEDDED_PARTS_MAX} parts at most, not {}", parts.len());
            return Err(Error::InvalidRequest { what: "embeddings", reason });
        }
        let first = first_vector(message_row(head.key, encode_counter(*seq)));
        delete_vectors(db, first..first_vector(vector_row(first) + 1))?;
        for (vector_id, part) in (first..).zip(parts) {
            insert.execute_deferred((vector_id, model_key, part.to_bytes()))?;
        }
    }
    db.prepare(
        "INSERT INTO embedding_heads (thread_key, model_key, embedded_seq) VALUES ($1, $2, $3)
         ON CONFLICT (thread_key) DO UPDATE SET model_key = excluded.model_key, embedded_seq = excluded.embedded_seq",
    )?
    .execute_deferred((head.key, model_key, encode_counter(embeddings.through_seq)))
}

/// Returns the key of a model, which it gets if it has none.
fn ensure_model(db: &SqlConnection, model: &str) -> Result<i64> {
    db.execute("INSERT INTO embedding_models (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", [model])?;
    model_key(db, model)?.ok_or_else(|| Error::Malformed(format!("the embedding model `{model}` has no row")))
}

/// Adds the tokens that the model read to those of the day.
fn add_daily_tokens(db: &SqlConnection, model_key: i64, embeddings: &MessageEmbeddings) -> Result<()> {
    let day = embeddings.at.to_zoned(TimeZone::UTC).date().to_string();
    db.prepare(
        "UPDATE embedding_models SET spent_on = $2, tokens = $3 + CASE WHEN spent_on = $2 THEN tokens ELSE 0 END
         WHERE model_key = $1",
    )?
    .execute_deferred((model_key, day, encode_counter(embeddings.tokens)))
}

/// Deletes the embeddings of the messages of a thread up to a seq.
pub(crate) fn delete_embeddings(db: &SqlConnection, thread_key: i64, last_seq: i64) -> Result<()> {
    let first_row = message_row(thread_key, 0);
    delete_vectors(db, first_vector(first_row)..first_vector(first_row + last_seq + 1))
}

/// Deletes how far the messages of a thread have embeddings.
pub(crate) fn delete_embedding_head(db: &SqlConnection, thread_key: i64) -> Result<()> {
    db.prepare("DELETE FROM embedding_heads WHERE thread_key = $1")?.execute_deferred([thread_key])
}

/// Deletes a range of vectors.
fn delete_vectors(db: &SqlConnection, range: Range<i64>) -> Result<()> {
    db.prepare("DELETE FROM embeddings WHERE vector_id >= $1 AND vector_id < $2")?
        .execute_deferred((range.start, range.end))
}

/// Returns an upper bound of the number of messages in the scope of a search that have no embedding of a model. No event is read, so
/// results of tools, which never get one, count too.
pub(in super::super) fn count_missing(
    db: &SqlConnection,
    model_key: Option<i64>,
    query: &SearchQuery,
) -> Result<u64> {
    let thread_key = match query.thread_id {
        // A thread that does not exist has no messages, and no thread has the key 0.
        Some(thread_id) => Some(threads::thread_key(db, thread_id)?.unwrap_or(0)),
        None => None,
    };
    let missing: i64 = db
        .prepare(&format!(
            "SELECT CAST(coalesce(sum({MISSING_MESSAGES}), 0) AS BIGINT) FROM (
                 SELECT * FROM thread_heads WHERE {SEARCHED_THREADS} AND (CAST($5 AS BIGINT) IS NULL OR thread_key = $5)
             ) h LEFT JOIN embedding_heads e ON e.thread_key = h.thread_key AND e.model_key = $6
             WHERE coalesce(e.embedded_seq, 0) < last_seq AND {}",
            permanent_threads_condition(db.dialect(), "h")
        ))?
        .query_row(
            (
                query.assistant_id.as_ref().map(AssistantId::as_str),
                query.since.map(encode_time),
                owners::owner_column_value(query.scope.as_ref()),
                projects::scope_key(db, &query.project)?,
                thread_key,
                model_key.unwrap_or(0),
            ),
            |row| row.get(0),
        )?;
    Ok(missing.unsigned_abs())
}

/// Returns the numbers of messages with and without embeddings of a model, in a scope.
pub(crate) fn count_embeddings(
    db: &SqlConnection,
    model: &str,
    scope: &OwnerScope,
) -> Result<EmbeddingCounts> {
    let model_key = model_key(db, model)?;
    let embeddings: i64 = db
        .prepare(
            "SELECT count(*) FROM embeddings v JOIN thread_heads h ON h.thread_key = v.vector_id >> $3
             WHERE v.model_key = $1 AND h.updated_at IS NOT NULL AND (CAST($2 AS TEXT) IS NULL OR h.owner = $2)",
        )?
        .query_row(
            (
                model_key.unwrap_or(0),
                owners::owner_column_value(Some(scope)),
                i64::from(PART_BITS + u32::BITS),
            ),
            |row| row.get(0),
        )?;
    let missing: i64 = db
        .prepare(
            "SELECT count(*) FROM thread_heads h
             LEFT JOIN embedding_heads e ON e.thread_key = h.thread_key AND e.model_key = $1
             JOIN events m ON m.thread_key = h.thread_key AND m.seq > coalesce(e.embedded_seq, 0)
             WHERE h.updated_at IS NOT NULL AND coalesce(e.embedded_seq, 0) < h.last_seq
                 AND (CAST($2 AS TEXT) IS NULL OR h.owner = $2) AND m.category = 'message'
                 AND m.event_type IN ('human_message', 'ai_message')",
        )?
        .query_row((model_key.unwrap_or(0), owners::owner_column_value(Some(scope))), |row| row.get(0))?;
    Ok(EmbeddingCounts { embeddings: embeddings.unsigned_abs(), missing: missing.unsigned_abs() })
}
