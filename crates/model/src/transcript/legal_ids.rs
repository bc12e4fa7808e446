//! Ids and names in the form that a provider accepts. Legal ones stay unchanged.

use std::borrow::Cow;
use std::collections::HashSet;

use super::ProviderProfile;

/// An allocator of legal call ids that are unique in one conversation. The id of a call depends only on the calls
/// before it, so a longer conversation begins exactly like a shorter one, and provider caches keep hitting.
pub(super) struct CallIdAllocator<'a> {
    /// The ids in use.
    used: HashSet<Cow<'a, str>>,
    /// The most characters of an id.
    chars_max: usize,
}

impl<'a> CallIdAllocator<'a> {
    /// Returns an allocator without ids in use, with capacity for this many.
    pub(super) fn with_capacity(calls: usize, profile: &ProviderProfile) -> Self {
        Self { used: HashSet::with_capacity(calls), chars_max: profile.call_id_chars_max }
    }

    /// Returns the id to send for a call with this id: a legal and unused form of it.
    pub(super) fn allocate(&mut self, id: &'a str) -> Cow<'a, str> {
        let base = sanitize(id, "call", self.chars_max);
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

/// Returns the name to send for a tool: a legal form of it.
pub(super) fn legal_name<'a>(name: &'a str, profile: &ProviderProfile) -> Cow<'a, str> {
    sanitize(name, "tool", profile.tool_name_chars_max)
}

/// Returns a legal form of the text: at most `chars_max` characters, with `_` for illegal ones, and `fallback`
/// for an empty text.
fn sanitize<'a>(text: &'a str, fallback: &'static str, chars_max: usize) -> Cow<'a, str> {
    let text = if text.is_empty() { fallback } else { text };
    if text.len() <= chars_max && text.bytes().all(is_legal_byte) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(chars_max).map(|c| if is_legal_char(c) { c } else { '_' }).collect())
}

/// Returns whether the byte is a legal ASCII character of an id.
const fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns whether the character is legal in an id.
const fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
