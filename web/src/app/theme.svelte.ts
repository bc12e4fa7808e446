// The color theme: the system's setting unless the user has selected one.
import { storeText, loadText } from "./storage";

export type Theme = "system" | "light" | "dark";

const KEY = "segue.theme";
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

const stored = loadText("browser", KEY);
export const theme = $state<{ selected: Theme }>({
  selected: stored === "light" || stored === "dark" ? stored : "system",
});

/** Applies the current theme to the document. */
export function applyTheme(): void {
  const isDark = theme.selected === "dark" || (theme.selected === "system" && darkScheme.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

/** Selects a theme and stores it in this browser. */
export function chooseTheme(selected: Theme): void {
  theme.selected = selected;
  storeText("browser", KEY, selected === "system" ? null : selected);
  applyTheme();
}

darkScheme.addEventListener("change", applyTheme);
