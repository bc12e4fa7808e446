//! The guard of changes of a thread's pins. The pins themselves are the content of the newest `pins_changed` event.

use protocol::{EventType, Seq, ThreadId};

use super::thread_page;
use crate::engines::sql::SqlConnection;
use crate::tables::threads;
use crate::{Error, EventQuery, Result};

/// Fails with [`Error::Conflict`] unless `expected` is the newest visible change of the pins of a thread.
pub(crate) fn expect_pins(db: &SqlConnection, thread_id: ThreadId, expected: Option<Seq>) -> Result<()> {
    threads::load_head(db, thread_id)?;
    let query = EventQuery { types: vec![EventType::PinsChanged], limit: 1, ..EventQuery::default() };
    let newest = thread_page(db, thread_id, &query)?.pop().map(|event| event.seq);
    match newest == expected {
        true => Ok(()),
        false => Err(Error::Conflict { what: "pins of the thread", id: thread_id.to_string() }),
    }
}
