//! Tests of the content of messages: clients get it back in the form in which they sent it, files with their bytes and
//! blocks with all fields.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::fixture::{ServerFixture, TestCaller};
use crate::sse::{SseReader, event_data};

/// A PNG image of one pixel, in base64.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the bytes of [`PNG`].
fn png_bytes() -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = PNG.trim_end_matches('=').bytes().map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|group| {
        let bits =
            group.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    bytes.collect()
}

/// Returns a content with every form of block that clients send.
fn all_block_forms() -> Value {
    let url = format!("data:image/png;base64,{PNG}");
    json!([
        {"type": "text", "text": "What is it?"},
        {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": ""},
        "Well?",
        {"type": "image", "mimeType": "image/png", "data": PNG, "metadata": {"name": "point.png"}},
        {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PNG},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "mime_type": "image/png", "base64": PNG.trim_end_matches('=')},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": url},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "source_type": "base64", "mime_type": "application/pdf", "data": "JVBERi0xLjQK", "metadata": {"filename": "x.pdf"}},
        {"type": "file", "file": {"filename": "x.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}},
        {"type": "file", "mimeType": "application/pdf", "data": "-_8", "metadata": {"filename": "y.pdf"}},
        {"type": "something", "else": [1]},
    ])
}

fn run_body_with_content(content: &Value) -> Value {
    json!({
        "assistant_id": "agent", "stream_mode": ["values", "updates", "checkpoints"], "stream_resumable": true,
        "input": {"messages": [{"type": "human", "id": "m1", "content": content}]},
    })
}

/// Returns the content of the first message from every endpoint that returns a state.
async fn read_content_everywhere(server: &ServerFixture, thread: &str) -> Vec<Value> {
    let (_, state) = server.get(&format!("/threads/{thread}/state")).await;
    let (_, row) = server.get(&format!("/threads/{thread}")).await;
    let (_, list) = server.post("/threads/search", &json!({"ids": [thread]})).await;
    let (_, history) = server.post(&format!("/threads/{thread}/history"), &json!({"limit": 10})).await;
    let states =
        history.as_array().unwrap().iter().filter(|state| state["values"]["messages"][0].is_object());
    let states: Vec<&Value> = [&state, &row, &list[0]].into_iter().chain(states).collect();
    assert!(states.len() > 4, "{history}");
    states.iter().map(|state| state["values"]["messages"][0]["content"].clone()).collect()
}

#[tokio::test]
async fn s3_7_blocks_are_returned_as_they_were_sent_in_every_state_and_stream() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let follow = json!({"channels": ["values"]});
    let path = format!("/threads/{thread}/stream/events");
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&follow)).await;

    let path = format!("/threads/{thread}/runs/stream");
    let request = server
        .request(TestCaller::Local, Method::POST, &path)
        .json(&run_body_with_content(&all_block_forms()));
    let streamed = SseReader::open(request).await.read_to_end().await;
    let values = event_data(&streamed, "values");
    let checkpoints = event_data(&streamed, "checkpoints");
    let in_checkpoints = checkpoints
        .iter()
        .map(|checkpoint| &checkpoint["values"])
        .filter(|values| values["messages"][0].is_object());
    let mut live_contents: Vec<Value> = values
        .iter()
        .copied()
        .chain(in_checkpoints)
        .map(|values| values["messages"][0]["content"].clone())
        .collect();
    let first = events.read_until("values").await.pop().unwrap();
    live_contents.push(first.data["params"]["data"]["messages"][0]["content"].clone());
    assert!(live_contents.len() > 4, "{streamed:?}");
    for content in live_contents.into_iter().chain(read_content_everywhere(&server, &thread).await) {
        assert_eq!(content, all_block_forms());
    }
    assert!(server.model.requests()[0].body.to_string().contains(PNG), "the model receives the image");

    // Sending back the received messages changes nothing.
    let (_, state) = server.get(&format!("/threads/{thread}/state")).await;
    let same_messages = json!({"assistant_id": "agent", "input": {"messages": state["values"]["messages"]}});
    let (_, values) = server.post(&format!("/threads/{thread}/runs/wait"), &same_messages).await;
    assert_eq!(values["messages"].as_array().unwrap().len(), 3, "{values}");
    let before = state["values"]["messages"].as_array().unwrap();
    assert_eq!(values["messages"].as_array().unwrap()[..2], before[..]);

    let folder = server.stop().await;
    let server =
        ServerFixture::in_folder(ScriptedServer::start(Script::default()).unwrap(), folder, |settings| {
            settings
        })
        .await;
    for content in read_content_everywhere(&server, &thread).await {
        assert_eq!(content, all_block_forms());
    }
    let (_, history) = server.get(&format!("/api/threads/{thread}/history")).await;
    assert!(!history.to_string().contains(PNG), "the history contains references to files only: {history}");
}

#[tokio::test]
async fn s3_7_a_file_that_a_tool_read_is_sent_with_its_bytes() {
    let call = ScriptedReply::call("c1", "read_file", json!({"path": "a.png"}));
    let done = ScriptedReply::text("A point.");
    let server = ServerFixture::with_script(Script::new([call, done]), |settings| settings).await;
    std::fs::write(server.folder.path().join("workspace/a.png"), png_bytes()).unwrap();
    let thread = server.create_thread(TestCaller::Local).await;
    let body = json!({
        "assistant_id": "agent", "stream_mode": ["values", "updates", "messages-tuple"],
        "input": {"messages": [{"role": "user", "content": "Look."}]},
    });
    let path = format!("/threads/{thread}/runs/stream");
    let streamed = SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&body))
        .await
        .read_to_end()
        .await;
    let block = json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "mimeType": "image/png", "data": PNG});
    let has_block = |content: &Value| content.as_array().is_some_and(|blocks| blocks.contains(&block));
    let chunks = event_data(&streamed, "messages");
    assert!(chunks.iter().any(|chunk| has_block(&chunk[0]["content"])), "{chunks:?}");
    let updates = event_data(&streamed, "updates");
    assert!(
        updates.iter().any(|update| has_block(&update["tools"]["messages"][0]["content"])),
        "{updates:?}"
    );
    let values = event_data(&streamed, "values");
    assert!(has_block(&values.last().unwrap()["messages"][2]["content"]), "{values:?}");
    let (_, state) = server.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(&&state["values"], values.last().unwrap());
}
