//! Ids and names in the form a provider takes. What is legal already stays as it is.

use std::borrow::Cow;
use std::collections::HashSet;

use super::Profile;

/// Hands out legal ids that are unique in one conversation. What a call is named depends only on what came before
/// it, so that a longer conversation repeats a shorter one's beginning and caches keep hitting.
pub(super) struct Renamed<'a> {
    used: HashSet<Cow<'a, str>>,
    chars_max: usize,
}

impl<'a> Renamed<'a> {
    /// Returns an empty set with room for so many ids.
    pub(super) fn with_capacity(calls: usize, profile: &Profile) -> Self {
        Self { used: HashSet::with_capacity(calls), chars_max: profile.call_id_chars_max }
    }

    /// Returns the id to send for a call with this id.
    pub(super) fn call_id(&mut self, id: &'a str) -> Cow<'a, str> {
        let base = sanitised(id, "call", self.chars_max);
        let mut unique = base.clone();
        let mut number = self.used.len();
        while !self.used.insert(unique.clone()) {
            let suffix = format!("_{number}");
            let kept = base.len().min(self.chars_max.saturating_sub(suffix.len()));
            unique = Cow::Owned(format!("{}{suffix}", &base[..kept]));
            number += 1;
        }
        unique
    }
}

/// Returns the name to send for a tool.
pub(super) fn legal_name<'a>(name: &'a str, profile: &Profile) -> Cow<'a, str> {
    sanitised(name, "tool", profile.tool_name_chars_max)
}

fn sanitised<'a>(text: &'a str, otherwise: &'static str, chars_max: usize) -> Cow<'a, str> {
    let text = if text.is_empty() { otherwise } else { text };
    if text.len() <= chars_max && text.bytes().all(is_legal_byte) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(chars_max).map(|c| if is_legal_char(c) { c } else { '_' }).collect())
}

const fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

const fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
