//! A person's own text for a summary: read back from the Markdown they edited, or from JSON a client sent. What they
//! wrote is kept; this only finds the structure in it and refuses what is none.

use std::borrow::Cow;
use std::cmp::Reverse;

use protocol::{HandoffSummary, ItemKind, SummaryItem};
use runtime::Rejection;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{BODY_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::review::decide::Edited;
use crate::summary::render;

#[cfg(test)]
pub(crate) mod tests;

/// Tokens of a summary a person wrote; theirs is not cut at the drafting budget, but it goes into a prompt.
const EDITED_TOKENS_MAX: u64 = 4_000;

/// Who wrote an edited summary, in the place of a model.
const AUTHOR: &str = "user";

/// Returns the text a person handed back, ready to be stored; `None` when it is what they were shown.
pub(crate) fn own_text(shown_md: &str, text: &str) -> Result<Option<String>, Rejection> {
    let text = clean(&without_comments(text)?);
    let text = text.trim();
    if text.is_empty() {
        return Err(Rejection::Invalid("the text is empty: write something, or decline".to_owned()));
    }
    // Editors and forms drop blanks at the ends of lines.
    let unchanged = text.lines().map(str::trim_end).eq(shown_md.trim().lines().map(str::trim_end));
    Ok((!unchanged).then(|| text.to_owned()))
}

/// Returns a title on one line.
pub(crate) fn title(text: &str) -> Result<String, Rejection> {
    let title = render::inert(text);
    if title.is_empty() {
        return Err(Rejection::Invalid("the title is empty".to_owned()));
    }
    Ok(title)
}

/// Returns what was shown under another title.
pub(crate) fn with_title(shown: &HandoffSummary, title: String) -> Result<Edited, Rejection> {
    let summary = HandoffSummary { title, ..authored(shown) };
    let summary_md = render::render(&summary);
    checked(summary, summary_md)
}

/// Reads a summary from the Markdown a person edited, as [`own_text`] returns it.
///
/// The text stays as it is. A `title` that was given beside it is the summary's, whatever the text begins with.
pub(crate) fn from_markdown(
    shown: &HandoffSummary,
    text: String,
    title: Option<String>,
) -> Result<Edited, Rejection> {
    let mut found = Found::beside(shown);
    for line in text.lines() {
        found.line(line);
    }
    let mut summary = authored(shown);
    let untouched = title_line(&found.shown_title);
    if let Some(title) = title.or(found.title.filter(|title| untouched.as_ref() != Some(title))) {
        summary.title = title;
    }
    if let Some(tldr) = found.tldr
        && tldr != plain(&found.shown_tldr)
    {
        summary.tldr = tldr;
    }
    summary.body = items(&shown.body, &found.bullets);
    summary.body.sort_by_key(|item| item.kind);
    checked(summary, text)
}

/// Reads a summary from the JSON a client sent; the fields that identify the handoff stay as they are.
pub(crate) fn from_json(shown: &HandoffSummary, json: &Value) -> Result<Edited, Rejection> {
    let field = |name: &str| json.get(name).cloned().ok_or_else(|| missing(name));
    let text = |name: &str| match field(name)? {
        Value::String(text) => Ok(render::inert(&text)),
        _ => Err(missing(name)),
    };
    let mut body: Vec<SummaryItem> = serde_json::from_value(field("body")?)
        .map_err(|error| Rejection::Invalid(format!("`summary_json.body` cannot be read: {error}")))?;
    for item in &mut body {
        let own = clean(item.text.trim());
        own.trim_end_matches(render::UNVERIFIED).clone_into(&mut item.text);
        let same = |known: &&SummaryItem| known.kind == item.kind && clean(known.text.trim()) == item.text;
        match shown.body.iter().find(same) {
            Some(known) => known.clone_into(item),
            None => item.verified = true,
        }
    }
    body.retain(|item| !item.text.is_empty());
    body.sort_by_key(|item| item.kind);
    let summary = HandoffSummary { title: text("title")?, tldr: text("tldr")?, body, ..authored(shown) };
    let summary_md = render::render(&summary);
    checked(summary, summary_md)
}

fn missing(name: &str) -> Rejection {
    Rejection::Invalid(format!("`summary_json.{name}` is missing or has another type"))
}

/// Returns the summary as the person's: no model answers for it, and none was paid for it.
fn authored(shown: &HandoffSummary) -> HandoffSummary {
    HandoffSummary { model: AUTHOR.to_owned(), tokens_used: 0, ..shown.clone() }
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

/// A bullet as it is read: its heading and its text.
type Bullet = (ItemKind, String);

/// What has been read so far.
struct Found {
    /// The lines that title and TL;DR were shown as.
    shown_title: String,
    shown_tldr: String,
    title: Option<String>,
    tldr: Option<String>,
    kind: Option<ItemKind>,
    bullets: Vec<Bullet>,
}

impl Found {
    fn beside(shown: &HandoffSummary) -> Self {
        let head = clean(&render::markdown(&shown.title, &shown.tldr, &[]));
        let mut lines = head.lines().map(|line| line.trim().to_owned());
        let mut next = || lines.next().unwrap_or_default();
        let (shown_title, shown_tldr) = (next(), next());
        Self { shown_title, shown_tldr, title: None, tldr: None, kind: None, bullets: Vec::new() }
    }

    fn line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return;
        }
        // A title or TL;DR may well be called `Progress`; as it was shown, it is no heading.
        let shown = [self.shown_title.as_str(), self.shown_tldr.as_str()];
        let above = self.kind.is_none() && shown.contains(&trimmed);
        if let Some(kind) = heading(trimmed).filter(|_| !above) {
            self.kind = Some(kind);
        } else if let Some(title) =
            title_line(trimmed).filter(|_| self.title.is_none() && self.kind.is_none())
        {
            self.title = Some(title);
        } else if let Some(kind) = self.kind {
            self.bullet(kind, line);
        } else {
            self.preamble(trimmed);
        }
    }

    /// Text before the first heading belongs to the TL;DR.
    fn preamble(&mut self, line: &str) {
        match &mut self.tldr {
            Some(tldr) => {
                tldr.push(' ');
                tldr.push_str(&plain(line));
            }
            None => self.tldr = Some(plain(line)),
        }
    }

    /// A bullet at the margin begins an item; anything else continues the one before it.
    fn bullet(&mut self, kind: ItemKind, line: &str) {
        let bullet = line.strip_prefix(['-', '*']).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        match (bullet, self.bullets.last_mut().filter(|last| last.0 == kind)) {
            (None, Some((_, text))) => {
                text.push('\n');
                text.push_str(&plain(line));
            }
            (bullet, _) => {
                let text = plain(bullet.unwrap_or(line));
                if !text.is_empty() {
                    self.bullets.push((kind, text));
                }
            }
        }
    }
}

