//! `segue models`: the selected model, and for each provider whether it can be used and the source of its API key.

use terminal::{sanitize_line, wrap};

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::exit::{CommandResult, ExitReason};

/// Performs `segue models`.
///
/// No provider is called: the command only reports the configuration, so it works offline and costs nothing.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn run(context: &CommandContext) -> CommandResult {
    let status = context.agent.model_status();
    if context.format == OutputFormat::Json {
        context.print_json(&status)?;
        return Ok(ExitReason::Success);
    }
    let (screen, style) = (&context.screen, context.screen.style);
    match (&status.default, &status.default_from) {
        (Some(name), Some(from)) => {
            screen.print_line(format!(
                "In use: {} {}",
                style.bold(sanitize_line(name)),
                style.dim(format!("(from {})", sanitize_line(from)))
            ))?;
        }
        (Some(name), None) => screen.print_line(format!("In use: {}", style.bold(sanitize_line(name))))?,
        (None, _) => screen.print_line("No model is configured: handoffs use the offline summary.")?,
    }
    if let Some(problem) = &status.problem {
        screen.print_line(style.warn(wrap(
            &format!("This model cannot be used: {}", sanitize_line(problem)),
            screen.columns,
            "",
            "",
        )))?;
    }
    screen.print_line("")?;
    for provider in &status.providers {
        let mark = if provider.configured { style.good("✓") } else { style.dim("–") };
        screen.print_line(format!(
            "{mark} {}  {}",
            style.bold(&provider.provider),
            style.dim(sanitize_line(&provider.base_url))
        ))?;
        screen.print_line(wrap(&sanitize_line(&provider.reason), screen.text_columns(), "    ", "    "))?;
    }
    if status.default.is_none() {
        screen.print_line("")?;
        screen.print_line(
            "Choose a model with `--model PROVIDER/NAME`, SEGUE_MODEL, or `model` in config.toml.",
        )?;
    }
    Ok(ExitReason::Success)
}
