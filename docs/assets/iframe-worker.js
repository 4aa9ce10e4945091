/* Search from a disk: browsers start no worker there, so its script runs in a hidden frame that speaks like one.

   The theme's plugin would fetch such a script from the network; it leaves that out for one of this name. */
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.send = new Promise((resolve) => {
        const frame = document.createElement("iframe");
        frame.hidden = true;
        frame.srcdoc = "<body></body>";
        frame.addEventListener("load", () => {
          const inner = frame.contentWindow;
          inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inner.document.createElement("script");
          script.src = address;
          script.addEventListener("load", () => {
            resolve((data) => inner.dispatchEvent(new inner.MessageEvent("message", { data })));
          });
          inner.document.body.append(script);
        }, { once: true });
        document.body.append(frame);
      });
    }

    postMessage(data) {
      this.send.then((send) => send(data));
    }
  };
}
