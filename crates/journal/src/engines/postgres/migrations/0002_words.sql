-- The words of the search index are stemmed by other rules since: what was indexed before goes, and is indexed again: messages
-- and handoffs with the next search, the other texts with this migration.
TRUNCATE search_index;
UPDATE thread_heads SET indexed_seq = 0 WHERE indexed_seq > 0;
UPDATE handoff_index SET is_due = 1 WHERE is_due = 0;
