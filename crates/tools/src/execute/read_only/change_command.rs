//! Commands of git that show changes: `log`, `show` and `diff`. Their words are sorted into options, revisions and
//! paths, so that files of secrets can be left out and the objects that the revisions name can be checked.
//!
//! Files of secrets are left out by excluding pathspecs. Attributes would not be enough, because the attributes of the
//! repository itself are stronger than those of a configured file.

use std::path::Path;

use crate::execute::git::ExpectedObjects;
use crate::execute::read_only::tables::{GIT_SUBCOMMANDS, PATCH_OPTIONS, SUMMARY_OPTIONS};
use crate::execute::read_only::{check_options, contains_option, leading_short_options};
use crate::permission::{looks_secret, secret_name_globs, secret_path_globs};
use crate::workspace::Workspace;

/// The sub-commands that show changes.
const SUB_COMMANDS: &[&str] = &["log", "show", "diff"];
/// Letters of options that show the changed content of files, or select commits by it.
const CONTENT_LETTERS: &[char] = &['p', 'U', 'S', 'G'];
/// Options with which `git log` keeps commits that change none of the given paths. Without them, an excluded path would
/// leave out merges and commits.
const ALL_COMMITS_OPTIONS: &[&str] = &["--full-history", "--sparse"];
/// Option that has its own way to leave out commits, which [`ALL_COMMITS_OPTIONS`] would turn off.
const DECORATION_OPTION: &str = "--simplify-by-decoration";
/// Option that follows one file through its renames. It takes exactly one path.
const FOLLOW_OPTION: &str = "--follow";

/// A command of git that shows changes.
#[derive(Debug)]
pub(super) struct ChangeCommand {
    /// The sub-command.
    sub_command: String,
    /// All words after the sub-command.
    words: Vec<String>,
    /// Options with their values.
    options: Vec<String>,
    /// Commits, ranges of commits, and files of commits such as `HEAD:a`.
    revisions: Vec<String>,
    /// Paths and pathspecs.
    paths: Vec<String>,
}

/// Returns whether the output may contain the content of files, or depend on it. A file that is named together with a
/// commit does not count.
pub(super) fn shows_content(sub_command: &str, words: &[String]) -> bool {
    let options: Vec<&String> = words.iter().take_while(|word| *word != "--").collect();
    let is_summary = leading_short_options(words).any(|letters| letters.contains('s'))
        || options.iter().any(|word| contains_option(SUMMARY_OPTIONS, word));
    leading_short_options(words).any(|letters| letters.contains(CONTENT_LETTERS))
        || options.iter().any(|word| contains_option(PATCH_OPTIONS, word))
        || (sub_command != "log" && !is_summary)
}

impl ChangeCommand {
    /// Sorts the words of a command. Returns `None` if it is not an allowed command of git that shows changes.
    ///
    /// An operand before which there is no `--` is a path if a file of that name exists or if only a pathspec can have
    /// this form. Git refuses an operand that is both a path and a revision.
    pub fn parse(argv: &[String], workspace: &Workspace) -> Option<Self> {
        let [git, sub_command, words @ ..] = argv else { return None };
        if git != "git" || !SUB_COMMANDS.contains(&sub_command.as_str()) {
            return None;
        }
        let program = GIT_SUBCOMMANDS.iter().find(|program| program.name == sub_command)?;
        let checked = check_options(program, words)?;
        let is_separated = checked.separated.is_some();
        let is_path = |word: &&str| !is_separated && is_path_operand(word, workspace);
        let (mut paths, revisions): (Vec<&str>, Vec<&str>) = checked.operands.into_iter().partition(is_path);
        paths.extend(checked.separated.unwrap_or_default());
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        Some(Self {
            sub_command: sub_command.clone(),
            words: words.to_vec(),
            options: owned(checked.options),
            revisions: owned(revisions),
            paths: owned(paths),
        })
    }

