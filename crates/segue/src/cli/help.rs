//! The help pages. Clap renders each of them; this file puts the commands of `segue --help` under headings, wraps every page
//! at 80 columns, and keeps it compact, so that its first screen of 24 rows is enough to continue with. The texts themselves
//! are on the arguments.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::{Resettable, StyledStr};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

/// The most columns of a help page. Clap would use the whole width of the terminal, and 100 columns without a terminal.
const COLUMNS_MAX: usize = 80;

/// A heading of `segue --help`.
struct CommandGroup {
    heading: &'static str,
    /// The names of the commands, in the order in which they are listed.
    commands: &'static [&'static str],
}

/// The headings of `segue --help`, in their order. Every visible command is in exactly one group.
const COMMAND_GROUPS: [CommandGroup; 5] = [
    CommandGroup { heading: "Work", commands: &["demo", "chat", "run", "decide", "handoff", "import"] },
    CommandGroup {
        heading: "Threads",
        commands: &["threads", "history", "context", "compact", "uncompact", "trace", "feedback"],
    },
    CommandGroup {
        heading: "Memory",
        commands: &["search", "recall", "remember", "pin", "unpin", "memory", "store"],
    },
    CommandGroup { heading: "Serve", commands: &["serve", "ping", "keys"] },
    CommandGroup {
        heading: "Administer",
        commands: &["doctor", "models", "config", "mcp", "db", "prune", "completions", "man"],
    },
];

/// The layout of the page of `segue` itself. Its list of commands stands in the place of clap's own.
const ROOT_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}
Without a command, segue starts the chat.

{before-help}{all-args}{after-help}";

/// The layout of the page of a command with a long description, which clap would otherwise print in its sparse layout.
const COMMAND_TEMPLATE: &str = "\
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// The usage of `segue`. Clap omits `[COMMAND]` because its own list of commands is hidden.
const ROOT_USAGE: &str = "segue [OPTIONS] [COMMAND]";

/// The last line of a short page.
const SHORT_HELP_END: &str =
    "`--help` explains more and lists the global options, such as --json and --home.";

/// The level of detail of a help page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HelpLength {
    /// `-h`: the first line of the description and the command's own options.
    Short,
    /// `--help`: the whole description, and the global options at the end.
    Full,
}

impl HelpLength {
    /// Returns the length of the page that the arguments ask for, if they ask for one.
    pub(super) fn requested_by(args: &[OsString]) -> Self {
        let is_short = args.iter().any(|arg| arg == "-h") && args.iter().all(|arg| arg != "--help");
        if is_short { Self::Short } else { Self::Full }
    }
}

/// Returns the arguments of `segue help COMMAND` as `segue COMMAND --help`; others as they are.
pub(super) fn replace_help_command(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.remove(1);
        args.push(OsString::from("--help"));
    }
    args
}

/// Returns the command with the layout of its help pages.
///
/// Both lengths are made from clap's short layout, one or two rows for each option: its long layout has three or more, and
/// pushes most options off the first screen. Clap would print the global options before the text below the options, so
/// they are hidden from clap and appended as a text: on a full page they are always the last section.
pub(super) fn with_help_pages(command: Command, length: HelpLength) -> Command {
    let list = match length {
        HelpLength::Short => name_list(&command),
        HelpLength::Full => described_list(&command),
    };
    let end = page_end(&command, length);
    let after_help =
        join_sections([command.get_after_help().filter(|_| length == HelpLength::Full), Some(&end)]);
    command
        .mut_args(|option| compact_option(option, length))
        .mut_subcommands(|subcommand| compact_page(subcommand, length, &end))
        .max_term_width(COLUMNS_MAX)
        .long_about(Resettable::Reset)
        .before_help(list)
        .after_help(after_help)
        .help_template(ROOT_TEMPLATE)
        .override_usage(ROOT_USAGE)
        // The list above has them, grouped. They are parsed all the same.
        .mut_subcommands(|subcommand| subcommand.hide(true))
}

/// Lays out the page of a subcommand and of the subcommands below it. `end` is the last section of each page.
fn compact_page(command: Command, length: HelpLength, end: &StyledStr) -> Command {
    let description = command.get_long_about().cloned();
    let after_long_help = command.get_after_long_help().cloned();
    let command = command
        .mut_args(|option| compact_option(option, length))
        .mut_subcommands(|subcommand| compact_page(subcommand, length, end))
        .long_about(Resettable::Reset)
        .after_long_help(Resettable::Reset);
    if length == HelpLength::Short {
        return command.after_help(end.clone());
    }
    let command = command.after_help(join_sections([after_long_help.as_ref(), Some(end)]));
    match description {
        Some(text) => command.before_help(text).help_template(COMMAND_TEMPLATE),
        None => command,
    }
}

