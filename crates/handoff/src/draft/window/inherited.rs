//! The facts and items that a child thread hands on from the summary that it began with. Its journal does not contain them:
//! without this, a second handoff would lose the facts, decisions and open work of the first.
//!
//! What the thread itself says takes precedence.

use protocol::{
    CarriedFacts, CarriedFiles, HandoffSummary, LeftOutItem, LeftOutReason, ReviewNotes, Rule, SummaryItem,
    SummaryItemKind, TodoItem, TodoStatus,
};

use crate::limits::BODY_ITEMS_MAX;
use crate::summary::offline_summary::{
    ANSWERED_REQUEST_LABEL, EARLIER_REQUEST_LABEL, QUESTION_LABEL, quoted_request,
};
use crate::summary::render;

/// The kinds of inherited items that stay true until the thread says otherwise. Progress is history by then, and artifacts
/// are among the facts.
const LASTING_KINDS: [SummaryItemKind; 4] = [
    SummaryItemKind::Objective,
    SummaryItemKind::Decision,
    SummaryItemKind::NextStep,
    SummaryItemKind::Blocker,
];

/// Returns the thread's own facts together with those that it inherited.
pub(crate) fn merge_facts(own: CarriedFacts, inherited: &CarriedFacts) -> CarriedFacts {
    let has_acted = !own.files.changed.is_empty() || !own.commands.is_empty();
    let has_request = own.last_user_request.is_some();
    let with = |own: Vec<String>, inherited: &[String]| concatenate(&own, inherited);
    CarriedFacts {
        goal: own.goal.or_else(|| inherited.goal.clone()),
        // An inherited rule has no references, because they would name events of another thread.
        rules: facts::merge_rules(without_refs(&inherited.rules), own.rules),
        last_user_request: own.last_user_request.or_else(|| inherited.last_user_request.clone()),
        last_request_answered: match has_request {
            true => own.last_request_answered,
            false => inherited.last_request_answered,
        },
        todos: with_open_tasks(own.todos, &inherited.todos),
        files: merge_files(own.files, &inherited.files),
        in_use: if own.in_use.is_empty() { inherited.in_use.clone() } else { own.in_use },
        // Work in the thread may have resolved an inherited error, and nothing here could tell.
        errors: if has_acted { own.errors } else { with(own.errors, &inherited.errors) },
        skills: with(own.skills, &inherited.skills),
        delegations: with(own.delegations, &inherited.delegations),
        ..own
    }
}

/// Returns the files of the thread's own work with those that it inherited, except for inherited ones that the thread has since
/// deleted or created again. Inherited files that were only read are left out.
fn merge_files(own: CarriedFiles, inherited: &CarriedFiles) -> CarriedFiles {
    let without = |list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|path| !other.contains(path)).cloned().collect()
    };
    let changed = without(&inherited.changed, &own.deleted);
    let deleted = without(&without(&inherited.deleted, &own.changed), &own.read);
    CarriedFiles {
        changed: concatenate(&own.changed, &changed),
        deleted: concatenate(&own.deleted, &deleted),
        read: own.read,
    }
}

/// Returns the facts of several summaries that were handed to one thread, the oldest first; `None` if there is none. The last
/// request of an older one is a task beside that of the newest.
pub(crate) fn join_facts<'a>(mut summaries: impl Iterator<Item = &'a CarriedFacts>) -> Option<CarriedFacts> {
    let first = summaries.next()?.clone();
    Some(summaries.fold(first, |older, newer| {
        let request = older.last_user_request.clone().filter(|_| older.last_request_answered != Some(true));
        let request = request.filter(|_| newer.last_user_request.is_some());
        let request = request.map(|text| TodoItem { text, status: TodoStatus::Pending });
        let mut todos = newer.todos.clone();
        let further = older.todos.iter().cloned().chain(request);
        todos.extend(further.filter(|task| !newer.todos.iter().any(|known| known.text == task.text)));
        CarriedFacts {
            todos,
            errors: concatenate(&newer.errors, &older.errors),
            ..merge_facts(newer.clone(), &older)
        }
    }))
}

