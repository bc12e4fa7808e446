//! The thread that `--continue` selects: the newest thread of the current folder, else the newest of all threads; if
//! that thread was just handed off, its child. It reads pages of threads but none of their messages.

use agent::ThreadFilter;
use protocol::Thread;

use crate::commands::CommandContext;
use crate::exit::{CliFailure, ExitReason};

/// The number of threads that one query reads.
const PAGE_ROWS: usize = 200;

/// Returns the newest thread of the current folder. If the folder has no thread, prints a notice and returns the newest
/// of all threads.
///
/// A thread that came from another thread belongs to the folder of that thread. Threads of sub-agents are never
/// returned.
///
/// # Errors
/// Fails if no thread exists or the journal cannot be read.
pub(crate) async fn newest_thread_here(context: &CommandContext) -> Result<Thread, CliFailure> {
    let mut newest = None;
    let here = context.agent.workspace();
    let mut offset = 0;
    loop {
        let filter = ThreadFilter { offset, limit: PAGE_ROWS, ..ThreadFilter::default() };
        let page = context.agent.threads().list(filter).await?;
        let count = page.len();
        for thread in page {
            if context.agent.threads().thread_workspace(&thread).await?.as_deref() == Some(here) {
                return Ok(context.agent.threads().continuation_thread(thread).await?);
            }
            newest.get_or_insert(thread);
        }
        offset += count;
        if count < PAGE_ROWS {
            break;
        }
    }
    let newest: Thread = newest.ok_or_else(|| {
        CliFailure::new(ExitReason::User, "find a thread to continue: there is none")
            .with_hint("`segue chat` starts one")
    })?;
    context.print_notice("No thread was started in this folder; this is the newest of all threads.");
    Ok(context.agent.threads().continuation_thread(newest).await?)
}
