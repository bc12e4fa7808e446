//! The tools that a model may call, as requests carry them. All requests of a graph share one list, and its
//! weight and its serialized forms are computed once. The implementation of a tool is not known here.

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
    /// The tool's name: at most 64 of the characters `a–z A–Z 0–9 _ -`.
    pub name: String,
    /// When and how to use the tool.
    pub description: String,
    /// The JSON schema of the arguments, which must be an object.
    pub parameters: Value,
}

/// A list of tools that a model may call. Clones share the list.
#[derive(Clone, Default)]
pub struct ToolSpecs {
    /// The shared list; `None` if there are no tools.
    shared: Option<Arc<SharedToolSpecs>>,
}

/// The state that all clones of a list share.
struct SharedToolSpecs {
    /// The tools.
    specs: Vec<ToolSpec>,
    /// The weight of all tools, computed at the first use.
    weight: OnceLock<u64>,
    /// The serialized form for each provider, computed at the first use.
    serialized: [OnceLock<Box<RawValue>>; Provider::ALL.len()],
}

impl ToolSpecs {
    /// Returns the weight of all names, descriptions and schemas; see [`tokens::weight`].
    pub(crate) fn weight(&self) -> u64 {
        let tool_weight = |tool: &ToolSpec| {
            let texts = tokens::weight(&tool.name) + tokens::weight(&tool.description);
            texts + tokens::json_weight(&tool.parameters)
        };
        let total_weight = |shared: &SharedToolSpecs| shared.specs.iter().map(tool_weight).sum();
        self.shared.as_deref().map_or(0, |shared| *shared.weight.get_or_init(|| total_weight(shared)))
    }

    /// Returns the serialized list in the form of a provider, or `None` when there are no tools. `forms` converts
    /// the tools to that form. It is called once for each provider, so its result must depend on the list only.
    pub(crate) fn serialized<'s, T: Serialize>(
        &'s self,
        provider: Provider,
        forms: impl FnOnce(&'s [ToolSpec]) -> Vec<T>,
    ) -> serde_json::Result<Option<&'s RawValue>> {
        let Some(shared) = self.shared.as_deref() else { return Ok(None) };
        let cache = &shared.serialized[provider as usize];
        if let Some(serialized) = cache.get() {
            return Ok(Some(serialized));
        }
        let serialized = serde_json::value::to_raw_value(&forms(&shared.specs))?;
        Ok(Some(cache.get_or_init(|| serialized)))
    }
}

impl From<Vec<ToolSpec>> for ToolSpecs {
    fn from(specs: Vec<ToolSpec>) -> Self {
        if specs.is_empty() {
            return Self::default();
        }
        let shared = SharedToolSpecs { specs, weight: OnceLock::new(), serialized: Default::default() };
        Self { shared: Some(Arc::new(shared)) }
    }
}

impl FromIterator<ToolSpec> for ToolSpecs {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self::from(specs.into_iter().collect::<Vec<_>>())
    }
}

impl Deref for ToolSpecs {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        self.shared.as_deref().map_or(&[], |shared| &shared.specs)
    }
}

impl PartialEq for ToolSpecs {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for ToolSpecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> ToolSpecs {
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
        let written = tools.serialized(Provider::OpenAi, names).unwrap().unwrap();
        assert_eq!(written.get(), r#"["a","b"]"#);
        let clone = tools.clone();
        let again = clone.serialized(Provider::OpenAi, |_| Vec::<u8>::new()).unwrap().unwrap();
        assert!(std::ptr::eq(written, again));
        let other = clone.serialized(Provider::Gemini, |specs| vec![specs.len()]).unwrap().unwrap();
        assert_eq!(other.get(), "[2]");
    }

    #[test]
    fn no_tools_weigh_nothing_and_are_not_written() {
        let none = tools(&[]);
        assert_eq!((none.weight(), none.len(), none.clone()), (0, 0, ToolSpecs::default()));
        assert!(none.serialized(Provider::Anthropic, |_| vec![0]).unwrap().is_none());
        assert_ne!(tools(&["a"]), none);
        assert_eq!(tools(&["a"]), tools(&["a"]));
    }
}
