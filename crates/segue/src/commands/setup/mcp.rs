//! `segue mcp`: lists and tests the configured MCP servers, and records the user's consent to the servers of a project.

use agent::{ConfigOrigin, ConsentDecision, McpServerState, McpServerStatus, PlannedServer, ServerReadiness};
use serde_json::{Value, json};
use terminal::{sanitize_line, sanitize_path, wrap};

use crate::cli::{McpCommand, OutputFormat};
use crate::commands::CommandContext;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Performs `segue mcp`.
///
/// # Errors
/// Fails if the server does not exist, or the configuration cannot be read. A server that cannot be started is part of
/// the output; the exit code is then that of an invalid setting.
pub(crate) async fn run(context: &CommandContext, args: McpCommand) -> CommandResult {
    match args {
        McpCommand::List => list_servers(context),
        McpCommand::Test { name } => test_servers(context, name.as_deref()).await,
        McpCommand::Allow { name } => record_consent(context, &name, ConsentDecision::Allow),
        McpCommand::Refuse { name } => record_consent(context, &name, ConsentDecision::Refuse),
    }
}

/// Lists the configured servers without starting them.
/// Servers of a project without consent are listed too, with the command that allows them.
///
/// # Errors
/// Fails if a configuration file cannot be read.
fn list_servers(context: &CommandContext) -> CommandResult {
    let servers = context.agent.admin().planned_mcp_servers()?;
    if context.format == OutputFormat::Json {
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.name, "source": source_name(server.origin), "what": server.target,
                    "variables": server.variables, "state": server_state(&server.readiness, context).0,
                })
            })
            .collect();
        context.print_json(&servers)?;
        return Ok(ExitReason::Success);
    }
    if servers.is_empty() {
        context.screen.print_line("No MCP server is configured, neither in config.toml nor in .mcp.json.")?;
    }
    for server in &servers {
        show_configured_server(context, server)?;
    }
    Ok(ExitReason::Success)
}

/// Prints a configured server: its source, its state, its command or URL, and the environment variables that it gets.
/// Only the names of environment variables are printed, because their values may be secrets.
fn show_configured_server(context: &CommandContext, server: &PlannedServer) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let (state, subcommand) = server_state(&server.readiness, context);
    screen.print_line(format!(
        "{}  {}",
        style.bold(sanitize_line(&server.name)),
        style.dim(format!("{} · {}", source_name(server.origin), sanitize_line(&state)))
    ))?;
    screen.print_line(wrap(&sanitize_line(&server.target), screen.columns, "    ", "    "))?;
    if !server.variables.is_empty() {
        let text = format!("gets the variables {}", sanitize_line(&server.variables.join(", ")));
        screen.print_line(style.dim(wrap(&text, screen.columns, "    ", "    ")))?;
    }
    if let Some(subcommand) = subcommand {
        let text = format!("hint: `segue mcp {subcommand} {}`", sanitize_line(&server.name));
        screen.print_line(style.dim(wrap(&text, screen.columns, "    ", "    ")))?;
    }
    Ok(())
}

/// Returns the state of a server as text, and the subcommand that allows the server if it may not start. A server whose
/// program does not exist is not ready.
fn server_state(readiness: &ServerReadiness, context: &CommandContext) -> (String, Option<&'static str>) {
    match readiness {
        ServerReadiness::Ready(definition) => {
            let missing = definition.missing_command(context.agent.workspace());
            (missing.map_or_else(|| "ready".to_owned(), |command| format!("not found: {command}")), None)
        }
        ServerReadiness::Disabled => ("disabled".to_owned(), None),
        ServerReadiness::Shadowed => ("shadowed by config.toml".to_owned(), None),
        ServerReadiness::ConsentPending => ("needs your consent".to_owned(), Some("allow")),
        ServerReadiness::ConsentRefused => ("refused".to_owned(), Some("allow")),
        ServerReadiness::Invalid(reason) => (format!("invalid: {reason}"), None),
    }
}

/// Returns the name of the file that configures a server.
const fn source_name(source: ConfigOrigin) -> &'static str {
    match source {
        ConfigOrigin::Config => "config.toml",
        ConfigOrigin::Project => ".mcp.json",
    }
}

