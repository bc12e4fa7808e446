//! Salvage of a damaged SQLite journal: every row that can be read, and every event that matches its checksum, is brought
//! into a new file. The damaged file is not opened: the work is done on a copy of it. Rows that refer to lost ones are
//! adapted or left out, so that the new journal is consistent.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::{Seq, ThreadId};
use rusqlite::ErrorCode;
use serde::Serialize;

use super::databases::DatabaseHandle;
use super::rows::RowValues;
use super::tables::{CopyTable, TABLES};
use super::{
    CopyDatabases, CopyPhase, CopyProgress, CopyPurpose, JournalLocation, ProgressCallback, copy_marker,
    finish, run_blocking,
};
use crate::engines::sql::{SqlConnection, SqlValue};
use crate::tables::columns::read_column;
use crate::tables::consistency::{CONSISTENCY_QUERIES, PROBLEMS_MAX};
use crate::tables::events::verification;
use crate::{DamagedEvent, Error, Result, VerificationPosition};

/// The largest distance between two keys over which a readable row is looked for.
const KEY_GAP_MAX: i64 = 1 << 40;

/// Number of events that are verified at once.
const BATCH_EVENTS: usize = 500;

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SalvageReport {
    /// The path of the damaged file.
    pub from: PathBuf,
    /// The path of the new journal.
    pub to: PathBuf,
    /// Number of threads in the new journal.
    pub threads: u64,
    /// Number of events in the new journal.
    pub events: u64,
    /// The events that are lost, by thread. Threads that are lost as a whole are not listed, because nothing of them can be
    /// read.
    pub lost_events: Vec<LostEvents>,
    /// The tables of which rows are lost.
    pub lost_rows: Vec<LostRows>,
    /// Problems of the new journal that remain; usually empty.
    pub problems: Vec<String>,
}

/// The lost events of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostEvents {
    /// The thread.
    pub thread_id: ThreadId,
    /// The first and the last seq of each range.
    pub ranges: Vec<(Seq, Seq)>,
}

/// The lost rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LostRows {
    /// The name of the table.
    pub table: &'static str,
    /// Number of places at which rows could not be read. Each is a row or a page with several of them.
    pub unreadable: u64,
    /// Number of rows that could be read but refer to lost rows.
    pub rejected: u64,
}

/// Brings everything that can be read from the file at `from` into a new journal at `to`. Returns `None` if the callback
/// stopped it. Runs on a blocking thread; cancelling the future does not stop it.
///
/// # Errors
/// [`Error::UnsuitableTarget`] if a file with the name of the target exists. Fails if not even the schema can be read, or if
/// the target cannot be written. The target does not exist then.
pub async fn salvage(from: PathBuf, to: PathBuf, watch: ProgressCallback) -> Result<Option<SalvageReport>> {
    run_blocking(move || salvage_blocking(&from, &to, watch)).await
}

/// Performs a salvage on the current thread, see [`salvage`].
fn salvage_blocking(from: &Path, to: &Path, mut watch: ProgressCallback) -> Result<Option<SalvageReport>> {
    if to.symlink_metadata().is_ok() {
        let reason = "a file with this name exists".to_owned();
        return Err(Error::UnsuitableTarget { location: to.display().to_string(), reason });
    }
    if !from.is_file() {
        return Err(Error::not_found("the database", &from.display()));
    }
    let mut target_file = DatabaseFiles::new(to.to_owned());
    let source_copy = DatabaseFiles::copy_of(from, to)?;
    let source = DatabaseHandle::open(&JournalLocation::File(source_copy.path.clone()))?;
    let target = DatabaseHandle::open_target(&JournalLocation::File(to.to_owned()))?;
    copy_marker::begin_copy(&source, &target)?;
    let mut progress = CopyProgress { step: CopyPhase::Copy, done: 0, total: TABLES.len() as u64 };
    let mut lost_rows = Vec::new();
    for table in TABLES {
        lost_rows.extend(TableSalvage::new(&source, &target, table).perform()?);
        progress.done += 1;
        if watch(&progress).is_break() {
            return Ok(None);
        }
    }
    let (lost_events, problems) = target.write_transaction(|connection| {
        let damaged = remove_damaged_events(connection)?;
        restore_threads(connection)?;
        let lost_events = find_lost_events(connection, &damaged)?;
        reconcile_rows(connection)?;
        Ok((lost_events, find_problems(connection)?))
    })?;
    let databases = CopyDatabases { source: &target, target: &target };
    if !finish::prepare_target(databases, CopyPurpose::Backup, &mut watch)? {
        return Ok(None);
    }
    finish::mark_complete(&target)?;
    let (threads, events) = crate::tables::consistency::count_threads_and_events(&target.connection())
        .map_err(|error| target.classify_error(error))?;
    target_file.is_kept = true;
    Ok(Some(SalvageReport {
        from: from.to_owned(),
        to: to.to_owned(),
        threads,
        events,
        lost_events,
        lost_rows,
        problems,
    }))
}

