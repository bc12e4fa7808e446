-- Moves the events of a journal to 16 partitions by the hash of their thread. This is a trial for a copy: it locks the table
-- while it copies the rows. The primary key must contain the partition key, so a row is found by its number alone through an
-- index of each partition. The view of the turns names the table and is created again.
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '1GB';

BEGIN;
LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE saved_view ON COMMIT DROP AS
    SELECT pg_get_viewdef('turn_log'::regclass) AS definition, pg_get_triggerdef(oid) AS trigger_definition
    FROM pg_trigger WHERE tgname = 'turn_log_archive';
DROP VIEW turn_log;
ALTER TABLE events RENAME TO events_whole;
CREATE TABLE events (LIKE events_whole INCLUDING DEFAULTS) PARTITION BY HASH (thread_key);
DO $$
DECLARE saved record;
BEGIN
    FOR remainder IN 0..15 LOOP
        EXECUTE format('CREATE TABLE events_%s PARTITION OF events FOR VALUES WITH (MODULUS 16, REMAINDER %s)', remainder, remainder);
    END LOOP;
    SELECT * INTO saved FROM saved_view;
    EXECUTE 'CREATE VIEW turn_log (agent_id, thread_id, turn_index, role, content, created_at, archived, seq, summary_id) AS '
        || replace(saved.definition, 'events_whole', 'events');
    EXECUTE saved.trigger_definition;
END $$;
CREATE SEQUENCE events_row_number;
ALTER TABLE events ALTER COLUMN event_row SET DEFAULT nextval('events_row_number');
INSERT INTO events SELECT * FROM events_whole;
SELECT setval('events_row_number', (SELECT max(event_row) FROM events_whole));
ALTER TABLE events ADD PRIMARY KEY (thread_key, event_row);
CREATE INDEX events_row ON events (event_row);
CREATE UNIQUE INDEX events_seq_hashed ON events (thread_key, seq);
CREATE UNIQUE INDEX events_key_hashed ON events (thread_key, event_key, coalesce(run_id, '\x'::bytea)) WHERE event_key IS NOT NULL;
CREATE INDEX events_markers_hashed ON events (thread_key, seq)
    WHERE event_type IN ('middleware:summarize', 'compaction_undone', 'turns_archived', 'turns_restored');
CREATE INDEX events_rewinds_hashed ON events (thread_key, seq) WHERE event_type = 'thread_rewound';
CREATE INDEX events_pins_hashed ON events (thread_key, seq) WHERE event_type IN ('pins_changed');
DROP TABLE events_whole;
COMMIT;
ANALYZE events;
