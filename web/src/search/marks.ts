// Which parts of a snippet are the words that were looked for. The server finds words by their stem; this comes close enough
// for people to see why something was found. Pure.

export interface Part {
  text: string;
  isFound: boolean;
}

const WORD = /[\p{L}\p{N}_]+/gu;
const ENDINGS = /(?:ations?|ings?|ies|ied|edly|ed|es|ly|s|e|y)$/;
/** Letters a stem has at the least; shorter words are only found as they are. */
const STEM_MIN = 3;

/** Cuts what a word ends with when it is bent, accents and case away. */
function stem(word: string): string {
  const plain = word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const cut = plain.replace(ENDINGS, "");
  // The letter that is doubled before an ending: `stopped`.
  const single = cut !== plain && /([^aeiou])\1$/.test(cut) ? cut.slice(0, -1) : cut;
  return single.length >= STEM_MIN ? single : plain;
}

/** Whether a script writes its words without blanks between them. */
const isUnspaced = (word: string) => /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u.test(word);

/** Splits a snippet at the words; a phrase counts word by word. */
export function marked(snippet: string, words: readonly string[]): Part[] {
  const asked = words.flatMap((word) => word.match(WORD) ?? []);
  const stems = new Set(asked.map(stem));
  const within = asked.filter(isUnspaced);
  const ranges: [number, number][] = [];
  for (const found of snippet.matchAll(WORD)) {
    const [word] = found;
    if (stems.has(stem(word))) {
      ranges.push([found.index, found.index + word.length]);
      continue;
    }
    for (const part of within) {
      for (let at = word.indexOf(part); at >= 0; at = word.indexOf(part, at + part.length))
        ranges.push([found.index + at, found.index + at + part.length]);
    }
  }
  ranges.sort(([a], [b]) => a - b);
  const parts: Part[] = [];
  let from = 0;
  const add = (text: string, isFound: boolean) => text && parts.push({ text, isFound });
  for (const [start, end] of ranges) {
    if (start < from) continue;
    add(snippet.slice(from, start), false);
    add(snippet.slice(start, end), true);
    from = end;
  }
  add(snippet.slice(from), false);
  return parts;
}
