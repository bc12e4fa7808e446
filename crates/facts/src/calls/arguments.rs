//! The names and values in the arguments of tool calls. They count once the call has a result: a call that waits for an
//! approval or that was declined says nothing about the work.

use std::borrow::Cow;
use std::collections::VecDeque;

use protocol::Seq;

use crate::calls::outcomes::CallEffect;
use crate::identifier::{self, NameKind};
use crate::limits::{ARGUMENT_BYTES_MAX, PENDING_CALLS_MAX};
use crate::name_counter::NameCounter;
use crate::tool_use::{ToolUse, head_words};
use secrets::redact;

/// The names and values of a call without a result.
#[derive(Debug, Clone)]
struct PendingArguments {
    /// The id of the call.
    call_id: String,
    /// `seq` of the call.
    seq: Seq,
    /// Identifiers and references in the arguments.
    names: Vec<String>,
    /// Ids and codes in the arguments.
    values: Vec<String>,
}

/// Counts the names and values in the arguments of tool calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgumentTracker {
    /// Identifiers and references in the arguments of calls since the last boundary.
    pub(crate) names: NameCounter,
    /// Ids and codes in the arguments of calls.
    pub(crate) values: NameCounter,
    /// Calls without a result, the oldest first. At most [`PENDING_CALLS_MAX`].
    pending: VecDeque<PendingArguments>,
}

impl ArgumentTracker {
    /// Records the arguments of a call. A value that contains a secret is left out, and names are only those of a call
    /// that uses a file or a shell.
    pub(crate) fn record_call(&mut self, seq: Seq, call_id: &str, args: &serde_json::Value, usage: &ToolUse) {
        let is_public = |value: &&String| matches!(redact(value), Cow::Borrowed(_));
        let values: Vec<String> = usage.values.iter().filter(is_public).cloned().collect();
        let mut names = Vec::new();
        if usage.command.is_some() || !usage.reads.is_empty() || !usage.writes.is_empty() {
            let mut remaining = ARGUMENT_BYTES_MAX;
            collect_names(args, &mut remaining, &mut names);
        }
        if names.is_empty() && values.is_empty() {
            return;
        }
        if self.pending.len() >= PENDING_CALLS_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(PendingArguments { call_id: call_id.to_owned(), seq, names, values });
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

    /// Clears the names. The work may have moved on.
    pub(crate) fn clear_names(&mut self) {
        self.names.clear();
        self.pending.iter_mut().for_each(|call| call.names.clear());
    }

    /// Counts the names and values of a call.
    fn count(&mut self, call: &PendingArguments) {
        call.names.iter().for_each(|name| self.names.count_use(name, call.seq));
        call.values.iter().for_each(|value| self.values.count_use(value, call.seq));
    }
}

/// Appends the identifiers and references in the string values of a call's arguments, up to `remaining` bytes.
fn collect_names(args: &serde_json::Value, remaining: &mut usize, names: &mut Vec<String>) {
    match args {
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|value| collect_names(value, remaining, names));
        }
        serde_json::Value::Array(items) => {
            items.iter().for_each(|value| collect_names(value, remaining, names));
        }
        serde_json::Value::String(text) => {
            let text = redact(head_words(text, *remaining));
            *remaining -= text.len().min(*remaining);
            identifier::scan_names(&text, |kind, name| match kind {
                NameKind::Identifier | NameKind::Reference => names.push(name.to_owned()),
                NameKind::Path | NameKind::Url | NameKind::Error | NameKind::Number => {}
            });
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}
