//! `segue store`: JSON objects that agents and users store under a namespace and a key. The crate `memory` decides
//! which values may be stored and how they are searched.

use std::fs;

use agent::{ItemSearch, NamespaceSearch};
use jiff::Timestamp;
use protocol::StoredItem;
use serde::Serialize;
use serde_json::{Map, Value, json};
use terminal::{TableColumn, format_minute, sanitize, sanitize_line, shorten, table, wrap};

use crate::cli::OutputFormat;
use crate::cli::memory::store::{StoreCommand, StoreItemArgs, StorePageArgs, StoreValueArgs};
use crate::commands::memory::tiers::redaction_text;
use crate::commands::{CommandContext, read_stdin};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most columns of a namespace or a key in a table.
const NAME_COLUMNS_MAX: usize = 28;
/// The most characters of a value that are rendered in a table.
const VALUE_CHARS_MAX: usize = 400;

/// The comparison operators with their names in the Agent Server API. Longer operators come first, because `>` is a prefix of
/// `>=`.
const COMPARISONS: [(&str, &str); 6] =
    [("!=", "$ne"), (">=", "$gte"), ("<=", "$lte"), ("=", "$eq"), (">", "$gt"), ("<", "$lt")];

/// The hint for a value that is not valid.
const JSON_HINT: &str = "write a JSON object, such as {\"text\": \"…\"}";

/// An item of the JSON output.
#[derive(Serialize)]
struct StoreListEntry<'a> {
    /// The item.
    #[serde(flatten)]
    item: &'a StoredItem,
    /// The relevance, if words were searched.
    score: Option<f64>,
}

/// Performs `segue store`.
///
/// # Errors
/// Fails if the arguments are invalid, an item to print does not exist, the journal cannot be used, or stdout cannot be
/// written.
pub(crate) async fn run(context: &CommandContext, args: StoreCommand) -> CommandResult {
    match args {
        StoreCommand::Put { name, value } => put_item(context, &name, &value).await?,
        StoreCommand::Get { name } => print_item(context, &name).await?,
        StoreCommand::Delete { name } => delete_item(context, &name).await?,
        StoreCommand::Search { words, namespace, conditions, page } => {
            let query = Some(words.join(" ")).filter(|words| !words.trim().is_empty());
            let search = ItemSearch {
                namespace_prefix: namespace.as_deref().map(split_namespace).unwrap_or_default(),
                filter: parse_filter(&conditions)?,
                query,
                limit: page.limit as usize,
                offset: page.offset as usize,
            };
            list_items(context, &search).await?;
        }
        StoreCommand::Namespaces { prefix, suffix, depth, page } => {
            let search = NamespaceSearch {
                prefix: prefix.as_deref().map(split_namespace),
                suffix: suffix.as_deref().map(split_namespace),
                max_depth: depth.map(|depth| depth as usize),
                limit: page.limit as usize,
                offset: page.offset as usize,
            };
            list_namespaces(context, &search, &page).await?;
        }
    }
    Ok(ExitReason::Success)
}

/// Stores an item, and warns about secrets that were redacted in it.
///
/// # Errors
/// Fails if the value cannot be read or must not be stored.
async fn put_item(
    context: &CommandContext,
    name: &StoreItemArgs,
    value: &StoreValueArgs,
) -> Result<(), CliFailure> {
    let (namespace, value) = (split_namespace(&name.namespace), read_value(value)?);
    let receipt = context
        .agent
        .memory()
        .items()
        .put(&namespace, &name.key, value, Timestamp::now())
        .await
        .map_err(agent::Error::from)?;
    if context.format == OutputFormat::Json {
        return context
            .print_json(&json!({"namespace": namespace, "key": name.key, "withheld": receipt.withheld}));
    }
    let text = format!("Stored {}.", item_label(name));
    context.screen.print_line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    if let Some(text) = redaction_text(receipt.withheld) {
        context.print_notice(&text);
    }
    Ok(())
}

