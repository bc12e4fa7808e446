//! What is known of the threads that were handed off last, kept between drafts, so that another draft reads what is new
//! and not the whole thread. The journal stays the truth: what is kept is used only as far as the journal still has it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use protocol::{CarryOver, Coverage, HandoffSummary, Seq, ThreadId};
use runtime::Failure;

use super::{End, Reader, Reading, Window, follow};
use crate::summary::coverage::Reach;
use crate::summary::extract::{Extract, extract};
use crate::summary::ground::{Grounding, Sought};
use crate::summary::select::{Selection, Selector};
use facts::Goal;
use facts::Item;
use facts::phrase::flat;
use facts::{Facts, Ledger};

/// The most threads of which something is kept.
const FOLDS_MAX: usize = 8;
/// The most bytes that are kept, all threads together; the newest is kept whatever its size.
const FOLDS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What the facts of one thread take at most, about.
const LEDGER_BYTES: usize = 1024 * 1024;
/// Tokens of events that are kept of a thread, so that a model with another window finds enough.
const FOLD_TOKENS_MIN: u64 = 48_000;

/// What is known of the threads that were handed off last.
#[derive(Debug, Default)]
pub struct Folds {
    kept: Mutex<Vec<Arc<Fold>>>,
}

/// What is to be known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part<'a> {
    /// Only the newest messages, if so many.
    pub(crate) messages: Option<u64>,
    /// What the next thread is for, without secrets.
    pub(crate) goal: Option<&'a str>,
    /// The most tokens of the conversation that will be selected.
    pub(crate) tokens_max: u64,
}

/// A thread, read up to an event.
#[derive(Debug, Clone)]
struct Fold {
    thread_id: ThreadId,
    tokens_max: u64,
    ledger: Ledger,
    selector: Selector,
    facts: OnceLock<Facts>,
    /// The last selection and the last extract, each with its budget: a refinement asks for the same ones again.
    selection: OnceLock<(u64, Selection)>,
    extract: OnceLock<(u64, Extract)>,
    end: Option<End>,
    /// What drafts named that the thread does not have; the same for every copy, because it says for itself up to where.
    absent: Arc<Mutex<Option<Absent>>>,
}

/// What was looked for and is nowhere in a thread up to an event.
#[derive(Debug, Clone)]
struct Absent {
    names: Vec<Sought>,
    end: End,
}

/// What the covered part of a thread tells.
pub(crate) struct Known {
    fold: Arc<Fold>,
    messages: Option<u64>,
}

impl Folds {
    /// Returns what is known of the thread, reading what is not known yet. A part of a thread is read anew each time.
    pub(crate) async fn known(&self, thread: Reading<'_>, part: Part<'_>) -> Result<Known, Failure> {
        let messages = part.messages;
        if messages.is_some() {
            let fold = Arc::new(Fold::read(thread, part).await?);
            return Ok(Known { fold, messages });
        }
        let kept = match self.take(thread.thread_id, part) {
            Some(kept) => Fold::follow(kept, thread).await?,
            None => None,
        };
        let fold = match kept {
            Some(fold) => fold,
            None => Arc::new(Fold::read(thread, part).await?),
        };
        if fold.end.is_some() {
            self.keep(Arc::clone(&fold));
        }
        Ok(Known { fold, messages })
    }

    fn take(&self, thread_id: ThreadId, part: Part<'_>) -> Option<Arc<Fold>> {
        let mut kept = self.kept.lock();
        let is_wanted = |fold: &Arc<Fold>| {
            let goal = fold.selector.goal().map(Goal::text);
            fold.thread_id == thread_id && goal == part.goal && fold.tokens_max >= part.tokens_max
        };
        let at = kept.iter().position(is_wanted)?;
        Some(kept.remove(at))
    }

    fn keep(&self, newest: Arc<Fold>) {
        let mut kept = self.kept.lock();
        kept.push(newest);
        let bytes = |kept: &[Arc<Fold>]| kept.iter().map(|fold| fold.bytes()).sum::<usize>();
        while kept.len() > FOLDS_MAX || kept.len() > 1 && bytes(&kept) > FOLDS_BYTES_MAX {
            kept.remove(0);
        }
    }
}

impl Fold {
    fn new(thread_id: ThreadId, part: Part<'_>) -> Self {
        let goal = part.goal.map(|goal| Arc::new(Goal::of(goal)));
        let tokens_max = part.tokens_max.max(FOLD_TOKENS_MIN);
        Self {
            thread_id,
            tokens_max,
            ledger: Ledger::for_goal(goal.clone()),
            selector: Selector::new(tokens_max, goal),
            facts: OnceLock::new(),
            selection: OnceLock::new(),
            extract: OnceLock::new(),
            end: None,
            absent: Arc::default(),
        }
    }

    /// Reads the part of the thread.
    async fn read(thread: Reading<'_>, part: Part<'_>) -> Result<Self, Failure> {
        let window = Window::of(thread, part.messages).await?;
        let mut fold = Self::new(thread.thread_id, part);
        fold.end = window.each(thread, "read the thread", &mut fold).await?;
        Ok(fold)
    }

    /// Reads what is new; `None` when the thread was taken back to before the end.
    async fn follow(mut kept: Arc<Self>, thread: Reading<'_>) -> Result<Option<Arc<Self>>, Failure> {
        let Some(end) = kept.end else { return Ok(None) };
        let Some(newest) = follow(thread, end, &mut Shared(&mut kept)).await? else { return Ok(None) };
        if newest != end {
            Arc::make_mut(&mut kept).end = Some(newest);
        }
        Ok(Some(kept))
    }

    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.ledger.finish())
    }

    fn bytes(&self) -> usize {
        LEDGER_BYTES + self.selector.bytes()
    }
}

