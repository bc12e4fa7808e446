//! Grounding of a person's own text: the names in its changed parts are looked for in the conversation.
//!
//! An edit is never refused for a name. A name that the person wrote and that is not found is noted for the review, and an
//! unverified part stays so until its names are found.

use std::path::Path;

use protocol::{HandoffSummary, Proposal, SummaryItem};
use runtime::StepFailure;

use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::{ScanRequest, ThreadScanCache};
use crate::request::HandoffOptions;
use crate::review::decide::EditedSummary;
use crate::review::edit::marks::{invented_names, unfound_names, without_names};
use crate::review::edit::plain_text;
use crate::summary::ground::GroundingCheck;
use crate::summary::render;

/// The conversation in which the names of an edit are looked for.
pub(crate) struct EditGrounding<'a> {
    /// The thread that is handed off.
    thread: ThreadSource<'a>,
    /// The cache of thread scans, in which the draft has left its scan.
    scan_cache: &'a ThreadScanCache,
    /// The options of the handoff.
    options: &'a HandoffOptions,
    /// The feedback on earlier drafts, in which the person may have named something too.
    feedback: Vec<&'a str>,
    /// The names that drafts have invented. What the person writes does not verify them.
    invented: Vec<String>,
}

/// A part of a summary with text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SummaryPart {
    /// The item of that index.
    Item(usize),
    /// The title.
    Title,
    /// The TL;DR.
    Tldr,
    /// An entry of the facts.
    Fact,
}

impl<'a> EditGrounding<'a> {
    /// Returns the grounding for an edit of the newest of the proposals of a handoff.
    pub(crate) fn new(
        thread: ThreadSource<'a>,
        scan_cache: &'a ThreadScanCache,
        options: &'a HandoffOptions,
        proposals: &'a [Proposal],
    ) -> Self {
        let feedback = proposals.iter().filter_map(|proposal| proposal.feedback.as_deref()).collect();
        Self { thread, scan_cache, options, feedback, invented: invented_names(proposals) }
    }

    /// Notes the names in the changed parts of the edit that the conversation does not contain, and lists the largest topics
    /// that the edit does not mention. An unverified part whose names are all found becomes verified.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read. The edit is unchanged then.
    pub(crate) async fn ground(
        &self,
        shown: &HandoffSummary,
        edited: &mut EditedSummary,
    ) -> Result<(), StepFailure> {
        let changed = changed_parts(shown, &edited.summary_json);
        let texts = changed.iter().map(|(_, text)| text.as_str());
        let mut check = GroundingCheck::from_texts(texts, self.workspace());
        let has_other_sources = has_other_sources(shown, &edited.summary_json);
        if has_other_sources || !check.is_done() {
            let goal = self.options.goal.as_deref().map(secrets::redact);
            let messages = self.options.messages;
            let scan = ScanRequest { messages, goal: goal.as_deref(), ..ScanRequest::default() };
            let scan = self.scan_cache.scan_thread(self.thread, scan).await?;
            let feedback: Vec<String> =
                self.feedback.iter().map(|text| without_names(text, &self.invented)).collect();
            let feedback: Vec<&str> = feedback.iter().map(String::as_str).collect();
            scan.find_names(self.thread, &mut check, &feedback).await?;
            if has_other_sources {
                let summary = &mut edited.summary_json;
                summary.notes.topics = scan.unrepresented_topics(&summary.coverage);
            }
        }
        let names = check.missing_names();
        let missing = |index: usize| {
            let names = names.iter().find(|(text_index, _)| *text_index == index);
            names.map(|(_, names)| names.clone()).unwrap_or_default()
        };
        let missing = changed.iter().enumerate().map(|(index, (part, _))| (*part, missing(index)));
        mark_parts(shown, edited, missing.collect());
        self.mark_invented_names(shown, edited, &check);
        Ok(())
    }

    /// Marks the changed parts that bring back a name which an earlier draft has invented. A name that the shown text marks is
    /// the decision of the person, who saw its mark.
    fn mark_invented_names(
        &self,
        shown: &HandoffSummary,
        edited: &mut EditedSummary,
        check: &GroundingCheck,
    ) {
        let marked = unfound_names(shown);
        let is_back = |name: &String| self.invented.contains(name) && !marked.contains(name);
        let missing: Vec<String> =
            check.missing_names().into_iter().flat_map(|(_, names)| names).filter(is_back).collect();
        if missing.is_empty() {
            return;
        }
        let is_rendered = edited.package_md.trim() == render::render_summary(&edited.summary_json).trim();
        let summary = &mut edited.summary_json;
        let mut texts = Vec::new();
        let mut placed: Vec<String> = Vec::new();
        for (part, text) in changed_parts(shown, summary) {
            let names: Vec<String> =
                missing.iter().filter(|name| text.contains(name.as_str())).cloned().collect();
            let unfound = match part {
                SummaryPart::Item(index) => &mut summary.body[index].unfound,
                SummaryPart::Title => &mut summary.notes.title_unfound,
                SummaryPart::Tldr => &mut summary.notes.tldr_unfound,
                SummaryPart::Fact => continue,
            };
            if names.is_empty() {
                continue;
            }
            placed.extend(names.iter().cloned());
            // A part with other names that were not found has its mark.
            if unfound.is_empty() {
                texts.push(text);
            }
            let new: Vec<String> = names.into_iter().filter(|name| !unfound.contains(name)).collect();
            unfound.extend(new);
            if let SummaryPart::Item(index) = part {
                summary.body[index].verified = false;
            }
        }
        summary.notes.names_by_user.retain(|name| !placed.contains(name));
        edited.package_md = match is_rendered {
            true => render::render_summary(summary),
            false => {
                texts.iter().fold(std::mem::take(&mut edited.package_md), |md, text| add_mark(&md, text))
            }
        };
    }