/// The files of a database, which are deleted when this is dropped, unless they are kept.
struct DatabaseFiles {
    /// The path of the database.
    path: PathBuf,
    /// `true` if the files stay.
    is_kept: bool,
}

impl DatabaseFiles {
    /// Returns the files of a database.
    const fn new(path: PathBuf) -> Self {
        Self { path, is_kept: false }
    }

    /// Copies a database and its write-ahead log into the folder of `target`. The mark of the log is not copied, because
    /// what is left of a damaged log is used.
    fn copy_of(from: &Path, target: &Path) -> Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let copy = Self::new(target.with_file_name(format!(".{name}.{}.salvage", std::process::id())));
        for suffix in ["", "-wal"] {
            let (source, copied) = (with_suffix(from, suffix), with_suffix(&copy.path, suffix));
            match fs::copy(&source, &copied) {
                Err(error) if suffix == "-wal" && error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.map_err(|error| Error::Io { path: source, source: error })?),
            }
        }
        Ok(copy)
    }
}

impl Drop for DatabaseFiles {
    fn drop(&mut self) {
        if !self.is_kept {
            for suffix in ["", "-wal", "-shm", "-mark"] {
                // Most of these files do not exist.
                let _ = fs::remove_file(with_suffix(&self.path, suffix));
            }
        }
    }
}

/// Returns a path with a suffix.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns whether a row or a page cannot be read.
fn is_damage(error: &Error) -> bool {
    match error {
        Error::Malformed(_) => true,
        Error::Sqlite(error) => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
        ),
        _ => false,
    }
}

/// The salvage of one table.
struct TableSalvage<'a> {
    /// The copy of the damaged database.
    source: &'a DatabaseHandle,
    /// The new database.
    target: &'a DatabaseHandle,
    /// The table.
    table: &'static CopyTable,
    /// The same table, read row by row.
    single_rows: CopyTable,
    /// The numbers of lost rows.
    lost: LostRows,
}

impl<'a> TableSalvage<'a> {
    /// Returns the salvage of a table.
    fn new(source: &'a DatabaseHandle, target: &'a DatabaseHandle, table: &'static CopyTable) -> Self {
        let single_rows = CopyTable { rows_max: 1, ..*table };
        Self {
            source,
            target,
            table,
            single_rows,
            lost: LostRows { table: table.name, unreadable: 0, rejected: 0 },
        }
    }

    /// Copies the rows that can be read. Returns the numbers of lost rows, or `None` if none is lost.
    fn perform(mut self) -> Result<Option<LostRows>> {
        let mut last_key: Option<RowValues> = None;
        loop {
            match self.table.read_page(&self.source.connection(), last_key.as_deref()) {
                Ok(page) if page.rows.is_empty() => break,
                Ok(page) => {
                    last_key = page.rows.last().map(|row| self.table.row_key(row).to_vec());
                    self.insert(page.rows)?;
                }
                Err(error) if is_damage(&error) => {
                    last_key = self.copy_up_to_damage(last_key)?;
                    self.lost.unreadable += 1;
                    match self.key_after_damage(last_key.as_deref()) {
                        Some(next_key) => last_key = Some(next_key),
                        None => {
                            self.copy_backwards(last_key.as_deref())?;
                            break;
                        }
                    }
                }
                Err(error) => return Err(self.source.classify_error(error)),
            }
        }
        let is_whole = self.lost.unreadable == 0 && self.lost.rejected == 0;
        Ok((!is_whole).then_some(self.lost))
    }

    /// Copies the rows between a key and the next damage one by one. Returns the key of the last one.
    fn copy_up_to_damage(&mut self, mut last_key: Option<RowValues>) -> Result<Option<RowValues>> {
        while let Ok(page) = self.single_rows.read_page(&self.source.connection(), last_key.as_deref())
            && let Some(row) = page.rows.last()
        {
            last_key = Some(self.table.row_key(row).to_vec());
            self.insert(page.rows)?;
        }
        Ok(last_key)
    }