/// Prints the value of an item.
///
/// # Errors
/// Fails if the item does not exist.
async fn print_item(context: &CommandContext, name: &StoreItemArgs) -> Result<(), CliFailure> {
    let item = find_item(context, name).await?.ok_or_else(|| {
        CliFailure::new(ExitReason::User, format!("find {} in the store", item_label(name))).with_hint(
            format!("`segue store search --in {}` lists the items", sanitize_line(&name.namespace)),
        )
    })?;
    match context.format {
        OutputFormat::Json => context.print_json(&item),
        OutputFormat::Text => {
            let value = serde_json::to_string_pretty(&item.value)?;
            Ok(context.screen.print_line(sanitize(&value))?)
        }
    }
}

/// Deletes an item. An item that does not exist is reported; that is not a failure.
async fn delete_item(context: &CommandContext, name: &StoreItemArgs) -> Result<(), CliFailure> {
    let existed = find_item(context, name).await?.is_some();
    let items = context.agent.memory().items();
    items.delete(&split_namespace(&name.namespace), &name.key).await.map_err(agent::Error::from)?;
    match (context.format, existed) {
        (OutputFormat::Json, deleted) => context.print_json(&json!({"deleted": deleted})),
        (OutputFormat::Text, true) => {
            Ok(context.screen.print_line(format!("Deleted {}.", item_label(name)))?)
        }
        (OutputFormat::Text, false) => {
            Ok(context.screen.print_line(format!("There is no item {}.", item_label(name)))?)
        }
    }
}

/// Returns an item, or `None` if it does not exist.
async fn find_item(context: &CommandContext, name: &StoreItemArgs) -> Result<Option<StoredItem>, CliFailure> {
    let items = context.agent.memory().items();
    Ok(items.get(&split_namespace(&name.namespace), &name.key).await.map_err(agent::Error::from)?)
}

