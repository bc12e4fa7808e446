//! The export ("mirror" on the wire) of accepted handoffs to PostgreSQL, for front ends: its settings,
//! reports, flushing, the doctor's check, and how long an ending program waits for it. The `handoff` crate
//! writes the rows.

use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

use handoff::mirror::{MirrorDelivery, MirrorReport, MirrorRowCounts, MirrorStatus, SummaryMirror};
use journal::{PoolStatistics, Store};

use crate::AgentSettings;
use crate::HandoffService;
use crate::Result;
use crate::admin::doctor::{CheckStatus, DoctorCheck};
use crate::home::config::ConfigFile;
use crate::home::database::DatabaseAddress;

/// The environment variable with the export's URL. It precedes `config.toml`.
const MIRROR_URL_VARIABLE: &str = "SEGUE_MIRROR_URL";

/// The name of the check in `segue doctor`.
const MIRROR_CHECK_NAME: &str = "mirror";

/// The longest time that a program waits at its end for rows that are being sent.
const MIRROR_WAIT_MAX: Duration = Duration::from_millis(500);
/// The longest time that a program waits at its end if the export is degraded.
const DEGRADED_MIRROR_WAIT_MAX: Duration = Duration::from_millis(100);

/// Returns the export to the database that the environment or the configuration names. Without either, a
/// journal on a server is also the target of the export, and for a journal in a file the export is off.
///
/// # Errors
/// Fails if the URL is invalid.
pub(crate) fn open_mirror(
    config: &ConfigFile,
    agent: &AgentSettings,
    store: Arc<dyn Store>,
) -> Result<SummaryMirror> {
    let mut settings = config.mirror.clone();
    if let Some(url) = agent.environment.variable(MIRROR_URL_VARIABLE) {
        settings.url = Some(url.into());
    }
    let journal_url = agent.database.as_ref().and_then(DatabaseAddress::server_url);
    Ok(SummaryMirror::new(&settings, journal_url, store)?)
}

impl<'a> HandoffService<'a> {
    /// Returns the state of the export. Reads only the journal.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn mirror_report(self) -> BoxFuture<'a, Result<MirrorReport>> {
        journal::box_future(async move { Ok(self.agent.mirror.report().await?) })
    }

    /// Counts the rows of the export table, and creates a missing table. `None` if the export is off.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or used.
    pub fn mirror_rows(self) -> BoxFuture<'a, Result<Option<MirrorRowCounts>>> {
        journal::box_future(async move { Ok(self.agent.mirror.count_rows().await?) })
    }

    /// Returns the statistics of the export's connection pool; `None` if there is no pool.
    pub fn mirror_connection_metrics(self) -> Option<PoolStatistics> {
        self.agent.mirror.pool_metrics()
    }

    /// Sends all queued rows of all owners. Calls `on_batch` with the total number of sent rows after each
    /// batch.
    ///
    /// # Errors
    /// Fails with the error of the last attempt. Batches sent before it stay sent.
    pub fn flush_mirror(
        self,
        on_batch: &'a mut (dyn FnMut(u64) + Send),
    ) -> BoxFuture<'a, Result<MirrorDelivery>> {
        journal::box_future(async move { Ok(self.agent.mirror.flush(on_batch).await?) })
    }

    /// Checks the export for `segue doctor`; `None` if the export is off.
    pub(crate) async fn mirror_check(self) -> Option<DoctorCheck> {
        let report = match self.agent.mirror.report().await {
            Ok(report) if report.status == MirrorStatus::Off => return None,
            Ok(report) => report,
            Err(error) => {
                return Some(DoctorCheck::new(
                    MIRROR_CHECK_NAME,
                    CheckStatus::Fail,
                    format!("failed to {error}"),
                ));
            }
        };
        let status = format!(
            "{}: handoff_store_status={}, pending rows: {}",
            report.location.unwrap_or_default(),
            report.status.as_str(),
            report.waiting
        );
        Some(match (self.agent.mirror.count_rows().await, report.status) {
            (Err(error), _) => {
                DoctorCheck::new(MIRROR_CHECK_NAME, CheckStatus::Warn, format!("{status}; failed to {error}"))
                    .with_hint(error.hint())
            }
            (Ok(_), MirrorStatus::Degraded) => DoctorCheck::new(MIRROR_CHECK_NAME, CheckStatus::Warn, status)
                .with_hint("it can be reached again: `segue handoff export flush` sends the queued rows"),
            (Ok(rows), MirrorStatus::Ok | MirrorStatus::Off) => {
                let rows = rows.unwrap_or_default().summaries;
                DoctorCheck::new(
                    MIRROR_CHECK_NAME,
                    CheckStatus::Ok,
                    format!("{status}, exported summaries: {rows}"),
                )
            }
        })
    }

    /// Waits briefly for rows that are being sent, before the program ends. Rows that are not sent by then
    /// stay queued, and the next process sends them.
    pub fn wait_for_mirror(self) -> BoxFuture<'a, ()> {
        journal::box_future(async move {
            let status = self.agent.mirror.status().await.unwrap_or(MirrorStatus::Degraded);
            let timeout = match status {
                MirrorStatus::Off => return,
                MirrorStatus::Ok => MIRROR_WAIT_MAX,
                MirrorStatus::Degraded => DEGRADED_MIRROR_WAIT_MAX,
            };
            self.agent.mirror.wait_until_idle(timeout).await;
        })
    }
}
