//! Who is told of what a program does, beside who asked for it: where traces are sent, and the hooks of the configuration. What they are
//! told is not decided here.

use std::sync::OnceLock;
use std::time::Duration;

use agent::{Agent, Hooks, Traces};
use terminal::signals::Signals;
use terminal::{Screen, one_line};

/// How long the end of a program waits for its traces to be sent.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long hooks are waited for before a person is told.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Those who watch. A program opens one agent; were there another, the first one's are told.
#[derive(Default)]
pub(crate) struct Watching {
    traces: OnceLock<Traces>,
    hooks: OnceLock<Hooks>,
}

impl Watching {
    /// Has what the agent does told from here on.
    ///
    /// # Errors
    /// When traces cannot be sent where they should be; hooks are told all the same.
    pub(crate) fn begin(&self, agent: &Agent) -> agent::Result<()> {
        self.tell_hooks(agent);
        if let Some(traces) = agent.admin().send_traces()? {
            let _ = self.traces.set(traces);
        }
        Ok(())
    }

    /// The same for a server, which also counts what it does.
    pub(crate) fn begin_to_serve(&self, agent: &Agent) {
        self.tell_hooks(agent);
        if let Some(traces) = agent.admin().send_traces_and_count() {
            let _ = self.traces.set(traces);
        }
    }

    fn tell_hooks(&self, agent: &Agent) {
        if let Some(hooks) = agent.admin().tell_hooks() {
            let _ = self.hooks.set(hooks);
        }
    }

    /// Waits until everyone was told of what was done, for a while at most; a signal ends the waiting for hooks.
    pub(crate) async fn finish(&self, screen: &Screen) {
        if let Some(hooks) = self.hooks.get() {
            match Signals::take() {
                Ok(mut signals) => hooks.finish(patience(hooks, screen, &mut signals)).await,
                // Nothing but their time ends it then.
                Err(_) => hooks.finish(std::future::pending()).await,
            }
        }
        if let Some(traces) = self.traces.get() {
            traces.flush(FLUSH_WAIT_MAX).await;
        }
    }

    /// Tells the person which hooks were not told of something since the last time.
    pub(crate) fn tell(&self, screen: &Screen) {
        for missed in self.hooks.get().map(Hooks::missed).unwrap_or_default() {
            let (name, occasion) = (one_line(&missed.hook), missed.occasion.as_str());
            let reason = one_line(&missed.reason);
            screen.note(
                screen.style.warn(format!("hook `{name}` was not told of {occasion}: failed to {reason}")),
            );
        }
    }
}

/// Tells a person what is waited for when it takes its time, and returns at the next signal.
async fn patience(hooks: &Hooks, screen: &Screen, signals: &mut Signals) {
    let telling = async {
        tokio::time::sleep(TOLD_AFTER).await;
        if let owed @ 1.. = hooks.owed() {
            let calls = if owed == 1 { "a call".to_owned() } else { format!("{owed} calls") };
            screen.note(screen.style.dim(format!("Waiting for {calls} of hooks. Ctrl-C goes on without.")));
        }
        std::future::pending().await
    };
    tokio::select! {
        () = telling => {}
        () = signals.next() => {}
    }
}
