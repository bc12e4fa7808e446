//! Beginnings: what must be written so that a thread goes on from a point of its past, with messages put in, changed or
//! removed. Nothing is rewritten: the thread goes back to before the first message that is another one, and what follows
//! is said again. It is worked out here, and written by whoever goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use journal::{EventQuery, Superseded, Write};
use protocol::{CheckpointId, CheckpointSource, Event, Handoff, Message, NewEvent, Seq, ThreadId};
use runtime::{BackTo, Channels};
use uuid::Uuid;

use super::message::{StateMessage, own_id, with_id};
use super::points::Point;
use crate::agent::services::ThreadService;
use crate::requests::messages::{Change, InputMessage, say_the_same};
use crate::{Result, ThreadError};

/// Messages read at a time when they are said again.
const AGAIN_PAGE_ROWS: usize = 500;

/// How a thread goes on from a point of its past.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    /// Where it goes back to first; `None` where it goes on at its head and nothing but new messages is put in.
    pub(crate) back: Option<BackTo>,
    /// What is appended then, in order: what is said again, and what is new.
    pub(crate) events: Vec<NewEvent>,
    /// The bytes of what is new.
    pub(crate) writes: Vec<Write>,
    /// The node that was next at the point; `None` where the graph was at rest, or something was about to be put in.
    pub(crate) next: Option<String>,
    /// Whether the newest answer makes calls that have no result.
    pub(crate) calls_wait: bool,
    /// The handoffs that are given up with it: they were asked for behind where it goes back to.
    pub(crate) given_up: Vec<Handoff>,
}

/// One message of what a thread is to hold.
#[derive(Debug, Clone)]
enum Wanted {
    /// One that is there.
    Kept(Arc<StateMessage>),
    /// One in the place of another.
    Changed(Arc<StateMessage>, Message),
    /// A new one.
    New(Message),
}

