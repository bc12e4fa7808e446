//! The change of one line of an accepted package. A statement that the package makes in several places changes in all of them:
//! a task is among the tasks, among the next steps, and counted in the TL;DR.
//!
//! Only the lines of items and facts can be changed. The title, the TL;DR and the headings stay, apart from what they say
//! about the changed line.

use jiff::Timestamp;
use protocol::{CarriedFacts, Proposal, SummaryItem, SummaryItemKind, TodoStatus};
use runtime::DecisionRejection;

use super::task_count::TaskCounts;
use super::{CUT_TASK_BYTES_MIN, ELLIPSIS, PackageLine};
use crate::review::decide::EditedSummary;
use crate::review::edit;
use crate::summary::offline_summary::{EARLIER_REQUEST_LABEL, quoted_request};
use crate::summary::render;
use crate::summary::render::facts::{DONE, FactSection, IN_PROGRESS, OPEN, section_of_heading};

/// The beginning of a heading.
const HEADING: &str = "### ";
/// The beginning of the line of an item or a fact.
const BULLET: &str = "- ";
/// Clauses of an offline TL;DR about the last request.
const REQUEST_STATES: [&str; 2] = ["the last request is pending", "the last request was answered"];

/// The reason why an update is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpdateError {
    /// The line is the title, the TL;DR, a heading or blank.
    #[error("only the lines of items and facts can be changed, which begin with `- `")]
    NotABullet,
    /// The replacement has several lines.
    #[error("the replacement must be one line")]
    SeveralLines,
    /// The replacement contains a control character.
    #[error("the replacement contains a control character: U+{:04X}", u32::from(*.0))]
    ControlCharacter(char),
    /// The replacement has no text.
    #[error("the replacement is empty: leave it out to remove the line")]
    Empty,
    /// The replacement would be a heading.
    #[error("the replacement is a heading: begin the line with `- `")]
    Heading,
}

