-- The CRC-32 of everything that a reader uses of an event (`tables/events/checksums.rs`). It is NULL for events of earlier
-- versions.
ALTER TABLE events ADD COLUMN checksum INTEGER;
