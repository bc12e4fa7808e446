//! What clients send comes back in the form in which it was sent: files with their bytes, blocks with all their fields.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};

use crate::sse::{Events, data};
use crate::world::{As, World};

/// A picture of one point.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The same, as it is in a file.
fn point() -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = PNG.trim_end_matches('=').bytes().map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits =
            four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

/// A content with every form of block that clients send.
fn content() -> Value {
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

fn asking(content: &Value) -> Value {
    json!({
        "assistant_id": "agent", "stream_mode": ["values", "updates", "checkpoints"], "stream_resumable": true,
        "input": {"messages": [{"type": "human", "id": "m1", "content": content}]},
    })
}

/// Returns the content that the first message has in every place where a state is told.
async fn told(world: &World, thread: &str) -> Vec<Value> {
    let (_, state) = world.get(&format!("/threads/{thread}/state")).await;
    let (_, row) = world.get(&format!("/threads/{thread}")).await;
    let (_, list) = world.post("/threads/search", &json!({"ids": [thread]})).await;
    let (_, history) = world.post(&format!("/threads/{thread}/history"), &json!({"limit": 10})).await;
    let states =
        history.as_array().unwrap().iter().filter(|state| state["values"]["messages"][0].is_object());
    let states: Vec<&Value> = [&state, &row, &list[0]].into_iter().chain(states).collect();
    assert!(states.len() > 4, "{history}");
    states.iter().map(|state| state["values"]["messages"][0]["content"].clone()).collect()
}

#[tokio::test]
async fn s3_7_blocks_come_back_as_they_were_sent_in_every_state_and_stream() {
    let world = World::start().await;
    let thread = world.thread(As::Local).await;
    let follow = json!({"channels": ["values"]});
    let path = format!("/threads/{thread}/stream/events");
    let mut events = Events::of(world.request(As::Local, Method::POST, &path).json(&follow)).await;

    let path = format!("/threads/{thread}/runs/stream");
    let asked = world.request(As::Local, Method::POST, &path).json(&asking(&content()));
    let streamed = Events::of(asked).await.rest().await;
    let values = data(&streamed, "values");
    let points = data(&streamed, "checkpoints");
    let in_points =
        points.iter().map(|point| &point["values"]).filter(|values| values["messages"][0].is_object());
    let mut told_live: Vec<Value> = values
        .iter()
        .copied()
        .chain(in_points)
        .map(|values| values["messages"][0]["content"].clone())
        .collect();
    let first = events.until("values").await.pop().unwrap();
    told_live.push(first.data["params"]["data"]["messages"][0]["content"].clone());
    assert!(told_live.len() > 4, "{streamed:?}");
    for told in told_live.into_iter().chain(told(&world, &thread).await) {
        assert_eq!(told, content());
    }
    assert!(world.model.requests()[0].body.to_string().contains(PNG), "the model sees the picture");

    // Whoever sends back what was told changes nothing.
    let (_, state) = world.get(&format!("/threads/{thread}/state")).await;
    let again = json!({"assistant_id": "agent", "input": {"messages": state["values"]["messages"]}});
    let (_, values) = world.post(&format!("/threads/{thread}/runs/wait"), &again).await;
    assert_eq!(values["messages"].as_array().unwrap().len(), 3, "{values}");
    let before = state["values"]["messages"].as_array().unwrap();
    assert_eq!(values["messages"].as_array().unwrap()[..2], before[..]);

    let folder = world.stop().await;
    let world = World::on((Server::start(Script::default()).unwrap(), folder), |settings| settings).await;
    for told in told(&world, &thread).await {
        assert_eq!(told, content());
    }
    let (_, own) = world.get(&format!("/api/threads/{thread}/history")).await;
    assert!(!own.to_string().contains(PNG), "pages of the history name files: {own}");
}

#[tokio::test]
async fn s3_7_a_file_that_a_tool_read_is_told_with_its_bytes() {
    let call = Reply::call("c1", "read_file", json!({"path": "a.png"}));
    let done = Reply::text("A point.");
    let world = World::playing(Script::new([call, done]), |settings| settings).await;
    std::fs::write(world.folder.path().join("workspace/a.png"), point()).unwrap();
    let thread = world.thread(As::Local).await;
    let asked = json!({
        "assistant_id": "agent", "stream_mode": ["values", "updates", "messages-tuple"],
        "input": {"messages": [{"role": "user", "content": "Look."}]},
    });
    let path = format!("/threads/{thread}/runs/stream");
    let streamed = Events::of(world.request(As::Local, Method::POST, &path).json(&asked)).await.rest().await;
    let block = json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "mimeType": "image/png", "data": PNG});
    let is_told = |content: &Value| content.as_array().is_some_and(|blocks| blocks.contains(&block));
    let chunks = data(&streamed, "messages");
    assert!(chunks.iter().any(|chunk| is_told(&chunk[0]["content"])), "{chunks:?}");
    let updates = data(&streamed, "updates");
    assert!(updates.iter().any(|update| is_told(&update["tools"]["messages"][0]["content"])), "{updates:?}");
    let values = data(&streamed, "values");
    assert!(is_told(&values.last().unwrap()["messages"][2]["content"]), "{values:?}");
    let (_, state) = world.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(&&state["values"], values.last().unwrap());
}
