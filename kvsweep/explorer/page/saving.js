// What is shown as a file, or as a command.

import { download, element } from "./format.js";

function bytes(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export class Saving {
  // `ask` sends a request; on a store there are no settings to save.
  constructor(ask, isSweep) {
    const button = (text, what, title) => element("button", { type: "button", title, onclick: () => ask(what) }, text);
    this.text = element("pre", { tabindex: 0 });
    this.heading = element("h2");
    this.told = element("span", { class: "faint", role: "status" });
    this.dialog = element("dialog", { "aria-label": "Command" },
      this.heading, this.text,
      element("p", { class: "ends" }, this.told,
        element("button", { type: "button", onclick: () => this.copy() }, "Copy"),
        element("button", { type: "button", onclick: () => this.dialog.close() }, "Close")));
    this.node = element("div", { class: "actions" },
      button("Copy the command", "command", "The command that gives these numbers"),
      ...(isSweep ? [button("Save as TOML", "toml", "These settings as a sweep file")] : []),
      element("span", { class: "joined" }, element("span", { class: "faint" }, "Save the figure"), button("SVG", "svg", "As a vector graphic"), button("PNG", "png", "As an image")),
      this.dialog);
  }

  // `whose` names the scenario of a command, if there are two.
  take(answer, whose) {
    if (answer.what !== "command") {
      download(answer.name, answer.type, answer.base64 ? bytes(answer.base64) : answer.text);
      return;
    }
    this.text.textContent = answer.text;
    this.heading.textContent = `The numbers${whose} by the command line`;
    this.dialog.showModal();
    this.copy();
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.text.textContent);
      this.told.textContent = "Copied.";
    } catch {
      this.told.textContent = "Select it and copy it.";
    }
  }
}
