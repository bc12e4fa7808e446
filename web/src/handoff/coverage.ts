// The coverage of a draft: counts, and the cells of the strip over the conversation. Pure.
import type { CoverageRanges, MessageUse, Proposal } from "../api/types";

/** The uses of a message, the strongest first. */
const USES: { name: MessageUse; description: string }[] = [
  { name: "quoted", description: "the text contains words of it" },
  { name: "represented", description: "an item or a fact refers to it" },
  { name: "read", description: "the model read it, and nothing of it is in the text" },
  { name: "scanned", description: "only facts were extracted from it" },
  { name: "unread", description: "nothing has read it" },
];

/** A number of messages with its name. */
export interface CoveragePart {
  name: string;
  description: string;
  count: number;
}

/** Returns the number of messages of each use, as the server counted them. */
export function useParts(uses: Record<MessageUse, number>): CoveragePart[] {
  return USES.map((use) => ({ ...use, count: uses[use.name] }));
}

/** Returns the number of messages that the text quotes or refers to. */
export function usedCount({ quoted, represented }: Record<MessageUse, number>): number {
  return quoted + represented;
}

/** Returns the number of messages per coverage class, as the server counted them. */
export function coverageParts(coverage: Proposal["coverage"]): CoveragePart[] {
  return [
    { name: "verbatim", description: "read in full", count: coverage.verbatim },
    { name: "summarized", description: "read as one line each", count: coverage.summarized },
    { name: "truncated", description: "read in part", count: coverage.truncated },
    { name: "excluded", description: "not read", count: coverage.excluded },
  ];
}

/** A part of the strip: positions of the conversation, and the strongest use of them. */
export interface StripCell {
  use: MessageUse;
  first: number;
  last: number;
  /** The first position with that use. */
  target: number;
}

/**
 * Divides the covered positions into at most `count` cells of equal size. Records of runs are positions without
 * a message, and count as unread. If no message is unread, a cell with nothing else has the use of its neighbor.
 */
export function stripCells(ranges: CoverageRanges, unread: number, count: number): StripCell[] {
  const { first_seq, last_seq } = ranges;
  const total = last_seq - first_seq + 1;
  const cellCount = Math.max(0, Math.min(count, total));
  const cells = Array.from({ length: cellCount }, (_, at): StripCell => {
    const first = first_seq + Math.floor((at * total) / cellCount);
    const last = first_seq + Math.floor(((at + 1) * total) / cellCount) - 1;
    for (const { name } of USES) {
      const range = ranges[name]?.find(([from, to]) => from <= last && to >= first);
      if (range) return { use: name, first, last, target: Math.max(range[0], first) };
    }
    return { use: "unread", first, last, target: first };
  });
  if (unread > 0) return cells;
  let neighbor = cells.find(({ use }) => use !== "unread") ?? null;
  return cells.map((cell) => {
    if (cell.use !== "unread") neighbor = cell;
    return neighbor && cell.use === "unread" ? { ...cell, use: neighbor.use, target: neighbor.target } : cell;
  });
}
