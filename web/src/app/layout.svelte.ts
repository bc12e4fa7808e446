// What is open beside the places: the list of threads where the screen is too narrow for it to be there always, and the keys.
const narrow = matchMedia("(max-width: 800px)");

class Layout {
  open = $state(false);
  help = $state(false);
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
