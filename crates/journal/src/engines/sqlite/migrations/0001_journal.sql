-- The journal's first schema.
--
-- Ids are UUIDs in their usual text form and times are RFC 3339 in UTC with nine decimals, so that rows can be read
-- with any SQLite tool and sort as text. The tables that grow with every turn are the exception: in `events`, `runs`,
-- `run_feedback`, `checkpoints` and `steps` ids are blobs and times are nanoseconds since 1970 (text beyond the years
-- 1678 to 2262).

-- One row for every thread id that ever existed. It outlives the thread, so that a seq is never handed out twice.
-- What changes with every append or run is here and not in `threads`: this row is narrow and cheap to rewrite.
CREATE TABLE thread_heads (
    thread_key    INTEGER PRIMARY KEY,
    thread_id     TEXT    NOT NULL UNIQUE,
    last_seq      INTEGER NOT NULL DEFAULT 0,   -- the highest seq handed out
    base_seq      INTEGER NOT NULL DEFAULT 0,   -- last_seq when the thread was created: its events are base_seq + 1 ..= last_seq
    copied_count  INTEGER NOT NULL DEFAULT 0,   -- events up to base_seq that were copied from another thread
    indexed_seq   INTEGER NOT NULL DEFAULT 0,   -- how far search has read
    message_count INTEGER NOT NULL DEFAULT 0,   -- superseded messages do not count
    has_prompt    INTEGER NOT NULL DEFAULT 0,   -- whether threads.first_prompt is set
    in_subagent   INTEGER NOT NULL DEFAULT 0,   -- whether it is a sub-agent's, or came from one that is
    assistant_id  TEXT,                         -- as in threads, for the append
    status        TEXT,
    updated_at    TEXT                          -- NULL while no thread has this id
) STRICT;
CREATE INDEX thread_heads_recent ON thread_heads (updated_at DESC, thread_id DESC)
    WHERE updated_at IS NOT NULL AND in_subagent = 0;

CREATE TABLE threads (
    thread_key   INTEGER PRIMARY KEY REFERENCES thread_heads (thread_key),
    thread_id    TEXT NOT NULL UNIQUE,
    assistant_id TEXT NOT NULL,
    parent_id    TEXT,
    parent_kind  TEXT,
    name         TEXT,
    metadata     TEXT NOT NULL,
    first_prompt TEXT,
    created_at   TEXT NOT NULL
) STRICT;
CREATE INDEX threads_created ON threads (created_at DESC, thread_id DESC);
CREATE INDEX threads_parent ON threads (parent_id) WHERE parent_id IS NOT NULL;

