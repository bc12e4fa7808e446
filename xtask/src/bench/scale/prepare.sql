-- Writes :threads threads to a journal of the current schema. Keys begin above :first_key, so that earlier threads stay. Rows
-- are written in the order of every index, as the program writes them. The costs of constraints and of the index of words are
-- paid once, in `finish.sql`.
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '1GB';

ALTER TABLE threads DROP CONSTRAINT threads_thread_key_fkey;
ALTER TABLE thread_heads DISABLE TRIGGER thread_heads_owner;
ALTER TABLE threads DISABLE TRIGGER threads_owner;
DROP INDEX search_index_words;

INSERT INTO thread_heads
    (thread_key, thread_id, last_seq, indexed_seq, message_count, has_prompt, assistant_id, status, updated_at, owner)
SELECT :first_key + i, '01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'), :messages, :messages, :messages, 1, 'agent', 'idle',
    replace((timestamp '2024-01-01' + i * interval '6 seconds')::text, ' ', 'T') || '.000000000Z', ''
FROM generate_series(1::bigint, :threads) i;

INSERT INTO threads (thread_key, thread_id, assistant_id, metadata, first_prompt, created_at, owner)
SELECT thread_key, thread_id, 'agent', '{"graph_id":"agent"}',
    'Look into term' || (thread_key * 7919 % 100000) || ' and repair it.', updated_at, ''
FROM thread_heads WHERE thread_key > :first_key;
