-- Writes :messages messages to each thread with a key above :low and up to :high. Every message has eight of 100,000 words.
-- Two of these scripts run at once.
\set ON_ERROR_STOP on
SET synchronous_commit = off;

INSERT INTO events (thread_key, seq, event_id, category, event_type, created_at, content)
SELECT h.thread_key, s.seq, decode('0190000000007000' || lpad(to_hex(h.thread_key * :messages + s.seq), 16, '0'), 'hex'), 'message',
    s.role || '_message', h.updated_at,
    '{"type":"' || s.role || '","content":[{"type":"text","text":"Look into term' || (h.thread_key * 7919 % 100000)
        || ' with term' || ((h.thread_key * 104729 + s.seq) % 100000) || ', term' || ((h.thread_key * 1299709 + s.seq * 31) % 100000)
        || ' and term' || ((h.thread_key * 15485863 + s.seq * 7) % 100000) || '. The cause of term'
        || ((h.thread_key * 31 + s.seq) % 100000) || ' is in term' || ((h.thread_key * 613 + s.seq * 3) % 100000) || ', near term'
        || ((h.thread_key * 4001 + s.seq) % 100000) || ' or term' || ((h.thread_key * 27644437 + s.seq) % 100000)
        || '; I repaired it and ran the tests."}]}'
FROM thread_heads h,
    (SELECT seq, CASE seq % 2 WHEN 1 THEN 'human' ELSE 'ai' END AS role FROM generate_series(1::bigint, :messages) seq) s
WHERE h.thread_key > :low AND h.thread_key <= :high;
