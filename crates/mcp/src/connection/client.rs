//! The client's handler for messages that a server sends on its own: progress notifications and changes of the tool
//! list. Requests of a server, such as sampling, are declined, because the client announces no capabilities.

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

/// Maximum number of characters of a progress message that are shown.
const MESSAGE_CHARS_MAX: usize = 200;

/// The client side of a session. Clones share their state.
#[derive(Clone, Default)]
pub(crate) struct ClientSession {
    /// The calls that subscribe to progress, by progress token. References are weak because a call may be dropped at
    /// any time, and its watch must not keep the frame stream open after that.
    watches: Arc<Mutex<HashMap<ProgressToken, Weak<ProgressWatch>>>>,
    /// True if the server announced a change of its tools and they were not listed again.
    tools_changed: Arc<AtomicBool>,
}

/// The subscription of a call to its progress notifications. It ends when the call drops it.
pub(crate) struct ProgressWatch {
    /// The stream to which progress is sent.
    pub frames: FrameSender,
    /// The label of the progress: `server/tool`.
    pub label: String,
    /// Notified of every progress notification, which restarts the call's timeout.
    pub activity: Notify,
}

impl ClientSession {
    /// Sends a request and subscribes `watch` to its progress notifications.
    ///
    /// # Errors
    /// Returns the error of the transport if the request cannot be sent.
    pub async fn send_watched(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
        watch: &Arc<ProgressWatch>,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        // The lock is held until the token is registered, so that an early progress notification waits for it.
        let mut watches = self.watches.lock().await;
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        watches.retain(|_, watch| watch.strong_count() > 0);
        watches.insert(handle.progress_token.clone(), Arc::downgrade(watch));
        Ok(handle)
    }

    /// Returns whether the server announced a change of its tools since the last call of this function, and resets the
    /// flag.
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

/// Returns the integer part of a number. Negative numbers and NaN become 0, and numbers above the range its maximum.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is meant"
)]
fn saturating_integer(number: f64) -> u64 {
    number as u64
}
