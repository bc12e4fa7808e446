//! Starting servers: failures, caches, large tool lists and retries.

use std::sync::Arc;

use mcp::{McpServerState, McpServers, StartupWait};
use sandbox::{NetworkAccess, PrepareLaunch, ProgramLaunch, ProgramStart};
use serde_json::json;

use crate::world::{McpFixture, no_sandbox, plan, program, state, status, tool, with};

/// Returns the configuration of a server with a start timeout of one second.
fn with_short_timeout(behaviour: &str) -> serde_json::Value {
    with(program(behaviour), "start_timeout_seconds", 1)
}

#[tokio::test]
async fn failing_servers_do_not_delay_the_others() {
    let world = McpFixture::new();
    let missing = json!({"command": "no-such-program-anywhere"});
    let servers = world
        .connect(&[
            ("s", program("plain")),
            ("broken", json!({"args": ["x"]})),
            ("exit", program("exit")),
            ("flood", program("flood")),
            ("garbage", with_short_timeout("garbage")),
            ("missing", missing),
            ("mute", with_short_timeout("mute")),
            ("off", with(program("plain"), "enabled", false)),
        ])
        .await;
    let failed = |reason: &str| (McpServerState::Failed, reason.to_owned());
    assert_eq!(
        state(&servers, "exit"),
        failed("it ended with exit status: 7; last error output: out of [31mcheese")
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
async fn of_ten_thousand_tools_the_first_or_the_selected_are_used() {
    let world = McpFixture::new();
    let many = with(program("many"), "start_timeout_seconds", 60);
    let selecting = with(many.clone(), "tools", json!(["tool_09999", "nothing"]));
    let servers = world.connect(&[("many", many), ("selecting", selecting)]).await;
    let many = status(&servers, "many");
    assert_eq!((many.state, many.tools.len()), (McpServerState::Ready, 128));
    assert_eq!(
        many.notices,
        ["it has 10000 tools, of which the first 128 are used; select others with `tools`"]
    );
    let selecting = status(&servers, "selecting");
    assert_eq!(selecting.tools, ["mcp__selecting__tool_09999"]);
    assert_eq!(selecting.notices, ["it has no tool `nothing`"]);
}

#[tokio::test]
async fn a_server_without_an_initialize_request_is_supported() {
    let world = McpFixture::new();
    let servers = world.connect_one("modern").await;
    assert_eq!(state(&servers, "s"), (McpServerState::Ready, String::new()));
    assert_eq!(world.call(&servers, "echo", "hello").await, "hello");
}

#[tokio::test]
async fn a_program_is_started_as_its_sandbox_requires_and_not_without_it() {
    let world = McpFixture::new();
    let sandboxed = with(program("plain"), "sandbox", true);
    let sandbox_with = |network: NetworkAccess| -> PrepareLaunch {
        Arc::new(move |start: &ProgramStart<'_>| match network {
            NetworkAccess::On => Err("this system has no sandbox".to_owned()),
            NetworkAccess::Off => Ok(ProgramLaunch {
                prefix: vec!["/usr/bin/env".into(), format!("STARTED={}", start.program.display()).into()],
                variables: vec![("TMPDIR", "/private".into())],
                removed_variables: &["PATH"],
            }),
        })
    };
    let plan = plan(&[("s", sandboxed.clone()), ("t", with(sandboxed, "network", true))]);
    let servers = McpServers::connect(plan, &world.folders(), StartupWait::WaitForAll, sandbox_with).await;
    let program = std::env::current_exe().unwrap().display().to_string();
    assert_eq!(world.call(&servers, "environment", "STARTED").await, program);
    assert_eq!(world.call(&servers, "environment", "TMPDIR").await, "/private");
    assert_eq!(world.call(&servers, "environment", "PATH").await, "(unset)");
    let reason = format!("`{program}` cannot be started: this system has no sandbox");
    assert_eq!(state(&servers, "t"), (McpServerState::Failed, reason));
}

#[tokio::test]
async fn cached_tools_are_available_before_the_server_has_started() {
    let world = McpFixture::new();
    world.connect_one("plain").await.close().await;
    let plan = || plan(&[("s", program("plain"))]);
    let servers =
        McpServers::connect(plan(), &world.folders(), StartupWait::UseCachedTools, no_sandbox).await;
    // The test runtime has one thread, so the background task has not run yet.
    assert_eq!(state(&servers, "s").0, McpServerState::Starting);
    tool(&servers, "mcp__s__echo");
    assert_eq!(world.call(&servers, "echo", "here").await, "here");
    assert_eq!(state(&servers, "s").0, McpServerState::Ready);
}

#[tokio::test]
async fn a_changed_configuration_invalidates_the_cached_tools() {
    let world = McpFixture::new();
    world.connect_one("plain").await.close().await;
    let changed = plan(&[("s", program("plain too"))]);
    let servers =
        McpServers::connect(changed, &world.folders(), StartupWait::UseCachedTools, no_sandbox).await;
    assert_eq!(state(&servers, "s").0, McpServerState::Ready);
}

#[cfg(unix)]
#[tokio::test]
async fn an_unreachable_server_is_connected_again_after_the_retry_interval() {
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
