-- Handoffs in the search index: their rows there have the ids -(2 << 48) + handoff_key.
CREATE TABLE handoff_index (
    handoff_key INTEGER PRIMARY KEY,
    handoff_id  TEXT    NOT NULL UNIQUE REFERENCES handoffs (handoff_id) ON DELETE CASCADE,
    is_due      INTEGER NOT NULL DEFAULT 1   -- whether the proposal that counts is another one than is indexed
) STRICT;
CREATE INDEX handoff_index_due ON handoff_index (handoff_key) WHERE is_due = 1;

CREATE TRIGGER handoff_index_gone AFTER DELETE ON handoff_index BEGIN
    DELETE FROM search_index WHERE rowid = OLD.handoff_key - (2 << 48);
END;

INSERT INTO handoff_index (handoff_id) SELECT DISTINCT handoff_id FROM proposals;
