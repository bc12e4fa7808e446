//! Rows that a PostgreSQL transaction has not stored yet. One statement stores the rows of all tables, of any number of
//! threads and runs, so that a commit of many turns takes as many statements as a commit of one.
//!
//! The statement also checks the preconditions that were deferred to it: an expected owner or status of a run. If one does not
//! hold, the statement fails with a division by zero, and with it the transaction. Rows that must not exist are refused
//! by the unique indexes of the tables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::ThreadHead;
use crate::engines::sql::SqlValue;
use crate::tables::columns::encode_counter;

/// The 16 bytes of an id.
pub(crate) type IdBytes = [u8; 16];

/// The row of an event to be inserted.
#[derive(Debug)]
pub(crate) struct PendingEventRow {
    /// The key of the event's thread.
    pub(crate) thread_key: i64,
    /// The seq.
    pub(crate) seq: i64,
    /// The agent under which the event is logged as the next message; `None` if it is not logged.
    pub(crate) turn_agent_key: Option<i64>,
    /// The id of the event.
    pub(crate) event_id: IdBytes,
    /// The run.
    pub(crate) run_id: Option<IdBytes>,
    /// The category.
    pub(crate) category: &'static str,
    /// The type.
    pub(crate) event_type: &'static str,
    /// The time, formatted for storage.
    pub(crate) created_at: String,
    /// The key that makes the event unique within its run.
    pub(crate) event_key: Option<String>,
    /// The metadata as JSON.
    pub(crate) metadata: Option<String>,
    /// The content as JSON.
    pub(crate) content: String,
    /// The checksum.
    pub(crate) checksum: i64,
}

/// A changed head, with the changes that the cached head does not contain.
#[derive(Debug)]
struct PendingHead {
    /// The counters.
    head: ThreadHead,
    /// The new status. A thread with queued runs stays busy.
    status: Option<&'static str>,
}

/// The row of a run that starts at once.
#[derive(Debug)]
pub(crate) struct PendingRun {
    /// The run.
    pub(crate) run_id: IdBytes,
    /// The key of its thread.
    pub(crate) thread_key: i64,
    /// The assistant.
    pub(crate) assistant_id: String,
    /// The status.
    pub(crate) status: &'static str,
    /// The model.
    pub(crate) model: Option<String>,
    /// The failure, serialized.
    pub(crate) error: Option<String>,
    /// The process that holds the lease.
    pub(crate) lease_owner: Option<String>,
    /// The end of the lease, formatted for storage.
    pub(crate) lease_until: Option<String>,
    /// The tokens: input, output, cache reads and cache writes.
    pub(crate) tokens: [i64; 4],
    /// The thread's last seq before the run.
    pub(crate) seq_before: i64,
    /// The last seq of the run's events; `seq_before` if it has none.
    pub(crate) last_seq: i64,
    /// The time of creation, formatted for storage.
    pub(crate) created_at: String,
    /// The time of the last change, formatted for storage.
    pub(crate) updated_at: String,
}

/// A change of a stored run.
#[derive(Debug, Default)]
pub(crate) struct PendingRunChange {
    /// `true` if the run must be running. Otherwise only its last seq changes, if it belongs to the thread.
    pub(crate) is_update: bool,
    /// The owner that must hold the lease, if any must.
    pub(crate) expected_owner: Option<String>,
    /// The new status, which is terminal.
    pub(crate) status: Option<&'static str>,
    /// The failure, serialized.
    pub(crate) error: Option<String>,
    /// The new end of the lease, formatted for storage.
    pub(crate) lease_until: Option<String>,
    /// The time of the change, formatted for storage.
    pub(crate) updated_at: Option<String>,
    /// Tokens to add: input, output, cache reads and cache writes.
    pub(crate) tokens: [i64; 4],
    /// The key of the thread that has events of the run, and the seq of the last of them.
    pub(crate) last_event: Option<(i64, i64)>,
}

