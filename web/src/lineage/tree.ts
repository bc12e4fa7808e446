// Layout of the lineage tree: one row per thread, below its parent. Pure.
//
// The child with the largest subtree continues in its parent's column, and the others branch off to the right
// above it. A chain is therefore one column, and the number of columns is logarithmic in the number of
// threads.
import type { LineageThread } from "../api/types";

/** The length above which the middle of a chain is folded. */
export const FOLD_ABOVE = 12;
/**
 * The number of threads that stay visible at each end of a folded chain and on both sides of the current one.
 */
export const KEPT_THREADS = 3;

/** A row: a thread, or the folded middle of a chain. */
export interface TreeRow {
  /** The id of the thread, or of the first folded one. */
  key: string;
  threads: LineageThread[];
  isFolded: boolean;
  column: number;
  /** The index of the parent's row. */
  parent: number | null;
  /** The ARIA properties of a tree item: the level from 1, and the position among its siblings. */
  level: number;
  posInSet: number;
  setSize: number;
}

/** A node of the tree before layout. */
interface TreeNode {
  threads: LineageThread[];
  isFolded: boolean;
  children: TreeNode[];
  /** The number of threads in the subtree. */
  size: number;
}

/** Lays out the rows from top to bottom. `expanded` has the keys of the expanded folds. */
export function layOutRows(
  threads: readonly LineageThread[],
  current: string,
  expanded: ReadonlySet<string> = new Set(),
): TreeRow[] {
  const rows: TreeRow[] = [];
  const placeNode = (
    node: TreeNode,
    column: number,
    parent: number | null,
    level: number,
    posInSet: number,
    setSize: number,
  ) => {
    const rowIndex = rows.length;
    const key = node.threads[0]?.thread_id ?? "";
    rows.push({
      key,
      threads: node.threads,
      isFolded: node.isFolded,
      column,
      parent,
      level,
      posInSet,
      setSize,
    });
    const children = orderChildren(node.children);
    children.forEach(({ child, isStraight }, place) =>
      placeNode(child, column + (isStraight ? 0 : 1), rowIndex, level + 1, place + 1, children.length),
    );
  };
  const roots = buildTrees(threads).map((root) => foldChains(root, current, expanded));
  roots.forEach((root, place) => placeNode(root, 0, null, 1, place + 1, roots.length));
  return rows;
}

/** Orders children by row: the one that continues the column comes last. */
function orderChildren(children: readonly TreeNode[]): { child: TreeNode; isStraight: boolean }[] {
  const largest = Math.max(...children.map((child) => child.size));
  // If all children are leaves, none continues the column.
  const straight =
    children.length === 1 || largest > 1 ? children.findLast((child) => child.size === largest) : undefined;
  const others = children.filter((child) => child !== straight);
  return [...others, ...(straight ? [straight] : [])].map((child) => ({
    child,
    isStraight: child === straight,
  }));
}

/**
 * Builds the trees. A thread whose parent is not among those before it becomes a root, so there are no
 * cycles.
 */
function buildTrees(threads: readonly LineageThread[]): TreeNode[] {
  const roots: TreeNode[] = [];
  const known = new Map<string, TreeNode>();
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

/** Returns the tree from `first` on, with the middle of long chains folded. */
function foldChains(first: TreeNode, current: string, expanded: ReadonlySet<string>): TreeNode {
  const chain = [first];
  for (let last = first; last.children.length === 1;) {
    last = last.children[0] as TreeNode;
    chain.push(last);
  }
  const at = chain.findIndex((node) => node.threads[0]?.thread_id === current);
  const isKept = (place: number) =>
    chain.length <= FOLD_ABOVE ||
    place < KEPT_THREADS ||
    place >= chain.length - KEPT_THREADS ||
    (at >= 0 && Math.abs(place - at) < KEPT_THREADS);
  const parts: TreeNode[][] = [];
  chain.forEach((node, place) => {
    const before = parts.at(-1);
    if (before && !isKept(place) && !isKept(place - 1)) before.push(node);
    else parts.push([node]);
  });
  // Builds the chain from its end.
  let descendants = (chain.at(-1)?.children ?? []).map((child) => foldChains(child, current, expanded));
  for (const part of parts.reverse()) {
    const isFolded = part.length > 1 && !expanded.has(part[0]?.threads[0]?.thread_id ?? "");
    const groups = isFolded ? [part] : part.map((node) => [node]).reverse();
    for (const nodes of groups) {
      const threads = nodes.flatMap((node) => node.threads);
      descendants = [{ threads, isFolded, children: descendants, size: nodes[0]?.size ?? 1 }];
    }
  }
  return descendants[0] ?? first;
}

/** Dimensions of the drawing, in pixels. */
export interface TreeMetrics {
  row: number;
  column: number;
  /** From the left edge to the center of the first column. */
  left: number;
}

/** A connecting line. */
export interface TreeEdge {
  key: string;
  d: string;
  /** `trunk` is shared by several children; the other kinds are the relation of one child. */
  kind: "trunk" | "handoff" | "fork" | "subagent";
}

/** Returns the connecting lines. */
export function treeEdges(rows: readonly TreeRow[], { row, column, left }: TreeMetrics): TreeEdge[] {
  const x = (of: TreeRow) => left + of.column * column;
  const y = (at: number) => at * row + row / 2;
  const bend = Math.min(column, row / 2);
  const edges: TreeEdge[] = [];
  /** The lower end of each row's trunk. */
  const trunks = new Map<number, number>();
  rows.forEach((child, at) => {
    const parent = child.parent === null ? undefined : rows[child.parent];
    if (!parent || child.parent === null) return;
    const kind = child.threads[0]?.parent_kind ?? "handoff";
    // A handoff is drawn from its parent on, over the shared trunk, so that it is visible in full.
    const isHandoff = kind === "handoff";
    const above = y(child.parent);
    const trunk = trunks.get(child.parent) ?? above;
    const from = isHandoff ? above : trunk;
    if (child.column === parent.column) {
      edges.push({ key: child.key, kind, d: `M${x(child)} ${from}V${y(at)}` });
      return;
    }
    const turn = y(at) - bend;
    if (turn > from && !isHandoff)
      edges.push({ key: `${child.key}-trunk`, kind: "trunk", d: `M${x(parent)} ${from}V${turn}` });
    trunks.set(child.parent, Math.max(trunk, turn));
    const start = isHandoff ? `M${x(parent)} ${from}V${turn}` : `M${x(parent)} ${turn}`;
    edges.push({ key: child.key, kind, d: `${start}Q${x(parent)} ${y(at)} ${x(child)} ${y(at)}` });
  });
  return edges;
}
