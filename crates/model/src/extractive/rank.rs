//! Ranks sentences without a model: how near each is to what the whole text is about (a tf-idf centroid over stems).
//! Deterministic, linear in the text; choosing and cutting is left to the caller.

use std::collections::HashMap;

use super::words::Words;

/// Sentences that are looked at; later ones score 0.
const SENTENCES_MAX: usize = 20_000;

/// Words below which a sentence counts less: two words are rarely worth quoting.
const FULL_WEIGHT_WORDS: usize = 6;

/// Returns a score of `0.0..=1.0` for each sentence, the best one 1; code blocks and sentences without words score 0.
///
/// Only the first 20,000 sentences are looked at. The same input gives the same scores on every machine.
pub fn rank(sentences: &[&str]) -> Vec<f32> {
    let considered = &sentences[..sentences.len().min(SENTENCES_MAX)];
    let vectors = vectors(considered);
    let centroid = centroid(&vectors);
    let mut scores: Vec<f32> = vectors.iter().map(|vector| nearness(vector, &centroid)).collect();
    let best = scores.iter().copied().fold(0.0, f32::max);
    if best > 0.0 {
        for score in &mut scores {
            *score /= best;
        }
    }
    scores.resize(sentences.len(), 0.0);
    scores
}

/// A sentence as weighted words, ordered by the word's number.
struct Vector {
    weights: Vec<(usize, f32)>,
    words: usize,
}

fn vectors(sentences: &[&str]) -> Vec<Vector> {
    let words = Words::of(sentences);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut sentences_with: Vec<f32> = Vec::new();
    let mut counted = Vec::with_capacity(sentences.len());
    for sentence in sentences {
        let mut found: Vec<usize> = if is_code(sentence) { Vec::new() } else { words.split(sentence) }
            .into_iter()
            .map(|word| {
                let next = numbers.len();
                *numbers.entry(word).or_insert(next)
            })
            .collect();
        sentences_with.resize(numbers.len(), 0.0);
        found.sort_unstable();
        let counts = run_lengths(&found);
        for (number, _) in &counts {
            sentences_with[*number] += 1.0;
        }
        counted.push((counts, found.len()));
    }
    let total = sentences.len() as f32;
    let weigh = |(number, count): (usize, f32)| {
        (number, (1.0 + count.ln()) * (1.0 + total / sentences_with[number]).ln())
    };
    counted
        .into_iter()
        .map(|(counts, words)| Vector { weights: counts.into_iter().map(weigh).collect(), words })
        .collect()
}

fn is_code(sentence: &str) -> bool {
    sentence.starts_with("```") || sentence.starts_with("~~~")
}

fn run_lengths(sorted: &[usize]) -> Vec<(usize, f32)> {
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as f32)).collect()
}

/// Returns the sum of the sentences, each brought to length 1 first so that a long one does not decide alone.
fn centroid(vectors: &[Vector]) -> Vec<f32> {
    let mut sum = Vec::new();
    for vector in vectors {
        let length = length(vector);
        for (number, weight) in &vector.weights {
            if sum.len() <= *number {
                sum.resize(number + 1, 0.0);
            }
            sum[*number] += weight / length;
        }
    }
    sum
}

fn length(vector: &Vector) -> f32 {
    vector.weights.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt().max(f32::MIN_POSITIVE)
}

fn nearness(vector: &Vector, centroid: &[f32]) -> f32 {
    let product: f32 = vector.weights.iter().map(|(number, weight)| weight * centroid[*number]).sum();
    let fullness = (vector.words as f32 / FULL_WEIGHT_WORDS as f32).min(1.0);
    product / length(vector) * fullness
}

#[cfg(test)]
mod tests {
    use super::{SENTENCES_MAX, rank};

    const TEXT: [&str; 5] = [
        "The flaky test fails because the session cache is shared between two workers.",
        "Thanks!",
        "We made the session cache of the flaky test local to each worker.",
        "The weather in Lisbon was pleasant on Tuesday afternoon.",
        "```\nthe session cache of the flaky test shared between workers\n```",
    ];

    #[test]
    fn what_the_text_is_about_ranks_above_asides() {
        let scores = rank(&TEXT);
        assert_eq!(scores.len(), TEXT.len());
        assert!(scores[0].max(scores[2]) == 1.0, "{scores:?}");
        assert!(scores[0].min(scores[2]) > scores[3] && scores[3] > scores[1], "{scores:?}");
        assert_eq!(scores[4], 0.0);
    }

    #[test]
    fn the_same_text_gives_the_same_scores() {
        assert_eq!(rank(&TEXT), rank(&TEXT));
    }

    #[test]
    fn odd_input_is_no_failure() {
        assert_eq!(rank(&[]), Vec::<f32>::new());
        assert_eq!(rank(&[""]), [0.0]);
        assert_eq!(rank(&["!!!", "—", "the of and"]), [0.0, 0.0, 0.0]);
        assert!(
            rank(&["今天修复了会话缓存的错误。", "会话缓存的错误已修复。", "天气很好。"])
                .iter()
                .all(|s| *s >= 0.0)
        );
    }

    #[test]
    fn cost_is_bounded() {
        let many = vec!["the session cache grows"; SENTENCES_MAX + 1];
        let scores = rank(&many);
        assert_eq!(scores.len(), many.len());
        assert_eq!(scores[0], 1.0);
        assert_eq!(scores[SENTENCES_MAX], 0.0);
    }
}
