//! How a stored name says whose something is: an assistant's id ends with its owner (`agent@alice`), and the first label of
//! what hangs on no thread is the owner's (`@alice`). Nothing of the person at the machine has the mark. Who may see what is
//! not decided here.

use protocol::{OWNED_BY, Scope, UserId};

/// Returns the first label of the names of what a person keeps that hangs on no thread.
pub(crate) fn root_label(owner: &UserId) -> String {
    format!("{OWNED_BY}{owner}")
}

/// Returns whether a name belongs to somebody who is not the person at the machine.
pub(crate) fn is_rooted(name: &str) -> bool {
    name.starts_with(OWNED_BY)
}

/// Returns whether what is kept under names that begin with this label belongs to the scope.
pub(crate) fn is_of(scope: &Scope, label: &str) -> bool {
    match scope {
        Scope::Everyone => true,
        Scope::Owner(None) => !is_rooted(label),
        Scope::Owner(Some(owner)) => label == root_label(owner),
    }
}

/// Returns the bounds of the texts that begin with an owner's label, the second one outside, where `after` is the
/// character behind the one that follows a label. Of the person at the machine (`""`) are the texts outside these bounds.
pub(crate) fn bounds(owner: &str, after: char) -> (String, String) {
    match owner {
        "" => (OWNED_BY.to_string(), format!("{OWNED_BY}{}", char::MAX)),
        owner => (format!("{OWNED_BY}{owner}"), format!("{OWNED_BY}{owner}{after}")),
    }
}

/// Returns the name of the owner of an assistant as it is stored, `""` for the person at the machine.
pub(crate) fn owner_name(assistant_id: &str) -> &str {
    assistant_id.split_once(OWNED_BY).map_or("", |(_, owner)| owner)
}

/// Returns [`owner_name`] of a column, as an expression.
pub(crate) fn owner_expression(column: &str) -> String {
    format!(
        "CASE WHEN strpos({column}, '{OWNED_BY}') > 0 THEN substr({column}, strpos({column}, '{OWNED_BY}') + 1) ELSE '' END"
    )
}
