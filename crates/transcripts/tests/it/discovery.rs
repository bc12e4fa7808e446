//! Discovery of the sessions of installed agents, and formats that are folders of files.

use std::path::Path;

use transcripts::discover::{DiscoveryRoots, discover_sessions, preview_session};
use transcripts::{SessionFormat, TranscriptSource, detect_format};

use crate::collect::read_source;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn sessions_are_discovered_in_the_default_folders() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    for (path, text) in [
        (".claude/projects/-p/s.jsonl", "{}"),
        (".claude/projects/-p/s/subagents/agent-1.jsonl", "{}"),
        (".claude/settings.json", "{}"),
        (".codex/sessions/2026/01/02/rollout-x.jsonl", "{}"),
        (".local/share/opencode/storage/session/proj/ses_1.json", "{}"),
        (".pi/agent/sessions/--p--/t_1.jsonl", "{}"),
        (".gemini/tmp/hash/chats/session-1.json", "{}"),
        (".gemini/tmp/hash/logs.json", "{}"),
        (".copilot/session-state/k/events.jsonl", "{}"),
        (".deepagents/sessions.db", "{}"),
        ("work/.aider.chat.history.md", "# aider chat started at 2026-01-02 03:04:05\n"),
        (".pi/agent/sessions/--p--/empty.jsonl", ""),
    ] {
        write(&home.join(path), text);
    }
    let roots = DiscoveryRoots {
        home: home.to_owned(),
        current_folder: home.join("work"),
        ..DiscoveryRoots::default()
    };
    let discovery = discover_sessions(&roots);
    let mut formats: Vec<&str> = discovery.sessions.iter().map(|session| session.format.as_str()).collect();
    formats.sort_unstable();
    assert_eq!(formats, ["aider", "claude", "codex", "copilot", "gemini", "langgraph", "opencode", "pi"]);
    assert!(discovery.problems.is_empty());
    assert!(discovery.sessions.is_sorted_by(|a, b| a.modified >= b.modified));
}

#[test]
fn a_missing_home_folder_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let roots = DiscoveryRoots { home: folder.path().join("none"), ..DiscoveryRoots::default() };
    assert_eq!(discover_sessions(&roots), transcripts::discover::DiscoveryReport::default());
}

#[test]
fn an_unreadable_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join(".codex/sessions"), "a file where a folder is expected");
    let roots = DiscoveryRoots { home: folder.path().to_owned(), ..DiscoveryRoots::default() };
    let discovery = discover_sessions(&roots);
    assert_eq!(discovery.problems.len(), 1);
    assert!(discovery.problems[0].path.ends_with(".codex/sessions"));
}

#[test]
fn a_preview_has_the_first_line_that_the_user_wrote() {
    let text = concat!(
        r#"{"type":"user","sessionId":"s","cwd":"/p","isMeta":true,"message":{"content":"injected"}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s","message":{"content":"\n please fix it \nand more"}}"#,
        "\n",
    );
    let source = TranscriptSource::from_reader(&mut text.as_bytes(), "x", &std::env::temp_dir()).unwrap();
    let preview = preview_session(&source, SessionFormat::Claude).unwrap();
    assert_eq!(preview.title.as_deref(), Some("please fix it"));
    assert_eq!(preview.workspace.as_deref(), Some("/p"));
}

#[test]
fn opencode_sessions_are_read_from_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let storage = folder.path().join("storage");
    let session = storage.join("session/proj/ses_1.json");
    write(&session, r#"{"id":"ses_1","projectID":"proj","directory":"/p","title":"T"}"#);
    write(&storage.join("message/ses_1/msg_2.json"), r#"{"id":"msg_2","role":"assistant"}"#);
    write(&storage.join("message/ses_1/msg_1.json"), r#"{"id":"msg_1","role":"user"}"#);
    write(&storage.join("part/msg_1/prt_1.json"), r#"{"type":"text","text":"one"}"#);
    write(&storage.join("part/msg_2/prt_1.json"), r#"{"type":"text","text":"two"}"#);
    write(&storage.join("part/msg_2/prt_2.json"), "{");
    let source = TranscriptSource::from_file(session);
    assert_eq!(detect_format(&source).unwrap(), SessionFormat::OpenCode);
    let (read, _) = read_source(&source, SessionFormat::OpenCode);
    assert_eq!(read.entries().map(transcripts::TranscriptEntry::text).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(read.problems.len(), 1);
}

#[test]
fn openhands_events_in_a_folder_are_one_conversation_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("session-7/events");
    for number in [0, 2, 10] {
        let text = format!(
            "{{\n \"id\":{number},\"source\":\"user\",\"action\":\"message\",\"args\":{{\"content\":\"{number}\"}}}}"
        );
        write(&events.join(format!("{number}.json")), &text);
    }
    let source = TranscriptSource::from_file(events);
    let (read, _) = read_source(&source, detect_format(&source).unwrap());
    assert_eq!(read.entries().map(transcripts::TranscriptEntry::text).collect::<Vec<_>>(), ["0", "2", "10"]);
    assert_eq!(read.conversations[0].conversation.name, "session-7");
}
