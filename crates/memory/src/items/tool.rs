//! The tool `store`: lets an agent store values under names, for all its conversations in a project. It cannot access items
//! of other agents, projects or clients, because every namespace that it uses begins with labels that it cannot choose.

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{AGENT_NAMESPACE_LABEL, ItemHit, Write};
use model::ToolSpec;
use protocol::{AssistantId, StoredItem};
use runtime::{GraphUpdate, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ItemError;
use super::{ItemSearch, ItemStore, NamespaceSearch, PutReceipt, prepare_item};

/// The tool's name.
pub const STORE: &str = "store";

/// Maximum number of items or namespaces in one answer.
const FOUND_MAX: usize = 20;
/// Maximum bytes of each value in a list of items. A single item is shown whole.
const SHOWN_BYTES_MAX: usize = 1_000;

/// Number of labels of a namespace that the model does not see.
const HIDDEN_LABELS: usize = 2;

/// The tool `store`, for one agent.
pub struct StoreTool {
    /// The second label of the namespaces of the project.
    project_label: String,
    /// The second label of the namespaces without a project.
    personal_label: String,
}

/// The items that a call is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StoreScope {
    /// Those of the project.
    #[default]
    Project,
    /// Those of no project.
    Personal,
}

impl StoreTool {
    /// Returns the tool for the items of the agent in the project with this path. Without a project, all items are
    /// personal.
    pub fn new(agent_id: &AssistantId, project: Option<&str>) -> Self {
        Self {
            project_label: journal::assistant_label(agent_id, project),
            personal_label: journal::assistant_label(agent_id, None),
        }
    }

    /// Returns the namespace with the labels of the agent and the scope before those of the call.
    fn full_namespace(&self, call: &StoreCall) -> Vec<String> {
        let label = match call.scope {
            StoreScope::Project => &self.project_label,
            StoreScope::Personal => &self.personal_label,
        };
        [AGENT_NAMESPACE_LABEL, label].into_iter().map(str::to_owned).chain(call.namespace.clone()).collect()
    }

    /// Performs a call. Reads are made at once; writes are returned in the output and committed with the result of
    /// the call.
    async fn execute_call(&self, call: StoreCall, context: &ToolContext) -> Result<ToolOutput, ItemError> {
        let items = ItemStore { store: context.store.clone() };
        let namespace = self.full_namespace(&call);
        match call.action {
            StoreAction::Put { key, value } => {
                let (item, receipt) = prepare_item(&namespace, &key, value, Timestamp::now())?;
                let text = match receipt {
                    PutReceipt { withheld: 0 } => format!("`{key}` is kept."),
                    PutReceipt { withheld } => {
                        format!("`{key}` is kept without {withheld} secret(s): secrets are never kept.")
                    }
                };
                Ok(output_with_write(text, Write::PutItem(item)))
            }
            StoreAction::Get { key } => Ok(match items.get(&namespace, &key).await? {
                Some(item) => ToolOutput::success(self.render_item(&item, usize::MAX)),
                None => not_found_output(&key),
            }),
            StoreAction::Delete { key } => Ok(match items.get(&namespace, &key).await? {
                Some(_) => {
                    output_with_write(format!("`{key}` is removed."), Write::DeleteItem { namespace, key })
                }
                None => not_found_output(&key),
            }),
            StoreAction::Search(search) => {
                let search = ItemSearch { namespace_prefix: namespace, ..search };
                Ok(self.render_items(&items.search(&search).await?, search.limit))
            }
            StoreAction::List { offset } => {
                let prefix = Some(namespace);
                let search =
                    NamespaceSearch { prefix, limit: FOUND_MAX, offset, ..NamespaceSearch::default() };
                Ok(self.render_namespaces(&items.list_namespaces(&search).await?))
            }
        }
    }

    /// Returns the answer of a search, with one line for each item. A full page ends with a note that there may be
    /// more.
    fn render_items(&self, hits: &[ItemHit], limit: usize) -> ToolOutput {
        if hits.is_empty() {
            return ToolOutput::success(include_str!("../../prompts/store/nothing_found.md").trim());
        }
        let mut lines: Vec<String> =
            hits.iter().map(|hit| self.render_item(&hit.item, SHOWN_BYTES_MAX)).collect();
        if hits.len() == limit {
            lines.push(include_str!("../../prompts/store/more_items.md").trim().to_owned());
        }
        ToolOutput::success(lines.join("\n"))
    }