impl ThreadService<'_> {
    /// Works out how the thread goes on from a point of its past, or from its head, with these messages put in.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] when there is no such point; [`ThreadError::StateChange`] when a message is to be removed that
    /// is not there.
    pub(crate) async fn beginning(
        self,
        thread_id: ThreadId,
        at: Option<CheckpointId>,
        given: Vec<InputMessage>,
    ) -> Result<Beginning> {
        let point = match at {
            Some(id) => self.past_point(thread_id, id).await?,
            None => None,
        };
        if point.is_none() && given.is_empty() {
            return Ok(Beginning::default());
        }
        self.beginning_at(thread_id, point.as_ref(), given).await
    }

    /// Works out how the thread goes on from `point`, or from its head.
    pub(super) async fn beginning_at(
        self,
        thread_id: ThreadId,
        point: Option<&Point>,
        given: Vec<InputMessage>,
    ) -> Result<Beginning> {
        self.beginning_within(thread_id, point, Seq::MAX, given).await
    }

    /// Works out how the thread goes on from `point`, or from its head, where nothing behind `most` is kept.
    pub(crate) async fn beginning_within(
        self,
        thread_id: ThreadId,
        point: Option<&Point>,
        most: Seq,
        given: Vec<InputMessage>,
    ) -> Result<Beginning> {
        let head_seq = point.map(Point::head_seq);
        let look = |all: &super::transcripts::Transcript| {
            let now = all.branches.sight_at(Seq::MAX);
            (all.after(0), head_seq.map(|head| (all.at(head), now.holds(head) || head == 0)))
        };
        let (current, then) = self.agent.transcripts.look(&*self.agent.store, thread_id, look).await?;
        let (held, is_in_sight) = then.unwrap_or_else(|| (current.clone(), true));
        let (wanted, writes) = edited(held, given).map_err(|id| unknown(thread_id, &id))?;
        let same = wanted.iter().zip(&current).take_while(|(wanted, now)| wanted.is(now)).count();
        let first_other = current.get(same).map(|other| other.seq - 1);
        // Behind a point that is in sight there may be more than messages; a branch out of sight is said again from where
        // it left this one.
        let keep_seq = match head_seq.filter(|_| is_in_sight) {
            Some(head) => Some(first_other.map_or(head, |seq| seq.min(head))),
            None => first_other,
        };
        let mut beginning = Beginning { writes, ..Beginning::default() };
        beginning.next = point.and_then(Point::next).map(str::to_owned);
        beginning.calls_wait = calls_wait(&wanted);
        beginning.events = self.said_again(thread_id, &wanted[same..]).await?;
        if point.is_none() && keep_seq.is_none() {
            return Ok(beginning);
        }
        let keep_seq = match keep_seq {
            Some(seq) => seq,
            None => self.agent.thread(thread_id).await?.last_seq,
        };
        let (keep_seq, now) = (keep_seq.min(most), Timestamp::now());
        let with = self.gone_with(thread_id, keep_seq, now).await?;
        let (checkpoint_id, mut channels) = self.kept_of(thread_id, point).await?;
        for handoff in &with.given_up {
            // Nothing of it is left in a state from before it was asked for.
            let aside = handoff::put_aside(handoff, &channels, None, now);
            let of_it = aside.map(|aside| aside.channels).unwrap_or_default();
            channels.retain(|key, _| !of_it.contains_key(key));
        }
        beginning.writes.extend(with.writes);
        beginning.given_up = with.given_up;
        beginning.back = Some(BackTo { keep_seq, channels, checkpoint_id, superseded: with.superseded });
        Ok(beginning)
    }

    /// Returns the point unless it is the thread's head.
    pub(super) async fn past_point(self, thread_id: ThreadId, given: CheckpointId) -> Result<Option<Point>> {
        let point = self.point(thread_id, given).await?;
        let head = self.head_point(thread_id).await?;
        Ok(Some(point).filter(|point| head.as_ref().is_none_or(|head| head.id() != point.id())))
    }

    /// Returns what is named as the point before, and the state that is kept of it; without a point that is the head with
    /// other messages.
    async fn kept_of(
        self,
        thread_id: ThreadId,
        point: Option<&Point>,
    ) -> Result<(Option<CheckpointId>, Channels)> {
        Ok(match point {
            Some(point) => {
                (self.named(thread_id, point).await?, self.public_channels(thread_id, point).await?)
            }
            None => {
                let before = self.agent.store.checkpoint(thread_id).await?;
                let named = match self.head_point(thread_id).await? {
                    Some(head) => self.named(thread_id, &head).await?,
                    None => None,
                };
                (named, before.map(|before| before.channels).unwrap_or_default())
            }
        })
    }

    /// Returns what a point that follows names as the one before it. A rewind is passed over.
    pub(crate) async fn named(self, thread_id: ThreadId, point: &Point) -> Result<Option<CheckpointId>> {
        match point {
            Point::Stored(stored) if stored.source == CheckpointSource::Rewind => {
                self.before_stored(thread_id, stored).await
            }
            Point::Stored(_) | Point::Input(_) | Point::Base { .. } => Ok(Some(point.id())),
        }
    }

    async fn public_channels(self, thread_id: ThreadId, point: &Point) -> Result<Channels> {
        let parent = match point {
            Point::Input(_) => self.parent_of_input(thread_id, point.id()).await?,
            Point::Stored(_) | Point::Base { .. } => None,
        };
        self.stored_channels(thread_id, point, parent).await
    }

    /// Returns the events that say these messages, those that were said before as they were.
    async fn said_again(self, thread_id: ThreadId, wanted: &[Wanted]) -> Result<Vec<NewEvent>> {
        let seqs: BTreeSet<Seq> = wanted.iter().filter_map(Wanted::seq).collect();
        let mut before = self.events_at(thread_id, &seqs).await?;
        let mut events = Vec::with_capacity(wanted.len());
        for message in wanted {
            let event = match message {
                Wanted::New(message) => self.new_event(thread_id, message).await?,
                Wanted::Kept(kept) => match before.remove(&kept.seq) {
                    Some(event) => again(event, kept, &kept.message)?,
                    None => continue,
                },
                Wanted::Changed(kept, message) => match before.remove(&kept.seq) {
                    Some(event) => again(event, kept, message)?,
                    None => self.new_event(thread_id, message).await?,
                },
            };
            events.push(event);
        }
        Ok(events)
    }

    /// Returns the event of a message that is new. A person's has the key by which its id is found, unless that is taken:
    /// once said on whatever branch, an id is known.
    async fn new_event(self, thread_id: ThreadId, message: &Message) -> Result<NewEvent> {
        let now = Timestamp::now();
        let Some(id) = own_id(message) else {
            // The state of a message without an id is not the same on every request until it has a place.
            let message = with_id(message.clone(), &Uuid::now_v7().to_string());
            return Ok(NewEvent::message(&message, now)?);
        };
        let event = NewEvent::message(message, now)?;
        let key = format!("message:{id}");
        let is_keyed = matches!(message, Message::Human(_))
            && self.agent.store.seq_of_key(thread_id, &key).await?.is_none();
        Ok(if is_keyed { event.keyed(key) } else { event })
    }

    /// Returns the events at these places, superseded ones too.
    async fn events_at(self, thread_id: ThreadId, seqs: &BTreeSet<Seq>) -> Result<BTreeMap<Seq, Event>> {
        let mut found = BTreeMap::new();
        let (Some(first), Some(last)) = (seqs.first(), seqs.last()) else { return Ok(found) };
        let mut after = first - 1;
        loop {
            let query = EventQuery {
                before: Some(last + 1),
                categories: vec![protocol::Category::Message],
                superseded: Superseded::Shown,
                ..EventQuery::after(after, AGAIN_PAGE_ROWS)
            };
            let page = self.agent.store.events(thread_id, query).await?;
            let is_end = page.len() < AGAIN_PAGE_ROWS;
            after = page.last().map_or(after, |event| event.seq);
            found.extend(
                page.into_iter().map(|event| (event.seq, event)).filter(|(seq, _)| seqs.contains(seq)),
            );
            if is_end {
                return Ok(found);
            }
        }
    }
}

