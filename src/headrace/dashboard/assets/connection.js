// The stream of server-sent events of a page, which is opened again whenever it breaks.

const RETRY_MILLISECONDS = 3000; // after an answer that is no stream, such as a proxy's error page

export class Stream {
  // `takers`: a function for the data of each kind of event.
  constructor(takers) {
    this.takers = takers;
    this.place = document.getElementById("connection");
  }

  open(words = "") {
    this.source?.close();
    clearTimeout(this.retry);
    this.source = new EventSource(`/api/events?${words}`);
    this.source.onopen = () => this.show("live", false);
    this.source.onerror = () => {
      const refused = this.source.readyState === EventSource.CLOSED;
      this.show(refused ? "connection refused, trying again" : "connection lost, reconnecting", true);
      if (refused) this.retry = setTimeout(() => this.open(words), RETRY_MILLISECONDS);
    };
    for (const [kind, take] of Object.entries(this.takers)) {
      this.source.addEventListener(kind, (event) => take(JSON.parse(event.data)));
    }
  }

  show(text, lost) {
    if (this.place.textContent !== text) this.place.textContent = text;
    this.place.classList.toggle("lost", lost);
  }
}
