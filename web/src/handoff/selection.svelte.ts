// The selection of a review: an item of the package with its sources, or a message with the items that come
// from it. Both sides are marked. The panes scroll.
import { itemsFrom, type PackageItem } from "./sources";

export class SourceSelection {
  /** The item from which `j` and `k` step, and which Tab reaches. */
  current = $state<string | null>(null);
  /** The keys of the marked items. */
  keys = $state.raw<ReadonlySet<string>>(new Set());
  /** The positions of the marked messages, the first to be shown first. */
  seqs = $state.raw<readonly number[]>([]);

  /** Selects an item and marks its sources. */
  selectItem({ key, refs }: PackageItem): void {
    this.current = key;
    this.keys = new Set([key]);
    this.seqs = refs;
  }

  /** Selects a message by the positions that it shows, and marks the items that come from it. */
  selectMessage(seqs: readonly number[], items: readonly PackageItem[]): void {
    const keys = itemsFrom(items, seqs).map(({ key }) => key);
    this.current = keys[0] ?? this.current;
    this.keys = new Set(keys);
    this.seqs = seqs;
  }

  clear(): void {
    this.current = null;
    this.keys = new Set();
    this.seqs = [];
  }
}
