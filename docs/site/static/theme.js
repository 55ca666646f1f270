// An embedded explorer follows the theme of the page, as it follows that of a notebook.
const followTheme = () => {
  const { theme } = document.body.dataset;
  const isDark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  for (const { contentDocument: page } of document.querySelectorAll("iframe.explorer-frame")) {
    if (!page?.body) continue; // of another origin, as every file is
    page.body.dataset.jpThemeLight = String(!isDark);
    page.documentElement.style.colorScheme = isDark ? "dark" : "light";
  }
};
addEventListener("load", followTheme);
// Code that scrolls sideways can be reached by keyboard.
addEventListener("load", () => document.querySelectorAll(".highlight pre").forEach((code) => (code.tabIndex = 0)));
addEventListener("DOMContentLoaded", () =>
  new MutationObserver(followTheme).observe(document.body, { attributeFilter: ["data-theme"] }),
);
