// Markdown that grows while it is said: of what was read already, only the end is read again, so that an answer of any length
// costs the same for each word.
import { type Block, placed } from "./blocks";

/** Blocks at the end that what follows may still change: the last, and one that it may become a part of. */
const UNSETTLED = 2;

/** Blocks that are drawn together: of an answer with thousands, only the last groups are looked at for each word. */
const GROUP = 32;

/** Returns the blocks in groups. */
export function grouped(blocks: readonly Block[]): Block[][] {
  const groups: Block[][] = [];
  for (let at = 0; at < blocks.length; at += GROUP) groups.push(blocks.slice(at, at + GROUP));
  return groups;
}

export class Growing {
  private text = "";
  /** The groups that are full of settled blocks, and the settled ones behind them. */
  private full: Block[][] = [];
  private rest: Block[] = [];
  /** How much of the text the settled blocks cover. */
  private chars = 0;

  /** Returns the blocks of the whole text, in groups; those that are settled are the very ones of the last time. */
  read(text: string): Block[][] {
    if (!text.startsWith(this.text)) [this.full, this.rest, this.chars] = [[], [], 0];
    this.text = text;
    const lines = text.slice(this.chars).split("\n");
    const found = placed(lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line)));
    const first = found.at(-UNSETTLED);
    const blocks = found.map(({ block }) => block);
    const groups = [...this.full, ...grouped([...this.rest, ...blocks])];
    if (found.length > UNSETTLED && first) {
      this.chars += lines.slice(0, first.line).reduce((sum, line) => sum + line.length + 1, 0);
      this.settle(blocks.slice(0, -UNSETTLED), groups);
    }
    return groups;
  }

  private settle(blocks: readonly Block[], groups: Block[][]): void {
    this.rest = [...this.rest, ...blocks];
    const whole = Math.floor(this.rest.length / GROUP);
    this.full = [...this.full, ...groups.slice(this.full.length, this.full.length + whole)];
    this.rest = this.rest.slice(whole * GROUP);
  }
}
