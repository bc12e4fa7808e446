//! The tables that a copy consists of, with their columns, parents before children. A test compares the list with the
//! schemas of both engines.

use crate::engines::sql::SqlDialect;

/// A table that is copied.
#[derive(Debug)]
pub(super) struct CopyTable {
    /// The name of the table.
    pub(super) name: &'static str,
    /// The columns, starting with those of the primary key in their order.
    pub(super) columns: &'static [CopyColumn],
    /// Number of columns of the primary key.
    pub(super) key_count: usize,
    /// `true` if rows are never deleted during a repair, because remaining rows of other tables refer to them. Such
    /// rows are updated instead.
    pub(super) is_never_deleted: bool,
    /// Maximum number of rows per page; lower if single rows can be large.
    pub(super) rows_max: usize,
    /// The column with a sequence in PostgreSQL. The sequence must continue after the highest number.
    pub(super) sequence_column: Option<&'static str>,
}

/// A column of a table.
#[derive(Debug)]
pub(super) struct CopyColumn {
    /// The name of the column.
    pub(super) name: &'static str,
    /// The kind of its values.
    pub(super) kind: ColumnKind,
}

/// The kinds of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// A number, a text or binary data, stored in the same form by both engines.
    Plain,
    /// A time: nanoseconds or text in SQLite, text in PostgreSQL.
    Timestamp,
    /// The highest message index that an agent ever had. The engine knows it from a column, from the messages, or
    /// from a sequence, which is not part of a snapshot. It is not compared, and is only ever raised.
    TurnFloor,
}

/// Number of rows per page if no row is large.
const ROWS_MAX: usize = 256;

/// Returns a column whose values have the same form in both engines.
const fn plain_column(name: &'static str) -> CopyColumn {
    CopyColumn { name, kind: ColumnKind::Plain }
}

/// Returns a column with times.
const fn timestamp_column(name: &'static str) -> CopyColumn {
    CopyColumn { name, kind: ColumnKind::Timestamp }
}

/// Returns a table whose first `keys` columns are the primary key.
const fn table(name: &'static str, keys: usize, columns: &'static [CopyColumn]) -> CopyTable {
    CopyTable {
        name,
        columns,
        key_count: keys,
        is_never_deleted: false,
        rows_max: ROWS_MAX,
        sequence_column: None,
    }
}

/// Returns a table whose primary key is a number from a sequence of PostgreSQL.
const fn sequence_table(name: &'static str, columns: &'static [CopyColumn]) -> CopyTable {
    CopyTable { sequence_column: Some(columns[0].name), ..table(name, 1, columns) }
}

/// All tables except the search index, which is built again, the schema versions, which each engine has of its own,
/// and the replicas. The state of the search index (`indexed_seq`, `is_due`) is not copied either.
pub(super) const TABLES: &[CopyTable] = &[
    CopyTable { is_never_deleted: true, ..sequence_table("thread_heads", THREAD_HEADS) },
    table("threads", 1, THREADS),
    sequence_table("events", EVENTS),
    table(
        "superseded",
        2,
        &[plain_column("thread_key"), plain_column("first_seq"), plain_column("last_seq")],
    ),
    table("runs", 1, RUNS),
    table("run_requests", 1, &[plain_column("run_id"), plain_column("metadata"), plain_column("request")]),
    table("run_feedback", 3, RUN_FEEDBACK),
    table("checkpoints", 1, CHECKPOINTS),
    table("steps", 3, STEPS),
    table("checkpoints_left", 1, CHECKPOINTS_LEFT),
    table("artifacts", 2, ARTIFACTS),
    CopyTable { rows_max: 1, ..table("artifact_bytes", 1, &[plain_column("sha256"), plain_column("bytes")]) },
    CopyTable { sequence_column: Some("rowid"), ..table("interrupts", 1, INTERRUPTS) },
    table("handoffs", 1, HANDOFFS),
    table("proposals", 2, PROPOSALS),
    table("outbox", 2, OUTBOX),
    table("imports", 1, IMPORTS),
    sequence_table("agents", AGENTS),
    table("turns", 2, TURNS),
    table("medium_term_memory", 1, MEDIUM_TERM_MEMORY),
    sequence_table("summaries", SUMMARIES),
    table(
        "summary_threads",
        3,
        &[plain_column("thread_key"), plain_column("last_seq"), plain_column("summary_key")],
    ),
    table("dissolved_summaries", 2, &[plain_column("thread_key"), plain_column("id")]),
    table("memory_facts", 1, MEMORY_FACTS),
    CopyTable { rows_max: 16, ..table("memory_revisions", 2, MEMORY_REVISIONS) },
    sequence_table("items", ITEMS),
    table("api_keys", 1, API_KEYS),
    sequence_table("handoff_index", &[plain_column("handoff_key"), plain_column("handoff_id")]),
    sequence_table("projects", PROJECTS),
    sequence_table(
        "embedding_models",
        &[plain_column("model_key"), plain_column("name"), plain_column("spent_on"), plain_column("tokens")],
    ),
    table("embeddings", 1, &[plain_column("vector_id"), plain_column("model_key"), plain_column("vector")]),
    table(
        "embedding_heads",
        1,
        &[plain_column("thread_key"), plain_column("model_key"), plain_column("embedded_seq")],
    ),
];