    /// Returns the lowest key behind the damage after `last_key` from which rows can be read. `None` if there is none, or if
    /// the keys of the table are not numbers.
    fn key_after_damage(&self, last_key: Option<&[SqlValue<'static>]>) -> Option<RowValues> {
        let base = match (self.table.key_count, last_key) {
            (1, Some([SqlValue::Integer(key)])) => *key,
            (1, None) if self.table.sequence_column.is_some() => 0,
            _ => return None,
        };
        let is_readable = |key: i64| {
            let key = [SqlValue::Integer(key)];
            self.single_rows.read_page(&self.source.connection(), Some(&key)).is_ok()
        };
        let mut readable = 1;
        while !is_readable(base + readable) {
            readable *= 2;
            if readable > KEY_GAP_MAX {
                return None;
            }
        }
        let mut unreadable = readable / 2;
        while unreadable + 1 < readable {
            let middle = unreadable.midpoint(readable);
            match is_readable(base + middle) {
                true => readable = middle,
                false => unreadable = middle,
            }
        }
        Some(vec![SqlValue::Integer(base + readable)])
    }

    /// Copies rows from the end of the table backwards, up to the next damage or to the row with `first_key`.
    fn copy_backwards(&mut self, first_key: Option<&[SqlValue<'static>]>) -> Result<()> {
        let mut before: Option<RowValues> = None;
        while let Ok(Some(row)) = self.table.read_previous_row(&self.source.connection(), before.as_deref()) {
            let key = self.table.row_key(&row).to_vec();
            if first_key == Some(&key[..]) {
                return Ok(());
            }
            before = Some(key);
            self.insert(vec![row])?;
        }
        Ok(())
    }

    /// Inserts the head of a thread if it is lost. `thread` is the row of the thread.
    fn insert_head(&self, thread: &RowValues) -> Result<()> {
        let [key, thread_id, assistant_id, _, _, _, _, first_prompt, created_at] = &thread[..] else {
            return Ok(());
        };
        let values = [key, thread_id, assistant_id, created_at, first_prompt];
        self.target.write_transaction(|connection| connection.prepare(HEAD_SQL)?.execute(values).map(drop))
    }

    /// Inserts rows into the target. Rows that contradict others are left out.
    fn insert(&mut self, rows: Vec<RowValues>) -> Result<()> {
        let insert = |rows: Vec<RowValues>| {
            self.target.write_transaction(|connection| self.table.insert_rows(connection, rows))
        };
        if insert(rows.clone()).is_ok() {
            return Ok(());
        }
        for row in rows {
            if self.table.name == "threads" {
                self.insert_head(&row)?;
            }
            match insert(vec![row]) {
                Ok(()) => {}
                Err(Error::DiskFull { path }) => return Err(Error::DiskFull { path }),
                Err(_) => self.lost.rejected += 1,
            }
        }
        Ok(())
    }
}

/// The statement that inserts the head of a thread. Its counters follow from the events.
const HEAD_SQL: &str = "INSERT INTO thread_heads (thread_key, thread_id, assistant_id, status, updated_at, has_prompt)
    VALUES ($1, $2, $3, 'idle', $4, CASE WHEN CAST($5 AS TEXT) IS NULL THEN 0 ELSE 1 END) ON CONFLICT DO NOTHING";

/// Deletes the events that do not match their checksums, and returns them.
fn remove_damaged_events(connection: &SqlConnection) -> Result<Vec<DamagedEvent>> {
    let (mut position, mut damaged) = (VerificationPosition::OLDEST, Vec::new());
    loop {
        let batch = verification::verify_batch(connection, position, BATCH_EVENTS)?;
        for event in &batch.damaged {
            connection
                .prepare(
                    "DELETE FROM events WHERE seq = $2
                     AND thread_key = (SELECT thread_key FROM thread_heads WHERE thread_id = $1)",
                )?
                .execute((event.thread_id.to_string(), event.seq.cast_signed()))?;
        }
        damaged.extend(batch.damaged);
        match batch.next {
            Some(next) => position = next,
            None => return Ok(damaged),
        }
    }
}

/// Makes the heads of threads count at least the events that exist.
fn restore_threads(connection: &SqlConnection) -> Result<()> {
    for sql in [
        "INSERT INTO threads (thread_key, thread_id, assistant_id, metadata, created_at)
         SELECT thread_key, thread_id, assistant_id, '{}', updated_at FROM thread_heads h
         WHERE updated_at IS NOT NULL AND assistant_id IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = h.thread_key)",
        "UPDATE thread_heads SET last_seq = max(last_seq,
             coalesce((SELECT max(e.seq) FROM events e WHERE e.thread_key = thread_heads.thread_key), 0),
             coalesce((SELECT max(r.last_seq) FROM runs r WHERE r.thread_key = thread_heads.thread_key), 0))",
        "DELETE FROM events WHERE thread_key NOT IN (SELECT thread_key FROM threads)",
    ] {
        connection.execute(sql, ())?;
    }
    Ok(())
}

