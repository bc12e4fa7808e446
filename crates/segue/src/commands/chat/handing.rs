//! `/handoff`: draft, review, and go on in the child at once.

use agent::HandoffRequest;
use protocol::{Decision, Decisions};

use crate::commands::chat::Chat;
use crate::commands::{handoff, review};
use crate::exit::{Code, Failure};
use crate::terminal::screen::Audience;

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
    pub(super) async fn handoff(&mut self, words: &[&str]) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let asked = read(words)?;
        let request = HandoffRequest {
            goal: Some(asked.goal.join(" ")).filter(|goal| !goal.is_empty()),
            preview_only: asked.answer == Answer::Preview,
            messages: asked.messages,
            ..HandoffRequest::default()
        };
        // A draft is paid for too; what it took is read again with the rest.
        self.total = None;
        let pending = handoff::draft(&self.context, thread_id, request).await?;
        review::show(&self.context, &pending)?;
        let decision = match asked.answer {
            Answer::Apply => review::acceptance(&pending),
            Answer::Preview if pending.is_new => Decision::Preview {},
            Answer::Preview => return self.say("It waits for a decision; /handoff asks for it."),
            Answer::Ask if self.context.screen.audience == Audience::Program => {
                return self.say("It waits for a decision: /handoff --apply accepts it.");
            }
            Answer::Ask => match review::ask_person(&self.context, &pending, &mut self.typed).await? {
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
                let child = self.context.agent.find_thread(&child.to_string()).await?;
                self.go_to(Some(child));
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
}
