//! What a journal consists of, for whoever moves one: every table with its columns, parents before their children. A test
//! compares the list with both engines' schemas. How rows are read and written is not said here.

use crate::engines::sql::Dialect;

/// A table whose rows are moved.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The primary key first, in its order.
    pub(super) columns: &'static [Column],
    /// How many of the columns are the primary key.
    pub(super) keys: usize,
    /// Whether a row is never taken out, because rows of other tables that stay name it: it is changed where it is.
    pub(super) is_kept: bool,
    /// The most rows that are read at once: fewer where one may be large.
    pub(super) rows_max: usize,
    /// The column whose numbers PostgreSQL gives out; it goes on behind the highest.
    pub(super) numbered: Option<&'static str>,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The same in both engines: a number, a text or bytes.
    Plain,
    /// A moment: nanoseconds or text in SQLite, text in PostgreSQL.
    Instant,
    /// The highest number of a turn that an agent ever had, as far as the engine knows it: from a column, from its turns, or
    /// from the sequence that gives them out, which belongs to no moment. It is not compared, but only ever raised.
    TurnFloor,
}

/// Rows that are read at once where none is large.
const ROWS_MAX: usize = 256;

const fn plain(name: &'static str) -> Column {
    Column { name, kind: Kind::Plain }
}

const fn instant(name: &'static str) -> Column {
    Column { name, kind: Kind::Instant }
}

const fn table(name: &'static str, keys: usize, columns: &'static [Column]) -> Table {
    Table { name, columns, keys, is_kept: false, rows_max: ROWS_MAX, numbered: None }
}

/// A table with one key, which is a number that PostgreSQL gives out.
const fn numbered(name: &'static str, columns: &'static [Column]) -> Table {
    Table { numbered: Some(columns[0].name), ..table(name, 1, columns) }
}

/// Every table, but for these: the search index, which is made anew; the versions of the schema, which each engine counts for
/// itself; and the processes that live. How far search has read, and which handoffs it has to read again, begins anew too.
pub(super) const TABLES: &[Table] = &[
    Table { is_kept: true, ..numbered("thread_heads", THREAD_HEADS) },
    table("threads", 1, THREADS),
    numbered("events", EVENTS),
    table("superseded", 2, &[plain("thread_key"), plain("first_seq"), plain("last_seq")]),
    table("runs", 1, RUNS),
    table("run_requests", 1, &[plain("run_id"), plain("metadata"), plain("request")]),
    table("run_feedback", 3, RUN_FEEDBACK),
    table("checkpoints", 1, CHECKPOINTS),
    table("steps", 3, STEPS),
    table("checkpoints_left", 1, CHECKPOINTS_LEFT),
    table("artifacts", 2, ARTIFACTS),
    Table { rows_max: 1, ..table("artifact_bytes", 1, &[plain("sha256"), plain("bytes")]) },
    Table { numbered: Some("rowid"), ..table("interrupts", 1, INTERRUPTS) },
    table("handoffs", 1, HANDOFFS),
    table("proposals", 2, PROPOSALS),
    table("outbox", 2, OUTBOX),
    table("imports", 1, IMPORTS),
    numbered("agents", AGENTS),
    table("turns", 2, TURNS),
    table("medium_term_memory", 1, MEDIUM_TERM_MEMORY),
    numbered("summaries", SUMMARIES),
    table("summary_threads", 3, &[plain("thread_key"), plain("last_seq"), plain("summary_key")]),
    table("dissolved_summaries", 2, &[plain("thread_key"), plain("id")]),
    numbered("items", ITEMS),
    table("api_keys", 1, API_KEYS),
    numbered("handoff_index", &[plain("handoff_key"), plain("handoff_id")]),
];

