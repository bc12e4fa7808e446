//! The observers of a program's runs: the trace export and the user hooks of the configuration. The crate `agent`
//! decides which events they receive.

use std::sync::OnceLock;
use std::time::Duration;

use agent::{Agent, HookDispatcher, TraceExport};
use terminal::signals::SignalReceiver;
use terminal::{Screen, sanitize_line};

/// The longest time that the program waits at its end for pending traces to be exported. An unreachable collector must
/// not delay a command noticeably.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(3);

/// The time that the program waits for hooks before it prints a notice about the wait.
const NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The observers of the program. A program opens one agent; if it opened a second one, the observers of the first would
/// remain.
#[derive(Default)]
pub(crate) struct RunObservers {
    /// The trace export, if it is configured and was started.
    traces: OnceLock<TraceExport>,
    /// The user hooks, if any are configured.
    hooks: OnceLock<HookDispatcher>,
}

impl RunObservers {
    /// Starts the user hooks and the trace export of an agent.
    ///
    /// # Errors
    /// Fails if the trace export cannot start. The hooks run anyway.
    pub(crate) fn start(&self, agent: &Agent) -> agent::Result<()> {
        self.start_hooks(agent);
        if let Some(traces) = agent.admin().start_trace_export()? {
            let _ = self.traces.set(traces);
        }
        Ok(())
    }

    /// Starts the user hooks and the trace export of a server, which also exports metrics.
    pub(crate) fn start_for_server(&self, agent: &Agent) {
        self.start_hooks(agent);
        if let Some(traces) = agent.admin().start_trace_export_with_metrics() {
            let _ = self.traces.set(traces);
        }
    }

    /// Starts the user hooks, if any are configured.
    fn start_hooks(&self, agent: &Agent) {
        if let Some(hooks) = agent.admin().start_user_hooks() {
            let _ = self.hooks.set(hooks);
        }
    }

    /// Waits until all hooks were called and all traces were exported. A signal ends the wait for hooks, and
    /// [`FLUSH_WAIT_MAX`] limits the wait for traces.
    pub(crate) async fn finish(&self, screen: &Screen) {
        if let Some(hooks) = self.hooks.get() {
            match SignalReceiver::subscribe() {
                Ok(mut signals) => hooks.finish_calls(wait_with_notice(hooks, screen, &mut signals)).await,
                // Without signals, only the time limits of the hooks end the wait.
                Err(_) => hooks.finish_calls(std::future::pending()).await,
            }
        }
        if let Some(traces) = self.traces.get() {
            traces.flush(FLUSH_WAIT_MAX).await;
        }
    }

    /// Prints a warning for each hook call that failed since the last report.
    pub(crate) fn report_missed_hooks(&self, screen: &Screen) {
        for missed in self.hooks.get().map(HookDispatcher::take_missed).unwrap_or_default() {
            let (name, event) = (sanitize_line(&missed.hook), missed.event.as_str());
            let reason = sanitize_line(&missed.reason);
            screen.print_to_stderr(
                screen.style.warn(format!("hook `{name}` did not get {event}: failed to {reason}")),
            );
        }
    }
}

/// Waits for the next signal. After [`NOTICE_DELAY`], prints the number of pending hook calls.
async fn wait_with_notice(hooks: &HookDispatcher, screen: &Screen, signals: &mut SignalReceiver) {
    let notice = async {
        tokio::time::sleep(NOTICE_DELAY).await;
        if let pending @ 1.. = hooks.pending_calls() {
            let calls = if pending == 1 { "1 hook".to_owned() } else { format!("{pending} hooks") };
            screen.print_to_stderr(
                screen.style.dim(format!("Waiting for {calls}. Press Ctrl-C to stop waiting.")),
            );
        }
        std::future::pending().await
    };
    tokio::select! {
        () = notice => {}
        () = signals.recv() => {}
    }
}
