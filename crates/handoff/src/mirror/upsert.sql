INSERT INTO thread_summaries AS kept (assistant_id, handoff_id, summary_json, summary_md, created_at, updated_at)
SELECT assistant_id, handoff_id::uuid, summary_json::jsonb, summary_md, created_at::timestamptz, $6::text::timestamptz
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
    AS sent (assistant_id, handoff_id, summary_json, summary_md, created_at)
-- Processes that send the same rows lock them in the same order, so they cannot deadlock.
ORDER BY assistant_id, handoff_id
ON CONFLICT (assistant_id, handoff_id) DO UPDATE
SET summary_json = excluded.summary_json, summary_md = excluded.summary_md, updated_at = excluded.updated_at
-- A row that is marked as deleted stays deleted, even if another process still sends the old summary.
WHERE NOT kept.summary_json ? 'deleted_at'
  AND (excluded.summary_json ? 'deleted_at'
       OR (excluded.updated_at > kept.updated_at
           AND (excluded.summary_json IS DISTINCT FROM kept.summary_json
                OR excluded.summary_md IS DISTINCT FROM kept.summary_md
                OR excluded.updated_at >= kept.updated_at + interval '10 seconds')))
