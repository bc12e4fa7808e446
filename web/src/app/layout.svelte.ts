// What is open beside the places: the list of threads where the screen is too narrow for it to be there always, and the keys.
const narrow = matchMedia("(max-width: 800px)");

class Layout {
  open = $state(false);
  help = $state(false);
  /** Whether somebody put the list away on a wide screen. */
  away = $state(false);
  narrow = $state(narrow.matches);

  constructor() {
    narrow.addEventListener("change", () => (this.narrow = narrow.matches));
  }
  /** Whether the list is out of sight. */
  get hidden() {
    return this.narrow ? !this.open : this.away;
  }
  toggle() {
    if (this.narrow) this.open = !this.open;
    else this.away = !this.away;
  }
  close() {
    this.open = false;
  }
}

export const layout = new Layout();