impl From<UpdateError> for DecisionRejection {
    fn from(error: UpdateError) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Returns the package with one line replaced, or removed if `replacement` is `None`, as the next proposal of its handoff.
/// `None` if the package does not contain the line.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the line cannot be changed, or the changed text is no valid package.
pub fn update_package(
    package: &Proposal,
    line: PackageLine<'_>,
    replacement: Option<&str>,
) -> Result<Option<Proposal>, DecisionRejection> {
    let replacement = replacement.map(clean_replacement).transpose()?;
    let Some(changed) = change_lines(&package.package_md, line, replacement.as_deref())? else {
        return Ok(None);
    };
    let shown = &package.summary_json;
    let Some(edited) = parse_changed(package, &changed)? else { return Ok(Some(package.clone())) };
    let recounted = recount_tasks(&changed, &shown.carried, &edited.summary_json.carried);
    let edited = match recounted == changed {
        true => edited,
        // A sentence that is too long with the new number keeps the old one.
        false => parse_changed(package, &recounted).ok().flatten().unwrap_or(edited),
    };
    let (mut summary_json, mut package_md) = (edited.summary_json, edited.package_md);
    summary_json.iteration = package.iteration + 1;
    let carry = &mut summary_json.carried;
    if carry.last_user_request != shown.carried.last_user_request {
        // The conversation shows nothing about a request that it does not contain.
        carry.last_request_answered = None;
    }
    let tldr = updated_tldr(&summary_json.tldr, &shown.carried, carry);
    if tldr != summary_json.tldr {
        let (before, after) = (render::tldr_markdown(&summary_json.tldr), render::tldr_markdown(&tldr));
        package_md = package_md.replacen(&before, &after, 1);
        summary_json.tldr = tldr;
    }
    Ok(Some(Proposal {
        handoff_id: package.handoff_id,
        iteration: package.iteration + 1,
        summary_sha256: protocol::sha256_hex(&package_md),
        package_md,
        summary_json,
        feedback: None,
        created_at: Timestamp::now(),
    }))
}

/// Returns the changed text as a summary; `None` if it equals the package.
fn parse_changed(package: &Proposal, changed: &str) -> Result<Option<EditedSummary>, DecisionRejection> {
    let submitted = edit::clean_submitted_text(&package.package_md, changed)?;
    submitted.map(|submitted| edit::parse_markdown(&package.summary_json, submitted, None)).transpose()
}

/// Returns the text with the number of tasks in its title, TL;DR and items as it is after the change.
fn recount_tasks(text: &str, before: &CarriedFacts, after: &CarriedFacts) -> String {
    let (offline_before, offline_after) = (task_count(before), task_count(after));
    let (before, after) = (TaskCounts::from_facts(before), TaskCounts::from_facts(after));
    if before == after {
        return text.to_owned();
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let recounted = lines.iter().enumerate().map(|(index, line)| match section_at(&lines, index) {
        None if !line.starts_with(HEADING) => {
            before.replace_in(&replace_clause(line, &offline_before, &offline_after), after)
        }
        None | Some(_) => line.clone(),
    });
    recounted.collect::<Vec<_>>().join("\n")
}

/// Returns the replacement as the line of an item or a fact.
fn clean_replacement(text: &str) -> Result<String, UpdateError> {
    if text.contains(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']) {
        return Err(UpdateError::SeveralLines);
    }
    if let Some(control) = text.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(UpdateError::ControlCharacter(control));
    }
    let text = text.trim();
    if text.starts_with('#') || text.len() > 4 && text.starts_with("**") && text.ends_with("**") {
        return Err(UpdateError::Heading);
    }
    let text = match text.strip_prefix('-') {
        Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => rest,
        Some(_) | None => text,
    };
    let text = edit::plain_text(&render::normalize_line(text));
    match text.is_empty() {
        true => Err(UpdateError::Empty),
        false => Ok(bullet(&text)),
    }
}

/// Returns a plain text as the line of an item or a fact.
fn bullet(text: &str) -> String {
    format!("{BULLET}{}", render::escape_block_start(&render::escape_tags(text)))
}

/// Returns the text with the line changed, and with it all others that say the same; `None` if it does not contain the line there.
/// A section whose last line is removed goes with its heading.
pub(super) fn change_lines(
    text: &str,
    line: PackageLine<'_>,
    replacement: Option<&str>,
) -> Result<Option<String>, UpdateError> {
    let (numbers, mut lines): (Vec<usize>, Vec<String>) = render::block::statements(text).into_iter().unzip();
    // A line may come back from a program that takes other characters for line ends or white space.
    let comparable = |text: &str| render::strip_hidden(text).trim_end().to_owned();
    let wanted = comparable(line.text);
    let is_line = |known: &String| comparable(known) == wanted;
    let at = match line.number {
        Some(number) => numbers.iter().position(|known| *known == number).filter(|at| is_line(&lines[*at])),
        None => lines.iter().position(is_line),
    };
    let Some(at) = at else { return Ok(None) };
    let before = statement(&lines[at]).ok_or(UpdateError::NotABullet)?;
    let section = section_at(&lines, at);
    let sections: Vec<Option<FactSection>> =
        (0..lines.len()).map(|index| section_at(&lines, index)).collect();
    let is_next_step: Vec<bool> = (0..lines.len()).map(|index| is_next_step(&lines, index)).collect();
    let mut removed = Vec::new();
    for (index, line) in lines.iter_mut().enumerate() {
        let is_same = || {
            statement(line).is_some_and(|other| match is_work(section) {
                true => is_same_work(&before, &other),
                false => is_same_statement(&before, &other),
            })
        };
        if index != at && !(is_same_subject(section, sections[index]) && is_same()) {
            continue;
        }
        match replacement {
            Some(replacement) if index == at => replacement.clone_into(line),
            // A step that names a task without a box is open by its place, so it needs the box of a task that is done.
            Some(replacement) if is_next_step[index] && is_completion(&before, replacement) => {
                *line = line_elsewhere(&with_box(line), &before, replacement);
            }
            Some(replacement) => *line = line_elsewhere(line, &before, replacement),
            None => removed.push(index),
        }
    }
    if section == Some(FactSection::LastRequest) {
        update_request(&mut lines, &before, replacement, &mut removed);
    }
    removed.sort_unstable();
    removed.dedup();
    removed.into_iter().rev().for_each(|index| remove_line(&mut lines, index));
    Ok(Some(lines.join("\n")))
}

/// Removes a line, and the heading above it if the section is empty then.
fn remove_line(lines: &mut Vec<String>, index: usize) {
    lines.remove(index);
    let is_section_empty = index > 0
        && lines[index - 1].starts_with(HEADING)
        && lines.get(index).is_none_or(|next| next.trim().is_empty() || next.starts_with('#'));
    if is_section_empty {
        lines.remove(index - 1);
    }
}

/// Updates what the package says elsewhere about the last request, whose text was `before`: the next steps that quote it, and the
/// state in its heading.
fn update_request(lines: &mut [String], before: &str, replacement: Option<&str>, removed: &mut Vec<usize>) {
    let after = replacement.and_then(statement);
    for (index, line) in lines.iter_mut().enumerate() {
        let name = line.strip_prefix(HEADING).map(str::to_lowercase);
        if name.and_then(|name| section_of_heading(&name)) == Some(FactSection::LastRequest) {
            *line = format!("{HEADING}{}", FactSection::LastRequest.heading());
            continue;
        }
        let Some(text) = statement(line) else { continue };
        let Some((label, quote)) = quoted_request(&text) else { continue };
        if !is_same_statement(before, quote) {
            continue;
        }
        // The newer request does not say what became of this one, so it stays among the next steps.
        match &after {
            Some(_) => *line = bullet(&text.replacen(label, EARLIER_REQUEST_LABEL, 1)),
            None => removed.push(index),
        }
    }
}

/// Returns the section of facts that contains a line; `None` for a line of an item.
fn section_at(lines: &[String], at: usize) -> Option<FactSection> {
    let heading = lines[..at].iter().rev().find_map(|line| line.strip_prefix(HEADING))?;
    section_of_heading(&heading.to_lowercase())
}

/// Returns whether the line is one of the next steps.
fn is_next_step(lines: &[String], at: usize) -> bool {
    let heading = lines[..at].iter().rev().find_map(|line| line.strip_prefix(HEADING));
    heading == Some(render::heading(SummaryItemKind::NextStep))
}

/// Returns whether the replacement only says that the task `before` is done.
fn is_completion(before: &str, replacement: &str) -> bool {
    let text = edit::plain_text(replacement.strip_prefix(BULLET).unwrap_or(replacement));
    matches!(split_box(&text), (DONE, statement) if is_same_statement(statement, before))
}

/// Returns the line with an open box, unless it has one.
fn with_box(line: &str) -> String {
    let text = line.strip_prefix(BULLET).unwrap_or(line);
    match split_box(text) {
        ("", text) => format!("{BULLET}{OPEN}{text}"),
        _ => line.to_owned(),
    }
}

/// Returns what the line of an item or a fact says, without the box and the state of a task; `None` for another line.
fn statement(line: &str) -> Option<String> {
    let text = edit::plain_text(line.strip_prefix(BULLET)?);
    let (_, text) = split_box(&text);
    Some(text.strip_suffix(IN_PROGRESS).unwrap_or(text).trim().to_owned())
}

/// Returns the box of a task, which is empty for another line, and the text after it.
fn split_box(text: &str) -> (&'static str, &str) {
    for task in [OPEN, DONE] {
        if let Some(text) = text.strip_prefix(task) {
            return (task, text);
        }
    }
    ("", text)
}

/// Returns whether equal statements of two sections of facts are about the same. Items, which have none, repeat tasks; a rule
/// or goal with the words of the last request is one of its own.
fn is_same_subject(a: Option<FactSection>, b: Option<FactSection>) -> bool {
    a == b || is_work(a) && is_work(b)
}

/// Returns whether the lines of a section tell about work: items, which have none, and tasks.
fn is_work(section: Option<FactSection>) -> bool {
    matches!(section, None | Some(FactSection::Tasks))
}

/// Returns whether two tasks or steps are the same: the same statement, or the same words with other case, punctuation or
/// markup.
fn is_same_work(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let is_cut = a.ends_with(ELLIPSIS) || b.ends_with(ELLIPSIS);
    is_same_statement(a, b) || !is_cut && !words(a).is_empty() && words(a) == words(b)
}

/// Returns whether two statements are the same, where one of them may be cut.
fn is_same_statement(a: &str, b: &str) -> bool {
    let is_cut_form = |cut: &str, whole: &str| {
        let beginning = cut.trim_end_matches(ELLIPSIS).trim_end();
        cut.ends_with(ELLIPSIS) && beginning.len() >= CUT_TASK_BYTES_MIN && whole.starts_with(beginning)
    };
    a == b || is_cut_form(a, b) || is_cut_form(b, a)
}

/// Returns the line `other`, which says the same as the line `before`, after its replacement. It stays a task if it is one,
/// and keeps its text if only the box has changed.
fn line_elsewhere(other: &str, before: &str, replacement: &str) -> String {
    let other_text = edit::plain_text(other.strip_prefix(BULLET).unwrap_or(other));
    let replacement_text = edit::plain_text(replacement.strip_prefix(BULLET).unwrap_or(replacement));
    let ((other_box, other_statement), (new_box, new_statement)) =
        (split_box(&other_text), split_box(&replacement_text));
    let is_kept =
        is_same_work(new_statement.strip_suffix(IN_PROGRESS).unwrap_or(new_statement).trim(), before);
    let text = match is_kept {
        true => other_statement.strip_suffix(IN_PROGRESS).unwrap_or(other_statement),
        false => new_statement,
    };
    let mark = if is_kept && other.ends_with(SummaryItem::UNVERIFIED) { SummaryItem::UNVERIFIED } else { "" };
    let task = if other_box.is_empty() { "" } else { new_box };
    bullet(&format!("{task}{text}")) + mark
}

/// Returns the TL;DR with the number of open tasks and the state of the last request as they are after the change.
fn updated_tldr(tldr: &str, before: &CarriedFacts, after: &CarriedFacts) -> String {
    let mut updated = tldr.to_owned();
    if before.todos != after.todos {
        updated = replace_clause(&updated, &task_count(before), &task_count(after));
    }
    if before.last_user_request != after.last_user_request {
        let state = match after.last_user_request {
            Some(_) => "a newer request was made",
            None => "no last request is listed",
        };
        for before in REQUEST_STATES {
            updated = replace_clause(&updated, before, state);
        }
    }
    updated
}

/// Returns the clause of a TL;DR about the tasks.
fn task_count(facts: &CarriedFacts) -> String {
    let open = facts.todos.iter().filter(|task| task.status != TodoStatus::Completed).count();
    match facts.todos.len() {
        0 => "no task is listed".to_owned(),
        1 => format!("{open} of 1 task open"),
        count => format!("{open} of {count} tasks open"),
    }
}

/// Replaces a clause at the beginning of the text or after a space or another sign that continues no word.
fn replace_clause(text: &str, before: &str, after: &str) -> String {
    let capitalized = |clause: &str| {
        let mut letters = clause.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    };
    for (before, after) in [(before.to_owned(), after.to_owned()), (capitalized(before), capitalized(after))]
    {
        if let Some(at) = text.find(&before).filter(|at| !text[..*at].ends_with(char::is_alphanumeric)) {
            let after = if at == 0 { capitalized(&after) } else { after };
            return format!("{}{after}{}", &text[..at], &text[at + before.len()..]);
        }
    }
    text.to_owned()
}
