//! The order of messages found: the best match first, but of several about the same thing the newest, because what was
//! said later replaces what was said before. Nothing is read here.

/// Two messages are about the same thing when the later one's score is at least this part of the earlier one's, …
const SCORE_SHARE: f64 = 0.5;
/// … it holds the words that the earlier one holds, but for some that say no more than the rest of this part, …
const WORD_WEIGHT_SHARE: f64 = 0.75;
/// … and these words say at least this part of what all words of the question say that were found at all: two messages
/// that share but one of many words are about different things.
const QUESTION_SHARE: f64 = 0.5;

/// A message found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedMatch<Age> {
    pub(crate) score: f64,
    /// The words it holds, as bits.
    pub(crate) matched_words: u32,
    /// Later messages have the greater age mark.
    pub(crate) recency: Age,
}

/// How much each word of a question says: the fewer of the messages found hold it, the more.
pub(crate) struct WordWeights {
    words: Vec<f64>,
    /// Total weight of all words that occur in any message.
    total: f64,
}

impl WordWeights {
    /// Returns the weights of the words by those that each of the messages found holds, as bits.
    pub(crate) fn from_matches(held: &[u32]) -> Self {
        let all = held.len() as f64;
        let weight = |word: usize| {
            let holding = held.iter().filter(|held| **held & (1 << word) != 0).count();
            (1.0 + all / holding.max(1) as f64).ln()
        };
        let words = (0..journal::QUERY_WORDS_MAX).map(weight).collect();
        let mut weights = Self { words, total: 0.0 };
        weights.total = weights.sum_of(held.iter().fold(0, |all, held| all | held));
        weights
    }

    fn sum_of(&self, held: u32) -> f64 {
        self.words
            .iter()
            .enumerate()
            .filter(|(word, _)| held & (1 << word) != 0)
            .map(|(_, weight)| weight)
            .sum()
    }
}

/// Returns the places of `matches`, which come best first, in the order in which they are to be read.
///
/// Messages about the same thing share out the ranks they have among themselves, newest first, so that nothing else
/// loses its rank.
pub(crate) fn rank_newest_first<Age: Ord>(matches: &[RankedMatch<Age>], weights: &WordWeights) -> Vec<usize> {
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
        newest.sort_by(|a, b| matches[*b].recency.cmp(&matches[*a].recency));
        for (rank, message) in ranks.into_iter().zip(newest) {
            order[rank] = message;
            is_settled[rank] = true;
        }
    }
    order
}

fn is_revision<Age: Ord>(
    later: &RankedMatch<Age>,
    earlier: &RankedMatch<Age>,
    weights: &WordWeights,
) -> bool {
    let shared = weights.sum_of(later.matched_words & earlier.matched_words);
    later.recency > earlier.recency
        && later.score >= earlier.score * SCORE_SHARE
        && shared >= weights.sum_of(earlier.matched_words) * WORD_WEIGHT_SHARE
        && shared >= weights.total * QUESTION_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Matches as `(score, words held, age)`.
    fn check(matches: &[(f64, u32, u32)], expected: &[usize]) {
        let found = |(score, held, age): &(f64, u32, u32)| RankedMatch {
            score: *score,
            matched_words: *held,
            recency: *age,
        };
        let found: Vec<_> = matches.iter().map(found).collect();
        let held: Vec<u32> = found.iter().map(|one| one.matched_words).collect();
        assert_eq!(rank_newest_first(&found, &WordWeights::from_matches(&held)), expected, "{matches:?}");
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
}
