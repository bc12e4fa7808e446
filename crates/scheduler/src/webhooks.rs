//! Telling of a run's end where its client asked for it: one request to an address, tried a few times. What is owed is a
//! row of the journal until it is done, and one process claims it; here are only the ids of some that are to be told, and
//! what has no place here is found by a later look. What the request says is the caller's who serves clients; this only
//! knows where it may go.
//!
//! A run is told of at least once: a process that ends between the answer and the note of it tells again.

pub(crate) mod lookups;
pub(crate) mod target;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::{Agent, OutboxPlace, Webhook};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::{Run, RunId, RunRequest, Scope};

use self::lookups::Lookups;
use self::target::{Refusal, Target};
use crate::dispatch::Dispatch;
use crate::limits::{
    WEBHOOK_ATTEMPTS_MAX, WEBHOOK_PAUSE, WEBHOOK_TIME_MAX, WEBHOOKS_AT_ONCE_MAX, WEBHOOKS_KNOWN_MAX,
    WEBHOOKS_PAGE, WEBHOOKS_PAGES_MAX,
};
use crate::line::{Place, Places};
use crate::settle;

/// A run that has ended, and of whose end somebody is told.
pub struct Ended {
    /// The agent of whom the run belongs to.
    pub agent: Arc<Agent>,
    /// Its row.
    pub run: Run,
    /// What was asked.
    pub request: RunRequest,
}

/// Writes what is sent of a run that has ended, as JSON.
pub type Render = Arc<dyn Fn(Ended) -> BoxFuture<'static, agent::Result<Vec<u8>>> + Send + Sync>;

/// The runs of whose ends somebody is to be told, as far as they are known here.
pub(crate) struct Webhooks {
    render: OnceLock<Render>,
    owed: Mutex<Owed>,
    /// Places among the known.
    places: Arc<Places>,
    /// Places among those that are told at the moment.
    at_once: Arc<Places>,
    pub(crate) lookups: Lookups,
}

#[derive(Default)]
struct Owed {
    known: HashMap<RunId, Place>,
    /// Those of them that are to be told now, in order.
    due: VecDeque<(RunId, Scope)>,
    /// Where the next look into the journal goes on.
    after: Option<OutboxPlace>,
}

/// What became of telling.
enum Told {
    /// There is nothing left to do here.
    Done,
    /// It is to be tried again.
    After(Duration),
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            render: OnceLock::new(),
            owed: Mutex::default(),
            places: Places::new(WEBHOOKS_KNOWN_MAX),
            at_once: Places::new(WEBHOOKS_AT_ONCE_MAX),
            lookups: Lookups::default(),
        }
    }
}

impl Webhooks {
    fn note(&self, run_id: RunId, scope: &Scope) {
        let mut owed = self.owed.lock();
        if owed.known.contains_key(&run_id) {
            return;
        }
        // Where there is no place, a later look finds it.
        if let Ok(place) = self.places.take(scope) {
            owed.known.insert(run_id, place);
            owed.due.push_back((run_id, scope.clone()));
        }
    }

    /// Returns the next one to tell of; those of an owner of whom enough are being told wait.
    fn next(&self) -> Option<(RunId, Scope, Place)> {
        self.render.get()?;
        let mut owed = self.owed.lock();
        let place = |(_, scope): &(RunId, Scope)| self.at_once.take(scope).ok();
        let (at, place) = owed.due.iter().enumerate().find_map(|(at, one)| Some((at, place(one)?)))?;
        let (run_id, scope) = owed.due.remove(at)?;
        Some((run_id, scope, place))
    }

    fn again(&self, run_id: RunId, scope: Scope) {
        self.owed.lock().due.push_back((run_id, scope));
    }

    fn forget(&self, run_id: RunId) {
        self.owed.lock().known.remove(&run_id);
    }

    fn knows(&self, run_id: RunId) -> bool {
        self.owed.lock().known.contains_key(&run_id)
    }
}

/// Why an address was not told. The address itself may hold a key, and is not repeated.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("it answered {0}")]
    Status(u16),
    #[error("reach it: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Agent(#[from] agent::Error),
}

impl Failed {
    /// Returns whether it is the same next time.
    const fn is_final(&self) -> bool {
        match self {
            Self::Refused(refusal) => !refusal.may_pass(),
            Self::Status(_) | Self::Unreachable(_) | Self::Agent(_) => false,
        }
    }
}

impl Dispatch {
    /// Says what is sent to the addresses that are told of a run's end, and has those told that are owed already. Until then
    /// nobody is told. Only the first call counts.
    pub fn tell_webhooks(self: &Arc<Self>, render: Render) {
        if self.webhooks.render.set(render).is_ok() {
            let dispatch = Arc::clone(self);
            self.spawn(async move { dispatch.look_for_owed().await });
        }
    }

    /// Has somebody told of the end of a run, whose rows are final.
    pub(crate) fn owe(self: &Arc<Self>, run_id: RunId, scope: &Scope) {
        self.webhooks.note(run_id, scope);
        self.tell_due();
    }

