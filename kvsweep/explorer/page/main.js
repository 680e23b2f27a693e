// Where the page comes to life: on loopback by a websocket, in a notebook by the widget's messages.

import { View } from "./view.js";

function mount(root, channel) {
  let view = null;
  root.classList.add("kvsweep");
  return {
    take(answer) {
      if (answer.kind === "hello") view = new View(root, channel, answer);
      else view?.take(answer);
    },
    end(text) {
      if (view) view.end(text);
      else root.textContent = text;
    },
  };
}

function openPage(root) {
  const token = new URLSearchParams(location.search).get("token") ?? "";
  const socket = new WebSocket(`ws://${location.host}/socket?token=${encodeURIComponent(token)}`);
  const page = mount(root, {
    send: (message) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message)),
    keep: (text) => history.replaceState(null, "", `#${encodeURIComponent(text)}`),
    kept: () => decodeURIComponent(location.hash.slice(1)),
  });
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    page.take(answer);
    if (answer.kind === "hello") document.title = `${answer.title} · kvsweep explore`;
  };
  socket.onclose = () => page.end("The explorer has ended. Start it again where it ran: kvsweep explore; then reload this page from the address that it prints.");
}

const found = document.getElementById("kvsweep-explorer");
if (found) openPage(found);

// A notebook's widget: the same page in a cell's output. One that is shown twice is two pages, each of
// which hears all answers.
function render({ model, el }) {
  const root = document.createElement("div");
  el.append(root);
  const view = `${Date.now()}-${Math.random()}`;
  const send = (message) => model.send({ ...message, view });
  const page = mount(root, { send, keep: () => {}, kept: () => "" });
  const take = (answer) => answer.view === view && page.take(answer);
  const lost = () => page.end("The notebook's kernel has ended or was restarted: run the cell again.");
  model.on("msg:custom", take);
  model.on("comm:close", lost);
  model.on("comm_live_update", lost);
  send({ kind: "open" });
  return () => {
    model.off("msg:custom", take);
    model.off("comm:close", lost);
    model.off("comm_live_update", lost);
    send({ kind: "close" });
  };
}

export default { render };
