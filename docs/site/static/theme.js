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
// What the theme leaves out: the level of the headings of its lists, and a name that tells its two drawers apart.
addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".caption[role=heading]:not([aria-level])").forEach((title) => (title.ariaLevel = "2"));
  for (const [drawer, name] of [["sidebar", "pages"], ["toc", "on this page"]])
    document.querySelector(`aside.${drawer}-drawer`)?.setAttribute("aria-label", name);
});
// Parameters on lines of their own stand in a list of definitions without terms, which is none.
addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("dt.sig > dl, dt.sig > dl > dd").forEach((part) => part.setAttribute("role", "none")),
);
// A button that copies a block of code: of a session in Python what was typed, without prompts and answers.
const typed = (code) => {
  const lines = code.trimEnd().split("\n");
  const isSession = lines.some((line) => line.startsWith(">>> "));
  return isSession ? lines.flatMap((line) => (/^(>>>|\.\.\.)( |$)/.test(line) ? [line.slice(4)] : [])).join("\n") : code.trimEnd();
};
addEventListener("DOMContentLoaded", () =>
  document.querySelectorAll("div.highlight:not(.cell_output *)").forEach((block) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(typed(block.querySelector("pre").textContent));
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block.querySelector("pre")); // no clipboard, as in a file: ready to be copied
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }),
);