/// Selects the pages that list an option. A short page has neither global options nor those with `hide_short_help`, and
/// lists all others under one heading.
fn compact_option(option: Arg, length: HelpLength) -> Arg {
    let (is_rare, is_hidden) = (option.is_hide_short_help_set(), option.is_hide_set());
    // Clap copies global options to all subcommands when it parses, so hiding them here hides them everywhere.
    let is_hidden = is_hidden || option.is_global_set();
    // Clap renders full pages with its short layout, too, so its own setting would hide the option from both.
    let option = option.hide_short_help(false);
    match length {
        HelpLength::Short => option.hide(is_hidden || is_rare).help_heading(Resettable::Reset),
        HelpLength::Full => option.hide(is_hidden),
    }
}

/// Returns the last section of every page: the global options, or the way to them.
fn page_end(root: &Command, length: HelpLength) -> StyledStr {
    match length {
        HelpLength::Short => SHORT_HELP_END.into(),
        HelpLength::Full => Command::new("global")
            .styles(root.get_styles().clone())
            .args(root.get_arguments().filter(|option| option.is_global_set()).cloned())
            .disable_help_flag(true)
            .max_term_width(COLUMNS_MAX)
            .help_template("{all-args}")
            .render_help(),
    }
}

/// Joins the sections of a page with an empty line between them.
fn join_sections(sections: [Option<&StyledStr>; 2]) -> StyledStr {
    let texts = sections.into_iter().flatten().map(|text| text.ansi().to_string().trim_end().to_owned());
    texts.collect::<Vec<_>>().join("\n\n").into()
}

/// Replaces hidden names in the suggestions of an error about an unknown command: the former name of a command by its
/// present name; a hidden command is not suggested.
pub(super) fn suggest_visible_names(mut error: clap::Error, root: &Command) -> clap::Error {
    let Some(ContextValue::Strings(suggested)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let mut visible: Vec<String> = Vec::new();
    for name in suggested.iter().filter_map(|name| visible_name(root, name)) {
        if !visible.contains(&name) {
            visible.push(name);
        }
    }
    match visible.is_empty() {
        true => error.remove(ContextKind::SuggestedSubcommand),
        false => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(visible)),
    };
    error
}

/// Returns the visible name of the command below `parent` that has this name or alias; `None` if it is hidden.
fn visible_name(parent: &Command, name: &str) -> Option<String> {
    parent.get_subcommands().find_map(|command| {
        let is_named = command.get_name() == name || command.get_all_aliases().any(|alias| alias == name);
        match is_named && !command.is_hide_set() {
            true => Some(command.get_name().to_owned()),
            false => visible_name(command, name),
        }
    })
}

/// Returns all commands under their headings, each on a line with its description.
fn described_list(root: &Command) -> StyledStr {
    let styles = root.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = grouped_names().map(str::len).max().unwrap_or_default();
    let sections = COMMAND_GROUPS.iter().map(|group| {
        let mut section = format!("{header}{}:{header:#}", group.heading);
        for command in group.commands.iter().filter_map(|name| root.find_subcommand(name)) {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            // Writing to a string does not fail.
            let _ = write!(section, "\n  {literal}{name}{literal:#}{:1$}  {about}", "", width - name.len());
        }
        section
    });
    sections.collect::<Vec<_>>().join("\n\n").into()
}

/// Returns the names of all commands, one line for each group.
fn name_list(root: &Command) -> StyledStr {
    let styles = root.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = COMMAND_GROUPS.iter().map(|group| group.heading.len()).max().unwrap_or_default();
    let mut list = format!("{header}Commands:{header:#}");
    for group in &COMMAND_GROUPS {
        let (heading, names) = (group.heading, group.commands.join(", "));
        let padding = width - heading.len();
        // Writing to a string does not fail.
        let _ = write!(list, "\n  {literal}{heading}{literal:#}{:padding$}  {names}", "");
    }
    list.into()
}

/// Returns all commands under their headings, as Markdown.
pub(crate) fn markdown_list(root: &Command) -> String {
    let sections = COMMAND_GROUPS.iter().map(|group| {
        let commands = group.commands.iter().filter_map(|name| root.find_subcommand(name));
        let rows = commands.map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("* `{}` — {about}\n", command.get_name())
        });
        format!("**{}:**\n\n{}", group.heading, rows.collect::<String>())
    });
    sections.collect::<Vec<_>>().join("\n")
}

