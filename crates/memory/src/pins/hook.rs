//! The hook of pins: adds the pins of a thread to each of its model requests, as a delimited and inert section of the
//! system prompt.

use async_trait::async_trait;
use minijinja::{Environment, UndefinedBehavior};
use model::{ChatRequest, untrusted_text};
use protocol::{MessageRole, Pin};
use runtime::{Channels, FailureKind, GraphUpdate, Hook, HookPoint, StepContext, StepFailure};
use serde::Serialize;

use super::ThreadPins;
use crate::hook::memory_read_event;
use crate::prompt::{PromptSection, PromptSource};

/// The template of the section.
const PINS_TEMPLATE: &str = include_str!("../../prompts/pins.md");

/// Adds the thread's pins to every model request.
///
/// They are read before every request, so that a pin takes effect at once, even within a run. The section changes only
/// when the pins do, so that the provider's prompt cache holds in between. It must precede sections that change more often.
pub struct PinsHook;

/// The values of the template's fields.
#[derive(Serialize)]
struct PinsFields {
    pins: Vec<PinEntry>,
}

/// A pin in the form that the template expects.
#[derive(Serialize)]
struct PinEntry {
    number: u64,
    author: &'static str,
    /// The text, escaped.
    text: String,
}

#[async_trait]
impl Hook for PinsHook {
    fn name(&self) -> &'static str {
        "Pins"
    }

    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        true
    }

    /// Appends the section to the system prompt and records its sources as an event. The section is marked as volatile, so
    /// that threads with different pins share the provider's cache of the parts before it.
    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let ThreadPins { pins, .. } = ThreadPins::read(&**step.store, step.thread_id).await?;
        if pins.is_empty() {
            return Ok(GraphUpdate::default());
        }
        let section = build_section(&pins)?;
        let event = memory_read_event(&section)?;
        request.system.push(section.text);
        request.system_volatile += 1;
        Ok(GraphUpdate { events: vec![event], ..GraphUpdate::default() })
    }
}

/// Returns the section with these pins.
fn build_section(pins: &[Pin]) -> Result<PromptSection, StepFailure> {
    let mut sources: Vec<PromptSource> = pins
        .iter()
        .map(|pin| PromptSource { name: "pin", sha256: protocol::sha256_hex(&pin.text) })
        .collect();
    let template = protocol::sha256_hex(PINS_TEMPLATE);
    sources.push(PromptSource { name: "prompts/pins.md", sha256: template });
    let entries = pins.iter().map(|pin| PinEntry {
        number: pin.number,
        author: match pin.author {
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
        },
        text: untrusted_text::neutralize(&pin.text),
    });
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let fields = minijinja::Value::from(minijinja::value::Serde(PinsFields { pins: entries.collect() }));
    let failed =
        |error: minijinja::Error| StepFailure::new(FailureKind::Internal, format!("write a prompt: {error}"));
    let text = environment.render_str(PINS_TEMPLATE, fields).map_err(failed)?;
    Ok(PromptSection { text, sources })
}
