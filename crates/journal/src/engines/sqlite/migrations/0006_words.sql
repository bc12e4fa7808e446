-- The words of the search index are cut and stemmed by the journal; this engine only parts them at the spaces. What it had cut
-- by its own rules goes, and is indexed again: messages and handoffs with the next search, the other texts with this migration.
DROP TABLE search_index;
CREATE VIRTUAL TABLE search_index USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'ascii'
);
UPDATE thread_heads SET indexed_seq = 0 WHERE indexed_seq > 0;
UPDATE handoff_index SET is_due = 1 WHERE is_due = 0;
