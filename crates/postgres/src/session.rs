//! Opens and prepares a session: the settings that every session has, and the server incarnation that it belongs to.

use std::sync::Arc;

use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::DatabaseTarget;

/// Settings of every session.
///
/// - `synchronous_commit` is switched on where the server has it off, so that a committed transaction survives a
///   power failure of the server.
/// - The timeouts bound the wait for a lock, and end the transaction of a process that was stopped in the middle of
///   it, which releases its locks.
/// - `force_generic_plan` plans each statement once. Every statement filters by indexed columns, and planning it at
///   each execution would take longer than executing it.
const SESSION_SETUP_SQL: &str = "SET statement_timeout = '60s'; SET lock_timeout = '20s'; \
    SET idle_in_transaction_session_timeout = '10s'; SET TimeZone = 'UTC'; SET extra_float_digits = 3; \
    SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
/// Query for the time of the server's last statistics reset. It identifies a server incarnation, because the
/// statistics restart when the server recovers from a crash, and only then.
const SERVER_INCARNATION_SQL: &str = "SELECT stats_reset::text FROM pg_stat_bgwriter";

/// Connects, prepares the session, and returns the client with the identity of the server incarnation.
pub(crate) async fn connect(
    target: &DatabaseTarget,
    connector: MakeRustlsConnect,
) -> Result<(Client, Arc<str>), tokio_postgres::Error> {
    let (client, connection) = target.config.connect(connector).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    });
    let messages = client.simple_query(&format!("{SESSION_SETUP_SQL}; {SERVER_INCARNATION_SQL}")).await?;
    let incarnation = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(row.len().saturating_sub(1)),
        _ => None,
    });
    let incarnation = incarnation.last().unwrap_or_default().into();
    Ok((client, incarnation))
}
