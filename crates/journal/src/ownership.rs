//! How stored names encode their owner. The id of an assistant ends with its owner (`agent@alice`). Rows that belong
//! to no thread have a name whose first label is the owner's (`@alice`). Names of the person at the machine have no
//! `@`. Access is not decided here.

use protocol::{OWNER_SEPARATOR, OwnerScope, UserId};

/// Returns the first label of an owner's names.
pub(crate) fn owner_label(owner: &UserId) -> String {
    format!("{OWNER_SEPARATOR}{owner}")
}

/// Returns whether a name begins with the label of an owner, and so does not belong to the person at the machine.
pub(crate) fn has_owner_label(name: &str) -> bool {
    name.starts_with(OWNER_SEPARATOR)
}

/// Returns whether names with this first label belong to a scope.
pub(crate) fn is_in_scope(scope: &OwnerScope, label: &str) -> bool {
    match scope {
        OwnerScope::Everyone => true,
        OwnerScope::Owner(None) => !has_owner_label(label),
        OwnerScope::Owner(Some(owner)) => label == owner_label(owner),
    }
}

/// Returns the bounds of the names that begin with an owner's label (the upper one exclusive). `after` is the
/// character after the separator that follows a label. For the person at the machine (`""`), the bounds enclose the
/// names of all others: its own names are those outside.
pub(crate) fn owner_label_bounds(owner: &str, after: char) -> (String, String) {
    match owner {
        "" => (OWNER_SEPARATOR.to_string(), format!("{OWNER_SEPARATOR}{}", char::MAX)),
        owner => (format!("{OWNER_SEPARATOR}{owner}"), format!("{OWNER_SEPARATOR}{owner}{after}")),
    }
}

/// Returns the owner of an assistant in its stored form: `""` for the person at the machine.
pub(crate) fn owner_name(assistant_id: &str) -> &str {
    assistant_id.split_once(OWNER_SEPARATOR).map_or("", |(_, owner)| owner)
}

/// Returns the SQL expression for [`owner_name`] of a column.
pub(crate) fn owner_sql_expression(column: &str) -> String {
    format!(
        "CASE WHEN strpos({column}, '{OWNER_SEPARATOR}') > 0 THEN substr({column}, strpos({column}, '{OWNER_SEPARATOR}') + 1) ELSE '' END"
    )
}