const PROJECTS: &[CopyColumn] =
    &[plain_column("project_key"), plain_column("path"), plain_column("is_resolved")];
const THREAD_HEADS: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("thread_id"),
    plain_column("last_seq"),
    plain_column("base_seq"),
    plain_column("copied_count"),
    plain_column("message_count"),
    plain_column("has_prompt"),
    plain_column("in_subagent"),
    plain_column("assistant_id"),
    plain_column("status"),
    plain_column("updated_at"),
    plain_column("project_key"),
];
const THREADS: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("thread_id"),
    plain_column("assistant_id"),
    plain_column("parent_id"),
    plain_column("parent_kind"),
    plain_column("name"),
    plain_column("metadata"),
    plain_column("first_prompt"),
    plain_column("created_at"),
];
const EVENTS: &[CopyColumn] = &[
    plain_column("event_row"),
    plain_column("thread_key"),
    plain_column("seq"),
    plain_column("event_id"),
    plain_column("run_id"),
    plain_column("category"),
    plain_column("event_type"),
    timestamp_column("created_at"),
    plain_column("turn_index"),
    plain_column("event_key"),
    plain_column("metadata"),
    plain_column("content"),
    plain_column("checksum"),
];
const RUNS: &[CopyColumn] = &[
    plain_column("run_id"),
    plain_column("thread_key"),
    plain_column("assistant_id"),
    plain_column("status"),
    plain_column("model"),
    plain_column("error"),
    plain_column("lease_owner"),
    timestamp_column("lease_until"),
    plain_column("input_tokens"),
    plain_column("output_tokens"),
    plain_column("cache_read_tokens"),
    plain_column("cache_write_tokens"),
    plain_column("first_seq"),
    plain_column("last_seq"),
    timestamp_column("created_at"),
    timestamp_column("updated_at"),
    plain_column("began"),
];
const RUN_FEEDBACK: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("run_id"),
    plain_column("user_id"),
    plain_column("rating"),
    plain_column("comment"),
    timestamp_column("created_at"),
    timestamp_column("updated_at"),
];
const CHECKPOINTS: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("checkpoint_id"),
    plain_column("run_id"),
    plain_column("step"),
    plain_column("head_seq"),
    plain_column("next"),
    plain_column("channels"),
    plain_column("private"),
    plain_column("activities"),
    timestamp_column("created_at"),
    plain_column("source"),
    plain_column("number"),
];
const STEPS: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("head_seq"),
    plain_column("checkpoint_id"),
    plain_column("run_id"),
    plain_column("step"),
    timestamp_column("created_at"),
    plain_column("next"),
    plain_column("channels"),
    plain_column("source"),
    plain_column("input_seq"),
    plain_column("number"),
];
const CHECKPOINTS_LEFT: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("run_id"),
    plain_column("checkpoint_id"),
    plain_column("private"),
    plain_column("left_at"),
];
const ARTIFACTS: &[CopyColumn] = &[
    plain_column("thread_key"),
    plain_column("sha256"),
    plain_column("media_type"),
    timestamp_column("created_at"),
];
const INTERRUPTS: &[CopyColumn] = &[
    plain_column("interrupt_id"),
    plain_column("rowid"),
    plain_column("thread_id"),
    plain_column("run_id"),
    plain_column("node"),
    plain_column("payload"),
    plain_column("status"),
    plain_column("decisions"),
    plain_column("raised_seq"),
    plain_column("created_at"),
    plain_column("resolved_at"),
];
const HANDOFFS: &[CopyColumn] = &[
    plain_column("handoff_id"),
    plain_column("assistant_id"),
    plain_column("parent_thread_id"),
    plain_column("child_thread_id"),
    plain_column("status"),
    plain_column("iteration"),
    plain_column("goal"),
    plain_column("run_id"),
    plain_column("options"),
    plain_column("accepted_sha256"),
    plain_column("note"),
    plain_column("created_at"),
    plain_column("updated_at"),
];
const PROPOSALS: &[CopyColumn] = &[
    plain_column("handoff_id"),
    plain_column("iteration"),
    plain_column("summary_json"),
    plain_column("summary_md"),
    plain_column("summary_sha256"),
    plain_column("feedback"),
    plain_column("created_at"),
];
const OUTBOX: &[CopyColumn] = &[
    plain_column("kind"),
    plain_column("key"),
    plain_column("payload"),
    plain_column("attempts"),
    plain_column("created_at"),
];
const IMPORTS: &[CopyColumn] = &[
    plain_column("source_key"),
    plain_column("thread_id"),
    plain_column("entries"),
    plain_column("chain"),
    plain_column("updated_at"),
];
const AGENTS: &[CopyColumn] = &[
    plain_column("agent_key"),
    plain_column("agent_id"),
    CopyColumn { name: "turn_floor", kind: ColumnKind::TurnFloor },
];
const TURNS: &[CopyColumn] = &[
    plain_column("agent_key"),
    plain_column("turn_index"),
    plain_column("event_row"),
    plain_column("archived"),
    plain_column("summary_key"),
];
const MEDIUM_TERM_MEMORY: &[CopyColumn] = &[
    plain_column("id"),
    plain_column("agent_id"),
    plain_column("summary_text"),
    plain_column("turn_range_start"),
    plain_column("turn_range_end"),
    plain_column("created_at"),
];
const SUMMARIES: &[CopyColumn] = &[
    plain_column("summary_key"),
    plain_column("id"),
    plain_column("turn_count"),
    plain_column("thread_key"),
    plain_column("agent_id"),
    plain_column("created_at"),
    plain_column("project_key"),
];
const MEMORY_FACTS: &[CopyColumn] = &[
    plain_column("fact_id"),
    plain_column("agent_id"),
    plain_column("project_key"),
    plain_column("kind"),
    plain_column("text"),
    plain_column("text_key"),
    plain_column("quote"),
    plain_column("thread_key"),
    plain_column("seq"),
    plain_column("role"),
    plain_column("summary_id"),
    plain_column("replaces"),
    plain_column("state"),
    plain_column("decided_text"),
    plain_column("decided_at"),
    plain_column("note_pending"),
    plain_column("created_at"),
];
const MEMORY_REVISIONS: &[CopyColumn] = &[
    plain_column("agent_id"),
    plain_column("number"),
    plain_column("cause"),
    plain_column("sha256"),
    plain_column("notes"),
    plain_column("block_offset"),
    plain_column("created_at"),
];
const ITEMS: &[CopyColumn] = &[
    plain_column("item_key"),
    plain_column("namespace"),
    plain_column("key"),
    plain_column("value"),
    plain_column("created_at"),
    plain_column("updated_at"),
];
const API_KEYS: &[CopyColumn] = &[
    plain_column("key_id"),
    plain_column("user_id"),
    plain_column("label"),
    plain_column("sha256"),
    plain_column("created_at"),
    plain_column("revoked_at"),
];