    /// Returns the answer of a listing, with one line for each namespace, without the agent's labels.
    fn render_namespaces(&self, namespaces: &[Vec<String>]) -> ToolOutput {
        if namespaces.is_empty() {
            return ToolOutput::success(include_str!("../../prompts/store/nothing_found.md").trim());
        }
        let mut lines: Vec<String> = namespaces
            .iter()
            .map(|namespace| to_inert_json(&json!(namespace.get(HIDDEN_LABELS..).unwrap_or_default())))
            .collect();
        if namespaces.len() == FOUND_MAX {
            lines.push(include_str!("../../prompts/store/more_items.md").trim().to_owned());
        }
        ToolOutput::success(lines.join("\n"))
    }

    /// Returns the item as one line: its name as JSON, and at most `bytes_max` bytes of its value as JSON.
    fn render_item(&self, item: &StoredItem, bytes_max: usize) -> String {
        let namespace = item.namespace.get(HIDDEN_LABELS..).unwrap_or_default();
        let value = to_inert_json(&Value::Object(item.value.clone()));
        let name = json!({"namespace": namespace, "key": item.key, "updated_at": item.updated_at});
        let name = to_inert_json(&name);
        if value.len() <= bytes_max {
            return format!("{name} {value}");
        }
        let shown = &value[..value.floor_char_boundary(bytes_max)];
        format!("{name} {shown}… ({} of {} bytes; get it to read the rest)", shown.len(), value.len())
    }
}

/// Returns the value as JSON with every `<` escaped, so that a stored text can neither open nor close an element of a
/// prompt.
fn to_inert_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// Returns a result whose write is committed in the same transaction. Either both are stored or neither.
fn output_with_write(text: String, write: Write) -> ToolOutput {
    ToolOutput {
        update: GraphUpdate { writes: vec![write], ..GraphUpdate::default() },
        ..ToolOutput::success(text)
    }
}

/// Returns the result of a call for a name that does not exist. It is not an error, because the model can continue.
fn not_found_output(key: &str) -> ToolOutput {
    ToolOutput::success(format!("Nothing is kept as `{key}` there."))
}

#[async_trait]
impl Tool for StoreTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<StoreArgs>(STORE, include_str!("../../prompts/store/tool.md"))
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args(args).map(drop)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let call = match parse_args(args) {
            Ok(call) => call,
            Err(reason) => return ToolOutput::error(reason),
        };
        match self.execute_call(call, context).await {
            Ok(output) => output,
            Err(error) => ToolOutput::error(format!("failed to {error}. To do: {}.", error.hint())),
        }
    }
}

/// A parsed call.
struct StoreCall {
    /// The labels after the hidden ones.
    namespace: Vec<String>,
    /// The items that the call is about.
    scope: StoreScope,
    action: StoreAction,
}

/// The action of a call, with its arguments.
enum StoreAction {
    Put { key: String, value: Value },
    Get { key: String },
    Delete { key: String },
    Search(ItemSearch),
    List { offset: usize },
}

// The arguments of a call. Their descriptions are for the model and are prompt files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StoreArgs {
    action: StoreActionName,
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
    #[serde(default)]
    #[schemars(description = include_str!("../../prompts/store/scope.md").trim())]
    scope: StoreScope,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StoreActionName {
    Put,
    Get,
    Delete,
    Search,
    List,
}

/// Parses a call's arguments. The error is the message for the model.
///
/// Arguments that the action does not use are ignored, because models often fill in all of them.
fn parse_args(args: &Value) -> Result<StoreCall, String> {
    let args = StoreArgs::deserialize(args).map_err(|error| format!("bad arguments: {error}"))?;
    let key = args.key.ok_or_else(|| "bad arguments: put, get and delete need key".to_owned());
    let action = match args.action {
        StoreActionName::Put => {
            let value = args.value.ok_or_else(|| "bad arguments: put needs value".to_owned())?;
            StoreAction::Put { key: key?, value }
        }
        StoreActionName::Get => StoreAction::Get { key: key? },
        StoreActionName::Delete => StoreAction::Delete { key: key? },
        StoreActionName::Search => StoreAction::Search(ItemSearch {
            filter: args.filter,
            query: args.query,
            limit: FOUND_MAX,
            offset: args.offset,
            ..ItemSearch::default()
        }),
        StoreActionName::List => StoreAction::List { offset: args.offset },
    };
    Ok(StoreCall { namespace: args.namespace, scope: args.scope, action })
}
