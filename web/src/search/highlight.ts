// Highlights the query words in a snippet. The server matches stems; this approximation shows people why a
// hit was found. Pure.

export interface SnippetSegment {
  text: string;
  isMatch: boolean;
}

const WORD = /[\p{L}\p{N}_]+/gu;
const ENDINGS = /(?:ations?|ings?|ies|ied|edly|ed|es|ly|s|e|y)$/;
/** The minimum length of a stem; shorter words must match exactly. */
const STEM_MIN = 3;

/** Removes inflectional endings, accents and case. */
function stem(word: string): string {
  const normalized = word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const stemmed = normalized.replace(ENDINGS, "");
  // The consonant that is doubled before an ending, as in `stopped`.
  const singled = stemmed !== normalized && /([^aeiou])\1$/.test(stemmed) ? stemmed.slice(0, -1) : stemmed;
  return singled.length >= STEM_MIN ? singled : normalized;
}

/** Returns true if the script is written without spaces between words. */
const isUnspaced = (word: string) => /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u.test(word);

/** Splits a snippet at the query words. The words of a phrase match individually. */
export function markWords(snippet: string, words: readonly string[]): SnippetSegment[] {
  const queryWords = words.flatMap((word) => word.match(WORD) ?? []);
  const stems = new Set(queryWords.map(stem));
  const unspacedWords = queryWords.filter(isUnspaced);
  const ranges: [number, number][] = [];
  for (const wordMatch of snippet.matchAll(WORD)) {
    const [word] = wordMatch;
    if (stems.has(stem(word))) {
      ranges.push([wordMatch.index, wordMatch.index + word.length]);
      continue;
    }
    for (const part of unspacedWords) {
      for (let at = word.indexOf(part); at >= 0; at = word.indexOf(part, at + part.length))
        ranges.push([wordMatch.index + at, wordMatch.index + at + part.length]);
    }
  }
  ranges.sort(([a], [b]) => a - b);
  const segments: SnippetSegment[] = [];
  let from = 0;
  const append = (text: string, isMatch: boolean) => text && segments.push({ text, isMatch });
  for (const [start, end] of ranges) {
    if (start < from) continue;
    append(snippet.slice(from, start), false);
    append(snippet.slice(start, end), true);
    from = end;
  }
  append(snippet.slice(from), false);
  return segments;
}
