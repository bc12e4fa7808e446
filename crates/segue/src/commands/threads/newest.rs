//! The thread that `-c` goes on in: the newest of this folder, else the newest of all; of a handoff just accepted, the child. It reads pages of threads and none
//! of their messages.

use agent::ThreadFilter;
use protocol::Thread;

use crate::commands::Context;
use crate::exit::{Code, Failure};

/// Threads that are read at a time.
const PAGE_ROWS: usize = 200;

/// Returns the newest thread of this folder, or the newest of all, and then says so. A thread that came from another
/// is of the folder that one is of; threads of sub-agents are never among them.
///
/// # Errors
/// When there is no thread.
pub(crate) async fn newest_here(context: &Context) -> Result<Thread, Failure> {
    let mut newest = None;
    let here = context.agent.workspace();
    let mut offset = 0;
    loop {
        let filter = ThreadFilter { offset, limit: PAGE_ROWS, ..ThreadFilter::default() };
        let page = context.agent.threads().list(filter).await?;
        let count = page.len();
        for thread in page {
            if context.agent.threads().workspace_of(&thread).await?.as_deref() == Some(here) {
                return Ok(context.agent.threads().continuation_of(thread).await?);
            }
            newest.get_or_insert(thread);
        }
        offset += count;
        if count < PAGE_ROWS {
            break;
        }
    }
    let newest: Thread = newest.ok_or_else(|| {
        Failure::new(Code::User, "find a thread to go on in: there is none")
            .with_hint("`segue chat` begins one")
    })?;
    context.notice("No thread was begun in this folder; this is the newest of all.");
    Ok(context.agent.threads().continuation_of(newest).await?)
}
