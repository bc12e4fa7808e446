//! `segue config keys`: every key of `config.toml` with its type, default and meaning, taken from the JSON Schema of
//! the types that the file is parsed into.
//!
//! The values in the file of this machine are not shown, because they may contain API keys.

use std::fmt::Write as _;

use agent::ConfigFile;
use serde_json::{Map, Value};
use terminal::{Screen, wrap};

use crate::cli::{ConfigKeysArgs, GlobalArgs, OutputFormat};
use crate::exit::{CommandResult, ExitReason};

/// The beginning of the Markdown page.
const INTRODUCTION: &str = "\
# Every configuration key

Settings are in `config.toml` in the home folder (`$SEGUE_HOME`, or `segue` in the platform's data folder). Every key has a default, and the file is
optional. A misspelled key is an error that names its line. A command reads the file when it starts, and a server does not read it again. `segue config keys` prints the content of this page; `segue config keys --markdown`
generates the page, and with `--json` the command prints a JSON Schema for editors.
";

/// The Markdown heading and introduction of the environment variables.
const ENVIRONMENT: &str = "
## Environment variables

An option of a command overrides a variable, and a variable overrides the file. The providers' API keys ([a model](working.md#a-model)) and the
destination of [traces](traces.md#to-a-collector) have variables of their own.
| variable | meaning |
| --- | --- |
";

/// The environment variables with their meanings. An option overrides a variable, and a variable overrides the file.
const VARIABLES: [(&str, &str); 11] = [
    ("SEGUE_HOME", "the home folder, which contains `config.toml`"),
    ("SEGUE_DATABASE_URL", "the database; overrides `url` of `[database]`"),
    ("SEGUE_MODEL", "the model, `provider/name`; overrides `model`"),
    ("SEGUE_MIRROR_URL", "the sink of the export of accepted handoffs; overrides `url` of `[mirror]`"),
    (
        "SEGUE_ADDR",
        "the address of the server: like `--addr` of `segue serve`, and the default of `segue ping`",
    ),
    ("SEGUE_PLAIN", "any value except an empty one: like `--plain`"),
    ("SEGUE_LOG", "the log level: like `--log-level`"),
    ("SEGUE_LOG_FILE", "the log file: like `--log-file`"),
    ("SEGUE_LOG_FORMAT", "`text` or `json`: like `--log-format`"),
    (
        "SEGUE_HOOK",
        "set by Segue for the command of a hook: the name of the event. If it is set, Segue calls no hooks",
    ),
    ("SEGUE_SANDBOX", "set by Segue for a command in the sandbox: `namespaces` or `landlock`"),
];

/// Performs `segue config keys`: prints the keys as text, Markdown or a JSON Schema.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn print_config_keys(global: &GlobalArgs, args: &ConfigKeysArgs) -> CommandResult {
    let screen = global.screen();
    let schema = ConfigFile::schema();
    match (global.format(), args.markdown) {
        (OutputFormat::Json, _) => screen.print_line(serde_json::to_string_pretty(&schema)?)?,
        (OutputFormat::Text, true) => {
            screen.print_line(render_markdown(&config_tables(&schema)).trim_end())?
        }
        (OutputFormat::Text, false) => {
            config_tables(&schema).iter().try_for_each(|table| print_table(&screen, table))?;
            screen.print_line(screen.style.bold("Environment variables"))?;
            for (name, meaning) in VARIABLES {
                let line = format!("{name}. {}", meaning.replace('`', ""));
                screen.print_line(wrap(&line, screen.columns, "  ", "      "))?;
            }
        }
    }
    Ok(ExitReason::Success)
}

/// A table of the file with its keys.
struct ConfigTable {
    /// The heading as it is written in the file, such as `[name]`; empty for the keys before the first table.
    heading: String,
    /// The description of the table.
    description: String,
    /// The keys, in the order of the schema.
    keys: Vec<ConfigKey>,
}

/// A key of a table.
struct ConfigKey {
    /// The key.
    name: String,
    /// The type of the value as a phrase.
    value_type: String,
    /// The default as JSON in backticks; empty if the key has no default.
    default: String,
    /// The meaning of the key.
    description: String,
}

/// The level of a key in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableLevel {
    /// The key is before the first table.
    Top,
    /// The key is in a table.
    Nested,
}

