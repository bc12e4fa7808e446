//! Interprets the arguments of an agent's tool call: the files it reads or writes, the command it runs, and its change to
//! a task list. It knows the tools of several agents, because imported sessions use theirs. `outcomes` handles results.

use protocol::{TodoItem, TodoStatus};
use serde_json::Value;

use crate::identifier::{self, NameKind};
use crate::shell::{self, FileOperation, FileOperationKind};

/// The interpretation of one tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolUse {
    /// Normalized paths of the files that the call reads, or that its command names.
    pub reads: Vec<String>,
    /// Normalized paths of the files that the call writes.
    pub writes: Vec<String>,
    /// Normalized paths of the files and folders that the call deletes.
    pub deletes: Vec<String>,
    /// The effects of the call's command or patch on files, in order.
    pub operations: Vec<FileOperation>,
    /// The absolute folders in which the command runs after a `cd`.
    pub folders: Vec<String>,
    /// The shell command that the call runs, cut to its first 8 KiB.
    pub command: Option<String>,
    /// The change that the call makes to a task list.
    pub task: Option<TaskChange>,
    /// True if the call writes a whole file, and does not edit a part of it.
    pub writes_whole_file: bool,
    /// Ids and codes among the arguments. Filled only for tools other than file, shell and task tools, as the objects that
    /// such a tool acts on.
    pub values: Vec<String>,
}

/// A change to a task list.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    /// Replaces the whole list.
    Replace(Vec<TodoItem>),
    /// Adds a task with this text. The result of the call reports its id.
    Create(String),
    /// Sets the status of a task, or removes the task.
    Update {
        /// The id that the result of the creation reported.
        id: String,
        /// The new status; `None` removes the task.
        status: Option<TodoStatus>,
    },
}

/// Lowercase names of tools that write files.
const WRITE_TOOLS: [&str; 17] = [
    "edit",
    "write",
    "multiedit",
    "multi_edit",
    "notebookedit",
    "apply_patch",
    "write_file",
    "replace",
    "create",
    "str_replace",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "insert",
    "patch",
    "file_editor",
    "create_file",
    "edit_file",
];
/// Lowercase names of tools that read files.
const READ_TOOLS: [&str; 8] =
    ["read", "view", "read_file", "open", "open_file", "goto", "view_file", "notebookread"];
/// Lowercase names of tools that run a shell command.
const SHELL_TOOLS: [&str; 13] = [
    "execute",
    "bash",
    "shell",
    "exec_command",
    "run_shell_command",
    "run",
    "execute_bash",
    "local_shell_call",
    "local_shell",
    "powershell",
    "terminal",
    "shell_command",
    "run_in_terminal",
];
/// Argument keys that hold a path.
const PATH_KEYS: [&str; 6] = ["file_path", "filePath", "path", "filename", "notebook_path", "absolute_path"];
/// Argument keys that may hold a patch.
const PATCH_KEYS: [&str; 5] = ["patchText", "input", "patch", "_raw", "_"];
/// Argument keys that hold a shell command, the most specific first.
const COMMAND_KEYS: [&str; 5] = ["command", "cmd", "_raw", "input", "script"];
/// Argument keys whose value describes a call in one line, the best first.
const SUBJECT_KEYS: [&str; 12] = [
    "file_path",
    "filePath",
    "path",
    "command",
    "cmd",
    "pattern",
    "query",
    "subject",
    "url",
    "description",
    "prompt",
    "question",
];

/// Maximum bytes of a command that are interpreted.
const COMMAND_BYTES_MAX: usize = 8_192;
/// Maximum argument values collected from one call.
const VALUES_MAX: usize = 20;

