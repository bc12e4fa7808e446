//! The structure found in a text a person edited: title, TL;DR and the bullets under each heading, with their lines.
//! Which of them were shown before, and whether they are within the limits, is not its matter.

use protocol::{HandoffSummary, ItemKind, SummaryItem};

use crate::review::edit::fault::{Fault, Place};
use crate::review::edit::own::OwnText;
use crate::summary::render;

/// What a bullet begins with, and a blank after it.
const BULLETS: [char; 3] = ['-', '*', '+'];
/// Blanks before a line from which on it belongs to the item above, whatever it looks like.
const INDENT_MIN: usize = 2;

/// A bullet as it is read.
#[derive(Debug, Clone)]
pub(crate) struct Bullet {
    pub(crate) kind: ItemKind,
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// What is found in a text.
#[derive(Debug)]
pub(crate) struct Found {
    /// The lines that title and TL;DR were shown as.
    shown_title: String,
    shown_tldr: String,
    /// The title and the TL;DR, unless they are as they were shown.
    pub(crate) title: Option<(String, Place)>,
    pub(crate) tldr: Option<(String, Place)>,
    pub(crate) bullets: Vec<Bullet>,
    /// The heading above the line that is read.
    kind: Option<ItemKind>,
    /// The code block that is open: what closes it, and where it began.
    fence: Option<(String, Place)>,
}

impl Found {
    /// Reads `own` beside what was shown.
    pub(crate) fn read(shown: &HandoffSummary, own: &OwnText) -> Result<Self, Fault> {
        let head = render::markdown(&shown.title, &shown.tldr, &[]);
        let mut lines = head.lines().map(|line| line.trim().to_owned());
        let mut next = || lines.next().unwrap_or_default();
        let (shown_title, shown_tldr) = (next(), next());
        let (title, tldr, bullets, kind, fence) = (None, None, Vec::new(), None, None);
        let mut found = Self { shown_title, shown_tldr, title, tldr, bullets, kind, fence };
        for (number, line) in own.lines() {
            found.line(line, &|| Place::new(number, line))?;
        }
        if let Some((_, place)) = found.fence {
            return Err(Fault::OpenFence(place));
        }
        let untouched = title_line(&found.shown_title);
        found.title =
            found.title.filter(|(title, _)| *title != found.shown_title && Some(title) != untouched.as_ref());
        let untouched = plain(&found.shown_tldr);
        found.tldr = found.tldr.filter(|(tldr, _)| *tldr != untouched);
        Ok(found)
    }

    fn line(&mut self, line: &str, place: &dyn Fn() -> Place) -> Result<(), Fault> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if let Some((end, _)) = &self.fence {
            if trimmed.starts_with(end.as_str()) && trimmed.trim_start_matches(&end[..1]).is_empty() {
                self.fence = None;
            }
            self.text(line.trim_end(), place);
            return Ok(());
        }
        // A title or TL;DR may well be called `Progress`; as it was shown, it is no heading.
        let is_as_shown = self.kind.is_none() && (trimmed == self.shown_title || trimmed == self.shown_tldr);
        if is_as_shown {
            self.above(trimmed, place);
        } else if let Some(kind) = heading(trimmed) {
            self.kind = Some(kind);
        } else if self.kind.is_some() {
            self.below(line, place)?;
        } else if bullet(trimmed).is_some() {
            return Err(Fault::NoHeading(place()));
        } else {
            self.check_above(trimmed, place)?;
            self.above(trimmed, place);
        }
        self.open_fence(trimmed, place);
        Ok(())
    }

    /// Refuses what is neither title nor TL;DR and looks like a heading; a TL;DR may well be bold.
    fn check_above(&self, line: &str, place: &dyn Fn() -> Place) -> Result<(), Fault> {
        let is_first = self.title.is_none() && self.tldr.is_none();
        if is_first && line == "****" {
            return Err(Fault::NoTitle(Some(place())));
        }
        let may_be_bold = self.title.is_some() && self.tldr.is_none();
        if self.is_title(line) || !is_marked(line) && (may_be_bold || !is_bold(line)) {
            return Ok(());
        }
        Err(Fault::UnknownHeading(place()))
    }

