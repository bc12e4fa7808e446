// Keyboard access to scrolling boxes: only boxes that can be scrolled are tab stops.

/** Attachment that makes the box focusable, with the given label, while its content overflows. */
export function scrollRegion(label: string) {
  return (box: HTMLElement): (() => void) => {
    const update = () => {
      const isScrollable = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (isScrollable === box.hasAttribute("tabindex")) return;
      if (isScrollable) {
        box.tabIndex = 0;
        // Not a landmark role, because there may be hundreds of boxes.
        box.setAttribute("role", "group");
        box.setAttribute("aria-label", label);
      } else for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    };
    const observer = new ResizeObserver(update);
    observer.observe(box);
    for (const child of box.children) observer.observe(child);
    return () => observer.disconnect();
  };
}
