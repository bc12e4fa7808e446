//! `segue mcp`: the MCP servers that are written down, whether each answers, and a person's consent to those that the
//! project brings along.

use agent::{McpAnswer, McpServer, McpSource, ServerState, ServerStatus, Standing};
use serde_json::{Value, json};
use terminal::{one_line, shown_path, wrap};

use crate::cli::{Format, Mcp};
use crate::commands::Context;
use crate::exit::{Code, Failure, Outcome};

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Mcp) -> Outcome {
    match args {
        Mcp::List => list(context),
        Mcp::Test { name } => test(context, name.as_deref()).await,
        Mcp::Allow { name } => consent(context, &name, McpAnswer::Allow),
        Mcp::Refuse { name } => consent(context, &name, McpAnswer::Refuse),
    }
}

fn list(context: &Context) -> Outcome {
    let servers = context.agent.admin().mcp_plan()?;
    if context.format == Format::Json {
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.name, "source": source(server.source), "what": server.what,
                    "variables": server.variables, "state": standing(&server.standing).0,
                })
            })
            .collect();
        context.json(&servers)?;
        return Ok(Code::Done);
    }
    if servers.is_empty() {
        context.screen.line("No MCP server is written down, neither in config.toml nor in .mcp.json.")?;
    }
    for server in &servers {
        show_planned(context, server)?;
    }
    Ok(Code::Done)
}

fn show_planned(context: &Context, server: &McpServer) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let (state, what_to_do) = standing(&server.standing);
    screen.line(format!(
        "{}  {}",
        style.bold(one_line(&server.name)),
        style.dim(format!("{} · {}", source(server.source), one_line(&state)))
    ))?;
    screen.line(wrap(&one_line(&server.what), screen.columns, "    ", "    "))?;
    if !server.variables.is_empty() {
        let text = format!("is given the variables {}", one_line(&server.variables.join(", ")));
        screen.line(style.dim(wrap(&text, screen.columns, "    ", "    ")))?;
    }
    if let Some(command) = what_to_do {
        let text = format!("hint: `segue mcp {command} {}`", one_line(&server.name));
        screen.line(style.dim(wrap(&text, screen.columns, "    ", "    ")))?;
    }
    Ok(())
}

/// Returns what comes of a server, and the command that changes that.
fn standing(standing: &Standing) -> (String, Option<&'static str>) {
    match standing {
        Standing::Ready(_) => ("ready".to_owned(), None),
        Standing::Disabled => ("disabled".to_owned(), None),
        Standing::Shadowed => ("shadowed by config.toml".to_owned(), None),
        Standing::Unasked => ("waits for your consent".to_owned(), Some("allow")),
        Standing::Refused => ("refused".to_owned(), Some("allow")),
        Standing::Broken(reason) => (format!("broken: {reason}"), None),
    }
}

const fn source(source: McpSource) -> &'static str {
    match source {
        McpSource::Config => "config.toml",
        McpSource::Project => ".mcp.json",
    }
}

async fn test(context: &Context, name: Option<&str>) -> Outcome {
    let servers = context.agent.admin().mcp_test(name).await?;
    if let (Some(name), true) = (name, servers.is_empty()) {
        return Err(unknown(name));
    }
    if context.format == Format::Json {
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| {
                json!({
                    "name": server.name, "source": source(server.source), "what": server.what,
                    "state": state(server.state), "tools": server.tools, "error": server.error,
                    "notices": server.notices, "log": server.log,
                })
            })
            .collect();
        context.json(&servers)?;
    } else {
        for server in &servers {
            show_status(context, server)?;
        }
        if servers.is_empty() {
            context.screen.line("No MCP server is written down.")?;
        }
    }
    let fails =
        servers.iter().any(|server| matches!(server.state, ServerState::Failed | ServerState::Broken));
    Ok(if fails { Code::Config } else { Code::Done })
}

fn show_status(context: &Context, server: &ServerStatus) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let mark = match server.state {
        ServerState::Ready => style.good("✓"),
        ServerState::Failed | ServerState::Broken => style.bad("✗"),
        ServerState::Starting
        | ServerState::Disabled
        | ServerState::Shadowed
        | ServerState::Unasked
        | ServerState::Refused => style.dim("–"),
    };
    screen.line(format!(
        "{mark} {}  {}",
        style.bold(one_line(&server.name)),
        style.dim(state(server.state))
    ))?;
    let notices = server.error.iter().chain(&server.notices);
    for text in notices {
        screen.line(style.warn(wrap(&one_line(text), screen.columns, "    ", "    ")))?;
    }
    if let (Some(log), Some(_)) = (&server.log, &server.error) {
        screen.line(style.dim(format!("    what it said: {}", shown_path(log))))?;
    }
    for tool in &server.tools {
        screen.line(format!("    {}", one_line(tool)))?;
    }
    Ok(())
}

const fn state(state: ServerState) -> &'static str {
    match state {
        ServerState::Ready => "ready",
        ServerState::Starting => "starting",
        ServerState::Failed => "failed",
        ServerState::Disabled => "disabled",
        ServerState::Shadowed => "shadowed",
        ServerState::Unasked => "unasked",
        ServerState::Refused => "refused",
        ServerState::Broken => "broken",
    }
}

fn consent(context: &Context, name: &str, answer: McpAnswer) -> Outcome {
    let servers = context.agent.admin().mcp_plan()?;
    let is_named = |server: &&McpServer| server.name == name && server.source == McpSource::Project;
    let Some(server) = servers.iter().find(is_named) else {
        return Err(unknown(name));
    };
    context.agent.admin().mcp_consent(server, answer)?;
    let done = match answer {
        McpAnswer::Allow => "It is started from now on, as long as its description stays as it is:",
        McpAnswer::Refuse => "It is not started:",
    };
    match context.format {
        Format::Json => context.json(&json!({"name": server.name, "allowed": answer == McpAnswer::Allow}))?,
        Format::Text => {
            context.screen.line(done)?;
            context.screen.line(wrap(&one_line(&server.what), context.screen.columns, "    ", "    "))?;
        }
    }
    Ok(Code::Done)
}

fn unknown(name: &str) -> Failure {
    Failure::new(Code::User, format!("find an MCP server `{name}`"))
        .with_hint("`segue mcp list` shows what is written down")
}
