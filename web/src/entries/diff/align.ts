// What stays of one row of things when it becomes another: the shortest way there, as Myers found it.

/** A stretch that stays, goes or comes. */
export interface Part {
  is: "same" | "removed" | "added";
  value: string[];
}

/** Steps after which two rows count as different throughout. */
const EDITS_MAX = 1_000;

/** Returns the stretches of both, in their order; where something is replaced, what goes stands before what comes. */
export function align(old: readonly string[], now: readonly string[]): Part[] {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  const most = Math.min(old.length, now.length) - head;
  while (tail < most && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const [left, right] = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)];
  const parts: Part[] = [];
  const put = (is: Part["is"], value: readonly string[]) => {
    const last = parts.at(-1);
    if (value.length === 0) return;
    if (last?.is === is) last.value.push(...value);
    else parts.push({ is, value: [...value] });
  };
  put("same", old.slice(0, head));
  for (const [x, y, length] of stretches(left, right)) {
    put("removed", left.slice(x[0], x[1]));
    put("added", right.slice(y[0], y[1]));
    put("same", left.slice(x[1], x[1] + length));
  }
  put("same", old.slice(old.length - tail));
  return parts;
}

type Range = [from: number, to: number];

/** Returns what is replaced by what, each with how much stays behind it. */
function stretches(a: string[], b: string[]): [Range, Range, number][] {
  const kept = snakes(a, b);
  const found: [Range, Range, number][] = [];
  let [x, y] = [0, 0];
  for (const [fromX, fromY, length] of kept) {
    found.push([[x, fromX], [y, fromY], length]);
    [x, y] = [fromX + length, fromY + length];
  }
  found.push([[x, a.length], [y, b.length], 0]);
  return found;
}

/** Returns where both are the same: where in the one, where in the other, how long. */
function snakes(a: string[], b: string[]): [number, number, number][] {
  const [n, m] = [a.length, b.length];
  if (n === 0 || m === 0) return [];
  const most = Math.min(n + m, EDITS_MAX);
  const offset = most + 1;
  const reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(reach.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const [below, above] = [reach[offset + k - 1] ?? 0, reach[offset + k + 1] ?? 0];
      let x = k === -edits || (k !== edits && below < above) ? above : below + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x += 1;
      reach[offset + k] = x;
      if (x >= n && x - k >= m) return back(trace, n, m);
    }
  }
  return [];
}

/** Goes back the way that led to the end. */
function back(trace: Int32Array[], n: number, m: number): [number, number, number][] {
  const found: [number, number, number][] = [];
  let [x, y] = [n, m];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits];
    const at = (k: number) => reach?.[k + edits + 1] ?? 0;
    const k = x - y;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const before = down ? k + 1 : k - 1;
    const start = edits === 0 ? 0 : down ? at(before) : at(before) + 1;
    if (x > start) found.push([start, start - k, x - start]);
    x = edits === 0 ? 0 : at(before);
    y = x - before;
  }
  return found.reverse();
}
