//! The slash commands of the chat: lines that begin with `/`. This file has their list and selects the function that
//! performs a command; the sibling modules implement these functions.

use terminal::{Audience, CursorMode, pad, wrap};

use crate::commands::chat::{ChatFlow, ChatSession, status_line};
use crate::exit::CliFailure;

/// The name and the help of a slash command.
pub(super) struct SlashCommand {
    /// The name without the `/`.
    pub(super) name: &'static str,
    /// The arguments as `/help` and the input hint show them.
    pub(super) arguments: &'static str,
    /// The description in `/help` and in completion.
    pub(super) description: &'static str,
}

/// Returns a command; shorter than a struct literal in the list below.
const fn slash_command(
    name: &'static str,
    arguments: &'static str,
    description: &'static str,
) -> SlashCommand {
    SlashCommand { name, arguments, description }
}

/// All slash commands, in the order of `/help`.
pub(super) const COMMANDS: [SlashCommand; 25] = [
    slash_command("help", "", "show the commands and keys"),
    slash_command(
        "handoff",
        "[goal…] [--preview] [--apply] [--messages N]",
        "continue in a fresh thread with a summary that you review; also as /threads handoff",
    ),
    slash_command(
        "compact",
        "[focus…] [--preview] [--keep N]",
        "compact the older messages into a summary and continue in this thread",
    ),
    slash_command("uncompact", "", "undo the newest compaction"),
    slash_command("new", "", "start a new thread, empty or with a handoff"),
    slash_command("threads", "[ID]", "choose a thread to continue"),
    slash_command("fork", "[SEQ]", "copy this thread, up to an event, and continue in the copy"),
    slash_command("rewind", "[SEQ]", "return to the state before one of your messages, and edit the message"),
    slash_command(
        "recall",
        "words… [--all|--everywhere]",
        "search this thread and the threads it came from; with --all the project, with --everywhere all projects",
    ),
    slash_command(
        "search",
        "words… [--since WHEN] [--kind KIND] [--everywhere]",
        "search the messages, summaries and handoffs of the project; write a plain question",
    ),
    slash_command("remember", "[--everywhere] text…", "add a sentence to agent.md for this project"),
    slash_command(
        "pin",
        "TEXT|#NUMBER",
        "pin a text, or the message with this number: every request contains it word for word",
    ),
    slash_command("pins", "", "list the pins of this thread"),
    slash_command("unpin", "N", "remove a pin"),
    slash_command(
        "memory",
        "[show|edit|review]",
        "show the memory; show or edit agent.md; review facts for it",
    ),
    slash_command("approve", "", "decide on the pending tool calls"),
    slash_command("show", "[N]", "show the last tool call, or the Nth last, in full"),
    slash_command(
        "history",
        "[ID] [--expand] [--before SEQ] [--after SEQ] [--around SEQ]",
        "show the messages, with a marker where messages were compacted; --expand opens the markers",
    ),
    slash_command("context", "", "show what fills the context window, and when compaction starts"),
    slash_command("cost", "", "show the cost of this thread"),
    slash_command("model", "[PROVIDER/NAME]", "show or change the model"),
    slash_command("tools", "", "show the tools, including those of MCP servers, and their permissions"),
    slash_command(
        "export",
        "[FILE]",
        "write this thread to a file; a name that ends with .json selects JSON",
    ),
    slash_command("clear", "", "clear the screen"),
    slash_command("quit", "", "leave the chat"),
];

/// The width of the names in `/help`, in columns.
const NAME_COLUMNS: usize = 20;

/// The description of the keys at the end of `/help`.
const KEYS_HELP: &str = "Enter sends the message; Alt-Enter, Ctrl-J or a backslash before Enter starts a new line. @FILE \
                    attaches a file, and so does the pasted path of an image. Tab completes, Ctrl-R searches your \
                    earlier lines, Ctrl-O shows the last tool call. In a question, a key selects an answer and Enter \
                    confirms it. Esc or Ctrl-C stops an answer; text that you type meanwhile is kept.";