/// Returns whether the newest answer makes calls that have no result.
fn calls_wait(wanted: &[Wanted]) -> bool {
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    for message in wanted.iter().rev().filter(|wanted| !wanted.is_projected()).map(Wanted::message) {
        match message {
            Message::Tool(result) => drop(answered.insert(&result.call_id)),
            Message::Ai(_) => return message.tool_calls().any(|(id, ..)| !answered.contains(id)),
            Message::Human(_) => return false,
        }
    }
    false
}

impl Wanted {
    /// Returns whether nobody said it, so that it cannot be changed either.
    fn is_projected(&self) -> bool {
        matches!(self, Self::Kept(kept) if kept.is_projected)
    }

    fn message(&self) -> &Message {
        match self {
            Self::Kept(kept) => &kept.message,
            Self::Changed(_, message) | Self::New(message) => message,
        }
    }

    /// Returns whether it is this message, as it is.
    fn is(&self, now: &StateMessage) -> bool {
        matches!(self, Self::Kept(kept) if kept.seq == now.seq)
    }

    fn id(&self) -> Option<&str> {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _) => Some(&kept.id),
            Self::New(message) => own_id(message),
        }
    }

    fn seq(&self) -> Option<Seq> {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _) => Some(kept.seq),
            Self::New(_) => None,
        }
    }
}

/// Returns what a thread holds once these messages are put in, and what else is written for them; the id of a message that
/// is to be removed and is not there. One with an id that is there takes its place; one that says the same changes nothing.
fn edited(
    held: Vec<Arc<StateMessage>>,
    given: Vec<InputMessage>,
) -> std::result::Result<(Vec<Wanted>, Vec<Write>), String> {
    let mut writes = Vec::new();
    let from = given.iter().rposition(|message| message.change == Change::RemoveAll);
    // One that is removed keeps its place: it may be put in again.
    let mut wanted: Vec<(Wanted, Standing)> = match from {
        Some(_) => Vec::new(),
        None => held.into_iter().map(|message| (Wanted::Kept(message), Standing::There)).collect(),
    };
    let ids = wanted.iter().enumerate().filter_map(|(at, (wanted, _))| Some((wanted.id()?.to_owned(), at)));
    let mut places: BTreeMap<String, usize> = ids.collect();
    for message in given.into_iter().skip(from.map_or(0, |at| at + 1)) {
        let place = message.id.as_ref().and_then(|id| places.get(id).copied());
        match (message.change, place) {
            (Change::Put(new), place) => {
                writes.extend(message.artifacts.into_iter().map(Write::PutArtifact));
                match place {
                    Some(at) => wanted[at] = (wanted[at].0.changed(new), Standing::There),
                    None => {
                        let new = Wanted::New(new);
                        places.extend(new.id().map(|id| (id.to_owned(), wanted.len())));
                        wanted.push((new, Standing::There));
                    }
                }
            }
            (Change::Remove, Some(at)) if wanted[at].0.is_projected() => {}
            (Change::Remove, Some(at)) => wanted[at].1 = Standing::Removed,
            (Change::Remove, None) => return Err(message.id.unwrap_or_default()),
            (Change::RemoveAll, _) => {}
        }
    }
    let there = wanted.into_iter().filter(|(_, standing)| *standing == Standing::There);
    Ok((there.map(|(wanted, _)| wanted).collect(), writes))
}

/// Whether a message stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    There,
    Removed,
}

impl Wanted {
    /// Returns what is there once `new` is put in its place: what was, where a client sends that back, which knows nothing
    /// of a message's model and usage.
    fn changed(&self, new: Message) -> Self {
        match self {
            Self::Kept(kept) | Self::Changed(kept, _)
                if kept.is_projected || say_the_same(&kept.message, &new) =>
            {
                Self::Kept(Arc::clone(kept))
            }
            Self::Kept(kept) | Self::Changed(kept, _) => Self::Changed(Arc::clone(kept), new),
            Self::New(_) => Self::New(new),
        }
    }
}

fn unknown(thread_id: ThreadId, id: &str) -> ThreadError {
    let reason = format!("there is no message `{id}` to remove");
    ThreadError::StateChange { thread_id, reason }
}

