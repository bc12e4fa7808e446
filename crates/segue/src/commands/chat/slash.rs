//! The commands of a chat: lines that begin with `/`. What each does is in the files beside this one.

use terminal::{Audience, Cursor, pad, wrap};

use crate::commands::chat::{Chat, Then, status};
use crate::exit::{Code, Failure};

/// One command.
pub(super) struct Slash {
    /// Its name, without the `/`.
    pub(super) name: &'static str,
    pub(super) takes: &'static str,
    pub(super) about: &'static str,
}

const fn slash(name: &'static str, takes: &'static str, about: &'static str) -> Slash {
    Slash { name, takes, about }
}

/// Every command.
pub(super) const COMMANDS: [Slash; 22] = [
    slash("help", "", "show the commands and keys"),
    slash(
        "handoff",
        "[goal…] [--preview] [--apply] [--messages N]",
        "carry what matters into a fresh thread",
    ),
    slash(
        "compact",
        "[focus…] [--preview] [--keep N]",
        "condense what is older for the model, and go on here",
    ),
    slash("uncompact", "", "take the newest compaction back"),
    slash("new", "", "begin a new thread, blank or with context carried forward"),
    slash("threads", "[ID]", "choose a thread to go on in"),
    slash("fork", "[SEQ]", "copy this thread, up to an event, and go on in the copy"),
    slash("rewind", "[SEQ]", "go back to before one of your messages, and change it"),
    slash(
        "recall",
        "words… [--all]",
        "find what was said here, or in the threads this one came from; with --all, in any",
    ),
    slash(
        "search",
        "words… [--since WHEN] [--kind KIND]",
        "find what was said in any thread; a plain question will do",
    ),
    slash("remember", "text…", "keep a sentence in agent.md, which every conversation begins with"),
    slash("memory", "[show|edit]", "show what is remembered; show or change agent.md"),
    slash("approve", "", "decide about the tool calls that wait"),
    slash("show", "[N]", "open the last tool call, or the Nth last, in full"),
    slash(
        "history",
        "[ID] [--expand] [--before SEQ] [--after SEQ] [--around SEQ]",
        "show what was said, with a marker where some of it was condensed, closed or opened",
    ),
    slash("context", "", "show what fills the model's window, and when it will be condensed"),
    slash("cost", "", "show what this thread has cost"),
    slash("model", "[PROVIDER/NAME]", "show or change the model"),
    slash("tools", "", "show the tools, those of MCP servers too, and what they may do"),
    slash("export", "[FILE]", "write this thread to a file, as JSON if its name ends so"),
    slash("clear", "", "clear the screen"),
    slash("quit", "", "leave"),
];

/// The columns of the commands' names in `/help`.
const NAME_COLUMNS: usize = 20;

/// What keys do, for `/help`.
const KEYS: &str = "Enter sends; Alt-Enter, Ctrl-J or a backslash before Enter begins a new line. @FILE lets a file go \
                    along, as does a pasted path of an image. Tab completes, Ctrl-R searches what you wrote, Ctrl-O \
                    opens the last tool call. In a question a key marks an answer and Enter confirms it. Esc or Ctrl-C stops an answer; what you type meanwhile is kept.";

impl Chat {
    /// Performs a command; what fails is told, and the conversation goes on.
    pub(super) async fn command(&mut self, line: &str) -> Result<Then, Failure> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let first = words.first().copied();
        let done = match name {
            "quit" | "exit" => return Ok(Then::Quit),
            "help" | "" => self.help(),
            "new" => self.begin().await,
            "threads" if first == Some("handoff") => self.handoff(&words[1..]).await,
            "threads" | "resume" => self.threads(first).await,
            "fork" => self.fork(first).await,
            "rewind" => self.rewind(first).await,
            "recall" => self.recall(&words).await,
            "approve" => self.approve_now().await,
            "show" => self.show(first).await,
            "history" => self.history(&words).await,
            "compact" => self.compact(&words).await,
            "uncompact" => self.uncompact(&words).await,
            "context" => self.window().await,
            "cost" => self.cost().await,
            "model" => self.model(first),
            "tools" => self.tools().await,
            "search" => self.search(&words).await,
            "remember" => self.remember(rest.trim()).await,
            "memory" => self.memory(first).await,
            "export" => self.export(Some(rest.trim()).filter(|file| !file.is_empty())).await,
            "clear" => self.clear(),
            "handoff" => self.handoff(&words).await,
            _ => Err(unknown(name)),
        };
        match done {
            Ok(()) => Ok(Then::GoOn),
            Err(failure) => self.tell(failure).map(|()| Then::GoOn),
        }
    }

    fn help(&self) -> Result<(), Failure> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        for command in &COMMANDS {
            let name = format!("  /{} {}", command.name, command.takes);
            let lead = match name.len() < NAME_COLUMNS {
                true => style.code(pad(&name, NAME_COLUMNS)),
                false => format!("{}\n{}", style.code(name), " ".repeat(NAME_COLUMNS)),
            };
            let about = wrap(command.about, screen.columns - NAME_COLUMNS - 1, "", "");
            screen
                .line(format!("{lead}{}", about.replace('\n', &format!("\n{}", " ".repeat(NAME_COLUMNS)))))?;
        }
        self.say(KEYS)
    }

    async fn approve_now(&mut self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        match self.approve(thread_id).await? {
            Some(end) => self.settle(thread_id, end).await,
            None => match status::waiting(&self.context, thread_id).await {
                None => self.say("Nothing waits for a decision."),
                Some(waits) if self.context.screen.audience == Audience::Program => self.say(&waits),
                Some(_) => Ok(()),
            },
        }
    }

    fn clear(&self) -> Result<(), Failure> {
        match self.context.screen.cursor {
            Cursor::Free => Ok(self.context.screen.write("\u{1b}[2J\u{1b}[H")?),
            Cursor::Fixed => Ok(()),
        }
    }
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::new(Code::User, format!("find a command `/{name}`"));
    let first = name.split('/').next().unwrap_or_default();
    match nearest(first) {
        Some(nearest) => failure.with_hint(format!("did you mean /{nearest}? /help shows them all")),
        None => failure.with_hint("/help shows the commands"),
    }
}

/// Returns the command that is most like `name`, if one is like it at all.
fn nearest(name: &str) -> Option<&'static str> {
    let near = COMMANDS.iter().map(|command| (distance(name, command.name), command.name));
    near.filter(|(distance, known)| *distance <= known.len() / 2).min().map(|(_, known)| known)
}

/// Returns how many letters must be added, removed or changed between the two.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_gets_a_suggestion_and_nonsense_none() {
        assert_eq!(nearest("handof"), Some("handoff"));
        assert_eq!(nearest("thread"), Some("threads"));
        assert_eq!(nearest("qiut"), Some("quit"));
        assert_eq!(nearest("rewnd"), Some("rewind"));
        assert_eq!(nearest("frobnicate"), None);
    }
}