/// The row of a checkpoint: the point at which a thread resumes, and a step.
#[derive(Debug)]
pub(crate) struct PendingCheckpoint {
    /// The key of the thread.
    pub(crate) thread_key: i64,
    /// The checkpoint.
    pub(crate) checkpoint_id: IdBytes,
    /// The run.
    pub(crate) run_id: IdBytes,
    /// The number of the step in its run.
    pub(crate) step: i64,
    /// The thread's last seq.
    pub(crate) head_seq: i64,
    /// The next node.
    pub(crate) next: Option<String>,
    /// The public channels as JSON.
    pub(crate) public: String,
    /// The private channels as JSON.
    pub(crate) private: String,
    /// The pending activities as JSON.
    pub(crate) activities: String,
    /// The time, formatted for storage.
    pub(crate) created_at: String,
    /// The source; `None` for the most frequent one.
    pub(crate) source: Option<&'static str>,
    /// The seq of the input.
    pub(crate) input_seq: Option<i64>,
    /// The number in its branch.
    pub(crate) number: i64,
    /// The time at which the thread's previous checkpoint is saved, formatted for storage; `None` if it is not saved.
    pub(crate) saves_previous_at: Option<String>,
}

/// The row of a run's request.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    /// The client's metadata as JSON.
    pub(crate) metadata: Option<String>,
    /// The request as JSON.
    pub(crate) request: String,
}

/// Rows that are not stored yet.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    /// Events to be inserted.
    events: Vec<PendingEventRow>,
    /// Changed heads by thread key.
    heads: BTreeMap<i64, PendingHead>,
    /// Runs to be inserted.
    runs: BTreeMap<IdBytes, PendingRun>,
    /// Changes of stored runs.
    run_changes: BTreeMap<IdBytes, PendingRunChange>,
    /// Owners that must hold the leases of runs.
    fences: BTreeMap<IdBytes, String>,
    /// Checkpoints in their order. The last one of each thread is its newest.
    checkpoints: Vec<PendingCheckpoint>,
    /// Requests of runs.
    requests: BTreeMap<IdBytes, PendingRequest>,
    /// First prompts of threads, by thread key.
    first_prompts: BTreeMap<i64, String>,
}

