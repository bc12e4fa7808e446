//! A connection with a write timeout: it fails if its client reads nothing for too long. Without the timeout, a client
//! that does not read would hold the response, and the memory and permits that it needs, for an unlimited time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Maximum time for which a write may make no progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection whose writes fail after [`WRITE_TIMEOUT`] without progress.
pub(super) struct WriteTimeoutStream<T> {
    /// The wrapped connection.
    stream: T,
    /// The time at which the pending write fails. Only meaningful while `is_stalled` is true.
    deadline: Pin<Box<Sleep>>,
    /// True if the last write or flush returned pending.
    is_stalled: bool,
}

impl<T> WriteTimeoutStream<T> {
    /// Wraps a connection.
    pub(super) fn new(stream: T) -> Self {
        Self { stream, deadline: Box::pin(tokio::time::sleep(WRITE_TIMEOUT)), is_stalled: false }
    }

    /// Returns the result of a write or flush, or an error if it is pending and the deadline has passed.
    ///
    /// The deadline is set by the first pending result after a completed write. Pauses between two writes are therefore
    /// not limited: a stream may be idle.
    fn check_stalled<R>(
        &mut self,
        sent: Poll<io::Result<R>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<R>> {
        if sent.is_ready() {
            self.is_stalled = false;
            return sent;
        }
        if !std::mem::replace(&mut self.is_stalled, true) {
            self.deadline.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        ready!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read the response")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stalled(sent, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.check_stalled(sent, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stalled(sent, context)
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
    async fn i6_a_client_that_reads_nothing_is_disconnected_and_a_slow_one_is_not() {
        let (mut client, server) = tokio::io::duplex(4);
        let mut server = WriteTimeoutStream::new(server);
        let slow = tokio::spawn(async move {
            let mut buffer = [0; 4];
            for _ in 0..3 {
                tokio::time::sleep(WRITE_TIMEOUT / 2).await;
                client.read_exact(&mut buffer).await.unwrap();
            }
            client
        });
        // Pauses between two writes do not count.
        server.write_all(&[0; 8]).await.unwrap();
        tokio::time::sleep(2 * WRITE_TIMEOUT).await;
        server.write_all(&[0; 8]).await.unwrap();
        let _client = slow.await.unwrap();
        let started_at = Instant::now();
        let error = server.write_all(&[0; 8]).await.unwrap_err();
        assert_eq!((error.kind(), started_at.elapsed()), (io::ErrorKind::TimedOut, WRITE_TIMEOUT));
    }
}
