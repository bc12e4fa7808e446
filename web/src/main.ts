// Where the page begins: the theme before anything is drawn, then the app.
import { mount } from "svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import App from "./app/App.svelte";
import { applyTheme } from "./app/theme.svelte";

applyTheme();
const target = document.getElementById("app");
if (target) mount(App, { target });
