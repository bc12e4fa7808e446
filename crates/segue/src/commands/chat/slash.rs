//! The commands of a chat: lines that begin with `/`.

use agent::HandoffRequest;
use protocol::{Decision, Decisions};

use crate::commands::chat::{Chat, Then};
use crate::commands::{handoff, history, review};
use crate::exit::{Code, Failure};
use crate::terminal::screen::Audience;

/// Events `/history` reads.
const HISTORY_EVENTS: usize = 40;

/// One command.
pub(super) struct Slash {
    /// Its name, without the `/`.
    pub(super) name: &'static str,
    /// What it takes.
    pub(super) takes: &'static str,
    /// What it does.
    pub(super) about: &'static str,
}

/// Every command.
pub(super) const COMMANDS: [Slash; 7] = [
    Slash {
        name: "handoff",
        takes: "[goal…] [--preview] [--apply] [--messages N]",
        about: "carry what matters into a fresh thread",
    },
    Slash { name: "new", takes: "", about: "begin a new thread" },
    Slash { name: "threads", takes: "[ID]", about: "list threads, or go on in one" },
    Slash { name: "history", takes: "", about: "show what was said" },
    Slash { name: "model", takes: "[PROVIDER/NAME]", about: "show or change the model" },
    Slash { name: "help", takes: "", about: "show the commands" },
    Slash { name: "quit", takes: "", about: "leave" },
];

/// What `/handoff` was given.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    goal: Vec<String>,
    messages: Option<u64>,
    answer: Answer,
}

/// Where the answer to `/handoff` comes from.
#[derive(Debug, Default, PartialEq, Eq)]
enum Answer {
    #[default]
    Ask,
    Preview,
    Apply,
}

impl Chat {
    /// Performs a command; what fails is told, and the conversation goes on.
    pub(super) async fn command(&mut self, line: &str) -> Result<Then, Failure> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        let done = match name {
            "quit" | "exit" => return Ok(Then::Quit),
            "help" => self.help(),
            "new" => {
                self.thread = None;
                self.say("New thread; it begins with your next message.")
            }
            "threads" => self.threads(rest.first().copied()).await,
            "history" => self.history().await,
            "model" => self.model(rest.first().copied()),
            "handoff" => self.handoff(&rest).await,
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
            let name = format!("/{} {}", command.name, command.takes);
            screen.line(format!("  {}", style.code(name.trim_end())))?;
            screen.line(format!("      {}", command.about))?;
        }
        self.say("Ctrl-C stops an answer; Alt-Enter begins a new line.")
    }

    async fn threads(&mut self, prefix: Option<&str>) -> Result<(), Failure> {
        match prefix {
            Some(prefix) => {
                let thread = self.context.agent.find_thread(prefix).await?;
                self.enter(thread).await
            }
            None => self.list().await,
        }
    }

    async fn history(&self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let query = agent::EventQuery {
            after: None,
            before: None,
            categories: vec![protocol::Category::Message],
            limit: HISTORY_EVENTS,
        };
        for entry in self.context.agent.history_page(thread_id, query).await? {
            history::show(&self.context.screen, &entry, usize::MAX)?;
        }
        Ok(())
    }

    fn model(&mut self, name: Option<&str>) -> Result<(), Failure> {
        match name {
            Some(name) => self.use_model(name),
            None => self.note_model(),
        }
    }

    async fn handoff(&mut self, words: &[&str]) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let asked = read(words)?;
        let request = HandoffRequest {
            goal: Some(asked.goal.join(" ")).filter(|goal| !goal.is_empty()),
            preview_only: asked.answer == Answer::Preview,
            messages: asked.messages,
            ..HandoffRequest::default()
        };
        let pending = handoff::draft(&self.context, thread_id, request).await?;
        review::show(&self.context, &pending)?;
        let decision = match asked.answer {
            Answer::Apply => review::acceptance(&pending),
            Answer::Preview if pending.is_new => Decision::Preview {},
            Answer::Preview => return self.say("It waits for a decision; /handoff asks for it."),
            Answer::Ask if self.context.screen.audience == Audience::Program => {
                return self.say("It waits for a decision: /handoff --apply accepts it.");
            }
            Answer::Ask => match review::ask_person(&self.context, &pending).await? {
                Some(decided) => return self.decided(decided).await,
                None => return self.say("Nothing was decided; /handoff shows it again."),
            },
        };
        let decisions = Decisions { decisions: vec![decision] };
        let decided = review::decide(&self.context, pending.handoff.handoff_id, &decisions).await??;
        self.decided(decided).await
    }

    /// Goes on in the child at once.
    async fn decided(&mut self, decided: agent::Decided) -> Result<(), Failure> {
        match decided.child_thread_id {
            Some(child) => {
                handoff::show_child(&self.context, &decided, child).await?;
                self.thread = Some(self.context.agent.find_thread(&child.to_string()).await?);
                self.say("You are in the new thread; the summary goes into its first turn, once.")
            }
            None => self.say(&format!(
                "Handoff {}; this thread goes on as it was.",
                review::outcome(decided.handoff.status)
            )),
        }
    }
}

fn read(words: &[&str]) -> Result<Asked, Failure> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preview" => asked.answer = Answer::Preview,
            "--apply" => asked.answer = Answer::Apply,
            "--messages" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                asked.messages = Some(number.ok_or_else(|| usage("`--messages` needs a number"))?);
            }
            word if word.starts_with("--") => return Err(usage(&format!("there is no option `{word}`"))),
            word => asked.goal.push(word.to_owned()),
        }
    }
    Ok(asked)
}

fn usage(why: &str) -> Failure {
    Failure::new(Code::User, format!("read /handoff: {why}"))
        .with_hint("/handoff [goal…] [--preview] [--apply] [--messages N]")
}

fn unknown(name: &str) -> Failure {
    let failure = Failure::new(Code::User, format!("find a command `/{name}`"));
    match nearest(name) {
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
    fn a_handoff_is_asked_for_with_goal_and_options_in_any_order() {
        let check = |line: &str, goal: &str, messages: Option<u64>, answer: Answer| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let asked = read(&words).unwrap();
            assert_eq!(
                (asked.goal.join(" ").as_str(), asked.messages, asked.answer),
                (goal, messages, answer)
            );
        };
        check("", "", None, Answer::Ask);
        check("fix the login --apply", "fix the login", None, Answer::Apply);
        check("--messages 20 fix --preview", "fix", Some(20), Answer::Preview);
        for bad in ["--messages", "--messages x", "--messages 0", "--aply"] {
            let words: Vec<&str> = bad.split_whitespace().collect();
            assert!(read(&words).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion_and_nonsense_none() {
        assert_eq!(nearest("handof"), Some("handoff"));
        assert_eq!(nearest("thread"), Some("threads"));
        assert_eq!(nearest("qiut"), Some("quit"));
        assert_eq!(nearest("frobnicate"), None);
    }
}
