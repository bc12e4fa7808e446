//! The argument schemas of the tools, as a model sees them.

use serde_json::{Value, json};

fn check(name: &str, properties: Value, required: &[&str]) {
    let tools = tools::builtin_tools(tools::ToolSettings::default());
    let spec = tools.iter().map(|tool| tool.spec()).find(|spec| spec.name == name).unwrap();
    let mut expected = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        expected["required"] = json!(required);
    }
    assert_eq!(spec.parameters, expected, "{name}");
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

#[test]
fn arguments_of_reading_tools_are_described() {
    check("ls", json!({"path": text("The folder, relative to the workspace. Default: the workspace.")}), &[]);
    let offset = json!({"type": "integer", "minimum": 1, "description": "The first line. Default: 1."});
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": 2_000, "description": "The number of lines. Default: as many as fit."
    });
    let path = text("The file, relative to the workspace, or artifact:<name>.");
    check("read_file", json!({"path": path, "offset": offset, "limit": limit}), &["path"]);
    let pattern = text("The pattern, relative to the workspace.");
    check("glob", json!({"pattern": pattern, "path": text("Only files below this folder.")}), &["pattern"]);
    let grep = json!({
        "pattern": text("The regular expression (Rust syntax)."),
        "path": text("Only this file or folder."),
        "glob": text("Only files whose path matches, such as *.rs."),
        "ignore_case": {"type": "boolean", "description": "Upper and lower case are the same. Default: false."},
        "output": {
            "type": "string",
            "enum": ["lines", "files", "counts"],
            "description": "Matching lines, only the files that have some, or how many each has. Default: lines."
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 20,
            "description": "Lines shown before and after each match. Default: 0."
        }
    });
    check("grep", grep, &["pattern"]);
}

#[test]
fn arguments_of_changing_tools_are_described() {
    let path = || text("The file, relative to the workspace.");
    check(
        "write_file",
        json!({"path": path(), "content": text("The whole content of the file.")}),
        &["path", "content"],
    );
    let old = text("The text as it is in the file, without line numbers; unique unless replace_all.");
    let new = text("The replacement text.");
    let all = json!({"type": "boolean", "description": "Replace every occurrence. Default: false."});
    let edits = json!({
        "type": "array",
        "description": "Several replacements, instead of old_string and new_string.",
        "items": {
            "type": "object",
            "properties": {"old_string": old, "new_string": new, "replace_all": all},
            "required": ["old_string", "new_string"],
            "additionalProperties": false
        }
    });
    check(
        "edit_file",
        json!({"path": path(), "old_string": old, "new_string": new, "replace_all": all, "edits": edits}),
        &["path"],
    );
    let timeout = json!({
        "type": "integer", "minimum": 1, "maximum": 600, "description": "The longest time it may run. Default: 120."
    });
    let description = text("The purpose of the command in a few words, for the person who approves it.");
    let outside = "Run outside the sandbox, such as for the network. A person is asked; `description` must give the reason.";
    let outside = json!({"type": "boolean", "description": outside});
    let properties = json!({
        "command": text("The command line."), "timeout_seconds": timeout, "description": description,
        "outside_sandbox": outside
    });
    check("execute", properties, &["command"]);
}

#[test]
fn the_arguments_of_write_todos_are_described() {
    let todos = json!({
        "type": "array",
        "maxItems": 100,
        "description": "The whole list, in order.",
        "items": {
            "type": "object",
            "properties": {
                "content": text("The text of the task."),
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
            },
            "required": ["content", "status"],
            "additionalProperties": false
        }
    });
    check("write_todos", json!({"todos": todos}), &["todos"]);
}
