// Where the threads of a family are drawn: one a row, each below the one it came from. Pure.
//
// The child that most came from goes on straight down, the others branch off to the right before it. So a chain is one
// column however long it is, and the number of columns grows with the logarithm of the number of threads.
import type { Relative } from "../api/types";

/** Threads of a chain in a row above which its middle is folded. */
export const FOLD_ABOVE = 12;
/** Threads that stay at each end of a folded chain, and on both sides of the current one. */
export const KEEP = 3;

/** One row of the picture: a thread, or the folded part of a chain. */
export interface Row {
  /** The id of the thread, or of the first that is folded. */
  key: string;
  threads: Relative[];
  isFolded: boolean;
  column: number;
  /** The row above that it came from. */
  parent: number | null;
  /** How deep it is, from 1, and its place among those beside it: what a tree tells those who hear it. */
  level: number;
  at: number;
  of: number;
}

/** Something that is drawn as one row, with what came from it. */
interface Node {
  threads: Relative[];
  isFolded: boolean;
  children: Node[];
  /** Threads in it and below it. */
  size: number;
}

/** Lays a family out, in rows from top to bottom. `opened` names the folded parts that one asked to see. */
export function layOut(
  threads: readonly Relative[],
  current: string,
  opened: ReadonlySet<string> = new Set(),
): Row[] {
  const rows: Row[] = [];
  const put = (node: Node, column: number, parent: number | null, level: number, at: number, of: number) => {
    const own = rows.length;
    const key = node.threads[0]?.thread_id ?? "";
    rows.push({ key, threads: node.threads, isFolded: node.isFolded, column, parent, level, at, of });
    const children = inPlace(node.children);
    children.forEach(({ child, isStraight }, place) =>
      put(child, column + (isStraight ? 0 : 1), own, level + 1, place + 1, children.length),
    );
  };
  const roots = family(threads).map((root) => folded(root, current, opened));
  roots.forEach((root, place) => put(root, 0, null, 1, place + 1, roots.length));
  return rows;
}

/** The children in the order of their rows: the one that goes straight on is the last. */
function inPlace(children: readonly Node[]): { child: Node; isStraight: boolean }[] {
  const largest = Math.max(...children.map((child) => child.size));
  // Where nothing came from any of them, none goes on more than the others.
  const straight =
    children.length === 1 || largest > 1 ? children.findLast((child) => child.size === largest) : undefined;
  const others = children.filter((child) => child !== straight);
  return [...others, ...(straight ? [straight] : [])].map((child) => ({
    child,
    isStraight: child === straight,
  }));
}

/** Trees of single threads. Who came from a thread that is not among those before it begins a tree, so there is no circle. */
function family(threads: readonly Relative[]): Node[] {
  const roots: Node[] = [];
  const known = new Map<string, Node>();
  for (const thread of threads) {
    if (known.has(thread.thread_id)) continue;
    const node = { threads: [thread], isFolded: false, children: [], size: 1 };
    const parent = thread.parent_id === null ? undefined : known.get(thread.parent_id);
    (parent?.children ?? roots).push(node);
    known.set(thread.thread_id, node);
  }
  for (const node of [...known.values()].reverse())
    node.size = 1 + node.children.reduce((sum, child) => sum + child.size, 0);
  return roots;
}

/** The tree from `first` on, with the middles of its long chains folded. */
function folded(first: Node, current: string, opened: ReadonlySet<string>): Node {
  const chain = [first];
  for (let last = first; last.children.length === 1;) {
    last = last.children[0] as Node;
    chain.push(last);
  }
  const at = chain.findIndex((node) => node.threads[0]?.thread_id === current);
  const stays = (place: number) =>
    chain.length <= FOLD_ABOVE ||
    place < KEEP ||
    place >= chain.length - KEEP ||
    (at >= 0 && Math.abs(place - at) < KEEP);
  const parts: Node[][] = [];
  chain.forEach((node, place) => {
    const before = parts.at(-1);
    if (before && !stays(place) && !stays(place - 1)) before.push(node);
    else parts.push([node]);
  });
  // From the end of the chain back to its beginning.
  let below = (chain.at(-1)?.children ?? []).map((child) => folded(child, current, opened));
  for (const part of parts.reverse()) {
    const isFolded = part.length > 1 && !opened.has(part[0]?.threads[0]?.thread_id ?? "");
    const shown = isFolded ? [part] : part.map((node) => [node]).reverse();
    for (const nodes of shown) {
      const threads = nodes.flatMap((node) => node.threads);
      below = [{ threads, isFolded, children: below, size: nodes[0]?.size ?? 1 }];
    }
  }
  return below[0] ?? first;
}

/** How the picture is measured, in pixels. */
export interface Measures {
  row: number;
  column: number;
  /** From the left edge to the middle of the first column. */
  left: number;
}

/** A line of the picture. */
export interface Line {
  key: string;
  d: string;
  /** `trunk` leads to several; the others are how one thread came. */
  kind: "trunk" | "handoff" | "fork" | "subagent";
}

/** The lines between rows. */
export function lines(rows: readonly Row[], { row, column, left }: Measures): Line[] {
  const x = (of: Row) => left + of.column * column;
  const y = (at: number) => at * row + row / 2;
  const bend = Math.min(column, row / 2);
  const drawn: Line[] = [];
  /** Where the trunk below a row ends, by that row. */
  const trunks = new Map<number, number>();
  rows.forEach((child, at) => {
    const parent = child.parent === null ? undefined : rows[child.parent];
    if (!parent || child.parent === null) return;
    const kind = child.threads[0]?.parent_kind ?? "handoff";
    // A handoff is seen the whole way from where it came, over what it shares with others.
    const isHandoff = kind === "handoff";
    const above = y(child.parent);
    const trunk = trunks.get(child.parent) ?? above;
    const from = isHandoff ? above : trunk;
    if (child.column === parent.column) {
      drawn.push({ key: child.key, kind, d: `M${x(child)} ${from}V${y(at)}` });
      return;
    }
    const turn = y(at) - bend;
    if (turn > from && !isHandoff)
      drawn.push({ key: `${child.key}-trunk`, kind: "trunk", d: `M${x(parent)} ${from}V${turn}` });
    trunks.set(child.parent, Math.max(trunk, turn));
    const begins = isHandoff ? `M${x(parent)} ${from}V${turn}` : `M${x(parent)} ${turn}`;
    drawn.push({ key: child.key, kind, d: `${begins}Q${x(parent)} ${y(at)} ${x(child)} ${y(at)}` });
  });
  return drawn;
}
