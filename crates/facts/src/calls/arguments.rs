//! The names and values in the arguments of tool calls. They count once the call has a result: a call that waits for an
//! approval or that was declined says nothing about the work.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use protocol::Seq;

use crate::calls::outcomes::CallEffect;
use crate::identifier::{self, NameKind};
use crate::limits::{ARGUMENT_BYTES_MAX, PENDING_CALLS_MAX};
use crate::name_counter::NameCounter;
use crate::tool_use::{ToolUse, head_words, normalize_path};
use secrets::redact;

/// The names and values of a call without a result.
#[derive(Debug, Clone)]
struct PendingArguments {
    /// The id of the call.
    call_id: String,
    /// `seq` of the call.
    seq: Seq,
    /// Identifiers and references in the arguments.
    names: BTreeSet<String>,
    /// Paths in the arguments of files that the call does not use itself.
    paths: BTreeSet<String>,
    /// Ids and codes in the arguments.
    values: Vec<String>,
}

/// Counts the names and values in the arguments of tool calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgumentTracker {
    /// Identifiers and references in the arguments of calls since the last boundary.
    pub(crate) names: NameCounter,
    /// Paths in the arguments of calls since the last boundary.
    pub(crate) paths: NameCounter,
    /// Ids and codes in the arguments of calls.
    pub(crate) values: NameCounter,
    /// Calls without a result, the oldest first. At most [`PENDING_CALLS_MAX`].
    pending: VecDeque<PendingArguments>,
}

impl ArgumentTracker {
    /// Records the arguments of a call. A value that contains a secret is left out. Of a tool that uses no file and no
    /// shell, only the paths in sentences count, such as those in the prompt of a sub-agent. A change to a task list is
    /// left out, because each change repeats the whole list.
    pub(crate) fn record_call(&mut self, seq: Seq, call_id: &str, args: &serde_json::Value, usage: &ToolUse) {
        let is_public = |value: &&String| matches!(redact(value), Cow::Borrowed(_));
        let values: Vec<String> = usage.values.iter().filter(is_public).cloned().collect();
        let uses_files = usage.command.is_some() || !usage.reads.is_empty() || !usage.writes.is_empty();
        let mut scan = ArgumentScan { remaining: ARGUMENT_BYTES_MAX, uses_files, ..ArgumentScan::default() };
        if usage.task.is_none() {
            scan.visit(args);
        }
        let used = || usage.reads.iter().chain(&usage.writes).chain(&usage.deletes);
        // A file in the folder of a `cd` is used by a longer path.
        let is_same = |used: &str, path: &str| {
            used.strip_suffix(path).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
        };
        scan.paths.retain(|path| used().all(|used| !is_same(used, path)));
        if scan.names.is_empty() && scan.paths.is_empty() && values.is_empty() {
            return;
        }
        if self.pending.len() >= PENDING_CALLS_MAX {
            self.pending.pop_front();
        }
        let ArgumentScan { names, paths, .. } = scan;
        self.pending.push_back(PendingArguments { call_id: call_id.to_owned(), seq, names, paths, values });
    }

    /// Records the result of a call: its names and values count unless it was declined.
    pub(crate) fn record_result(&mut self, call_id: &str, effect: CallEffect) {
        let Some(index) = self.pending.iter().position(|call| call.call_id == call_id) else { return };
        let call = self.pending.remove(index).filter(|_| effect != CallEffect::Declined);
        call.into_iter().for_each(|call| self.count(&call));
    }

    /// Counts the calls without a result as performed, because their format records no results.
    pub(crate) fn confirm_pending(&mut self) {
        for call in std::mem::take(&mut self.pending) {
            self.count(&call);
        }
    }

    /// Clears the names and paths. The work may have moved on.
    pub(crate) fn clear_names(&mut self) {
        self.names.clear();
        self.paths.clear();
        for call in &mut self.pending {
            call.names.clear();
            call.paths.clear();
        }
    }

    /// Counts the names and values of a call.
    fn count(&mut self, call: &PendingArguments) {
        call.names.iter().for_each(|name| self.names.count_use(name, call.seq));
        call.paths.iter().for_each(|path| self.paths.count_use(path, call.seq));
        call.values.iter().for_each(|value| self.values.count_use(value, call.seq));
    }
}

/// A search for names in the string values of a call's arguments. A name counts once for each call.
#[derive(Debug, Default)]
struct ArgumentScan {
    /// Bytes that may still be searched.
    remaining: usize,
    /// True for a call that uses files or a shell; else names and values of one word are skipped.
    uses_files: bool,
    /// Identifiers and references.
    names: BTreeSet<String>,
    /// Normalized paths.
    paths: BTreeSet<String>,
}

impl ArgumentScan {
    /// Searches a value and the values in it.
    fn visit(&mut self, args: &serde_json::Value) {
        match args {
            serde_json::Value::Object(fields) => fields.values().for_each(|value| self.visit(value)),
            serde_json::Value::Array(items) => items.iter().for_each(|value| self.visit(value)),
            serde_json::Value::String(text) if self.uses_files || text.contains(char::is_whitespace) => {
                let text = redact(head_words(text, self.remaining));
                self.remaining -= text.len().min(self.remaining);
                identifier::scan_names(&text, |kind, name| match kind {
                    NameKind::Identifier | NameKind::Reference if self.uses_files => {
                        self.names.insert(name.to_owned());
                    }
                    // In a file, such a path is relative to the file's own folder, as that of an imported module.
                    NameKind::Path if name.starts_with("../") => {}
                    NameKind::Path => {
                        self.paths.insert(normalize_path(name));
                    }
                    NameKind::Identifier
                    | NameKind::Reference
                    | NameKind::Url
                    | NameKind::Error
                    | NameKind::Number => {}
                });
            }
            serde_json::Value::String(_)
            | serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_) => {}
        }
    }
}