/// The way in which the file represents the value of a schema.
enum SchemaShape<'s> {
    /// A table: `[name]`.
    Table(&'s Value),
    /// A table for each name that the user chooses: `[name.NAME]`.
    TableMap(&'s Value),
    /// An array of tables: `[[name]]`.
    TableArray(&'s Value),
    /// A value after the key.
    Leaf,
}

/// Returns all tables of the file, each followed by the tables below it.
fn config_tables(root: &Value) -> Vec<ConfigTable> {
    let mut all = Vec::new();
    let top =
        TableLocation { path: String::new(), heading: String::new(), description: description_text(root) };
    collect_tables(root, root, top, &mut all);
    all
}

/// The location of a table in the file.
struct TableLocation {
    /// The dotted path of the table; empty for the top level.
    path: String,
    /// The heading as it is written in the file.
    heading: String,
    /// The description of the table.
    description: String,
}

/// Appends the table of a schema, unless the table has no keys, and the tables below it. `root` is the whole schema,
/// which contains the definitions that references point to.
fn collect_tables(root: &Value, schema: &Value, location: TableLocation, all: &mut Vec<ConfigTable>) {
    let TableLocation { path, heading, description } = location;
    let mut table = ConfigTable { heading, description, keys: Vec::new() };
    let level = if path.is_empty() { TableLevel::Top } else { TableLevel::Nested };
    let mut subtables = Vec::new();
    for (name, property) in properties(schema) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let location =
            |heading, path| TableLocation { path, heading, description: description_text(property) };
        match schema_shape(root, property, level) {
            SchemaShape::Table(schema) => subtables.push((schema, location(format!("[{path}]"), path))),
            SchemaShape::TableMap(schema) => {
                subtables.push((schema, location(format!("[{path}.NAME]"), format!("{path}.NAME"))));
            }
            SchemaShape::TableArray(schema) => {
                subtables.push((schema, location(format!("[[{path}]]"), path)))
            }
            SchemaShape::Leaf => table.keys.push(ConfigKey {
                name: name.clone(),
                value_type: value_type_text(root, property),
                default: default_text(property),
                description: description_text(property),
            }),
        }
    }
    if !table.keys.is_empty() {
        all.push(table);
    }
    subtables.into_iter().for_each(|(schema, location)| collect_tables(root, schema, location, all));
}

/// Returns the representation of a property. Arrays of tables exist only at the top level; in a table they are inline
/// values.
fn schema_shape<'s>(root: &'s Value, property: &'s Value, level: TableLevel) -> SchemaShape<'s> {
    let schema = resolve_schema(root, property);
    if schema.get("properties").is_some() {
        return SchemaShape::Table(schema);
    }
    let is_table = |schema: &&Value| schema.get("properties").is_some();
    let named = schema.get("additionalProperties").map(|value| resolve_schema(root, value)).filter(is_table);
    let listed = schema.get("items").map(|item| resolve_schema(root, item)).filter(is_table);
    match (named, listed) {
        (Some(value), _) => SchemaShape::TableMap(value),
        (None, Some(item)) if level == TableLevel::Top => SchemaShape::TableArray(item),
        (None, _) => SchemaShape::Leaf,
    }
}

/// Resolves references, and the `anyOf` with `null` that marks an optional key.
fn resolve_schema<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    if let Some(definition) = name.and_then(|name| root.get("$defs")?.get(name)) {
        return resolve_schema(root, definition);
    }
    let options = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_null = |option: &&Value| option.get("type").and_then(Value::as_str) == Some("null");
    match options {
        [option, null] if is_null(&null) => resolve_schema(root, option),
        _ => schema,
    }
}

/// Returns the type of a key's value as a phrase, such as `a whole number`.
fn value_type_text(root: &Value, property: &Value) -> String {
    let schema = resolve_schema(root, property);
    if let Some(options) = schema.get("oneOf").and_then(Value::as_array) {
        let options: Vec<String> = options.iter().map(|option| option_text(root, option)).collect();
        return options.join(" or ");
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        return names.join(" or ");
    }
    match json_type(schema) {
        "string" => "text".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "`true` or `false`".to_owned(),
        "array" => {
            let items = schema.get("items").map_or("values".to_owned(), |item| plural_type_text(root, item));
            format!("a list of {items}")
        }
        _ if schema.get("properties").is_some() => inline_table_text(schema),
        _ => "a table of names and texts".to_owned(),
    }
}

/// Returns the type of an array's items as a phrase, in the plural if the phrase has one.
fn plural_type_text(root: &Value, items: &Value) -> String {
    match (value_type_text(root, items), resolve_schema(root, items).get("properties")) {
        (_, Some(_)) => format!("tables {}", inline_table_text(resolve_schema(root, items))),
        (text, None) if text == "text" => "texts".to_owned(),
        (other, None) => other,
    }
}

/// Returns one of several allowed values, or its type.
fn option_text(root: &Value, option: &Value) -> String {
    match option.get("const") {
        Some(name) => format!("`{name}`"),
        None => value_type_text(root, option),
    }
}

/// Returns the keys of an inline table.
fn inline_table_text(schema: &Value) -> String {
    let names: Vec<&str> = properties(schema).map(|(name, _)| name.as_str()).collect();
    format!("`{{ {} }}`", names.join(", "))
}

/// Returns the JSON type of a schema. An optional key has `null` as a second type, which is ignored.
fn json_type(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(_) | None => None,
    }
    .unwrap_or_default()
}

/// Returns the default of a key as JSON in backticks; empty for missing and empty defaults.
fn default_text(property: &Value) -> String {
    match property.get("default") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(values)) if values.is_empty() => String::new(),
        Some(Value::Object(values)) if values.is_empty() => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

/// Returns the properties of a schema with their names.
fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Returns the description of a schema on one line.
fn description_text(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints a table as text.
fn print_table(screen: &Screen, table: &ConfigTable) -> std::io::Result<()> {
    let heading = if table.heading.is_empty() { "config.toml" } else { &table.heading };
    screen.print_line(screen.style.bold(heading))?;
    screen.print_line(screen.style.dim(wrap(&table.description, screen.columns, "", "")))?;
    for key in &table.keys {
        let default = match key.default.as_str() {
            "" => String::new(),
            default => format!(", default {default}"),
        };
        let text = format!("{} ({}{default}). {}", key.name, key.value_type, key.description);
        screen.print_line(wrap(&text.replace('`', ""), screen.columns, "  ", "      "))?;
    }
    screen.print_line("")
}

/// Returns the Markdown page.
fn render_markdown(tables: &[ConfigTable]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for table in tables {
        let heading = match table.heading.as_str() {
            "" => "Before the first table".to_owned(),
            heading => format!("`{heading}`"),
        };
        let _ = write!(
            page,
            "\n## {heading}\n\n{}\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
            table.description
        );
        for ConfigKey { name, value_type, default, description } in &table.keys {
            let cells = [value_type, default, description].map(|text| text.replace('|', "\\|"));
            let _ = writeln!(page, "| `{name}` | {} |", cells.join(" | "));
        }
    }
    page.push_str(ENVIRONMENT);
    for (name, meaning) in VARIABLES {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page
}
