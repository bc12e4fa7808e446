//! `segue completions` and `segue man`: completion scripts, manual pages and a Markdown page, generated from the arguments. They
//! need no home folder.

use std::fs;
use std::io::{self, Write};

use clap::CommandFactory;

use crate::cli::handoff::DECISIONS_HELP;
use crate::cli::{CliArgs, CompletionsArgs, ManArgs, TOOL_DECISIONS_HELP, help};
use crate::exit::{CliFailure, CommandResult, EXIT_CODES, ExitReason};

/// The beginning of the Markdown page.
const INTRODUCTION: &str = "\
# Every command

This page contains the help of every command. `segue man --markdown` generates it. An id may be shortened to any unique beginning, and `last` is the newest.

";

/// The heading of a command's subcommands. The first list on the page is that of `segue` itself.
const LIST_HEADING: &str = "###### **Subcommands:**";

/// Performs `segue completions`: prints the completion script of a shell.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_completions(args: &CompletionsArgs) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CliArgs::command(), "segue", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitReason::Success)
}

/// Performs `segue man`: writes the manual pages, one for each command; or prints the main page or the Markdown page.
///
/// # Errors
/// Fails if the folder or stdout cannot be written.
pub(crate) fn write_man_pages(args: &ManArgs) -> CommandResult {
    let command = CliArgs::command();
    if args.markdown {
        io::stdout().lock().write_all(render_markdown(&command).as_bytes())?;
        return Ok(ExitReason::Success);
    }
    let command = with_long_texts(command);
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(ExitReason::Success);
    };
    let failed = |error: io::Error| {
        CliFailure::new(ExitReason::User, format!("write manual pages in {}: {error}", folder.display()))
            .with_hint("name a folder that you can write to")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(ExitReason::Success)
}

/// Returns the command with the texts of all options: the generator of manual pages leaves out those that the short help
/// hides.
fn with_long_texts(command: clap::Command) -> clap::Command {
    command.mut_args(|option| option.hide_short_help(false)).mut_subcommands(with_long_texts)
}

/// Returns the help of all commands as one Markdown page.
fn render_markdown(command: &clap::Command) -> String {
    let options = clap_markdown::MarkdownOptions::new().show_footer(false).show_table_of_contents(false);
    let all = clap_markdown::help_markdown_command_custom(command, &options);
    // The generated text begins with a title, which the introduction replaces.
    let commands = all.split_once("\n## ").map_or(all.as_str(), |(_, commands)| commands);
    let mut page = format!("{INTRODUCTION}## {}\n", commands.trim_end());
    if let Some(list) = page.find(LIST_HEADING)
        && let Some(end) = page[list..].find("\n\n###### ").map(|length| list + length)
    {
        page.replace_range(list..end, help::markdown_list(command).trim_end());
    }
    // Texts with columns must keep their line breaks.
    for text in [EXIT_CODES, DECISIONS_HELP, TOOL_DECISIONS_HELP] {
        page = page.replace(text.trim_end(), &format!("```text\n{}\n```", text.trim_end()));
    }
    page = page.replace("###### **", "**");
    // The generator puts the names of the parents in front of a usage that was written by hand and has them already.
    for parents in ["segue", "segue store"] {
        page = page.replace(&format!("`{parents} segue "), "`segue ");
    }
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    page
}
