//! A person's own text for a summary: read back from the Markdown they edited, or from JSON a client sent. What they
//! wrote is kept; this only finds the structure in it and refuses what is none.

use protocol::{HandoffSummary, ItemKind, SummaryItem};
use runtime::Rejection;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{BODY_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::review::decide::Edited;
use crate::summary::render;

/// Tokens of a summary a person wrote; theirs is not cut at the drafting budget, but it goes into a prompt.
const EDITED_TOKENS_MAX: u64 = 4_000;

/// Who wrote an edited summary, in the place of a model.
const AUTHOR: &str = "user";

/// Reads a summary from the Markdown a person edited.
pub(crate) fn from_markdown(
    shown: &HandoffSummary,
    text: &str,
    title: Option<&str>,
) -> Result<Edited, Rejection> {
    let text = clean(&without_comments(text));
    let text = text.trim();
    if text.is_empty() {
        return Err(Rejection::Invalid("the text is empty: write something, or decline".to_owned()));
    }
    let mut summary = HandoffSummary { model: AUTHOR.to_owned(), tokens_used: 0, ..shown.clone() };
    summary.body = Vec::new();
    let mut found = Found::default();
    for line in text.lines() {
        found.line(line, &mut summary.body);
    }
    summary.title = title.map(str::to_owned).or(found.title).unwrap_or_else(|| shown.title.clone());
    summary.tldr = found.tldr.unwrap_or_else(|| shown.tldr.clone());
    summary.body.sort_by_key(|item| item.kind);
    let summary_md = if title.is_some() { render::render(&summary) } else { text.to_owned() };
    checked(summary, summary_md)
}

/// Reads a summary from the JSON a client sent; the fields that identify the handoff stay as they are.
pub(crate) fn from_json(shown: &HandoffSummary, json: &Value) -> Result<Edited, Rejection> {
    let field = |name: &str| json.get(name).cloned().ok_or_else(|| missing(name));
    let text = |name: &str| match field(name)? {
        Value::String(text) => Ok(clean(text.trim())),
        _ => Err(missing(name)),
    };
    let mut body: Vec<SummaryItem> = serde_json::from_value(field("body")?)
        .map_err(|error| Rejection::Invalid(format!("`summary_json.body` cannot be read: {error}")))?;
    for item in &mut body {
        item.text = clean(item.text.trim());
    }
    body.sort_by_key(|item| item.kind);
    let summary = HandoffSummary {
        title: text("title")?,
        tldr: text("tldr")?,
        body,
        model: AUTHOR.to_owned(),
        tokens_used: 0,
        ..shown.clone()
    };
    let summary_md = render::render(&summary);
    checked(summary, summary_md)
}

fn missing(name: &str) -> Rejection {
    Rejection::Invalid(format!("`summary_json.{name}` is missing or has another type"))
}

fn checked(summary_json: HandoffSummary, summary_md: String) -> Result<Edited, Rejection> {
    let too_long =
        |what: &str, max: usize| Err(Rejection::Invalid(format!("the {what} is over {max} characters")));
    if summary_json.title.trim().is_empty() {
        return Err(Rejection::Invalid("the title is empty".to_owned()));
    }
    if summary_json.title.graphemes(true).count() > TITLE_GRAPHEMES_MAX {
        return too_long("title", TITLE_GRAPHEMES_MAX);
    }
    if summary_json.tldr.graphemes(true).count() > TLDR_GRAPHEMES_MAX {
        return too_long("TL;DR", TLDR_GRAPHEMES_MAX);
    }
    if summary_json.body.iter().all(|item| item.text.trim().is_empty()) {
        return Err(Rejection::Invalid(
            "there is no item: keep at least one line under a heading such as `Objective`".to_owned(),
        ));
    }
    if summary_json.body.len() > BODY_ITEMS_MAX {
        let found = summary_json.body.len();
        return Err(Rejection::Invalid(format!(
            "there are {found} items, at most {BODY_ITEMS_MAX} are allowed"
        )));
    }
    let tokens = model::tokens::estimate(&summary_md);
    if tokens > EDITED_TOKENS_MAX {
        return Err(Rejection::Invalid(format!(
            "the text has {tokens} tokens, at most {EDITED_TOKENS_MAX} are allowed"
        )));
    }
    Ok(Edited { summary_json, summary_md })
}

/// What has been read so far.
#[derive(Default)]
struct Found {
    title: Option<String>,
    tldr: Option<String>,
    kind: Option<ItemKind>,
}

impl Found {
    fn line(&mut self, line: &str, body: &mut Vec<SummaryItem>) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        if let Some(kind) = heading(trimmed) {
            self.kind = Some(kind);
        } else if let Some(title) = title(trimmed).filter(|_| self.title.is_none() && self.kind.is_none()) {
            self.title = Some(title);
        } else if let Some(kind) = self.kind {
            item(kind, line, body);
        } else {
            self.preamble(trimmed);
        }
    }

    /// Text before the first heading belongs to the TL;DR.
    fn preamble(&mut self, line: &str) {
        let text = unguarded(line);
        match &mut self.tldr {
            Some(tldr) => {
                tldr.push(' ');
                tldr.push_str(text);
            }
            None => self.tldr = Some(text.to_owned()),
        }
    }
}

/// A bullet at the margin begins an item; anything else continues the one before it.
fn item(kind: ItemKind, line: &str, body: &mut Vec<SummaryItem>) {
    let bullet = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    match (bullet, body.last_mut().filter(|last| last.kind == kind)) {
        (None, Some(last)) => {
            last.text.push('\n');
            last.text.push_str(line.trim());
        }
        (bullet, _) => {
            let text = unguarded(bullet.unwrap_or(line).trim()).to_owned();
            body.push(SummaryItem { kind, text, refs: Vec::new(), verified: true });
        }
    }
}

/// Returns the text of a title line, as it is rendered or as a Markdown heading.
fn title(line: &str) -> Option<String> {
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.or_else(|| line.strip_prefix("# "))
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Returns a line without the backslash that rendering puts before what Markdown would read as a block.
fn unguarded(line: &str) -> &str {
    line.strip_prefix('\\').unwrap_or(line)
}

/// Returns `text` without characters that hide or reorder others, and unable to open or close the block.
fn clean(text: &str) -> String {
    let visible: String = text
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || render::is_hidden(*c)))
        .collect();
    memory::block::neutralise(&visible)
}

fn heading(line: &str) -> Option<ItemKind> {
    let marked = line.starts_with('#') || (line.starts_with("**") && line.ends_with("**"));
    let name = line.trim_matches(['#', '*', ':', ' ']);
    ItemKind::ALL.into_iter().find(|kind| marked && render::heading(*kind).eq_ignore_ascii_case(name))
}

/// Removes HTML comments, such as the explanation an editor was opened with.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        out.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}
