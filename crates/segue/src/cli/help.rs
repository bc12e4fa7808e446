//! The help pages. Clap renders each of them; this file puts the commands of `segue --help` under headings, and keeps every page
//! compact, so that its first screen of 24 rows is enough to continue with. The texts themselves are on the arguments.

use std::ffi::OsString;
use std::fmt::Write;

use clap::Command;
use clap::builder::{Resettable, StyledStr};

/// A heading of `segue --help`.
struct CommandGroup {
    heading: &'static str,
    /// The names of the commands, in the order in which they are listed.
    commands: &'static [&'static str],
}

/// The headings of `segue --help`, in their order. Every visible command is in exactly one group.
const COMMAND_GROUPS: [CommandGroup; 5] = [
    CommandGroup { heading: "Work", commands: &["chat", "run", "decide", "handoff", "import"] },
    CommandGroup {
        heading: "Threads",
        commands: &["threads", "history", "context", "compact", "uncompact", "trace", "feedback"],
    },
    CommandGroup { heading: "Memory", commands: &["search", "recall", "remember", "memory", "store"] },
    CommandGroup { heading: "Serve", commands: &["serve", "keys"] },
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

/// Returns the command with the layout of its help pages.
///
/// Both lengths are made from clap's short layout, one or two rows for each option: its long layout has three or more, and
/// pushes most options off the first screen.
pub(super) fn with_help_pages(command: Command, length: HelpLength) -> Command {
    let list = match length {
        HelpLength::Short => name_list(&command),
        HelpLength::Full => described_list(&command),
    };
    let command = command.mut_subcommands(|subcommand| compact_page(subcommand, length));
    let command = match length {
        // Clap copies global options to all subcommands when it parses, so hiding them here hides them everywhere.
        HelpLength::Short => command
            .mut_args(|option| if option.is_global_set() { option.hide(true) } else { option })
            .after_help(SHORT_HELP_END),
        HelpLength::Full => command,
    };
    command
        .long_about(Resettable::Reset)
        .before_help(list)
        .help_template(ROOT_TEMPLATE)
        .override_usage(ROOT_USAGE)
        // The list above has them, grouped. They are parsed all the same.
        .mut_subcommands(|subcommand| subcommand.hide(true))
}

/// Lays out the page of a subcommand and of the subcommands below it.
fn compact_page(command: Command, length: HelpLength) -> Command {
    let description = command.get_long_about().cloned();
    let after_long_help = command.get_after_long_help().cloned();
    let command = command
        .mut_subcommands(|subcommand| compact_page(subcommand, length))
        .long_about(Resettable::Reset)
        .after_long_help(Resettable::Reset);
    if length == HelpLength::Short {
        return command.after_help(SHORT_HELP_END);
    }
    let command = match after_long_help {
        Some(text) => command.after_help(text),
        None => command,
    };
    match description {
        Some(text) => command.before_help(text).help_template(COMMAND_TEMPLATE),
        None => command,
    }
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

    /// The size of the smallest terminal whose first screen must be enough.
    const COLUMNS: usize = 80;
    const ROWS: usize = 24;

    /// Returns the page of each command, by its full name.
    fn render_pages(length: HelpLength) -> Vec<(String, String)> {
        let mut root = with_help_pages(CliArgs::command(), length).term_width(COLUMNS);
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
        assert!(list.lines().all(|line| line.chars().count() <= COLUMNS), "{list}");
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
            assert!(page.lines().all(|line| line.chars().count() <= COLUMNS), "{name}: {page}");
            assert!(first_screen.iter().any(|line| line.starts_with("Usage: ")), "{name}: {page}");
            // `segue` has its work and its threads there; every other command everything but options under a heading of their own.
            let last = if name == "segue" { "Memory:" } else { "  -h, --help" };
            assert!(first_screen.iter().any(|line| line.starts_with(last)), "{name}: {page}");
        }
    }

    #[test]
    fn a_short_page_fits_the_screen_and_has_no_global_options() {
        for (name, page) in render_pages(HelpLength::Short) {
            // Only `segue handoff` has more options, which are under headings of their own.
            let needed = if name == "segue handoff" { page.find("\nPending handoffs:") } else { None };
            assert!(page[..needed.unwrap_or(page.len())].lines().count() <= ROWS, "{name}: {page}");
            assert!(!page.contains("\n      --home") && page.contains("--help"), "{name}: {page}");
        }
        let asks =
            |args: &[&str]| HelpLength::requested_by(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asks(&["segue", "run", "-h"]), HelpLength::Short);
        assert_eq!(asks(&["segue", "run", "--help"]), HelpLength::Full);
        assert_eq!(asks(&["segue"]), HelpLength::Full);
    }

    #[test]
    fn the_page_of_segue_ends_with_the_global_options_and_the_exit_codes() {
        let pages = render_pages(HelpLength::Full);
        let (_, page) = pages.iter().find(|(name, _)| name == "segue").unwrap();
        let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(position("Administer:") < position("\nOptions:"));
        assert!(position("\nOptions:") < position("Global options:"));
        assert!(position("Global options:") < position("Exit codes:"));
    }
}
