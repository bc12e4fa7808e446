//! Prefixes of names for rows that belong to no thread: items, outbox items and imports. The stored names of an owner
//! begin with `@` and the owner's id. The names of the person at the machine have no prefix, and must not begin with
//! `@`.

use std::borrow::Cow;

use protocol::OwnerScope;

use crate::NamespaceQuery;
use crate::ownership::{has_owner_label, owner_label};
use crate::query::ANY_LABEL;

/// The prefix of stored names in a scope.
pub(super) enum OwnerPrefix {
    /// No restriction: names are used as they are stored.
    Unrestricted,
    /// The person at the machine: names with the prefix of an owner are inaccessible.
    LocalUser,
    /// An owner: stored names begin with this label, which is hidden from the caller.
    Owner(String),
}

impl OwnerPrefix {
    /// Returns the prefix of a scope.
    pub(super) fn for_scope(scope: &OwnerScope) -> Self {
        match scope {
            OwnerScope::Everyone => Self::Unrestricted,
            OwnerScope::Owner(None) => Self::LocalUser,
            OwnerScope::Owner(Some(owner)) => Self::Owner(owner_label(owner)),
        }
    }

    /// Returns the stored form of a namespace, or `None` if the namespace is not accessible in the scope.
    pub(super) fn stored_namespace<'a>(&self, namespace: &'a [String]) -> Option<Cow<'a, [String]>> {
        match self {
            Self::Unrestricted => Some(Cow::Borrowed(namespace)),
            Self::LocalUser => {
                let is_own = !namespace.first().is_some_and(|label| has_owner_label(label));
                is_own.then_some(Cow::Borrowed(namespace))
            }
            // An empty namespace is refused when it is stored.
            Self::Owner(_) if namespace.is_empty() => Some(Cow::Borrowed(namespace)),
            Self::Owner(label) => Some(std::iter::once(label).chain(namespace).cloned().collect()),
        }
    }

    /// Returns the stored form of a key of the outbox or of an import, or `None` if the key is not accessible in the
    /// scope.
    pub(super) fn stored_key<'a>(&self, key: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Self::Unrestricted => Some(Cow::Borrowed(key)),
            Self::LocalUser => (!has_owner_label(key)).then_some(Cow::Borrowed(key)),
            // The id of an owner contains no slash, so the prefix is unambiguous.
            Self::Owner(label) => Some(Cow::Owned(format!("{label}/{key}"))),
        }
    }

    /// Prepends the owner's label to the prefix of a query.
    pub(super) fn prepend(&self, prefix: &mut Vec<String>) {
        if let Self::Owner(label) = self {
            prefix.insert(0, label.clone());
        }
    }

    /// Prepends the owner's label to the prefix of a query for namespaces, and extends the prefix so that the suffix
    /// cannot match the label.
    pub(super) fn prepend_to_namespaces(&self, query: &mut NamespaceQuery) {
        if let Self::Owner(_) = self {
            self.prepend(&mut query.prefix);
            let labels = query.prefix.len().max(query.suffix.len() + 1);
            query.prefix.resize(labels, ANY_LABEL.to_owned());
            query.depth_max = query.depth_max.map(|depth| depth.saturating_add(1));
        }
    }

    /// Removes the owner's label from a stored namespace.
    pub(super) fn strip(&self, namespace: &mut Vec<String>) {
        if let Self::Owner(label) = self
            && namespace.first() == Some(label)
        {
            namespace.remove(0);
        }
    }

    /// Returns the form of a stored key that the caller sees, or `None` if the key is not in the scope.
    pub(super) fn visible_key(&self, key: &str) -> Option<String> {
        match self {
            Self::Unrestricted => Some(key.to_owned()),
            Self::LocalUser => (!has_owner_label(key)).then(|| key.to_owned()),
            Self::Owner(label) => Some(key.strip_prefix(label.as_str())?.strip_prefix('/')?.to_owned()),
        }
    }
}
