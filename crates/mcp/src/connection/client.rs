//! What a server may ask of us and tell us beside its answers: progress of a call, and that its tools changed. Every
//! request it makes is declined.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{ClientHandler, Peer, RoleClient};
use runtime::{Frame, Frames};
use tokio::sync::{Mutex, Notify};

use crate::tool::spec::inert;

/// The most characters of a progress message that are shown.
const MESSAGE_CHARS_MAX: usize = 200;

/// Our side of a connection.
#[derive(Clone, Default)]
pub(crate) struct Client {
    watches: Arc<Mutex<HashMap<ProgressToken, Watch>>>,
    tools_changed: Arc<AtomicBool>,
}

/// Who is told of the progress of a call.
#[derive(Clone)]
pub(crate) struct Watch {
    /// Where it is shown.
    pub frames: Frames,
    /// The server and the tool.
    pub what: String,
    /// Told of every sign of life.
    pub beat: Arc<Notify>,
}

impl Client {
    /// Sends a request whose progress `watch` is told of.
    pub async fn send(
        &self,
        peer: &Peer<RoleClient>,
        request: ClientRequest,
        watch: Watch,
    ) -> Result<RequestHandle<RoleClient>, ServiceError> {
        // Held until the token is known, so that no progress comes too early for it.
        let mut watches = self.watches.lock().await;
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        watches.insert(handle.progress_token.clone(), watch);
        Ok(handle)
    }

    /// Ends the watch over a request.
    pub async fn forget(&self, token: &ProgressToken) {
        self.watches.lock().await.remove(token);
    }

    /// Returns whether the server said that its tools changed since this was asked last.
    pub fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::AcqRel)
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let segue = Implementation::new("segue", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), segue)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let watches = self.watches.lock().await;
        let Some(watch) = watches.get(&progress.progress_token) else { return };
        watch.beat.notify_one();
        let what = match &progress.message {
            Some(message) => {
                let message: String = inert(message).chars().take(MESSAGE_CHARS_MAX).collect();
                format!("{}: {}", watch.what, message.replace(char::is_control, " "))
            }
            None => watch.what.clone(),
        };
        let total = progress.total.map(whole);
        watch.frames.send(Frame::Progress { what, done: whole(progress.progress), total });
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
fn whole(number: f64) -> u64 {
    number as u64
}
