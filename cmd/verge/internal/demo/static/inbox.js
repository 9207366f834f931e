// Shows deliveries as they arrive. The server renders and escapes the rows, so
// they are the same as after a reload. Without this script, reload the page.
"use strict";

const list = document.getElementById("deliveries");
const none = document.getElementById("none");
const live = document.getElementById("live");
const maxRows = 200;

function say(text, kind) {
  live.textContent = text;
  live.className = "badge " + kind;
}

// The browser reconnects automatically and sends the last received id.
const stream = new EventSource("/inbox/stream?after=" + encodeURIComponent(list.dataset.mark));

stream.onopen = () => say("Live", "good");
stream.onerror = () => say("Reconnecting…", "wait");
stream.onmessage = (message) => {
  list.insertAdjacentHTML("afterbegin", message.data);
  list.firstElementChild.classList.add("fresh");
  none.hidden = true;
  while (list.childElementCount > maxRows) list.lastElementChild.remove();
};
// A page in the back-forward cache must not keep one of the few connections
// that a browser opens to one site.
window.addEventListener("pagehide", () => stream.close());
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
