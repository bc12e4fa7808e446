//! The notes in agent.md that belong to one project. They stand in a section of the file with the heading
//! `## Project: PATH`, which ends before the next heading of level 1 or 2 outside of a code fence. All other notes are
//! personal: conversations in every project see them. This module works on text and touches no file.

use std::ops::Range;

use crate::managed_block;
use crate::prompt::open_fence_after;

/// The beginning of the heading of a project's section.
const HEADING_START: &str = "## Project: ";

/// The notes of agent.md that a conversation sees and may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NotesScope {
    /// The notes of all projects, and the personal ones.
    #[default]
    AllProjects,
    /// The notes of the project with this path, and the personal ones.
    Project(String),
}

/// The conversations that see a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteOwner<'a> {
    /// Conversations in all projects see the note.
    Personal,
    /// Conversations in the project with this path see the note.
    Project(&'a str),
}

/// The section of a project.
struct ProjectSection {
    /// The bytes from the heading to the end of the section.
    range: Range<usize>,
    /// The path as the heading has it.
    project: String,
}

impl NotesScope {
    /// Returns the owner of notes that are added without saying whose they are.
    pub fn default_owner(&self) -> NoteOwner<'_> {
        match self {
            Self::AllProjects => NoteOwner::Personal,
            Self::Project(path) => NoteOwner::Project(path),
        }
    }

    /// Returns whether conversations with this scope see the section.
    fn includes(&self, section: &ProjectSection) -> bool {
        match self {
            Self::AllProjects => true,
            Self::Project(path) => section.project == heading_path(path),
        }
    }
}

/// Returns the ranges of the text that conversations with this scope do not see.
pub(crate) fn hidden_ranges(text: &[u8], scope: &NotesScope) -> Vec<Range<usize>> {
    let sections = find_sections(text).into_iter();
    sections.filter(|section| !scope.includes(section)).map(|section| section.range).collect()
}

/// Returns the text without the notes that conversations with this scope do not see.
pub(crate) fn remove_hidden_notes(text: &[u8], scope: &NotesScope) -> Vec<u8> {
    remove_ranges(text, &hidden_ranges(text, scope))
}

/// Returns the notes that a new note of this owner could repeat: the personal ones, and those of its project.
pub(crate) fn notes_of_owner(text: &[u8], owner: NoteOwner<'_>) -> Vec<u8> {
    remove_ranges(text, &ranges_of_others(text, owner))
}

/// Returns the ranges of the text with the notes of this very owner.
pub(crate) fn ranges_of_owner(text: &[u8], owner: NoteOwner<'_>) -> Vec<Range<usize>> {
    let sections = find_sections(text);
    match owner {
        NoteOwner::Project(path) => {
            let is_own = |section: &ProjectSection| section.project == heading_path(path);
            sections.into_iter().filter(is_own).map(|section| section.range).collect()
        }
        NoteOwner::Personal => {
            let ends = sections.iter().map(|section| section.range.start).chain([text.len()]);
            let starts = [0].into_iter().chain(sections.iter().map(|section| section.range.end));
            starts.zip(ends).map(|(start, end)| start..end).collect()
        }
    }
}

/// Returns the ranges of the text that a new note of this owner could not repeat.
pub(crate) fn ranges_of_others(text: &[u8], owner: NoteOwner<'_>) -> Vec<Range<usize>> {
    let is_of_other = |section: &ProjectSection| match owner {
        NoteOwner::Personal => true,
        NoteOwner::Project(path) => section.project != heading_path(path),
    };
    find_sections(text).into_iter().filter(is_of_other).map(|section| section.range).collect()
}

/// Returns the text with a section for the project of `owner`, which is added at the end of the notes if it is missing.
/// `eol` is the line ending of the text.
pub(crate) fn with_section_of(text: &[u8], owner: NoteOwner<'_>, eol: &str) -> Vec<u8> {
    let NoteOwner::Project(path) = owner else { return text.to_vec() };
    if find_section(text, path).is_some() {
        return text.to_vec();
    }
    let end = managed_block::notes_end_offset(text);
    let notes = text[..end].trim_ascii_end();
    let notes = if notes == "\u{feff}".as_bytes() { text[..end].to_vec() } else { notes.to_vec() };
    let before = if notes.is_empty() || notes == "\u{feff}".as_bytes() { "" } else { &eol.repeat(2) };
    let after = if end < text.len() { eol.repeat(2) } else { eol.to_owned() };
    let heading = format!("{before}{HEADING_START}{}{after}", heading_path(path));
    [&notes, heading.as_bytes(), &text[end..]].concat()
}

