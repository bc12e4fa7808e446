//! The chat's commands about threads: `/threads`, `/fork`, `/rewind` and `/export`.
//! The crate `agent` checks the rules, such as at which events a thread can be forked or rewound.

use std::path::PathBuf;

use agent::UserPrompt;
use protocol::Seq;
use terminal::{Audience, CursorMode, pick, sanitize, sanitize_line, sanitize_path, shorten};

use crate::commands::chat::message_draft::strip_attachments;
use crate::commands::chat::{ChatSession, choose_thread};
use crate::commands::compact::{active_compaction, active_compaction_change_text};
use crate::commands::threads::{self, format_of_file, write_export_file};
use crate::exit::{CliFailure, ExitReason};

/// The most threads that `/threads` lists if the input is a pipe.
const THREADS_LISTED: usize = 20;
/// The most messages that `/rewind` offers.
const PROMPTS_OFFERED: usize = 100;

impl ChatSession {
    /// Performs `/threads`: continues another thread. Without an id, the user chooses a thread; if the input is a pipe,
    /// the threads are listed instead.
    ///
    /// # Errors
    /// Fails if no thread has this id, or if the journal cannot be read.
    pub(super) async fn resume_thread(&mut self, prefix: Option<&str>) -> Result<(), CliFailure> {
        let thread = match prefix {
            Some(prefix) => self.context.agent.threads().find(prefix).await?,
            None if self.context.screen.audience == Audience::Program => {
                return threads::list_threads(&self.context, THREADS_LISTED).await;
            }
            None => match choose_thread(&self.context, "Continue").await? {
                Some(thread) => thread,
                None => return Ok(()),
            },
        };
        self.enter_thread(thread).await
    }

    /// Performs `/fork`: copies the current thread up to an event, and continues in the copy.
    ///
    /// # Errors
    /// Fails if `seq` is not a number, or if the thread cannot be forked at this event.
    pub(super) async fn fork_thread(&mut self, seq: Option<&str>) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let until = seq.map(parse_event_seq).transpose()?;
        let fork = self.context.agent.threads().fork(thread_id, until).await?;
        let id = self.context.short_id(fork.thread_id).await;
        self.print_info(&format!("You are in the copy, {id}; the original thread does not change."))?;
        self.switch_thread(Some(fork));
        Ok(())
    }

    /// Performs `/rewind`: rewinds the current thread to the state before one of the user's messages, and puts that
    /// message into the input line for editing. Without a number, the user chooses the message.
    ///
    /// # Errors
    /// Fails if no message of the user is at this event, or if the thread cannot be rewound, for example while a run is
    /// active.
    pub(super) async fn rewind_thread(&mut self, seq: Option<&str>) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let prompts = self.context.agent.threads().prompts(thread_id, PROMPTS_OFFERED).await?;
        let chosen = match seq.map(parse_event_seq).transpose()? {
            Some(seq) => prompts.into_iter().find(|prompt| prompt.seq == seq).ok_or_else(|| {
                CliFailure::new(ExitReason::User, format!("find a message of yours at event {seq}"))
                    .with_hint("/rewind without a number lists them")
            })?,
            None => match self.choose_prompt(prompts)? {
                Some(prompt) => prompt,
                None => return Ok(()),
            },
        };
        let before = active_compaction(&self.context, thread_id).await;
        let rewind = self.context.agent.threads().rewind(thread_id, chosen.seq.saturating_sub(1)).await?;
        let after = active_compaction(&self.context, thread_id).await;
        let thread = self.context.agent.threads().find(&thread_id.to_string()).await?;
        self.switch_thread(Some(thread));
        self.print_info(&format!(
            "The thread is rewound to before that message; {} hidden. Files were not changed.",
            crate::commands::import::format_count(rewind.superseded, "message")
        ))?;
        if let Some(text) = active_compaction_change_text(before, after) {
            self.print_info(&text)?;
        }
        let text = strip_attachments(&chosen.text);
        if self.context.screen.cursor == CursorMode::Fixed {
            // The input line of such a terminal cannot be prefilled, so the text is printed.
            self.print_info("The message was:")?;
            self.context.screen.print_line(sanitize(&text))?;
        }
        self.input.prefill(&text);
        Ok(())
    }

    /// Asks the user to choose one of their messages; `None` if there are no messages or the user chooses none. If the
    /// input is a pipe, the messages are listed instead.
    fn choose_prompt(&self, mut prompts: Vec<UserPrompt>) -> Result<Option<UserPrompt>, CliFailure> {
        if prompts.is_empty() {
            self.print_info("You have no messages in this thread.")?;
            return Ok(None);
        }
        let columns = self.context.screen.columns.saturating_sub(4);
        let items = prompts.iter().map(|prompt| {
            let time = prompt.created_at.strftime("%m-%d %H:%M");
            let text = sanitize_line(&strip_attachments(&prompt.text));
            shorten(&format!("#{} {time} {text}", prompt.seq), columns).into_owned()
        });
        let items: Vec<String> = items.collect();
        if self.context.screen.audience == Audience::Program {
            for item in items {
                self.context.screen.print_line(item)?;
            }
            self.print_info("/rewind SEQ rewinds to before one of them.")?;
            return Ok(None);
        }
        Ok(pick(&self.context.screen, "Rewind to before", items)?.map(|index| prompts.swap_remove(index)))
    }

    /// Performs `/export`: writes the current thread to a file that does not exist yet, by default `segue-ID.md`.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be written.
    pub(super) async fn export_thread(&self, file: Option<&str>) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let id = self.context.short_id(thread_id).await;
        let path = PathBuf::from(file.map_or_else(|| format!("segue-{id}.md"), str::to_owned));
        if path.exists() {
            return Err(CliFailure::new(
                ExitReason::User,
                format!("write {}: the file exists", path.display()),
            )
            .with_hint("/export FILE writes to another file"));
        }
        let thread = self.context.agent.threads().find(&thread_id.to_string()).await?;
        let export = self.context.agent.threads().export(&thread, format_of_file(&path)).await?;
        write_export_file(export, &path).await?;
        self.print_info(&format!("Written to {}", sanitize_path(&path)))
    }
}

/// Parses the number of an event, with or without a leading `#`.
///
/// # Errors
/// Fails if the text is not a number.
pub(super) fn parse_event_seq(text: &str) -> Result<Seq, CliFailure> {
    text.trim_start_matches('#').parse().map_err(|_| {
        CliFailure::new(ExitReason::User, format!("read `{text}` as the number of an event"))
            .with_hint("/history shows the numbers, such as #12")
    })
}
