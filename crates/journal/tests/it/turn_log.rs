//! The view `turn_log`, which memory and other programs read: its rows, their text and indexes, and the changes that it
//! allows. The conformance suite tests the events.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use journal::{HealthCheckDepth, SqliteStore, Store, Write};
use protocol::{EventType, NewEvent, Thread, ThreadId};
use rusqlite::types::Value;
use serde_json::json;
use tempfile::TempDir;

use crate::conformance::fixtures::{ai, append, at, commit, create, human, rewind, thread, trace_event};

struct TurnLogFixture {
    _folder: TempDir,
    path: PathBuf,
    store: SqliteStore,
}

fn fixture() -> TurnLogFixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    TurnLogFixture { _folder: folder, path, store }
}

/// Returns the rows of a query as another program reads them, each rendered as one text.
fn rows(path: &Path, sql: &str) -> Vec<String> {
    let raw = rusqlite::Connection::open(path).unwrap();
    let mut statement = raw.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let shown = (0..columns).map(|column| {
            Ok(match row.get::<_, Value>(column)? {
                Value::Integer(number) => number.to_string(),
                Value::Text(text) => format!("{text:?}"),
                other => format!("{other:?}"),
            })
        });
        Ok(shown.collect::<rusqlite::Result<Vec<_>>>()?.join(" "))
    };
    statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
}

fn message_event(event_type: EventType, content: &serde_json::Value) -> NewEvent {
    NewEvent::new(event_type, content, at(2)).unwrap()
}

#[tokio::test]
async fn a18_the_view_has_the_messages_of_users_and_models() {
    let TurnLogFixture { path, store, _folder } = fixture();
    let reviewer = Thread { assistant_id: "reviewer".parse().unwrap(), ..thread() };
    let (one, two, deleted) = (create(&store).await, reviewer.thread_id, create(&store).await);
    commit(&store, vec![Write::CreateThread(reviewer)]).await.unwrap();
    let flagged = |flag: &str| human("hidden").with_metadata(&json!({flag: true, "line": 3})).unwrap();
    let call = json!({"type": "ai", "content": [{"type": "tool_call", "id": "1", "name": "ls", "args": {}}]});
    let parts = json!({"type": "ai", "content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "a\u{0}"},
                                                 {"type": "text", "text": "b"}], "model": "m"});
    append(&store, deleted, vec![human("from a thread that is deleted")]).await.unwrap();
    append(
        &store,
        one,
        vec![human("hello").with_key("k"), flagged("side"), flagged("injected"), trace_event(0)],
    )
    .await
    .unwrap();
    append(&store, two, vec![human("other agent")]).await.unwrap();
    let answers = [call, parts].map(|content| message_event(EventType::AiMessage, &content));
    append(&store, one, [vec![human("hello").with_key("k")], answers.into(), vec![ai("done")]].concat())
        .await
        .unwrap();
    commit(&store, vec![Write::DeleteThread { thread_id: deleted }]).await.unwrap();
    let turns = rows(
        &path,
        "SELECT agent_id, thread_id, turn_index, role, content, created_at, archived, seq FROM turn_log
         ORDER BY agent_id, turn_index",
    );
    let named = |row: &String| row.replace(&one.to_string(), "one").replace(&two.to_string(), "two");
    assert_eq!(
        turns.iter().map(named).collect::<Vec<_>>(),
        [
            r#""agent" "one" 2 "user" "hello" "2023-11-14T22:13:21.123456789Z" 0 1"#,
            r#""agent" "one" 3 "assistant" "a\0\nb" "2023-11-14T22:13:22.123456789Z" 0 6"#,
            r#""agent" "one" 4 "assistant" "done" "2023-11-14T22:13:21.123456789Z" 0 7"#,
            r#""reviewer" "two" 1 "user" "other agent" "2023-11-14T22:13:21.123456789Z" 0 1"#,
        ]
    );
}

/// The same rule is implemented in Rust for first prompts and in SQL for the view.
#[tokio::test]
async fn the_view_and_first_prompts_use_the_same_text() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        vec![text("one"), text("two")],
        vec![text(""), text("after nothing")],
        vec![text("around"), text(""), text("nothing")],
        vec![text(" \n"), text("after blanks")],
        vec![json!({"type": "media", "text": "no"}), text("after a picture"), json!({"type": "text"})],
        vec![text("quotes \" and \\ and \t and 𝄞 and \u{2028} and {\"type\":\"text\"}")],
        vec![json!({"text": "keys in another order", "type": "text", "more": [{"text": "no"}]})],
    ];
    let TurnLogFixture { path, store, _folder } = fixture();
    for content in &cases {
        let thread_id = create(&store).await;
        let message = message_event(EventType::HumanMessage, &json!({"type": "human", "content": content}));
        append(&store, thread_id, vec![message]).await.unwrap();
        let prompt = store.thread(thread_id).await.unwrap().unwrap().first_prompt;
        let turns = rows(
            &path,
            &format!("SELECT trim(content, char(32, 10)) FROM turn_log WHERE thread_id = '{thread_id}'"),
        );
        assert_eq!(turns, [format!("{:?}", prompt.unwrap())], "{content:?}");
    }
    let nothing = [text(""), text(" \n\t"), json!({"type": "media"})].map(|part| json!({"content": [part]}));
    let thread_id = create(&store).await;
    let events = nothing.map(|content| message_event(EventType::HumanMessage, &content)).into();
    append(&store, thread_id, events).await.unwrap();
    assert_eq!(rows(&path, "SELECT count(*) FROM turn_log"), [cases.len().to_string()]);
}

