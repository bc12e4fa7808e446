//! What is generated from the arguments: completion scripts and manual pages. It needs no home folder.

use std::fs;
use std::io::{self, Write};

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use crate::exit::{Code, Failure, Outcome};

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
