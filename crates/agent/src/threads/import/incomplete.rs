//! The mark of a thread whose import was interrupted ([`IncompleteImport`]): the notice that people are shown, and the
//! reference to the thread with the whole session, if the marked one was continued here. The import itself sets and
//! removes the mark.

use journal::{ThreadPatch, Transaction, Write};
use protocol::{IncompleteImport, Thread, ThreadId};
use serde_json::{Map, Value};

use crate::Result;
use crate::agent::Agent;

/// Returns the notice about a thread that has only the beginning of an imported session, as one lowercase line that says
/// how to complete it; `None` for every other thread.
pub fn incomplete_import_notice(thread: &Thread) -> Option<String> {
    let mark = thread.incomplete_import()?;
    let messages = match mark.messages_total {
        Some(total) => format!("{} of {total} messages", mark.messages),
        None => format!("{} messages so far", mark.messages),
    };
    let remedy = match (mark.whole_thread_id, mark.path) {
        (Some(whole), _) => format!("thread {whole} has the whole session"),
        (None, Some(path)) => {
            format!("run `segue import {}` again to complete it", tools::quote_shell_word(&path))
        }
        (None, None) => "import the session again to complete it".to_owned(),
    };
    Some(format!("import incomplete: {messages}; {remedy}"))
}

/// Stores in the mark of the thread that `whole` continues that `whole` has the whole session. Does nothing if `whole`
/// continues no thread, or one without a mark.
pub(super) async fn name_whole_thread(agent: &Agent, whole: &Thread) -> Result<()> {
    let continued = whole.metadata.get("source").and_then(|source| source.get("continues"));
    let continued = continued.and_then(Value::as_str).and_then(|id| id.parse::<ThreadId>().ok());
    let Some(thread_id) = continued else { return Ok(()) };
    let Some(marked) = agent.store.thread(thread_id).await? else { return Ok(()) };
    let whole_thread_id = Some(whole.thread_id);
    let Some(mark) = marked.incomplete_import().filter(|mark| mark.whole_thread_id != whole_thread_id) else {
        return Ok(());
    };
    let mark = serde_json::to_value(IncompleteImport { whole_thread_id, ..mark })?;
    let metadata = Map::from_iter([(IncompleteImport::KEY.to_owned(), mark)]);
    let patch = ThreadPatch { metadata, ..ThreadPatch::default() };
    let writes = vec![Write::UpdateThread { thread_id, patch }];
    match agent.store.commit(Transaction { fence: None, writes }).await {
        // A thread that was deleted meanwhile needs no mark.
        Ok(_) | Err(journal::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_notice_names_the_counts_and_how_to_complete_the_thread() {
        let check = |mark: Value, expected: &str| {
            let assistant_id = "agent".parse().unwrap();
            let mut thread = Thread::blank(ThreadId::generate(), assistant_id, Timestamp::UNIX_EPOCH);
            assert_eq!(incomplete_import_notice(&thread), None);
            thread.metadata.insert(IncompleteImport::KEY.to_owned(), mark);
            assert_eq!(incomplete_import_notice(&thread).as_deref(), Some(expected));
        };
        check(
            json!({"path": "/srv/ada/s.jsonl", "messages": 2048, "messages_total": 5000}),
            "import incomplete: 2048 of 5000 messages; run `segue import /srv/ada/s.jsonl` again to complete it",
        );
        check(
            json!({"path": "/my files/s.jsonl", "messages": 2048, "messages_total": null}),
            "import incomplete: 2048 messages so far; run `segue import '/my files/s.jsonl'` again to complete it",
        );
        check(
            json!({"path": null, "messages": 1, "messages_total": 2}),
            "import incomplete: 1 of 2 messages; import the session again to complete it",
        );
        let whole = ThreadId::generate();
        check(
            json!({"path": "/s.jsonl", "messages": 1, "messages_total": 2, "whole_thread_id": whole}),
            &format!("import incomplete: 1 of 2 messages; thread {whole} has the whole session"),
        );
    }
}