    /// Returns whether a line above the first heading is the title.
    fn is_title(&self, line: &str) -> bool {
        let is_first = self.title.is_none() && self.tldr.is_none();
        is_first && (line == self.shown_title || line != self.shown_tldr && title_line(line).is_some())
    }

    /// A line above the first heading that is not the title belongs to the TL;DR.
    fn above(&mut self, line: &str, place: &dyn Fn() -> Place) {
        if self.is_title(line) {
            let title = title_line(line).unwrap_or_else(|| line.to_owned());
            self.title = Some((title, place()));
            return;
        }
        match &mut self.tldr {
            Some((tldr, _)) => {
                tldr.push(' ');
                tldr.push_str(&plain(line));
            }
            None => self.tldr = Some((plain(line), place())),
        }
    }

    /// A bullet at the margin begins an item; anything else continues the one before it.
    fn below(&mut self, line: &str, place: &dyn Fn() -> Place) -> Result<(), Fault> {
        let Some(text) = bullet(line) else {
            let indent = line.len() - line.trim_start().len();
            if indent < INDENT_MIN && (is_marked(line.trim()) || is_bold(line.trim())) {
                return Err(Fault::UnknownHeading(place()));
            }
            self.text(&plain(line), place);
            return Ok(());
        };
        let text = plain(text);
        if let Some(kind) = self.kind.filter(|_| !text.is_empty()) {
            self.bullets.push(Bullet { kind, text, place: place() });
        }
        Ok(())
    }

    /// Text that begins nothing continues what is before it.
    fn text(&mut self, text: &str, place: &dyn Fn() -> Place) {
        let Some(kind) = self.kind else { return self.above(text, place) };
        match self.bullets.last_mut().filter(|last| last.kind == kind) {
            Some(last) => {
                last.text.push('\n');
                last.text.push_str(text);
            }
            None => self.bullets.push(Bullet { kind, text: text.to_owned(), place: place() }),
        }
    }

    /// What stands between fences is code, and no line of it a heading.
    fn open_fence(&mut self, line: &str, place: &dyn Fn() -> Place) {
        let text = bullet(line).unwrap_or(line).trim_start();
        let sign = ["```", "~~~"].into_iter().find(|sign| text.starts_with(sign));
        let Some(sign) = sign.map(|sign| &sign[..1]) else { return };
        let rest = text.trim_start_matches(sign);
        if sign != "`" || !rest.contains('`') {
            self.fence = Some((text[..text.len() - rest.len()].to_owned(), place()));
        }
    }
}

/// Returns a line's own text: without what rendering adds to it.
pub(crate) fn plain(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_suffix(SummaryItem::UNVERIFIED).unwrap_or(line);
    unescaped(&render::unguarded(line))
}

/// Returns the text of a bullet at the margin.
pub(crate) fn bullet(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(BULLETS)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
}

/// Returns the text of a title line, as it is rendered or as a Markdown heading.
fn title_line(line: &str) -> Option<String> {
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.or_else(|| line.strip_prefix("# "))
        .map(|text| unescaped(text.trim()))
        .filter(|text| !text.is_empty())
}

/// Takes back the escape of what could be read as a tag.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
}

/// Returns the kind a heading is of, in whatever case and number it is written.
fn heading(line: &str) -> Option<ItemKind> {
    let marked = line.starts_with('#') || (line.starts_with("**") && line.ends_with("**"));
    let name = line.trim_matches(|c: char| "#*:".contains(c) || c.is_whitespace()).to_ascii_lowercase();
    let singular = name.strip_suffix('s').unwrap_or(&name);
    ItemKind::ALL.into_iter().find(|kind| {
        let of_kind = render::heading(*kind).to_ascii_lowercase();
        marked && (of_kind == name || of_kind.strip_suffix('s') == Some(singular) || of_kind == singular)
    })
}

/// Returns whether the line is marked as a heading.
fn is_marked(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.len() < line.len() && (text.is_empty() || text.starts_with(char::is_whitespace))
}

/// Returns whether the line is bold as a whole, and so read as a heading.
fn is_bold(line: &str) -> bool {
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.is_some_and(|bold| !bold.is_empty() && !bold.contains("**"))
}