impl Reader for Fold {
    fn see(&mut self, item: &Item) {
        self.facts.take();
        self.selection.take();
        self.extract.take();
        self.ledger.push(item);
        self.selector.see(item);
    }

    fn left_out(&mut self, last: Seq, messages: u64) {
        self.selector.left_out(last, messages);
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// A fold that is copied when there is something new and another draft still holds it.
struct Shared<'a>(&'a mut Arc<Fold>);

impl Reader for Shared<'_> {
    fn see(&mut self, item: &Item) {
        Arc::make_mut(self.0).see(item);
    }

    fn left_out(&mut self, last: Seq, messages: u64) {
        Arc::make_mut(self.0).left_out(last, messages);
    }

    fn is_done(&self) -> bool {
        false
    }
}

impl Reader for Grounding {
    fn see(&mut self, item: &Item) {
        self.see(item);
    }

    fn left_out(&mut self, _: Seq, _: u64) {}

    fn is_done(&self) -> bool {
        self.is_done()
    }
}

impl Known {
    /// Returns what goes along with the summary whatever its text says.
    pub(crate) fn carry_over(&self) -> CarryOver {
        self.fold.facts().carry_over()
    }

    /// Returns what a model is to be shown in `tokens_max` tokens.
    pub(crate) fn selection(&self, tokens_max: u64) -> Selection {
        let select = || self.fold.selector.finish(self.fold.facts(), tokens_max);
        match self.fold.selection.get_or_init(|| (tokens_max, select())) {
            (kept_for, selection) if *kept_for == tokens_max => selection.clone(),
            _ => select(),
        }
    }

    /// Returns the offline summary in about `tokens_max` tokens, and what it covers: what it quotes verbatim or in part,
    /// everything else as facts.
    pub(crate) fn extract(&self, tokens_max: u64) -> (Extract, Coverage) {
        let facts = self.fold.facts();
        let tell = || extract(facts, self.fold.selector.goal(), tokens_max);
        let told = match self.fold.extract.get_or_init(|| (tokens_max, tell())) {
            (kept_for, told) if *kept_for == tokens_max => told.clone(),
            _ => tell(),
        };
        let coverage = self.fold.selector.coverage().finish(quoted(facts, &told));
        (told, coverage)
    }

    /// Marks the items of `summary` that name neither what the covered events contain nor what the person said about the
    /// summary: looks at what is known and what a model was shown first, and reads the thread only for what is not there.
    /// Paths inside `workspace` may be named from there or whole.
    pub(crate) async fn ground(
        &self,
        thread: Reading<'_>,
        summary: &mut HandoffSummary,
        workspace: Option<&Path>,
        words: &[&str],
    ) -> Result<(), Failure> {
        let mut grounding = Grounding::new(summary, workspace);
        let goal = self.fold.selector.goal().map(Goal::text);
        words.iter().copied().chain(goal).for_each(|words| grounding.see_words(words));
        if let Some((_, shown)) = self.fold.selection.get() {
            grounding.see_shown(&shown.requests);
            grounding.see_shown(&shown.events);
        }
        grounding.see_facts(self.fold.facts());
        if !grounding.is_done() {
            self.look_through(thread, &mut grounding).await?;
        }
        grounding.finish(summary);
        Ok(())
    }

    /// Looks through the thread; only through what is new when all that is missing was looked for before.
    async fn look_through(&self, thread: Reading<'_>, grounding: &mut Grounding) -> Result<(), Failure> {
        if self.messages.is_some() {
            let window = Window::of(thread, self.messages).await?;
            return window.each(thread, "check the draft", grounding).await.map(drop);
        }
        let absent = || self.fold.absent.lock();
        let known = absent().clone().filter(|absent| grounding.wants_only(&absent.names));
        let end = match &known {
            Some(known) => follow(thread, known.end, grounding).await?,
            None => None,
        };
        let end = match end {
            // Nothing was said since: what else is known to be missing still is.
            Some(end) if known.is_some_and(|known| known.end == end) => return Ok(()),
            Some(end) => Some(end),
            None => Window::of(thread, None).await?.each(thread, "check the draft", grounding).await?,
        };
        if let Some(end) = end.filter(|_| !grounding.is_done()) {
            *absent() = Some(Absent { names: grounding.absent(), end });
        }
        Ok(())
    }
}

/// Returns the messages that the extract quotes, whole or in part.
fn quoted(facts: &Facts, told: &Extract) -> Vec<(Seq, Reach)> {
    let lists =
        [&facts.requests, &facts.statements, &facts.requests_about_goal, &facts.statements_about_goal];
    let quotes = facts.origin.iter().chain(lists.into_iter().flatten());
    let mut reached: Vec<(Seq, Reach)> = Vec::new();
    for quote in quotes {
        if !told.body.iter().any(|item| item.refs.contains(&quote.seq)) {
            continue;
        }
        let is_whole = || {
            let text = flat(&quote.text);
            !quote.is_cut && told.body.iter().any(|item| item.text.contains(&text))
        };
        reached.push((quote.seq, if is_whole() { Reach::Verbatim } else { Reach::Truncated }));
    }
    reached
}

#[cfg(test)]
mod tests;