/// Lists the items that match a search.
///
/// # Errors
/// Fails if the search is invalid, the journal cannot be read, or stdout cannot be written.
async fn list_items(context: &CommandContext, search: &ItemSearch) -> Result<(), CliFailure> {
    let hits = context.agent.memory().items().search(search).await.map_err(agent::Error::from)?;
    if context.format == OutputFormat::Json {
        let items: Vec<StoreListEntry<'_>> =
            hits.iter().map(|hit| StoreListEntry { item: &hit.item, score: hit.score }).collect();
        return context.print_json(&json!({"items": items}));
    }
    if hits.is_empty() {
        context.screen.print_line("There are no items.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = hits.iter().map(|hit| item_row(&hit.item)).collect::<Result<_, _>>()?;
    let columns = [
        TableColumn::Left("NAMESPACE"),
        TableColumn::Left("KEY"),
        TableColumn::Left("UPDATED"),
        TableColumn::Flexible("VALUE"),
    ];
    context.screen.print_lines(table(&context.screen, &columns, &rows))?;
    if hits.len() == search.limit {
        print_more_hint(context, search.offset + search.limit);
    }
    Ok(())
}

/// Returns the cells of an item in a list.
fn item_row(item: &StoredItem) -> Result<Vec<String>, CliFailure> {
    let short = |text: &str| shorten(&sanitize_line(text), NAME_COLUMNS_MAX).into_owned();
    let value: String = serde_json::to_string(&item.value)?.chars().take(VALUE_CHARS_MAX).collect();
    let updated_at = format_minute(item.updated_at);
    Ok(vec![short(&item.namespace.join(".")), short(&item.key), updated_at, sanitize_line(&value)])
}

/// Lists the namespaces that match a search.
///
/// # Errors
/// Fails if the search is invalid, the journal cannot be read, or stdout cannot be written.
async fn list_namespaces(
    context: &CommandContext,
    search: &NamespaceSearch,
    page: &StorePageArgs,
) -> Result<(), CliFailure> {
    let namespaces =
        context.agent.memory().items().list_namespaces(search).await.map_err(agent::Error::from)?;
    if context.format == OutputFormat::Json {
        return context.print_json(&json!({"namespaces": namespaces}));
    }
    if namespaces.is_empty() {
        context.screen.print_line("There are no such namespaces.")?;
    }
    for namespace in &namespaces {
        context.screen.print_line(sanitize_line(&namespace.join(".")))?;
    }
    if namespaces.len() == page.limit as usize {
        print_more_hint(context, search.offset + search.limit);
    }
    Ok(())
}

/// Prints a hint with the offset of the next page. A full page does not prove that another page exists.
fn print_more_hint(context: &CommandContext, offset: usize) {
    context
        .screen
        .print_to_stderr(context.screen.style.dim(format!("There may be more: `--offset {offset}`.")));
}

/// Returns the key and the namespace of an item for a sentence.
fn item_label(name: &StoreItemArgs) -> String {
    format!("`{}` in `{}`", sanitize_line(&name.key), sanitize_line(&name.namespace))
}

/// Splits a namespace into its labels. The crate `memory` validates them.
fn split_namespace(namespace: &str) -> Vec<String> {
    namespace.split('.').map(str::to_owned).collect()
}

/// Reads the value from the argument, the file or standard input.
///
/// # Errors
/// Fails if the source cannot be read or contains no JSON.
fn read_value(source: &StoreValueArgs) -> Result<Value, CliFailure> {
    let text = match (&source.text, &source.file) {
        (Some(text), _) if text != "-" => text.clone(),
        (_, Some(path)) if path.as_os_str() != "-" => fs::read_to_string(path).map_err(|error| {
            CliFailure::new(ExitReason::User, format!("read {}: {error}", path.display()))
                .with_hint("check the path and its permissions")
        })?,
        (_, _) => read_stdin("the value")?,
    };
    serde_json::from_str(&text).map_err(|error| {
        CliFailure::new(ExitReason::User, format!("read the value: it is not JSON: {error}"))
            .with_hint(JSON_HINT)
    })
}

/// Parses conditions such as `age>=3` into a filter of the Agent Server API; `None` without conditions. A value that is
/// not JSON is used as a string.
///
/// # Errors
/// Fails if a condition has no field or no comparison operator.
fn parse_filter(conditions: &[String]) -> Result<Option<Map<String, Value>>, CliFailure> {
    let mut filter: Map<String, Value> = Map::new();
    for condition in conditions {
        let (field, comparison, value) = split_condition(condition).ok_or_else(|| {
            CliFailure::new(ExitReason::User, format!("read the condition `{}`", sanitize_line(condition)))
                .with_hint("write FIELD=VALUE; also with !=, >, >=, < or <=")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let comparisons = filter.entry(field).or_insert_with(|| json!({}));
        comparisons[comparison] = value;
    }
    Ok(Some(filter).filter(|filter| !filter.is_empty()))
}

/// Returns the field, the API's name of the comparison, and the value of a condition; `None` if the text is not a
/// condition.
fn split_condition(condition: &str) -> Option<(&str, &'static str, &str)> {
    let index = condition.find(['=', '!', '<', '>'])?;
    let (field, comparison) = condition.split_at(index);
    let (operator, name) = COMPARISONS.into_iter().find(|(operator, _)| comparison.starts_with(operator))?;
    let field = field.trim();
    (!field.is_empty()).then(|| (field, name, comparison[operator.len()..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_parsed_into_a_filter() {
        let check = |conditions: &[&str], expected: Value| {
            let conditions: Vec<String> = conditions.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(parse_filter(&conditions).unwrap().map(Value::Object).unwrap_or_default(), expected);
        };
        check(&[], Value::Null);
        check(&["age=3"], json!({"age": {"$eq": 3}}));
        check(
            &["age>=3", "age<9", "name!=Ada"],
            json!({"age": {"$gte": 3, "$lt": 9}, "name": {"$ne": "Ada"}}),
        );
        check(&["a = \"x=y\""], json!({"a": {"$eq": "x=y"}}));
        check(&["a=x=y"], json!({"a": {"$eq": "x=y"}}));
        check(&["a="], json!({"a": {"$eq": ""}}));
        for invalid in ["age", "=3", "!3", "a!3"] {
            assert!(parse_filter(&[invalid.to_owned()]).is_err(), "{invalid}");
        }
    }
}