const THREAD_HEADS: &[Column] = &[
    plain("thread_key"),
    plain("thread_id"),
    plain("last_seq"),
    plain("base_seq"),
    plain("copied_count"),
    plain("message_count"),
    plain("has_prompt"),
    plain("in_subagent"),
    plain("assistant_id"),
    plain("status"),
    plain("updated_at"),
];
const THREADS: &[Column] = &[
    plain("thread_key"),
    plain("thread_id"),
    plain("assistant_id"),
    plain("parent_id"),
    plain("parent_kind"),
    plain("name"),
    plain("metadata"),
    plain("first_prompt"),
    plain("created_at"),
];
const EVENTS: &[Column] = &[
    plain("event_row"),
    plain("thread_key"),
    plain("seq"),
    plain("event_id"),
    plain("run_id"),
    plain("category"),
    plain("event_type"),
    instant("created_at"),
    plain("turn_index"),
    plain("event_key"),
    plain("metadata"),
    plain("content"),
];
const RUNS: &[Column] = &[
    plain("run_id"),
    plain("thread_key"),
    plain("assistant_id"),
    plain("status"),
    plain("model"),
    plain("error"),
    plain("lease_owner"),
    instant("lease_until"),
    plain("input_tokens"),
    plain("output_tokens"),
    plain("cache_read_tokens"),
    plain("cache_write_tokens"),
    plain("first_seq"),
    plain("last_seq"),
    instant("created_at"),
    instant("updated_at"),
    plain("began"),
];
const RUN_FEEDBACK: &[Column] = &[
    plain("thread_key"),
    plain("run_id"),
    plain("user_id"),
    plain("rating"),
    plain("comment"),
    instant("created_at"),
    instant("updated_at"),
];
const CHECKPOINTS: &[Column] = &[
    plain("thread_key"),
    plain("checkpoint_id"),
    plain("run_id"),
    plain("step"),
    plain("head_seq"),
    plain("next"),
    plain("channels"),
    plain("private"),
    plain("activities"),
    instant("created_at"),
    plain("source"),
    plain("number"),
];
const STEPS: &[Column] = &[
    plain("thread_key"),
    plain("head_seq"),
    plain("checkpoint_id"),
    plain("run_id"),
    plain("step"),
    instant("created_at"),
    plain("next"),
    plain("channels"),
    plain("source"),
    plain("input_seq"),
    plain("number"),
];
const CHECKPOINTS_LEFT: &[Column] =
    &[plain("thread_key"), plain("run_id"), plain("checkpoint_id"), plain("private"), plain("left_at")];
const ARTIFACTS: &[Column] =
    &[plain("thread_key"), plain("sha256"), plain("media_type"), instant("created_at")];
const INTERRUPTS: &[Column] = &[
    plain("interrupt_id"),
    plain("rowid"),
    plain("thread_id"),
    plain("run_id"),
    plain("node"),
    plain("payload"),
    plain("status"),
    plain("decisions"),
    plain("raised_seq"),
    plain("created_at"),
    plain("resolved_at"),
];
const HANDOFFS: &[Column] = &[
    plain("handoff_id"),
    plain("assistant_id"),
    plain("parent_thread_id"),
    plain("child_thread_id"),
    plain("status"),
    plain("iteration"),
    plain("goal"),
    plain("run_id"),
    plain("options"),
    plain("accepted_sha256"),
    plain("note"),
    plain("created_at"),
    plain("updated_at"),
];
const PROPOSALS: &[Column] = &[
    plain("handoff_id"),
    plain("iteration"),
    plain("summary_json"),
    plain("summary_md"),
    plain("summary_sha256"),
    plain("feedback"),
    plain("created_at"),
];
const OUTBOX: &[Column] =
    &[plain("kind"), plain("key"), plain("payload"), plain("attempts"), plain("created_at")];
const IMPORTS: &[Column] =
    &[plain("source_key"), plain("thread_id"), plain("entries"), plain("chain"), plain("updated_at")];
const AGENTS: &[Column] =
    &[plain("agent_key"), plain("agent_id"), Column { name: "turn_floor", kind: Kind::TurnFloor }];
const TURNS: &[Column] =
    &[plain("agent_key"), plain("turn_index"), plain("event_row"), plain("archived"), plain("summary_key")];
const MEDIUM_TERM_MEMORY: &[Column] = &[
    plain("id"),
    plain("agent_id"),
    plain("summary_text"),
    plain("turn_range_start"),
    plain("turn_range_end"),
    plain("created_at"),
];
const SUMMARIES: &[Column] = &[plain("summary_key"), plain("id"), plain("turn_count"), plain("thread_key")];
const ITEMS: &[Column] = &[
    plain("item_key"),
    plain("namespace"),
    plain("key"),
    plain("value"),
    plain("created_at"),
    plain("updated_at"),
];
const API_KEYS: &[Column] = &[
    plain("key_id"),
    plain("user_id"),
    plain("label"),
    plain("sha256"),
    plain("created_at"),
    plain("revoked_at"),
];