/// Returns the package of a thread in which nothing was said since it began with these summaries, the oldest first; `None` if
/// there are none. Its text and its facts are whole, because no work of the thread can have made a part of them untrue. Several
/// summaries are joined: title and TL;DR are those of the newest, and those of the others are objectives.
pub(crate) fn join_packages(summaries: &[HandoffSummary]) -> Option<HandoffSummary> {
    let newest = summaries.last()?;
    let mut facts = join_facts(summaries.iter().map(|summary| &summary.carried))?;
    facts.rules = without_refs(&facts.rules);
    let mut body: Vec<SummaryItem> = Vec::new();
    for older in summaries.iter().rev().skip(1) {
        facts.files.read = concatenate(&facts.files.read, &older.carried.files.read);
        facts.commands = concatenate(&facts.commands, &older.carried.commands);
        body.push(objective_of(older));
    }
    for item in summaries.iter().rev().flat_map(|summary| &summary.body) {
        if !body.iter().any(|known| known.kind == item.kind && known.text == item.text) {
            body.push(without_item_refs(item));
        }
    }
    body.sort_by_key(|item| item.kind);
    if body.len() > BODY_ITEMS_MAX {
        body = join_items_of_one_kind(body);
    }
    let notes = ReviewNotes {
        title_unfound: newest.notes.title_unfound.clone(),
        tldr_unfound: newest.notes.tldr_unfound.clone(),
        ..ReviewNotes::default()
    };
    Some(HandoffSummary { body, notes, carried: facts, ..newest.clone() })
}

/// Returns the title and the TL;DR of a summary as an item.
fn objective_of(summary: &HandoffSummary) -> SummaryItem {
    let notes = &summary.notes;
    let unfound: Vec<String> = notes.title_unfound.iter().chain(&notes.tldr_unfound).cloned().collect();
    SummaryItem {
        kind: SummaryItemKind::Objective,
        text: format!("{}\n{}", summary.title, summary.tldr),
        refs: Vec::new(),
        verified: unfound.is_empty(),
        unfound,
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
}

/// Returns an item without references, because they would name events of another thread.
fn without_item_refs(item: &SummaryItem) -> SummaryItem {
    SummaryItem { refs: Vec::new(), line_refs: Vec::new(), false_refs: Vec::new(), ..item.clone() }
}

/// Joins the verified items of each kind into one, whose lines are rendered as the items were.
fn join_items_of_one_kind(items: Vec<SummaryItem>) -> Vec<SummaryItem> {
    let mut joined: Vec<SummaryItem> = Vec::new();
    for item in items {
        let is_same = |known: &&mut SummaryItem| known.kind == item.kind && known.verified && item.verified;
        match joined.last_mut().filter(is_same) {
            Some(known) => {
                known.text.push('\n');
                known.text.push_str(&item.text);
            }
            None => joined.push(item),
        }
    }
    joined
}

/// Returns the thread's own tasks and the inherited open ones that are not among them. The list of the thread may be one of
/// its own, so a task that it does not name is not known to be done.
fn with_open_tasks(own: Vec<TodoItem>, inherited: &[TodoItem]) -> Vec<TodoItem> {
    let comparable = |task: &TodoItem| task.text.trim().trim_end_matches('.').to_lowercase();
    let known: Vec<String> = own.iter().map(comparable).collect();
    let is_lasting =
        |task: &&TodoItem| task.status != TodoStatus::Completed && !known.contains(&comparable(task));
    let inherited: Vec<TodoItem> = inherited.iter().filter(is_lasting).cloned().collect();
    own.into_iter().chain(inherited).collect()
}

/// Returns the texts of both lists, each once.
fn concatenate(first: &[String], second: &[String]) -> Vec<String> {
    first.iter().chain(second.iter().filter(|text| !first.contains(text))).cloned().collect()
}

/// Returns the rules without references.
fn without_refs(rules: &[Rule]) -> Vec<Rule> {
    rules.iter().map(|rule| Rule { text: rule.text.clone(), refs: Vec::new() }).collect()
}

/// Lists the items of an inherited summary that the text lacks among what it leaves out: its results and artifacts are not handed
/// on by themselves.
pub(crate) fn note_inherited_items(summary: &mut HandoffSummary, inherited: &HandoffSummary) {
    let text = render::render_summary(summary);
    for item in inherited.body.iter().filter(|item| !LASTING_KINDS.contains(&item.kind)) {
        let lines = render::normalize_lines(&item.text);
        let missing: Vec<&str> =
            lines.lines().filter(|line| !text.contains(&render::escape_tags(line))).collect();
        if missing.is_empty() {
            continue;
        }
        let item =
            SummaryItem { text: missing.join("\n"), refs: Vec::new(), line_refs: Vec::new(), ..item.clone() };
        let left_out = LeftOutItem { item, reason: LeftOutReason::Inherited };
        if !summary.notes.left_out.contains(&left_out) {
            summary.notes.left_out.push(left_out);
        }
    }
}

/// The rules by which items of inherited summaries are added to an offline summary.
pub(crate) struct InheritedItems<'a> {
    /// The title of the summary.
    pub(crate) title: &'a str,
    /// The TL;DR of the summary.
    pub(crate) tldr: &'a str,
    /// True if nothing was asked or done in the thread. Then all verified items last, and not only those of [`LASTING_KINDS`].
    pub(crate) is_idle: bool,
    /// The maximum number of tokens of the Markdown.
    pub(crate) tokens_max: u64,
}

