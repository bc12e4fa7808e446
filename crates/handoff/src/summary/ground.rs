//! Grounding: checks that every name in a summary's items occurs in the messages it covers, and marks the items for
//! which that is not true as unverified.
//!
//! Grounding compares names, not meaning, so a false sentence without names passes. Text that Segue itself wrote is no
//! evidence.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use protocol::{ContentBlock, HandoffSummary, Message, SummaryItem};
use serde_json::Value;

use facts::ConversationFacts;
use facts::{TranscriptItem, TranscriptItemKind};
use names::{NameClass, NameMention};

pub(crate) mod names;
mod proper_names;
#[cfg(test)]
mod tests;
mod text_forms;

/// The length from which on the name of a person or a product may be the beginning of a longer word, in bytes.
const PROPER_STEM_BYTES_MIN: usize = 5;

/// A search for the names of a summary in the events it covers. It skips all further text once every name is found.
///
/// The search is one pass of an Aho–Corasick automaton over each text, so its cost is linear in the length of the text,
/// however many names there are.
#[derive(Debug)]
pub struct GroundingCheck {
    /// The distinct names.
    names: Vec<TrackedName>,
    /// The number of names not found yet.
    missing_count: usize,
    /// For each pattern of the matcher, the index of its name in `names`.
    patterns: Vec<usize>,
    /// The automaton over all spellings of all names; `None` when it could not be built.
    matcher: Option<AhoCorasick>,
}

/// A name to search for.
#[derive(Debug)]
struct TrackedName {
    /// The name as the item spells it.
    display_name: String,
    /// The pattern to search for.
    pattern: NamePattern,
    /// The indexes of the texts that contain the name.
    text_indexes: Vec<usize>,
    /// True if the name was found.
    is_found: bool,
}

/// The properties of a name that decide whether a text contains it. Equal patterns are found in the same texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// The accepted spellings.
    spellings: Vec<String>,
    /// The class, which decides where a name may begin and end in a longer word.
    class: NameClass,
    /// True if the item's text was cut off before the name, so that the name may be the end of a longer one.
    open_before: bool,
    /// True if the item's text was cut off after the name, so that the name may be the beginning of a longer one.
    open_after: bool,
}

impl GroundingCheck {
    /// Returns a search for the names in the items, the title and the TL;DR of `summary`. A path inside `workspace` may be
    /// written absolute or relative to it.
    pub fn new(summary: &HandoffSummary, workspace: Option<&Path>) -> Self {
        let items = summary.body.iter().map(|item| item.text.as_str());
        Self::from_texts(items.chain([summary.title.as_str(), summary.tldr.as_str()]), workspace)
    }

    /// Returns a search for the names in `body`; see [`GroundingCheck::new`].
    #[cfg(test)]
    pub(crate) fn from_items(body: &[SummaryItem], workspace: Option<&Path>) -> Self {
        Self::from_texts(body.iter().map(|item| item.text.as_str()), workspace)
    }

