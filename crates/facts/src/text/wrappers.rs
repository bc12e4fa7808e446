//! Removes what a harness puts around the text of a user or an assistant: its own elements, the tags and JSON objects that
//! wrap a request or an answer, and the prompt of a shell. It also recognizes output of an environment that a harness
//! sends in the user's name. The words inside a wrapper stay as they are.

pub(crate) mod task_template;

use std::borrow::Cow;

/// Elements that agent harnesses insert into a user's message and that are removed with their content. Names ending in
/// `-` or `_`, and `local-command`, are prefixes.
const HARNESS_ELEMENTS: &[&str] = &[
    "system-reminder",
    "system_reminder",
    "system_notification",
    "command-",
    "local-command",
    "task-notification",
    "bash-",
    "ide_",
    "environment_context",
    "environment_details",
    "user_instructions",
    "user_info",
    "project_layout",
    "open_and_recently_viewed_files",
    "additional_data",
    "attached_files",
    "instructions",
    "skill",
    "turn_aborted",
    "uploaded_files",
    "subagent_notification",
];
/// Elements whose content is the user's words, so that only their tags are removed.
const REQUEST_ELEMENTS: &[&str] = &[
    "user_query",
    "user-query",
    "user_request",
    "user_message",
    "user_input",
    "user_prompt",
    "user_task",
    "task",
    "task_description",
    "request",
    "query",
    "prompt",
    "question",
    "feedback",
    "issue",
    "issue_description",
    "pr_description",
    "problem_statement",
];
/// Elements of an assistant's text that are removed with their content.
const THOUGHT_ELEMENTS: &[&str] = &["thinking", "think", "thought", "scratchpad"];
/// Elements whose content is the assistant's answer, so that only their tags are removed.
const ANSWER_ELEMENTS: &[&str] = &["answer", "final_answer", "response", "result", "reply"];
/// Keys of a JSON object whose value is the user's request, the most specific first.
const REQUEST_KEYS: &[&str] = &[
    "user_query",
    "user_request",
    "user_message",
    "task",
    "request",
    "instruction",
    "prompt",
    "query",
    "question",
    "message",
    "input",
    "content",
    "text",
];
/// Keys of a JSON object whose value is the assistant's answer, the most specific first.
const ANSWER_KEYS: &[&str] =
    &["final_answer", "answer", "response", "reply", "message", "result", "output", "content", "text"];
/// Maximum fields of a JSON object that wraps a text. A larger object is data.
const WRAPPER_FIELDS_MAX: usize = 6;
/// Beginnings of messages that agent harnesses send in the user's name.
const HARNESS_LINES: &[&str] = &[
    "[Request interrupted",
    "Caveat: The messages below",
    "# AGENTS.md",
    "Base directory for this skill",
    "System: Please continue.",
    "Use /help <question> for help",
];
/// Beginnings of the sentences that a harness adds at the end of a message.
const HARNESS_ENDS: &[&str] = &["If you need specific details from before exiting plan mode"];
/// Beginnings of messages in the user's name that are output of an environment.
const ENVIRONMENT_BEGINNINGS: &[&str] = &[
    "OBSERVATION:",
    "Observation:",
    "EXECUTION RESULT",
    "<returncode>",
    "<output>",
    "<command_output>",
    "<tool_result",
    "<tool_response>",
    "<function_results>",
    "(Open file:",
    "[File: ",
    "[Current directory:",
    "bash-$",
    "Your command ran successfully and did not produce any output",
    "[The command completed with exit code",
];
/// Beginnings of the lines that a harness shows after a message as the state of its shell.
const PROMPT_LINES: &[&str] = &["(Open file:", "(Current directory:", "(Interactive session", "bash-$"];

/// The elements and keys by which the text of one author is unwrapped.
struct Wrappers {
    /// Names of elements that are removed with their content.
    removed: &'static [&'static str],
    /// Names of elements of which only the tags are removed.
    unwrapped: &'static [&'static str],
    /// Keys of a JSON object whose value is the text.
    keys: &'static [&'static str],
}

const REQUEST_WRAPPERS: Wrappers =
    Wrappers { removed: HARNESS_ELEMENTS, unwrapped: REQUEST_ELEMENTS, keys: REQUEST_KEYS };
const ANSWER_WRAPPERS: Wrappers =
    Wrappers { removed: THOUGHT_ELEMENTS, unwrapped: ANSWER_ELEMENTS, keys: ANSWER_KEYS };