impl InheritedItems<'_> {
    /// Adds the lasting items of an inherited summary to the thread's own, in the order of the kinds, as far as they fit. An
    /// inherited item has no references, because they would name events of another thread.
    pub(crate) fn add_to(&self, own: Vec<SummaryItem>, inherited: &HandoffSummary) -> Vec<SummaryItem> {
        let mut body = own;
        let has_own_request =
            body.iter().flat_map(|item| item.text.lines()).any(|line| quoted_request(line).is_some());
        let kinds = if self.is_idle { SummaryItemKind::ALL.as_slice() } else { LASTING_KINDS.as_slice() };
        for item in kinds.iter().flat_map(|kind| inherited.body.iter().filter(move |item| item.kind == *kind))
        {
            let text = render::normalize_lines(&item.text);
            let text = if has_own_request { as_earlier_requests(&text) } else { text };
            let is_lasting = LASTING_KINDS.contains(&item.kind);
            if text.is_empty()
                || !is_lasting && !item.verified
                || body.len() >= BODY_ITEMS_MAX
                || body.iter().any(|known| known.text.contains(&text))
            {
                continue;
            }
            let mut longer = body.clone();
            longer.push(SummaryItem { text, ..without_item_refs(item) });
            longer.sort_by_key(|item| item.kind);
            if model::tokens::fits(&render::render_markdown(self.title, self.tldr, &longer), self.tokens_max)
            {
                body = longer;
            }
        }
        body
    }
}