impl PendingRows {
    /// Returns whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        let Self { events, heads, runs, run_changes, fences, checkpoints, requests, first_prompts } = self;
        events.is_empty()
            && heads.is_empty()
            && runs.is_empty()
            && run_changes.is_empty()
            && fences.is_empty()
            && checkpoints.is_empty()
            && requests.is_empty()
            && first_prompts.is_empty()
    }

    /// Adds an event.
    pub(super) fn add_event(&mut self, row: PendingEventRow) {
        self.events.push(row);
    }

    /// Adds or replaces a changed head. `None` keeps a pending status.
    pub(super) fn set_head(&mut self, head: ThreadHead, status: Option<&'static str>) {
        let earlier = self.heads.get(&head.key).and_then(|pending| pending.status);
        self.heads.insert(head.key, PendingHead { head, status: status.or(earlier) });
    }

    /// Returns whether a run has a pending row or change.
    pub(super) fn has_run(&self, run_id: &IdBytes) -> bool {
        self.runs.contains_key(run_id) || self.run_changes.contains_key(run_id)
    }

    /// Returns whether a run has a pending row, or a pending change after which it cannot change again.
    pub(super) fn has_final_run(&self, run_id: &IdBytes) -> bool {
        self.runs.contains_key(run_id)
            || self.run_changes.get(run_id).is_some_and(|change| change.status.is_some())
    }

    /// Returns whether an owner is expected to hold the lease of a run.
    pub(super) fn has_fence(&self, run_id: &IdBytes) -> bool {
        self.fences.contains_key(run_id)
    }

    /// Returns whether a stored run has pending events in another thread.
    pub(super) fn has_events_elsewhere(&self, run_id: &IdBytes, thread_key: i64) -> bool {
        let last_event = self.run_changes.get(run_id).and_then(|change| change.last_event);
        last_event.is_some_and(|(key, _)| key != thread_key)
    }

    /// Returns whether a thread has a pending checkpoint.
    pub(super) fn has_checkpoint(&self, thread_key: i64) -> bool {
        self.checkpoints.iter().any(|pending| pending.thread_key == thread_key)
    }

    /// Returns whether a run of this thread is to be inserted.
    pub(super) fn is_run_of(&self, run_id: &IdBytes, thread_key: i64) -> bool {
        self.runs.get(run_id).is_some_and(|run| run.thread_key == thread_key)
    }

    /// Adds a run.
    pub(super) fn add_run(&mut self, run: PendingRun) {
        self.runs.insert(run.run_id, run);
    }

    /// Adds a change of a stored run to the pending ones.
    pub(super) fn change_run(&mut self, run_id: IdBytes, change: &PendingRunChange) {
        let pending = self.run_changes.entry(run_id).or_default();
        pending.is_update = true;
        pending.status = change.status;
        for (pending, change) in [
            (&mut pending.error, &change.error),
            (&mut pending.lease_until, &change.lease_until),
            (&mut pending.updated_at, &change.updated_at),
        ] {
            if change.is_some() {
                pending.clone_from(change);
            }
        }
        for (sum, added) in pending.tokens.iter_mut().zip(change.tokens) {
            *sum = sum.saturating_add(added);
        }
    }

    /// Adds the last seq of a run's events in a thread. A run that was admitted on another thread is left unchanged.
    pub(super) fn record_event(&mut self, run_id: IdBytes, thread_key: i64, seq: i64) {
        if let Some(run) = self.runs.get_mut(&run_id) {
            if run.thread_key == thread_key {
                run.last_seq = run.last_seq.max(seq);
            }
            return;
        }
        let pending = self.run_changes.entry(run_id).or_default();
        pending.last_event = Some((thread_key, pending.last_event.map_or(seq, |(_, last)| last.max(seq))));
    }

    /// Adds an owner that must hold the lease of a run.
    pub(super) fn add_fence(&mut self, run_id: IdBytes, owner: &str) {
        self.fences.insert(run_id, owner.to_owned());
    }

    /// Adds a checkpoint.
    pub(super) fn add_checkpoint(&mut self, row: PendingCheckpoint) {
        self.checkpoints.push(row);
    }

    /// Adds or replaces the request of a run.
    pub(super) fn add_request(&mut self, run_id: IdBytes, request: PendingRequest) {
        self.requests.insert(run_id, request);
    }

    /// Adds the first prompt of a thread.
    pub(super) fn set_first_prompt(&mut self, thread_key: i64, prompt: &str) {
        self.first_prompts.insert(thread_key, prompt.to_owned());
    }

    /// Returns the statement that stores the rows and its parameters.
    pub(super) fn into_statement(mut self) -> (String, Vec<SqlValue<'static>>) {
        let mut statement = StatementBuilder::default();
        for (run_id, owner) in std::mem::take(&mut self.fences) {
            // A row that the statement updates cannot be locked by it, too.
            match self.run_changes.get_mut(&run_id) {
                Some(change) => (change.is_update, change.expected_owner) = (true, Some(owner)),
                None => drop(self.fences.insert(run_id, owner)),
            }
        }
        statement.add_fences(self.fences);
        statement.add_run_changes(self.run_changes);
        statement.add_runs(self.runs);
        statement.add_requests(self.requests);
        statement.add_events(self.events, &self.heads);
        statement.add_checkpoints(self.checkpoints);
        statement.add_heads(self.heads);
        statement.add_first_prompts(self.first_prompts);
        statement.finish()
    }
}

/// Builds the statement from a part for each table that has pending rows. The texts of its parameters follow from their order,
/// so transactions with rows of the same tables share a prepared statement.
#[derive(Default)]
struct StatementBuilder {
    /// The parts, as common table expressions.
    parts: Vec<String>,
    /// Conditions that must hold after the parts.
    preconditions: Vec<String>,
    /// The parameters.
    values: Vec<SqlValue<'static>>,
}