/// Returns the names of the commands in all groups.
fn grouped_names() -> impl Iterator<Item = &'static str> {
    COMMAND_GROUPS.iter().flat_map(|group| group.commands).copied()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::CliArgs;

    /// The rows of the smallest terminal whose first screen must be enough.
    const ROWS: usize = 24;

    /// Returns the page of each command, by its full name.
    fn render_pages(length: HelpLength) -> Vec<(String, String)> {
        let mut root = with_help_pages(CliArgs::command(), length).term_width(COLUMNS_MAX);
        root.build();
        let mut pages = Vec::new();
        let mut unvisited = vec![("segue".to_owned(), root)];
        while let Some((name, mut command)) = unvisited.pop() {
            pages.push((name.clone(), command.render_help().to_string()));
            let below = command.get_subcommands().cloned();
            unvisited.extend(below.map(|command| (format!("{name} {}", command.get_name()), command)));
        }
        pages
    }

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let root = CliArgs::command();
        let mut visible: Vec<&str> =
            root.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = grouped_names().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn the_list_of_commands_has_one_row_for_each_and_their_own_descriptions() {
        let root = CliArgs::command();
        let list = described_list(&root).to_string();
        assert!(list.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{list}");
        for name in grouped_names() {
            let about = root.find_subcommand(name).and_then(Command::get_about).unwrap().to_string();
            let rows: Vec<&str> =
                list.lines().filter(|line| line.split_whitespace().next() == Some(name)).collect();
            assert!(matches!(rows[..], [row] if row.ends_with(&format!("  {about}"))), "{name}: {list}");
            let markdown = markdown_list(&root);
            assert!(markdown.contains(&format!("\n* `{name}` — {about}\n")), "{name}: {markdown}");
        }
        for group in COMMAND_GROUPS {
            assert!(list.lines().any(|line| line == format!("{}:", group.heading)), "{list}");
        }
    }

    #[test]
    fn the_first_screen_has_the_usage_and_the_commands_or_options_of_first_need() {
        for (name, page) in render_pages(HelpLength::Full) {
            let first_screen: Vec<&str> = page.lines().take(ROWS).collect();
            assert!(page.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{name}: {page}");
            assert!(first_screen.iter().any(|line| line.starts_with("Usage: ")), "{name}: {page}");
            // `segue` has its work and its threads there; every other command everything but options under a heading of their own.
            let last = if name == "segue" { "Memory:" } else { "  -h, --help" };
            assert!(first_screen.iter().any(|line| line.starts_with(last)), "{name}: {page}");
        }
    }

    #[test]
    fn a_short_page_fits_the_screen_and_has_no_global_options() {
        for (name, page) in render_pages(HelpLength::Short) {
            assert!(page.lines().count() <= ROWS, "{name}: {page}");
            assert!(!page.contains("\n      --home") && page.contains("--help"), "{name}: {page}");
        }
        let asks =
            |args: &[&str]| HelpLength::requested_by(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asks(&["segue", "run", "-h"]), HelpLength::Short);
        assert_eq!(asks(&["segue", "run", "--help"]), HelpLength::Full);
        assert_eq!(asks(&["segue"]), HelpLength::Full);
    }

    #[test]
    fn the_command_help_prints_the_page_of_the_command_that_follows() {
        let parse = |args: &[&str]| {
            let args = args.iter().map(OsString::from).collect();
            crate::cli::CliArgs::parse_from_args(args).unwrap_err().to_string()
        };
        assert_eq!(parse(&["segue", "help"]), parse(&["segue", "--help"]));
        let page = parse(&["segue", "help", "threads", "list"]);
        assert_eq!(page, parse(&["segue", "threads", "list", "--help"]));
        assert!(parse(&["segue", "help", "handof"]).contains("handoff"), "a misspelt name is suggested");
    }

    #[test]
    fn the_page_of_segue_ends_with_the_exit_codes_and_the_global_options() {
        let pages = render_pages(HelpLength::Full);
        let (_, page) = pages.iter().find(|(name, _)| name == "segue").unwrap();
        let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(position("Administer:") < position("\nOptions:"));
        assert!(position("\nOptions:") < position("Exit codes:"));
        assert!(position("Exit codes:") < position("Global options:"));
    }
}
