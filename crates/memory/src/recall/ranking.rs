//! The order of matches: best score first, except that among matches about the same thing the newest comes first,
//! because a later message usually revises an earlier one (M11).
//!
//! Scores come from the journal's index and are not computed here. The shares below are rules of thumb and not fitted
//! to data: they decide only which matches count as being about the same thing.

/// Minimum weight of the words that two matches about the same thing have in common, as a share of the weight of the
/// earlier one's words. So the later match may lack only words of little weight.
const WORD_WEIGHT_SHARE: f64 = 0.75;
/// Minimum weight of the words in common, as a share of the weight of all words of the question that occur in any
/// match. Two matches that have only one of many words in common are about different things.
const QUESTION_SHARE: f64 = 0.5;

/// The features of a match that its rank depends on. `Age` is ordered, and later messages have the greater value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedMatch<Age> {
    /// The score by the index, above 0. Comparable only within one query.
    pub(crate) score: f64,
    /// The query words in the message: bit `n` stands for word `n`.
    pub(crate) matched_words: u32,
    pub(crate) recency: Age,
}

/// The weight of each word of a question: a word in fewer of the matches has a greater weight, as with an inverse
/// document frequency over the matches.
pub(crate) struct WordWeights {
    /// The weight of each word, by its bit.
    words: Vec<f64>,
    /// Total weight of the words that occur in any match.
    total: f64,
}

impl WordWeights {
    /// Returns the weights for a set of matches, each given by its matched words as bits: `ln(1 + N / n)` for a word
    /// in `n` of `N` matches.
    pub(crate) fn from_matches(matched_words: &[u32]) -> Self {
        let match_count = matched_words.len() as f64;
        let weight = |word: usize| {
            let with_word = matched_words.iter().filter(|words| **words & (1 << word) != 0).count();
            (1.0 + match_count / with_word.max(1) as f64).ln()
        };
        let words = (0..journal::QUERY_WORDS_MAX).map(weight).collect();
        let mut weights = Self { words, total: 0.0 };
        weights.total = weights.sum_of(matched_words.iter().fold(0, |all, words| all | words));
        weights
    }

    /// Returns the total weight of the words whose bits are set.
    pub(crate) fn sum_of(&self, words: u32) -> f64 {
        self.words
            .iter()
            .enumerate()
            .filter(|(word, _)| words & (1 << word) != 0)
            .map(|(_, weight)| weight)
            .sum()
    }
}

/// Returns the indexes of `matches`, which are sorted best first, in their final order.
///
/// Each group of matches about the same thing is sorted newest first among the ranks that the group has. All other
/// matches keep their ranks. `score_share` is the minimum score of the later of two matches about the same thing, as a
/// share of the earlier one's score: scores are probabilities, so a much lower one means that the earlier match is the
/// better answer. The cost is quadratic in the number of matches.
pub(crate) fn rank_newest_first<Age: Ord>(
    matches: &[RankedMatch<Age>],
    weights: &WordWeights,
    score_share: f64,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..matches.len()).collect();
    let mut is_ranked = vec![false; matches.len()];
    for best in 0..matches.len() {
        if is_ranked[best] {
            continue;
        }
        let ranks: Vec<usize> = (best..matches.len())
            .filter(|index| !is_ranked[*index])
            .filter(|index| {
                *index == best || is_revision(&matches[*index], &matches[best], weights, score_share)
            })
            .collect();
        let mut newest: Vec<usize> = ranks.clone();
        newest.sort_by(|a, b| matches[*b].recency.cmp(&matches[*a].recency));
        for (rank, message) in ranks.into_iter().zip(newest) {
            order[rank] = message;
            is_ranked[rank] = true;
        }
    }
    order
}

/// Returns whether `later` is newer than `earlier` and about the same thing.
fn is_revision<Age: Ord>(
    later: &RankedMatch<Age>,
    earlier: &RankedMatch<Age>,
    weights: &WordWeights,
    score_share: f64,
) -> bool {
    let shared = weights.sum_of(later.matched_words & earlier.matched_words);
    // Messages that share no word with the question may be about anything.
    earlier.matched_words != 0
        && later.recency > earlier.recency
        && later.score >= earlier.score * score_share
        && shared >= weights.sum_of(earlier.matched_words) * WORD_WEIGHT_SHARE
        && shared >= weights.total * QUESTION_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the order of matches given as `(score, matched words, recency)`.
    fn check(matches: &[(f64, u32, u32)], expected: &[usize]) {
        let to_match = |(score, matched_words, recency): &(f64, u32, u32)| RankedMatch {
            score: *score,
            matched_words: *matched_words,
            recency: *recency,
        };
        let ranked: Vec<_> = matches.iter().map(to_match).collect();
        let words: Vec<u32> = ranked.iter().map(|ranked| ranked.matched_words).collect();
        assert_eq!(
            rank_newest_first(&ranked, &WordWeights::from_matches(&words), 0.2),
            expected,
            "{matches:?}"
        );
    }

    #[test]
    fn m11_the_newest_of_several_about_the_same_thing_is_first() {
        check(&[], &[]);
        check(&[(9.0, 0b11, 1), (8.0, 0b11, 2)], &[1, 0]);
        check(&[(9.0, 0b11, 1), (8.0, 0b11, 3), (7.0, 0b11, 2)], &[1, 2, 0]);
        // The later match may lack a word that nearly all matches contain.
        let many = [(2.0, 0b001, 0), (2.0, 0b001, 0), (2.0, 0b001, 0), (2.0, 0b001, 0)];
        check(&[&[(9.0, 0b111, 1), (6.0, 0b110, 2)], &many[..]].concat(), &[1, 0, 2, 3, 4, 5]);
    }

    #[test]
    fn a_match_about_another_thing_keeps_its_rank() {
        // The second match has another word, has a much lower score, or is older.
        check(&[(9.0, 0b01, 1), (8.0, 0b10, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (8.0, 0b10, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (1.5, 0b11, 2)], &[0, 1]);
        check(&[(9.0, 0b11, 2), (8.0, 0b11, 1)], &[0, 1]);
        check(&[(9.0, 0b11, 1), (8.5, 0b100, 9), (8.0, 0b11, 2)], &[2, 1, 0]);
        // Found by their meaning alone.
        check(&[(9.0, 0, 1), (8.0, 0, 2)], &[0, 1]);
    }
}