    /// Returns a search for the names in the texts; see [`GroundingCheck::new`].
    pub(crate) fn from_texts<'a>(texts: impl Iterator<Item = &'a str>, workspace: Option<&Path>) -> Self {
        let root = workspace.map(|path| names::clean_path(&path.to_string_lossy()));
        let mut known: HashMap<(String, bool, bool), usize> = HashMap::new();
        let mut tracked: Vec<TrackedName> = Vec::new();
        let (mut spellings, mut patterns) = (Vec::new(), Vec::new());
        for (text_index, text) in texts.enumerate() {
            let mut track = |name: NameMention<'_>| {
                if is_number_fragment(text, &name) {
                    return;
                }
                let key = (name.text.to_string(), name.open_before, name.open_after);
                let index = *known.entry(key).or_insert_with(|| {
                    let pattern = NamePattern::from_mention(&name, root.as_deref());
                    spellings.extend(pattern.spellings.iter().cloned());
                    patterns.resize(spellings.len(), tracked.len());
                    tracked.push(TrackedName {
                        display_name: name.display_name.to_owned(),
                        pattern,
                        text_indexes: Vec::new(),
                        is_found: false,
                    });
                    tracked.len() - 1
                });
                if !tracked[index].text_indexes.contains(&text_index) {
                    tracked[index].text_indexes.push(text_index);
                }
            };
            names::scan_names(text, &mut track);
            proper_names::scan_proper_names(text, &mut track);
        }
        // Building one of the other kinds of automaton takes longer than searching a thread.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let matcher = AhoCorasick::builder().kind(kind).build(&spellings).ok();
        Self { missing_count: tracked.len(), names: tracked, patterns, matcher }
    }

    /// Returns whether every name was found, so that no further event needs to be searched.
    pub fn is_done(&self) -> bool {
        self.missing_count == 0
    }

    /// Searches the next covered event. Events of sub-agents and injected messages are no evidence and are skipped.
    pub fn visit(&mut self, item: &TranscriptItem) {
        if self.is_done() || item.is_subagent {
            return;
        }
        match &item.kind {
            TranscriptItemKind::Message(Message::Human(_)) if item.is_injected => {}
            TranscriptItemKind::Message(message) => self.search_message(message),
            TranscriptItemKind::ImportedSummary(text) => self.search_text(text),
            TranscriptItemKind::InheritedSummary { grounded, .. } => self.search_text(grounded),
            TranscriptItemKind::Note
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => {}
        }
    }

    /// Searches the lines of a selection, each of which begins with the seq of its event in brackets. A line without
    /// a seq was written by Segue and is skipped.
    pub fn search_selection(&mut self, lines: &str) {
        if !self.is_done() {
            self.search_text(&event_text(lines));
        }
    }

    /// Searches the facts extracted from the covered events.
    pub fn search_facts(&mut self, facts: &ConversationFacts) {
        let names = [
            &facts.references,
            &facts.identifiers,
            &facts.argument_values,
            &facts.commands,
            &facts.error_types,
        ];
        let names = names.into_iter().flatten().map(|name| name.text.as_str());
        let quotes =
            facts.requests.iter().chain(&facts.statements).chain(&facts.errors).chain(&facts.decisions);
        let quotes = quotes.chain(&facts.grounded_summary);
        let texts = facts.files.iter().map(|file| file.path.as_str()).chain(names);
        for text in texts.chain(quotes.map(|quote| quote.text.as_str())) {
            if self.is_done() {
                return;
            }
            self.search_text(text);
        }
    }

    /// Searches a text of the person about the summary, such as the goal or feedback. It is evidence like a message.
    pub fn search_user_text(&mut self, text: &str) {
        self.search_text(text);
    }

    /// Searches the text, the tool names and the tool arguments of a message.
    fn search_message(&mut self, message: &Message) {
        for block in message.content() {
            match block {
                ContentBlock::Text { text } => self.search_text(text),
                ContentBlock::ToolCall { name, args, .. } => {
                    self.search_text(name);
                    self.search_json(args);
                }
                ContentBlock::Thinking { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => {}
            }
        }
    }

    /// Searches all keys, strings and numbers of a JSON value.
    fn search_json(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.search_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.search_json(item)),
            Value::Object(fields) => fields.iter().for_each(|(key, item)| {
                self.search_text(key);
                self.search_json(item);
            }),
            Value::Number(number) => self.search_text(&number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Searches a text as it is and, if names are still missing, in its other forms (see [`text_forms`]).
    fn search_text(&mut self, text: &str) {
        if self.is_done() || self.search_form(text) {
            return;
        }
        text_forms::search_forms(text, |form| self.search_form(form));
    }

    /// Marks the names that `text` contains as found. Returns whether all names are found now.
    fn search_form(&mut self, text: &str) -> bool {
        let Some(matcher) = &self.matcher else { return self.missing_count == 0 };
        // Overlapping matches are needed because one name is often a part of another.
        for hit in matcher.find_overlapping_iter(text) {
            let name = &mut self.names[self.patterns[hit.pattern().as_usize()]];
            if name.is_found || !name.pattern.is_at(text, hit.start()..hit.end()) {
                continue;
            }
            name.is_found = true;
            self.missing_count -= 1;
            if self.missing_count == 0 {
                return true;
            }
        }
        false
    }

    /// Returns the patterns of the names that were not found.
    pub fn missing_patterns(&self) -> Vec<NamePattern> {
        self.names.iter().filter(|name| !name.is_found).map(|name| name.pattern.clone()).collect()
    }

    /// Returns whether every name that was not found is among `known_missing`.
    pub fn is_missing_only(&self, known_missing: &[NamePattern]) -> bool {
        self.names.iter().all(|name| name.is_found || known_missing.contains(&name.pattern))
    }

    /// Returns the names that were not found, grouped by the index of their text, in ascending order. The texts of a
    /// summary are the items, then the title and the TL;DR.
    pub fn missing_names(&self) -> Vec<(usize, Vec<String>)> {
        let mut missing: Vec<(usize, Vec<String>)> = Vec::new();
        for name in self.names.iter().filter(|name| !name.is_found) {
            for text_index in &name.text_indexes {
                match missing.iter_mut().find(|(text, _)| text == text_index) {
                    Some((_, names)) if names.contains(&name.display_name) => {}
                    Some((_, names)) => names.push(name.display_name.clone()),
                    None => missing.push((*text_index, vec![name.display_name.clone()])),
                }
            }
        }
        missing.sort_by_key(|(text_index, _)| *text_index);
        missing
    }

    /// Marks every item of `summary`, its title and its TL;DR as verified or unverified, and returns the number of unverified
    /// items. `summary` must be the one that the search was created for.
    pub fn mark_summary(self, summary: &mut HandoffSummary) -> usize {
        let first = summary.body.len();
        let missing = self.missing_names();
        let names_of = |index: usize| {
            let names = missing.iter().find(|(text_index, _)| *text_index == index);
            names.map(|(_, names)| names.clone()).unwrap_or_default()
        };
        (summary.notes.title_unfound, summary.notes.tldr_unfound) = (names_of(first), names_of(first + 1));
        self.mark_items(&mut summary.body)
    }

    /// Marks every item of `body`; see [`GroundingCheck::mark_summary`].
    pub(crate) fn mark_items(self, body: &mut [SummaryItem]) -> usize {
        for item in body.iter_mut() {
            item.verified = true;
            item.unfound.clear();
        }
        let mut count = 0;
        for (text_index, names) in self.missing_names() {
            if let Some(item) = body.get_mut(text_index) {
                (item.verified, item.unfound) = (false, names);
                count += 1;
            }
        }
        count
    }
}

impl NamePattern {
    /// Returns the pattern of a name. `root` is the cleaned path of the workspace.
    fn from_mention(name: &NameMention<'_>, root: Option<&str>) -> Self {
        let (class, open_before, open_after) = (name.class, name.open_before, name.open_after);
        Self { spellings: spellings(name, root), class, open_before, open_after }
    }

    /// Returns whether the match at `span` of `text` is the name itself and not a part of a longer name.
    fn is_at(&self, text: &str, span: Range<usize>) -> bool {
        let is_open_after =
            self.open_after || self.class == NameClass::Proper && span.len() >= PROPER_STEM_BYTES_MIN;
        (self.open_before || text_forms::can_begin_at(text, span.start, self.class))
            && (is_open_after || text_forms::can_end_at(text, span.end, self.class))
    }
}

/// Returns whether a number is a part of a longer one in the item's own `text`, as in a version. Such a fragment
/// would never be found on its own, so it is not searched for.
fn is_number_fragment(text: &str, name: &NameMention<'_>) -> bool {
    // `display_name` is a slice of `text`, so its offset is the distance of the two pointers.
    let start = name.display_name.as_ptr().addr() - text.as_ptr().addr();
    let end = start + name.display_name.len();
    name.class == NameClass::Number
        && !((name.open_before || text_forms::can_begin_at(text, start, name.class))
            && (name.open_after || text_forms::can_end_at(text, end, name.class)))
}

/// Returns the accepted spellings of a name: as it is, without markup, relative to the workspace, without the `v` of a
/// version, other notations of a number, and with a small first letter at the beginning of a line.
fn spellings(name: &NameMention<'_>, root: Option<&str>) -> Vec<String> {
    let text = name.text.as_ref();
    let mut spellings = vec![text.to_owned()];
    spellings.extend(name.other_spellings.iter().cloned());
    let unmarked = text_forms::strip_markup(text);
    if unmarked != text {
        spellings.push(unmarked);
    }
    if let Some(inside) = root.and_then(|root| text.strip_prefix(root)?.strip_prefix('/')) {
        spellings.push(inside.to_owned());
    }
    if let Some(number) =
        text.strip_prefix(['v', 'V']).filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    {
        spellings.push(number.to_owned());
    }
    if name.class == NameClass::Number {
        spellings.extend(number_spellings(text));
    }
    let mut letters = text.chars();
    if let Some(first) = letters.next().filter(|first| name.begins_line && first.is_uppercase()) {
        spellings.push(first.to_lowercase().chain(letters).collect());
    }
    spellings.retain(|spelling| !spelling.is_empty());
    spellings.dedup();
    spellings
}

/// Returns the notations of a number: with and without digit groups, with and without a space before the unit.
fn number_spellings(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim_start_matches([' ', '\u{a0}', '\u{202f}']));
    let plain = digits.replace(',', "");
    let grouped = match plain.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group_digits(whole)),
        None => group_digits(&plain),
    };
    let mut spellings = Vec::new();
    for digits in [&plain, &grouped] {
        spellings.push(format!("{digits}{unit}"));
        if !unit.is_empty() {
            spellings.push(format!("{digits} {unit}"));
        }
    }
    spellings
}

