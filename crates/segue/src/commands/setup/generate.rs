//! What is generated from the arguments: completion scripts, manual pages, and a page in Markdown. It needs no home folder.

use std::fs;
use std::io::{self, Write};

use clap::CommandFactory;

use crate::cli::handoff::DECISIONS;
use crate::cli::{Cli, Completions, Man};
use crate::exit::{Code, EXIT_CODES, Failure, Outcome};

/// What the page in Markdown begins with.
const INTRODUCTION: &str = "\
# Every command

What `segue COMMAND --help` says of each, made by `segue man --markdown`. Ids may be shortened to any unique beginning, and `last` is the newest.

";

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "segue", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Code::Done)
}

/// Writes the manual pages, one per command.
pub(crate) fn man(args: &Man) -> Outcome {
    let command = Cli::command();
    if args.markdown {
        io::stdout().lock().write_all(markdown(&command).as_bytes())?;
        return Ok(Code::Done);
    }
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(Code::Done);
    };
    let failed = |error: io::Error| {
        Failure::new(Code::User, format!("write manual pages in {}: {error}", folder.display()))
            .with_hint("name a folder you can write in")
    };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    Ok(Code::Done)
}

/// Returns all commands as one page.
fn markdown(command: &clap::Command) -> String {
    let options = clap_markdown::MarkdownOptions::new().show_footer(false).show_table_of_contents(false);
    let all = clap_markdown::help_markdown_command_custom(command, &options);
    // It begins with a title of its own.
    let commands = all.split_once("\n## ").map_or(all.as_str(), |(_, commands)| commands);
    let mut page = format!("{INTRODUCTION}## {}\n", commands.trim_end());
    // What is laid out for a terminal stays as it is.
    for laid_out in [EXIT_CODES, DECISIONS] {
        page = page.replace(laid_out.trim_end(), &format!("```text\n{}\n```", laid_out.trim_end()));
    }
    page = page.replace("###### **", "**");
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    page
}
