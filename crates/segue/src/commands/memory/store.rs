//! `segue store`: what agents and people keep under a name. What may be kept, and how it is found, is decided by the
//! `memory` room.

use std::fs;
use std::io::{self, Read};

use agent::{ItemSearch, NamespaceSearch};
use jiff::Timestamp;
use protocol::Item;
use serde::Serialize;
use serde_json::{Map, Value, json};
use terminal::{Column, minute, one_line, safe, shorten, table, wrap};

use crate::cli::Format;
use crate::cli::memory::store::{Name, Page, Store, Value as Given};
use crate::commands::Context;
use crate::commands::memory::tiers::withheld;
use crate::exit::{Code, Failure, Outcome};

/// Columns of a namespace or a key in a list.
const NAME_COLUMNS_MAX: usize = 28;
/// Characters of a value that are looked at for a list.
const VALUE_CHARS_MAX: usize = 400;

/// How a condition compares, as it is written and as the Agent Server API names it; the longer ones first.
const COMPARISONS: [(&str, &str); 6] =
    [("!=", "$ne"), (">=", "$gte"), ("<=", "$lte"), ("=", "$eq"), (">", "$gt"), ("<", "$lt")];

/// An item of a list, as `--json` has it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    item: &'a Item,
    score: Option<f64>,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Store) -> Outcome {
    match args {
        Store::Put { name, value } => put(context, &name, &value).await?,
        Store::Get { name } => get(context, &name).await?,
        Store::Delete { name } => delete(context, &name).await?,
        Store::Search { words, namespace, conditions, page } => {
            let query = Some(words.join(" ")).filter(|words| !words.trim().is_empty());
            let search = ItemSearch {
                namespace_prefix: namespace.as_deref().map(labels).unwrap_or_default(),
                filter: filter(&conditions)?,
                query,
                limit: page.limit as usize,
                offset: page.offset as usize,
            };
            list(context, &search).await?;
        }
        Store::Namespaces { prefix, suffix, depth, page } => {
            let search = NamespaceSearch {
                prefix: prefix.as_deref().map(labels),
                suffix: suffix.as_deref().map(labels),
                max_depth: depth.map(|depth| depth as usize),
                limit: page.limit as usize,
                offset: page.offset as usize,
            };
            namespaces(context, &search, &page).await?;
        }
    }
    Ok(Code::Done)
}

async fn put(context: &Context, name: &Name, given: &Given) -> Result<(), Failure> {
    let (namespace, value) = (labels(&name.namespace), value(given)?);
    let kept = context
        .agent
        .memory()
        .items()
        .put(&namespace, &name.key, value, Timestamp::now())
        .await
        .map_err(agent::Error::from)?;
    if context.format == Format::Json {
        return context.json(&json!({"namespace": namespace, "key": name.key, "withheld": kept.withheld}));
    }
    context.screen.line(wrap(&format!("Kept {}.", told(name)), context.screen.text_columns(), "", "  "))?;
    if let Some(text) = withheld(kept.withheld) {
        context.notice(&text);
    }
    Ok(())
}

async fn get(context: &Context, name: &Name) -> Result<(), Failure> {
    let item = found(context, name).await?.ok_or_else(|| {
        Failure::new(Code::User, format!("find {} in the store", told(name)))
            .with_hint(format!("`segue store search --in {}` lists what is there", one_line(&name.namespace)))
    })?;
    match context.format {
        Format::Json => context.json(&item),
        Format::Text => {
            let value = serde_json::to_string_pretty(&item.value)?;
            Ok(context.screen.line(safe(&value))?)
        }
    }
}

async fn delete(context: &Context, name: &Name) -> Result<(), Failure> {
    let was_there = found(context, name).await?.is_some();
    let items = context.agent.memory().items();
    items.delete(&labels(&name.namespace), &name.key).await.map_err(agent::Error::from)?;
    match (context.format, was_there) {
        (Format::Json, deleted) => context.json(&json!({"deleted": deleted})),
        (Format::Text, true) => Ok(context.screen.line(format!("Removed {}.", told(name)))?),
        (Format::Text, false) => Ok(context.screen.line(format!("Nothing is kept as {}.", told(name)))?),
    }
}

async fn found(context: &Context, name: &Name) -> Result<Option<Item>, Failure> {
    let items = context.agent.memory().items();
    Ok(items.get(&labels(&name.namespace), &name.key).await.map_err(agent::Error::from)?)
}

