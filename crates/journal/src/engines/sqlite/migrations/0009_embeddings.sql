-- Embeddings: vectors that represent the meaning of messages. They are made again if they are lost.

CREATE TABLE embedding_models (
    model_key INTEGER PRIMARY KEY,
    name      TEXT    NOT NULL UNIQUE,
    spent_on  TEXT    NOT NULL DEFAULT '',    -- a day in UTC
    tokens    INTEGER NOT NULL DEFAULT 0      -- the tokens that the model read on that day
) STRICT;

-- The id is that of the message's row in the search index, and the number of the part in the lowest three bits.
CREATE TABLE embeddings (
    vector_id INTEGER PRIMARY KEY,
    model_key INTEGER NOT NULL,
    vector    BLOB    NOT NULL      -- one signed byte for each dimension
) STRICT;

-- The seq up to which the messages of a thread have embeddings.
CREATE TABLE embedding_heads (
    thread_key   INTEGER PRIMARY KEY,
    model_key    INTEGER NOT NULL,
    embedded_seq INTEGER NOT NULL
) STRICT;
