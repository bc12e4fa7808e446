//! News from the server: what is told on a channel. What it means is the caller's matter.

use futures::StreamExt;
use futures::stream::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

use crate::target::CONNECT_TIMEOUT;
use crate::{Error, Result, Target, tls};

/// News that may wait here; more wait at the server.
const NEWS_MAX: usize = 4_096;

/// A connection that listens.
pub struct Listener {
    news: mpsc::Receiver<String>,
    /// It listens as long as this is there.
    _client: Client,
}

impl Listener {
    /// Connects and listens on a channel; its name is an identifier of SQL.
    ///
    /// # Errors
    /// When the server cannot be reached or entered.
    pub async fn open(target: &Target, channel: &str) -> Result<Self> {
        let limit = target.config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        let listening = tokio::time::timeout(limit, Self::listening(target, channel)).await;
        listening
            .unwrap_or_else(|_| Err(Error::Unreachable(format!("no answer within {} s", limit.as_secs()))))
    }

    async fn listening(target: &Target, channel: &str) -> Result<Self> {
        let connector = tls::connector(&target.verification)?;
        let (client, mut connection) =
            target.config.connect(connector).await.map_err(Error::of_connecting)?;
        let (sender, news) = mpsc::channel(NEWS_MAX);
        tokio::spawn(async move {
            let mut messages = poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(told) = message
                    && sender.send(told.payload().to_owned()).await.is_err()
                {
                    return;
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.map_err(Error::from)?;
        Ok(Self { news, _client: client })
    }

    /// Waits for the next news; `None` when the connection is lost.
    pub async fn next(&mut self) -> Option<String> {
        self.news.recv().await
    }
}
