// Whether the list of threads is shown where the screen is too narrow for it to be there always.
const narrow = matchMedia("(max-width: 800px)");

class Layout {
  open = $state(false);
  narrow = $state(narrow.matches);

  constructor() {
    narrow.addEventListener("change", () => (this.narrow = narrow.matches));
  }
  toggle() {
    this.open = !this.open;
  }
  close() {
    this.open = false;
  }
}

export const layout = new Layout();