/// Returns the events that each thread should have and has not. Of copied events, which need not be consecutive, these are
/// the damaged ones.
fn find_lost_events(connection: &SqlConnection, damaged: &[DamagedEvent]) -> Result<Vec<LostEvents>> {
    let threads = connection
        .prepare(
            "SELECT h.thread_key, h.thread_id, h.base_seq, h.last_seq FROM thread_heads h
             WHERE h.updated_at IS NOT NULL AND h.last_seq - h.base_seq + h.copied_count <>
                 (SELECT count(*) FROM events e WHERE e.thread_key = h.thread_key) ORDER BY h.thread_key",
        )?
        .query_map((), |row| {
            let bounds = (row.get::<_, i64>(2)?, row.get::<_, i64>(3)?);
            Ok((row.get::<_, i64>(0)?, read_column::<ThreadId>(row, "thread_id")?, bounds))
        })?;
    let mut lost = Vec::new();
    for (key, thread_id, (base_seq, last_seq)) in threads {
        let seqs = connection
            .prepare("SELECT seq FROM events WHERE thread_key = $1 AND seq > $2 ORDER BY seq")?
            .query_map((key, base_seq), |row| row.get::<_, i64>(0))?;
        let copied = damaged.iter().filter(|event| event.thread_id == thread_id).map(|event| event.seq);
        let copied = copied.filter(|seq| *seq <= base_seq.unsigned_abs());
        let mut ranges: Vec<(Seq, Seq)> = copied.map(|seq| (seq, seq)).collect();
        let mut next = base_seq + 1;
        for seq in seqs.into_iter().chain([last_seq + 1]) {
            if seq > next {
                ranges.push((next.unsigned_abs(), (seq - 1).unsigned_abs()));
            }
            next = seq + 1;
        }
        lost.push(LostEvents { thread_id, ranges });
    }
    Ok(lost)
}

/// Adapts rows that refer to lost ones. A thread with lost events keeps its seqs: like the events that a fork copied, the
/// remaining ones need not be consecutive.
fn reconcile_rows(connection: &SqlConnection) -> Result<()> {
    for sql in [
        "UPDATE thread_heads SET base_seq = last_seq,
             copied_count = (SELECT count(*) FROM events e WHERE e.thread_key = thread_heads.thread_key)
         WHERE last_seq - base_seq + copied_count
             <> (SELECT count(*) FROM events e WHERE e.thread_key = thread_heads.thread_key)",
        "UPDATE thread_heads SET message_count = (SELECT count(*) FROM events e
             WHERE e.thread_key = thread_heads.thread_key AND e.category = 'message'
                 AND NOT EXISTS (SELECT 1 FROM superseded s WHERE s.thread_key = e.thread_key
                     AND e.seq BETWEEN s.first_seq AND s.last_seq))",
        "DELETE FROM turns WHERE NOT EXISTS (SELECT 1 FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
             JOIN agents a ON a.agent_id = h.assistant_id
             WHERE e.event_row = turns.event_row AND e.turn_index = turns.turn_index AND a.agent_key = turns.agent_key)",
        "UPDATE events SET turn_index = NULL WHERE turn_index IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.event_row = events.event_row)",
        "UPDATE turns SET archived = 0, summary_key = NULL
         WHERE summary_key IS NOT NULL AND summary_key NOT IN (SELECT summary_key FROM summaries)",
        "DELETE FROM run_feedback WHERE NOT EXISTS (SELECT 1 FROM runs r
             WHERE r.run_id = run_feedback.run_id AND r.thread_key = run_feedback.thread_key)",
        "DELETE FROM artifacts WHERE sha256 NOT IN (SELECT sha256 FROM artifact_bytes)",
        "DELETE FROM artifact_bytes WHERE sha256 NOT IN (SELECT sha256 FROM artifacts)",
    ] {
        connection.execute(sql, ())?;
    }
    Ok(())
}

/// Returns descriptions of the rows that contradict each other.
fn find_problems(connection: &SqlConnection) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for query in CONSISTENCY_QUERIES {
        let limited = format!("{query} LIMIT {PROBLEMS_MAX}");
        problems.extend(connection.prepare(&limited)?.query_map((), |row| row.get::<_, String>(0))?);
    }
    Ok(problems)
}
