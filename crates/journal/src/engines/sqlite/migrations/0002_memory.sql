-- Tiered memory: which summary stands for which turns, and what is kept under a name.

-- Its columns are what other programs read; whatever else is known of a summary is in the tables below.
CREATE TABLE medium_term_memory (
    id               TEXT    NOT NULL PRIMARY KEY,
    agent_id         TEXT    NOT NULL,
    summary_text     TEXT    NOT NULL,
    turn_range_start INTEGER NOT NULL,
    turn_range_end   INTEGER NOT NULL,
    created_at       TEXT    NOT NULL
) STRICT;
CREATE INDEX medium_term_memory_recent ON medium_term_memory (agent_id, created_at DESC, id DESC);

-- The number a summary has in `turns` and in the search index. What a summary tells of never changes while it is there.
CREATE TABLE summaries (
    summary_key INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE REFERENCES medium_term_memory (id) ON DELETE CASCADE,
    turn_count  INTEGER NOT NULL DEFAULT 0,
    thread_key  INTEGER NOT NULL DEFAULT 0    -- the thread of its first turn
) STRICT;

-- Which threads a summary tells of, and how far.
CREATE TABLE summary_threads (
    thread_key  INTEGER NOT NULL,
    last_seq    INTEGER NOT NULL,             -- the last of its turns there
    summary_key INTEGER NOT NULL REFERENCES summaries (summary_key) ON DELETE CASCADE,
    PRIMARY KEY (thread_key, last_seq, summary_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_threads_summary ON summary_threads (summary_key);

-- The threads that a summary told of which is gone, when it told of several: what other threads were told of it holds words
-- of each of them, and goes with each.
CREATE TABLE dissolved_summaries (
    thread_key INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    PRIMARY KEY (thread_key, id)
) STRICT, WITHOUT ROWID;

-- The summary that stands for a turn. One that is archived without any was taken back by a rewind.
ALTER TABLE turns ADD COLUMN summary_key INTEGER;
CREATE INDEX turns_summary ON turns (summary_key) WHERE summary_key IS NOT NULL;

DROP TRIGGER turn_log_archive;
DROP VIEW turn_log;
CREATE VIEW turn_log (agent_id, thread_id, turn_index, role, content, created_at, archived, seq, summary_id) AS
SELECT a.agent_id, h.thread_id, t.turn_index, iif(e.event_type = 'human_message', 'user', 'assistant'),
    (SELECT group_concat(words, char(10)) FROM (
        SELECT json_extract(b.value, '$.text') AS words FROM json_each(e.content, '$.content') b
        WHERE json_extract(b.value, '$.type') = 'text' AND words <> '' ORDER BY b.key)),
    iif(typeof(e.created_at) = 'text', e.created_at,
        strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000000 - (e.created_at % 1000000000 < 0), 'unixepoch')
        || printf('.%09dZ', (e.created_at % 1000000000 + 1000000000) % 1000000000)),
    t.archived, e.seq, (SELECT s.id FROM summaries s WHERE s.summary_key = t.summary_key)
FROM agents a
JOIN turns t ON t.agent_key = a.agent_key
JOIN events e ON e.event_row = t.event_row AND e.turn_index = t.turn_index
JOIN thread_heads h ON h.thread_key = e.thread_key AND h.assistant_id = a.agent_id;

CREATE TRIGGER turn_log_archive INSTEAD OF UPDATE OF archived ON turn_log BEGIN
    UPDATE turns SET archived = NEW.archived, summary_key = iif(NEW.archived, summary_key, NULL)
    WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = OLD.agent_id) AND turn_index = OLD.turn_index;
END;

-- Where the context of a thread may begin.
DROP INDEX events_markers;
CREATE INDEX events_markers ON events (thread_key, seq)
    WHERE event_type IN ('middleware:summarize', 'compaction_undone', 'turns_archived', 'turns_restored');

-- What agents and clients keep. Between the labels of a namespace stands U+001F.
CREATE TABLE items (
    item_key   INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    UNIQUE (namespace, key)
) STRICT;
CREATE INDEX items_recent ON items (updated_at DESC, item_key DESC);
