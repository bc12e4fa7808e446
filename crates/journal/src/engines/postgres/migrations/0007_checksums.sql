-- The CRC-32 of everything that a reader uses of an event, as in the embedded engine.
ALTER TABLE events ADD COLUMN checksum BIGINT;
