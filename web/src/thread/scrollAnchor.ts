// Scroll anchoring for a list that grows at both ends and whose items change their height. It stays at the
// end while the user is there, and otherwise keeps the visible items in place. It knows nothing of their
// content.

/** The distance from the end within which the user counts as being there, in pixels. */
const END_PX = 32;
/** The number of items whose positions are stored. */
const ANCHORS_MAX = 3;

export class ScrollAnchor {
  /** True while the user is at the end, so new content scrolls into view. */
  isPinned = true;
  /** The first visible items and their positions. Several are stored because the first may be re-created. */
  #anchors: { item: HTMLElement; top: number }[] = [];
  #lastTop = 0;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly list: HTMLElement,
    /** Returns true if the list includes the newest content. */
    private readonly isAtNewest: () => boolean,
  ) {}

  get distanceToEnd(): number {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  /** Handles a scroll event: stores the position. */
  handleScroll(): void {
    const { scrollTop } = this.scroller;
    if (this.distanceToEnd < END_PX) this.isPinned = this.isAtNewest();
    // Only scrolling up leaves the end; growing content does not.
    else if (scrollTop < this.#lastTop - 1) this.isPinned = false;
    this.#lastTop = scrollTop;
    this.#storeAnchors();
  }

  /** Restores the position after heights have changed. It runs before painting, so nothing jumps. */
  restorePosition(): void {
    if (this.isPinned && this.isAtNewest()) {
      this.#setScrollTop(this.scroller.scrollHeight);
      return;
    }
    const anchor = this.#anchors.find(({ item }) => item.isConnected);
    if (!anchor) return this.#storeAnchors();
    const shift = this.topOf(anchor.item) - anchor.top;
    if (Math.abs(shift) >= 1) this.#setScrollTop(this.scroller.scrollTop + shift);
  }

  /** Scrolls to the end and stays there. */
  scrollToEnd(): void {
    this.isPinned = true;
    this.#setScrollTop(this.scroller.scrollHeight);
  }

  /** Scrolls to an item, a little below the upper edge. */
  scrollToItem(item: HTMLElement): void {
    this.isPinned = false;
    const freeHeight = Math.max(0, this.scroller.clientHeight - item.offsetHeight);
    this.#setScrollTop(this.scroller.scrollTop + this.topOf(item) - Math.min(72, freeHeight / 2));
  }

  /** Returns the first visible item, by binary search. */
  firstVisible(): HTMLElement | null {
    const items = this.list.children;
    let [low, high] = [0, items.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      const item = items[middle] as HTMLElement;
      if (this.topOf(item) + item.offsetHeight > 0) high = middle;
      else low = middle + 1;
    }
    return (items[low] as HTMLElement | undefined) ?? null;
  }

  /** Returns the position of an item relative to the upper edge of the scroller. */
  topOf(item: HTMLElement): number {
    return item.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
  }

  #setScrollTop(top: number): void {
    this.scroller.scrollTop = top;
    this.#lastTop = this.scroller.scrollTop;
    this.#storeAnchors();
  }

  #storeAnchors(): void {
    this.#anchors = [];
    let item: Element | null = this.firstVisible();
    for (; item instanceof HTMLElement && this.#anchors.length < ANCHORS_MAX; item = item.nextElementSibling)
      this.#anchors.push({ item, top: this.topOf(item) });
  }
}