impl ChatSession {
    /// Performs the slash command in `line`, which has no leading `/`. A failure is printed and does not end the chat.
    ///
    /// # Errors
    /// Fails only if the terminal cannot be read or written.
    pub(super) async fn run_slash_command(&mut self, line: &str) -> Result<ChatFlow, CliFailure> {
        let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let first = words.first().copied();
        let result = match name {
            "quit" | "exit" => return Ok(ChatFlow::Quit),
            "help" | "" => self.show_help(),
            "new" => self.start_new_thread().await,
            "threads" if first == Some("handoff") => self.run_handoff(&words[1..]).await,
            "threads" | "resume" => self.resume_thread(first).await,
            "fork" => self.fork_thread(first).await,
            "rewind" => self.rewind_thread(first).await,
            "recall" => self.run_recall(&words).await,
            "approve" => self.decide_pending_calls().await,
            "show" => self.show_nth_call(first).await,
            "history" => self.show_history(&words).await,
            "compact" => self.run_compact(&words).await,
            "uncompact" => self.run_uncompact(&words).await,
            "context" => self.show_context_window().await,
            "cost" => self.show_cost().await,
            "model" => self.show_or_set_model(first),
            "tools" => self.show_tools().await,
            "search" => self.run_search(&words).await,
            "remember" => self.run_remember(arguments.trim()).await,
            "pin" => self.run_pin(arguments.trim()).await,
            "pins" => self.run_pins().await,
            "unpin" => self.run_unpin(first).await,
            "memory" => self.run_memory(first).await,
            "export" => self.export_thread(Some(arguments.trim()).filter(|file| !file.is_empty())).await,
            "clear" => self.clear_screen(),
            "handoff" => self.run_handoff(&words).await,
            _ => Err(unknown_command(name)),
        };
        match result {
            Ok(()) => Ok(ChatFlow::Continue),
            Err(failure) => self.report_failure(failure).map(|()| ChatFlow::Continue),
        }
    }

    /// Prints all slash commands and the keys.
    fn show_help(&self) -> Result<(), CliFailure> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        for command in &COMMANDS {
            let name = format!("  /{} {}", command.name, command.arguments);
            let lead = match name.len() < NAME_COLUMNS {
                true => style.code(pad(&name, NAME_COLUMNS)),
                false => format!("{}\n{}", style.code(name), " ".repeat(NAME_COLUMNS)),
            };
            let about = wrap(command.description, screen.columns - NAME_COLUMNS - 1, "", "");
            screen.print_line(format!(
                "{lead}{}",
                about.replace('\n', &format!("\n{}", " ".repeat(NAME_COLUMNS)))
            ))?;
        }
        self.print_info(KEYS_HELP)
    }

    /// Asks about the pending tool calls of the thread. If no call is pending, prints a notice about another pending
    /// decision.
    async fn decide_pending_calls(&mut self) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        match self.approve_calls(thread_id).await? {
            Some(end) => self.handle_run_end(thread_id, end).await,
            None => match status_line::pending_notice(&self.context, thread_id).await {
                None => self.print_info("No decision is pending."),
                Some(notice) if self.context.screen.audience == Audience::Program => self.print_info(&notice),
                Some(_) => Ok(()),
            },
        }
    }

    /// Clears the screen, unless the terminal cannot move the cursor.
    fn clear_screen(&self) -> Result<(), CliFailure> {
        match self.context.screen.cursor {
            CursorMode::Free => Ok(self.context.screen.write("\u{1b}[2J\u{1b}[H")?),
            CursorMode::Fixed => Ok(()),
        }
    }
}

/// Returns the failure for a name that is not a command. It suggests the most similar command, if one is similar
/// enough.
fn unknown_command(name: &str) -> CliFailure {
    // A mistyped command may be the beginning of a path.
    let first = name.split('/').next().unwrap_or_default();
    match closest_command(first) {
        Some(nearest) => {
            CliFailure::usage_sentence(format!("Unknown command `/{name}`. Did you mean `/{nearest}`?"))
        }
        None => CliFailure::usage_sentence(format!("Unknown command `/{name}`."))
            .with_hint("/help lists the commands"),
    }
}

/// Returns the command with the smallest edit distance to `name`. A command is not suggested if more than half of its
/// letters would have to change.
fn closest_command(name: &str) -> Option<&'static str> {
    let distances = COMMANDS.iter().map(|command| (edit_distance(name, command.name), command.name));
    distances.filter(|(distance, known)| *distance <= known.len() / 2).min().map(|(_, known)| known)
}

/// Returns the Levenshtein distance of two texts: the smallest number of characters to insert, delete or replace.
///
/// Takes time proportional to the product of the lengths, and stores one row of the distance matrix.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, x) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_gets_a_suggestion_and_nonsense_none() {
        assert_eq!(closest_command("handof"), Some("handoff"));
        assert_eq!(closest_command("thread"), Some("threads"));
        assert_eq!(closest_command("qiut"), Some("quit"));
        assert_eq!(closest_command("rewnd"), Some("rewind"));
        assert_eq!(closest_command("foo"), Some("fork"));
        for nonsense in ["frobnicate", "x", ""] {
            assert_eq!(closest_command(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn an_unknown_command_is_reported_as_a_sentence() {
        let report = |name: &str| match unknown_command(name) {
            CliFailure::Reported(failure) => (failure.message(), failure.hint),
            CliFailure::OutputClosed => panic!("{name}"),
        };
        assert_eq!(report("foo"), ("Unknown command `/foo`. Did you mean `/fork`?".to_owned(), None));
        assert_eq!(report("forkk/x").0, "Unknown command `/forkk/x`. Did you mean `/fork`?");
        let (message, hint) = report("frobnicate");
        assert_eq!(message, "Unknown command `/frobnicate`.");
        assert_eq!(hint.as_deref(), Some("/help lists the commands"));
    }
}
