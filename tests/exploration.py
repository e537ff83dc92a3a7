"""An exploration in a browser without Jupyter: a small server stands in for the kernel.

The page runs the widget's own script; what it sends goes to the explorer, and the answers back, as in a notebook.
"""

from __future__ import annotations

import json
import struct
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import browsers
from processes import HANGING

from jaxns.exploring.explorer import Explorer

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>exploration</title><link rel="icon" href="data:,">
<style>STYLE</style></head><body><div id="view"></div><script type="module">
const complaints = [];
addEventListener("error", (event) => complaints.push(event.message));
addEventListener("unhandledrejection", (event) => complaints.push(String(event.reason)));
const settings = await (await fetch("settings")).json();
let listen = null;
const model = {
  get: () => settings,
  on: (_, listener) => { listen = listener; },
  off: () => { listen = null; },
  async send(message) {
    const bytes = await (await fetch("message", { method: "POST", body: JSON.stringify(message) })).arrayBuffer();
    const length = new DataView(bytes).getUint32(0, true);
    const reply = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
    await listen(reply, [new DataView(bytes, 4 + length)]);
  },
};
const view = document.getElementById("view");
const next = () => new Promise((done) => view.addEventListener("jaxns-picture", (e) => done(e.detail), { once: true }));
const find = (label) => view.querySelector(`[aria-label="${label}"]`);
const move = (label, part) => {
  const input = find(label);
  input.value = Number(input.max) * part;
  input.dispatchEvent(new Event("input"));
};
const pixels = () => {
  const film = view.querySelector("iframe").contentDocument.getElementById("canvas");
  return film.getContext("2d").getImageData(0, 0, film.width, film.height).data;
};
const changed = (a, b) => a.reduce((sum, value, i) => sum + (value !== b[i]), 0);
const { default: widget } = await import("./widget.js");
const first = next(), prepared = new Promise((done) => view.addEventListener("jaxns-ready", done, { once: true }));
widget.render({ model, el: view });
const found = { first: await first };
if (settings.prepare) await prepared;
try { DRIVE } catch (error) { complaints.push(String(error.stack)); }
await fetch("findings", { method: "POST", body: JSON.stringify({ ...found, complaints }) });
</script></body></html>"""


def explored(explorer: Explorer, folder: Path, drive: str) -> dict[str, Any]:
    """What a script that drives the page has put into `found`."""
    findings: dict[str, Any] = {}
    done = threading.Event()

    class Kernel(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            script = files("jaxns.exploring")
            if self.path == "/widget.js":
                self.reply(script.joinpath("widget.js").read_bytes(), "text/javascript")
            elif self.path == "/settings":
                self.reply(json.dumps(explorer.settings).encode(), "application/json")
            else:
                style = script.joinpath("widget.css").read_text(encoding="utf-8")
                self.reply(PAGE.replace("STYLE", style).replace("DRIVE", drive).encode(), "text/html")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/findings":
                findings.update(body)
                self.reply(b"", "text/plain")
                done.set()
                return
            reply, numbers = explorer.answer(body)
            text = json.dumps(reply).encode()
            self.reply(struct.pack("<I", len(text)) + text + numbers, "application/octet-stream")

        def reply(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Kernel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    options = ["--headless", "--no-sandbox", f"--user-data-dir={folder / 'profile'}", "--window-size=1000,900"]
    command = [browsers.find(), *options, "--remote-debugging-port=0", address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            assert done.wait(HANGING), "the page did not come to its end"
        finally:
            browser.terminate()
            server.shutdown()
            server.server_close()
    return findings
