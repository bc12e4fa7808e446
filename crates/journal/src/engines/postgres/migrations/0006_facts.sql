-- Durable facts and revisions of agent.md. The migration of the embedded engine says what each table and column is for.
CREATE TABLE memory_facts (
    fact_id      TEXT   COLLATE "C" PRIMARY KEY,
    agent_id     TEXT   COLLATE "C" NOT NULL,
    project_key  BIGINT NOT NULL,
    kind         TEXT   NOT NULL,
    text         TEXT   NOT NULL,
    text_key     TEXT   COLLATE "C" NOT NULL,
    quote        TEXT   NOT NULL,
    thread_key   BIGINT NOT NULL,
    seq          BIGINT NOT NULL,
    role         TEXT   NOT NULL,
    summary_id   TEXT   COLLATE "C" NOT NULL,
    replaces     TEXT,
    state        TEXT   COLLATE "C" NOT NULL DEFAULT 'proposed',
    decided_text TEXT,
    decided_at   TEXT   COLLATE "C",
    note_pending BIGINT NOT NULL DEFAULT 0,
    created_at   TEXT   COLLATE "C" NOT NULL
);
CREATE INDEX memory_facts_state ON memory_facts (agent_id, state, created_at);
CREATE INDEX memory_facts_text ON memory_facts (agent_id, text_key);
CREATE INDEX memory_facts_thread ON memory_facts (thread_key) WHERE thread_key > 0;
CREATE INDEX memory_facts_project ON memory_facts (project_key) WHERE project_key > 0;
CREATE INDEX memory_facts_undecided ON memory_facts (summary_id) WHERE state = 'proposed';
CREATE INDEX memory_facts_pending ON memory_facts (agent_id) WHERE note_pending = 1;

CREATE TABLE memory_revisions (
    agent_id     TEXT   COLLATE "C" NOT NULL,
    number       BIGINT NOT NULL,
    cause        TEXT   NOT NULL,
    sha256       TEXT   NOT NULL,
    notes        BYTEA  NOT NULL,
    block_offset BIGINT,
    created_at   TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (agent_id, number)
);
