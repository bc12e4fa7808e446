// Light or dark: what the system says, until the person says something else.
import { keepText, keptText } from "./kept";

export type Theme = "system" | "light" | "dark";

const KEY = "segue.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

const stored = keptText("browser", KEY);
export const theme = $state<{ chosen: Theme }>({
  chosen: stored === "light" || stored === "dark" ? stored : "system",
});

/** Draws the page in the theme that holds. */
export function applyTheme(): void {
  const isDark = theme.chosen === "dark" || (theme.chosen === "system" && dark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

/** Chooses a theme and keeps it in this browser. */
export function chooseTheme(chosen: Theme): void {
  theme.chosen = chosen;
  keepText("browser", KEY, chosen === "system" ? null : chosen);
  applyTheme();
}

dark.addEventListener("change", applyTheme);