/// Returns the lines of an item as they are true in a thread in which the user has said more: an inherited request is an
/// earlier one, and an answered one or a question of the assistant is history.
fn as_earlier_requests(text: &str) -> String {
    let lines = text.lines().filter_map(|line| match quoted_request(line) {
        Some((ANSWERED_REQUEST_LABEL | QUESTION_LABEL, _)) => None,
        Some((label, _)) => Some(line.replacen(label, EARLIER_REQUEST_LABEL, 1)),
        None => Some(line.to_owned()),
    });
    lines.collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::edit::tests::shown_summary;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn rule(text: &str) -> Rule {
        Rule { text: text.to_owned(), refs: Vec::new() }
    }

    fn task(text: &str, status: TodoStatus) -> TodoItem {
        TodoItem { text: text.to_owned(), status }
    }

    #[test]
    fn joined_packages_keep_every_title_file_and_command() {
        let package = |name: &str| {
            let mut summary = HandoffSummary {
                title: format!("Port {name}"),
                tldr: format!("{name} waits."),
                ..shown_summary()
            };
            summary.carried.files.read = texts(&[name]);
            summary.carried.commands = texts(&[name]);
            summary
        };
        let joined = join_packages(&[package("a.rs"), package("b.rs")]).unwrap();
        assert_eq!(joined.title, "Port b.rs");
        let objective = joined.body.iter().find(|item| item.text.contains("Port a.rs")).unwrap();
        assert_eq!(
            (objective.kind, objective.text.as_str()),
            (SummaryItemKind::Objective, "Port a.rs\na.rs waits.")
        );
        assert_eq!(joined.carried.files.read, texts(&["b.rs", "a.rs"]));
        assert_eq!(joined.carried.commands, texts(&["b.rs", "a.rs"]));
    }

    #[test]
    fn the_results_of_an_inherited_package_that_the_text_lacks_are_listed_once() {
        let item =
            |kind, text: &str| SummaryItem { kind, text: text.to_owned(), ..shown_summary().body[0].clone() };
        let inherited = HandoffSummary {
            body: vec![
                item(SummaryItemKind::Progress, "Ported the reader.\nMeasured the writer."),
                item(SummaryItemKind::Decision, "Keep the format."),
                item(SummaryItemKind::Artifact, "Changed: a.rs"),
            ],
            ..shown_summary()
        };
        let mut summary = shown_summary();
        summary.body = vec![item(SummaryItemKind::Progress, "Measured the writer.")];
        note_inherited_items(&mut summary, &inherited);
        note_inherited_items(&mut summary, &inherited);
        let listed: Vec<&str> = summary.notes.left_out.iter().map(|left| left.item.text.as_str()).collect();
        assert_eq!(listed, ["Ported the reader.", "Changed: a.rs"]);
        assert!(summary.notes.left_out.iter().all(|left| left.item.refs.is_empty()));
    }

    #[test]
    fn an_inherited_request_is_an_earlier_one_once_the_thread_has_its_own() {
        let step = |text: &str| SummaryItem {
            kind: SummaryItemKind::NextStep,
            text: text.to_owned(),
            ..shown_summary().body[0].clone()
        };
        let inherited = HandoffSummary {
            body: vec![step(
                "Last request, the assistant asked back: \"Port it.\"\nThe assistant asked: \"Now?\"\n[ ] Write docs",
            )],
            ..shown_summary()
        };
        let items = InheritedItems { title: "T", tldr: "D", is_idle: false, tokens_max: 4_000 };
        let steps = |own: Vec<SummaryItem>| -> Vec<String> {
            let body = items.add_to(own, &inherited);
            body.iter().flat_map(|item| item.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
        };
        assert_eq!(
            steps(vec![step("Last request, answered: \"Go on.\"")]),
            ["Last request, answered: \"Go on.\"", "Before it: \"Port it.\"", "[ ] Write docs"]
        );
        assert_eq!(steps(Vec::new())[0], "Last request, the assistant asked back: \"Port it.\"");
        // An answered request is progress.
        let answered =
            SummaryItem { kind: SummaryItemKind::Progress, ..step("Last request, answered: \"Go on.\"") };
        assert_eq!(steps(vec![answered])[1], "Before it: \"Port it.\"");
    }

    #[test]
    fn m1_the_facts_of_two_packages_in_one_thread_are_all_kept() {
        let older = CarriedFacts {
            rules: vec![rule("Never sleep.")],
            last_user_request: Some("port the parser".to_owned()),
            todos: vec![task("a", TodoStatus::Pending)],
            errors: texts(&["red"]),
            ..CarriedFacts::default()
        };
        let newer = CarriedFacts {
            rules: vec![rule("Be brief.")],
            last_user_request: Some("write docs".to_owned()),
            todos: vec![task("b", TodoStatus::InProgress)],
            files: CarriedFiles { changed: texts(&["b.rs"]), ..CarriedFiles::default() },
            ..CarriedFacts::default()
        };
        let joined = join_facts([&older, &newer].into_iter()).unwrap();
        assert_eq!(joined.rules, [rule("Never sleep."), rule("Be brief.")]);
        assert_eq!(
            (joined.last_user_request.as_deref(), &joined.errors),
            (Some("write docs"), &texts(&["red"]))
        );
        let tasks: Vec<_> = joined.todos.iter().map(|task| task.text.as_str()).collect();
        assert_eq!(tasks, ["b", "a", "port the parser"]);
        let answered = CarriedFacts { last_request_answered: Some(true), ..older };
        assert_eq!(join_facts([&answered, &newer].into_iter()).unwrap().todos.len(), 2);
        assert_eq!(join_facts([].into_iter()), None);
    }

    #[test]
    fn m1_facts_last_over_a_second_generation_until_the_thread_says_otherwise() {
        let inherited = CarriedFacts {
            is_in_markdown: true,
            goal: Some("port it".to_owned()),
            rules: vec![rule("Never sleep."), rule("Ask first.")],
            last_user_request: Some("do it".to_owned()),
            last_request_answered: Some(false),
            todos: vec![task("a", TodoStatus::Completed), task("b", TodoStatus::Pending)],
            files: CarriedFiles {
                changed: texts(&["a.rs", "b.rs"]),
                read: texts(&["c.rs"]),
                deleted: Vec::new(),
            },
            errors: texts(&["red"]),
            ..CarriedFacts::default()
        };
        let idle = merge_facts(CarriedFacts::default(), &inherited);
        assert_eq!((idle.goal.as_deref(), idle.last_request_answered), (Some("port it"), Some(false)));
        assert_eq!((idle.todos, idle.errors), (vec![task("b", TodoStatus::Pending)], texts(&["red"])));
        assert!(!idle.is_in_markdown && idle.files.read.is_empty());
        let own = CarriedFacts {
            goal: Some("ship it".to_owned()),
            rules: vec![rule("Never sleep."), rule("Be brief.")],
            last_user_request: Some("and now?".to_owned()),
            todos: vec![task("c", TodoStatus::Pending)],
            files: CarriedFiles { changed: texts(&["b.rs", "d.rs"]), ..CarriedFiles::default() },
            ..CarriedFacts::default()
        };
        let merged = merge_facts(own.clone(), &inherited);
        assert_eq!((&merged.goal, &merged.last_user_request), (&own.goal, &own.last_user_request));
        assert_eq!(merged.last_request_answered, None);
        assert_eq!(merged.todos, [task("c", TodoStatus::Pending), task("b", TodoStatus::Pending)]);
        let done = CarriedFacts { todos: vec![task("B.", TodoStatus::Completed)], ..own };
        assert_eq!(
            merge_facts(done.clone(), &inherited).todos,
            done.todos,
            "the thread says that it is done"
        );
        assert_eq!(merged.rules, [rule("Ask first."), rule("Never sleep."), rule("Be brief.")]);
        assert_eq!(merged.files.changed, texts(&["b.rs", "d.rs", "a.rs"]));
        assert_eq!(merged.errors, texts(&[]));
    }
}
