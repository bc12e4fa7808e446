//! The program: reads the arguments, performs one command, and turns its outcome into an exit code.
//!
//! It holds no rules and no SQL: everything that is decided or stored is asked of the `agent` room.

mod cli;
mod commands;
mod exit;
mod logs;
mod watching;

use std::process::ExitCode;

/// Many small frames and texts live a short time on several threads; the measure is in the workspace's manifest.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    let format = cli.global.format();
    terminal::signals::set_exit_action(|| {
        // What hooks were told of is in the journal.
        agent::end_hook_commands();
        exit::Code::Cancelled.number()
    });
    let outcome = commands::start(cli);
    exit::report(outcome, format)
}