impl StatementBuilder {
    /// Adds a parameter and returns its SQL.
    fn parameter(&mut self, value: SqlValue<'static>, sql_type: &str) -> String {
        self.values.push(value);
        format!("CAST(${} AS {sql_type})", self.values.len())
    }

    /// Adds a list of integers.
    fn integers(&mut self, numbers: impl Iterator<Item = i64>) -> String {
        self.parameter(SqlValue::Integers(numbers.collect()), "bigint[]")
    }

    /// Adds a list of texts.
    fn texts(&mut self, texts: impl Iterator<Item = Option<String>>) -> String {
        self.parameter(SqlValue::Texts(texts.map(|text| text.map(Cow::Owned)).collect()), "text[]")
    }

    /// Adds a list of names.
    fn names(&mut self, names: impl Iterator<Item = Option<&'static str>>) -> String {
        self.parameter(SqlValue::Texts(names.map(|name| name.map(Cow::Borrowed)).collect()), "text[]")
    }

    /// Adds a list of ids.
    fn ids(&mut self, ids: impl Iterator<Item = Option<IdBytes>>) -> String {
        let blobs = ids.map(|id| id.map(|id| Cow::Owned(id.to_vec()))).collect();
        self.parameter(SqlValue::Blobs(blobs), "bytea[]")
    }

