// Myers' diff algorithm: the shortest edit script between two sequences.

/** A run of equal, removed or added elements. */
export interface DiffSegment {
  op: "same" | "removed" | "added";
  value: string[];
}

/** The maximum length of the edit script. Beyond it, the sequences count as entirely different. */
const EDITS_MAX = 1_000;

/** Returns the segments in order. A replacement is a removed segment followed by an added one. */
export function diffSequences(old: readonly string[], next: readonly string[]): DiffSegment[] {
  let head = 0;
  while (head < old.length && head < next.length && old[head] === next[head]) head += 1;
  let tail = 0;
  const maxTail = Math.min(old.length, next.length) - head;
  while (tail < maxTail && old[old.length - 1 - tail] === next[next.length - 1 - tail]) tail += 1;
  const [leftMiddle, rightMiddle] = [
    old.slice(head, old.length - tail),
    next.slice(head, next.length - tail),
  ];
  const segments: DiffSegment[] = [];
  const append = (op: DiffSegment["op"], value: readonly string[]) => {
    const last = segments.at(-1);
    if (value.length === 0) return;
    if (last?.op === op) last.value.push(...value);
    else segments.push({ op, value: [...value] });
  };
  append("same", old.slice(0, head));
  for (const [x, y, length] of replacements(leftMiddle, rightMiddle)) {
    append("removed", leftMiddle.slice(x[0], x[1]));
    append("added", rightMiddle.slice(y[0], y[1]));
    append("same", leftMiddle.slice(x[1], x[1] + length));
  }
  append("same", old.slice(old.length - tail));
  return segments;
}

type IndexRange = [from: number, to: number];

/** Returns the replaced ranges, each with the length of the matching run after it. */
function replacements(a: string[], b: string[]): [IndexRange, IndexRange, number][] {
  const runs = matchingRuns(a, b);
  const result: [IndexRange, IndexRange, number][] = [];
  let [x, y] = [0, 0];
  for (const [fromX, fromY, length] of runs) {
    result.push([[x, fromX], [y, fromY], length]);
    [x, y] = [fromX + length, fromY + length];
  }
  result.push([[x, a.length], [y, b.length], 0]);
  return result;
}

/** Returns the matching runs: the start in both sequences and the length. */
function matchingRuns(a: string[], b: string[]): [number, number, number][] {
  const [n, m] = [a.length, b.length];
  if (n === 0 || m === 0) return [];
  const maxEdits = Math.min(n + m, EDITS_MAX);
  const offset = maxEdits + 1;
  const furthest = new Int32Array(2 * maxEdits + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= maxEdits; edits += 1) {
    trace.push(furthest.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const [below, above] = [furthest[offset + k - 1] ?? 0, furthest[offset + k + 1] ?? 0];
      let x = k === -edits || (k !== edits && below < above) ? above : below + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x += 1;
      furthest[offset + k] = x;
      if (x >= n && x - k >= m) return backtrack(trace, n, m);
    }
  }
  return [];
}

/** Traces the edit script back from its end. */
function backtrack(trace: Int32Array[], n: number, m: number): [number, number, number][] {
  const runs: [number, number, number][] = [];
  let [x, y] = [n, m];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits];
    const at = (k: number) => reach?.[k + edits + 1] ?? 0;
    const k = x - y;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const before = down ? k + 1 : k - 1;
    const start = edits === 0 ? 0 : down ? at(before) : at(before) + 1;
    if (x > start) runs.push([start, start - k, x - start]);
    x = edits === 0 ? 0 : at(before);
    y = x - before;
  }
  return runs.reverse();
}