    /// Looks for ends that are owed and nobody here knows of: a process ended that owed them, or there was no place.
    pub(crate) async fn look_for_owed(self: &Arc<Self>) {
        if self.webhooks.render.get().is_none() {
            return;
        }
        for _ in 0..WEBHOOKS_PAGES_MAX {
            match self.look_at_page().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "failed to see which ends of runs are to be told");
                    break;
                }
            }
        }
        self.tell_due();
    }

    /// Notes what is owed in the next page; says whether another one follows.
    async fn look_at_page(&self) -> agent::Result<bool> {
        let after = self.webhooks.owed.lock().after.take();
        let page = self.everyone.runs().webhooks_due(after, WEBHOOKS_PAGE).await?;
        for webhook in &page.due {
            let run_id = webhook.run_id;
            if self.streams.is_open(run_id) || self.webhooks.knows(run_id) {
                continue;
            }
            match self.everyone.runs().get(run_id).await? {
                Some(run) if run.status.is_active() => {}
                Some(run) => self.webhooks.note(run_id, &Scope::Owner(run.assistant_id.owner())),
                // A run that is forgotten is told to nobody.
                None => self.everyone.runs().webhook_done(webhook).await?,
            }
        }
        let is_more = page.next.is_some();
        self.webhooks.owed.lock().after = page.next;
        Ok(is_more)
    }

    /// Tells of as many as may be told at once.
    fn tell_due(self: &Arc<Self>) {
        while let Some((run_id, scope, place)) = self.webhooks.next() {
            let dispatch = Arc::clone(self);
            self.spawn(async move {
                let told = tokio::select! {
                    told = dispatch.tell(run_id, &scope) => told,
                    // What is on its way may arrive: it is not broken off before, or it would be told twice.
                    () = dispatch.halt.cancelled() => return,
                };
                drop(place);
                match told {
                    Ok(Told::Done) => dispatch.webhooks.forget(run_id),
                    Ok(Told::After(pause)) => {
                        dispatch.tell_due();
                        tokio::select! {
                            () = tokio::time::sleep(pause) => {}
                            () = dispatch.closing.cancelled() => return,
                        }
                        dispatch.webhooks.again(run_id, scope);
                    }
                    Err(error) => {
                        tracing::warn!(run_id = %run_id, %error, "failed to tell of the end of run {run_id}");
                        // The next look finds it.
                        dispatch.webhooks.forget(run_id);
                    }
                }
                dispatch.tell_due();
            });
        }
    }

    /// Tells of the run's end once, if it is this process's to tell.
    async fn tell(&self, run_id: RunId, scope: &Scope) -> agent::Result<Told> {
        let agent = self.agent(scope);
        let Some(mut webhook) = agent.runs().webhook(run_id).await? else { return Ok(Told::Done) };
        let Some(run) = agent.runs().get(run_id).await? else {
            agent.runs().webhook_done(&webhook).await?;
            return Ok(Told::Done);
        };
        // Whoever works on it tells of its end.
        if run.status.is_active() || !agent.runs().claim_webhook(&mut webhook).await? {
            return Ok(Told::Done);
        }
        let request = agent.runs().request(run_id).await?.unwrap_or_default();
        let (thread_id, is_temporary) = (run.thread_id, request.temporary);
        let ended = Ended { agent: Arc::clone(&agent), run, request };
        if let Err(why) = self.send(&webhook, scope, ended).await {
            tracing::warn!(run_id = %run_id, "failed to tell of the end of run {run_id}: {}", agent::redact(&why.to_string()));
            let attempts = webhook.attempts;
            if attempts + 1 < WEBHOOK_ATTEMPTS_MAX && !why.is_final() {
                let is_owed = agent.runs().webhook_failed(&mut webhook).await?;
                return Ok(if is_owed { Told::After(pause_after(attempts)) } else { Told::Done });
            }
        }
        agent.runs().webhook_done(&webhook).await?;
        if is_temporary && !self.streams.needs_thread(run_id) {
            settle::remove(&agent, thread_id).await;
        }
        Ok(Told::Done)
    }

    /// Sends once.
    async fn send(&self, webhook: &Webhook, scope: &Scope, ended: Ended) -> Result<(), Failed> {
        let Some(render) = self.webhooks.render.get() else { return Ok(()) };
        let target = Target::read(&webhook.url, self.webhook_targets)?;
        let body = render(ended).await?;
        let client = target.client(&self.webhooks.lookups, scope, WEBHOOK_TIME_MAX).await?;
        let posted = client
            .post(target.url().clone())
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| Failed::Unreachable(chain(&error.without_url())))?;
        // What it says is not read.
        match posted.status() {
            status if status.is_success() => Ok(()),
            status => Err(Failed::Status(status.as_u16())),
        }
    }
}

/// Returns how long to wait after so many attempts before: a second, then four times as long each time.
fn pause_after(attempts: u32) -> Duration {
    WEBHOOK_PAUSE * 4_u32.saturating_pow(attempts.min(WEBHOOK_ATTEMPTS_MAX))
}

/// Returns an error with those it came from, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
