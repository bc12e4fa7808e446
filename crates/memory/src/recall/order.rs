//! The order of messages found: the best match first, but of several about the same thing the newest, because what was
//! said later replaces what was said before. Nothing is read here.

use journal::Ranked;

/// Matches so many seqs apart are about one subject: each makes the other likelier to be what is looked for, …
const NEAR_SEQS: u64 = 6;
/// … by this part of the other's score.
const NEAR_SHARE: f64 = 0.4;

/// Two messages are about the same thing when the later one's score is at least this part of the earlier one's, …
const SCORE_SHARE: f64 = 0.5;
/// … and it holds the words that the earlier one holds, but for some that say no more than the rest of this part.
const WORDS_SHARE: f64 = 0.75;

/// A message found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match<Age> {
    /// How well it matches.
    pub(super) score: f64,
    /// The words it holds, as bits.
    pub(super) held: u32,
    /// Later messages have the greater age mark.
    pub(super) age: Age,
}

/// How much each word of a question says: the fewer of the messages found hold it, the more.
pub(super) struct Weights(Vec<f64>);

impl Weights {
    /// Returns the weights of the words by the messages found.
    pub(super) fn of(ranked: &[Ranked]) -> Self {
        let all = ranked.len() as f64;
        let weight = |word: usize| {
            let holding = ranked.iter().filter(|one| one.holds(word)).count();
            (1.0 + all / holding.max(1) as f64).ln()
        };
        Self((0..journal::QUERY_WORDS_MAX).map(weight).collect())
    }

    fn of_words(&self, held: u32) -> f64 {
        self.0.iter().enumerate().filter(|(word, _)| held & (1 << word) != 0).map(|(_, weight)| weight).sum()
    }
}

/// Brings messages, which come best first, into an order in which those near others are better than they are alone.
pub(super) fn lift_neighbours(ranked: &mut Vec<Ranked>) {
    let lifted = |one: &Ranked| {
        let is_near = |other: &&Ranked| {
            other.thread_id == one.thread_id
                && other.seq != one.seq
                && other.seq.abs_diff(one.seq) <= NEAR_SEQS
        };
        // They come best first.
        one.score + ranked.iter().find(is_near).map_or(0.0, |near| near.score * NEAR_SHARE)
    };
    let mut scored: Vec<(f64, Ranked)> = ranked.iter().map(|one| (lifted(one), one.clone())).collect();
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    *ranked = scored.into_iter().map(|(_, one)| one).collect();
}

/// Returns the places of `matches`, which come best first, in the order in which they are to be read.
///
/// Messages about the same thing share out the ranks they have among themselves, newest first, so that nothing else
/// loses its rank.
pub(super) fn newest_first<Age: Ord>(matches: &[Match<Age>], weights: &Weights) -> Vec<usize> {
    let mut order: Vec<usize> = (0..matches.len()).collect();
    let mut is_settled = vec![false; matches.len()];
    for best in 0..matches.len() {
        if is_settled[best] {
            continue;
        }
        let ranks: Vec<usize> = (best..matches.len())
            .filter(|at| !is_settled[*at])
            .filter(|at| *at == best || is_revision(&matches[*at], &matches[best], weights))
            .collect();
        let mut newest: Vec<usize> = ranks.clone();
        newest.sort_by(|a, b| matches[*b].age.cmp(&matches[*a].age));
        for (rank, message) in ranks.into_iter().zip(newest) {
            order[rank] = message;
            is_settled[rank] = true;
        }
    }
    order
}

fn is_revision<Age: Ord>(later: &Match<Age>, earlier: &Match<Age>, weights: &Weights) -> bool {
    later.age > earlier.age
        && later.score >= earlier.score * SCORE_SHARE
        && weights.of_words(later.held & earlier.held) >= weights.of_words(earlier.held) * WORDS_SHARE
}

#[cfg(test)]
mod tests {
    use protocol::ThreadId;

    use super::*;

    /// Matches as `(score, words held, age)`.
    fn check(matches: &[(f64, u32, u32)], expected: &[usize]) {
        let found = |(score, held, age): &(f64, u32, u32)| Match { score: *score, held: *held, age: *age };
        let found: Vec<_> = matches.iter().map(found).collect();
        let thread_id = ThreadId::generate();
        let ranked = |one: &Match<u32>| Ranked { thread_id, seq: 1, score: one.score, held: one.held };
        let ranked: Vec<_> = found.iter().map(ranked).collect();
        assert_eq!(newest_first(&found, &Weights::of(&ranked)), expected, "{matches:?}");
    }

    #[test]
    fn m11_the_newest_of_several_about_the_same_thing_is_first() {
        check(&[], &[]);
        check(&[(9.0, 0b11, 1), (8.0, 0b11, 2)], &[1, 0]);
        check(&[(9.0, 0b11, 1), (8.0, 0b11, 3), (7.0, 0b11, 2)], &[1, 2, 0]);
        // A word that nearly all hold may be missing.
        let many = [(2.0, 0b001, 0), (2.0, 0b001, 0), (2.0, 0b001, 0), (2.0, 0b001, 0)];
        check(&[&[(9.0, 0b111, 1), (6.0, 0b110, 2)], &many[..]].concat(), &[1, 0, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_about_something_else_keeps_its_rank() {
        // It holds another word, is much worse, or was said before.
        check(&[(9.0, 0b01, 1), (8.0, 0b10, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (8.0, 0b10, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (4.0, 0b11, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 2), (8.0, 0b11, 1)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (8.5, 0b100, 9), (8.0, 0b11, 2)], &[2, 1, 0]);
    }

    #[test]
    fn matches_near_each_other_lift_each_other() {
        let (one, two) = (ThreadId::generate(), ThreadId::generate());
        let ranked = |thread_id, seq, score| Ranked { thread_id, seq, score, held: 1 };
        let mut found =
            vec![ranked(one, 50, 10.0), ranked(one, 9, 9.0), ranked(two, 8, 8.0), ranked(one, 3, 5.0)];
        lift_neighbours(&mut found);
        let order: Vec<_> = found.iter().map(|one| one.seq).collect();
        assert_eq!(order, [9, 50, 3, 8]);
        assert_eq!(found[0].score, 9.0, "what a message says itself stays");
    }
}
