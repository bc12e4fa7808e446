//! The parser of an edited summary: it finds the title, the TL;DR, and the bullets under each heading, with their
//! lines.
//!
//! Matching bullets with shown items and checking limits is done by the parent module.

use protocol::{HandoffSummary, SummaryItem, SummaryItemKind};

use crate::review::edit::error::{EditError, LineLocation};
use crate::review::edit::submitted_text::SubmittedText;
use crate::summary::render;
use crate::summary::render::block::CONTINUATION;
use crate::summary::render::facts::{FactSection, parse_request_state, section_of_heading};

/// The characters that start a bullet when white space or the end of the line follows.
const BULLETS: [char; 3] = ['-', '*', '+'];
/// The indentation in bytes from which on a line continues the item above it, even if it looks like a heading.
const INDENT_MIN: usize = 2;

/// A bullet of the edited text.
#[derive(Debug, Clone)]
pub(crate) struct EditedBullet {
    /// The kind of the heading above it.
    pub(crate) kind: SummaryItemKind,
    /// The text without the bullet and without escapes; continuation lines follow after a line break.
    pub(crate) text: String,
    /// True if the line ends with the mark of unverified items.
    pub(crate) is_marked: bool,
    /// The line on which it starts.
    pub(crate) location: LineLocation,
}

/// A section of the edited text.
#[derive(Debug, Clone, Copy)]
enum EditedSection {
    /// Items of a kind.
    Items(SummaryItemKind),
    /// Facts that are carried over.
    Facts(FactSection),
}

/// The structure of an edited text.
#[derive(Debug)]
pub(crate) struct ParsedEdit {
    /// The line that showed the title.
    shown_title: String,
    /// The line that showed the TL;DR.
    shown_tldr: String,
    /// The title with its line; `None` when it is unchanged.
    pub(crate) title: Option<(String, LineLocation)>,
    /// The TL;DR with its first line; `None` when it is unchanged.
    pub(crate) tldr: Option<(String, LineLocation)>,
    /// True if the title has the mark of unverified texts, or the text has no title of its own.
    pub(crate) is_title_marked: bool,
    /// True if the TL;DR has the mark of unverified texts, or the text has no TL;DR of its own.
    pub(crate) is_tldr_marked: bool,
    /// The bullets of items, in the order of the text.
    pub(crate) bullets: Vec<EditedBullet>,
    /// The texts of facts with their sections, in the order of the text.
    pub(crate) facts: Vec<(FactSection, String)>,
    /// True if the text has a title and no TL;DR.
    pub(crate) is_tldr_removed: bool,
    /// The state in the heading of the last request; `None` without that heading.
    pub(crate) request_state: Option<Option<bool>>,
    /// True if the shown text has sections of facts.
    shows_facts: bool,
    /// The section of the last heading; `None` before the first one.
    current_section: Option<EditedSection>,
    /// True if the line before the current one is blank.
    is_after_blank: bool,
    /// The open code block: the fence that closes it, and the line on which it started.
    open_fence: Option<(String, LineLocation)>,
}

impl ParsedEdit {
    /// Parses `submitted`, an edit of `shown`.
    ///
    /// # Errors
    ///
    /// [`EditError`] for an unknown or missing heading, an empty title, or an unclosed code block.
    pub(crate) fn parse(shown: &HandoffSummary, submitted: &SubmittedText) -> Result<Self, EditError> {
        let head = render::render_head(shown);
        let mut lines = head.lines().map(|line| line.trim().to_owned());
        let mut next = || lines.next().unwrap_or_default();
        let (shown_title, shown_tldr) = (next(), next());
        let mut parsed = Self {
            shown_title,
            shown_tldr,
            title: None,
            tldr: None,
            is_title_marked: true,
            is_tldr_marked: true,
            bullets: Vec::new(),
            facts: Vec::new(),
            is_tldr_removed: false,
            request_state: None,
            shows_facts: shown.carried.is_in_markdown,
            current_section: None,
            is_after_blank: false,
            open_fence: None,
        };
        for (number, line) in submitted.lines() {
            parsed.parse_line(line, &|| LineLocation::new(number, line))?;
            parsed.is_after_blank = line.trim().is_empty();
        }
        if let Some((_, location)) = parsed.open_fence {
            return Err(EditError::UnclosedFence(location));
        }
        let has_title = parsed.title.is_some();
        let shown_text = title_line(&parsed.shown_title);
        parsed.title = parsed
            .title
            .filter(|(title, _)| *title != parsed.shown_title && Some(title) != shown_text.as_ref());
        parsed.is_tldr_removed = has_title && parsed.tldr.is_none();
        let shown_text = plain_text(&parsed.shown_tldr);
        parsed.tldr = parsed.tldr.filter(|(tldr, _)| *tldr != shown_text);
        Ok(parsed)
    }