/// Returns a user's text without what harnesses add. Returns an empty text if the whole message is a harness's or the
/// output of an environment.
pub(crate) fn strip_harness_text(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_start();
    if ENVIRONMENT_BEGINNINGS.iter().any(|beginning| trimmed.starts_with(beginning)) {
        return Cow::Borrowed("");
    }
    let end = HARNESS_ENDS.iter().find_map(|end| text.find(end)).unwrap_or(text.len());
    let stripped = without_control_tokens(unwrap(&text[..end], &REQUEST_WRAPPERS));
    if HARNESS_LINES.iter().any(|line| stripped.trim_start().starts_with(line)) {
        return Cow::Borrowed("");
    }
    let length = without_prompt_lines(&stripped).len();
    match stripped {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..length]),
        Cow::Owned(mut text) => {
            text.truncate(length);
            Cow::Owned(text)
        }
    }
}

/// Returns a text without the tokens by which a program ends or steers a conversation, such as `###STOP###`.
fn without_control_tokens(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut text = text;
    let mut start = 0;
    while let Some(token) = text[start..].find("###").map(|offset| start + offset) {
        let name =
            text[token + 3..].bytes().take_while(|byte| byte.is_ascii_uppercase() || *byte == b'_').count();
        let end = token + 3 + name;
        start = match name > 0 && text[end..].starts_with("###") {
            true => {
                text.to_mut().replace_range(token..end + 3, "");
                token
            }
            false => end,
        };
    }
    // A token may have lost its beginning.
    let length = text
        .trim_end()
        .strip_suffix("###")
        .map(|head| head.trim_end_matches(|c: char| c.is_ascii_uppercase() || c == '_').len());
    match length.filter(|length| length + 3 < text.trim_end().len()) {
        Some(length) => Cow::Owned(text[..length].to_owned()),
        None => text,
    }
}

/// Returns an assistant's text without its thoughts and the tags or the JSON object around the answer.
pub fn strip_answer_wrappers(text: &str) -> Cow<'_, str> {
    unwrap(text, &ANSWER_WRAPPERS)
}

/// Returns a text without its wrappers.
fn unwrap<'a>(text: &'a str, wrappers: &Wrappers) -> Cow<'a, str> {
    match json_value(text, wrappers.keys) {
        Some(value) => Cow::Owned(strip_elements(&value, wrappers).into_owned()),
        None => strip_elements(text, wrappers),
    }
}

/// Returns the text that a JSON object wraps, if the whole text is such an object.
fn json_value(text: &str, keys: &[&str]) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix("```json").and_then(|text| text.strip_suffix("```")).map_or(text, str::trim);
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let key = keys.iter().find(|key| object.get(**key).is_some_and(|value| value.is_string()))?;
    (object.len() <= WRAPPER_FIELDS_MAX).then(|| object[*key].as_str().unwrap_or_default().to_owned())
}

/// Returns a text without the elements of the wrappers. Each removed element or tag leaves a space, or a line break if the
/// text has one there, so that the words around it stay separate.
fn strip_elements<'a>(text: &'a str, wrappers: &Wrappers) -> Cow<'a, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(start) = remaining.find('<') {
        stripped.push_str(&remaining[..start]);
        remaining = &remaining[start..];
        let length = element_length(remaining, wrappers.removed)
            .or_else(|| tag_length(remaining, &text[..text.len() - remaining.len()], wrappers.unwrapped));
        match length {
            Some(length) => {
                stripped.push(' ');
                remaining = &remaining[length..];
            }
            None => {
                stripped.push('<');
                remaining = &remaining[1..];
            }
        }
    }
    stripped.push_str(remaining);
    Cow::Owned(stripped)
}

/// Returns the name of the tag that `text` starts with, without the slash of an end tag.
fn tag_name(text: &str) -> Option<&str> {
    let name = text[1..].trim_start_matches('/');
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))?;
    Some(&name[..end]).filter(|name| !name.is_empty())
}

/// Returns the length in bytes of the element that `text` starts with, including its end tag, if it is one of `names`.
/// Returns `None` if the end tag is missing.
fn element_length(text: &str, names: &[&str]) -> Option<usize> {
    let name = tag_name(text).filter(|_| !text.starts_with("</"))?;
    let is_match = |element: &&&str| {
        let is_prefix = element.ends_with(['-', '_']) || **element == "local-command";
        name.eq_ignore_ascii_case(element)
            || is_prefix && name.get(..element.len()).is_some_and(|head| head.eq_ignore_ascii_case(element))
    };
    names.iter().find(is_match)?;
    let close = format!("</{name}>");
    text.find(&close).map(|start| start + close.len())
}