impl ToolUse {
    /// Interprets a call of the tool `name`. Prefixes of MCP tools (`mcp__server__tool`) and case are ignored.
    pub fn from_call(name: &str, args: &Value) -> Self {
        let tool = name.rsplit("__").next().unwrap_or(name).to_ascii_lowercase();
        let mut usage = Self { task: task_change(&tool, args), ..Self::default() };
        if usage.task.is_some() {
            return usage;
        }
        if SHELL_TOOLS.contains(&tool.as_str()) {
            usage.record_command(shell_command(args));
        } else if WRITE_TOOLS.contains(&tool.as_str()) {
            // `str_replace_editor` also views files; its argument `command` says which.
            let is_view = args.get("command").and_then(Value::as_str) == Some("view");
            usage.record_paths(args, if is_view { FileAccess::Read } else { FileAccess::Write });
            let edit_arguments = ["old_string", "old_str", "patch", "edits", "insert_line"];
            usage.writes_whole_file =
                !is_view && tool != "edit" && edit_arguments.iter().all(|key| args.get(*key).is_none());
        } else if READ_TOOLS.contains(&tool.as_str()) {
            usage.record_paths(args, FileAccess::Read);
        } else {
            collect_values(args, &mut usage.values);
        }
        usage
    }

    /// Returns whether the call, of a tool with this name, hands in the work and ends the agent's run.
    pub(crate) fn submits_work(&self, tool: &str) -> bool {
        SUBMISSION_TOOLS.contains(&tool)
            || self.command.as_deref().is_some_and(|command| command.contains(SUBMISSION_COMMAND))
    }

    /// Adds the paths among the arguments, and for a write the files that a patch among the arguments changes.
    fn record_paths(&mut self, args: &Value, access: FileAccess) {
        let list = match access {
            FileAccess::Read => &mut self.reads,
            FileAccess::Write => &mut self.writes,
        };
        let text = |key: &str| args.get(key).and_then(Value::as_str);
        let paths = PATH_KEYS.iter().filter_map(|key| text(key)).map(normalize_path);
        list.extend(paths.filter(|path| matches!(access, FileAccess::Write) || is_readable(path)));
        if let FileAccess::Write = access {
            PATCH_KEYS.iter().filter_map(|key| text(key)).for_each(|patch| self.record_patch(patch));
        }
    }

    /// Adds the files that a shell command writes, and the other files that it names as reads.
    fn record_command(&mut self, command: String) {
        let command = head_words(&command, COMMAND_BYTES_MAX).to_owned();
        self.record_patch(&command);
        let files = shell::command_files(&command);
        for operation in &files.operations {
            match operation.kind {
                FileOperationKind::Edit | FileOperationKind::Create => {
                    self.writes.push(operation.path.clone())
                }
                FileOperationKind::Delete => self.deletes.push(operation.path.clone()),
                FileOperationKind::Discard
                | FileOperationKind::Restore
                | FileOperationKind::Reset
                | FileOperationKind::Clean
                | FileOperationKind::Commit => {}
            }
        }
        identifier::scan_names(&files.text, |kind, name| {
            let start = name.as_ptr().addr() - files.text.as_ptr().addr();
            let before = &files.text[..start];
            let path = normalize_path(name);
            let is_file = kind == NameKind::Path && is_file_path(&path) && is_readable(&path);
            if !is_file
                || shell::is_temporary_file(&path)
                || is_module_name(before, name)
                || is_rest_of_path(before, name)
            {
                return;
            }
            let path = shell::join_path(files.folder_at(start), &path);
            let is_operand = files.operations.iter().any(|operation| operation.path == path);
            if !is_operand && !self.writes.contains(&path) && !self.deletes.contains(&path) {
                self.reads.push(path);
            }
        });
        self.operations.extend(files.operations);
        self.folders = files.folders;
        self.command = Some(command);
    }

    /// Adds the files that a patch in the `*** Update File: …` format writes and deletes.
    fn record_patch(&mut self, text: &str) {
        if !text.contains("*** ") {
            return;
        }
        for line in text.lines() {
            let written = ["*** Add File: ", "*** Update File: ", "*** Move to: "]
                .iter()
                .find_map(|prefix| line.strip_prefix(prefix));
            self.writes.extend(written.map(normalize_path));
            if let Some(deleted) = line.strip_prefix("*** Delete File: ").map(normalize_path) {
                self.operations.push(FileOperation {
                    kind: FileOperationKind::Delete,
                    path: deleted.clone(),
                    program: String::new(),
                    operand: String::new(),
                    source: None,
                });
                self.deletes.push(deleted);
            }
        }
    }
}

