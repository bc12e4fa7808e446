//! Moving between threads and within one: another thread, a copy, an earlier point; and writing one to a file.

use std::path::PathBuf;

use agent::Prompt;
use protocol::Seq;
use terminal::{Audience, Cursor, one_line, pick, safe, shorten, shown_path};

use crate::commands::chat::message::words;
use crate::commands::chat::{Chat, choose};
use crate::commands::compact::{in_effect, told_in_effect};
use crate::commands::threads;
use crate::exit::{Code, Failure};

/// Threads `/threads` lists where nobody can choose.
const THREADS_LISTED: usize = 20;
/// Messages `/rewind` offers.
const PROMPTS_OFFERED: usize = 100;

impl Chat {
    pub(super) async fn threads(&mut self, prefix: Option<&str>) -> Result<(), Failure> {
        let thread = match prefix {
            Some(prefix) => self.context.agent.threads().find(prefix).await?,
            None if self.context.screen.audience == Audience::Program => {
                return threads::list(&self.context, THREADS_LISTED).await;
            }
            None => match choose(&self.context, "Go on in").await? {
                Some(thread) => thread,
                None => return Ok(()),
            },
        };
        self.enter(thread).await
    }

    pub(super) async fn fork(&mut self, seq: Option<&str>) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let until = seq.map(number).transpose()?;
        let fork = self.context.agent.threads().fork(thread_id, until).await?;
        let id = self.context.short_id(fork.thread_id).await;
        self.say(&format!("You are in the copy, {id}; the thread it came from stays as it is."))?;
        self.go_to(Some(fork));
        Ok(())
    }

    /// Takes the thread back to before one of the person's messages, and puts that message into the next line.
    pub(super) async fn rewind(&mut self, seq: Option<&str>) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let prompts = self.context.agent.threads().prompts(thread_id, PROMPTS_OFFERED).await?;
        let chosen = match seq.map(number).transpose()? {
            Some(seq) => prompts.into_iter().find(|prompt| prompt.seq == seq).ok_or_else(|| {
                Failure::new(Code::User, format!("find a message of yours at event {seq}"))
                    .with_hint("/rewind without a number lists them")
            })?,
            None => match self.choose_prompt(prompts)? {
                Some(prompt) => prompt,
                None => return Ok(()),
            },
        };
        let before = in_effect(&self.context, thread_id).await;
        let done = self.context.agent.threads().rewind(thread_id, chosen.seq.saturating_sub(1)).await?;
        let after = in_effect(&self.context, thread_id).await;
        let thread = self.context.agent.threads().find(&thread_id.to_string()).await?;
        self.go_to(Some(thread));
        self.say(&format!(
            "Back before that message; {} out of sight, files stay as they are.",
            crate::commands::import::count(done.superseded, "message")
        ))?;
        if let Some(text) = told_in_effect(before, after) {
            self.say(&text)?;
        }
        let words = words(&chosen.text);
        if self.context.screen.cursor == Cursor::Fixed {
            self.say("It said:")?;
            self.context.screen.line(safe(&words))?;
        }
        self.lines.prefill(&words);
        Ok(())
    }

    fn choose_prompt(&self, mut prompts: Vec<Prompt>) -> Result<Option<Prompt>, Failure> {
        if prompts.is_empty() {
            self.say("There is no message of yours to go back to.")?;
            return Ok(None);
        }
        let columns = self.context.screen.columns.saturating_sub(4);
        let items = prompts.iter().map(|prompt| {
            let at = prompt.created_at.strftime("%m-%d %H:%M");
            shorten(&format!("#{} {at} {}", prompt.seq, one_line(&words(&prompt.text))), columns).into_owned()
        });
        let items: Vec<String> = items.collect();
        if self.context.screen.audience == Audience::Program {
            for item in items {
                self.context.screen.line(item)?;
            }
            self.say("/rewind SEQ goes back to before one of them.")?;
            return Ok(None);
        }
        Ok(pick(&self.context.screen, "Go back to before", items)?.map(|at| prompts.swap_remove(at)))
    }

    pub(super) async fn export(&self, file: Option<&str>) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let id = self.context.short_id(thread_id).await;
        let path = PathBuf::from(file.map_or_else(|| format!("segue-{id}.md"), str::to_owned));
        if path.exists() {
            return Err(Failure::new(Code::User, format!("write {}: it is there already", path.display()))
                .with_hint("/export FILE writes to another one"));
        }
        let thread = self.context.agent.threads().find(&thread_id.to_string()).await?;
        let entries = self.context.agent.threads().history(thread_id).await?;
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = match is_json {
            true => agent::export_json(&thread, entries)?,
            false => agent::export_markdown(&thread, &entries),
        };
        std::fs::write(&path, text).map_err(|error| {
            Failure::new(Code::User, format!("write {}: {error}", path.display()))
                .with_hint("name a file you can write")
        })?;
        self.say(&format!("Written to {}", shown_path(&path)))
    }
}

/// Reads the number of an event, with or without the `#` it is shown with.
///
/// # Errors
/// When it is none.
pub(super) fn number(text: &str) -> Result<Seq, Failure> {
    text.trim_start_matches('#').parse().map_err(|_| {
        Failure::new(Code::User, format!("read `{text}` as the number of an event"))
            .with_hint("/history shows the numbers, such as #12")
    })
}