    /// Returns the folder of the thread.
    fn workspace(&self) -> Option<&Path> {
        self.options.workspace.as_deref()
    }
}

/// Returns whether the edit refers to other messages than the shown text, so that it may mention other topics.
fn has_other_sources(shown: &HandoffSummary, edited: &HandoffSummary) -> bool {
    let (before, after) = (&shown.coverage, &edited.coverage);
    before.quoted != after.quoted
        || before.represented != after.represented
        || shown.notes.topics != edited.notes.topics
}

/// Returns the text with the mark of unverified parts after the line that ends the part `text`, unless it has one.
fn add_mark(markdown: &str, text: &str) -> String {
    let Some(last) = text.lines().last() else { return markdown.to_owned() };
    let mut lines: Vec<String> = markdown.lines().map(str::to_owned).collect();
    let is_last = |line: &&mut String| {
        let line = line.trim_end().trim_end_matches(SummaryItem::UNVERIFIED);
        plain_text(line.strip_prefix("- ").unwrap_or(line)).trim_matches('*') == last
    };
    if let Some(line) = lines.iter_mut().find(is_last)
        && !line.trim_end().ends_with(SummaryItem::UNVERIFIED)
    {
        line.push_str(SummaryItem::UNVERIFIED);
    }
    lines.join("\n")
}

/// Returns the parts of `edited` that `shown` does not contain, with their texts.
fn changed_parts(shown: &HandoffSummary, edited: &HandoffSummary) -> Vec<(SummaryPart, String)> {
    let is_shown = |text: &str| shown.body.iter().any(|item| item.text == text);
    let items = edited.body.iter().enumerate().filter(|(_, item)| !is_shown(&item.text));
    let mut parts: Vec<(SummaryPart, String)> =
        items.map(|(index, item)| (SummaryPart::Item(index), item.text.clone())).collect();
    let heads =
        [(SummaryPart::Title, &shown.title, &edited.title), (SummaryPart::Tldr, &shown.tldr, &edited.tldr)];
    let heads = heads.into_iter().filter(|(_, before, after)| before != after);
    parts.extend(heads.map(|(part, _, after)| (part, after.clone())));
    if edited.carried.is_in_markdown && edited.carried != shown.carried {
        let before = render::facts_markdown(&shown.carried);
        let after = render::facts_markdown(&edited.carried);
        let before: Vec<String> = entries(&before).collect();
        parts.extend(
            entries(&after).filter(|entry| !before.contains(entry)).map(|entry| (SummaryPart::Fact, entry)),
        );
    }
    parts
}

/// Returns the entries of facts, each with all its lines.
fn entries(markdown: &str) -> impl Iterator<Item = String> {
    let statements = render::block::statements(markdown).into_iter();
    statements.filter_map(|(_, statement)| statement.strip_prefix("- ").map(str::to_owned))
}

/// Marks the parts with the names in them that were not found.
fn mark_parts(shown: &HandoffSummary, edited: &mut EditedSummary, missing: Vec<(SummaryPart, Vec<String>)>) {
    let summary = &mut edited.summary_json;
    let rendered = render::render_summary(summary);
    let is_rendered = edited.package_md.trim() == rendered.trim();
    let shown_md = render::render_summary(shown);
    let mut by_user = Vec::new();
    for (part, names) in missing {
        let unfound = match part {
            SummaryPart::Item(index) => summary.body.get_mut(index).map(|item| &mut item.unfound),
            SummaryPart::Title => Some(&mut summary.notes.title_unfound),
            SummaryPart::Tldr => Some(&mut summary.notes.tldr_unfound),
            SummaryPart::Fact => None,
        };
        if let Some(unfound) = unfound.filter(|unfound| !unfound.is_empty()) {
            unfound.retain(|name| names.contains(name));
            if let SummaryPart::Item(index) = part {
                summary.body[index].verified = summary.body[index].unfound.is_empty();
            }
        }
        by_user.extend(names.into_iter().filter(|name| !shown_md.contains(name.as_str())));
    }
    let noted = &mut summary.notes.names_by_user;
    noted.extend(by_user);
    let mut seen: Vec<String> = Vec::new();
    noted.retain(|name| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    // A text that Segue rendered has the marks of its items. The person's own layout stays as they wrote it.
    let marked = render::render_summary(summary);
    if is_rendered && marked != rendered {
        edited.package_md = marked;
    }
}
