// What a menu holds.
import type { IconName } from "./icons";

export interface MenuItem {
  label: string;
  run: () => void;
  icon?: IconName;
  tone?: "plain" | "bad";
  /** The key that does the same, as it is shown. */
  keys?: string;
  disabled?: boolean;
}
