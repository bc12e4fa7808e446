// The pins of the shown thread, shared by its panel and the menus of its messages.
import type { Pin } from "../api/types";

/** The thread of the pins, and the pins; both change together. */
export const shownPins = $state<{ thread: string; pins: Pin[] }>({ thread: "", pins: [] });
