// How the page is built: into the gateway's folder, from where the program embeds it. The same sources give the same bytes.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { budget } from "./budget.ts";

// What is served as an asset never changes under its name, so the name tells which packages the licences are of.
const packages = createHash("sha256").update(readFileSync(new URL("package-lock.json", import.meta.url)));
const licences = `assets/licences-${packages.digest("hex").slice(0, 8)}.txt`;

export default defineConfig({
  base: "./",
  plugins: [svelte(), budget()],
  build: {
    outDir: "../crates/http/page",
    emptyOutDir: true,
    target: "es2022",
    // Nothing is inlined: the policy of the page lets nothing but files of its own run.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // What every place needs is one file, for many small ones are larger together.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            {
              name: "base",
              test: /node_modules|\/src\/(ui|api|app)\/|\/src\/entries\/(text|markdown|code|diff)\//,
            },
          ],
        },
      },
    },
    license: { fileName: licences },
  },
  define: { "import.meta.env.LICENCES": JSON.stringify(licences) },
  // While the page is worked on, a server of Segue answers for it: SEGUE_URL=http://127.0.0.1:2024 npm run dev
  server: {
    proxy: Object.fromEntries(
      ["/api", "/threads", "/runs", "/assistants", "/info"].map((path) => [
        path,
        process.env.SEGUE_URL ?? "http://127.0.0.1:2024",
      ]),
    ),
  },
  test: { include: ["src/**/*.test.ts"] },
});
