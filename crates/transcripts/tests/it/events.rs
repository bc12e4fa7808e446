//! Events that an import appends, recognition of a repeated import, and LangGraph databases.

use insta::assert_snapshot;
use jiff::Timestamp;
use rmpv::Value as Packed;
use transcripts::{DigestChain, SessionFormat, TranscriptSource, detect_format};

use crate::collect::{CollectedTranscript, read_bytes, read_source};

const SESSION: &str = concat!(
    r#"{"type":"user","uuid":"u1","sessionId":"s-1","timestamp":"2026-01-02T03:04:05Z","message":{"content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}"#,
    "\n",
    r#"{"type":"user","sessionId":"s-1","message":{"content":"[Request interrupted by user]"}}"#,
    "\n",
    r#"{"type":"assistant","isSidechain":true,"message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"tool_use","id":"t1","name":"Bash","input":{"c":1}}]}}"#,
    "\n",
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"out"}]}}"#,
    "\n",
    r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto"}}"#,
    "\n",
    r#"{"type":"user","isCompactSummary":true,"message":{"content":"so far"}}"#,
    "\n",
    r#"{"type":"user","isMeta":true,"message":{"content":"meta"}}"#,
    "\n",
);

#[test]
fn one_entry_is_one_event() {
    let (format, read) = read_bytes(SESSION.as_bytes());
    let mut text = String::new();
    for entry in read.entries().cloned() {
        let event = entry.into_event(format, Timestamp::UNIX_EPOCH).unwrap();
        let metadata = event.metadata.unwrap();
        text += &format!(
            "{} {} {}\n  {}\n",
            event.created_at,
            event.event_type.as_str(),
            event.content.get(),
            metadata.get()
        );
    }
    assert_snapshot!(text);
}

#[test]
fn an_entry_that_is_a_message_becomes_an_event_of_that_category() {
    let (format, read) = read_bytes(SESSION.as_bytes());
    let mut counts = (0, 0);
    for entry in read.entries().cloned() {
        let is_message = entry.is_message();
        let event = entry.into_event(format, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(event.event_type.category() == protocol::Category::Message, is_message, "{event:?}");
        if is_message { counts.0 += 1 } else { counts.1 += 1 }
    }
    assert!(counts.0 > 0 && counts.1 > 0, "{counts:?}");
}

#[test]
fn b16_no_image_is_stored_inline() {
    let (format, read) = read_bytes(SESSION.as_bytes());
    for entry in read.entries().cloned() {
        let event = entry.into_event(format, Timestamp::UNIX_EPOCH).unwrap();
        assert!(!event.content.get().contains("aGk="));
    }
}

#[test]
fn an_entry_without_a_time_has_the_time_of_the_entry_before() {
    let (_, read) = read_bytes(SESSION.as_bytes());
    let first = read.entries().next().unwrap().created_at;
    assert!(first.is_some() && read.entries().all(|entry| entry.created_at == first));
}

#[test]
fn a_longer_copy_of_a_session_has_the_same_key_and_continues_the_chain() {
    let digests = |text: &str| -> (String, Vec<String>) {
        let (_, read) = read_bytes(text.as_bytes());
        let mut chain = DigestChain::default();
        (read.conversations[0].key.clone(), read.entries().map(|entry| chain.push(entry)).collect())
    };
    let lines: Vec<&str> = SESSION.lines().collect();
    let (key, whole) = digests(SESSION);
    let (prefix_key, prefix) = digests(&lines[..4].join("\n"));
    assert_eq!(key, prefix_key);
    assert_eq!(whole[..prefix.len()], prefix[..]);
    let (_, changed) = digests(&SESSION.replace("\"look\"", "\"look!\""));
    assert!(
        whole.iter().zip(&changed).all(|(left, right)| left != right),
        "a changed entry changes all later digests"
    );
}

#[test]
fn redaction_placeholders_are_not_session_ids() {
    let (_, read) = read_bytes(SESSION.replace("s-1", "REDACTED").as_bytes());
    assert_eq!(read.conversations[0].conversation.session_id, None);
}

/// Returns a LangChain message in LangGraph's MessagePack form.
fn message(class: &str, kind: &str, id: &str, content: &str) -> Packed {
    let fields = Packed::Map(vec![
        ("content".into(), content.into()),
        ("type".into(), kind.into()),
        ("id".into(), id.into()),
    ]);
    let parts = Packed::Array(vec![
        "langchain_core.messages".into(),
        class.into(),
        fields,
        "model_validate_json".into(),
    ]);
    let mut payload = Vec::new();
    rmpv::encode::write_value(&mut payload, &parts).unwrap();
    Packed::Ext(5, payload)
}

/// Returns a checkpoint with `messages` in LangGraph's MessagePack form.
fn checkpoint(messages: Vec<Packed>) -> Vec<u8> {
    let values = Packed::Map(vec![("messages".into(), Packed::Array(messages))]);
    let checkpoint = Packed::Map(vec![
        ("ts".into(), "2026-01-02T03:04:05+00:00".into()),
        ("channel_values".into(), values),
    ]);
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &checkpoint).unwrap();
    bytes
}