#[tokio::test]
async fn the_times_are_those_of_the_events() {
    let TurnLogFixture { path, store, _folder } = fixture();
    let thread_id = create(&store).await;
    let times = [
        "-000100-01-01T00:00:00.000000001Z",
        "1677-09-21T00:12:43.145224193Z",
        "1969-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00.000000000Z",
        "2024-02-29T23:59:59.000000001Z",
        "2262-04-11T23:47:16.854775807Z",
        "9999-12-30T22:00:00.999999999Z",
    ];
    let message_at =
        |time: &&str| NewEvent { created_at: time.parse::<Timestamp>().unwrap(), ..human("now") };
    append(&store, thread_id, times.iter().map(message_at).collect()).await.unwrap();
    let times_read = rows(&path, "SELECT created_at FROM turn_log ORDER BY turn_index");
    assert_eq!(times_read, times.map(|time| format!("{time:?}")));
}

#[tokio::test]
async fn turns_that_were_superseded_are_archived_and_copies_are_no_turns() {
    let TurnLogFixture { path, store, _folder } = fixture();
    let (one, two, fork) = (create(&store).await, create(&store).await, create(&store).await);
    append(&store, one, vec![human("one"), ai("two"), human("three")]).await.unwrap();
    append(&store, two, vec![human("of another thread")]).await.unwrap();
    rewind(&store, one, 1).await.unwrap();
    commit(&store, vec![Write::CopyEvents { from: one, until: None, into: fork }]).await.unwrap();
    append(&store, one, vec![ai("two again")]).await.unwrap();
    append(&store, fork, vec![ai("and otherwise")]).await.unwrap();
    let turns = || rows(&path, "SELECT content, archived FROM turn_log ORDER BY turn_index");
    let expected = [
        r#""one" 0"#,
        r#""two" 1"#,
        r#""three" 1"#,
        r#""of another thread" 0"#,
        r#""two again" 0"#,
        r#""and otherwise" 0"#,
    ];
    assert_eq!(turns(), expected);
    // A turn belongs to the source thread: a copy neither moves it nor keeps it when the source is deleted.
    commit(&store, vec![Write::DeleteThread { thread_id: one }]).await.unwrap();
    assert_eq!(turns(), [r#""of another thread" 0"#, r#""and otherwise" 0"#]);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn an_index_is_not_reused_after_its_thread_is_deleted() {
    let TurnLogFixture { path, store, _folder } = fixture();
    let (retained, deleted) = (create(&store).await, create(&store).await);
    append(&store, retained, vec![human("one")]).await.unwrap();
    append(&store, deleted, vec![human("two"), ai("three")]).await.unwrap();
    commit(&store, vec![Write::DeleteThread { thread_id: deleted }]).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    append(&store, retained, vec![ai("four")]).await.unwrap();
    commit(&store, vec![Write::DeleteThread { thread_id: retained }]).await.unwrap();
    append(&store, create(&store).await, vec![human("five"), ai("six")]).await.unwrap();
    let turns = rows(&path, "SELECT turn_index, content FROM turn_log");
    assert_eq!(turns, [r#"5 "five""#, r#"6 "six""#]);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn the_view_allows_archiving_turns_and_no_other_change() {
    let TurnLogFixture { path, store, _folder } = fixture();
    let (one, two) = (create(&store).await, create(&store).await);
    let talk = |thread_id: ThreadId| append(&store, thread_id, vec![human("q"), ai("a")]);
    for thread_id in [one, two, one, two] {
        talk(thread_id).await.unwrap();
    }
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute(
        "UPDATE turn_log SET archived = 1 WHERE agent_id = ?1 AND thread_id = ?2 AND turn_index BETWEEN ?3 AND ?4",
        ("agent", one.to_string(), 2, 7),
    )
    .unwrap();
    assert_eq!(
        rows(&path, "SELECT turn_index FROM turn_log WHERE archived = 1 ORDER BY turn_index"),
        ["2", "5", "6"]
    );
    for change in ["UPDATE turn_log SET content = ''", "DELETE FROM turn_log"] {
        let refused = raw.execute(change, []).unwrap_err().to_string();
        assert!(refused.contains("because it is a view"), "{change}: {refused}");
    }
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn window_queries_use_an_index() {
    let TurnLogFixture { path, store: _store, _folder } = fixture();
    for condition in ["turn_index BETWEEN 3 AND 9", "archived = 0", "thread_id = 't'"] {
        let plan = rows(
            &path,
            &format!(
                "EXPLAIN QUERY PLAN SELECT turn_index, role, archived, seq FROM turn_log
                 WHERE agent_id = 'agent' AND {condition} ORDER BY turn_index LIMIT 5"
            ),
        );
        assert!(!plan.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{plan:?}");
    }
}