/// Returns the items that bullets stand for: those that were shown where they are unchanged, and the person's own.
///
/// An item that was shown keeps its references and whether it is verified: an edit elsewhere says nothing about it.
/// What a person wrote themselves counts as verified.
fn items(shown: &[SummaryItem], mut bullets: &[Bullet]) -> Vec<SummaryItem> {
    let mut known: Vec<(&SummaryItem, Vec<String>)> = shown.iter().map(|item| (item, lines(item))).collect();
    known.sort_by_key(|(_, lines)| Reverse(lines.len()));
    let mut body: Vec<SummaryItem> = Vec::new();
    let mut own_tasks = false;
    while let Some((kind, text)) = bullets.first() {
        if let Some(at) = known.iter().position(|(item, lines)| begins_with(bullets, item.kind, lines)) {
            let (item, lines) = known.remove(at);
            body.push(item.clone());
            bullets = &bullets[lines.len()..];
            own_tasks = false;
            continue;
        }
        // Tasks that follow each other are one list, however many lines of it were changed.
        let list = body.last_mut().filter(|last| own_tasks && last.kind == *kind && is_task(text));
        match list {
            Some(list) => {
                list.text.push('\n');
                list.text.push_str(text);
            }
            None => {
                body.push(SummaryItem { kind: *kind, text: text.clone(), refs: Vec::new(), verified: true });
            }
        }
        own_tasks = is_task(text);
        bullets = &bullets[1..];
    }
    body
}

/// Returns the bullets an item was shown as, as they are read back.
fn lines(item: &SummaryItem) -> Vec<String> {
    let shown = clean(&render::markdown("", "", std::slice::from_ref(item)));
    shown.lines().filter_map(|line| line.strip_prefix("- ")).map(plain).collect()
}

fn begins_with(bullets: &[Bullet], kind: ItemKind, lines: &[String]) -> bool {
    !lines.is_empty()
        && bullets.len() >= lines.len()
        && bullets.iter().zip(lines).all(|(bullet, line)| bullet.0 == kind && bullet.1 == *line)
}

fn is_task(text: &str) -> bool {
    ["[ ] ", "[x] "].iter().any(|task| text.starts_with(task))
}

/// Returns the text of a title line, as it is rendered or as a Markdown heading.
fn title_line(line: &str) -> Option<String> {
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.or_else(|| line.strip_prefix("# "))
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// Returns a line's own text: without what rendering adds to it.
fn plain(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_suffix(render::UNVERIFIED).unwrap_or(line);
    unguarded(line).into_owned()
}

/// Returns a line without the backslash that rendering puts before what Markdown would read as a block.
fn unguarded(line: &str) -> Cow<'_, str> {
    let escaped = ['#', '>', '<', '|', '~', '[', '-', '*', '+', '_', '='];
    if let Some(rest) = line.strip_prefix('\\').filter(|rest| rest.starts_with(escaped)) {
        return Cow::Borrowed(rest);
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    match line[digits..].strip_prefix('\\').filter(|rest| digits > 0 && rest.starts_with(['.', ')'])) {
        Some(rest) => Cow::Owned(format!("{}{rest}", &line[..digits])),
        None => Cow::Borrowed(line),
    }
}

/// Returns `text` without characters that hide or reorder others, and unable to open or close the block.
fn clean(text: &str) -> String {
    memory::block::neutralise(&model::inert::visible(&text.replace('\r', "")))
}

fn heading(line: &str) -> Option<ItemKind> {
    let marked = line.starts_with('#') || (line.starts_with("**") && line.ends_with("**"));
    let name = line.trim_matches(['#', '*', ':', ' ']);
    ItemKind::ALL.into_iter().find(|kind| marked && render::heading(*kind).eq_ignore_ascii_case(name))
}

/// Removes HTML comments that begin a line, such as the explanation an editor was opened with. Within a line they are
/// text: a summary may well speak of them.
fn without_comments(text: &str) -> Result<String, Rejection> {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = comment(rest) {
        kept.push_str(&rest[..at]);
        let unclosed = || Rejection::Invalid("a comment (`<!--`) is not closed by `-->`".to_owned());
        (_, rest) = rest[at..].split_once("-->").ok_or_else(unclosed)?;
    }
    kept.push_str(rest);
    Ok(kept)
}

/// Returns where the first comment that begins a line is.
fn comment(text: &str) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let own = line.trim_start();
        if own.starts_with("<!--") {
            return Some(start + line.len() - own.len());
        }
        start += line.len();
    }
    None
}