/// Creates a database with three checkpoints of one thread and a fourth that is damaged, and returns its connection. In
/// the third checkpoint a summary replaces the earlier messages.
fn database(path: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, type TEXT, checkpoint BLOB)",
        )
        .unwrap();
    let human = || message("HumanMessage", "human", "1", "hi");
    let ai = || message("AIMessage", "ai", "2", "hello");
    let summary =
        || message("HumanMessage", "human", "3", "Here is a summary of the conversation to date: x");
    for (id, bytes) in [
        ("a", checkpoint(vec![human()])),
        ("b", checkpoint(vec![human(), ai()])),
        ("c", checkpoint(vec![summary()])),
        ("d", b"\xc1".to_vec()),
    ] {
        connection
            .execute("INSERT INTO checkpoints VALUES ('1', '', ?1, 'msgpack', ?2)", (id, bytes))
            .unwrap();
    }
    connection
}

#[test]
fn langgraph_threads_are_the_union_of_their_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    drop(database(&path));
    let source = TranscriptSource::from_file(&path);
    let (read, _) = read_source(&source, detect_format(&source).unwrap());
    assert_snapshot!(read.render());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file is created in the folder");
}

#[test]
fn langgraph_databases_in_use_are_read_with_their_write_ahead_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "journal_mode", "WAL").unwrap();
    let open = database(&path);
    let (read, _) = read_source(&TranscriptSource::from_file(&path), SessionFormat::LangGraph);
    assert_eq!(read.entries().count(), 4);
    drop(open);
}

/// Creates a database of one thread with one checkpoint that contains `messages` as JSON.
fn create_json_database(path: &std::path::Path, messages: &serde_json::Value) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, type TEXT, checkpoint BLOB)",
        )
        .unwrap();
    let checkpoint =
        serde_json::json!({"ts": "2026-01-02T03:04:05+00:00", "channel_values": {"messages": messages}});
    let row = ("a", checkpoint.to_string().into_bytes());
    connection.execute("INSERT INTO checkpoints VALUES ('1', '', ?1, 'json', ?2)", row).unwrap();
}

/// Returns each tool result as the journal stores it: call id, text, kind of repair and original text.
fn results(format: SessionFormat, read: &CollectedTranscript) -> Vec<String> {
    let result = |entry: &transcripts::TranscriptEntry| {
        let event = entry.clone().into_event(format, Timestamp::UNIX_EPOCH).unwrap();
        let metadata: serde_json::Value = serde_json::from_str(event.metadata.unwrap().get()).unwrap();
        let text = |field: &str| metadata[field].as_str().unwrap_or("-").to_owned();
        let message = serde_json::from_str(event.content.get()).ok()?;
        let protocol::Message::Tool(result) = &message else { return None };
        Some(format!("{} {} | {} | {}", result.call_id, message.text(), text("repaired"), text("original")))
    };
    read.entries().filter_map(result).collect()
}

