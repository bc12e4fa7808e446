//! `segue pin` and `segue unpin`, and the chat's `/pin`, `/pins` and `/unpin`: shows and changes the pins of a thread. The
//! crate `memory` decides what can be pinned.

use agent::{PinReceipt, PinRequest, UnpinReceipt, estimate_tokens};
use protocol::{MessageRole, Pin, ThreadId};
use serde_json::{Value, json};
use terminal::{Screen, format_tokens, sanitize, wrap, wrap_lines};

use crate::cli::OutputFormat;
use crate::cli::memory::{PinArgs, UnpinArgs};
use crate::commands::history::search::CommandSyntax;
use crate::commands::import::format_count;
use crate::commands::memory::tiers::redaction_text;
use crate::commands::{CommandContext, read_stdin};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Performs `segue pin`. Without a text and a message, it lists the pins.
///
/// # Errors
/// Fails if the thread does not exist, or if the text or message cannot be pinned.
pub(crate) async fn run_pin(context: &CommandContext, args: PinArgs) -> CommandResult {
    let thread_id = context.agent.threads().find(&args.thread).await?.thread_id;
    let request = match (args.message, args.text.as_slice()) {
        (Some(seq), _) => PinRequest::Message(seq),
        (None, []) => return list_pins(context, thread_id, CommandSyntax::Shell).await,
        (None, [only]) if only == "-" => PinRequest::Text(read_stdin("the text to pin")?),
        (None, words) => PinRequest::from_text(&words.join(" ")),
    };
    let receipt = context.agent.memory().pin(thread_id, &request).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({
            "thread_id": thread_id, "pin": pin_json(&receipt.pin), "was_pinned": receipt.was_already_pinned,
            "withheld": receipt.redacted_secrets, "pins": pins_json(&receipt.pins),
        }))?,
        OutputFormat::Text => print_pin_receipt(&context.screen, &receipt)?,
    }
    Ok(ExitReason::Success)
}

/// Performs `segue unpin`.
///
/// # Errors
/// Fails if the thread does not exist, or has no pin with this number.
pub(crate) async fn run_unpin(context: &CommandContext, args: UnpinArgs) -> CommandResult {
    let thread_id = context.agent.threads().find(&args.thread).await?.thread_id;
    let receipt = context.agent.memory().unpin(thread_id, args.number).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({
            "thread_id": thread_id, "pin": pin_json(&receipt.pin), "pins": pins_json(&receipt.pins),
        }))?,
        OutputFormat::Text => print_unpin_receipt(&context.screen, &receipt)?,
    }
    Ok(ExitReason::Success)
}

/// Prints the pins of a thread with their size.
///
/// # Errors
/// Fails if the pins cannot be read, or if stdout cannot be written.
pub(crate) async fn list_pins(
    context: &CommandContext,
    thread_id: ThreadId,
    syntax: CommandSyntax,
) -> CommandResult {
    let pins = context.agent.memory().pins(thread_id).await?;
    let screen = &context.screen;
    match context.format {
        OutputFormat::Json => {
            context.print_json(&json!({"thread_id": thread_id, "pins": pins_json(&pins)}))?;
        }
        OutputFormat::Text if pins.is_empty() => {
            let hint = match syntax {
                CommandSyntax::Shell => {
                    "`segue pin THREAD TEXT` pins a text, `segue pin THREAD '#N'` the message with this number."
                }
                CommandSyntax::Chat => "/pin TEXT pins a text, /pin #N the message with this number.",
            };
            let text = format!("Nothing is pinned in this thread. {hint}");
            screen.print_line(screen.style.dim(wrap(&text, screen.text_columns(), "", "")))?;
        }
        OutputFormat::Text => {
            for pin in &pins {
                print_pin(screen, pin)?;
            }
            screen.print_line(screen.style.dim(wrap(&size_text(&pins), screen.text_columns(), "", "")))?;
        }
    }
    Ok(ExitReason::Success)
}

/// Prints a pin that was added, and the size of all pins.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_pin_receipt(screen: &Screen, receipt: &PinReceipt) -> Result<(), CliFailure> {
    let lead = if receipt.was_already_pinned { "Pinned already:" } else { "Pinned:" };
    screen.print_line(screen.style.dim(lead))?;
    print_pin(screen, &receipt.pin)?;
    if let Some(text) = redaction_text(receipt.redacted_secrets) {
        screen.print_line(screen.style.warn(text))?;
    }
    let text = size_text(&receipt.pins);
    Ok(screen.print_line(screen.style.dim(wrap(&text, screen.text_columns(), "", "")))?)
}

/// Prints a pin that was removed, and the size of the others.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_unpin_receipt(screen: &Screen, receipt: &UnpinReceipt) -> Result<(), CliFailure> {
    screen.print_line(screen.style.dim("Unpinned:"))?;
    print_pin(screen, &receipt.pin)?;
    let text = match receipt.pins.as_slice() {
        [] => "Nothing else is pinned in this thread.".to_owned(),
        pins => size_text(pins),
    };
    Ok(screen.print_line(screen.style.dim(wrap(&text, screen.text_columns(), "", "")))?)
}

/// Prints a pin: its number, its author and its text.
fn print_pin(screen: &Screen, pin: &Pin) -> Result<(), CliFailure> {
    let origin = match (pin.message_seq, pin.author) {
        (Some(seq), MessageRole::User) => format!("your message #{seq}"),
        (Some(seq), MessageRole::Assistant) => format!("answer #{seq}"),
        (None, MessageRole::User) => "your text".to_owned(),
        (None, MessageRole::Assistant) => "an answer of an earlier thread".to_owned(),
    };
    screen.print_line(format!(
        "{} {}",
        screen.style.code(pin.number.to_string()),
        screen.style.dim(origin)
    ))?;
    Ok(screen.print_line(wrap_lines(&sanitize(&pin.text), screen.text_columns(), "  "))?)
}

/// Returns the sentence about the number of pins and their share of every request.
fn size_text(pins: &[Pin]) -> String {
    let tokens: u64 = pins.iter().map(|pin| estimate_tokens(&pin.text)).sum();
    format!(
        "{}, about {} tokens of every request of this thread.",
        format_count(pins.len() as u64, "pin"),
        format_tokens(tokens)
    )
}

/// Returns a pin as JSON, with its size.
fn pin_json(pin: &Pin) -> Value {
    json!({
        "number": pin.number, "text": pin.text, "author": pin.author, "message_seq": pin.message_seq,
        "pinned_at": pin.pinned_at, "tokens": estimate_tokens(&pin.text),
    })
}

/// Returns the pins as JSON.
fn pins_json(pins: &[Pin]) -> Vec<Value> {
    pins.iter().map(pin_json).collect()
}
