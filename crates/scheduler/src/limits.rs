//! The limits of the scheduler. [`SchedulerLimits`] holds those that a server can configure; the others are constants.

use std::time::Duration;

use crate::queue::QuotaLimits;
use crate::webhooks::target::WebhookTargetPolicy;

/// Default maximum of runs that are active at once, over all threads.
pub const RUNS_MAX: usize = 256;

/// Default maximum of queued runs and pieces of exclusive work, over all owners.
pub const QUEUE_MAX: usize = 4_096;

/// Default maximum of queued runs and pieces of exclusive work of one owner.
pub const QUEUE_PER_USER_MAX: usize = 512;

/// Default time for which a resumable stream is kept after its end.
pub const RETENTION: Duration = Duration::from_secs(120);

/// Default maximum of bytes that all kept streams hold together after their end.
pub const RETAINED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Approximate number of bytes that a kept stream needs in addition to its frames.
pub(crate) const STREAM_FIXED_BYTES: usize = 2_048;

/// The time after which a client that was refused should try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// How often a run of another process is polled while this process waits for it.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a run of another process is polled while a reader follows it, if no commit notification arrives.
pub(crate) const REMOTE_RUN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often a followed thread is polled for runs of other processes, if no commit notification arrives.
pub(crate) const FOLLOWED_THREAD_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The interval of full scans: they remove expired streams and find runs of dead processes for which no commit
/// notification arrived.
pub(crate) const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(20);

/// The pause between a commit notification and the scan for orphaned runs. A burst of notifications causes one scan.
pub(crate) const SCAN_DEBOUNCE: Duration = Duration::from_millis(150);

/// Orphaned runs that one scan after a notification reads: as many active ones as queued ones.
pub(crate) const CLAIMS_MAX: usize = 64;

/// Orphaned runs that a full scan reads, at a start and every [`FULL_SCAN_INTERVAL`].
pub(crate) const CLAIMS_FULL_SCAN_MAX: usize = 4_096;

/// The pause before a thread is polled again on which a remote run started and ended between two polls.
pub(crate) const RECHECK_DELAY: Duration = Duration::from_millis(20);

/// How often a run is tried again after an error that the run did not cause, such as a failing journal.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// How often a run may lose the race for its thread to another one while the thread's last `seq` does not change, and
/// how often a change of a thread may lose it to runs of other processes.
pub(crate) const CONFLICTS_MAX: u32 = 64;

/// How many runs with the strategies `interrupt` and `rollback` may come before exclusive work that was queued before them. A
/// user who corrects a message again and again sends fewer; a program that never stops must not delay a change for ever.
pub(crate) const OVERTAKES_MAX: u32 = 8;

/// Owners whose memory is summarized at the same time; each has one worker.
pub(crate) const SUMMARIZE_WORKERS_MAX: usize = 4;

/// Maximum of owners in the summarize queue. The work of further owners stays in the journal until their next run.
pub(crate) const SUMMARIZE_QUEUE_MAX: usize = 4_096;

/// The pause between two rounds of background summarizing. Many short runs then cause one round.
pub(crate) const SUMMARIZE_INTERVAL: Duration = Duration::from_secs(1);

/// Number of cached agents, one for each owner, above which unused ones are dropped.
pub(crate) const CACHED_AGENTS_MAX: usize = 1_024;

/// How often the delivery of a webhook is attempted before it is given up.
pub(crate) const WEBHOOK_ATTEMPTS_MAX: u32 = 5;

/// The pause after the first failed attempt; each later pause is four times as long.
pub(crate) const WEBHOOK_BACKOFF: Duration = Duration::from_secs(1);

/// Timeout of one webhook request, including its response.
pub(crate) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of one host name lookup.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum length of a webhook's URL, in bytes.
pub(crate) const WEBHOOK_URL_BYTES_MAX: usize = 8 * 1024;

/// Webhook requests that are sent at once, in total and for each owner.
pub(crate) const WEBHOOK_CONCURRENCY_LIMITS: QuotaLimits = QuotaLimits { global: 64, per_owner: 4 };

/// Pending webhooks that this process holds in memory, in total and for each owner; the others stay in the journal.
pub(crate) const WEBHOOK_QUEUE_LIMITS: QuotaLimits = QuotaLimits { global: 4_096, per_owner: 256 };

/// Pending webhooks that are read from the journal with one query.
pub(crate) const WEBHOOKS_PAGE_SIZE: usize = 256;

/// Maximum of such pages that one scan reads; the next scan continues after them.
pub(crate) const WEBHOOKS_PAGES_MAX: usize = 16;

/// Host name lookups that run at once, in total and for each owner. Each one occupies a thread until the system's
/// resolver gives up.
pub(crate) const LOOKUP_LIMITS: QuotaLimits = QuotaLimits { global: 32, per_owner: 8 };

/// Number of full scans after which the temporary threads of earlier processes are cleaned up a second time. By then,
/// no other process keeps the stream of such a run or has its webhook to deliver.
pub(crate) const TEMPORARY_CLEANUP_SCANS: u32 = 30;

/// Started runs that a reader of a thread may lag behind before it receives a gap.
pub(crate) const THREAD_READER_LAG_MAX: usize = 16;

/// The configurable limits of a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerLimits {
    /// Runs that are active at once.
    pub runs_max: usize,
    /// Runs that are queued, over all owners.
    pub queue_max: usize,
    /// Runs that are queued, of one owner.
    pub queue_per_user_max: usize,
    /// Time for which a resumable stream is kept after its end.
    pub retention: Duration,
    /// Bytes of all streams that are kept after their end. The oldest are removed first.
    pub retained_bytes_max: usize,
    /// Which addresses webhooks may use.
    pub webhook_targets: WebhookTargetPolicy,
}

impl Default for SchedulerLimits {
    fn default() -> Self {
        Self {
            runs_max: RUNS_MAX,
            queue_max: QUEUE_MAX,
            queue_per_user_max: QUEUE_PER_USER_MAX,
            retention: RETENTION,
            retained_bytes_max: RETAINED_BYTES_MAX,
            webhook_targets: WebhookTargetPolicy::default(),
        }
    }
}
