//! The mirror of accepted handoffs, as a front end asks about it. What it is and how it is written is decided in the `handoff`
//! room; here are its settings, and how long a program that ends waits for it.

use std::sync::Arc;
use std::time::Duration;

use handoff::mirror::{Delivered, Mirror, MirrorReport, MirrorStatus, Rows};
use journal::{PoolFigures, Store};

use crate::Result;
use crate::agent::services::HandoffService;
use crate::home::config::Config;
use crate::home::database::Database;
use crate::reports::doctor::{Check, Verdict};

/// The variable whose URL goes before that of the settings.
const URL_VARIABLE: &str = "SEGUE_MIRROR_URL";

/// The name of the doctor's check.
const MIRROR: &str = "mirror";

/// The longest a program that has done what it was asked waits for what is being sent.
const REST_MAX: Duration = Duration::from_millis(500);
/// The same where the mirror is known to be degraded.
const REST_DEGRADED_MAX: Duration = Duration::from_millis(100);

/// Returns the mirror that the settings and the environment name; else, where `main` is on a server, it is there too.
///
/// # Errors
/// When its URL cannot be understood.
pub(crate) fn open(config: &Config, main: Option<&Database>, store: Arc<dyn Store>) -> Result<Mirror> {
    let mut settings = config.mirror.clone();
    if let Some(url) = std::env::var(URL_VARIABLE).ok().filter(|url| !url.trim().is_empty()) {
        settings.url = Some(url.into());
    }
    Ok(Mirror::new(&settings, main.and_then(Database::server_url), store)?)
}

impl HandoffService<'_> {
    /// Returns what is known of the mirror. Only the journal is read.
    ///
    /// # Errors
    /// When that fails.
    pub async fn mirror_report(self) -> Result<MirrorReport> {
        Ok(self.agent.mirror.report().await?)
    }

    /// Counts the rows of the mirror's table, which is made when it is missing; `None` where there is no mirror.
    ///
    /// # Errors
    /// When the database cannot be reached or used.
    pub async fn mirror_rows(self) -> Result<Option<Rows>> {
        Ok(self.agent.mirror.rows().await?)
    }

    /// Returns how the connections to the mirror are used; `None` while there are none.
    pub fn mirror_connections(self) -> Option<PoolFigures> {
        self.agent.mirror.connections()
    }

    /// Sends what waits for the mirror, of everybody, and tells after each batch how much was sent.
    ///
    /// # Errors
    /// What the last attempt failed with; what was sent before is sent.
    pub async fn flush_mirror(self, told: &mut (dyn FnMut(u64) + Send)) -> Result<Delivered> {
        Ok(self.agent.mirror.flush(told).await?)
    }

    /// Looks at the mirror as the doctor does; where there is none, there is nothing to say.
    pub(crate) async fn mirror_check(self) -> Option<Check> {
        let report = match self.agent.mirror.report().await {
            Ok(report) if report.status == MirrorStatus::Off => return None,
            Ok(report) => report,
            Err(error) => return Some(Check::new(MIRROR, Verdict::Fail, format!("failed to {error}"))),
        };
        let status = format!(
            "{}: handoff_store_status={}, {} waiting",
            report.location.unwrap_or_default(),
            report.status.as_str(),
            report.waiting
        );
        Some(match (self.agent.mirror.rows().await, report.status) {
            (Err(error), _) => Check::new(MIRROR, Verdict::Warn, format!("{status}; failed to {error}"))
                .with_hint(error.hint()),
            (Ok(_), MirrorStatus::Degraded) => Check::new(MIRROR, Verdict::Warn, status)
                .with_hint("it can be reached again: `segue mirror flush` sends what waits"),
            (Ok(rows), MirrorStatus::Ok | MirrorStatus::Off) => {
                let rows = rows.unwrap_or_default().summaries;
                Check::new(MIRROR, Verdict::Ok, format!("{status}, {rows} summaries there"))
            }
        })
    }

    /// Lets what is being sent to the mirror come to its end, for a moment: the program has done what it was asked, and what is not sent
    /// then is sent by the next one.
    pub async fn rest_mirror(self) {
        let status = self.agent.mirror.status().await.unwrap_or(MirrorStatus::Degraded);
        let within = match status {
            MirrorStatus::Off => return,
            MirrorStatus::Ok => REST_MAX,
            MirrorStatus::Degraded => REST_DEGRADED_MAX,
        };
        self.agent.mirror.rest(within).await;
    }
}
