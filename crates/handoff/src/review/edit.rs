//! A person's own text for a summary: read back from the Markdown they edited, or from JSON a client sent. What they
//! wrote is kept; this only finds the structure in it, and refuses what is none with the line that is to blame.
//!
//! What leaves here is inert, as what [`render`] makes: it is stored, shown and injected as one and the same text.

use std::cmp::Reverse;

use protocol::{HandoffSummary, ItemKind, SummaryItem};
use runtime::Rejection;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{BODY_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::review::decide::Edited;
use crate::review::edit::fault::{Fault, Place};
use crate::review::edit::found::{Bullet, Found, plain};
use crate::review::edit::own::OwnText;
use crate::summary::render;

mod fault;
mod found;
mod own;
#[cfg(test)]
pub(crate) mod tests;

/// Tokens of a summary a person wrote; theirs is not cut at the drafting budget, but it goes into a prompt.
const EDITED_TOKENS_MAX: u64 = 4_000;
/// Bytes of a text that is looked at, comments included.
const HANDED_IN_BYTES_MAX: usize = 1024 * 1024;

/// Who wrote an edited summary, in the place of a model.
const AUTHOR: &str = "user";

/// Returns the text a person handed back, ready to be stored; `None` when it is what they were shown.
pub(crate) fn own_text(shown_md: &str, text: &str) -> Result<Option<OwnText>, Rejection> {
    if text.len() > HANDED_IN_BYTES_MAX {
        let tokens = model::tokens::estimate(text);
        return Err(Fault::TooLong { tokens, tokens_max: EDITED_TOKENS_MAX }.into());
    }
    let own = OwnText::new(text)?;
    if own.text.is_empty() {
        return Err(Fault::Empty.into());
    }
    Ok((!own.is_unchanged(shown_md)).then_some(own))
}

/// Returns a title on one line.
pub(crate) fn title(text: &str) -> Result<String, Rejection> {
    let title = render::line(text);
    if title.is_empty() { Err(Fault::NoTitle(None).into()) } else { Ok(title) }
}

/// Returns what was shown under another title.
pub(crate) fn with_title(shown: &HandoffSummary, title: String) -> Result<Edited, Rejection> {
    let summary = HandoffSummary { title, ..authored(shown) };
    let summary_md = render::render(&summary);
    checked(shown, summary, summary_md, Places::default())
}

/// Reads a summary from the Markdown a person edited, as [`own_text`] returns it.
///
/// The text stays as it is. A `title` that was given beside it is the summary's, whatever the text begins with.
pub(crate) fn from_markdown(
    shown: &HandoffSummary,
    own: OwnText,
    title: Option<String>,
) -> Result<Edited, Rejection> {
    let found = Found::read(shown, &own)?;
    let mut summary = authored(shown);
    let mut places = Places::default();
    match (title, found.title) {
        (Some(title), _) => summary.title = title,
        (None, Some((title, place))) => (summary.title, places.title) = (title, Some(place)),
        (None, None) => {}
    }
    if let Some((tldr, place)) = found.tldr {
        (summary.tldr, places.tldr) = (tldr, Some(place));
    }
    let (mut body, mut begins): (Vec<SummaryItem>, Vec<Place>) =
        items(&shown.body, &found.bullets).into_iter().unzip();
    if begins.len() > BODY_ITEMS_MAX {
        places.item_too_many = Some(begins.swap_remove(BODY_ITEMS_MAX));
    }
    body.sort_by_key(|item| item.kind);
    checked(shown, HandoffSummary { body, ..summary }, own.text, places)
}

/// Reads a summary from the JSON a client sent; the fields that identify the handoff stay as they are.
pub(crate) fn from_json(shown: &HandoffSummary, json: &Value) -> Result<Edited, Rejection> {
    let missing = |name: &str| Fault::Field(name.to_owned());
    let field = |name: &str| json.get(name).ok_or_else(|| missing(name));
    let text = |name: &str| field(name)?.as_str().map(render::line).ok_or_else(|| missing(name));
    let mut body: Vec<SummaryItem> =
        serde_json::from_value(field("body")?.clone()).map_err(|error| Fault::Body(error.to_string()))?;
    for item in &mut body {
        render::settled(&item.text).trim_end_matches(SummaryItem::UNVERIFIED).clone_into(&mut item.text);
        let same =
            |known: &&SummaryItem| known.kind == item.kind && render::settled(&known.text) == item.text;
        match shown.body.iter().find(same) {
            Some(known) => known.clone_into(item),
            None => (item.verified, item.unfound) = (true, Vec::new()),
        }
    }
    body.retain(|item| !item.text.is_empty());
    body.sort_by_key(|item| item.kind);
    let summary = HandoffSummary { title: text("title")?, tldr: text("tldr")?, body, ..authored(shown) };
    let summary_md = render::render(&summary);
    checked(shown, summary, summary_md, Places::default())
}

/// Returns the summary as the person's: no model answers for it, and none was paid for it.
fn authored(shown: &HandoffSummary) -> HandoffSummary {
    HandoffSummary { model: AUTHOR.to_owned(), tokens_used: 0, ..shown.clone() }
}

/// Where in the person's text its parts begin; nothing is known of parts that came in another way.
#[derive(Debug, Default)]
struct Places {
    title: Option<Place>,
    tldr: Option<Place>,
    item_too_many: Option<Place>,
}

/// Holds a person's summary to the limits. One item is enough: three are asked of drafts, not of people.
fn checked(
    shown: &HandoffSummary,
    summary_json: HandoffSummary,
    summary_md: String,
    places: Places,
) -> Result<Edited, Rejection> {
    let HandoffSummary { title, tldr, body, .. } = &summary_json;
    if title.trim_matches(|c: char| c == '*' || c.is_whitespace()).is_empty() {
        return Err(Fault::NoTitle(None).into());
    }
    let graphemes = title.graphemes(true).count();
    if graphemes > TITLE_GRAPHEMES_MAX {
        return Err(Fault::TitleTooLong { place: places.title, graphemes }.into());
    }
    let graphemes = tldr.graphemes(true).count();
    if graphemes > TLDR_GRAPHEMES_MAX {
        return Err(Fault::TldrTooLong { place: places.tldr, graphemes }.into());
    }
    if body.iter().all(|item| item.text.trim().is_empty()) {
        return Err(Fault::NoItem.into());
    }
    if body.len() > BODY_ITEMS_MAX {
        let count = Fault::TooManyItems(body.len());
        return Err(places.item_too_many.map_or(count, Fault::ItemTooMany).into());
    }
    // A budget for drafts above this limit was the person's choice as well.
    let tokens_max = EDITED_TOKENS_MAX.max(model::tokens::estimate(&render::render(shown)));
    let tokens = model::tokens::estimate(&summary_md);
    if tokens > tokens_max {
        return Err(Fault::TooLong { tokens, tokens_max }.into());
    }
    Ok(Edited { summary_json, summary_md })
}

/// Returns the items that bullets stand for: those that were shown where they are unchanged, and the person's own; each
/// with the line it begins on.
///
/// An item that was shown keeps its references and whether it is verified: an edit elsewhere says nothing about it.
/// What a person wrote themselves counts as verified.
fn items(shown: &[SummaryItem], mut bullets: &[Bullet]) -> Vec<(SummaryItem, Place)> {
    let mut known: Vec<(&SummaryItem, Vec<String>)> = shown.iter().map(|item| (item, lines(item))).collect();
    let mut body: Vec<(SummaryItem, Place)> = Vec::new();
    let mut own_tasks = false;
    while let Some(Bullet { kind, text, place }) = bullets.first() {
        let matched = matching(&known, bullets);
        if !matched.is_empty() {
            for at in matched {
                let (item, lines) = &mut known[at];
                body.push((item.clone(), bullets[0].place.clone()));
                bullets = &bullets[lines.len()..];
                lines.clear();
            }
            own_tasks = false;
            continue;
        }
        // Tasks that follow each other are one list, however many lines of it were changed.
        let list = body.last_mut().filter(|(last, _)| own_tasks && last.kind == *kind && is_task(text));
        match list {
            Some((list, _)) => {
                list.text.push('\n');
                list.text.push_str(text);
            }
            None => {
                let own = SummaryItem {
                    kind: *kind,
                    text: text.clone(),
                    refs: Vec::new(),
                    verified: true,
                    unfound: Vec::new(),
                };
                body.push((own, place.clone()));
            }
        }
        own_tasks = is_task(text);
        bullets = &bullets[1..];
    }
    body
}

/// Returns which of the items that are not found yet the bullets begin with: all of their kind in order, or else the
/// one with the most lines. A found item has no lines left.
fn matching(known: &[(&SummaryItem, Vec<String>)], bullets: &[Bullet]) -> Vec<usize> {
    let Some(kind) = bullets.first().map(|bullet| bullet.kind) else { return Vec::new() };
    let mut of_kind: Vec<usize> =
        (0..known.len()).filter(|at| known[*at].0.kind == kind && !known[*at].1.is_empty()).collect();
    let all: Vec<&String> = of_kind.iter().flat_map(|at| &known[*at].1).collect();
    if begins_with(bullets, kind, &all) {
        return of_kind;
    }
    of_kind.sort_by_key(|at| Reverse(known[*at].1.len()));
    of_kind.retain(|at| begins_with(bullets, kind, &known[*at].1.iter().collect::<Vec<_>>()));
    of_kind.truncate(1);
    of_kind
}

/// Returns the bullets an item was shown as, as they are read back.
fn lines(item: &SummaryItem) -> Vec<String> {
    let shown = render::markdown("", "", std::slice::from_ref(item));
    shown.lines().filter_map(|line| line.strip_prefix("- ")).map(plain).collect()
}

fn begins_with(bullets: &[Bullet], kind: ItemKind, lines: &[&String]) -> bool {
    let mut pairs = bullets.iter().zip(lines);
    bullets.len() >= lines.len() && pairs.all(|(bullet, line)| bullet.kind == kind && bullet.text == **line)
}

fn is_task(text: &str) -> bool {
    ["[ ] ", "[x] "].iter().any(|task| text.starts_with(task))
}
