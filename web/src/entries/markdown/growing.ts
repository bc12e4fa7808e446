// Markdown that grows while it is said: of what was read already, only the end is read again, so that an answer of any length
// costs the same for each word.
import { type Block, placed } from "./blocks";

/** Blocks at the end that what follows may still change: the last, and one that it may become a part of. */
const UNSETTLED = 2;

export class Growing {
  private text = "";
  private known: Block[] = [];
  /** How much of the text the settled blocks cover, and how many they are. */
  private settled = { chars: 0, blocks: 0 };

  /** Returns the blocks of the whole text; those that are settled are the very ones of the last time. */
  read(text: string): Block[] {
    if (!text.startsWith(this.text)) this.settled = { chars: 0, blocks: 0 };
    const from = this.settled.chars;
    const lines = text.slice(from).split("\n");
    const found = placed(lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line)));
    this.known = [...this.known.slice(0, this.settled.blocks), ...found.map(({ block }) => block)];
    const first = found.at(-UNSETTLED);
    if (found.length > UNSETTLED && first) {
      const before = lines.slice(0, first.line).reduce((sum, line) => sum + line.length + 1, 0);
      this.settled = { chars: from + before, blocks: this.known.length - UNSETTLED };
    }
    this.text = text;
    return this.known;
  }
}