/// Returns the offset up to which the notes of this owner reach, where a new one is added. A project must have a section.
pub(crate) fn append_offset(text: &[u8], owner: NoteOwner<'_>) -> usize {
    let end = match owner {
        NoteOwner::Project(path) => find_section(text, path).map(|section| section.range.end),
        NoteOwner::Personal => find_sections(text).first().map(|section| section.range.start),
    };
    managed_block::notes_end_offset(&text[..end.unwrap_or(text.len())])
}

/// A text, and the part of it that a replacement concerns.
pub(crate) struct ReplacedPart<'a> {
    /// The whole text.
    pub(crate) text: &'a [u8],
    /// The range of the part.
    pub(crate) range: &'a Range<usize>,
}

/// Returns whether a replacement leaves every note with its owner: the sections are the same, the hidden ones are
/// unchanged, and their boundaries are where they were.
pub(crate) fn keeps_owners(old: &ReplacedPart<'_>, new: &ReplacedPart<'_>, scope: &NotesScope) -> bool {
    if *scope == NotesScope::AllProjects {
        return true;
    }
    let (old_sections, new_sections) = (find_sections(old.text), find_sections(new.text));
    // The offset in the new text of a boundary of the old one; `None` within the replaced part.
    let moved = |offset: usize| match offset {
        _ if offset >= old.range.end => Some(offset - old.range.end + new.range.end),
        _ if offset <= old.range.start => Some(offset),
        _ => None,
    };
    let is_same = |(one, other): (&ProjectSection, &ProjectSection)| {
        one.project == other.project
            && moved(one.range.start) == Some(other.range.start)
            && moved(one.range.end) == Some(other.range.end)
            && (scope.includes(one) || old.text[one.range.clone()] == new.text[other.range.clone()])
    };
    old_sections.len() == new_sections.len() && old_sections.iter().zip(&new_sections).all(is_same)
}

/// Returns the first section of a project.
fn find_section(text: &[u8], path: &str) -> Option<ProjectSection> {
    let path = heading_path(path);
    find_sections(text).into_iter().find(|section| section.project == path)
}

/// Returns the sections of projects, in order. Headings within the managed block are part of it.
///
/// A heading of a project counts within a code fence too, so that a fence that is never closed shows no project's notes to
/// another one.
fn find_sections(text: &[u8]) -> Vec<ProjectSection> {
    let managed = managed_block::managed_ranges(text);
    let mut sections: Vec<ProjectSection> = Vec::new();
    let mut fence: Option<String> = None;
    let mut is_open = false;
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let range = start..start + line.len();
        start = range.end;
        if !managed.iter().any(|managed| managed.contains(&range.start)) {
            let line = String::from_utf8_lossy(line);
            let line = line.trim_start_matches('\u{feff}').trim_end();
            if let Some(project) = line.strip_prefix(HEADING_START) {
                sections.push(ProjectSection { range: range.clone(), project: project.trim().to_owned() });
                (is_open, fence) = (true, None);
            } else if fence.is_none() && (line.starts_with("# ") || line.starts_with("## ")) {
                is_open = false;
            }
            fence = if is_open {
                open_fence_after(fence.as_deref(), line.trim()).map(str::to_owned)
            } else {
                None
            };
        }
        if let Some(section) = sections.last_mut().filter(|_| is_open) {
            section.range.end = range.end;
        }
    }
    sections
}

/// Returns the path as a heading has it: on one line, without blanks at its ends. Different paths have different headings,
/// so backslashes are escaped too.
fn heading_path(path: &str) -> String {
    let inner = path.trim_matches(' ');
    let inner_start = path.len() - path.trim_start_matches(' ').len();
    let inner_range = inner_start..inner_start + inner.len();
    let escape = |(index, char): (usize, char)| {
        let is_plain_space = char == ' ' && inner_range.contains(&index);
        match !is_plain_space && (char.is_control() || char.is_whitespace() || char == '\\') {
            true => char.escape_unicode().to_string(),
            false => char.to_string(),
        }
    };
    path.char_indices().map(escape).collect()
}

