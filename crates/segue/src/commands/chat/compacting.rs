//! Condensing in a chat: `/compact`, `/uncompact` and `/context`. They do what the commands of the same names do.

use terminal::Spent;
use terminal::window::report;

use crate::commands::chat::Chat;
use crate::commands::compact::{self, Asked, Purpose, Reached};
use crate::exit::{Code, Failure};

/// Where the originals are, and the way back.
const ORIGINALS: &str = "The originals stay: /history --expand shows them, /uncompact takes it back.";

impl Chat {
    /// `/compact`: condenses what is older; the conversation goes on in the same thread.
    pub(super) async fn compact(&mut self, words: &[&str]) -> Result<(), Failure> {
        let asked = read(words)?;
        let Some(thread_id) = self.current()? else { return Ok(()) };
        self.context.screen.measure();
        // What it took is read again with the rest.
        self.total = None;
        self.is_changed = true;
        let mut spent = Spent::default();
        let reached = compact::condense(&self.context, thread_id, asked, &mut self.typed, &mut spent).await;
        if !matches!(reached, Ok(Some(Reached::Condensed(_)))) {
            // What was typed for a smaller context is looked at again before it is sent.
            self.typed.hold();
        }
        let Some(reached) = reached? else { return self.say(compact::STOPPED) };
        self.context.screen.lines(compact::told(&self.context.screen, &reached))?;
        match &reached {
            Reached::Condensed(done) if done.is_stored => {
                // What is condensed goes to memory too.
                self.behind.begin(&self.context.agent);
                self.say(ORIGINALS)
            }
            Reached::Condensed(_) | Reached::Nothing(_) => Ok(()),
        }
    }

    /// `/uncompact`: takes the newest compaction back.
    pub(super) async fn uncompact(&mut self, words: &[&str]) -> Result<(), Failure> {
        if let Some(word) = words.first() {
            let what = format!("read /uncompact: it takes no `{word}`");
            return Err(Failure::new(Code::User, what)
                .with_hint("/uncompact always takes the newest compaction back"));
        }
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let undone = match self.context.agent.threads().uncompact(thread_id).await {
            Err(agent::Error::Thread(agent::ThreadError::NothingToUndo(_))) => {
                return self.say("Nothing to take back: nothing is compacted here.");
            }
            undone => undone?,
        };
        self.is_changed = true;
        self.say(&compact::told_undone(&undone))
    }

    /// `/context`: shows what fills the model's window.
    pub(super) async fn window(&self) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let filled = compact::filled(&self.context, thread_id).await?;
        self.context.screen.lines(report(&self.context.screen, &filled))?;
        Ok(())
    }
}

fn read(words: &[&str]) -> Result<Asked, Failure> {
    let mut asked = Asked::default();
    let mut focus: Vec<&str> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preview" => asked.purpose = Purpose::Preview,
            "--keep" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                asked.keep = Some(number.ok_or_else(|| usage("`--keep` needs a number, 1 or more"))?);
            }
            word if word.starts_with("--") => return Err(usage(&format!("there is no option `{word}`"))),
            word => focus.push(word),
        }
    }
    asked.focus = Some(focus.join(" ")).filter(|focus| !focus.is_empty());
    Ok(asked)
}

fn usage(why: &str) -> Failure {
    Failure::new(Code::User, format!("read /compact: {why}"))
        .with_hint("/compact [focus…] [--preview] [--keep N]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e16_a_compaction_is_asked_for_with_focus_and_options_in_any_order() {
        let check = |line: &str, focus: Option<&str>, keep: Option<u64>, purpose: Purpose| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let expected = Asked { focus: focus.map(str::to_owned), keep, purpose };
            assert_eq!(read(&words).unwrap(), expected, "{line}");
        };
        check("", None, None, Purpose::Store);
        check("the API and why", Some("the API and why"), None, Purpose::Store);
        check("--keep 4 the API --preview", Some("the API"), Some(4), Purpose::Preview);
        for bad in ["--keep", "--keep x", "--keep 0", "--prewiev"] {
            assert!(read(&bad.split_whitespace().collect::<Vec<_>>()).is_err(), "{bad}");
        }
    }
}
