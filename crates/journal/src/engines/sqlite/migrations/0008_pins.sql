-- The newest event that holds the pins of a thread is read with every model request.
CREATE INDEX events_pins ON events (thread_key, seq) WHERE event_type IN ('pins_changed');