async fn list(context: &Context, search: &ItemSearch) -> Result<(), Failure> {
    let found = context.agent.memory().items().search(search).await.map_err(agent::Error::from)?;
    if context.format == Format::Json {
        let items: Vec<Listed<'_>> =
            found.iter().map(|found| Listed { item: &found.item, score: found.score }).collect();
        return context.json(&json!({"items": items}));
    }
    if found.is_empty() {
        context.screen.line("Nothing is kept there.")?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(|found| row(&found.item)).collect::<Result<_, _>>()?;
    let columns =
        [Column::Left("NAMESPACE"), Column::Left("KEY"), Column::Left("PUT"), Column::Flexible("VALUE")];
    context.screen.lines(table(&context.screen, &columns, &rows))?;
    if found.len() == search.limit {
        note_more(context, search.offset + search.limit);
    }
    Ok(())
}

fn row(item: &Item) -> Result<Vec<String>, Failure> {
    let name = |text: &str| shorten(&one_line(text), NAME_COLUMNS_MAX).into_owned();
    let value: String = serde_json::to_string(&item.value)?.chars().take(VALUE_CHARS_MAX).collect();
    Ok(vec![name(&item.namespace.join(".")), name(&item.key), minute(item.updated_at), one_line(&value)])
}

async fn namespaces(context: &Context, search: &NamespaceSearch, page: &Page) -> Result<(), Failure> {
    let found = context.agent.memory().items().list_namespaces(search).await.map_err(agent::Error::from)?;
    if context.format == Format::Json {
        return context.json(&json!({"namespaces": found}));
    }
    if found.is_empty() {
        context.screen.line("There are no such namespaces.")?;
    }
    for namespace in &found {
        context.screen.line(one_line(&namespace.join(".")))?;
    }
    if found.len() == page.limit as usize {
        note_more(context, search.offset + search.limit);
    }
    Ok(())
}

fn note_more(context: &Context, offset: usize) {
    context.screen.note(context.screen.style.dim(format!("More, if there is: `--offset {offset}`.")));
}

fn told(name: &Name) -> String {
    format!("`{}` in `{}`", one_line(&name.key), one_line(&name.namespace))
}

/// Returns the labels of a namespace; which of them there can be is decided where it is used.
fn labels(namespace: &str) -> Vec<String> {
    namespace.split('.').map(str::to_owned).collect()
}

fn value(given: &Given) -> Result<Value, Failure> {
    let text = match (&given.text, &given.file) {
        (Some(text), _) if text != "-" => text.clone(),
        (_, Some(path)) if path.as_os_str() != "-" => fs::read_to_string(path).map_err(|error| {
            Failure::new(Code::User, format!("read {}: {error}", path.display()))
                .with_hint("check the path and its permissions")
        })?,
        (_, _) => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| {
                Failure::new(Code::User, format!("read the value from standard input: {error}"))
                    .with_hint("a JSON object, such as {\"text\": \"…\"}")
            })?;
            text
        }
    };
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(Code::User, format!("read the value: it is no JSON: {error}"))
            .with_hint("a JSON object, such as {\"text\": \"…\"}")
    })
}

/// Reads conditions such as `age>=3`, as the Agent Server API writes them. What is no JSON is a text.
fn filter(conditions: &[String]) -> Result<Option<Map<String, Value>>, Failure> {
    let mut filter: Map<String, Value> = Map::new();
    for condition in conditions {
        let (field, comparison, with) = parts(condition).ok_or_else(|| {
            Failure::new(Code::User, format!("read the condition `{}`", one_line(condition)))
                .with_hint("write FIELD=VALUE; also with !=, >, >=, < or <=")
        })?;
        let with = serde_json::from_str(with).unwrap_or_else(|_| Value::from(with));
        let compared = filter.entry(field).or_insert_with(|| json!({}));
        compared[comparison] = with;
    }
    Ok(Some(filter).filter(|filter| !filter.is_empty()))
}

/// Returns the field, the name of the comparison and what it is compared with.
fn parts(condition: &str) -> Option<(&str, &'static str, &str)> {
    let at = condition.find(['=', '!', '<', '>'])?;
    let (field, rest) = condition.split_at(at);
    let (sign, name) = COMPARISONS.into_iter().find(|(sign, _)| rest.starts_with(sign))?;
    let field = field.trim();
    (!field.is_empty()).then(|| (field, name, rest[sign.len()..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_as_it_is_written() {
        let check = |conditions: &[&str], expected: Value| {
            let conditions: Vec<String> = conditions.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(filter(&conditions).unwrap().map(Value::Object).unwrap_or_default(), expected);
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
        for wrong in ["age", "=3", "!3", "a!3"] {
            assert!(filter(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