/// Names of tools with which an agent hands in its work: of SWE-agent and OpenHands.
const SUBMISSION_TOOLS: [&str; 2] = ["submit", "finish"];
/// The part of a command with which mini-SWE-agent hands in its work.
const SUBMISSION_COMMAND: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// The kind of access that a file tool makes.
enum FileAccess {
    Read,
    Write,
}

/// Members of objects and names of libraries that look like a file without a folder, lowercase.
const NON_FILE_NAMES: [&str; 12] = [
    "console.log",
    "math.log",
    "process.env",
    "import.meta.env",
    "next.js",
    "node.js",
    "nuxt.js",
    "vue.js",
    "react.js",
    "express.js",
    "three.js",
    "d3.js",
];

/// Returns whether the last component of a path is a name with a known extension, and the path is none of the members of
/// objects and libraries that scripts and messages often name, such as `console.log` and `Next.js`.
pub fn is_file_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_extension = name
        .rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && identifier::is_extension(extension));
    has_extension && NON_FILE_NAMES.iter().all(|name| !path.eq_ignore_ascii_case(name))
}

/// Returns whether a path in a command, after the text `before`, names a module in code that the command contains: it is in
/// quotation marks and relative to the folder of the file with that code.
fn is_module_name(before: &str, path: &str) -> bool {
    path.starts_with("../") && before.ends_with(['"', '\''])
}

/// Returns whether a path in a command, after the text `before`, is only the end of one: a variable, the output of a command or
/// a pattern is before it, or its beginning was left out.
fn is_rest_of_path(before: &str, path: &str) -> bool {
    path.starts_with("...") || before.ends_with(['$', '}', ')', '*'])
}

/// Returns whether reading the file says something about the work: it is no image, log or document for people.
fn is_readable(path: &str) -> bool {
    const SKIPPED: [&str; 9] = ["png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "pdf", "log"];
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    !SKIPPED.iter().any(|skipped| skipped.eq_ignore_ascii_case(extension))
}

/// Returns the shell command among the arguments, or an empty string. Of an argument vector such as
/// `["bash", "-lc", script]` it returns the script; other vectors are joined with spaces.
fn shell_command(args: &Value) -> String {
    let value = COMMAND_KEYS.iter().find_map(|key| args.get(*key));
    match value {
        Some(Value::String(command)) => command.clone(),
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            let is_shell = words.first().is_some_and(|first| first.ends_with("sh"));
            if is_shell { words.last().copied().unwrap_or_default().to_owned() } else { words.join(" ") }
        }
        _ => String::new(),
    }
}

/// Returns the canonical spelling of a path, by which paths are compared and shown: forward slashes, no quotes or
/// punctuation around it, no leading `./`. The file system is not consulted.
pub fn normalize_path(path: &str) -> String {
    let path = path.trim().trim_matches(['\'', '"', '`', ',', ';']).replace('\\', "/");
    path.strip_prefix("./").map_or(path.clone(), str::to_owned)
}

/// Returns the change that a call of a task tool makes, or `None` for other tools and for arguments that are incomplete.
fn task_change(tool: &str, args: &Value) -> Option<TaskChange> {
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    match tool {
        "todowrite" | "write_todos" | "todo_write" | "manage_todo_list" => {
            args.get("todos").or_else(|| args.get("todoList")).and_then(parse_todo_list)
        }
        "update_plan" => args.get("plan").and_then(parse_todo_list),
        "taskcreate" => {
            text("subject").or_else(|| text("description")).map(|s| TaskChange::Create(s.to_owned()))
        }
        "taskupdate" => {
            let id = args.get("taskId").or_else(|| args.get("id"))?;
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            let status = text("status")?;
            Some(TaskChange::Update { id, status: (status != "deleted").then(|| parse_todo_status(status)) })
        }
        _ => None,
    }
}

