CREATE OR REPLACE VIEW thread_summary_facts AS
WITH live AS (
    SELECT assistant_id, handoff_id, summary_json, created_at FROM thread_summaries WHERE NOT summary_json ? 'deleted_at'
), reached AS (
    SELECT assistant_id, handoff_id,
        (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)::bigint
         FROM jsonb_array_elements(summary_json->'coverage'->'verbatim') AS range) AS verbatim,
        (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)::bigint
         FROM jsonb_array_elements(summary_json->'coverage'->'summarized') AS range) AS summarized,
        (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)::bigint
         FROM jsonb_array_elements(summary_json->'coverage'->'truncated') AS range) AS truncated,
        (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)::bigint
         FROM jsonb_array_elements(summary_json->'coverage'->'quoted') AS range) AS quoted,
        (SELECT coalesce(sum((range->>1)::bigint - (range->>0)::bigint + 1), 0)::bigint
         FROM jsonb_array_elements(summary_json->'coverage'->'represented') AS range) AS represented
    FROM live
)
SELECT
    assistant_id,
    handoff_id,
    summary_json->>'parent_thread_id' AS parent_thread_id,
    summary_json->>'child_thread_id' AS child_thread_id,
    summary_json->>'title' AS title,
    summary_json->>'model' AS model,
    (summary_json->>'created_at')::timestamptz AS requested_at,
    created_at AS accepted_at,
    greatest(round(extract(epoch FROM created_at - (summary_json->>'created_at')::timestamptz) * 1000)::bigint, 0) AS decision_ms,
    (summary_json->>'iteration')::bigint AS iteration,
    (summary_json->>'tokens_used')::bigint AS tokens_used,
    jsonb_array_length(summary_json->'body')::bigint AS items,
    (SELECT count(*) FROM jsonb_array_elements(summary_json->'body') AS item WHERE item->'verified' = 'false') AS unverified_items,
    greatest((summary_json->'coverage'->>'messages')::bigint, verbatim + summarized + truncated) AS messages,
    verbatim,
    summarized,
    truncated,
    greatest((summary_json->'coverage'->>'messages')::bigint - verbatim - summarized - truncated, 0) AS excluded,
    quoted,
    represented
FROM live JOIN reached USING (assistant_id, handoff_id);

CREATE OR REPLACE VIEW thread_summary_stats AS
SELECT
    assistant_id,
    count(*) AS handoffs,
    sum(iteration)::bigint AS iterations,
    max(iteration) AS iterations_max,
    sum(tokens_used)::bigint AS tokens_used,
    sum(items)::bigint AS items,
    sum(unverified_items)::bigint AS unverified_items,
    sum(messages)::bigint AS messages,
    sum(verbatim)::bigint AS verbatim,
    sum(summarized)::bigint AS summarized,
    sum(truncated)::bigint AS truncated,
    sum(excluded)::bigint AS excluded,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY decision_ms) AS decision_ms_p50,
    percentile_disc(0.9) WITHIN GROUP (ORDER BY decision_ms) AS decision_ms_p90,
    sum(quoted)::bigint AS quoted,
    sum(represented)::bigint AS represented
FROM thread_summary_facts
GROUP BY assistant_id;
