//! Checks that every name in a summary's items occurs in the messages it covers, and marks the items where one does
//! not. It compares names, not meaning: a false sentence without names passes. What Segue itself wrote proves nothing.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use protocol::{Block, HandoffSummary, Message, SummaryItem};
use serde_json::Value;

use facts::Facts;
use facts::{Item, What};
use names::{Named, Sort};

mod forms;
pub(crate) mod names;
#[cfg(test)]
mod tests;

/// Looks for the names of a summary in the events it covers; stops looking when all are found.
#[derive(Debug)]
pub struct Grounding {
    names: Vec<Wanted>,
    missing: usize,
    /// For each pattern of the matcher, the name it is of.
    patterns: Vec<usize>,
    matcher: Option<AhoCorasick>,
}

/// A name that is looked for.
#[derive(Debug)]
struct Wanted {
    shown: String,
    sought: Sought,
    /// The items it is in.
    owners: Vec<usize>,
    is_found: bool,
}

/// What of a name decides where it is found: a text has two equal ones or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// The ways in which it may be written.
    ways: Vec<String>,
    sort: Sort,
    open_before: bool,
    open_after: bool,
}

impl Grounding {
    /// Begins to look for the names in the items of `summary`. Paths inside `workspace` may be named from there or whole.
    pub fn new(summary: &HandoffSummary, workspace: Option<&Path>) -> Self {
        Self::of(&summary.body, workspace)
    }

    /// Begins to look for the names in `body`.
    pub(crate) fn of(body: &[SummaryItem], workspace: Option<&Path>) -> Self {
        let root = workspace.map(|path| names::clean_path(&path.to_string_lossy()));
        let mut known: HashMap<(String, bool, bool), usize> = HashMap::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        let (mut texts, mut patterns) = (Vec::new(), Vec::new());
        for (owner, item) in body.iter().enumerate() {
            names::names(&item.text, |name| {
                if is_part(&item.text, &name) {
                    return;
                }
                let key = (name.text.to_string(), name.open_before, name.open_after);
                let at = *known.entry(key).or_insert_with(|| {
                    let sought = Sought::of(&name, root.as_deref());
                    texts.extend(sought.ways.iter().cloned());
                    patterns.resize(texts.len(), wanted.len());
                    let shown = name.shown.to_owned();
                    wanted.push(Wanted { shown, sought, owners: Vec::new(), is_found: false });
                    wanted.len() - 1
                });
                if !wanted[at].owners.contains(&owner) {
                    wanted[at].owners.push(owner);
                }
            });
        }
        // The other kinds of automaton take longer to build than a thread takes to search.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let matcher = AhoCorasick::builder().kind(kind).build(&texts).ok();
        Self { missing: wanted.len(), names: wanted, patterns, matcher }
    }

    /// Returns whether every name was found, so that no more events need to be shown.
    pub fn is_done(&self) -> bool {
        self.missing == 0
    }

    /// Takes the next covered event. What a sub-agent did and what nobody typed is not covered.
    pub fn see(&mut self, item: &Item) {
        if self.is_done() || item.side {
            return;
        }
        match &item.what {
            What::Message(Message::Human(_)) if item.injected => {}
            What::Message(message) => self.message(message),
            What::ImportedSummary(text) => self.text(text),
            What::InheritedSummary { proven, .. } => self.text(proven),
            What::Note | What::Boundary | What::Unread | What::Other => {}
        }
    }

    /// Takes lines that a model was shown of the covered events, each with its number. One without a number is of our own
    /// making.
    pub fn see_shown(&mut self, lines: &str) {
        if !self.is_done() {
            self.text(&from_events(lines));
        }
    }

    /// Takes the facts of the covered events.
    pub fn see_facts(&mut self, facts: &Facts) {
        let names =
            [&facts.references, &facts.identifiers, &facts.values, &facts.commands, &facts.error_types];
        let names = names.into_iter().flatten().map(|name| name.text.as_str());
        let quotes =
            facts.requests.iter().chain(&facts.statements).chain(&facts.errors).chain(&facts.decisions);
        let quotes = quotes.chain(&facts.proven_summary);
        let texts = facts.files.iter().map(|file| file.path.as_str()).chain(names);
        for text in texts.chain(quotes.map(|quote| quote.text.as_str())) {
            if self.is_done() {
                return;
            }
            self.text(text);
        }
    }

    /// Takes what the person said about the summary, a goal or feedback: it is theirs as much as a message is.
    pub fn see_words(&mut self, words: &str) {
        self.text(words);
    }