#[test]
fn a16_b13_legacy_results_are_repaired_once_at_import_and_their_original_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let tool = |id: &str, content: serde_json::Value| serde_json::json!({"type": "tool", "tool_call_id": id, "content": content});
    let messages = serde_json::json!([
        {"type": "human", "content": "look"},
        {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "f", "args": {}}]},
        tool("1", "plain".into()),
        tool("2", serde_json::json!([{"type": "text", "text": "blocks"}])),
        tool("3", "[{\"type\": \"text\", \"text\": \"json\"}]".into()),
        tool("4", "[{'type': 'text', 'text': \"it's python\", 'id': 'lc_1'}]".into()),
        tool("5", serde_json::json!({"code": 0, "output": "of an object"})),
        tool("6", serde_json::json!({"rows": [1, 2]})),
        tool("7", "[1, 2]".into()),
        tool("8", "[{\"type\": \"text\", \"text\": \"a\", \"n\": 1}]".into()),
    ]);
    create_json_database(&path, &messages);
    let (read, _) = read_source(&TranscriptSource::from_file(&path), SessionFormat::LangGraph);
    let expected = [
        r#"1 plain | - | -"#,
        r#"2 blocks | - | -"#,
        r#"3 json | json_blocks | [{"type": "text", "text": "json"}]"#,
        r#"4 it's python | python_blocks | [{'type': 'text', 'text': "it's python", 'id': 'lc_1'}]"#,
        r#"5 of an object | object | {"code":0,"output":"of an object"}"#,
        r#"6 {"rows":[1,2]} | object | -"#,
        r#"7 [1, 2] | - | -"#,
        r#"8 [{"type": "text", "text": "a", "n": 1}] | - | -"#,
    ];
    assert_eq!(results(SessionFormat::LangGraph, &read), expected);
}

/// Output of a command that looks like content blocks but is plain text.
const PRINTED: [&str; 4] = [
    r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]"#,
    r#"{"type":"text","text":"a","keep":"me"}"#,
    r#"[{"type":"text","text":"a"}]"#,
    "[{'type': 'text', 'text': 'a'}]",
];

#[test]
fn b13_the_output_of_a_command_is_stored_unchanged() {
    for printed in PRINTED {
        let text = serde_json::Value::from(printed);
        let blocks = serde_json::json!([{"type": "text", "text": printed}]);
        let claude = |content: &serde_json::Value| {
            [
                serde_json::json!({"type": "assistant", "uuid": "u1", "sessionId": "s-1", "message": {"content": [
                    {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "cat fixture.json"}},
                ]}}),
                serde_json::json!({"type": "user", "uuid": "u2", "sessionId": "s-1", "message": {"content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": content},
                ]}}),
            ]
        };
        let codex = |content: &serde_json::Value| {
            [
                serde_json::json!({"type": "session_meta", "payload": {"id": "s-1"}}),
                serde_json::json!({"type": "response_item", "payload":
                    {"type": "function_call_output", "call_id": "1", "output": content}}),
            ]
        };
        for (format, lines) in [
            (SessionFormat::Claude, claude(&text)),
            (SessionFormat::Claude, claude(&blocks)),
            (SessionFormat::Codex, codex(&text)),
            (SessionFormat::Codex, codex(&blocks)),
        ] {
            let (detected, read) = read_bytes(lines.map(|line| line.to_string()).join("\n").as_bytes());
            assert_eq!(detected, format);
            assert_eq!(results(format, &read), [format!("1 {printed} | - | -")]);
        }
    }
}

#[test]
fn b4_b13_messages_without_an_id_are_all_read_and_the_result_is_stable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    let messages = serde_json::json!([
        {"type": "human", "content": "go on"},
        {"type": "ai", "content": "done", "id": ""},
        {"type": "human", "content": "go on"},
        {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "f", "args": {"n": 1}}]},
        {"type": "ai", "content": "", "tool_calls": [{"id": "2", "name": "f", "args": {"n": 2}}]},
        {"type": "ai", "content": "done"},
    ]);
    create_json_database(&path, &messages);
    let (first, _) = read_source(&TranscriptSource::from_file(&path), SessionFormat::LangGraph);
    assert_eq!(first.entries().count(), 6);
    let (second, _) = read_source(&TranscriptSource::from_file(&path), SessionFormat::LangGraph);
    assert_eq!(first.conversations[0].entries, second.conversations[0].entries);
    assert_eq!(first.conversations[0].key, second.conversations[0].key);
}
