/** Where an explorer lives: a page that contains its replies, a page that asks a server, a notebook that asks its kernel.
 * A host is one method, `ask(request) → Promise<reply>`; `protocol.py` describes requests and replies. */

import { Explorer } from "./app.js";
import { carried } from "./carried.js";
import { fill, make, tag } from "./elements.js";
import { fromFragment, openState, stateOf } from "./share.js";
import { liveHint } from "./wording.js";

/**
 * Draw an explorer into an element.
 * @param {HTMLElement} element @param {object} boot @param {(request: object) => Promise<object>} ask
 * @returns {Explorer} its `stop()` removes its listeners from the document
 */
export function explore(element, boot, ask) {
  const explorer = new Explorer(element, boot, carried(boot, ask));
  element.explorer = explorer;
  const start = explorer.state.sentences.length ? explorer.show(explorer.state, { record: false }) : explorer.draw();
  const isShared = boot.host !== "widget" && /^#(?!token=).{20}/.test(globalThis.location.hash);
  const kept = boot.host === "widget" || isShared ? null : keepOverReload(explorer);
  if (!isShared && (kept ?? boot.state)) Promise.resolve(start).then(() => openState(explorer, kept ?? boot.state));
  if (isShared)
    Promise.resolve(start).then(() => {
      try {
        return openState(explorer, fromFragment(globalThis.location.hash.slice(1)));
      } catch {
        return explorer.say("The part of this address after the # is not a state of the explorer.", true);
      }
    });
  return explorer;
}

/** Keep what was edited while this tab is open, over a reload and the way back to the page; returns what was kept. */
function keepOverReload(explorer) {
  const key = `structattn ${globalThis.location.pathname} ${explorer.boot.title}`;
  try {
    globalThis.addEventListener("pagehide", () => {
      if (explorer.past.length) globalThis.sessionStorage.setItem(key, JSON.stringify(stateOf(explorer)));
    });
    const kept = globalThis.sessionStorage.getItem(key);
    globalThis.sessionStorage.removeItem(key);
    return kept;
  } catch {
    return null; // a browser or a frame that keeps nothing
  }
}

/** A page without a server has nothing more to ask. */
const frozen = (boot) => () => Promise.reject(new Error(`This page has no answer to this. ${liveHint(boot)}`));

const TOKEN = "structattn token";
const KEPT = "Your edits are kept: Share, Save state.";
const GONE = `The explorer was started anew, or ended: open the address that structattn explore prints. ${KEPT}`;

/** The token after the # of the printed address, which is removed from there; or the one that the browser keeps. */
function takeToken() {
  const given = /^#token=([^&]+)$/.exec(globalThis.location.hash);
  try {
    if (given) {
      globalThis.localStorage.setItem(TOKEN, given[1]);
      globalThis.history.replaceState(null, "", globalThis.location.pathname);
    }
    return globalThis.localStorage.getItem(TOKEN) ?? "";
  } catch {
    return given?.[1] ?? ""; // a browser that keeps nothing: the token stays in the address
  }
}

async function post(path, token, request) {
  const headers = { "Content-Type": "application/json", "X-Token": token };
  try {
    return await fetch(path, { method: "POST", headers, body: JSON.stringify(request) });
  } catch {
    throw new Error(`The explorer's server does not answer; is structattn explore still running? ${KEPT}`);
  }
}

/** Ask the server that sent the page. */
const server = (token) => async (request) => {
  const reply = await post("ask", token, request);
  if (reply.status === 403) return { error: { message: GONE } };
  return reply.ok ? reply.json() : { error: { message: (await reply.text()).trim() } };
};

/** The page of a server asks for its data; without the token it asks the person for that. */
async function startServed(element, token) {
  try {
    const reply = await post("boot", token, {});
    if (reply.ok) {
      const boot = await reply.json();
      document.title = boot.title;
      return explore(element, { ...boot, level: 1 }, server(token));
    }
    const field = make(tag("input", { type: "password", "aria-label": "token", autocomplete: "off" }));
    const open = (event) => {
      event.preventDefault();
      globalThis.location.hash = `token=${encodeURIComponent(field.value.trim())}`;
      globalThis.location.reload();
    };
    const said =
      "This page needs its token: open the address that structattn explore printed, or paste the token here.";
    const send = tag("button", { type: "submit" }, "Open");
    return fill(element, tag("form", { onsubmit: open }, tag("p", {}, said), field, send));
  } catch (error) {
    return fill(element, tag("p", { role: "alert" }, error.message));
  }
}

/** Ask the kernel of a notebook; replies are matched to requests by number. */
function kernel(model) {
  const waiting = new Map();
  const receive = (reply) => {
    waiting.get(reply.id)?.(reply);
    waiting.delete(reply.id);
  };
  model.on("msg:custom", receive);
  const ask = (request) =>
    new Promise((resolve) => {
      waiting.set(request.id, resolve);
      model.send(request);
    });
  return { ask, stop: () => model.off("msg:custom", receive) };
}

/** For anywidget. */
function render({ model, el }) {
  const { ask, stop } = kernel(model);
  const element = make(tag("div"));
  el.append(element);
  const explorer = explore(element, model.get("boot"), ask);
  return () => {
    stop();
    explorer.stop();
  };
}

export default { render };

/** Start wherever the document contains the initial data of an explorer. */
for (const node of document.querySelectorAll('script[type="application/json"].structattn-explorer')) {
  if (node.dataset.started) continue;
  node.dataset.started = "true";
  const element = make(tag("div"));
  node.after(element);
  const boot = JSON.parse(node.textContent);
  if (boot.host !== "server") explore(element, boot, frozen(boot));
  else if (boot.items) explore(element, boot, server(boot.token ?? takeToken()));
  else startServed(element, takeToken());
}