    fn message(&mut self, message: &Message) {
        for block in message.content() {
            match block {
                Block::Text { text } => self.text(text),
                Block::ToolCall { name, args, .. } => {
                    self.text(name);
                    self.value(args);
                }
                Block::Thinking { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::Object(fields) => fields.iter().for_each(|(key, item)| {
                self.text(key);
                self.value(item);
            }),
            Value::Number(number) => self.text(&number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Looks in a text, and again in the other forms it may be meant in.
    fn text(&mut self, text: &str) {
        if self.is_done() || self.look(text) {
            return;
        }
        forms::each(text, |form| self.look(form));
    }

    /// Marks what `text` holds as found; returns whether nothing is missing any more.
    fn look(&mut self, text: &str) -> bool {
        let Some(matcher) = &self.matcher else { return self.missing == 0 };
        // Overlapping, because one name is often a part of another.
        for hit in matcher.find_overlapping_iter(text) {
            let name = &mut self.names[self.patterns[hit.pattern().as_usize()]];
            if name.is_found || !name.sought.is_at(text, hit.start()..hit.end()) {
                continue;
            }
            name.is_found = true;
            self.missing -= 1;
            if self.missing == 0 {
                return true;
            }
        }
        false
    }

    /// Returns what was not found.
    pub fn absent(&self) -> Vec<Sought> {
        self.names.iter().filter(|name| !name.is_found).map(|name| name.sought.clone()).collect()
    }

    /// Returns whether nothing but what is in `absent` is still looked for.
    pub fn wants_only(&self, absent: &[Sought]) -> bool {
        self.names.iter().all(|name| name.is_found || absent.contains(&name.sought))
    }

    /// Returns the names that were not found, by the index of their item.
    pub fn missing(&self) -> Vec<(usize, Vec<String>)> {
        let mut missing: Vec<(usize, Vec<String>)> = Vec::new();
        for name in self.names.iter().filter(|name| !name.is_found) {
            for owner in &name.owners {
                match missing.iter_mut().find(|(item, _)| item == owner) {
                    Some((_, names)) if names.contains(&name.shown) => {}
                    Some((_, names)) => names.push(name.shown.clone()),
                    None => missing.push((*owner, vec![name.shown.clone()])),
                }
            }
        }
        missing.sort_by_key(|(owner, _)| *owner);
        missing
    }

    /// Marks the items that name what was not found; returns how many there are.
    pub fn finish(self, summary: &mut HandoffSummary) -> usize {
        self.mark(&mut summary.body)
    }

    /// Marks the items of `body`, which this was made of.
    pub(crate) fn mark(self, body: &mut [SummaryItem]) -> usize {
        for item in body.iter_mut() {
            item.verified = true;
            item.unfound.clear();
        }
        let missing = self.missing();
        let count = missing.len();
        for (owner, names) in missing {
            if let Some(item) = body.get_mut(owner) {
                item.verified = false;
                item.unfound = names;
            }
        }
        count
    }
}

impl Sought {
    fn of(name: &Named<'_>, root: Option<&str>) -> Self {
        let (sort, open_before, open_after) = (name.sort, name.open_before, name.open_after);
        Self { ways: written(name, root), sort, open_before, open_after }
    }

    fn is_at(&self, text: &str, span: Range<usize>) -> bool {
        (self.open_before || forms::begins(text, span.start, self.sort))
            && (self.open_after || forms::ends(text, span.end, self.sort))
    }
}

/// Returns whether a number is a part of a longer one where `text` has it, as in a version: nothing of that sort is ever
/// found on its own.
fn is_part(text: &str, name: &Named<'_>) -> bool {
    // What is shown of a name is a piece of the text it was found in.
    let start = name.shown.as_ptr().addr() - text.as_ptr().addr();
    let end = start + name.shown.len();
    name.sort == Sort::Number
        && !((name.open_before || forms::begins(text, start, name.sort))
            && (name.open_after || forms::ends(text, end, name.sort)))
}

/// Returns the ways in which a name may be written.
fn written(name: &Named<'_>, root: Option<&str>) -> Vec<String> {
    let text = name.text.as_ref();
    let mut ways = vec![text.to_owned()];
    let bare = forms::bare(text);
    if bare != text {
        ways.push(bare);
    }
    if let Some(inside) = root.and_then(|root| text.strip_prefix(root)?.strip_prefix('/')) {
        ways.push(inside.to_owned());
    }
    if let Some(number) =
        text.strip_prefix(['v', 'V']).filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    {
        ways.push(number.to_owned());
    }
    if name.sort == Sort::Number {
        ways.extend(numbers(text));
    }
    let mut letters = text.chars();
    if let Some(first) = letters.next().filter(|first| name.begins_line && first.is_uppercase()) {
        ways.push(first.to_lowercase().chain(letters).collect());
    }
    ways.retain(|way| !way.is_empty());
    ways.dedup();
    ways
}

/// Returns the other ways to write a number: digits in groups or not, a space before the unit or not.
fn numbers(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim_start_matches([' ', '\u{a0}', '\u{202f}']));
    let joined = digits.replace(',', "");
    let grouped = match joined.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", in_groups(whole)),
        None => in_groups(&joined),
    };
    let mut ways = Vec::new();
    for digits in [&joined, &grouped] {
        ways.push(format!("{digits}{unit}"));
        if !unit.is_empty() {
            ways.push(format!("{digits} {unit}"));
        }
    }
    ways
}

fn in_groups(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Whom the lines of a selection may be of; a colon ends it.
const SPEAKERS: [&str; 3] = ["User", "Assistant", "Result"];

/// Returns what of a selection's lines is from the events: not their numbers, not who speaks, and no line without a number.
fn from_events(lines: &str) -> String {
    let mut out = String::with_capacity(lines.len());
    for line in lines.lines() {
        let Some(length) = ref_length(line) else { continue };
        let mut rest = line[length..].trim_start();
        if SPEAKERS.iter().any(|speaker| rest.starts_with(speaker)) {
            rest = rest.split_once(": ").map_or(rest, |(_, said)| said);
        }
        while let Some(at) = rest.find('[') {
            out.push_str(&rest[..at]);
            let length = ref_length(&rest[at..]);
            out.push_str(if length.is_some() { " " } else { "[" });
            rest = &rest[at + length.unwrap_or(1)..];
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

/// Returns the length of the seq in brackets that `text` begins with.
fn ref_length(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('[')?.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0 && text[1 + digits..].starts_with(']')).then_some(digits + 2)
}
