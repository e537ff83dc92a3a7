// Browsers start no worker from a file: pages opened from the disk run the search in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      this.ready = new Promise((done, fail) => { script.onload = done; script.onerror = fail; });
      script.src = new URL(url, location.href).href;
      this.inside.document.head.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() { this.inside.frameElement.remove(); }
    set onmessage(listener) { this.addEventListener("message", listener); }
  };
}
