//! The filter of a page of events by category and type, so that damage of these columns hides no event. A statement leaves
//! an event out only if one of the two columns has a name of the catalog that the query does not select. Any other name
//! may be a damaged one: the event is read, and its checksum shows the damage. An intact event with such a name comes from
//! a later version and is left out after it was read.
//!
//! To hide an event, damage would have to turn a name into another one of the catalog, and these differ in several bits.
//! The cost of an event that is left out is the comparison of its two names.

use protocol::{Category, Event, EventType};

use super::{CONTEXT_CHANGE_EVENTS, PIN_EVENTS};
use crate::view::history::BOUNDARY_EVENTS;
use crate::{EventQuery, is_damaged};

/// Returns the conditions of a query on categories and types, each after ` AND `. [`is_selected`] decides about the events
/// that they select.
pub(super) fn page_conditions(query: &EventQuery) -> String {
    // Names are listed in catalog order, so that equal queries produce the same statement. They are literals and not
    // parameters, because SQLite uses the partial index of markers only if it can prove that the statement selects
    // nothing else.
    let selected = [
        name_condition("category", &category_names(|category| query.categories.contains(&category))),
        name_condition("event_type", &type_names(|event_type| query.types.contains(&event_type))),
    ];
    let excluded = [
        name_condition("category", &category_names(|category| is_category_excluded(query, category))),
        name_condition("event_type", &type_names(|event_type| !is_type_selected(query, event_type))),
    ];
    let join = |conditions: [Option<String>; 2], operator: &str| {
        conditions.into_iter().flatten().collect::<Vec<_>>().join(operator)
    };
    let mut conditions = match (join(selected, " AND "), join(excluded, " OR ")) {
        (_, excluded) if excluded.is_empty() => String::new(),
        // The first condition is redundant. Most events fulfil it, and comparing one name is faster.
        (selected, excluded) => format!(" AND ({selected} OR NOT ({excluded}))"),
    };
    if !query.types.is_empty() && query.types.iter().all(|event_type| BOUNDARY_EVENTS.contains(event_type)) {
        conditions.push_str(" AND ");
        conditions.push_str(CONTEXT_CHANGE_EVENTS);
    }
    if query.types == [EventType::PinsChanged] {
        conditions.push_str(" AND ");
        conditions.push_str(PIN_EVENTS);
    }
    conditions
}

/// Returns whether an event that was read belongs to the page: a damaged one, or one with the names of the query.
pub(super) fn is_selected(query: &EventQuery, event: &Event) -> bool {
    let has_category = || query.categories.iter().any(|category| category.as_str() == event.category);
    let has_type = || query.types.iter().any(|event_type| event_type.as_str() == event.event_type);
    is_damaged(event)
        || ((query.categories.is_empty() || has_category()) && (query.types.is_empty() || has_type()))
}

/// Returns whether a query selects the events of a type.
fn is_type_selected(query: &EventQuery, event_type: EventType) -> bool {
    (query.categories.is_empty() || query.categories.contains(&event_type.category()))
        && (query.types.is_empty() || query.types.contains(&event_type))
}

/// Returns whether a query selects no event of a category.
fn is_category_excluded(query: &EventQuery, category: Category) -> bool {
    (!query.categories.is_empty() && !query.categories.contains(&category))
        || (!query.types.is_empty()
            && !query.types.iter().any(|event_type| event_type.category() == category))
}

/// Returns the names of the categories that fulfil a condition, in catalog order.
fn category_names(is_listed: impl Fn(Category) -> bool) -> Vec<&'static str> {
    Category::ALL.into_iter().filter(|category| is_listed(*category)).map(Category::as_str).collect()
}

/// Returns the names of the event types that fulfil a condition, in catalog order.
fn type_names(is_listed: impl Fn(EventType) -> bool) -> Vec<&'static str> {
    let listed = EventType::ALL.iter().filter(|event_type| is_listed(**event_type));
    listed.map(|event_type| event_type.as_str()).collect()
}

/// Returns the condition that a column has one of these names; `None` without names.
fn name_condition(column: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{column} IN ('{}')", names.join("', '")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query_for(categories: &[Category], types: &[EventType]) -> EventQuery {
        EventQuery { categories: categories.to_vec(), types: types.to_vec(), ..EventQuery::default() }
    }

    #[test]
    fn a4_fewer_than_five_flipped_bits_turn_no_name_into_another() {
        let distance = |left: &str, right: &str| -> u32 {
            left.bytes().zip(right.bytes()).map(|(left, right)| (left ^ right).count_ones()).sum()
        };
        for names in [category_names(|_| true), type_names(|_| true)] {
            for (index, left) in names.iter().enumerate() {
                for right in &names[index + 1..] {
                    assert!(left.len() != right.len() || distance(left, right) >= 5, "{left} {right}");
                }
            }
        }
    }

    #[test]
    fn a4_a_statement_leaves_out_only_names_that_the_query_does_not_select() {
        use Category::{Lifecycle, Message, Middleware, Outputs};
        use EventType::{AiMessage, HumanMessage, RunEnded, ThreadRewound};
        let database = rusqlite::Connection::open_in_memory().unwrap();
        for query in [
            query_for(&[], &[]),
            query_for(&[Message], &[]),
            query_for(&[Middleware, Message], &[]),
            query_for(&[Outputs], &[]),
            query_for(&Category::ALL, &[]),
            query_for(&[], &[AiMessage]),
            query_for(&[], &[ThreadRewound, HumanMessage, RunEnded]),
            query_for(&[Message, Lifecycle], &[AiMessage]),
            query_for(&[], EventType::ALL),
        ] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT ?1 AS category, ?2 AS event_type) WHERE true{}",
                page_conditions(&query)
            );
            let is_read = |category: &str, event_type: &str| {
                database.query_row(&sql, [category, event_type], |row| row.get::<_, bool>(0)).unwrap()
            };
            for event_type in EventType::ALL {
                let (category, name) = (event_type.category().as_str(), event_type.as_str());
                let expected = is_type_selected(&query, *event_type);
                assert_eq!(is_read(category, name), expected, "{query:?} {name}");
                // One damaged name leaves the other one to decide.
                assert_eq!(is_read("messagf", name), expected, "{query:?} {name}");
                let is_possible = !is_category_excluded(&query, event_type.category());
                assert_eq!(is_read(category, "ai_messagf"), is_possible, "{query:?} {category}");
            }
            assert!(is_read("messagf", "ai_messagf"), "{query:?}");
        }
    }
}
