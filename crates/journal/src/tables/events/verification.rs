//! Comparison of stored events with their checksums, in the order in which they were stored or in the opposite order. A
//! caller verifies the journal batch by batch, so that it can report progress, stop, and let other work go first.

use super::checksums::{COLUMNS, EventColumns};
use crate::engines::sql::SqlConnection;
use crate::tables::check_page_limit;
use crate::tables::columns::{encode_counter, read_column};
use crate::{DamageReport, DamagedEvent, Error, EventVerification, Result, VerificationPosition};

/// Number of events that [`verify_all`] reads at once.
const BATCH_EVENTS: usize = 500;

/// Verifies at most `limit` events from a position on.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn verify_batch(
    db: &SqlConnection,
    position: VerificationPosition,
    limit: usize,
) -> Result<EventVerification> {
    use VerificationPosition::{After, Before};
    let (After(bound) | Before(bound)) = position;
    let limit_parameter = check_page_limit("events to verify", limit)?;
    let mut verification = EventVerification::default();
    let mut last = None;
    let mut statement = db.prepare(&batch_sql(position))?;
    let results = statement.query_map((encode_counter(bound), limit_parameter), |row| {
        let (thread_id, event_row) = (read_column(row, "thread_id")?, row.get::<_, i64>("event_row")?);
        let stored = EventColumns::read_unverified(row, thread_id).and_then(|(columns, checksum)| {
            let is_equal = checksum.map(|checksum| checksum == columns.checksum(thread_id));
            let seq = columns.seq;
            columns.into_event(thread_id).map(|_| (seq, is_equal))
        });
        last = Some(event_row.unsigned_abs());
        match stored {
            Ok((_, Some(true))) => Ok(None),
            Ok((_, None)) => {
                verification.unchecked += 1;
                Ok(None)
            }
            Ok((seq, Some(false))) => Ok(Some(DamagedEvent { thread_id, seq })),
            Err(Error::DamagedEvent { thread_id, seq }) => Ok(Some(DamagedEvent { thread_id, seq })),
            Err(error) => Err(error),
        }
    })?;
    verification.events = results.len() as u64;
    verification.next = last.filter(|_| results.len() == limit).map(|row| match position {
        After(_) => After(row),
        Before(_) => Before(row),
    });
    verification.damaged = results.into_iter().flatten().collect();
    Ok(verification)
}

/// Compares all events with their checksums.
pub(crate) fn verify_all(db: &SqlConnection) -> Result<DamageReport> {
    let mut report = DamageReport::default();
    let mut position = Some(VerificationPosition::OLDEST);
    while let Some(current) = position {
        let batch = verify_batch(db, current, BATCH_EVENTS)?;
        report.add_batch(&batch);
        position = batch.next;
    }
    Ok(report)
}

/// Returns the statement for the events after or before the row `$1`, at most `$2`. The events are the outer table, because
/// only then are they read in the order of their rows.
fn batch_sql(position: VerificationPosition) -> String {
    let (comparison, direction) = match position {
        VerificationPosition::After(_) => (">", "ASC"),
        VerificationPosition::Before(_) => ("<", "DESC"),
    };
    format!(
        "SELECT {COLUMNS}, h.thread_id, e.event_row FROM events e CROSS JOIN thread_heads h
         WHERE h.thread_key = e.thread_key AND e.event_row {comparison} $1
         ORDER BY e.event_row {direction} LIMIT $2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;

    #[test]
    fn events_are_verified_in_the_order_of_their_rows() {
        for (position, bound) in
            [(VerificationPosition::OLDEST, "rowid>?"), (VerificationPosition::NEWEST, "rowid<?")]
        {
            let events = format!("SEARCH e USING INTEGER PRIMARY KEY ({bound})");
            let heads = "SEARCH h USING INTEGER PRIMARY KEY (rowid=?)".to_owned();
            assert_eq!(query_plan(&batch_sql(position)), [events, heads]);
        }
    }
}
