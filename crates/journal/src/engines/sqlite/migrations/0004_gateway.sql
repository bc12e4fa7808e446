-- Several people in one journal, runs that wait for their turn, and every branch of a thread's past.

-- Whose a thread is; '' is the person at the machine. An assistant's id says it: `agent@alice`.
ALTER TABLE thread_heads ADD COLUMN owner TEXT
    AS (iif(instr(assistant_id, '@'), substr(assistant_id, instr(assistant_id, '@') + 1), '')) VIRTUAL;
ALTER TABLE threads ADD COLUMN owner TEXT
    AS (iif(instr(assistant_id, '@'), substr(assistant_id, instr(assistant_id, '@') + 1), '')) VIRTUAL;
-- Lists are somebody's. An index over all threads beside these would cost every append a page.
DROP INDEX thread_heads_recent;
CREATE INDEX thread_heads_recent ON thread_heads (owner, updated_at DESC, thread_id DESC)
    WHERE updated_at IS NOT NULL AND in_subagent = 0;
DROP INDEX threads_created;
CREATE INDEX threads_created ON threads (owner, created_at DESC, thread_id DESC);

-- One run of a thread runs; any number of them wait.
DROP INDEX runs_active;
CREATE UNIQUE INDEX runs_active ON runs (thread_key) WHERE status = 'running';
CREATE INDEX runs_queued ON runs (thread_key) WHERE status = 'pending';

-- Whether a run has begun: one that waits has not, and one that was stopped while it waited never will.
ALTER TABLE runs ADD COLUMN began INTEGER NOT NULL DEFAULT 1;

-- What clients asked runs for. It never changes while a run goes on, and would be rewritten with every change of its row.
-- Lists read what clients noted of it alone: the rest can be long.
CREATE TABLE run_requests (
    run_id   BLOB PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    metadata TEXT,                              -- NULL is none; in the request too
    request  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What wrote a step, the first message that came in with it, and its number along its branch.
ALTER TABLE steps ADD COLUMN source TEXT;        -- NULL is a step of a run, or its admission
ALTER TABLE steps ADD COLUMN input_seq INTEGER;
ALTER TABLE steps ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN source TEXT;
ALTER TABLE checkpoints ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

-- Going back was a step like any other, whose last event told of it. It is numbered with the point before it in the log: which
-- one it went back to was not kept.
UPDATE steps SET source = 'rewind' WHERE EXISTS (
    SELECT 1 FROM events e
    WHERE e.thread_key = steps.thread_key AND e.seq = steps.head_seq AND e.event_type = 'thread_rewound');
UPDATE checkpoints SET source = 'rewind' WHERE EXISTS (
    SELECT 1 FROM steps s
    WHERE s.thread_key = checkpoints.thread_key AND s.checkpoint_id = checkpoints.checkpoint_id AND s.source = 'rewind');
UPDATE steps SET input_seq = (
    SELECT min(e.seq) FROM events e
    WHERE e.thread_key = steps.thread_key AND e.seq <= steps.head_seq AND e.event_type = 'human_message'
      AND e.run_id = steps.run_id AND e.seq > ifnull((
        SELECT max(b.head_seq) FROM steps b
        WHERE b.thread_key = steps.thread_key AND b.head_seq < steps.head_seq), 0))
WHERE step = 0 AND source IS NULL;
UPDATE steps SET number = n.number FROM (
    SELECT thread_key, head_seq, checkpoint_id,
        sum((source IS NULL) + (input_seq IS NOT NULL)) OVER past
            - first_value((source IS NULL) + (input_seq IS NOT NULL)) OVER past AS number
    FROM steps WINDOW past AS (PARTITION BY thread_key ORDER BY head_seq, checkpoint_id)) n
WHERE n.thread_key = steps.thread_key AND n.head_seq = steps.head_seq AND n.checkpoint_id = steps.checkpoint_id;
UPDATE checkpoints SET number = ifnull((
    SELECT s.number FROM steps s WHERE s.thread_key = checkpoints.thread_key
    ORDER BY s.head_seq DESC, s.checkpoint_id DESC LIMIT 1), 0);

-- Where a thread stood when its newest run began, as far as its steps do not tell: a run that is taken back leaves it there.
CREATE TABLE checkpoints_left (
    thread_key    INTEGER PRIMARY KEY REFERENCES threads (thread_key) ON DELETE CASCADE,
    run_id        BLOB NOT NULL,               -- the run that began
    checkpoint_id BLOB NOT NULL,
    private       TEXT NOT NULL,
    left_at       TEXT NOT NULL
) STRICT;

-- What is owed is told oldest first, a page at a time.
CREATE INDEX outbox_oldest ON outbox (kind, created_at, key);

-- Where a thread went back: its branches are between these.
CREATE INDEX events_rewinds ON events (thread_key, seq) WHERE event_type = 'thread_rewound';

-- Keys by which clients of a server show whose they are; only their hashes are kept.
CREATE TABLE api_keys (
    key_id     TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL,
    label      TEXT,
    sha256     TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT
) STRICT;

-- A first label that begins with `@` is a person's. Whatever was kept under one belonged to the person at the machine, and goes
-- on to. No key of the outbox and of an import has ever begun with it.
UPDATE OR IGNORE items SET namespace = '_' || namespace WHERE substr(namespace, 1, 1) = '@';
UPDATE items SET namespace = '_' || item_key || namespace WHERE substr(namespace, 1, 1) = '@';