/// Returns the digits with a comma before each group of three.
fn group_digits(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The labels with which lines of a selection may begin. A colon ends the label.
const SPEAKERS: [&str; 3] = ["User", "Assistant", "Result"];

/// Returns the text of events in the lines of a selection: without seqs in brackets, without labels, and without
/// lines that have no seq.
fn event_text(lines: &str) -> String {
    let mut out = String::with_capacity(lines.len());
    for line in lines.lines() {
        let Some(length) = ref_length(line) else { continue };
        let mut remaining = line[length..].trim_start();
        if SPEAKERS.iter().any(|speaker| remaining.starts_with(speaker)) {
            remaining = remaining.split_once(": ").map_or(remaining, |(_, content)| content);
        }
        while let Some(start) = remaining.find('[') {
            out.push_str(&remaining[..start]);
            let length = ref_length(&remaining[start..]);
            out.push_str(if length.is_some() { " " } else { "[" });
            remaining = &remaining[start + length.unwrap_or(1)..];
        }
        out.push_str(remaining);
        out.push('\n');
    }
    out
}

/// Returns the length in bytes of the bracketed seq that `text` begins with, such as `[12]`; `None` when there is none.
fn ref_length(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('[')?.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && text[1 + digits..].starts_with(']')).then_some(digits + 2)
}