-- The log. Rows are in the order of their arrival, so that appends to many threads touch few pages.
CREATE TABLE events (
    event_row  INTEGER PRIMARY KEY,
    thread_key INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    event_id   BLOB    NOT NULL,
    run_id     BLOB,
    category   TEXT    NOT NULL,
    event_type TEXT    NOT NULL,
    created_at ANY     NOT NULL,
    turn_index INTEGER,                         -- which of its agent's turns it is, if it is one
    event_key  TEXT,
    metadata   TEXT,
    content    TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_seq ON events (thread_key, seq);
-- Where a thread was condensed, and where that was taken back: there are few of them among many.
CREATE INDEX events_markers ON events (thread_key, seq)
    WHERE event_type IN ('middleware:summarize', 'compaction_undone');
CREATE UNIQUE INDEX events_key ON events (thread_key, event_key, ifnull(run_id, x'')) WHERE event_key IS NOT NULL;

-- What rewinds superseded: ranges of seqs, disjoint and never adjacent. The events themselves stay as they are.
CREATE TABLE superseded (
    thread_key INTEGER NOT NULL REFERENCES threads (thread_key) ON DELETE CASCADE,
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL,
    PRIMARY KEY (thread_key, first_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    run_id             BLOB PRIMARY KEY,
    thread_key         INTEGER NOT NULL REFERENCES threads (thread_key) ON DELETE CASCADE,
    assistant_id       TEXT NOT NULL,
    status             TEXT NOT NULL,
    model              TEXT,
    error              TEXT,
    lease_owner        TEXT,
    lease_until        ANY,
    input_tokens       INTEGER NOT NULL,
    output_tokens      INTEGER NOT NULL,
    cache_read_tokens  INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    first_seq          INTEGER NOT NULL,   -- its events are among first_seq ..= last_seq: an index by run would cost
    last_seq           INTEGER NOT NULL,   -- every append a page
    created_at         ANY     NOT NULL,
    updated_at         ANY     NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_thread ON runs (thread_key);
CREATE UNIQUE INDEX runs_active ON runs (thread_key) WHERE status IN ('pending', 'running');

-- What people think of runs: of each person one row a run.
CREATE TABLE run_feedback (
    thread_key INTEGER NOT NULL REFERENCES threads (thread_key) ON DELETE CASCADE,
    run_id     BLOB    NOT NULL,
    user_id    TEXT    NOT NULL,
    rating     INTEGER NOT NULL,
    comment    TEXT,
    created_at ANY     NOT NULL,
    updated_at ANY     NOT NULL,
    PRIMARY KEY (thread_key, run_id, user_id)
) STRICT, WITHOUT ROWID;

-- Where each thread resumes: its newest checkpoint, whole.
CREATE TABLE checkpoints (
    thread_key    INTEGER PRIMARY KEY REFERENCES threads (thread_key) ON DELETE CASCADE,
    checkpoint_id BLOB    NOT NULL,
    run_id        BLOB    NOT NULL,
    step          INTEGER NOT NULL,
    head_seq      INTEGER NOT NULL,
    next          TEXT,
    channels      TEXT    NOT NULL,   -- the public ones; the same text means the same channels
    private       TEXT    NOT NULL,   -- those whose names begin with `_`
    activities    TEXT    NOT NULL,
    created_at    ANY     NOT NULL
) STRICT;
CREATE INDEX checkpoints_unfinished ON checkpoints (thread_key) WHERE activities <> '[]';

-- Which steps there were, in order: the events up to `head_seq` are the state, and the channels are those of the
-- newest row up to here that has any. A step is looked for from the newest on; an index by id would cost every step a
-- page.
CREATE TABLE steps (
    thread_key    INTEGER NOT NULL REFERENCES threads (thread_key) ON DELETE CASCADE,
    head_seq      INTEGER NOT NULL,
    checkpoint_id BLOB    NOT NULL,   -- time-ordered
    run_id        BLOB    NOT NULL,
    step          INTEGER NOT NULL,
    created_at    ANY     NOT NULL,
    next          TEXT,
    channels      TEXT,               -- the public ones, where they differ from those of the step before
    PRIMARY KEY (thread_key, head_seq, checkpoint_id)
) STRICT, WITHOUT ROWID;

-- Bytes of a thread by their hash. Threads that hold the same bytes share one row of artifact_bytes.
CREATE TABLE artifacts (
    thread_key INTEGER NOT NULL REFERENCES threads (thread_key) ON DELETE CASCADE,
    sha256     BLOB    NOT NULL,
    media_type TEXT    NOT NULL,
    created_at ANY     NOT NULL,
    PRIMARY KEY (thread_key, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX artifacts_sha256 ON artifacts (sha256);
CREATE TABLE artifact_bytes (
    sha256 BLOB PRIMARY KEY,
    bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE interrupts (
    interrupt_id TEXT PRIMARY KEY,
    thread_id    TEXT NOT NULL REFERENCES threads (thread_id) ON DELETE CASCADE,
    run_id       TEXT NOT NULL,
    node         TEXT NOT NULL,
    payload      TEXT NOT NULL,
    status       TEXT NOT NULL,
    decisions    TEXT,
    raised_seq   INTEGER NOT NULL,   -- the thread's last seq when it was raised
    created_at   TEXT NOT NULL,
    resolved_at  TEXT
) STRICT;
CREATE INDEX interrupts_thread ON interrupts (thread_id);
CREATE INDEX interrupts_pending ON interrupts (thread_id, created_at) WHERE status = 'pending';

-- A handoff goes with its parent. It stays when its child is deleted, for audit.
CREATE TABLE handoffs (
    handoff_id       TEXT PRIMARY KEY,
    assistant_id     TEXT NOT NULL,
    parent_thread_id TEXT NOT NULL,   -- outlives the parent as long as the child needs its summary
    child_thread_id  TEXT NOT NULL,
    status           TEXT NOT NULL,
    iteration        INTEGER NOT NULL,
    goal             TEXT,
    run_id           TEXT,
    options          TEXT NOT NULL,
    accepted_sha256  TEXT,
    note             TEXT,
    created_at       TEXT NOT NULL,
    updated_at       TEXT NOT NULL
) STRICT;
CREATE INDEX handoffs_parent ON handoffs (parent_thread_id);
CREATE INDEX handoffs_child ON handoffs (child_thread_id);
CREATE INDEX handoffs_status ON handoffs (status);
CREATE UNIQUE INDEX handoffs_pending ON handoffs (parent_thread_id)
    WHERE status IN ('requested', 'drafting', 'awaiting_decision');

CREATE TABLE proposals (
    handoff_id     TEXT NOT NULL REFERENCES handoffs (handoff_id) ON DELETE CASCADE,
    iteration      INTEGER NOT NULL,
    summary_json   TEXT NOT NULL,
    summary_md     TEXT NOT NULL,
    summary_sha256 TEXT NOT NULL,
    feedback       TEXT,
    created_at     TEXT NOT NULL,
    PRIMARY KEY (handoff_id, iteration)
) STRICT;

CREATE TABLE outbox (
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    payload    TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT;

CREATE TABLE imports (
    source_key TEXT PRIMARY KEY,
    thread_id  TEXT NOT NULL REFERENCES threads (thread_id) ON DELETE CASCADE,
    entries    INTEGER NOT NULL,
    chain      TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;
CREATE INDEX imports_thread ON imports (thread_id);

-- Whoever had a turn.
CREATE TABLE agents (
    agent_key  INTEGER PRIMARY KEY,
    agent_id   TEXT    NOT NULL UNIQUE,
    turn_floor INTEGER NOT NULL DEFAULT 0   -- no turn_index up to here is given again, though its turn was deleted
) STRICT;

-- Which events people and models said words in, by agent: the source of medium-term memory. The words are in the events
-- alone. A thread's turns are found through its events; an index by thread would cost every append a page.
CREATE TABLE turns (
    agent_key  INTEGER NOT NULL,
    turn_index INTEGER NOT NULL,
    event_row  INTEGER NOT NULL,
    archived   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_key, turn_index)
) STRICT, WITHOUT ROWID;

-- The turns with their words, for memory and for whoever reads the database: text blocks joined by newlines, as search
-- joins them. `archived` can be set here too.
CREATE VIEW turn_log (agent_id, thread_id, turn_index, role, content, created_at, archived, seq) AS
SELECT a.agent_id, h.thread_id, t.turn_index, iif(e.event_type = 'human_message', 'user', 'assistant'),
    (SELECT group_concat(words, char(10)) FROM (
        SELECT json_extract(b.value, '$.text') AS words FROM json_each(e.content, '$.content') b
        WHERE json_extract(b.value, '$.type') = 'text' AND words <> '' ORDER BY b.key)),
    iif(typeof(e.created_at) = 'text', e.created_at,
        strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000000 - (e.created_at % 1000000000 < 0), 'unixepoch')
        || printf('.%09dZ', (e.created_at % 1000000000 + 1000000000) % 1000000000)),
    t.archived, e.seq
FROM agents a
JOIN turns t ON t.agent_key = a.agent_key
JOIN events e ON e.event_row = t.event_row AND e.turn_index = t.turn_index
JOIN thread_heads h ON h.thread_key = e.thread_key AND h.assistant_id = a.agent_id;

CREATE TRIGGER turn_log_archive INSTEAD OF UPDATE OF archived ON turn_log BEGIN
    UPDATE turns SET archived = NEW.archived
    WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = OLD.agent_id) AND turn_index = OLD.turn_index;
END;

-- Words of messages; a row's id is thread_key << 32 | seq, so that a thread is a range. The texts stay in `events`, and
-- appending never writes here.
CREATE VIRTUAL TABLE search_index USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);
