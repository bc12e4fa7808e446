// The items of a menu.
import type { IconName } from "./icons";

export interface MenuItem {
  label: string;
  run: () => void;
  icon?: IconName;
  tone?: "plain" | "bad";
  /** The keyboard shortcut of the same action, for display. */
  keys?: string;
  disabled?: boolean;
}
