//! The thread that `-c` goes on in: the newest of this folder, else the newest of all; of a handoff just accepted, the child. It reads pages of threads and none
//! of their messages.

use std::collections::BTreeMap;

use agent::{ThreadFilter, WORKSPACE_KEY};
use protocol::{Thread, ThreadId};
use serde_json::Value;

use crate::commands::Context;
use crate::exit::{Code, Failure};

/// Threads that are read at a time.
const PAGE_ROWS: usize = 200;
/// Threads a thread may have come from, one by way of the other, before its folder is taken for unknown.
const ANCESTORS_MAX: usize = 64;

/// Returns the newest thread of this folder, or the newest of all, and then says so. A thread that came from another
/// is of the folder that one is of; threads of sub-agents are never among them.
///
/// # Errors
/// When there is no thread.
pub(crate) async fn newest_here(context: &Context) -> Result<Thread, Failure> {
    let mut newest = None;
    let mut folders = Folders { context, known: BTreeMap::new() };
    let here = context.agent.workspace().to_string_lossy();
    let mut offset = 0;
    loop {
        let filter = ThreadFilter { offset, limit: PAGE_ROWS, ..ThreadFilter::default() };
        let page = context.agent.threads(filter).await?;
        let count = page.len();
        for thread in page {
            if folders.of(&thread).await?.as_deref() == Some(&*here) {
                return Ok(context.agent.carried_on(thread).await?);
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
    Ok(context.agent.carried_on(newest).await?)
}

/// The folders of threads, each looked up once.
struct Folders<'a> {
    context: &'a Context,
    known: BTreeMap<ThreadId, Option<String>>,
}

impl Folders<'_> {
    /// Returns the folder the thread was begun in, or the one it came from.
    async fn of(&mut self, thread: &Thread) -> Result<Option<String>, Failure> {
        let mut passed = vec![thread.thread_id];
        let mut folder = own(thread);
        let mut parent = thread.parent_id;
        while let (None, Some(id)) = (&folder, parent)
            && passed.len() <= ANCESTORS_MAX
        {
            if let Some(known) = self.known.get(&id) {
                folder.clone_from(known);
                break;
            }
            let Some(found) = self.context.agent.store().thread(id).await.map_err(agent::Error::from)? else {
                break;
            };
            passed.push(id);
            (folder, parent) = (own(&found), found.parent_id);
        }
        self.known.extend(passed.into_iter().map(|id| (id, folder.clone())));
        Ok(folder)
    }
}

/// Returns the folder that the thread's own metadata names: where it was begun, here or in another agent.
fn own(thread: &Thread) -> Option<String> {
    let source = thread.metadata.get("source").and_then(|source| source.get(WORKSPACE_KEY));
    let named = thread.metadata.get(WORKSPACE_KEY).or(source);
    named.and_then(Value::as_str).map(str::to_owned)
}
