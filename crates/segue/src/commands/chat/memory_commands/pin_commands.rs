//! The chat's commands about pins: `/pin`, `/pins` and `/unpin`.

use agent::PinRequest;

use crate::commands::chat::ChatSession;
use crate::commands::history::search::CommandSyntax;
use crate::commands::memory::pins;
use crate::exit::{CliFailure, ExitReason};

impl ChatSession {
    /// Performs `/pin TEXT` and `/pin #NUMBER`: pins a text or a message of the current thread. Creates the thread if there
    /// is none. Without an argument, the pins are listed.
    pub(in crate::commands::chat) async fn run_pin(&mut self, arguments: &str) -> Result<(), CliFailure> {
        if arguments.is_empty() {
            return self.run_pins().await;
        }
        let request = PinRequest::from_text(arguments);
        let thread_id = match (&self.thread, &request) {
            (Some(thread), _) => thread.thread_id,
            (None, PinRequest::Message(_)) => return self.current_thread_id().map(drop),
            (None, PinRequest::Text(_)) => {
                let created = self.context.agent.threads().create(None).await?;
                self.thread.insert(created).thread_id
            }
        };
        let receipt = self.context.agent.memory().pin(thread_id, &request).await?;
        self.is_status_stale = true;
        pins::print_pin_receipt(&self.context.screen, &receipt)
    }

    /// Performs `/pins`: lists the pins of the current thread.
    pub(in crate::commands::chat) async fn run_pins(&self) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        pins::list_pins(&self.context, thread_id, CommandSyntax::Chat).await.map(drop)
    }

    /// Performs `/unpin N`: removes a pin of the current thread.
    pub(in crate::commands::chat) async fn run_unpin(
        &mut self,
        number: Option<&str>,
    ) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let number = number.and_then(|text| text.parse().ok()).ok_or_else(|| {
            CliFailure::new(ExitReason::User, "unpin: no number was given")
                .with_hint("/unpin N removes pin N; /pins lists the pins")
        })?;
        let receipt = self.context.agent.memory().unpin(thread_id, number).await?;
        self.is_status_stale = true;
        pins::print_unpin_receipt(&self.context.screen, &receipt)
    }
}
