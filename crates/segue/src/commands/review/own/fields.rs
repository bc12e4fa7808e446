//! The summary as a row of fields, for a person without an editor: title, TL;DR and each line of each item. It asks for
//! them one by one; whether the text is taken is not decided here.

use std::io;

use agent::{summary_heading, summary_markdown};
use protocol::{HandoffSummary, ItemKind, Proposal, SummaryItem};
use serde_json::{Value, json};
use terminal::{Screen, ask_line, ask_text, wrap};

use super::confirm::{Then, confirm};

/// What removes a line.
const REMOVED: &str = "-";
/// The letters that stand for the kinds of items.
const LETTERS: [(char, ItemKind); 6] = [
    ('o', ItemKind::Objective),
    ('p', ItemKind::Progress),
    ('d', ItemKind::Decision),
    ('n', ItemKind::NextStep),
    ('b', ItemKind::Blocker),
    ('a', ItemKind::Artifact),
];

/// The fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields {
    title: String,
    tldr: String,
    items: Vec<(ItemKind, String)>,
}

impl Fields {
    /// Returns the fields of a summary.
    pub(super) fn of(summary: &HandoffSummary) -> Self {
        let items = summary.body.iter().map(|item| (item.kind, item.text.clone())).collect();
        Self { title: summary.title.clone(), tldr: summary.tldr.clone(), items }
    }

    /// Asks for the fields and shows what that changes; returns whether the person accepts the text as it is then. What
    /// they wrote before they left is in the fields.
    pub(super) fn ask(&mut self, screen: &Screen, shown: &Proposal) -> io::Result<bool> {
        let how = match screen.is_plain() {
            true => "There is no editor, so each line is asked for. A line with only - removes it.",
            false => {
                "There is no editor, so each line is asked for: change it and press Enter. An empty line is removed; Esc goes back."
            }
        };
        loop {
            screen.line(screen.style.dim(wrap(how, screen.text_columns(), "", "")))?;
            if !self.ask_all(screen)? {
                return Ok(false);
            }
            if *self == Self::of(&shown.summary_json) {
                return Ok(false);
            }
            match confirm(screen, &shown.summary_md, &self.markdown(&shown.summary_json))? {
                Some(Then::Accept) => return Ok(true),
                Some(Then::Again) => {}
                None => return Ok(false),
            }
        }
    }

    /// Asks for all fields and for further items; returns whether the person came to the end.
    fn ask_all(&mut self, screen: &Screen) -> io::Result<bool> {
        for (label, text) in [("Title", &mut self.title), ("TL;DR", &mut self.tldr)] {
            match ask_text(screen, label, text)? {
                // Neither can be removed.
                Some(new) if new.trim().is_empty() || new.trim() == REMOVED => {}
                Some(new) => *text = new,
                None => return Ok(false),
            }
        }
        for at in 0..self.items.len() {
            let (kind, text) = self.items[at].clone();
            match ask_item(screen, summary_heading(kind), &text)? {
                Some(new) => self.items[at].1 = new,
                None => return Ok(false),
            }
        }
        self.items.retain(|(_, text)| !text.is_empty());
        self.ask_more(screen)
    }

    fn ask_more(&mut self, screen: &Screen) -> io::Result<bool> {
        let kinds: Vec<String> =
            LETTERS.iter().map(|(letter, kind)| format!("{letter} {}", summary_heading(*kind))).collect();
        let label = "Add an item of a kind (Enter for none)";
        loop {
            screen.line(wrap(&format!("Kinds: {}", kinds.join(" · ")), screen.text_columns(), "", "  "))?;
            let Some(line) = ask_line(screen, label)? else { return Ok(false) };
            let letter = line.trim().chars().next().map(|letter| letter.to_ascii_lowercase());
            let kind = LETTERS.iter().find(|(known, _)| Some(*known) == letter).map(|(_, kind)| *kind);
            match (kind, letter) {
                (Some(kind), _) => match ask_line(screen, summary_heading(kind))? {
                    Some(text) if !text.trim().is_empty() => self.items.push((kind, text.trim().to_owned())),
                    Some(_) => {}
                    None => return Ok(false),
                },
                (None, None) => {
                    self.items.sort_by_key(|(kind, _)| *kind);
                    return Ok(true);
                }
                (None, Some(_)) => screen.line("That is none of the kinds.")?,
            }
        }
    }

    /// Returns the text as a decision gives it.
    pub(super) fn json(&self) -> Value {
        let body: Vec<Value> =
            self.items.iter().map(|(kind, text)| json!({"kind": kind, "text": text})).collect();
        json!({"title": self.title, "tldr": self.tldr, "body": body})
    }

    /// Returns the text as it is shown; items that are as in `shown` keep their mark.
    pub(super) fn markdown(&self, shown: &HandoffSummary) -> String {
        let item = |(kind, text): &(ItemKind, String)| SummaryItem {
            kind: *kind,
            text: text.clone(),
            refs: Vec::new(),
            verified: !shown.body.iter().any(|old| !old.verified && old.kind == *kind && old.text == *text),
            unfound: Vec::new(),
        };
        summary_markdown(&self.title, &self.tldr, &self.items.iter().map(item).collect::<Vec<_>>())
    }
}

/// Asks for the lines of one item; a text without any is removed.
fn ask_item(screen: &Screen, label: &str, text: &str) -> io::Result<Option<String>> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match ask_text(screen, label, line)? {
            Some(new) if new.trim().is_empty() || new.trim() == REMOVED => {}
            Some(new) => lines.push(new.trim().to_owned()),
            None => return Ok(None),
        }
    }
    Ok(Some(lines.join("\n")))
}