/// Returns the SQL expression for the highest message index that the agent of a row of `agents` ever had.
const fn turn_floor_expression(dialect: SqlDialect) -> &'static str {
    match dialect {
        SqlDialect::Sqlite => {
            "max(turn_floor, coalesce((SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key), 0))"
        }
        SqlDialect::Postgres => {
            "greatest(turn_floor, (SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key),
                pg_sequence_last_value(to_regclass('segue_turns_' || agent_key)))"
        }
    }
}

/// Returns the statement for all agents, each with the highest message index that it ever had.
pub(super) fn turn_floors_sql(dialect: SqlDialect) -> String {
    format!("SELECT agent_key, {} FROM agents ORDER BY agent_key", turn_floor_expression(dialect))
}

impl CopyColumn {
    /// Returns the SQL expression that reads the column.
    fn select_expression(&self, dialect: SqlDialect) -> &'static str {
        match self.kind {
            ColumnKind::Plain | ColumnKind::Timestamp => self.name,
            ColumnKind::TurnFloor => turn_floor_expression(dialect),
        }
    }
}

impl CopyTable {
    /// Returns the columns of the primary key, separated by commas.
    fn key_list(&self) -> String {
        self.column_list(&self.columns[..self.key_count])
    }

    /// Returns the names of columns, separated by commas.
    fn column_list(&self, columns: &[CopyColumn]) -> String {
        columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the SELECT clause for all columns.
    fn select_list(&self, dialect: SqlDialect) -> String {
        let columns = self.columns.iter().map(|column| column.select_expression(dialect)).collect::<Vec<_>>();
        format!("SELECT {} FROM {}", columns.join(", "), self.name)
    }

    /// Returns the statement for the first rows in the order of the key, at most `$1`.
    pub(super) fn first_page_sql(&self, dialect: SqlDialect) -> String {
        format!("{} ORDER BY {} LIMIT $1", self.select_list(dialect), self.key_list())
    }

    /// Returns the statement for the rows after a key (`$1` …). The parameter after the key is the limit.
    pub(super) fn next_page_sql(&self, dialect: SqlDialect) -> String {
        let (key_parameters, limit) = (placeholders(1, self.key_count), self.key_count + 1);
        let (selected, key) = (self.select_list(dialect), self.key_list());
        format!("{selected} WHERE ({key}) > {key_parameters} ORDER BY {key} LIMIT ${limit}")
    }

    /// Returns the statement for the key of the last row.
    pub(super) fn last_key_sql(&self) -> String {
        format!("SELECT {} FROM {} ORDER BY {} LIMIT 1", self.key_list(), self.name, self.descending_keys())
    }

    /// Returns the statement for the last row.
    pub(super) fn last_row_sql(&self, dialect: SqlDialect) -> String {
        format!("{} ORDER BY {} LIMIT 1", self.select_list(dialect), self.descending_keys())
    }

    /// Returns the statement for the last row before a key (`$1` …).
    pub(super) fn previous_row_sql(&self, dialect: SqlDialect) -> String {
        let (selected, key) = (self.select_list(dialect), self.key_list());
        let (parameters, order) = (placeholders(1, self.key_count), self.descending_keys());
        format!("{selected} WHERE ({key}) < {parameters} ORDER BY {order} LIMIT 1")
    }

    /// Returns the columns of the primary key in descending order, separated by commas.
    fn descending_keys(&self) -> String {
        let key = self.columns[..self.key_count].iter();
        key.map(|column| format!("{} DESC", column.name)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the statement for the row with a key.
    pub(super) fn find_row_sql(&self, dialect: SqlDialect) -> String {
        format!("{} WHERE {}", self.select_list(dialect), self.key_condition())
    }

    /// Returns the statement that deletes the row with a key.
    pub(super) fn delete_sql(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.name, self.key_condition())
    }

    /// Returns the condition that a row has a key.
    fn key_condition(&self) -> String {
        let equals = |(column, number): (&CopyColumn, usize)| format!("{} = ${number}", column.name);
        self.columns[..self.key_count].iter().zip(1..).map(equals).collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the statement that inserts a number of rows.
    pub(super) fn insert_sql(&self, rows: usize) -> String {
        let width = self.columns.len();
        let rows: Vec<String> = (0..rows).map(|row| placeholders(1 + row * width, width)).collect();
        format!("INSERT INTO {} ({}) VALUES {}", self.name, self.column_list(self.columns), rows.join(", "))
    }

    /// Returns the statement that inserts a row, or replaces the row with the same key.
    pub(super) fn upsert_sql(&self) -> String {
        let set = |column: &CopyColumn| format!("{0} = excluded.{0}", column.name);
        let set: Vec<String> = self.columns[self.key_count..].iter().map(set).collect();
        format!("{} ON CONFLICT ({}) DO UPDATE SET {}", self.insert_sql(1), self.key_list(), set.join(", "))
    }

    /// Returns the statement that counts the rows.
    pub(super) fn count_sql(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }
}

/// Returns a list of parameters, such as `($1, $2)`.
fn placeholders(first: usize, count: usize) -> String {
    let parameters: Vec<String> = (first..first + count).map(|number| format!("${number}")).collect();
    format!("({})", parameters.join(", "))
}
