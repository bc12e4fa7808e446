//! Renders agent.md and a thread's handed-over summary into the system prompt, as delimited, inert reference
//! data. The caller decides which summary applies and when.

use model::untrusted_text;
use protocol::CarriedFacts;

use crate::file::project_notes::{NotesScope, remove_hidden_notes};
use crate::file::{AGENT_MD_BYTES_MAX, AgentFileSnapshot, ReadExtent};
use crate::managed_block::{self, PLACEHOLDER};

/// Template for the facts that are carried over with a handed-over summary.
const CARRIED_OVER_TEMPLATE: &str = include_str!("../prompts/carried_over.md");
/// Template for both texts.
const AGENT_MD_TEMPLATE: &str = include_str!("../prompts/agent_md.md");

/// Text that follows a summary and explains how to find the original messages.
const ORIGINAL_MESSAGES: &str = include_str!("../prompts/original_messages.md");

/// A section of the system prompt with its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// The text sent to the model.
    pub text: String,
    /// The sources that a `memory_read` event records.
    pub sources: Vec<PromptSource>,
}

/// A source of a prompt section, identified by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSource {
    /// Name of the source: `agent.md`, `current_thread_summary`, or the name of a prompt file.
    pub name: &'static str,
    /// Lowercase hex SHA-256 of its bytes.
    pub sha256: String,
}

/// The values of the template's fields.
struct AgentMdFields {
    agent_md: String,
    current_thread_summary: String,
}

/// A thread's handed-over summary: the text that the user accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InheritedSummary {
    /// The summary with its facts, as it was accepted.
    pub package_md: String,
    /// The facts of a summary of an older version, which its text does not contain.
    pub separate_facts: Option<CarriedFacts>,
}

/// Returns the section of the system prompt with the notes of `agent_md` in this scope and the summaries handed over to
/// this thread, in this order.
///
/// The content of the file's block belongs to another thread and is never used. Without a summary the placeholder
/// appears in its place. With one or more, the section explains how to find the messages that it was made from. Comments
/// outside code fences are removed. Everything that could be read as a tag is escaped.
pub fn build_prompt_section(
    agent_md: &AgentFileSnapshot,
    scope: &NotesScope,
    summaries: &[InheritedSummary],
) -> PromptSection {
    let mut notes = untrusted_text::neutralize(&visible_notes(agent_md, scope));
    match agent_md.extent {
        ReadExtent::Whole => {}
        ReadExtent::Beginning => {
            notes.push_str(&format!(
                "\n[agent.md is longer than {AGENT_MD_BYTES_MAX} bytes; the rest is left out]"
            ));
        }
    }
    let mut sources = vec![
        PromptSource { name: "agent.md", sha256: agent_md.sha256.clone() },
        PromptSource { name: "prompts/agent_md.md", sha256: protocol::sha256_hex(AGENT_MD_TEMPLATE) },
    ];
    let texts: Vec<String> =
        summaries.iter().map(|summary| untrusted_text::neutralize(&summary.package_md)).collect();
    let shown = if texts.is_empty() { PLACEHOLDER.to_owned() } else { texts.join("\n\n") };
    let mut text = fill_template(&AgentMdFields { agent_md: notes, current_thread_summary: shown });
    for summary in summaries {
        sources.push(PromptSource {
            name: "current_thread_summary",
            sha256: protocol::sha256_hex(&summary.package_md),
        });
        let facts = summary.separate_facts.as_ref().map(facts::render_carried_facts).unwrap_or_default();
        if !facts.is_empty() {
            sources.push(PromptSource { name: "carried_over", sha256: protocol::sha256_hex(&facts) });
            text.push('\n');
            text.push_str(&CARRIED_OVER_TEMPLATE.replace("{{facts}}", &facts));
        }
    }
    if !summaries.is_empty() {
        let hint = protocol::sha256_hex(ORIGINAL_MESSAGES);
        sources.push(PromptSource { name: "prompts/original_messages.md", sha256: hint });
        text.push('\n');
        text.push_str(ORIGINAL_MESSAGES);
    }
    PromptSection { text, sources }
}

/// Returns the notes that conversations with this scope see, without comments. Tags are not escaped.
pub(crate) fn visible_notes(agent_md: &AgentFileSnapshot, scope: &NotesScope) -> String {
    let without_block = managed_block::remove_blocks(&agent_md.bytes);
    let stray_text = agent_md.stray_text.as_deref();
    let without_stray = stray_text.and_then(|own| managed_block::remove_own_text(&without_block, own));
    let without_block = without_stray.unwrap_or(without_block);
    let visible = remove_hidden_notes(&without_block, scope);
    let notes = strip_comments(&String::from_utf8_lossy(&visible));
    notes.trim_start_matches('\u{feff}').trim().to_owned()
}

/// Fills the template in one pass, so that a placeholder inside a value stays text.
fn fill_template(fields: &AgentMdFields) -> String {
    let mut text = String::with_capacity(
        AGENT_MD_TEMPLATE.len() + fields.agent_md.len() + fields.current_thread_summary.len(),
    );
    let mut remaining = AGENT_MD_TEMPLATE;
    while let Some((before, after)) = remaining.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a test reads the template to its end");
        text.push_str(before);
        text.push_str(
            template_field(fields, name).expect("a test looks up every placeholder of the template"),
        );
        remaining = after;
    }
    text.push_str(remaining);
    text
}

/// Returns the value of a field of the template by its name.
fn template_field<'a>(fields: &'a AgentMdFields, name: &str) -> Option<&'a str> {
    match name {
        "agent_md" => Some(&fields.agent_md),
        "current_thread_summary" => Some(&fields.current_thread_summary),
        _ => None,
    }
}

/// Returns `text` without HTML comments. Comments in code fences and unclosed comments stay.
fn strip_comments(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    let mut remaining = text;
    // The number of bytes behind the current line. Several comments on one line do not search its end again.
    let mut behind_line = text.len();
    // False after an unclosed comment: no later comment is closed either.
    let mut closable = true;
    while !remaining.is_empty() {
        if remaining.len() <= behind_line {
            behind_line = remaining.find('\n').map_or(0, |newline| remaining.len() - newline - 1);
        }
        let line = &remaining[..remaining.len() - behind_line];
        let opened = if fence.is_none() && closable { line.find("<!--") } else { None };
        match opened.and_then(|start| Some((start, start + 4 + remaining[start + 4..].find("-->")? + 3))) {
            Some((start, end)) => {
                output.push_str(&remaining[..start]);
                remaining = &remaining[end..];
                // A comment on lines of its own leaves no blank line.
                if output.is_empty() || output.ends_with('\n') {
                    remaining = remaining
                        .strip_prefix("\r\n")
                        .or_else(|| remaining.strip_prefix('\n'))
                        .unwrap_or(remaining);
                }
            }
            None => {
                closable &= opened.is_none();
                fence = open_fence_after(fence, line.trim());
                output.push_str(line);
                remaining = &remaining[line.len()..];
            }
        }
    }
    output
}

/// Returns the marker of the code fence that is open after `line`, if any.
pub(crate) fn open_fence_after<'a>(open: Option<&'a str>, line: &str) -> Option<&'a str> {
    match open {
        Some(mark) if line.starts_with(mark) && line.trim_start_matches(&mark[..1]).is_empty() => None,
        Some(mark) => Some(mark),
        None => ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark)),
    }
}

#[cfg(test)]
mod tests;
