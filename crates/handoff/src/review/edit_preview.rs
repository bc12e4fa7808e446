//! A preview of a person's own text: what an acceptance of it would store, with the notes for its review. Nothing is stored.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::Store;
use protocol::{Handoff, Proposal};
use runtime::{DecisionRejection, FrameSender};
use serde_json::{Map, Value};

use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::ThreadScanCache;
use crate::review::decide;
use crate::review::edit::grounding::EditGrounding;
use crate::summary::render;
use crate::summary::render::facts::{FactSection, section_of_heading};

/// The beginning of a heading.
const HEADING: &str = "### ";

/// A preview of an edit of a proposal.
pub struct EditPreview<'a> {
    /// The store that holds the parent thread. It is only read.
    pub store: &'a Arc<dyn Store>,
    /// The cache of thread scans, in which the draft has left its scan.
    pub scan_cache: &'a ThreadScanCache,
    /// The handoff.
    pub handoff: &'a Handoff,
    /// The proposal that is edited.
    pub shown: &'a Proposal,
    /// The receiver of progress frames.
    pub frames: &'a FrameSender,
}

impl EditPreview<'_> {
    /// Returns the proposal that an edit with these arguments would store: `package_md`, `title` or `summary_json`. An edit that
    /// changes nothing returns the shown proposal.
    ///
    /// # Errors
    ///
    /// [`DecisionRejection`] as for a decision with these arguments, or when the journal cannot be read.
    pub fn run<'b>(
        &'b self,
        args: &'b Map<String, Value>,
    ) -> BoxFuture<'b, Result<Proposal, DecisionRejection>> {
        journal::box_future(async move {
            let Some(mut edited) = decide::edited_text(self.shown, args)? else {
                return Ok(self.shown.clone());
            };
            let failed =
                |error: &dyn std::fmt::Display| DecisionRejection::Invalid(format!("failed to {error}"));
            let proposals = self.store.proposals(self.handoff.handoff_id).await;
            let mut proposals = proposals.map_err(|error| failed(&error))?;
            if proposals.is_empty() {
                proposals.push(self.shown.clone());
            }
            let options = serde_json::from_value(self.handoff.options.clone()).unwrap_or_default();
            let thread = ThreadSource {
                store: &**self.store,
                thread_id: self.handoff.parent_thread_id,
                frames: self.frames,
            };
            let grounding = EditGrounding::new(thread, self.scan_cache, &options, &proposals);
            let grounded = grounding.ground(&self.shown.summary_json, &mut edited).await;
            grounded.map_err(|failure| failed(&failure))?;
            let mut summary_json = edited.summary_json;
            summary_json.iteration = self.shown.iteration + 1;
            Ok(Proposal {
                handoff_id: self.handoff.handoff_id,
                iteration: summary_json.iteration,
                summary_sha256: protocol::sha256_hex(&edited.package_md),
                package_md: edited.package_md,
                summary_json,
                feedback: None,
                created_at: Timestamp::now(),
            })
        })
    }
}

/// Returns a person's Markdown with a rule added at the end of its section of rules, or in a new section.
pub fn add_rule(markdown: &str, rule: &str) -> String {
    let bullet =
        format!("- {}", render::escape_block_start(&render::escape_tags(&render::normalize_line(rule))));
    let mut lines: Vec<&str> = markdown.trim_end().lines().collect();
    let is_heading = |line: &&str| {
        let name = line.trim().strip_prefix(HEADING).map(str::to_lowercase);
        name.and_then(|name| section_of_heading(&name)) == Some(FactSection::Rules)
    };
    match lines.iter().position(is_heading) {
        Some(heading) => {
            let below = &lines[heading + 1..];
            let end =
                below.iter().take_while(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
            lines.insert(heading + 1 + end, &bullet);
            lines.join("\n") + "\n"
        }
        None => format!("{}\n\n{HEADING}{}\n{bullet}\n", lines.join("\n"), FactSection::Rules.heading()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_added_to_its_section_or_a_new_one() {
        for (markdown, expected) in [
            (
                "**T**\nS.\n\n### Rules\n- A.\n\n### Tasks\n- [ ] x\n",
                "**T**\nS.\n\n### Rules\n- A.\n- B <c>.\n\n### Tasks\n- [ ] x\n",
            ),
            ("**T**\n\n### Rules", "**T**\n\n### Rules\n- B <c>.\n"),
            ("**T**\n\n### Tasks\n- [ ] x\n", "**T**\n\n### Tasks\n- [ ] x\n\n### Rules\n- B <c>.\n"),
        ] {
            let added = add_rule(markdown, "B\n<c>.");
            assert_eq!(added.replace("&lt;", "<"), expected);
        }
    }
}
