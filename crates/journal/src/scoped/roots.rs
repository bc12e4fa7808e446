//! Names of an owner's own for what hangs on no thread: items, the outbox and imports. A person's begin with `@` and their
//! id; those of the person at the machine begin as they like, but never with `@`.

use std::borrow::Cow;

use protocol::Scope;

use crate::NamespaceQuery;
use crate::owned::{is_rooted, root_label};
use crate::query::ANY_LABEL;

/// What the names in a scope begin with.
pub(super) enum Root {
    /// Names are as they are stored.
    Everyones,
    /// Names of others are nobody's.
    Machine,
    /// Names begin with this label, which is not seen.
    Of(String),
}

impl Root {
    pub(super) fn of(scope: &Scope) -> Self {
        match scope {
            Scope::Everyone => Self::Everyones,
            Scope::Owner(None) => Self::Machine,
            Scope::Owner(Some(owner)) => Self::Of(root_label(owner)),
        }
    }

    /// Returns the namespace as it is stored; `None` when nobody in the scope can have it.
    pub(super) fn namespace<'a>(&self, namespace: &'a [String]) -> Option<Cow<'a, [String]>> {
        match self {
            Self::Everyones => Some(Cow::Borrowed(namespace)),
            Self::Machine => {
                let is_own = !namespace.first().is_some_and(|label| is_rooted(label));
                is_own.then_some(Cow::Borrowed(namespace))
            }
            // One without any label is refused where it is kept.
            Self::Of(_) if namespace.is_empty() => Some(Cow::Borrowed(namespace)),
            Self::Of(root) => Some(std::iter::once(root).chain(namespace).cloned().collect()),
        }
    }

    /// Returns a key of the outbox or of an import as it is stored; `None` when nobody in the scope can have it.
    pub(super) fn key<'a>(&self, key: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Self::Everyones => Some(Cow::Borrowed(key)),
            Self::Machine => (!is_rooted(key)).then_some(Cow::Borrowed(key)),
            // No id of a person has a slash.
            Self::Of(root) => Some(Cow::Owned(format!("{root}/{key}"))),
        }
    }

    /// Puts the root before the prefix of a query.
    pub(super) fn prepend(&self, prefix: &mut Vec<String>) {
        if let Self::Of(root) = self {
            prefix.insert(0, root.clone());
        }
    }

    /// Puts the root before what a query for namespaces says about their beginning. No part of their end may be the root.
    pub(super) fn prepend_to_namespaces(&self, query: &mut NamespaceQuery) {
        if let Self::Of(_) = self {
            self.prepend(&mut query.prefix);
            let labels = query.prefix.len().max(query.suffix.len() + 1);
            query.prefix.resize(labels, ANY_LABEL.to_owned());
            query.depth_max = query.depth_max.map(|depth| depth.saturating_add(1));
        }
    }

    /// Takes the root from a namespace as it is stored.
    pub(super) fn strip(&self, namespace: &mut Vec<String>) {
        if let Self::Of(root) = self
            && namespace.first() == Some(root)
        {
            namespace.remove(0);
        }
    }

    /// Returns a stored key as it is seen in the scope; `None` when it is not.
    pub(super) fn own_key(&self, key: &str) -> Option<String> {
        match self {
            Self::Everyones => Some(key.to_owned()),
            Self::Machine => (!is_rooted(key)).then(|| key.to_owned()),
            Self::Of(root) => Some(key.strip_prefix(root.as_str())?.strip_prefix('/')?.to_owned()),
        }
    }
}
