// The ruler over the bars. Pure.

const STEPS = [1, 2, 5];

/** Round moments of a stretch, in milliseconds from its beginning, at most `most` of them and never its very end. */
export function ticks(length: number, most = 5): number[] {
  if (!(length > 0)) return [0];
  let step = 1;
  for (let exponent = 0; length / step > most; exponent++) {
    const scale = 10 ** Math.floor(exponent / STEPS.length);
    step = (STEPS[exponent % STEPS.length] ?? 1) * scale;
  }
  const found: number[] = [];
  for (let at = 0; at < length * 0.97; at += step) found.push(at);
  return found;
}

/** Where a stretch is drawn, in parts of a hundred. A moment is drawn too. */
export function place(span: { start: number; end: number }, whole: { start: number; end: number }) {
  const length = Math.max(1, whole.end - whole.start);
  const left = Math.min(100, (100 * (span.start - whole.start)) / length);
  return { left, width: Math.min(100 - left, (100 * (span.end - span.start)) / length) };
}
