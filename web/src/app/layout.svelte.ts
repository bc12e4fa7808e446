// Layout state that all pages share: the thread sidebar and the keyboard help.
const narrow = matchMedia("(max-width: 800px)");

class LayoutState {
  open = $state(false);
  help = $state(false);
  /** True if the sidebar is collapsed on a wide screen. */
  isCollapsed = $state(false);
  narrow = $state(narrow.matches);

  constructor() {
    narrow.addEventListener("change", () => (this.narrow = narrow.matches));
  }
  /** True if the sidebar is hidden. */
  get hidden() {
    return this.narrow ? !this.open : this.isCollapsed;
  }
  toggle() {
    if (this.narrow) this.open = !this.open;
    else this.isCollapsed = !this.isCollapsed;
  }
  close() {
    this.open = false;
  }
}

export const layout = new LayoutState();