/// Parses a list of tasks. Entries without a text are skipped; a missing status means pending.
fn parse_todo_list(value: &Value) -> Option<TaskChange> {
    let items = value.as_array()?;
    let todos = items
        .iter()
        .filter_map(|item| {
            let text = ["content", "step", "title", "text", "description"]
                .iter()
                .find_map(|key| item.get(*key)?.as_str())?;
            let status =
                item.get("status").and_then(Value::as_str).map_or(TodoStatus::Pending, parse_todo_status);
            Some(TodoItem { text: text.to_owned(), status })
        })
        .collect();
    Some(TaskChange::Replace(todos))
}

/// Parses the status of a task as agents name it. Cancelled tasks count as completed, unknown names as pending.
fn parse_todo_status(name: &str) -> TodoStatus {
    match name {
        "completed" | "done" | "cancelled" => TodoStatus::Completed,
        "in_progress" | "in-progress" | "active" => TodoStatus::InProgress,
        _ => TodoStatus::Pending,
    }
}

/// Appends the strings anywhere in `args` that look like ids or codes, until there are about [`VALUES_MAX`].
fn collect_values(args: &Value, values: &mut Vec<String>) {
    if values.len() >= VALUES_MAX {
        return;
    }
    match args {
        Value::Object(fields) => fields.values().for_each(|value| collect_values(value, values)),
        Value::Array(items) => items.iter().take(VALUES_MAX).for_each(|value| collect_values(value, values)),
        Value::String(text) if is_id_like(text) => values.push(text.clone()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a string looks like an id or code: 3 to 40 bytes of letters, digits and a few signs, with at least one
/// digit or `@`. Words with only underscores between them are options of the tool, such as `files_with_matches`.
fn is_id_like(text: &str) -> bool {
    (3..=40).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'@' | b'.' | b':' | b'#' | b'-'))
        && text.bytes().any(|b| b.is_ascii_digit() || b == b'@')
}

/// Renders a call in one line: the tool's name and its subject, such as the files it writes or its command. The line is
/// cut to `chars_max` bytes.
pub fn render_call_line(name: &str, args: &Value, chars_max: usize) -> String {
    let usage = ToolUse::from_call(name, args);
    let subject = if usage.writes.is_empty() {
        let subject = SUBJECT_KEYS.iter().find_map(|key| args.get(*key)?.as_str().map(str::to_owned));
        subject
            .or_else(|| usage.command.filter(|command| !command.is_empty()))
            .unwrap_or_else(|| args_json(args))
    } else {
        usage.writes[..usage.writes.len().min(4)].join(" ")
    };
    let mut line = format!("[{name}]");
    // An escaped line break inside a quoted script would otherwise join an `n` to the next word.
    let subject = subject.replace("\\n", " ");
    for word in subject.split_whitespace() {
        if line.len() > chars_max {
            break;
        }
        line.push(' ');
        line.push_str(head(word, chars_max));
    }
    head(&line, chars_max).to_owned()
}

/// Returns the arguments as JSON, or an empty string when there are none.
fn args_json(args: &Value) -> String {
    match args {
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Null => String::new(),
        args => args.to_string(),
    }
}

/// Returns the beginning of `text`, at most `bytes_max` bytes, ending between characters.
pub fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Returns the end of `text`, at most `bytes_max` bytes, beginning between characters.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
}

/// Maximum bytes that a cut drops in addition so that it falls between words. A longer word is cut inside.
const WORD_BYTES_MAX: usize = 256;

