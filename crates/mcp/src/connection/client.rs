//! The client side of the protocol apart from answers: progress notifications and changes of the tool list. Every request
//! of a server is declined.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use model::untrusted_text;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{ClientHandler, Peer, RoleClient};
use runtime::{Frame, FrameSender};
use tokio::sync::{Mutex, Notify};

/// The most characters of a progress message that are shown.
const MESSAGE_CHARS_MAX: usize = 200;

/// Our side of a connection.
#[derive(Clone, Default)]
pub(crate) struct ClientSession {
    /// Weak, for a call may be dropped at any time, and a watch must not keep its stream open after that.
    watches: Arc<Mutex<HashMap<ProgressToken, Weak<ProgressWatch>>>>,
    tools_changed: Arc<AtomicBool>,
}

/// Subscribes a call to its progress notifications for as long as the call holds it.
pub(crate) struct ProgressWatch {
    /// Where it is shown.
    pub frames: FrameSender,
    /// The server and the tool.
    pub label: String,
    /// Told of every sign of life.
    pub activity: Notify,
}

impl ClientSession {
    /// Sends a request whose progress `watch` is told of.
    pub async fn send_watched(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
        watch: &Arc<ProgressWatch>,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        // Held until the token is known, so that no progress comes too early for it.
        let mut watches = self.watches.lock().await;
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        watches.retain(|_, watch| watch.strong_count() > 0);
        watches.insert(handle.progress_token.clone(), Arc::downgrade(watch));
        Ok(handle)
    }

    /// Returns whether the server said that its tools changed since this was asked last.
    pub fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::AcqRel)
    }
}

impl ClientHandler for ClientSession {
    fn get_info(&self) -> ClientConfig {
        let segue = Implementation::new("segue", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), segue)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let watch = self.watches.lock().await.get(&progress.progress_token).and_then(Weak::upgrade);
        let Some(watch) = watch else { return };
        watch.activity.notify_one();
        let what = match &progress.message {
            Some(message) => {
                let message: String =
                    untrusted_text::neutralize_line(message).chars().take(MESSAGE_CHARS_MAX).collect();
                format!("{}: {message}", watch.label)
            }
            None => watch.label.clone(),
        };
        let total = progress.total.map(saturating_integer);
        watch.frames.send(Frame::Progress { what, done: saturating_integer(progress.progress), total });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.store(true, Ordering::Release);
    }
}

/// Returns the number without its fraction; what is no number of things is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is meant"
)]
fn saturating_integer(number: f64) -> u64 {
    number as u64
}
