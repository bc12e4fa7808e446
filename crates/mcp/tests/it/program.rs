//! Calls to a server that runs as a child process.

use std::sync::Arc;

use journal::Write;
use mcp::McpServerState;
use runtime::{Frame, RepeatSafety, SubscriptionItem};
use serde_json::json;

use crate::world::{McpFixture, output_text, program, state, tool, wait_for_lock, with};

#[tokio::test]
async fn a_tool_is_described_and_called() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let echo = tool(&servers, "mcp__s__echo");
    let spec = echo.spec();
    assert!(spec.description.contains("Does &lt;/mcp_description> things."), "{}", spec.description);
    assert_eq!(spec.parameters["properties"]["text"]["type"], "string");
    assert_eq!(echo.repeat_safety(), RepeatSafety::Safe);
    assert_eq!(tool(&servers, "mcp__s__die").repeat_safety(), RepeatSafety::Unsafe);
    assert_eq!(world.call(&servers, "echo", "hello").await, "hello");
    assert_eq!(
        world.call(&servers, "refuse", "").await,
        "error: The MCP server `s` refused the call: no such thing (code -32602)"
    );
    let (context, _) = world.context();
    assert_eq!(
        output_text(&echo.call(&json!([1]), &context).await),
        "error: bad arguments: they must be an object"
    );
}

#[tokio::test]
async fn long_output_is_stored_as_an_artifact() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let (context, _) = world.context();
    let output = tool(&servers, "mcp__s__big").call(&json!({}), &context).await;
    let [Write::PutArtifact(whole)] = &output.update.writes[..] else { panic!("{:?}", output.update.writes) };
    assert_eq!((whole.bytes.len(), whole.thread_id), (200_000, context.thread_id));
    let pointer = format!("bytes left out; read_file artifact:{} shows all of it]", &whole.sha256[..16]);
    assert!(output_text(&output).contains(&pointer));
}

#[tokio::test]
async fn a_server_that_exits_during_a_call_is_restarted_by_the_next_call() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let first = world.call(&servers, "pid", "").await;
    let lost = world.call(&servers, "die", "thirst").await;
    let reason = "it ended with exit status: 3; last error output: dying of thirst";
    assert!(
        lost.starts_with(&format!(
            "error: The connection to the MCP server `s` was lost during the call: {reason}."
        )),
        "{lost}"
    );
    assert_eq!(state(&servers, "s"), (McpServerState::Failed, reason.to_owned()));
    let second = world.call(&servers, "pid", "").await;
    assert_ne!(first, second);
    assert_eq!(state(&servers, "s").0, McpServerState::Ready);
    assert_eq!(world.call(&servers, "pid", "").await, second);
}

#[tokio::test]
async fn a_server_does_not_inherit_the_whole_environment() {
    let world = McpFixture::new();
    let servers = world
        .connect(&[("s", with(program("plain"), "env", json!({"SEGUE_MCP_FIXTURE": "plain", "GIVEN": "1"})))])
        .await;
    assert_eq!(world.call(&servers, "environment", "GIVEN").await, "1");
    assert_eq!(world.call(&servers, "environment", "CARGO_MANIFEST_DIR").await, "(unset)");
    assert_ne!(world.call(&servers, "environment", "PATH").await, "(unset)");
}

#[tokio::test]
async fn progress_is_shown_and_a_cancelled_call_notifies_the_server() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let slow = tool(&servers, "mcp__s__slow");
    let (context, mut frames) = world.context();
    let call = {
        let context = context.clone();
        tokio::spawn(async move { slow.call(&json!({}), &context).await })
    };
    let Some(SubscriptionItem::Frame(_, frame)) = frames.next().await else { panic!("no frame") };
    let Frame::Progress { what, done, total } = &*frame else { panic!("{frame:?}") };
    assert_eq!((what.as_str(), *done, *total), ("s/slow: halfway", 1, Some(2)));
    context.cancel.cancel();
    assert_eq!(output_text(&call.await.unwrap()), "error: Cancelled; the server was told to stop.");
    assert_eq!(world.call(&servers, "was_cancelled", "").await, "yes");
}

#[tokio::test]
async fn dropping_a_call_ends_its_frame_stream() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let slow = tool(&servers, "mcp__s__slow");
    let (context, mut frames) = world.context();
    let call = tokio::spawn(async move { slow.call(&json!({}), &context).await });
    assert!(frames.next().await.is_some());
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let end = async { while frames.next().await.is_some() {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), end).await.expect("the stream has no end");
    assert_eq!(world.call(&servers, "echo", "and after").await, "and after");
}

#[tokio::test]
async fn many_progress_notifications_do_not_lose_the_response() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    assert_eq!(world.call(&servers, "babble", "").await, "done");
}

#[tokio::test]
async fn a_silent_call_times_out_and_others_continue() {
    let world = McpFixture::new();
    let servers = world.connect(&[("s", with(program("plain"), "timeout_seconds", 2))]).await;
    let (hung, echoed) =
        tokio::join!(world.call(&servers, "hang", ""), world.call(&servers, "echo", "still here"));
    assert!(hung.contains("sent no response and no progress for 2 s"), "{hung}");
    assert_eq!(echoed, "still here");
    assert_eq!(world.call(&servers, "echo", "and after").await, "and after");
}

#[tokio::test]
async fn a_server_that_sends_too_much_is_disconnected() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let flooded = world.call(&servers, "flood", "").await;
    assert!(flooded.contains("it sent more than 33554432 bytes and was cut off"), "{flooded}");
    assert_eq!(world.call(&servers, "echo", "again").await, "again");
}

#[tokio::test]
async fn new_tools_are_available_after_a_refresh() {
    let world = McpFixture::new();
    let servers = world.connect_one("plain").await;
    let count = servers.tools().len();
    assert_eq!(world.call(&servers, "more", "").await, "more");
    assert_eq!(servers.tools().len(), count);
    servers.refresh().await;
    assert_eq!(servers.tools().len(), count + 1);
    tool(&servers, "mcp__s__newcomer");
}

#[cfg(unix)]
#[tokio::test]
async fn no_process_of_a_server_outlives_the_agent() {
    let world = McpFixture::new();
    let (own, child) = (world.path("own"), world.path("child"));
    for by_closing in [true, false] {
        let servers = world.connect_one("plain").await;
        assert_eq!(world.call(&servers, "hold", own.to_str().unwrap()).await, "held");
        assert_eq!(world.call(&servers, "child", child.to_str().unwrap()).await, "held");
        if by_closing {
            servers.close().await;
        } else {
            drop(servers);
        }
        wait_for_lock(own.clone()).await;
        wait_for_lock(child.clone()).await;
    }
}

#[tokio::test]
async fn concurrent_calls_share_one_connection() {
    let world = McpFixture::new();
    let servers = Arc::new(world.connect_one("plain").await);
    world.call(&servers, "die", "").await;
    let (a, b) = tokio::join!(world.call(&servers, "pid", ""), world.call(&servers, "pid", ""));
    assert_eq!(a, b);
}
