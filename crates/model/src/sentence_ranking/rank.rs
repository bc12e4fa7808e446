//! Ranking of sentences without a model: the similarity of each sentence to the whole text, by a tf-idf centroid
//! over stems. Deterministic, and linear in the length of the text. Selecting and cutting sentences is left to
//! the caller.

use std::collections::HashMap;

use super::stems::StemTokenizer;

/// The most sentences that are ranked. Later ones score 0.
const SENTENCES_MAX: usize = 20_000;

/// The number of words from which a sentence has its full score. Shorter sentences score less, because they are
/// rarely worth quoting.
const FULL_WEIGHT_WORDS: usize = 6;

/// Returns a score between 0.0 and 1.0 for each sentence. The best sentence scores 1; code blocks and sentences
/// without words score 0.
///
/// Only the first 20,000 sentences are considered. The same input gives the same scores on every machine.
pub fn rank_sentences(sentences: &[&str]) -> Vec<f32> {
    let considered = &sentences[..sentences.len().min(SENTENCES_MAX)];
    let vectors = term_vectors(considered);
    let centroid = centroid(&vectors);
    let mut scores: Vec<f32> = vectors.iter().map(|vector| similarity(vector, &centroid)).collect();
    let best = scores.iter().copied().fold(0.0, f32::max);
    if best > 0.0 {
        for score in &mut scores {
            *score /= best;
        }
    }
    scores.resize(sentences.len(), 0.0);
    scores
}

/// A sentence as a sparse vector of weighted words.
struct TermVector {
    /// The number and the weight of each distinct word, ordered by number.
    weights: Vec<(usize, f32)>,
    /// The number of words of the sentence, with repetitions.
    words: usize,
}

/// Returns the tf-idf vector of each sentence.
fn term_vectors(sentences: &[&str]) -> Vec<TermVector> {
    let tokenizer = StemTokenizer::for_sentences(sentences);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut sentences_with: Vec<f32> = Vec::new();
    let mut term_counts = Vec::with_capacity(sentences.len());
    for sentence in sentences {
        let mut terms: Vec<usize> = if is_code(sentence) { Vec::new() } else { tokenizer.tokenize(sentence) }
            .into_iter()
            .map(|word| {
                let next = numbers.len();
                *numbers.entry(word).or_insert(next)
            })
            .collect();
        sentences_with.resize(numbers.len(), 0.0);
        terms.sort_unstable();
        let counts = run_lengths(&terms);
        for (number, _) in &counts {
            sentences_with[*number] += 1.0;
        }
        term_counts.push((counts, terms.len()));
    }
    let total = sentences.len() as f32;
    let weigh = |(number, count): (usize, f32)| {
        (number, (1.0 + count.ln()) * (1.0 + total / sentences_with[number]).ln())
    };
    term_counts
        .into_iter()
        .map(|(counts, words)| TermVector { weights: counts.into_iter().map(weigh).collect(), words })
        .collect()
}

/// Returns whether the sentence is a fenced code block.
fn is_code(sentence: &str) -> bool {
    sentence.starts_with("```") || sentence.starts_with("~~~")
}

/// Returns each distinct value of a sorted list with the number of its occurrences.
fn run_lengths(sorted: &[usize]) -> Vec<(usize, f32)> {
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as f32)).collect()
}

/// Returns the sum of the vectors, each normalized to length 1 so that a long sentence does not dominate.
fn centroid(vectors: &[TermVector]) -> Vec<f32> {
    let mut sum = Vec::new();
    for vector in vectors {
        let length = norm(vector);
        for (number, weight) in &vector.weights {
            if sum.len() <= *number {
                sum.resize(number + 1, 0.0);
            }
            sum[*number] += weight / length;
        }
    }
    sum
}

/// Returns the Euclidean length of a vector; never zero.
fn norm(vector: &TermVector) -> f32 {
    vector.weights.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
}

/// Returns the cosine-like similarity of a sentence to the centroid, reduced for short sentences.
fn similarity(vector: &TermVector, centroid: &[f32]) -> f32 {
    let product: f32 = vector.weights.iter().map(|(number, weight)| weight * centroid[*number]).sum();
    let fullness = (vector.words as f32 / FULL_WEIGHT_WORDS as f32).min(1.0);
    product / norm(vector) * fullness
}

#[cfg(test)]
mod tests {
    use super::{SENTENCES_MAX, rank_sentences};

    const TEXT: [&str; 5] = [
        "The flaky test fails because the session cache is shared between two workers.",
        "Thanks!",
        "We made the session cache of the flaky test local to each worker.",
        "The weather in Lisbon was pleasant on Tuesday afternoon.",
        "```\nthe session cache of the flaky test shared between workers\n```",
    ];

    #[test]
    fn sentences_on_the_topic_rank_above_asides() {
        let scores = rank_sentences(&TEXT);
        assert_eq!(scores.len(), TEXT.len());
        assert!(scores[0].max(scores[2]) == 1.0, "{scores:?}");
        assert!(scores[0].min(scores[2]) > scores[3] && scores[3] > scores[1], "{scores:?}");
        assert_eq!(scores[4], 0.0);
    }

    #[test]
    fn the_same_text_gives_the_same_scores() {
        assert_eq!(rank_sentences(&TEXT), rank_sentences(&TEXT));
    }

    #[test]
    fn unusual_input_does_not_fail() {
        assert_eq!(rank_sentences(&[]), Vec::<f32>::new());
        assert_eq!(rank_sentences(&[""]), [0.0]);
        assert_eq!(rank_sentences(&["!!!", "—", "the of and"]), [0.0, 0.0, 0.0]);
        assert!(
            rank_sentences(&["今天修复了会话缓存的错误。", "会话缓存的错误已修复。", "天气很好。"])
                .iter()
                .all(|s| *s >= 0.0)
        );
    }

    #[test]
    fn cost_is_bounded() {
        let many = vec!["the session cache grows"; SENTENCES_MAX + 1];
        let scores = rank_sentences(&many);
        assert_eq!(scores.len(), many.len());
        assert_eq!(scores[0], 1.0);
        assert_eq!(scores[SENTENCES_MAX], 0.0);
    }
}
