// Replays the recorded runs of tools/site/recordings. A frame contains the parts of the panel that
// changed, and the page shows them in its elements with the attribute data-part.
"use strict";
(() => {
  const TOKENS = /(<[^>]+>)/;
  const REST = 0.6; // of a player's area: an automatic start waits until it is visible
  const language = document.documentElement.lang;
  const format = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const plain = new Intl.NumberFormat(language, { maximumFractionDigits: 3 });

  // Data comes in scripts, because a page that was opened from a disk may not fetch files.
  const loads = new Map();
  window.mwlRecording = (name, encoded) => loads.get(name).resolve(decode(encoded));

  const load = (folder, name) => {
    if (!loads.has(name)) {
      const entry = {};
      entry.frames = new Promise((resolve, reject) => {
        entry.resolve = resolve;
        const script = document.createElement("script");
        script.src = `${folder}${name}.js`;
        script.addEventListener("error", () => {
          loads.delete(name); // so that the next attempt loads it again
          reject(new Error(script.src));
        });
        document.head.append(script);
      });
      loads.set(name, entry);
    }
    return loads.get(name).frames;
  };

  const edited = (old, [, start, end, middle]) =>
    old.slice(0, start) + middle + old.slice(old.length - end);

  const decode = (encoded) => {
    const tokens = {};
    let parts = {};
    return encoded.map(([seconds, changes]) => {
      parts = { ...parts };
      for (const [name, change] of Object.entries(changes)) {
        if (typeof change === "string") tokens[name] = change.split(TOKENS);
        else for (const edit of change) tokens[name][edit[0]] = edited(tokens[name][edit[0]], edit);
        parts[name] = tokens[name].join("");
      }
      return { seconds, parts };
    });
  };

  class Player {
    constructor(root, onEnd) {
      this.root = root;
      this.onEnd = onEnd;
      this.places = [...root.querySelectorAll("[data-part]")];
      [this.button, this.seek, this.time, this.speed, this.live] = ["play", "seek", "time", "speed", "live"].map(
        (name) => root.querySelector(`.mwl-${name}`),
      );
      this.button.addEventListener("click", () => (this.playing ? this.pause() : this.play()));
      this.seek.addEventListener("input", () => this.show(Number(this.seek.value)));
      this.frames = [];
      this.pause();
    }

    async open(name, seconds = 0) {
      this.pause();
      this.wanted = name;
      const frames = await load(this.root.dataset.folder, name);
      if (this.wanted !== name) return false; // another one was chosen in the meantime
      this.frames = frames;
      this.html = {};
      this.announced = 0;
      this.end = frames[frames.length - 1].seconds;
      this.seek.max = Math.ceil(this.end * 4) / 4;
      this.show(seconds);
      return true;
    }

    play() {
      if (this.frames.length === 0) return;
      if (this.seconds >= this.end) this.show(0);
      this.setPlaying(true);
      let before = performance.now();
      const tick = (now) => {
        if (!this.playing) return;
        const speed = this.speed ? Number(this.speed.value) : 1;
        this.show(this.seconds + ((now - before) / 1000) * speed);
        before = now;
        this.timer = requestAnimationFrame(tick);
      };
      this.timer = requestAnimationFrame(tick);
    }

    pause() {
      cancelAnimationFrame(this.timer);
      this.setPlaying(false);
    }

    setPlaying(playing) {
      this.playing = playing;
      this.root.classList.toggle("mwl-paused", !playing);
      this.button.textContent = playing ? this.button.dataset.pause : this.button.dataset.play;
    }

    show(seconds) {
      this.seconds = Math.min(seconds, this.end);
      const next = this.frames.findIndex((frame) => frame.seconds > this.seconds);
      const { parts } = this.frames[Math.max(0, (next < 0 ? this.frames.length : next) - 1)];
      for (const place of this.places) {
        const name = place.dataset.part;
        if (this.html[name] === parts[name]) continue;
        this.html[name] = place.innerHTML = parts[name];
        if (name === "log") this.announce(place);
      }
      this.seek.value = this.seconds;
      const text = this.time.dataset.text
        .replace("{seconds}", format.format(this.seconds))
        .replace("{total}", format.format(this.end));
      this.time.textContent = text;
      this.seek.setAttribute("aria-valuetext", text);
      if (this.seconds >= this.end) {
        this.pause();
        if (this.onEnd) this.onEnd();
      }
    }

    // A screen reader would read a replaced list as a whole, so new lines are also elsewhere.
    announce(place) {
      const list = place.querySelector("ol");
      if (list) list.removeAttribute("aria-live");
      const lines = [...place.querySelectorAll("li")].map((line) => line.textContent);
      const added = lines.slice(this.announced);
      if (this.playing && added.length) this.live.textContent = added.join(". ");
      this.announced = lines.length;
    }
  }

  class Lab {
    constructor(root) {
      this.root = root;
      this.runs = JSON.parse(root.querySelector("script").textContent);
      this.form = root.querySelector("form");
      this.prediction = root.querySelector(".mwl-prediction");
      this.player = new Player(root, () => root.classList.add("mwl-ended"));
      for (const field of this.form.querySelectorAll("select")) {
        field.addEventListener("change", () => this.choose());
      }
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.predict();
      });
      this.choose();
    }

    choose() {
      const { scenario, workers, timeouts } = this.form.elements;
      this.run = this.runs.find(
        (run) => run.scenario === scenario.value && run.workers === workers.value && run.timeouts === timeouts.value,
      );
      this.player.pause();
      this.player.wanted = null;
      this.root.classList.remove("mwl-predicted", "mwl-ended");
      this.prediction.disabled = !this.run;
      for (const radio of this.form.elements.outcome) radio.checked = false;
      this.form.elements.standstill.value = "";
      this.root.querySelector(".mwl-question").textContent = this.run ? this.run.question : "";
    }

    async predict() {
      const { elements } = this.form;
      const chosen = this.form.querySelector("[name=outcome]:checked");
      const predicted = {
        outcome: chosen.parentElement.textContent.trim(),
        standstill: plain.format(elements.standstill.valueAsNumber),
        repeated: "–",
      };
      for (const name of Object.keys(predicted)) {
        this.root.querySelector(`[data-predicted=${name}]`).textContent = predicted[name];
        this.root.querySelector(`[data-recorded=${name}]`).textContent = this.run[name];
      }
      this.prediction.disabled = true;
      try {
        if (!(await this.player.open(this.run.name))) return;
      } catch {
        this.prediction.disabled = false; // it can be sent again
        return;
      }
      this.root.classList.add("mwl-predicted");
      this.player.button.focus();
      this.player.play();
    }
  }

  const start = (root) => {
    root.classList.add("mwl-scripted");
    if (root.classList.contains("mwl-lab")) return new Lab(root);
    const player = new Player(root);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const opened = player.open(root.dataset.run, still ? Infinity : 0);
    if (still) return player;
    const seen = new IntersectionObserver(
      ([entry]) => {
        if (!entry.isIntersecting) return;
        seen.disconnect();
        opened.then(() => player.play());
      },
      { threshold: REST },
    );
    seen.observe(root);
    return player;
  };

  for (const root of document.querySelectorAll(".mwl-recorded")) start(root);
})();
