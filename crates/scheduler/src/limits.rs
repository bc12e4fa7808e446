//! How much there may be at once. What is chosen by whoever starts a server is in [`Limits`]; the rest is constant.

use std::time::Duration;

use crate::line::PlacesMax;
use crate::webhooks::target::WebhookTargets;

/// Runs that work at once, over all threads, unless set.
pub const RUNS_MAX: usize = 256;

/// Runs and exclusive pieces of work that wait at once, in all, unless set.
pub const QUEUE_MAX: usize = 4_096;

/// The same of one owner, unless set.
pub const QUEUE_PER_USER_MAX: usize = 512;

/// How long a resumable stream is kept after its end, unless set.
pub const RETENTION: Duration = Duration::from_secs(120);

/// Bytes of all streams that are kept after their end, unless set.
pub const RETAINED_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Bytes that a kept stream takes beside its frames, roughly.
pub(crate) const STREAM_FIXED_BYTES: usize = 2_048;

/// When a refused client may come back.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// How often a run in another process is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(500);

/// How often a run of another process is read on that somebody follows here, where no news come.
pub(crate) const NET: Duration = Duration::from_secs(1);

/// How often a thread that somebody follows is looked at for runs of other processes, where no news come.
pub(crate) const THREAD_NET: Duration = Duration::from_secs(5);

/// How often it is looked for streams kept long enough, and for runs whose process died where no news come.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(20);

/// The pause between news and a look for what others left, so that many news are worth one look.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(150);

/// Runs that nobody works on which are looked at at once, as many that worked as that waited.
pub(crate) const CLAIMS_MAX: usize = 64;

/// The same when a server starts, and whenever it looks through all of the journal.
pub(crate) const CLAIMS_AT_START_MAX: usize = 4_096;

/// How soon a thread is looked at again on which something came and went.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// How often a thread is tried again whose run, or whose journal, fails for no fault of the run.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// How often a run that is to begin may meet another one while nothing happens on its thread.
pub(crate) const CONFLICTS_MAX: u32 = 64;

/// Pieces of background work on memory that are done at once, each of another owner.
pub(crate) const SETTLERS_MAX: usize = 4;

/// Owners whose memory is noted for background work; what is beyond waits in the journal for their next run.
pub(crate) const SETTLING_MAX: usize = 4_096;

/// The pause between two rounds of background work on memory: many short runs are worth one look.
pub(crate) const SETTLE_PAUSE: Duration = Duration::from_secs(1);

/// Agents that are kept ready, one an owner.
pub(crate) const AGENTS_MAX: usize = 1_024;

/// How often an address is told of a run's end before it is given up.
pub(crate) const WEBHOOK_ATTEMPTS_MAX: u32 = 5;

/// The pause after the first attempt in vain; each later one is four times as long.
pub(crate) const WEBHOOK_PAUSE: Duration = Duration::from_secs(1);

/// How long an address may take to answer.
pub(crate) const WEBHOOK_TIME_MAX: Duration = Duration::from_secs(15);

/// How long it may take to find out what a name stands for.
pub(crate) const RESOLVE_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of an address that is told of a run's end.
pub(crate) const WEBHOOK_URL_BYTES_MAX: usize = 8 * 1024;

/// Addresses that are told at once, in all and of one owner.
pub(crate) const WEBHOOKS_AT_ONCE_MAX: PlacesMax = PlacesMax { all: 64, owner: 4 };

/// Ends of runs that are to be told and known here, in all and of one owner; the others wait in the journal.
pub(crate) const WEBHOOKS_KNOWN_MAX: PlacesMax = PlacesMax { all: 4_096, owner: 256 };

/// Ends of runs that are looked at in the journal at once.
pub(crate) const WEBHOOKS_PAGE: usize = 256;

/// The most pages of them at a time; the next look goes on behind them.
pub(crate) const WEBHOOKS_PAGES_MAX: usize = 16;

/// Names that are looked up at once, in all and of one owner: a lookup occupies a thread until the system gives it up.
pub(crate) const LOOKUPS_MAX: PlacesMax = PlacesMax { all: 32, owner: 8 };

/// After how many looks the threads are looked for once more that were to last one run: as many as it takes until no other
/// process keeps a stream of one, or tells of its end.
pub(crate) const LEFT_LOOKS: u32 = 30;

/// Runs of a thread that a reader over runs may lie behind before it is told of a gap.
pub(crate) const THREAD_RUNS_BEHIND_MAX: usize = 16;

/// How much there may be at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Runs that work at once.
    pub runs_max: usize,
    /// Runs that wait, in all.
    pub queue_max: usize,
    /// Runs that wait, of one owner.
    pub queue_per_user_max: usize,
    /// How long a resumable stream is kept after its end.
    pub retention: Duration,
    /// Bytes of all streams that are kept after their end; the oldest go first.
    pub retained_bytes_max: usize,
    /// Which addresses may be told of the end of runs.
    pub webhook_targets: WebhookTargets,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs_max: RUNS_MAX,
            queue_max: QUEUE_MAX,
            queue_per_user_max: QUEUE_PER_USER_MAX,
            retention: RETENTION,
            retained_bytes_max: RETAINED_BYTES_MAX,
            webhook_targets: WebhookTargets::default(),
        }
    }
}
