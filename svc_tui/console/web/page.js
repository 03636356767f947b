// The connection of a page. textual.js expects a WebSocket: this one sends its messages in POST requests and reads
// the stream of another. A frame is its kind (D: terminal output, T: a message in JSON), its size, and its data.
"use strict";
let pending = 0;

window.WebSocket = class extends EventTarget {
  constructor(url) {
    super();
    this.waiting = [];
    this.reason = "The connection to the Console was lost.";
    this.read(Object.fromEntries(new URL(url, location.href).searchParams)).catch(() => this.close());
  }

  async read(size) {
    const response = await fetch("stream", { method: "POST", body: JSON.stringify(size) });
    if (!response.ok) {
      this.reason = await response.text();
      return this.close();
    }
    this.page = response.headers.get("x-svc-page");
    this.dispatchEvent(new Event("open"));
    this.flush();
    const reader = response.body.getReader();
    let rest = new Uint8Array();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return this.close();
      const data = new Uint8Array(rest.length + value.length);
      data.set(rest);
      data.set(value, rest.length);
      let at = 0;
      while (data.length - at >= 5) {
        const end = at + 5 + new DataView(data.buffer, at + 1).getUint32(0);
        if (end > data.length) break;
        this.take(data[at] === 68, data.slice(at + 5, end));
        at = end;
      }
      rest = data.slice(at);
    }
  }

  take(isOutput, data) {
    if (isOutput) return this.dispatchEvent(new MessageEvent("message", { data: data.buffer }));
    const text = new TextDecoder().decode(data);
    const [kind, value] = JSON.parse(text);
    if (kind === "end") this.reason = value;
    else if (kind === "pending") pending = value;
    else if (kind === "download") this.download(value);
    else if (kind !== "open_url" || /^https?:/.test(value.url)) {
      this.dispatchEvent(new MessageEvent("message", { data: text }));
    }
  }

  download(name) {
    const link = document.createElement("a");
    link.href = `download/${this.page}/${encodeURIComponent(name)}`;
    link.download = name;
    link.click();
  }

  send(text) {
    const message = JSON.parse(text);
    if (message[0] === "ping") return;
    if (message[0] !== "stdin") this.waiting.push(text);
    else {
      // A long paste goes in pieces.
      for (const piece of message[1].match(/.{1,65536}/gsu) ?? []) this.waiting.push(JSON.stringify(["stdin", piece]));
    }
    this.flush();
  }

  async flush() {
    if (this.sending || !this.page) return;
    this.sending = true;
    try {
      while (this.waiting.length) {
        let size = 0;
        const count = this.waiting.findIndex((text, at) => at > 0 && (size += text.length) > 65536);
        const body = this.waiting.splice(0, count < 0 ? this.waiting.length : count).join("\n");
        await fetch(`input/${this.page}`, { method: "POST", body });
      }
    } catch {
      this.close();
    } finally {
      this.sending = false;
    }
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.page = pending = 0;
    document.querySelector("#ended > p").textContent = this.reason;
    this.dispatchEvent(new Event("close"));
  }
};

addEventListener("beforeunload", (event) => {
  if (pending) event.preventDefault();
});
addEventListener("DOMContentLoaded", () => {
  const reopen = document.querySelector("button");
  const closed = () => document.body.classList.contains("-closed");
  const focus = () => (closed() ? reopen : document.querySelector(".xterm-helper-textarea"))?.focus();
  new MutationObserver(focus).observe(document.body, { attributes: true });
  reopen.addEventListener("click", () => location.reload());
});
