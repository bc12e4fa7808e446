// A box that scrolls has to be reached by keyboard, one that does not has to be passed by.

/** For `{@attach}`: lets the box be focused, under a name, for as long as it holds more than it shows. */
export function scrollable(label: string) {
  return (box: HTMLElement): (() => void) => {
    const look = () => {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls === box.hasAttribute("tabindex")) return;
      if (scrolls) {
        box.tabIndex = 0;
        // No landmark: there may be hundreds of them.
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", label);
      } else for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    };
    const observer = new ResizeObserver(look);
    observer.observe(box);
    for (const child of box.children) observer.observe(child);
    return () => observer.disconnect();
  };
}
