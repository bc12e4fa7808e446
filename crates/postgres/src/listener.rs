//! Notifications from the server (`LISTEN`/`NOTIFY`). The caller interprets their payloads.

use futures::StreamExt;
use futures::stream::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

use crate::target::CONNECT_TIMEOUT;
use crate::{DatabaseTarget, Error, Result, tls};

/// Maximum number of notifications buffered in this process. Further notifications stay in the connection and at the
/// server.
const BUFFERED_NOTIFICATIONS_MAX: usize = 4_096;

/// A connection that listens on one channel. Dropping it ends the connection.
pub struct NotificationListener {
    /// The payloads, in the order in which the server sent them.
    notifications: mpsc::Receiver<String>,
    /// The client. It is stored because dropping it closes the connection.
    _client: Client,
}

impl NotificationListener {
    /// Connects and executes `LISTEN` on a channel. `channel` must be an SQL identifier; it is not escaped.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the server cannot be reached within the connect timeout,
    /// [`Error::ConnectionRejected`] if it refuses the login.
    pub async fn open(target: &DatabaseTarget, channel: &str) -> Result<Self> {
        let limit = target.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let result = tokio::time::timeout(limit, Self::connect_and_listen(target, channel)).await;
        result.unwrap_or_else(|_| Err(Error::Unreachable(format!("no answer within {} s", limit.as_secs()))))
    }

    /// Connects, starts the task that forwards notifications, and executes `LISTEN`.
    async fn connect_and_listen(target: &DatabaseTarget, channel: &str) -> Result<Self> {
        let connector = tls::connector(&target.verification)?;
        let (client, mut connection) =
            target.config.connect(connector).await.map_err(Error::from_connect_error)?;
        let (sender, notifications) = mpsc::channel(BUFFERED_NOTIFICATIONS_MAX);
        tokio::spawn(async move {
            let mut messages = poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(notification) = message
                    && sender.send(notification.payload().to_owned()).await.is_err()
                {
                    return;
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.map_err(Error::from)?;
        Ok(Self { notifications, _client: client })
    }

    /// Waits for the next notification and returns its payload, or `None` if the connection is lost. The call is
    /// cancellation safe: cancelling it loses no notification.
    pub async fn next_notification(&mut self) -> Option<String> {
        self.notifications.recv().await
    }
}
