// Entry point: applies the theme before the first paint, then mounts the application.
import { mount } from "svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import App from "./app/App.svelte";
import { applyTheme } from "./app/theme.svelte";

applyTheme();
const target = document.getElementById("app");
if (target) mount(App, { target });
