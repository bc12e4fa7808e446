// Where one is in a list that grows at both ends and whose items change their heights: it stays at its end while one is there,
// and otherwise keeps what one looks at where it is. It moves the scroller, and knows nothing of what is in it.

/** Pixels from the end within which one counts as being there. */
const NEAR = 32;
/** Items whose places are remembered. */
const ANCHORS = 3;

export class Scroll {
  /** Whether one is at the end, so that what is new is shown as it comes. */
  stuck = true;
  /** What one looks at, and where: the uppermost items, since the first of them may be drawn elsewhere the next time. */
  private anchors: { item: HTMLElement; top: number }[] = [];
  private lastTop = 0;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly list: HTMLElement,
    /** Whether there is nothing to be read behind the end of the list. */
    private readonly isWhole: () => boolean,
  ) {}

  get below(): number {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight;
  }

  /** Notes where one is now; for each time that is scrolled. */
  moved(): void {
    const { scrollTop } = this.scroller;
    if (this.below < NEAR) this.stuck = this.isWhole();
    // Only going up leaves the end: that it moves away below is no reason.
    else if (scrollTop < this.lastTop - 1) this.stuck = false;
    this.lastTop = scrollTop;
    this.remember();
  }

  /** Puts right what moved when something changed its height; before it is painted, so that nobody sees it. */
  hold(): void {
    if (this.stuck && this.isWhole()) {
      this.to(this.scroller.scrollHeight);
      return;
    }
    const anchor = this.anchors.find(({ item }) => item.isConnected);
    if (!anchor) return this.remember();
    const moved = this.topOf(anchor.item) - anchor.top;
    if (Math.abs(moved) >= 1) this.to(this.scroller.scrollTop + moved);
  }

  /** Goes to the end and stays there. */
  end(): void {
    this.stuck = true;
    this.to(this.scroller.scrollHeight);
  }

  /** Brings an item into view, a little below the upper edge. */
  show(item: HTMLElement): void {
    this.stuck = false;
    const room = Math.max(0, this.scroller.clientHeight - item.offsetHeight);
    this.to(this.scroller.scrollTop + this.topOf(item) - Math.min(72, room / 2));
  }

  /** The uppermost item that can be seen. */
  first(): HTMLElement | null {
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

  /** Where an item begins, from the upper edge of what can be seen. */
  topOf(item: HTMLElement): number {
    return item.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
  }

  private to(top: number): void {
    this.scroller.scrollTop = top;
    this.lastTop = this.scroller.scrollTop;
    this.remember();
  }

  private remember(): void {
    this.anchors = [];
    let item: Element | null = this.first();
    for (; item instanceof HTMLElement && this.anchors.length < ANCHORS; item = item.nextElementSibling)
      this.anchors.push({ item, top: this.topOf(item) });
  }
}