/// Returns the event that says again what `event` said, as `message`, under the same id and of the same run.
fn again(event: Event, kept: &StateMessage, message: &Message) -> Result<NewEvent> {
    let mut metadata = event.parsed_metadata();
    // The first of them all is the one that was paid for.
    metadata.again.get_or_insert(event.seq);
    let is_as_it_was = std::ptr::eq(message, &raw const kept.message) && own_id(message).is_some();
    let mut new = match is_as_it_was {
        true => NewEvent { content: event.content, ..NewEvent::message(message, event.created_at)? },
        false => NewEvent::message(&with_id(message.clone(), &kept.id), event.created_at)?,
    };
    new.run_id = event.run_id;
    Ok(new.with_metadata(&metadata)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what is held after each of these is put in, in a compact form: `a=x` puts, `-a` removes, `*` removes all.
    #[track_caller]
    fn check(held: &[(&str, &str)], given: &[&str], expected: std::result::Result<&[&str], &str>) {
        let held = (1..).zip(held).map(|(seq, (id, text))| {
            let message = with_id(Message::human(*text), id);
            Arc::new(StateMessage::new((*id).to_owned(), seq, None, message, Timestamp::UNIX_EPOCH))
        });
        let given = given.iter().map(|given: &&str| {
            let (id, change) = match (given.strip_prefix('-'), given.split_once('=')) {
                (Some(id), _) => (Some(id), Change::Remove),
                (None, Some((id, text))) => (Some(id), Change::Put(with_id(Message::human(text), id))),
                (None, None) => (None, Change::RemoveAll),
            };
            InputMessage { id: id.map(str::to_owned), change, artifacts: Vec::new() }
        });
        let told = edited(held.collect(), given.collect()).map(|(wanted, _)| {
            let tell = |wanted: &Wanted| {
                let how = match wanted {
                    Wanted::Kept(_) => ' ',
                    Wanted::Changed(..) => '~',
                    Wanted::New(_) => '+',
                };
                format!("{how}{}={}", wanted.id().unwrap_or_default(), wanted.message().text())
            };
            wanted.iter().map(tell).collect::<Vec<_>>()
        });
        let expected = expected.map(|expected| expected.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(told, expected.map_err(str::to_owned));
    }

    #[test]
    fn messages_are_put_in_by_their_ids() {
        let held = [("a", "1"), ("b", "2"), ("c", "3")];
        check(&held, &[], Ok(&[" a=1", " b=2", " c=3"]));
        check(&held, &["d=4"], Ok(&[" a=1", " b=2", " c=3", "+d=4"]));
        check(&held, &["b=9"], Ok(&[" a=1", "~b=9", " c=3"]));
        check(&held, &["b=2"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&held, &["b=9", "b=2"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&held, &["-b"], Ok(&[" a=1", " c=3"]));
        check(&held, &["-b", "b=5"], Ok(&[" a=1", "~b=5", " c=3"]));
        check(&held, &["d=4", "d=5"], Ok(&[" a=1", " b=2", " c=3", "+d=5"]));
        check(&held, &["d=4", "-d"], Ok(&[" a=1", " b=2", " c=3"]));
        check(&held, &["*"], Ok(&[]));
        check(&held, &["x=0", "*", "a=1"], Ok(&["+a=1"]));
        check(&held, &["*", "d=4", "*", "e=5"], Ok(&["+e=5"]));
        check(&held, &["-x"], Err("x"));
        check(&held, &["*", "-a"], Err("a"));
        check(&[], &["-a"], Err("a"));
    }

    #[test]
    fn calls_wait_until_each_has_its_result() {
        let call = |ids: &[&str]| {
            let content = ids.iter().map(|id| protocol::Block::ToolCall {
                id: (*id).to_owned(),
                name: "ls".to_owned(),
                args: json!({}),
            });
            Message::Ai(protocol::AiMessage { content: content.collect(), ..Default::default() })
        };
        let result = |id: &str| {
            Message::Tool(protocol::ToolMessage {
                id: None,
                call_id: id.to_owned(),
                name: None,
                content: Vec::new(),
                status: protocol::ToolStatus::Success,
            })
        };
        for (said, expected) in [
            (vec![], false),
            (vec![call(&["1"])], true),
            (vec![call(&["1", "2"]), result("1")], true),
            (vec![call(&["1", "2"]), result("2"), result("1")], false),
            (vec![call(&["1"]), Message::human("x")], false),
            (vec![Message::ai("x")], false),
        ] {
            let wanted: Vec<Wanted> = said.into_iter().map(Wanted::New).collect();
            assert_eq!(calls_wait(&wanted), expected, "{wanted:?}");
        }
    }
}
