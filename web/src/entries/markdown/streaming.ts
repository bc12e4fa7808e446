// Incremental parser for streamed Markdown. Only the end is parsed again, so the cost per delta does not
// depend on the length of the answer.
import { type Block, parseLines } from "./blocks";

/**
 * The number of blocks at the end that later text may still change: the last one, and one that it may be
 * merged into.
 */
const UNSTABLE_BLOCKS = 2;

/** The number of blocks per group. Only the last groups of a long answer are re-rendered. */
const GROUP_BLOCKS = 32;

/** Splits blocks into groups. */
export function groupBlocks(blocks: readonly Block[]): Block[][] {
  const groups: Block[][] = [];
  for (let at = 0; at < blocks.length; at += GROUP_BLOCKS) groups.push(blocks.slice(at, at + GROUP_BLOCKS));
  return groups;
}

export class StreamingParser {
  #text = "";
  /** The groups that are full of stable blocks, and the stable blocks after them. */
  #fullGroups: Block[][] = [];
  #partialGroup: Block[] = [];
  /** The length of the text that the stable blocks cover, in characters. */
  #stableChars = 0;

  /**
   * Returns the blocks of the whole text in groups. Stable groups are the same objects as in the previous
   * call.
   */
  parse(text: string): Block[][] {
    if (!text.startsWith(this.#text)) [this.#fullGroups, this.#partialGroup, this.#stableChars] = [[], [], 0];
    this.#text = text;
    const lines = text.slice(this.#stableChars).split("\n");
    const parsed = parseLines(lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line)));
    const first = parsed.at(-UNSTABLE_BLOCKS);
    const blocks = parsed.map(({ block }) => block);
    const groups = [...this.#fullGroups, ...groupBlocks([...this.#partialGroup, ...blocks])];
    if (parsed.length > UNSTABLE_BLOCKS && first) {
      this.#stableChars += lines.slice(0, first.line).reduce((sum, line) => sum + line.length + 1, 0);
      this.#storeStable(blocks.slice(0, -UNSTABLE_BLOCKS), groups);
    }
    return groups;
  }

  #storeStable(blocks: readonly Block[], groups: Block[][]): void {
    this.#partialGroup = [...this.#partialGroup, ...blocks];
    const fullCount = Math.floor(this.#partialGroup.length / GROUP_BLOCKS);
    this.#fullGroups = [
      ...this.#fullGroups,
      ...groups.slice(this.#fullGroups.length, this.#fullGroups.length + fullCount),
    ];
    this.#partialGroup = this.#partialGroup.slice(fullCount * GROUP_BLOCKS);
  }
}