    /// Returns the objects that the revisions must name.
    pub fn expected_objects(&self) -> ExpectedObjects {
        let mut expected = ExpectedObjects::default();
        for revision in self.revisions.iter().filter(|revision| *revision != "-") {
            match (self.sub_command.as_str(), has_path(revision)) {
                ("show" | "diff", false) => expected.commits.push(revision.clone()),
                // Two folders of commits are compared file by file.
                ("diff", true) => expected.files.push(revision.clone()),
                _ => {}
            }
        }
        expected
    }

    /// Returns whether the command can show a file of secrets by a name that the command does not contain.
    pub fn may_show_unnamed_secrets(&self) -> bool {
        let follows = self.options.iter().any(|word| word == FOLLOW_OPTION);
        (follows && self.shows_content()) || self.revisions.iter().any(|word| is_range_of_files(word))
    }

    /// Returns the arguments after the sub-command, with pathspecs that exclude files of secrets if the output may
    /// contain the content of files.
    ///
    /// A path that the command itself names was judged by the permission rules. If all its paths are files of secrets,
    /// the person or a rule has allowed them, and nothing is excluded.
    pub fn arguments(&self) -> Vec<String> {
        let names_only_secrets =
            !self.paths.is_empty() && self.paths.iter().all(|path| looks_secret(Path::new(path_part(path))));
        // The difference of two files of commits takes no pathspec.
        let compares_files = self.sub_command == "diff" && self.revisions.iter().any(|word| has_path(word));
        let has = |option: &str| self.options.iter().any(|word| word == option);
        let excludes = self.shows_content() && !names_only_secrets && !compares_files && !has(FOLLOW_OPTION);
        if !excludes {
            return self.words.clone();
        }
        let mut words = self.options.clone();
        if self.sub_command != "diff" && self.paths.is_empty() && !has(DECORATION_OPTION) {
            words.extend(ALL_COMMITS_OPTIONS.iter().map(|option| (*option).to_owned()));
        }
        words.extend(self.revisions.iter().cloned());
        words.push("--".to_owned());
        words.extend(self.paths.iter().cloned());
        words.extend(excluding_pathspecs());
        words
    }

    /// See [`shows_content`].
    fn shows_content(&self) -> bool {
        shows_content(&self.sub_command, &self.options)
    }
}

/// Returns the path in a word such as `HEAD:src/a.rs`, or the whole word if it has no other part.
pub(super) fn path_part(word: &str) -> &str {
    word.rsplit(':').next().unwrap_or(word)
}

/// Returns whether a revision names a file or a folder of a commit or of the index, such as `HEAD:a` and `:a`. In
/// `:/text`, the text selects a commit by its message.
fn has_path(revision: &str) -> bool {
    revision.contains(':') && !revision.starts_with(":/")
}

/// Returns whether a revision may be a range with a file at one of its ends, such as `HEAD:a..HEAD:b`. Git separates
/// the ends at the first two dots. In a path such as `HEAD:./a/../b`, a slash follows, which no revision begins with.
fn is_range_of_files(revision: &str) -> bool {
    let end = revision.split_once("..").map(|(_, end)| end);
    has_path(revision) && end.is_some_and(|end| !end.starts_with('/'))
}

/// Returns whether an operand is a path although no `--` is before it.
fn is_path_operand(word: &str, workspace: &Workspace) -> bool {
    let is_pathspec = [":(", ":!", ":^"].iter().any(|magic| word.starts_with(magic));
    // `{` begins a suffix such as `HEAD^{/text}`. A name of a branch contains none of the characters of a pattern.
    let is_pattern = word.contains(['*', '?', '[']) && !word.contains(['{', ':']);
    is_pathspec || is_pattern || workspace.root().join(word).symlink_metadata().is_ok()
}

/// Returns the pathspecs that exclude files of secrets in the whole repository.
pub(super) fn excluding_pathspecs() -> impl Iterator<Item = String> {
    let paths = secret_path_globs().map(str::to_owned);
    let globs = secret_name_globs().into_iter().chain(paths);
    globs.map(|glob| format!(":(top,exclude,icase,glob)**/{glob}"))
}
