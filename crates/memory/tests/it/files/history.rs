//! The history of agent.md: changes of Segue and of other programs, and restored revisions.

use std::fs;
use std::sync::Arc;

use journal::{NotesRevision, RevisionCause, SqliteStore, Store};
use memory::{
    AgentFile, AgentFileGuard, EditMemoryTool, HistoryError, NoteOwner, NotesHistory, RestoreOutcome,
};
use protocol::AssistantId;
use runtime::Tool;
use serde_json::json;

use super::NOW;
use crate::tool::tool_context;

fn history(folder: &tempfile::TempDir) -> NotesHistory {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
    NotesHistory { store, agent_id: AssistantId::default(), file }
}

/// Returns the revisions with their notes, newest first.
async fn revisions(history: &NotesHistory) -> Vec<NotesRevision> {
    let mut found = Vec::new();
    for entry in history.revisions(None, 50).await.unwrap() {
        found.push(history.revision(entry.number).await.unwrap());
    }
    found
}

fn render(revisions: &[NotesRevision]) -> Vec<String> {
    let line = |revision: &NotesRevision| {
        let notes = String::from_utf8_lossy(&revision.notes);
        format!("{} {} {notes:?}", revision.number, revision.cause.as_str())
    };
    revisions.iter().map(line).collect()
}

async fn remember(history: &NotesHistory, text: &'static str) {
    let note = move |file: &mut AgentFileGuard<'_>| file.remember(NoteOwner::Personal, text);
    history.change(RevisionCause::Remember, note).await.unwrap();
}

#[tokio::test]
async fn every_change_of_the_notes_is_a_revision() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(&folder);
    assert_eq!(revisions(&history).await, [], "a missing file has no revision");
    let path = folder.path().join("agent.md");
    fs::write(&path, "- mine\n").unwrap();
    remember(&history, "Uses Vim.").await;
    remember(&history, "Uses Vim.").await;
    // A change of the block is no change of the notes.
    history.file.write_block("Of A.", NOW).unwrap();
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("mine", "yours")).unwrap();
    let tool = EditMemoryTool::new(Arc::clone(&history.file)).with_history(history.clone());
    let args = json!({"edits": [{"old_string": "Uses Vim.", "new_string": "Uses Emacs."}]});
    tool.call(&args, &tool_context()).await;
    fs::write(&path, "- of an editor\n").unwrap();
    assert_eq!(
        render(&revisions(&history).await),
        [
            r#"5 outside "- of an editor\n""#,
            r#"4 tool "- yours\n- Uses Emacs.\n\n""#,
            r#"3 outside "- yours\n- Uses Vim.\n\n""#,
            r#"2 remember "- mine\n- Uses Vim.\n""#,
            r#"1 outside "- mine\n""#,
        ]
    );
    let page = history.revisions(Some(3), 1).await.unwrap();
    assert_eq!((page[0].number, page[0].added_lines, page[0].removed_lines), (2, 1, 0));
    let diff = history.diff(4).await.unwrap();
    assert!(diff.contains("-- Uses Vim.\n+- Uses Emacs.\n"), "{diff}");
    assert!(history.diff(1).await.unwrap().contains("--- agent.md#0\n+++ agent.md#1\n"));
    assert_eq!(history.revision(1).await.unwrap().notes, b"- mine\n");
    for number in [0, 6, u64::MAX] {
        let missing = history.revision(number).await.unwrap_err();
        assert!(matches!(missing, HistoryError::UnknownRevision { .. }), "{missing}");
    }
}

#[tokio::test]
async fn a_restored_revision_has_its_bytes_and_the_block_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(&folder);
    let path = folder.path().join("agent.md");
    let before = b"\xef\xbb\xbf# Notes\r\n\xff\r\n- one  \r\n## Recent Thread Snapshot\r\n<current_thread_summary>\r\nOf A.\r\n</current_thread_summary>\r\n- two";
    fs::write(&path, before).unwrap();
    remember(&history, "Uses Vim.").await;
    history.file.write_block("Of B.", NOW).unwrap();
    assert_eq!(history.restore(1).await.unwrap(), RestoreOutcome::Restored);
    let expected = String::from_utf8_lossy(before).replace("Of A.", "Of B.");
    assert_eq!(String::from_utf8_lossy(&fs::read(&path).unwrap()), expected);
    let found = revisions(&history).await;
    assert_eq!((found[0].number, found[0].cause), (3, RevisionCause::Restore));
    assert_eq!((&found[0].notes, &found[0].sha256), (&found[2].notes, &found[2].sha256));
    assert_eq!(history.restore(1).await.unwrap(), RestoreOutcome::Unchanged);
    assert_eq!(revisions(&history).await.len(), 3);
    // Notes that another program wrote in the meantime are not lost.
    fs::write(&path, "- new\n").unwrap();
    history.restore(1).await.unwrap();
    assert_eq!(render(&revisions(&history).await)[1], r#"4 outside "- new\n""#);
    assert_eq!(fs::read(&path).unwrap(), found[0].notes, "the file has no block, so none is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_are_recorded_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(&folder);
    let remembering: Vec<_> = (0..20)
        .map(|number| {
            let file = Arc::new(AgentFile::new(folder.path().join("agent.md")));
            let history = NotesHistory { file, ..history.clone() };
            tokio::spawn(async move {
                let note = move |file: &mut AgentFileGuard<'_>| {
                    file.remember(NoteOwner::Personal, &format!("Note {number}."))
                };
                history.change(RevisionCause::Remember, note).await.unwrap();
            })
        })
        .collect();
    for remembering in remembering {
        remembering.await.unwrap();
    }
    let mut revisions = revisions(&history).await;
    revisions.reverse();
    assert_eq!(revisions.len(), 20);
    let mut before: &[u8] = b"";
    for revision in &revisions {
        let added = revision.notes.strip_prefix(before).unwrap();
        assert_eq!(added.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(revision.cause, RevisionCause::Remember);
        before = &revision.notes;
    }
}
