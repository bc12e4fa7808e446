-- Puts the messages of the first :indexed threads into the search index, and restores the constraints and the index.
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '1GB';

INSERT INTO search_index (rowid, words, length)
SELECT (h.thread_key << 32) + seq,
    ('look:1 term' || (h.thread_key * 7919 % 100000) || ':3 term' || ((h.thread_key * 104729 + seq) % 100000) || ':5 term'
        || ((h.thread_key * 1299709 + seq * 31) % 100000) || ':6 term' || ((h.thread_key * 15485863 + seq * 7) % 100000) || ':8 term'
        || ((h.thread_key * 31 + seq) % 100000) || ':12 term' || ((h.thread_key * 613 + seq * 3) % 100000) || ':15 term'
        || ((h.thread_key * 4001 + seq) % 100000) || ':17 term' || ((h.thread_key * 27644437 + seq) % 100000)
        || ':19 repair:21 test:25')::tsvector, 25
FROM thread_heads h, generate_series(1::bigint, :messages) seq
WHERE h.thread_key > :first_key AND h.thread_key <= :first_key + :indexed;

CREATE INDEX search_index_words ON search_index USING gin (words);
ALTER TABLE threads ENABLE TRIGGER threads_owner;
ALTER TABLE thread_heads ENABLE TRIGGER thread_heads_owner;
ALTER TABLE threads ADD CONSTRAINT threads_thread_key_fkey FOREIGN KEY (thread_key) REFERENCES thread_heads (thread_key);
SELECT setval(pg_get_serial_sequence('thread_heads', 'thread_key'), (SELECT max(thread_key) FROM thread_heads));
VACUUM ANALYZE thread_heads, threads, events, search_index;
