//! Ids and names in the form a provider takes. What is legal already stays as it is.

use std::collections::HashSet;

use super::Profile;

/// Hands out legal ids that are unique in one conversation. What a call is named depends only on what came before
/// it, so that a longer conversation repeats a shorter one's beginning and caches keep hitting.
pub(super) struct Renamed {
    used: HashSet<String>,
    chars_max: usize,
}

impl Renamed {
    pub(super) fn new(profile: &Profile) -> Self {
        Self { used: HashSet::new(), chars_max: profile.call_id_chars_max }
    }

    /// Returns the id to send for a call with this id.
    pub(super) fn call_id(&mut self, id: &str) -> String {
        let base = sanitised(id, "call", self.chars_max);
        let mut unique = base.clone();
        let mut number = self.used.len();
        while !self.used.insert(unique.clone()) {
            let suffix = format!("_{number}");
            let kept = base.len().min(self.chars_max.saturating_sub(suffix.len()));
            unique = format!("{}{suffix}", &base[..kept]);
            number += 1;
        }
        unique
    }
}

/// Returns the name to send for a tool.
pub(super) fn legal_name(name: &str, profile: &Profile) -> String {
    sanitised(name, "tool", profile.tool_name_chars_max)
}

/// Returns whether providers take the text as an id or a name.
pub(super) fn is_legal(text: &str, chars_max: usize) -> bool {
    !text.is_empty() && text.len() <= chars_max && text.chars().all(is_legal_char)
}

fn sanitised(text: &str, otherwise: &str, chars_max: usize) -> String {
    let text = if text.is_empty() { otherwise } else { text };
    text.chars().take(chars_max).map(|c| if is_legal_char(c) { c } else { '_' }).collect()
}

const fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
