//! What can stand in `config.toml`: every key with what it takes, its default and its meaning, read off the types the file is read into. What
//! stands in the file of this machine is not shown: it may hold keys.

use std::fmt::Write as _;

use agent::Config;
use serde_json::{Map, Value};
use terminal::{Screen, wrap};

use crate::cli::{ConfigKeys, Format, Global};
use crate::exit::{Code, Outcome};

/// What the page in Markdown begins with.
const INTRODUCTION: &str = "\
# Every configuration key

Settings stand in `config.toml` in the home folder (`$SEGUE_HOME`, or `segue` in the platform's data folder). Every key has a default, a file that is
not there is as good as an empty one, and a key that is misspelled is an error that names its line. `segue config keys` prints what is on this page,
which is made by `segue config keys --markdown`; with `--json` it prints a JSON Schema, for editors.
";

/// What stands above the variables.
const ENVIRONMENT: &str = "
## Variables of the environment

An option of a command goes before a variable, and a variable before the file. Keys of providers are in variables of their own ([a model](working.md#a-model)), and so is
where [traces](traces.md#to-a-collector) go.

| variable | meaning |
| --- | --- |
";

/// What the environment can say instead; an option of the command goes before it, and it before the file.
const VARIABLES: [(&str, &str); 9] = [
    ("SEGUE_HOME", "the home folder, in which `config.toml` is"),
    ("SEGUE_DATABASE_URL", "where the journal is: `url` of `[database]`"),
    ("SEGUE_MODEL", "the model to use, `provider/name`: `model`"),
    ("SEGUE_MIRROR_URL", "where accepted summaries are copied to: `url` of `[mirror]`"),
    ("SEGUE_PLAIN", "not empty: as `--plain`"),
    ("SEGUE_LOG", "how much is logged: `--log-level`"),
    ("SEGUE_LOG_FILE", "the file it is logged to: `--log-file`"),
    ("SEGUE_LOG_FORMAT", "`text` or `json`: `--log-format`"),
    ("SEGUE_HOOK", "set by Segue for a hook's command: what happened. Where it is set no hook is called"),
];

pub(crate) fn keys(global: &Global, args: &ConfigKeys) -> Outcome {
    let screen = global.screen();
    let schema = Config::schema();
    match (global.format(), args.markdown) {
        (Format::Json, _) => screen.line(serde_json::to_string_pretty(&schema)?)?,
        (Format::Text, true) => screen.line(markdown(&tables(&schema)).trim_end())?,
        (Format::Text, false) => {
            tables(&schema).iter().try_for_each(|table| show(&screen, table))?;
            screen.line(screen.style.bold("Variables of the environment"))?;
            for (name, meaning) in VARIABLES {
                let line = format!("{name}. {}", meaning.replace('`', ""));
                screen.line(wrap(&line, screen.columns, "  ", "      "))?;
            }
        }
    }
    Ok(Code::Done)
}

/// A table of the file: `[name]`.
struct Table {
    /// As it is written in the file; empty for what stands before the first one.
    heading: String,
    meaning: String,
    keys: Vec<Key>,
}

struct Key {
    name: String,
    takes: String,
    default: String,
    meaning: String,
}

/// Where in the file something stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    /// In a table.
    Beneath,
}

/// What a schema describes, as far as the file's shape goes.
enum Shape<'s> {
    /// Its own table: `[name]`.
    Table(&'s Value),
    /// A table for each name: `[name.NAME]`.
    Named(&'s Value),
    /// Any number of tables: `[[name]]`.
    Listed(&'s Value),
    /// A value behind the key.
    Leaf,
}

/// Returns the tables of the file, those of one beneath it.
fn tables(root: &Value) -> Vec<Table> {
    let mut all = Vec::new();
    let top = Place { path: String::new(), heading: String::new(), meaning: described(root) };
    walk(root, root, top, &mut all);
    all
}

/// Where a table stands.
struct Place {
    path: String,
    heading: String,
    meaning: String,
}

fn walk(root: &Value, schema: &Value, place: Place, all: &mut Vec<Table>) {
    let Place { path, heading, meaning } = place;
    let mut table = Table { heading, meaning, keys: Vec::new() };
    let level = if path.is_empty() { Level::Top } else { Level::Beneath };
    let mut beneath = Vec::new();
    for (name, property) in properties(schema) {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let place = |heading, path| Place { path, heading, meaning: described(property) };
        match shape(root, property, level) {
            Shape::Table(of) => beneath.push((of, place(format!("[{below}]"), below))),
            Shape::Named(of) => beneath.push((of, place(format!("[{below}.NAME]"), format!("{below}.NAME")))),
            Shape::Listed(of) => beneath.push((of, place(format!("[[{below}]]"), below))),
            Shape::Leaf => table.keys.push(Key {
                name: name.clone(),
                takes: takes(root, property),
                default: default(property),
                meaning: described(property),
            }),
        }
    }
    if !table.keys.is_empty() {
        all.push(table);
    }
    beneath.into_iter().for_each(|(schema, place)| walk(root, schema, place, all));
}

fn shape<'s>(root: &'s Value, property: &'s Value, level: Level) -> Shape<'s> {
    let schema = resolved(root, property);
    if schema.get("properties").is_some() {
        return Shape::Table(schema);
    }
    let is_table = |schema: &&Value| schema.get("properties").is_some();
    let named = schema.get("additionalProperties").map(|of| resolved(root, of)).filter(is_table);
    let listed = schema.get("items").map(|of| resolved(root, of)).filter(is_table);
    match (named, listed) {
        (Some(of), _) => Shape::Named(of),
        (None, Some(of)) if level == Level::Top => Shape::Listed(of),
        (None, _) => Shape::Leaf,
    }
}

/// Follows references, and looks past what only says that a key may be left out.
fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    if let Some(found) = name.and_then(|name| root.get("$defs")?.get(name)) {
        return resolved(root, found);
    }
    let options = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_null = |option: &&Value| option.get("type").and_then(Value::as_str) == Some("null");
    match options {
        [one, other] if is_null(&other) => resolved(root, one),
        _ => schema,
    }
}

/// Returns what a key takes, in words.
fn takes(root: &Value, property: &Value) -> String {
    let schema = resolved(root, property);
    if let Some(options) = schema.get("oneOf").and_then(Value::as_array) {
        let options: Vec<String> = options.iter().map(|option| choice(root, option)).collect();
        return options.join(" or ");
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return names.join(" or ");
    }
    match kind(schema) {
        "string" => "text".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        "array" => {
            format!("a list of {}", schema.get("items").map_or("values".to_owned(), |of| many(root, of)))
        }
        _ if schema.get("properties").is_some() => table_of(schema),
        _ => "a table of names and texts".to_owned(),
    }
}

fn many(root: &Value, items: &Value) -> String {
    match (takes(root, items), resolved(root, items).get("properties")) {
        (_, Some(_)) => format!("tables {}", table_of(resolved(root, items))),
        (text, None) if text == "text" => "texts".to_owned(),
        (other, None) => other,
    }
}

fn choice(root: &Value, option: &Value) -> String {
    match option.get("const") {
        Some(name) => format!("`{name}`"),
        None => takes(root, option),
    }
}

fn table_of(schema: &Value) -> String {
    let names: Vec<&str> = properties(schema).map(|(name, _)| name.as_str()).collect();
    format!("`{{ {} }}`", names.join(", "))
}

/// Returns the type, where a key that may be left out has `null` beside it.
fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(_) | None => None,
    }
    .unwrap_or_default()
}

fn default(property: &Value) -> String {
    match property.get("default") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(values)) if values.is_empty() => String::new(),
        Some(Value::Object(values)) if values.is_empty() => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn described(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn show(screen: &Screen, table: &Table) -> std::io::Result<()> {
    let heading = if table.heading.is_empty() { "config.toml" } else { &table.heading };
    screen.line(screen.style.bold(heading))?;
    screen.line(screen.style.dim(wrap(&table.meaning, screen.columns, "", "")))?;
    for key in &table.keys {
        let default = match key.default.as_str() {
            "" => String::new(),
            default => format!(", {default} unless set"),
        };
        let about = format!("{} ({}{default}). {}", key.name, key.takes, key.meaning);
        screen.line(wrap(&about.replace('`', ""), screen.columns, "  ", "      "))?;
    }
    screen.line("")
}

fn markdown(tables: &[Table]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for table in tables {
        let heading = match table.heading.as_str() {
            "" => "Before the first table".to_owned(),
            heading => format!("`{heading}`"),
        };
        let _ = write!(
            page,
            "\n## {heading}\n\n{}\n\n| key | takes | default | meaning |\n| --- | --- | --- | --- |\n",
            table.meaning
        );
        for Key { name, takes, default, meaning } in &table.keys {
            let [takes, default, meaning] = [takes, default, meaning].map(|text| text.replace('|', "\\|"));
            let _ = writeln!(page, "| `{name}` | {takes} | {default} | {meaning} |");
        }
    }
    page.push_str(ENVIRONMENT);
    for (name, meaning) in VARIABLES {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page
}
