//! `segue models`: which models can be used, why the others cannot, and where each setting was found.

use terminal::{one_line, wrap};

use crate::cli::Format;
use crate::commands::Context;
use crate::exit::{Code, Outcome};

/// Performs the command.
pub(crate) fn run(context: &Context) -> Outcome {
    let status = context.agent.models();
    if context.format == Format::Json {
        context.json(&status)?;
        return Ok(Code::Done);
    }
    let (screen, style) = (&context.screen, context.screen.style);
    match (&status.default, &status.default_from) {
        (Some(name), Some(from)) => {
            screen.line(format!(
                "In use: {} {}",
                style.bold(one_line(name)),
                style.dim(format!("(from {})", one_line(from)))
            ))?;
        }
        (Some(name), None) => screen.line(format!("In use: {}", style.bold(one_line(name))))?,
        (None, _) => screen.line("No model is configured: handoffs are written by the offline extract.")?,
    }
    if let Some(problem) = &status.problem {
        screen.line(style.warn(wrap(
            &format!("It cannot be used: {}", one_line(problem)),
            screen.columns,
            "",
            "",
        )))?;
    }
    screen.line("")?;
    for provider in &status.providers {
        let mark = if provider.configured { style.good("✓") } else { style.dim("–") };
        screen.line(format!(
            "{mark} {}  {}",
            style.bold(&provider.provider),
            style.dim(one_line(&provider.base_url))
        ))?;
        screen.line(wrap(&one_line(&provider.reason), screen.text_columns(), "    ", "    "))?;
    }
    if status.default.is_none() {
        screen.line("")?;
        screen.line("Choose one with `--model PROVIDER/NAME`, SEGUE_MODEL, or `model` in config.toml.")?;
    }
    Ok(Code::Done)
}