/// Returns the beginning of `text`, at most `bytes_max` bytes, ending between words if possible. A cut inside a name would
/// produce a different name.
pub fn head_words(text: &str, bytes_max: usize) -> &str {
    let cut = head(text, bytes_max);
    if cut.len() == text.len() || text[cut.len()..].starts_with(char::is_whitespace) {
        return cut;
    }
    match cut.rfind(char::is_whitespace) {
        Some(space) if cut.len() - space <= WORD_BYTES_MAX => &cut[..space],
        Some(_) | None => cut,
    }
}

/// Returns the end of `text`, at most `bytes_max` bytes, beginning between words if possible.
pub fn tail_words(text: &str, bytes_max: usize) -> &str {
    let cut = tail(text, bytes_max);
    if cut.len() == text.len() || text[..text.len() - cut.len()].ends_with(char::is_whitespace) {
        return cut;
    }
    match cut.find(char::is_whitespace) {
        Some(space) if space <= WORD_BYTES_MAX => &cut[space..],
        Some(_) | None => cut,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_found_in_the_tools_of_several_agents() {
        for (name, args, reads, writes) in [
            ("Read", json!({"file_path": "./src/a.rs"}), "src/a.rs", ""),
            ("Edit", json!({"file_path": "/x/a.rs", "old_string": ""}), "", "/x/a.rs"),
            ("mcp__fs__write_file", json!({"path": "a.rs"}), "", "a.rs"),
            ("apply_patch", json!({"input": "*** Begin Patch\n*** Update File: b.py\n@@\n"}), "", "b.py"),
            ("str_replace_editor", json!({"command": "view", "path": "c.py"}), "c.py", ""),
            ("str_replace_editor", json!({"command": "create", "path": "c.py"}), "", "c.py"),
            ("Bash", json!({"command": "sed -n 1,9p src/x.ts > /dev/null"}), "src/x.ts", ""),
            ("Bash", json!({"command": "sed 's|\"../a.js\"|\"../b/a.js\"|' ../x.ts"}), "../x.ts", ""),
            ("Bash", json!({"command": "find . -name '*_test.go'"}), "", ""),
            (
                "Bash",
                json!({"command": "cat $(pwd)/a.md $ROOT/b.md ${ROOT}/c.md /tmp/d.md e.md"}),
                "e.md",
                "",
            ),
            (
                "shell",
                json!({"command": ["bash", "-lc", "cat > notes.md <<'E'\n> quoted.md\nE"]}),
                "",
                "notes.md",
            ),
            ("get_user", json!({"user_id": "mia_3668"}), "", ""),
        ] {
            let usage = ToolUse::from_call(name, &args);
            assert_eq!(
                (usage.reads.join(" "), usage.writes.join(" ")),
                (reads.into(), writes.into()),
                "{name} {args}"
            );
        }
    }

    #[test]
    fn task_lists_are_parsed_from_the_tools_of_several_agents() {
        let done = |text: &str| TodoItem { text: text.into(), status: TodoStatus::Completed };
        for (name, args, change) in [
            (
                "TodoWrite",
                json!({"todos": [{"content": "a", "status": "completed"}]}),
                TaskChange::Replace(vec![done("a")]),
            ),
            (
                "update_plan",
                json!({"plan": [{"step": "b", "status": "completed"}]}),
                TaskChange::Replace(vec![done("b")]),
            ),
            ("TaskCreate", json!({"subject": "c"}), TaskChange::Create("c".into())),
            (
                "TaskUpdate",
                json!({"taskId": 3, "status": "in_progress"}),
                TaskChange::Update { id: "3".into(), status: Some(TodoStatus::InProgress) },
            ),
        ] {
            assert_eq!(ToolUse::from_call(name, &args).task, Some(change), "{name}");
        }
    }

    #[test]
    fn a_call_is_rendered_in_one_line() {
        assert_eq!(render_call_line("Bash", &json!({"command": "a\n  b"}), 80), "[Bash] a b");
        assert_eq!(render_call_line("Bash", &json!({"command": "日本語日本語"}), 12), "[Bash] 日");
        assert_eq!(render_call_line("noop", &json!({}), 80), "[noop]");
    }
}