/// Returns the text without the ranges, which are in order and do not overlap.
fn remove_ranges(text: &[u8], ranges: &[Range<usize>]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(text.len());
    let mut start = 0;
    for range in ranges {
        rest.extend_from_slice(&text[start..range.start]);
        start = range.end;
    }
    rest.extend_from_slice(&text[start..]);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = "- everywhere\n\n## Project: /a\n- of a\n```sh\n# a comment\n```\n- more of a\n\n\
                         ## Project: /b\n- of b\n\n# Later\n- also everywhere\n";

    fn scope(project: &str) -> NotesScope {
        NotesScope::Project(project.to_owned())
    }

    fn visible_text(text: &str, project: &str) -> String {
        String::from_utf8(remove_hidden_notes(text.as_bytes(), &scope(project))).unwrap()
    }

    #[test]
    fn m3_a_project_sees_its_own_and_the_personal_notes() {
        let (of_a, of_b) = (
            "## Project: /a\n- of a\n```sh\n# a comment\n```\n- more of a\n\n",
            "## Project: /b\n- of b\n\n",
        );
        assert_eq!(visible_text(NOTES, "/a"), NOTES.replace(of_b, ""));
        assert_eq!(visible_text(NOTES, "/b"), NOTES.replace(of_a, ""));
        assert_eq!(visible_text(NOTES, "/c"), NOTES.replace(of_b, "").replace(of_a, ""));
        assert_eq!(remove_hidden_notes(NOTES.as_bytes(), &NotesScope::AllProjects), NOTES.as_bytes());
        // The path of another project is no prefix of this one.
        assert_eq!(visible_text("## Project: /ab\n- x\n", "/a"), "");
        assert_eq!(
            visible_text("\u{feff}## Project: /a\r\n- x\r\n## Project: /b\r\n- y\r\n", "/b"),
            "## Project: /b\r\n- y\r\n"
        );
    }

    #[test]
    fn m3_a_fence_that_is_never_closed_shows_no_notes_of_another_project() {
        assert_eq!(visible_text("```\n## Project: /a\n- of a\n", "/b"), "```\n");
        assert_eq!(
            visible_text("## Project: /b\n```\n- of b\n## Project: /a\n- of a\n", "/b"),
            "## Project: /b\n```\n- of b\n"
        );
        assert_eq!(visible_text("## Project: /a\n```\n# not the end\n", "/b"), "");
    }

    #[test]
    fn a_path_with_a_line_break_stays_one_heading() {
        let text = with_section_of(b"", NoteOwner::Project("/a\n## Project: /b"), "\n");
        assert_eq!(String::from_utf8(text.clone()).unwrap(), "## Project: /a\\u{a}## Project: /b\n");
        assert!(remove_hidden_notes(&text, &scope("/b")).is_empty());
        assert_eq!(remove_hidden_notes(&text, &scope("/a\n## Project: /b")), text);
    }

    #[test]
    fn m3_different_paths_have_different_headings() {
        let paths = [
            "/t",
            "/t ",
            " /t",
            "/n\u{a0}",
            "/n",
            "/l\nx",
            "/l\\u{a}x",
            "/l\\u{5c}u{a}x",
            "/l\rx",
            "/l\u{2028}x",
            " ",
        ];
        for path in paths {
            let text = with_section_of(b"", NoteOwner::Project(path), "\n");
            let text = [&text[..], b"- one\n"].concat();
            for other in paths {
                let visible = remove_hidden_notes(&text, &scope(other));
                assert_eq!(visible == text, path == other, "{path:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_section_is_added_before_a_block_at_the_end() {
        let block = "## Recent Thread Snapshot\n<current_thread_summary>\n## Project: /x\n</current_thread_summary>\n";
        let added = |text: &str| {
            String::from_utf8(with_section_of(text.as_bytes(), NoteOwner::Project("/a"), "\n")).unwrap()
        };
        assert_eq!(added(&format!("- one\n\n{block}")), format!("- one\n\n## Project: /a\n\n{block}"));
        assert_eq!(added(block), format!("## Project: /a\n\n{block}"));
        assert_eq!(added("- one"), "- one\n\n## Project: /a\n");
        assert_eq!(added(&added("- one")), added("- one"));
        // A heading within the block is part of the block.
        assert_eq!(visible_text(block, "/b"), block);
    }
}
