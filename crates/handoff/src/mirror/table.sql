CREATE TABLE IF NOT EXISTS thread_summaries (
    assistant_id text        NOT NULL,
    handoff_id   uuid        NOT NULL,
    summary_json jsonb       NOT NULL,
    summary_md   text        NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (assistant_id, handoff_id)
);
COMMENT ON TABLE thread_summaries IS 'Summaries of accepted handoffs, as Segue mirrors them; created_at is when one was accepted, updated_at when its row was last written.';
