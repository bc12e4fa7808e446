//! Servers that start badly, and those that start beside them.

use mcp::{McpServerState, McpServers, StartupWait};
use serde_json::json;

use crate::world::{McpFixture, plan, program, state, status, tool, with};

fn hurried(behaviour: &str) -> serde_json::Value {
    with(program(behaviour), "start_timeout_seconds", 1)
}

#[tokio::test]
async fn servers_that_fail_do_not_hold_up_the_others() {
    let world = McpFixture::new();
    let missing = json!({"command": "no-such-program-anywhere"});
    let servers = world
        .connect(&[
            ("s", program("plain")),
            ("broken", json!({"args": ["x"]})),
            ("exit", program("exit")),
            ("flood", program("flood")),
            ("garbage", hurried("garbage")),
            ("missing", missing),
            ("mute", hurried("mute")),
            ("off", with(program("plain"), "enabled", false)),
        ])
        .await;
    let failed = |reason: &str| (McpServerState::Failed, reason.to_owned());
    assert_eq!(
        state(&servers, "exit"),
        failed("it ended with exit status: 7; its last words: out of [31mcheese")
    );
    assert_eq!(state(&servers, "flood"), failed("it sent more than 33554432 bytes and was cut off"));
    assert_eq!(state(&servers, "garbage"), failed("it did not answer in time"));
    assert_eq!(
        state(&servers, "missing"),
        failed("`no-such-program-anywhere` cannot be started: No such file or directory (os error 2)")
    );
    assert_eq!(state(&servers, "mute"), failed("it did not answer in time"));
    assert_eq!(state(&servers, "off"), (McpServerState::Disabled, String::new()));
    assert_eq!(state(&servers, "broken").0, McpServerState::Invalid);
    assert_eq!(state(&servers, "s"), (McpServerState::Ready, String::new()));
    assert_eq!(world.call(&servers, "echo", "fine").await, "fine");
    let log = status(&servers, "exit").log.unwrap();
    assert!(std::fs::read_to_string(log).unwrap().starts_with("first words\n"));
}

#[tokio::test]
async fn of_ten_thousand_tools_some_are_used() {
    let world = McpFixture::new();
    let many = with(program("many"), "start_timeout_seconds", 60);
    let wanting = with(many.clone(), "tools", json!(["tool_09999", "nothing"]));
    let servers = world.connect(&[("many", many), ("wanting", wanting)]).await;
    let many = status(&servers, "many");
    assert_eq!((many.state, many.tools.len()), (McpServerState::Ready, 128));
    assert_eq!(many.notices, ["it has 10000 tools, and the first 128 are used; `tools` names others"]);
    let wanting = status(&servers, "wanting");
    assert_eq!(wanting.tools, ["mcp__wanting__tool_09999"]);
    assert_eq!(wanting.notices, ["it has no tool `nothing`"]);
}

#[tokio::test]
async fn a_server_without_a_greeting_is_understood() {
    let world = McpFixture::new();
    let servers = world.connect_one("modern").await;
    assert_eq!(state(&servers, "s"), (McpServerState::Ready, String::new()));
    assert_eq!(world.call(&servers, "echo", "hello").await, "hello");
}

#[tokio::test]
async fn tools_of_the_last_time_are_there_before_the_server_is() {
    let world = McpFixture::new();
    world.connect_one("plain").await.close().await;
    let plan = || plan(&[("s", program("plain"))]);
    let servers = McpServers::connect(plan(), &world.folders(), StartupWait::UseCachedTools).await;
    // On one thread nothing was started meanwhile.
    assert_eq!(state(&servers, "s").0, McpServerState::Starting);
    tool(&servers, "mcp__s__echo");
    assert_eq!(world.call(&servers, "echo", "here").await, "here");
    assert_eq!(state(&servers, "s").0, McpServerState::Ready);
}

#[tokio::test]
async fn a_server_that_is_described_otherwise_is_asked_again() {
    let world = McpFixture::new();
    world.connect_one("plain").await.close().await;
    let changed = plan(&[("s", program("plain too"))]);
    let servers = McpServers::connect(changed, &world.folders(), StartupWait::UseCachedTools).await;
    assert_eq!(state(&servers, "s").0, McpServerState::Ready);
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_could_not_be_reached_is_tried_again_later() {
    let world = McpFixture::new();
    let path = world.path("server");
    let servers = world.connect(&[("s", with(program("plain"), "command", path.to_str().unwrap()))]).await;
    assert_eq!(state(&servers, "s").0, McpServerState::Failed);
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), path).unwrap();
    servers.refresh().await;
    assert_eq!(state(&servers, "s").0, McpServerState::Failed);
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    tokio::time::resume();
    servers.refresh().await;
    while state(&servers, "s").0 == McpServerState::Failed {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.call(&servers, "echo", "back").await, "back");
}