/// The highest number of a turn that the agent of a row of `agents` ever had.
const fn turn_floor(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "max(turn_floor, coalesce((SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key), 0))"
        }
        Dialect::Postgres => {
            "greatest(turn_floor, (SELECT max(t.turn_index) FROM turns t WHERE t.agent_key = agents.agent_key),
                pg_sequence_last_value(to_regclass('segue_turns_' || agent_key)))"
        }
    }
}

/// Returns the statement for the agents, each with the highest number of a turn that it ever had.
pub(super) fn floors(dialect: Dialect) -> String {
    format!("SELECT agent_key, {} FROM agents ORDER BY agent_key", turn_floor(dialect))
}

impl Column {
    /// Returns how it is read.
    fn read(&self, dialect: Dialect) -> &'static str {
        match self.kind {
            Kind::Plain | Kind::Instant => self.name,
            Kind::TurnFloor => turn_floor(dialect),
        }
    }
}

impl Table {
    /// Returns the columns of the primary key, with commas.
    fn key(&self) -> String {
        self.names(&self.columns[..self.keys])
    }

    fn names(&self, columns: &[Column]) -> String {
        columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }

    fn selected(&self, dialect: Dialect) -> String {
        let columns = self.columns.iter().map(|column| column.read(dialect)).collect::<Vec<_>>();
        format!("SELECT {} FROM {}", columns.join(", "), self.name)
    }

    /// Returns the statement for the first rows, at most `$1`, in the order of the key.
    pub(super) fn first(&self, dialect: Dialect) -> String {
        format!("{} ORDER BY {} LIMIT $1", self.selected(dialect), self.key())
    }

    /// Returns the statement for the rows behind a key (`$1` …), at most as many as the next parameter says.
    pub(super) fn behind(&self, dialect: Dialect) -> String {
        let (places, limit) = (places(1, self.keys), self.keys + 1);
        let (selected, key) = (self.selected(dialect), self.key());
        format!("{selected} WHERE ({key}) > {places} ORDER BY {key} LIMIT ${limit}")
    }

    /// Returns the statement for the key of the last row.
    pub(super) fn last(&self) -> String {
        let backwards: Vec<String> =
            self.columns[..self.keys].iter().map(|column| format!("{} DESC", column.name)).collect();
        format!("SELECT {} FROM {} ORDER BY {} LIMIT 1", self.key(), self.name, backwards.join(", "))
    }

    /// Returns the statement for the row with a key.
    pub(super) fn one(&self, dialect: Dialect) -> String {
        format!("{} WHERE {}", self.selected(dialect), self.is_key())
    }

    /// Returns the statement that removes the row with a key.
    pub(super) fn remove(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.name, self.is_key())
    }

    fn is_key(&self) -> String {
        let is = |(column, at): (&Column, usize)| format!("{} = ${at}", column.name);
        self.columns[..self.keys].iter().zip(1..).map(is).collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the statement that stores `rows` rows.
    pub(super) fn insert(&self, rows: usize) -> String {
        let width = self.columns.len();
        let rows: Vec<String> = (0..rows).map(|row| places(1 + row * width, width)).collect();
        format!("INSERT INTO {} ({}) VALUES {}", self.name, self.names(self.columns), rows.join(", "))
    }

    /// Returns the statement that stores a row in place of the one with its key, if there is one.
    pub(super) fn put_one(&self) -> String {
        let set = |column: &Column| format!("{0} = excluded.{0}", column.name);
        let set: Vec<String> = self.columns[self.keys..].iter().map(set).collect();
        format!("{} ON CONFLICT ({}) DO UPDATE SET {}", self.insert(1), self.key(), set.join(", "))
    }

    /// Returns the statement for how many rows there are.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }
}

/// Returns places of parameters, such as `($1, $2)`.
fn places(first: usize, count: usize) -> String {
    let places: Vec<String> = (first..first + count).map(|at| format!("${at}")).collect();
    format!("({})", places.join(", "))
}