/// Starts the servers, or one of them, and prints their tools.
/// A server that fails does not prevent the test of the others.
///
/// # Errors
/// Fails if the named server does not exist or a configuration file cannot be read.
async fn test_servers(context: &CommandContext, name: Option<&str>) -> CommandResult {
    let servers = context.agent.admin().test_mcp_servers(name).await?;
    if let (Some(name), true) = (name, servers.is_empty()) {
        return Err(unknown_server(name));
    }
    if context.format == OutputFormat::Json {
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.name, "source": source_name(server.origin), "what": server.target,
                    "state": state_name(server.state), "tools": server.tools, "error": server.error,
                    "notices": server.notices, "log": server.log,
                })
            })
            .collect();
        context.print_json(&servers)?;
    } else {
        for server in &servers {
            show_server_status(context, server)?;
        }
        if servers.is_empty() {
            context.screen.print_line("No MCP server is configured.")?;
        }
    }
    let has_failure =
        servers.iter().any(|server| matches!(server.state, McpServerState::Failed | McpServerState::Invalid));
    Ok(if has_failure { ExitReason::Config } else { ExitReason::Success })
}

/// Prints the state, the problems and the tools of a server that was tested.
fn show_server_status(context: &CommandContext, server: &McpServerStatus) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let mark = match server.state {
        McpServerState::Ready => style.good("✓"),
        McpServerState::Failed | McpServerState::Invalid => style.bad("✗"),
        McpServerState::Starting
        | McpServerState::Disabled
        | McpServerState::Shadowed
        | McpServerState::ConsentPending
        | McpServerState::ConsentRefused => style.dim("–"),
    };
    screen.print_line(format!(
        "{mark} {}  {}",
        style.bold(sanitize_line(&server.name)),
        style.dim(state_name(server.state))
    ))?;
    let notices = server.error.iter().chain(&server.notices);
    for text in notices {
        screen.print_line(style.warn(wrap(&sanitize_line(text), screen.columns, "    ", "    ")))?;
    }
    if let (Some(log), Some(_)) = (&server.log, &server.error) {
        screen.print_line(style.dim(format!("    log: {}", sanitize_path(log))))?;
    }
    for tool in &server.tools {
        screen.print_line(format!("    {}", sanitize_line(tool)))?;
    }
    Ok(())
}

/// Returns the name of a server's state, which is the same in JSON and in text.
const fn state_name(state: McpServerState) -> &'static str {
    match state {
        McpServerState::Ready => "ready",
        McpServerState::Starting => "starting",
        McpServerState::Failed => "failed",
        McpServerState::Disabled => "disabled",
        McpServerState::Shadowed => "shadowed",
        McpServerState::ConsentPending => "unasked",
        McpServerState::ConsentRefused => "refused",
        McpServerState::Invalid => "broken",
    }
}

/// Records the user's decision whether a server of the project may be started.
///
/// The consent belongs to the entry in `.mcp.json`, so a changed entry needs a new decision.
///
/// # Errors
/// Fails if the project has no such server, or the decision cannot be stored.
fn record_consent(context: &CommandContext, name: &str, decision: ConsentDecision) -> CommandResult {
    let servers = context.agent.admin().planned_mcp_servers()?;
    let is_named = |server: &&PlannedServer| server.name == name && server.origin == ConfigOrigin::Project;
    let Some(server) = servers.iter().find(is_named) else {
        return Err(unknown_server(name));
    };
    context.agent.admin().record_mcp_consent(server, decision)?;
    let result = match decision {
        ConsentDecision::Allow => "Allowed. Segue starts this server as long as its entry does not change:",
        ConsentDecision::Refuse => "Refused. Segue does not start this server:",
    };
    match context.format {
        OutputFormat::Json => {
            let is_allowed = decision == ConsentDecision::Allow;
            context.print_json(&json!({"name": server.name, "allowed": is_allowed}))?;
        }
        OutputFormat::Text => {
            context.screen.print_line(result)?;
            context.screen.print_line(wrap(
                &sanitize_line(&server.target),
                context.screen.columns,
                "    ",
                "    ",
            ))?;
        }
    }
    Ok(ExitReason::Success)
}

/// Returns the failure for a server that is not configured.
fn unknown_server(name: &str) -> CliFailure {
    CliFailure::new(ExitReason::User, format!("find an MCP server `{name}`"))
        .with_hint("`segue mcp list` lists the configured servers")
}
