-- Projects: threads and summaries belong to the repository or folder that they are about.

-- Each project has one row, by the path of the main worktree of its repository, or of its folder. A row that this
-- migration writes has the folder that a thread recorded; until `is_resolved` is 1, that may be a folder inside a project.
CREATE TABLE projects (
    project_key INTEGER PRIMARY KEY,
    path        TEXT    NOT NULL UNIQUE,
    is_resolved INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX projects_unresolved ON projects (project_key) WHERE is_resolved = 0;

-- 0 is no project: the thread is personal.
ALTER TABLE thread_heads ADD COLUMN project_key INTEGER NOT NULL DEFAULT 0;

-- A thread has the folder in its own metadata, or that of its import, or that of its nearest ancestor with one.
CREATE TABLE thread_folders (
    thread_key INTEGER PRIMARY KEY,
    thread_id  TEXT NOT NULL,
    parent_id  TEXT,
    folder     TEXT
) STRICT;
INSERT INTO thread_folders
SELECT thread_key, thread_id, parent_id, CASE typeof(folder) WHEN 'text' THEN nullif(folder, '') END
FROM (SELECT thread_key, thread_id, parent_id, iif(json_valid(metadata),
        ifnull(json_extract(metadata, '$.workspace'), json_extract(metadata, '$.source.workspace')), NULL) AS folder
    FROM threads);
CREATE INDEX thread_folders_parent ON thread_folders (parent_id) WHERE folder IS NULL;
INSERT INTO projects (path, is_resolved) SELECT DISTINCT folder, 0 FROM thread_folders WHERE folder IS NOT NULL ORDER BY folder;
CREATE INDEX thread_heads_project ON thread_heads (project_key) WHERE project_key > 0;
WITH RECURSIVE placed (thread_key, thread_id, folder) AS (
    SELECT thread_key, thread_id, folder FROM thread_folders WHERE folder IS NOT NULL
    UNION ALL
    SELECT c.thread_key, c.thread_id, p.folder FROM placed p JOIN thread_folders c ON c.parent_id = p.thread_id
    WHERE c.folder IS NULL)
UPDATE thread_heads SET project_key = j.project_key
FROM (SELECT placed.thread_key, projects.project_key FROM placed JOIN projects ON projects.path = placed.folder) j
WHERE j.thread_key = thread_heads.thread_key;
DROP TABLE thread_folders;

-- The tables of summaries are built again, because the columns of `medium_term_memory` get defaults: other programs insert
-- rows without an id. `summaries` gets the project, and copies of two columns, for an index by project.
CREATE TABLE old_memory AS SELECT * FROM medium_term_memory;
CREATE TABLE old_summaries AS SELECT * FROM summaries;
CREATE TABLE old_summary_threads AS SELECT * FROM summary_threads;
DROP TABLE summary_threads;
DROP TABLE summaries;
DROP TABLE medium_term_memory;

CREATE TABLE medium_term_memory (
    id               TEXT    NOT NULL PRIMARY KEY DEFAULT (lower(
        hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
    agent_id         TEXT    NOT NULL,
    summary_text     TEXT    NOT NULL,
    turn_range_start INTEGER NOT NULL,
    turn_range_end   INTEGER NOT NULL,
    created_at       TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000000Z')
) STRICT;
INSERT INTO medium_term_memory SELECT * FROM old_memory;
CREATE INDEX medium_term_memory_recent ON medium_term_memory (agent_id, created_at DESC, id DESC);

CREATE TABLE summaries (
    summary_key INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE REFERENCES medium_term_memory (id) ON UPDATE CASCADE ON DELETE CASCADE,
    turn_count  INTEGER NOT NULL DEFAULT 0,
    thread_key  INTEGER NOT NULL DEFAULT 0,    -- the thread of its first turn
    agent_id    TEXT    NOT NULL,
    created_at  TEXT    NOT NULL,
    project_key INTEGER                        -- 0 is personal; NULL is a summary of several projects, or of unknown ones
) STRICT;
INSERT INTO summaries (summary_key, id, turn_count, thread_key, agent_id, created_at)
SELECT s.summary_key, s.id, s.turn_count, s.thread_key, m.agent_id, m.created_at
FROM old_summaries s JOIN old_memory m ON m.id = s.id;
CREATE INDEX summaries_of_project ON summaries (agent_id, project_key, created_at DESC, id DESC);
CREATE INDEX summaries_project ON summaries (project_key) WHERE project_key > 0;

CREATE TABLE summary_threads (
    thread_key  INTEGER NOT NULL,
    last_seq    INTEGER NOT NULL,             -- the last of its turns there
    summary_key INTEGER NOT NULL REFERENCES summaries (summary_key) ON DELETE CASCADE,
    PRIMARY KEY (thread_key, last_seq, summary_key)
) STRICT, WITHOUT ROWID;
INSERT INTO summary_threads SELECT * FROM old_summary_threads;
CREATE INDEX summary_threads_summary ON summary_threads (summary_key);
DROP TABLE old_memory;
DROP TABLE old_summaries;
DROP TABLE old_summary_threads;

UPDATE summaries SET project_key = (
    SELECT iif(min(h.project_key) = max(h.project_key), min(h.project_key), NULL)
    FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key AND h.updated_at IS NOT NULL
    WHERE o.summary_key = summaries.summary_key);

-- A row of `medium_term_memory` that another program writes is a summary like any other. Its project is that of the first
-- and the last message in its range, or none if there is no message in it. Its time gets the form of the other rows. A copy
-- writes both tables itself.
CREATE TRIGGER medium_term_memory_added AFTER INSERT ON medium_term_memory
WHEN NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'segue_copying') BEGIN
    UPDATE medium_term_memory SET created_at = coalesce(
        strftime('%Y-%m-%dT%H:%M:%f', NEW.created_at), strftime('%Y-%m-%dT%H:%M:%f', 'now')) || '000000Z'
    WHERE id = NEW.id AND created_at NOT GLOB '????-??-??T??:??:??*Z';
    INSERT INTO summaries (id, agent_id, created_at, project_key)
    SELECT m.id, m.agent_id, m.created_at, CASE
        WHEN m.first_project IS NULL THEN 0 WHEN m.first_project = m.last_project THEN m.first_project END
    FROM (SELECT id, agent_id, created_at,
            (SELECT h.project_key FROM agents a CROSS JOIN turns t CROSS JOIN events e CROSS JOIN thread_heads h
             WHERE a.agent_id = n.agent_id AND t.agent_key = a.agent_key AND e.event_row = t.event_row
                 AND h.thread_key = e.thread_key AND t.turn_index BETWEEN n.turn_range_start AND n.turn_range_end
             ORDER BY t.turn_index LIMIT 1) AS first_project,
            (SELECT h.project_key FROM agents a CROSS JOIN turns t CROSS JOIN events e CROSS JOIN thread_heads h
             WHERE a.agent_id = n.agent_id AND t.agent_key = a.agent_key AND e.event_row = t.event_row
                 AND h.thread_key = e.thread_key AND t.turn_index BETWEEN n.turn_range_start AND n.turn_range_end
             ORDER BY t.turn_index DESC LIMIT 1) AS last_project
        FROM medium_term_memory n WHERE n.id = NEW.id) m;
END;
CREATE TRIGGER medium_term_memory_changed AFTER UPDATE OF agent_id, created_at ON medium_term_memory BEGIN
    UPDATE summaries SET agent_id = NEW.agent_id, created_at = NEW.created_at WHERE id = NEW.id;
END;
