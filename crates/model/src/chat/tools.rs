//! The tools that a model may call, as requests carry them: one list for all requests of a graph. What they weigh, and how
//! a format writes them, is worked out once for the list. What a tool does is not known here.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::name::Provider;
use crate::tokens;

/// A tool as it is described to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name, of `a–z A–Z 0–9 _ -`, at most 64 characters.
    pub name: String,
    /// When and how to use it.
    pub description: String,
    /// JSON schema of the arguments; an object.
    pub parameters: Value,
}

/// The tools a model may call. Clones share the list.
#[derive(Clone, Default)]
pub struct Tools {
    /// `None`: there are none.
    shared: Option<Arc<Shared>>,
}

struct Shared {
    specs: Vec<ToolSpec>,
    weight: OnceLock<u64>,
    written: [OnceLock<Box<RawValue>>; Provider::ALL.len()],
}

impl Tools {
    /// Returns their names, descriptions and schemas in plain characters; see [`tokens::weight`].
    pub(crate) fn weight(&self) -> u64 {
        let of = |tool: &ToolSpec| {
            let texts = tokens::weight(&tool.name) + tokens::weight(&tool.description);
            texts + tokens::json_weight(&tool.parameters)
        };
        let weigh = |shared: &Shared| shared.specs.iter().map(of).sum();
        self.shared.as_deref().map_or(0, |shared| *shared.weight.get_or_init(|| weigh(shared)))
    }

    /// Returns the list as a format writes it; `None` when there are no tools. `forms` gives the form of each in that
    /// format, which follows from the list alone.
    pub(crate) fn written<'s, T: Serialize>(
        &'s self,
        provider: Provider,
        forms: impl FnOnce(&'s [ToolSpec]) -> Vec<T>,
    ) -> serde_json::Result<Option<&'s RawValue>> {
        let Some(shared) = self.shared.as_deref() else { return Ok(None) };
        let written = &shared.written[provider as usize];
        if let Some(known) = written.get() {
            return Ok(Some(known));
        }
        let new = serde_json::value::to_raw_value(&forms(&shared.specs))?;
        Ok(Some(written.get_or_init(|| new)))
    }
}

impl From<Vec<ToolSpec>> for Tools {
    fn from(specs: Vec<ToolSpec>) -> Self {
        if specs.is_empty() {
            return Self::default();
        }
        let shared = Shared { specs, weight: OnceLock::new(), written: Default::default() };
        Self { shared: Some(Arc::new(shared)) }
    }
}

impl FromIterator<ToolSpec> for Tools {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self::from(specs.into_iter().collect::<Vec<_>>())
    }
}

impl Deref for Tools {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        self.shared.as_deref().map_or(&[], |shared| &shared.specs)
    }
}

impl PartialEq for Tools {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> Tools {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
        };
        names.iter().map(spec).collect()
    }

    #[test]
    fn a_list_is_written_once_for_each_format_and_shared_by_its_clones() {
        let tools = tools(&["a", "b"]);
        let names = |specs: &[ToolSpec]| specs.iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
        let written = tools.written(Provider::OpenAi, names).unwrap().unwrap();
        assert_eq!(written.get(), r#"["a","b"]"#);
        let clone = tools.clone();
        let again = clone.written(Provider::OpenAi, |_| Vec::<u8>::new()).unwrap().unwrap();
        assert!(std::ptr::eq(written, again));
        let other = clone.written(Provider::Gemini, |specs| vec![specs.len()]).unwrap().unwrap();
        assert_eq!(other.get(), "[2]");
    }

    #[test]
    fn no_tools_weigh_nothing_and_are_not_written() {
        let none = tools(&[]);
        assert_eq!((none.weight(), none.len(), none.clone()), (0, 0, Tools::default()));
        assert!(none.written(Provider::Anthropic, |_| vec![0]).unwrap().is_none());
        assert_ne!(tools(&["a"]), none);
        assert_eq!(tools(&["a"]), tools(&["a"]));
    }
}
