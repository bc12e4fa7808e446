//! A connection that is given up when its client takes nothing for long: what is to be sent would be held for ever, and with
//! it whatever it is made from.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a client may take nothing of what is sent to it.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// A connection.
pub(super) struct Patient<T> {
    stream: T,
    /// When it is given up, since it takes nothing.
    until: Pin<Box<Sleep>>,
    takes_nothing: bool,
}

impl<T> Patient<T> {
    pub(super) fn new(stream: T) -> Self {
        Self { stream, until: Box::pin(tokio::time::sleep(TAKEN_WITHIN)), takes_nothing: false }
    }

    fn look<R>(&mut self, sent: Poll<io::Result<R>>, context: &mut Context<'_>) -> Poll<io::Result<R>> {
        if sent.is_ready() {
            self.takes_nothing = false;
            return sent;
        }
        if !std::mem::replace(&mut self.takes_nothing, true) {
            self.until.as_mut().reset(Instant::now() + TAKEN_WITHIN);
        }
        ready!(self.until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.look(sent, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.look(sent, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.look(sent, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn i6_a_client_is_given_up_that_takes_nothing_and_not_one_that_is_slow() {
        let (mut client, server) = tokio::io::duplex(4);
        let mut server = Patient::new(server);
        let slow = tokio::spawn(async move {
            let mut taken = [0; 4];
            for _ in 0..3 {
                tokio::time::sleep(TAKEN_WITHIN / 2).await;
                client.read_exact(&mut taken).await.unwrap();
            }
            client
        });
        // Between two pieces nothing may be sent for as long as one likes.
        server.write_all(&[0; 8]).await.unwrap();
        tokio::time::sleep(2 * TAKEN_WITHIN).await;
        server.write_all(&[0; 8]).await.unwrap();
        let _client = slow.await.unwrap();
        let begun = Instant::now();
        let given_up = server.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!((given_up.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, TAKEN_WITHIN));
    }
}
