-- Durable facts that a model proposed for agent.md, and the decisions of a person on them.
CREATE TABLE memory_facts (
    fact_id      TEXT    NOT NULL PRIMARY KEY,
    agent_id     TEXT    NOT NULL,
    project_key  INTEGER NOT NULL,             -- 0 is all conversations of the agent
    kind         TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    text_key     TEXT    NOT NULL,             -- the form by which repetitions are recognised
    quote        TEXT    NOT NULL,
    thread_key   INTEGER NOT NULL,             -- the thread of the quote; 0 if it was deleted
    seq          INTEGER NOT NULL,
    role         TEXT    NOT NULL,
    summary_id   TEXT    NOT NULL,
    replaces     TEXT,                         -- the note of agent.md that it replaces
    state        TEXT    NOT NULL DEFAULT 'proposed',
    decided_text TEXT,
    decided_at   TEXT,
    note_pending INTEGER NOT NULL DEFAULT 0,   -- 1 from the acceptance until its note stands in agent.md
    created_at   TEXT    NOT NULL
) STRICT;
CREATE INDEX memory_facts_state ON memory_facts (agent_id, state, created_at);
CREATE INDEX memory_facts_text ON memory_facts (agent_id, text_key);
CREATE INDEX memory_facts_thread ON memory_facts (thread_key) WHERE thread_key > 0;
CREATE INDEX memory_facts_project ON memory_facts (project_key) WHERE project_key > 0;
CREATE INDEX memory_facts_undecided ON memory_facts (summary_id) WHERE state = 'proposed';
CREATE INDEX memory_facts_pending ON memory_facts (agent_id) WHERE note_pending = 1;

-- Earlier states of the notes in agent.md: the file without the managed block.
CREATE TABLE memory_revisions (
    agent_id     TEXT    NOT NULL,
    number       INTEGER NOT NULL,
    cause        TEXT    NOT NULL,
    sha256       TEXT    NOT NULL,
    notes        BLOB    NOT NULL,
    block_offset INTEGER,                      -- where the block stood in the notes; NULL without one
    created_at   TEXT    NOT NULL,
    PRIMARY KEY (agent_id, number)
) STRICT;