/// Returns the length in bytes of the tag that `text` starts with, if it is one of `names` and the beginning or the end of an
/// element. `before` is the text before it. A single tag may be a type parameter, a placeholder or the name of an element.
fn tag_length(text: &str, before: &str, names: &[&str]) -> Option<usize> {
    let name = tag_name(text)?;
    names.iter().find(|known| name.eq_ignore_ascii_case(known))?;
    let length = text.find('>')? + 1;
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let is_element = match text.starts_with("</") {
        true => before.rfind(&open).is_some_and(|start| !before[start..].contains(&close)),
        false => text[length..].split_once(&close).is_some_and(|(content, _)| !content.contains(&open)),
    };
    (is_element && !text[..length].contains('\n')).then_some(length)
}

/// Returns a text without the lines at its end that show the state of a shell.
fn without_prompt_lines(text: &str) -> &str {
    let mut text = text;
    loop {
        let trimmed = text.trim_end();
        let start = trimmed.rfind('\n').map_or(0, |newline| newline + 1);
        if start == 0 || !PROMPT_LINES.iter().any(|line| trimmed[start..].trim_start().starts_with(line)) {
            return text;
        }
        text = trimmed[..start].trim_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l8_harness_text_is_removed_from_a_users_message() {
        for (text, expected) in [
            ("fix it", "fix it"),
            ("fix it <system-reminder>never mind</system-reminder> now", "fix it   now"),
            ("<command-name>/clear</command-name><command-args></command-args>", ""),
            ("<command-message>review is running</command-message>\nfix it", "fix it"),
            ("<ide_opened_file>a.rs</ide_opened_file>\nfix it", "fix it"),
            ("[Request interrupted by user]", ""),
            ("System: Please continue.", ""),
            ("Thank you! ###STOP###", "Thank you!"),
            ("Bye. STOP###", "Bye."),
            ("### A and ###B", "### A and ###B"),
            (
                "Do the plan.\n\n\nIf you need specific details from before exiting plan mode, read /a.",
                "Do the plan.",
            ),
            ("a < b and <Vec<T>> stays", "a < b and <Vec<T>> stays"),
            ("<system-reminder>never closed", "<system-reminder>never closed"),
        ] {
            assert_eq!(strip_harness_text(text).trim(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_words_inside_a_wrapper_stay() {
        for (text, expected) in [
            ("<user_query>\nfix it\n</user_query>", "fix it"),
            ("<task>\nfix it\n</task>\n<environment_details>\nlinux\n</environment_details>", "fix it"),
            (
                "Solve <issue_description>\nit <b>breaks</b>\n</issue_description> please",
                "Solve  \nit <b>breaks</b>\n  please",
            ),
            (
                "<issue>it breaks</issue> Make sure that the <issue> is fixed.",
                "it breaks  Make sure that the <issue> is fixed.",
            ),
            ("<uploaded_files>\n/w/a\n</uploaded_files>\nfix it", "fix it"),
            ("the type Queue<task> and <task> alone", "the type Queue<task> and <task> alone"),
            (r#"{"task": "fix it", "id": 7}"#, "fix it"),
            (r#"{"task": "<user_query>fix it</user_query>"}"#, "fix it"),
            (r#"{"name": "x", "version": 2}"#, r#"{"name": "x", "version": 2}"#),
            (r#"{"task": 7}"#, r#"{"task": 7}"#),
            (r#"Load {"task": "fix it"}"#, r#"Load {"task": "fix it"}"#),
            ("fix it\n(Open file: n/a)\n(Current directory: /w)\nbash-$", "fix it"),
        ] {
            assert_eq!(strip_harness_text(text).trim(), expected, "{text:?}");
        }
    }

    #[test]
    fn output_of_an_environment_is_no_text_of_the_user() {
        for text in [
            "OBSERVATION:\n344\n(Open file: /w/a.py)\nbash-$",
            "Observation: 3 files",
            "<returncode>0</returncode>\n<output>\nok\n</output>",
            "(Open file: n/a)\n(Current directory: /w)\nbash-$",
            "[File: /w/a.py (3 lines total)]\n1:x",
            "Your command ran successfully and did not produce any output.",
        ] {
            assert_eq!(strip_harness_text(text), "", "{text:?}");
        }
    }

    #[test]
    fn an_answer_is_its_own_words() {
        for (text, expected) in [
            ("Done.", "Done."),
            ("<thinking>hm</thinking>Done.", "Done."),
            ("<answer>Done.</answer>", "Done."),
            (r#"{"response": "Done."}"#, "Done."),
            ("```json\n{\"answer\": \"Done.\"}\n```", "Done."),
            ("Use Option<result> here.", "Use Option<result> here."),
        ] {
            assert_eq!(strip_answer_wrappers(text).trim(), expected, "{text:?}");
        }
    }
}
