// Keeps pages true without a reload, opens dialogs, says times in the reader's own zone. Runs nothing that a page brings.
"use strict";

const region = () => document.getElementById("live");
const isBusy = () => document.querySelector("dialog[open]") !== null;
const DOUBT_MS = 3000; // a stream that was lost is usually back by then
let stream = null;
let newest = "";
let refreshing = false;

function say(text) {
  document.getElementById("said").textContent = text;
}

// Ask for the page again and take over what changes; a person who is typing into a dialog is not interrupted.
async function refresh() {
  const shown = region();
  if (!shown || refreshing || isBusy() || newest === shown.dataset.mark) return;
  refreshing = true;
  const open = [...document.querySelectorAll("details[open][id]")].map((each) => each.id);
  const address = window.location.pathname + window.location.search;
  try {
    await htmx.ajax("GET", address, { target: "#live", select: "#live", swap: "outerHTML" });
  } finally {
    refreshing = false;
  }
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (region()?.dataset.mark !== shown.dataset.mark) say("The page was brought up to date.");
}

// A page that hears nothing says so: it may not be true any more.
function doubt() {
  document.getElementById("stale").hidden = document.hidden || stream?.readyState === EventSource.OPEN;
}

function listen() {
  const shown = region();
  if (!shown?.dataset.live || stream || document.hidden) return;
  stream = new EventSource(shown.dataset.live);
  stream.onmessage = (message) => {
    newest = message.data;
    refresh();
  };
  stream.onopen = () => { document.getElementById("stale").hidden = true; };
  stream.addEventListener("gone", () => window.location.reload());
  stream.onerror = () => {
    setTimeout(doubt, DOUBT_MS);
    if (stream.readyState !== EventSource.CLOSED) return;
    stream = null;
    setTimeout(listen, 3000);
  };
}

// A browser opens few connections to one server: pages that nobody looks at give theirs back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stream?.close();
    stream = null;
  } else listen();
});

function openDialog(dialog) {
  if (dialog && !dialog.open) dialog.showModal();
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) openDialog(document.getElementById(opener.dataset.opens));
  if (event.target.closest("[data-closes]")) event.target.closest("dialog").close();
});

// A form is sent once.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});

function arrange(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
  for (const dialog of root.querySelectorAll("dialog")) dialog.addEventListener("close", refresh);
}

document.addEventListener("htmx:afterSettle", () => {
  const waiting = document.getElementById("waiting");
  if (region()) arrange(region());
  if (waiting) document.dispatchEvent(new CustomEvent("cairn:changed"));
});
document.addEventListener("htmx:afterRequest", (event) => {
  const fresh = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html").getElementById("waiting");
  if (fresh) document.getElementById("waiting").textContent = fresh.textContent;
});

// What answers a refused form has the form's address. From now on it has the page's own, which can be asked for.
function goHome() {
  const address = region()?.dataset.address;
  if (address && address !== window.location.pathname) window.history.replaceState(null, "", address);
}

// A page that the browser kept aside is as old as its leaving.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) window.location.reload();
});

document.addEventListener("DOMContentLoaded", () => {
  goHome();
  arrange(document);
  openDialog(document.querySelector("dialog[data-open]"));
  listen();
});