    /// Parses one line. `place` returns its location and is called only when it is needed.
    fn parse_line(&mut self, line: &str, location: &dyn Fn() -> LineLocation) -> Result<(), EditError> {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if let Some((end, _)) = &self.open_fence {
            if trimmed.starts_with(end.as_str()) && trimmed.trim_start_matches(&end[..1]).is_empty() {
                self.open_fence = None;
            }
            self.continue_text(line.trim_end(), location);
            return Ok(());
        }
        // An unchanged title or TL;DR is not a heading, even if its text is that of one, such as `Progress`.
        let is_as_shown =
            self.current_section.is_none() && (trimmed == self.shown_title || trimmed == self.shown_tldr);
        if is_as_shown {
            self.push_head_line(trimmed, location);
        } else if let Some(section) = self.heading_section(trimmed).filter(|_| !self.is_continuation(line)) {
            if matches!(section, EditedSection::Facts(FactSection::LastRequest)) {
                self.request_state = Some(parse_request_state(trimmed));
            }
            self.current_section = Some(section);
        } else if self.current_section.is_some() {
            self.push_item_line(line, location)?;
        } else if bullet_text(trimmed).is_some() {
            return Err(EditError::NoHeading(location()));
        } else {
            self.check_head_line(trimmed, location)?;
            self.push_head_line(trimmed, location);
        }
        self.open_fence(trimmed, location);
        Ok(())
    }

    /// Rejects a line above the first heading that looks like a heading and is neither the title nor the TL;DR, which
    /// may be bold.
    fn check_head_line(&self, line: &str, location: &dyn Fn() -> LineLocation) -> Result<(), EditError> {
        let is_first = self.title.is_none() && self.tldr.is_none();
        if is_first && line == "****" {
            return Err(EditError::EmptyTitle(Some(location())));
        }
        let may_be_bold = self.title.is_some() && self.tldr.is_none();
        if self.is_title(line) || !is_heading_marked(line) && (may_be_bold || !is_bold(line)) {
            return Ok(());
        }
        Err(EditError::UnknownHeading(location()))
    }

    /// Returns whether a line above the first heading is the title: the first line, if it has the form of a title or
    /// equals the shown one.
    fn is_title(&self, line: &str) -> bool {
        let is_first = self.title.is_none() && self.tldr.is_none();
        is_first && (line == self.shown_title || line != self.shown_tldr && title_line(line).is_some())
    }

    /// Adds a line above the first heading: to the title if it is one, otherwise to the TL;DR.
    fn push_head_line(&mut self, line: &str, location: &dyn Fn() -> LineLocation) {
        if self.is_title(line) {
            let title = title_line(line).unwrap_or_else(|| line.to_owned());
            self.is_title_marked = has_mark(line);
            self.title = Some((title, location()));
            return;
        }
        self.is_tldr_marked = has_mark(line);
        match &mut self.tldr {
            Some((tldr, _)) => {
                tldr.push(' ');
                tldr.push_str(&plain_text(line));
            }
            None => self.tldr = Some((plain_text(line), location())),
        }
    }

    /// Adds a line under a heading. A bullet without indentation starts an item; any other line continues the last one.
    fn push_item_line(&mut self, line: &str, location: &dyn Fn() -> LineLocation) -> Result<(), EditError> {
        let Some(text) = bullet_text(line) else {
            if !is_indented(line) && (is_heading_marked(line.trim()) || is_bold(line.trim())) {
                return Err(EditError::UnknownHeading(location()));
            }
            match self.current_section {
                Some(EditedSection::Facts(section)) if section.keeps_line_breaks() => {
                    self.continue_text(line.trim_end(), location);
                }
                Some(_) | None => self.continue_text(&plain_text(line), location),
            }
            if let Some(last) = self.bullets.last_mut().filter(|_| has_mark(line)) {
                last.is_marked = true;
            }
            return Ok(());
        };
        let is_marked = has_mark(text);
        let text = plain_text(text);
        match self.current_section.filter(|_| !text.is_empty()) {
            Some(EditedSection::Items(kind)) => {
                self.bullets.push(EditedBullet { kind, text, is_marked, location: location() });
            }
            Some(EditedSection::Facts(section)) => self.facts.push((section, text)),
            None => {}
        }
        Ok(())
    }

    /// Returns whether a line continues the entry above it, even if it looks like a heading: it is indented, as the lines of an
    /// entry that keeps line breaks are.
    fn is_continuation(&self, line: &str) -> bool {
        let entry = self.facts.last().map(|(section, _)| *section);
        let is_open = |section: &FactSection| section.keeps_line_breaks() && entry == Some(*section);
        is_indented(line)
            && matches!(&self.current_section, Some(EditedSection::Facts(section)) if is_open(section))
    }

    /// Returns the section of a heading line.
    fn heading_section(&self, line: &str) -> Option<EditedSection> {
        if let Some(kind) = heading_kind(line) {
            return Some(EditedSection::Items(kind));
        }
        let section = line.starts_with('#').then(|| section_of_heading(&heading_name(line))).flatten();
        section.filter(|_| self.shows_facts).map(EditedSection::Facts)
    }

