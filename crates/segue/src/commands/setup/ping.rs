//! `segue ping`: asks a running server whether it is healthy. The command opens no home folder and no database.

use http::ServerUrl;
use serde_json::json;
use terminal::sanitize_line;

use crate::cli::serve::PingArgs;
use crate::cli::{GlobalArgs, OutputFormat};
use crate::exit::{CliFailure, CommandResult, ExitReason};

use super::serve::default_address;

/// Performs `segue ping`.
///
/// # Errors
/// Fails if the address in the environment is invalid, the server cannot be reached or is not healthy, or stdout cannot
/// be written.
pub(crate) async fn run(global: &GlobalArgs, args: &PingArgs) -> CommandResult {
    let server = match &args.url {
        Some(url) => url.clone(),
        None => parse_address(&default_address())?,
    };
    http::check_health(&server).await?;
    let url = server.to_string();
    let line = match global.format() {
        OutputFormat::Json => json!({"url": url, "ok": true}).to_string(),
        OutputFormat::Text => format!("The server at {url} works and can read its database."),
    };
    global.screen().print_line(line)?;
    Ok(ExitReason::Success)
}

/// Parses the address in the environment.
///
/// # Errors
/// Fails if the text is neither a URL nor an address.
fn parse_address(text: &str) -> Result<ServerUrl, CliFailure> {
    text.parse().map_err(|reason| {
        CliFailure::new(ExitReason::User, format!("ping `{}`: {reason}", sanitize_line(text)))
            .with_hint("set SEGUE_ADDR to HOST:PORT, such as 127.0.0.1:2024")
    })
}
