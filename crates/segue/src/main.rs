//! The `segue` program: parses the arguments, performs one command, and returns its exit code.
//!
//! The program contains no rules and no SQL. The crate `agent` makes every decision and stores all data.

mod cli;
mod commands;
mod exit;
mod logs;
mod observers;

use std::process::ExitCode;

/// The allocator. Runs allocate many small, short-lived frames and strings on several threads, which mimalloc handles faster
/// than the system's allocator; the measurement is in the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Performs one command, or, as the launcher of the sandbox, restricts itself and executes another program. Before the signal handler of the crate `terminal` ends the process, it ends the commands of user
/// hooks and removes the home folder of a demo.
fn main() -> ExitCode {
    if let Some(failure) = sandbox::run_launcher() {
        return failure;
    }
    let cli = match cli::CliArgs::parse_args() {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage_error(&error),
    };
    let format = cli.global.format();
    terminal::signals::set_exit_action(|| {
        // Ending the commands of hooks loses nothing: every event that they are called for is in the journal.
        agent::end_hook_commands();
        commands::handoff::demo::remove_temporary_home();
        exit::ExitReason::Cancelled.exit_code()
    });
    let outcome = commands::run_command(cli);
    exit::report_result(outcome, format)
}