    /// Adds a continuation line to the last bullet of the current heading, or to the TL;DR before the first heading.
    fn continue_text(&mut self, text: &str, location: &dyn Fn() -> LineLocation) {
        match self.current_section {
            None => self.push_head_line(text, location),
            Some(EditedSection::Items(kind)) => {
                match self.bullets.last_mut().filter(|last| last.kind == kind) {
                    Some(last) => {
                        last.text.push('\n');
                        last.text.push_str(text);
                    }
                    None => {
                        let text = text.to_owned();
                        self.bullets.push(EditedBullet {
                            kind,
                            text,
                            is_marked: false,
                            location: location(),
                        });
                    }
                }
            }
            Some(EditedSection::Facts(section)) => {
                match self.facts.last_mut().filter(|last| last.0 == section) {
                    Some((_, last)) if section.keeps_line_breaks() => {
                        last.push_str(if self.is_after_blank { "\n\n" } else { "\n" });
                        last.push_str(&unescape_tags(text.strip_prefix(CONTINUATION).unwrap_or(text)));
                    }
                    Some((_, last)) => {
                        last.push(' ');
                        last.push_str(text);
                    }
                    None => self.facts.push((section, text.trim().to_owned())),
                }
            }
        }
    }

    /// Records a code fence that the line opens. Lines of a code block are never headings or bullets.
    fn open_fence(&mut self, line: &str, location: &dyn Fn() -> LineLocation) {
        let text = bullet_text(line).unwrap_or(line).trim_start();
        let fence = ["```", "~~~"].into_iter().find(|fence| text.starts_with(fence));
        let Some(fence) = fence.map(|fence| &fence[..1]) else { return };
        let remaining = text.trim_start_matches(fence);
        if fence != "`" || !remaining.contains('`') {
            self.open_fence = Some((text[..text.len() - remaining.len()].to_owned(), location()));
        }
    }
}

/// Returns whether the line has the indentation of a line that continues an item or entry.
fn is_indented(line: &str) -> bool {
    line.len() - line.trim_start().len() >= INDENT_MIN
}

/// Returns the text without a section of facts: its heading and the lines up to the next heading.
pub(super) fn remove_section(text: &str, section: FactSection) -> String {
    let mut is_removed = false;
    let mut kept = Vec::new();
    for line in text.lines() {
        if is_heading_marked(line.trim()) && !is_indented(line) {
            is_removed = section_of_heading(&heading_name(line)) == Some(section);
        }
        if !is_removed {
            kept.push(line);
        }
    }
    kept.join("\n").trim_end().to_owned()
}

/// Returns the text of a line without the unverified mark and without the escapes that rendering adds.
pub(crate) fn plain_text(line: &str) -> String {
    let line = line.trim();
    let line = line.trim_end_matches(SummaryItem::UNVERIFIED);
    unescape_tags(&render::unescape_block_start(line))
}

/// Returns whether the line ends with the mark of unverified texts.
fn has_mark(line: &str) -> bool {
    line.trim().ends_with(SummaryItem::UNVERIFIED)
}

/// Returns the text after the bullet, if the line has one at its very beginning.
pub(crate) fn bullet_text(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(BULLETS)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
}

/// Returns the text of a title line: bold, as rendering writes it, or a Markdown heading of level 1.
fn title_line(line: &str) -> Option<String> {
    let line = line.trim_end_matches(SummaryItem::UNVERIFIED);
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.or_else(|| line.strip_prefix("# "))
        .map(|text| unescape_tags(text.trim()))
        .filter(|text| !text.is_empty())
}

/// Reverses the escape of `<`, by which rendering prevents a text from being read as a tag.
fn unescape_tags(text: &str) -> String {
    text.replace("&lt;", "<")
}

/// Returns the kind of a heading line; case, a trailing `s` and a colon do not matter.
fn heading_kind(line: &str) -> Option<SummaryItemKind> {
    let is_marked = line.starts_with('#') || (line.starts_with("**") && line.ends_with("**"));
    let name = heading_name(line);
    let singular = name.strip_suffix('s').unwrap_or(&name);
    SummaryItemKind::ALL.into_iter().find(|kind| {
        let heading = render::heading(*kind).to_ascii_lowercase();
        is_marked && (heading == name || heading.strip_suffix('s') == Some(singular) || heading == singular)
    })
}

/// Returns the text of a heading in lowercase.
fn heading_name(line: &str) -> String {
    line.trim_matches(|c: char| "#*:".contains(c) || c.is_whitespace()).to_ascii_lowercase()
}

/// Returns whether the line has the form of a Markdown heading (`# …`).
fn is_heading_marked(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    text.len() < line.len() && (text.is_empty() || text.starts_with(char::is_whitespace))
}

/// Returns whether the whole line is bold, which counts as a heading.
fn is_bold(line: &str) -> bool {
    let bold = line.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    bold.is_some_and(|bold| !bold.is_empty() && !bold.contains("**"))
}