    /// Adds the check of leases. The rows are locked, so that no other process can take the runs over before the commit.
    fn add_fences(&mut self, fences: BTreeMap<IdBytes, String>) {
        if fences.is_empty() {
            return;
        }
        let count = self.parameter(SqlValue::Integer(encode_counter(fences.len() as u64)), "bigint");
        let ids = self.ids(fences.keys().map(|id| Some(*id)));
        let owners = self.texts(fences.into_values().map(Some));
        self.parts.push(format!(
            "fenced AS (SELECT r.run_id FROM runs r JOIN unnest({ids}, {owners}) AS m (run_id, owner)
                ON r.run_id = m.run_id AND r.lease_owner = m.owner WHERE r.status = 'running' FOR UPDATE OF r)"
        ));
        self.preconditions.push(format!("(SELECT count(*) FROM fenced) = {count}"));
    }

    /// Adds the changes of stored runs.
    fn add_run_changes(&mut self, changes: BTreeMap<IdBytes, PendingRunChange>) {
        if changes.is_empty() {
            return;
        }
        let updates = changes.values().filter(|change| change.is_update).count();
        let count = self.parameter(SqlValue::Integer(encode_counter(updates as u64)), "bigint");
        let ids = self.ids(changes.keys().map(|id| Some(*id)));
        let all = || changes.values();
        let is_update = self.integers(all().map(|change| change.is_update.into()));
        let owners = self.texts(all().map(|change| change.expected_owner.clone()));
        let statuses = self.names(all().map(|change| change.status));
        let errors = self.texts(all().map(|change| change.error.clone()));
        let leases = self.texts(all().map(|change| change.lease_until.clone()));
        let times = self.texts(all().map(|change| change.updated_at.clone()));
        let tokens = [0, 1, 2, 3].map(|kind: usize| self.integers(all().map(|change| change.tokens[kind])));
        let keys = self.integers(all().map(|change| change.last_event.map_or(0, |(key, _)| key)));
        let seqs = self.integers(all().map(|change| change.last_event.map_or(0, |(_, seq)| seq)));
        let tokens = tokens.join(", ");
        self.parts.push(format!(
            "changed AS (UPDATE runs r SET status = coalesce(m.status, r.status), error = coalesce(m.error, r.error),
                updated_at = coalesce(m.updated_at, r.updated_at),
                lease_owner = CASE WHEN m.status IS NULL THEN r.lease_owner END,
                lease_until = CASE WHEN m.status IS NULL THEN coalesce(m.lease_until, r.lease_until) END,
                input_tokens = r.input_tokens + m.input, output_tokens = r.output_tokens + m.output,
                cache_read_tokens = r.cache_read_tokens + m.cache_read,
                cache_write_tokens = r.cache_write_tokens + m.cache_write,
                last_seq = CASE WHEN r.thread_key = m.thread_key THEN greatest(r.last_seq, m.last_seq) ELSE r.last_seq END
            FROM unnest({ids}, {is_update}, {owners}, {statuses}, {errors}, {leases}, {times}, {tokens}, {keys}, {seqs})
                AS m (run_id, is_update, owner, status, error, lease_until, updated_at, input, output, cache_read,
                    cache_write, thread_key, last_seq)
            WHERE r.run_id = m.run_id AND CASE
                WHEN m.is_update = 1 THEN r.status = 'running' AND (m.owner IS NULL OR r.lease_owner = m.owner)
                ELSE r.thread_key = m.thread_key AND r.last_seq < m.last_seq END
            RETURNING m.is_update)"
        ));
        self.preconditions.push(format!("(SELECT count(*) FROM changed WHERE is_update = 1) = {count}"));
    }

    /// Adds new runs.
    fn add_runs(&mut self, runs: BTreeMap<IdBytes, PendingRun>) {
        if runs.is_empty() {
            return;
        }
        let all = || runs.values();
        let lists = [
            self.ids(all().map(|run| Some(run.run_id))),
            self.integers(all().map(|run| run.thread_key)),
            self.texts(all().map(|run| Some(run.assistant_id.clone()))),
            self.names(all().map(|run| Some(run.status))),
            self.texts(all().map(|run| run.model.clone())),
            self.texts(all().map(|run| run.error.clone())),
            self.texts(all().map(|run| run.lease_owner.clone())),
            self.texts(all().map(|run| run.lease_until.clone())),
            self.integers(all().map(|run| run.tokens[0])),
            self.integers(all().map(|run| run.tokens[1])),
            self.integers(all().map(|run| run.tokens[2])),
            self.integers(all().map(|run| run.tokens[3])),
            self.texts(all().map(|run| Some(run.created_at.clone()))),
            self.texts(all().map(|run| Some(run.updated_at.clone()))),
            self.integers(all().map(|run| run.seq_before + 1)),
            self.integers(all().map(|run| run.last_seq)),
        ];
        self.parts.push(format!(
            "admitted AS (INSERT INTO runs (run_id, thread_key, assistant_id, status, model, error, lease_owner, lease_until,
                input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at, updated_at, first_seq, last_seq)
            SELECT * FROM unnest({}))",
            lists.join(", ")
        ));
    }

    /// Adds requests of runs.
    fn add_requests(&mut self, requests: BTreeMap<IdBytes, PendingRequest>) {
        if requests.is_empty() {
            return;
        }
        let ids = self.ids(requests.keys().map(|id| Some(*id)));
        let metadata = self.texts(requests.values().map(|row| row.metadata.clone()));
        let requests = self.texts(requests.into_values().map(|row| Some(row.request)));
        self.parts.push(format!(
            "requested AS (INSERT INTO run_requests (run_id, metadata, request)
            SELECT * FROM unnest({ids}, {metadata}, {requests})
            ON CONFLICT (run_id) DO UPDATE SET metadata = excluded.metadata, request = excluded.request
                WHERE run_requests.request <> excluded.request)"
        ));
    }

    /// Adds events and the messages that are logged of them.
    fn add_events(&mut self, rows: Vec<PendingEventRow>, heads: &BTreeMap<i64, PendingHead>) {
        if rows.is_empty() {
            return;
        }
        let all = || rows.iter();
        let lists = [
            self.integers(all().map(|row| row.thread_key)),
            self.integers(all().map(|row| row.seq)),
            self.texts(all().map(|row| row.turn_agent_key.map(|key| key.to_string()))),
            self.ids(all().map(|row| Some(row.event_id))),
            self.ids(all().map(|row| row.run_id)),
            self.names(all().map(|row| Some(row.category))),
            self.names(all().map(|row| Some(row.event_type))),
            self.integers(all().map(|row| row.checksum)),
        ];
        let mut texts: [Vec<Option<String>>; 4] = Default::default();
        for row in rows {
            texts[0].push(Some(row.created_at));
            texts[1].push(row.event_key);
            texts[2].push(row.metadata);
            texts[3].push(Some(row.content));
        }
        let texts = texts.map(|texts| self.texts(texts.into_iter()));
        let keys = self.integers(heads.keys().copied());
        let agents = self.integers(heads.values().map(|pending| pending.head.agent_key.unwrap_or_default()));
        self.parts.push(format!(
            "stored AS (INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, turn_index,
                event_key, metadata, content, checksum)
            SELECT n.thread_key, n.seq, n.event_id, n.run_id, n.category, n.event_type, n.created_at,
                CASE WHEN n.turn_of IS NOT NULL THEN nextval(CAST('segue_turns_' || n.turn_of AS regclass)) END,
                n.event_key, n.metadata, n.content, n.checksum
            FROM unnest({}, {}) AS n (thread_key, seq, turn_of, event_id, run_id, category, event_type, checksum,
                created_at, event_key, metadata, content)
            RETURNING event_row, turn_index, thread_key),
            turned AS (INSERT INTO turns (agent_key, turn_index, event_row)
            SELECT m.agent_key, s.turn_index, s.event_row
            FROM stored s JOIN unnest({keys}, {agents}) AS m (thread_key, agent_key) ON m.thread_key = s.thread_key
            WHERE s.turn_index IS NOT NULL)",
            lists.join(", "),
            texts.join(", ")
        ));
    }

    /// Adds checkpoints: a step for each, the newest of each thread, and the previous ones that are saved. The channels of
    /// a step are stored if they differ from those before.
    fn add_checkpoints(&mut self, rows: Vec<PendingCheckpoint>) {
        if rows.is_empty() {
            return;
        }
        let all = || rows.iter();
        let last_index =
            |key: i64, before: usize| rows[..before].iter().rposition(|earlier| earlier.thread_key == key);
        let lists = [
            self.integers(all().map(|row| row.thread_key)),
            self.integers(all().map(|row| row.head_seq)),
            self.ids(all().map(|row| Some(row.checkpoint_id))),
            self.ids(all().map(|row| Some(row.run_id))),
            self.integers(all().map(|row| row.step)),
            self.texts(all().map(|row| Some(row.created_at.clone()))),
            self.texts(all().map(|row| row.next.clone())),
            self.texts(all().map(|row| Some(row.public.clone()))),
            self.names(all().map(|row| row.source)),
            self.texts(all().map(|row| row.input_seq.map(|seq| seq.to_string()))),
            self.integers(all().map(|row| row.number)),
            self.texts(all().enumerate().map(|(index, row)| {
                last_index(row.thread_key, index).map(|earlier| rows[earlier].public.clone())
            })),
            self.texts(all().map(|row| Some(row.private.clone()))),
            self.texts(all().map(|row| Some(row.activities.clone()))),
            self.texts(all().map(|row| row.saves_previous_at.clone())),
            self.integers(all().enumerate().map(|(index, row)| {
                rows[index + 1..].iter().all(|later| later.thread_key != row.thread_key).into()
            })),
        ];
        self.parts.push(format!(
            "points AS (SELECT * FROM unnest({}) AS n (thread_key, head_seq, checkpoint_id, run_id, step, created_at, next,
                channels, source, input_seq, number, earlier_channels, private, activities, saved_at, is_newest)),
            steps_stored AS (INSERT INTO steps (thread_key, head_seq, checkpoint_id, run_id, step, created_at, next, channels,
                source, input_seq, number)
            SELECT n.thread_key, n.head_seq, n.checkpoint_id, n.run_id, n.step, n.created_at, n.next,
                nullif(n.channels, coalesce(n.earlier_channels, c.channels, '{{}}')), n.source,
                CAST(n.input_seq AS bigint), n.number
            FROM points n LEFT JOIN checkpoints c ON c.thread_key = n.thread_key),
            left_stored AS (INSERT INTO checkpoints_left (thread_key, run_id, checkpoint_id, private, left_at)
            SELECT c.thread_key, n.run_id, c.checkpoint_id, c.private, n.saved_at
            FROM points n JOIN checkpoints c ON c.thread_key = n.thread_key
            WHERE n.saved_at IS NOT NULL AND c.run_id <> n.run_id
            ON CONFLICT (thread_key) DO UPDATE SET run_id = excluded.run_id, checkpoint_id = excluded.checkpoint_id,
                private = excluded.private, left_at = excluded.left_at),
            newest_stored AS (INSERT INTO checkpoints (thread_key, checkpoint_id, run_id, step, head_seq, next, channels,
                private, activities, created_at, source, number)
            SELECT thread_key, checkpoint_id, run_id, step, head_seq, next, channels, private, activities, created_at,
                source, number
            FROM points WHERE is_newest = 1
            ON CONFLICT (thread_key) DO UPDATE SET checkpoint_id = excluded.checkpoint_id, run_id = excluded.run_id,
                step = excluded.step, head_seq = excluded.head_seq, next = excluded.next, channels = excluded.channels,
                private = excluded.private, activities = excluded.activities, created_at = excluded.created_at,
                source = excluded.source, number = excluded.number)",
            lists.join(", ")
        ));
    }

    /// Adds changed heads. A status other than busy is not stored for a thread that has queued runs.
    fn add_heads(&mut self, heads: BTreeMap<i64, PendingHead>) {
        if heads.is_empty() {
            return;
        }
        let all = || heads.values();
        let lists = [
            self.integers(heads.keys().copied()),
            self.integers(all().map(|pending| encode_counter(pending.head.last_seq))),
            self.integers(all().map(|pending| encode_counter(pending.head.message_count))),
            self.texts(all().map(|pending| Some(pending.head.updated_at.clone()))),
            self.integers(all().map(|pending| pending.head.has_prompt.into())),
            self.names(all().map(|pending| pending.status)),
        ];
        self.parts.push(format!(
            "moved AS (UPDATE thread_heads h SET last_seq = m.last_seq, message_count = m.message_count,
                updated_at = m.updated_at, has_prompt = m.has_prompt,
                status = CASE WHEN m.status IS NULL THEN h.status WHEN EXISTS (SELECT 1 FROM runs q
                    WHERE q.thread_key = h.thread_key AND q.status = 'pending') THEN 'busy' ELSE m.status END
            FROM unnest({}) AS m (thread_key, last_seq, message_count, updated_at, has_prompt, status)
            WHERE h.thread_key = m.thread_key)",
            lists.join(", ")
        ));
    }

    /// Adds the first prompts of threads.
    fn add_first_prompts(&mut self, prompts: BTreeMap<i64, String>) {
        if prompts.is_empty() {
            return;
        }
        let keys = self.integers(prompts.keys().copied());
        let prompts = self.texts(prompts.into_values().map(Some));
        self.parts.push(format!(
            "prompted AS (UPDATE threads t SET first_prompt = m.first_prompt
            FROM unnest({keys}, {prompts}) AS m (thread_key, first_prompt) WHERE t.thread_key = m.thread_key)"
        ));
    }

    /// Returns the statement and its parameters.
    fn finish(self) -> (String, Vec<SqlValue<'static>>) {
        let Self { parts, preconditions, values } = self;
        let outcome = match preconditions.is_empty() {
            true => "SELECT 1".to_owned(),
            false => format!("SELECT 1 / CAST({} AS int)", preconditions.join(" AND ")),
        };
        (format!("WITH {} {outcome}", parts.join(", ")), values)
    }
}
