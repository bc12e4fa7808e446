//! The tool `store`: what an agent keeps for itself under names, for all its conversations. What others keep is out of
//! its reach.

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{AGENT_ITEMS, FoundItem, Write};
use model::ToolSpec;
use protocol::{AssistantId, Item};
use runtime::{Repeat, Tool, ToolContext, ToolOutput, Update};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ItemError;
use super::{ItemSearch, Items, Kept, NamespaceSearch, prepare};

/// The tool's name.
pub const STORE: &str = "store";

/// The most items or namespaces of one answer.
const FOUND_MAX: usize = 20;
/// The most bytes that are shown of a value where several are.
const SHOWN_BYTES_MAX: usize = 1_000;

/// The tool.
pub struct StoreTool {
    /// The labels that everything the agent keeps begins with.
    own: [String; 2],
}

impl StoreTool {
    /// Returns the tool for what the agent keeps.
    pub fn new(agent_id: &AssistantId) -> Self {
        Self { own: [AGENT_ITEMS.to_owned(), agent_id.to_string()] }
    }

    fn namespace(&self, labels: &[String]) -> Vec<String> {
        self.own.iter().chain(labels).cloned().collect()
    }

    async fn answer(&self, call: Call, context: &ToolContext) -> Result<ToolOutput, ItemError> {
        let items = Items { store: context.store.clone() };
        let namespace = self.namespace(&call.namespace);
        match call.action {
            Action::Put { key, value } => {
                let (item, kept) = prepare(&namespace, &key, value, Timestamp::now())?;
                let text = match kept {
                    Kept { withheld: 0 } => format!("`{key}` is kept."),
                    Kept { withheld } => {
                        format!("`{key}` is kept without {withheld} secret(s): secrets are never kept.")
                    }
                };
                Ok(written(text, Write::PutItem(item)))
            }
            Action::Get { key } => Ok(match items.get(&namespace, &key).await? {
                Some(item) => ToolOutput::success(self.shown(&item, usize::MAX)),
                None => absent(&key),
            }),
            Action::Delete { key } => Ok(match items.get(&namespace, &key).await? {
                Some(_) => written(format!("`{key}` is removed."), Write::DeleteItem { namespace, key }),
                None => absent(&key),
            }),
            Action::Search(search) => {
                let search = ItemSearch { namespace_prefix: namespace, ..search };
                Ok(self.told(&items.search(&search).await?, search.limit))
            }
            Action::List { offset } => {
                let prefix = Some(namespace);
                let search =
                    NamespaceSearch { prefix, limit: FOUND_MAX, offset, ..NamespaceSearch::default() };
                Ok(self.listed(&items.list_namespaces(&search).await?))
            }
        }
    }

    fn told(&self, found: &[FoundItem], limit: usize) -> ToolOutput {
        if found.is_empty() {
            return ToolOutput::success(include_str!("../../prompts/store/nothing_found.md").trim());
        }
        let mut lines: Vec<String> =
            found.iter().map(|found| self.shown(&found.item, SHOWN_BYTES_MAX)).collect();
        if found.len() == limit {
            lines.push(include_str!("../../prompts/store/more_items.md").trim().to_owned());
        }
        ToolOutput::success(lines.join("\n"))
    }

    fn listed(&self, namespaces: &[Vec<String>]) -> ToolOutput {
        if namespaces.is_empty() {
            return ToolOutput::success(include_str!("../../prompts/store/nothing_found.md").trim());
        }
        let mut lines: Vec<String> = namespaces
            .iter()
            .map(|namespace| inert(&json!(namespace.get(self.own.len()..).unwrap_or_default())))
            .collect();
        if namespaces.len() == FOUND_MAX {
            lines.push(include_str!("../../prompts/store/more_items.md").trim().to_owned());
        }
        ToolOutput::success(lines.join("\n"))
    }

    /// Returns the item as a line of JSON.
    fn shown(&self, item: &Item, bytes_max: usize) -> String {
        let namespace = item.namespace.get(self.own.len()..).unwrap_or_default();
        let value = inert(&Value::Object(item.value.clone()));
        let place = json!({"namespace": namespace, "key": item.key, "updated_at": item.updated_at});
        let place = inert(&place);
        if value.len() <= bytes_max {
            return format!("{} {value}", place);
        }
        let shown = &value[..value.floor_char_boundary(bytes_max)];
        format!("{place} {shown}… ({} of {} bytes; get it to read the rest)", shown.len(), value.len())
    }
}

/// Returns the value as JSON without a single `<`: what was kept can neither close an element nor open one.
fn inert(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// A change is committed with the call's result: neither is there without the other.
fn written(text: String, write: Write) -> ToolOutput {
    ToolOutput { update: Update { writes: vec![write], ..Update::default() }, ..ToolOutput::success(text) }
}

fn absent(key: &str) -> ToolOutput {
    ToolOutput::success(format!("Nothing is kept as `{key}` there."))
}

#[async_trait]
impl Tool for StoreTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::taking::<Args>(STORE, include_str!("../../prompts/store/tool.md"))
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        arguments(args).map(drop)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let call = match arguments(args) {
            Ok(call) => call,
            Err(reason) => return ToolOutput::error(reason),
        };
        match self.answer(call, context).await {
            Ok(output) => output,
            Err(error) => ToolOutput::error(format!("failed to {error}. To do: {}.", error.hint())),
        }
    }
}

/// What a call asks.
struct Call {
    namespace: Vec<String>,
    action: Action,
}

enum Action {
    Put { key: String, value: Value },
    Get { key: String },
    Delete { key: String },
    Search(ItemSearch),
    List { offset: usize },
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    action: Named,
    #[serde(default)]
    #[schemars(description = include_str!("../../prompts/store/namespace.md").trim())]
    namespace: Vec<String>,
    #[schemars(description = include_str!("../../prompts/store/key.md").trim())]
    key: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>", description = include_str!("../../prompts/store/value.md").trim())]
    value: Option<Value>,
    #[schemars(description = include_str!("../../prompts/store/query.md").trim())]
    query: Option<String>,
    #[schemars(description = include_str!("../../prompts/store/filter.md").trim())]
    filter: Option<Map<String, Value>>,
    #[serde(default)]
    #[schemars(description = include_str!("../../prompts/store/offset.md").trim())]
    offset: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Named {
    Put,
    Get,
    Delete,
    Search,
    List,
}

/// Reads a call's arguments; the error is what the model is told. Models fill in what they need not: what an action has
/// no use for is not looked at.
fn arguments(args: &Value) -> Result<Call, String> {
    let args = Args::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    let key = args.key.ok_or_else(|| "bad arguments: put, get and delete need key".to_owned());
    let action = match args.action {
        Named::Put => {
            let value = args.value.ok_or_else(|| "bad arguments: put needs value".to_owned())?;
            Action::Put { key: key?, value }
        }
        Named::Get => Action::Get { key: key? },
        Named::Delete => Action::Delete { key: key? },
        Named::Search => Action::Search(ItemSearch {
            filter: args.filter,
            query: args.query,
            limit: FOUND_MAX,
            offset: args.offset,
            ..ItemSearch::default()
        }),
        Named::List => Action::List { offset: args.offset },
    };
    Ok(Call { namespace: args.namespace, action })
}
