"use strict";
(() => {
  const one = id => document.getElementById(id);
  const LETTERS = "123456789abcdefghijklmnopqrstvwxyz";
  let state = null, at = 0, step = 0, draft = {}, busy = false, unloaded = 0;

  /** JSON from this page's own address; an answer that is refused is an Error with the server's words. */
  async function ask(path, body) {
    let answer;
    try {
      answer = await fetch(path, body === undefined ? {} : {
        method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body),
      });
    } catch {
      throw new Error("The review does not answer any more. What you marked is kept: start it again with the same command.");
    }
    const told = await answer.json();
    if (!answer.ok) throw new Error([told.error, told.where, told.remedy].filter(Boolean).join(" — "));
    return told;
  }

  /** One thing at a time: keys that are pressed meanwhile count for nothing. */
  async function alone(work) {
    if (busy) return;
    busy = true;
    try {
      trouble("");
      await work();
    } catch (error) {
      trouble(error.message);
    } finally {
      busy = false;
    }
  }

  function trouble(words) {
    one("trouble").textContent = words;
    one("trouble").hidden = !words;
  }

  function show(section) {
    for (const id of ["start", "work", "end", "stopped"]) one(id).hidden = id !== section;
  }

  function make(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const plain = name => name.replaceAll("_", " ");

  /** The question of the present step, and its answers. */
  function question() {
    const item = state.items[at];
    if (item.kind === "set") {
      return {what: "scene", words: "Do these images show the same scene?", answers: state.scenes, given: item.scene};
    }
    if (step < state.attributes.length) {
      const attribute = state.attributes[step];
      const answers = attribute.groups.map(group => ({key: group, label: plain(group)}));
      const held = item.perceived ? item.perceived[attribute.name] : undefined;
      return {
        what: "perceived", attribute: attribute.name, words: `Which ${plain(attribute.name)} do you perceive?`,
        answers: [...answers, {key: null, label: "Cannot tell", hint: "or none of these", press: "0"}],
        given: attribute.name in draft ? draft[attribute.name] : held,
      };
    }
    return {what: "quality", words: "What is wrong with this image, if anything?", answers: state.qualities, given: item.quality ?? undefined};
  }

  function go(to, toStep) {
    at = to;
    draft = {};
    if (at >= state.items.length) return finish();
    const item = state.items[at];
    step = toStep ?? (item.perceived ? state.attributes.length : 0);
    pictures(item);
    render();
  }

  /** Nothing is answered before everything is seen. */
  function pictures(item) {
    unloaded = item.pictures;
    const shown = Array.from({length: item.pictures}, (_, place) => {
      const image = make("img", null, {alt: item.kind === "set" ? `Picture ${place + 1} of the set` : "The picture in question"});
      image.addEventListener("load", () => { if (image.isConnected) seen(); });
      image.addEventListener("error", () => { if (image.isConnected) unseen(image); });
      image.src = `picture/${at}/${place}`;
      return image;
    });
    one("pictures").replaceChildren(...shown);
  }

  function seen() {
    unloaded -= 1;
    for (const button of one("answers").querySelectorAll("button")) button.disabled = unloaded > 0;
  }

  /** A picture that cannot be shown is not judged: its item stays unanswered. */
  function unseen(image) {
    ask(image.src).catch(error => trouble(error.message));
  }

  function render() {
    show("work");
    const item = state.items[at], asking = question();
    const kind = state.items.filter(other => other.kind === item.kind);
    const steps = item.kind === "image" ? `, question ${step + 1} of ${state.attributes.length + 1}` : "";
    one("place").textContent = `${item.kind === "set" ? "Set" : "Image"} ${kind.indexOf(item) + 1} of ${kind.length}${steps}`;
    one("words").textContent = asking.words;
    one("answers").replaceChildren(...asking.answers.map((answer, place) => {
      const button = make("button", null, {type: "button", "aria-pressed": String(asking.given === answer.key)});
      const press = answer.press ?? LETTERS[place] ?? "";
      button.dataset.key = press;
      button.disabled = unloaded > 0;
      button.append(make("kbd", press, {"aria-hidden": "true"}), make("span", answer.label));
      if (answer.hint) button.append(make("small", answer.hint));
      button.addEventListener("click", () => choose(asking, answer.key));
      const line = make("li", null);
      line.append(button);
      return line;
    }));
    asked(asking.what === "quality" ? item : null);
    one("previous").disabled = at === 0;
    progress();
    one("question").focus({preventScroll: true});
  }

  /** What was asked for, beside what was perceived; only after it was perceived. */
  function asked(item) {
    const box = one("asked");
    box.hidden = item === null || item.asked === null;
    box.replaceChildren();
    if (box.hidden) return;
    const say = (name, text) => box.append(make("dt", name), make("dd", text));
    say("subject", item.asked.subject);
    if (item.asked.caption) say("caption", item.asked.caption);
    for (const {name} of state.attributes) {
      const recorded = plain(item.asked.groups[name]), perceived = plain(item.perceived[name] ?? "cannot tell");
      say(plain(name), perceived === recorded ? recorded : `${recorded} recorded, ${perceived} perceived`);
    }
    const again = make("button", "Change what was perceived", {type: "button"});
    again.addEventListener("click", () => go(at, 0));
    const place = make("dd", null, {class: "again"});
    place.append(again);
    box.append(make("dt", ""), place);
  }

  function progress() {
    const done = state.items.filter(item => item.complete).length;
    one("bar").max = state.items.length;
    one("bar").value = done;
    one("count").textContent = `${done} of ${state.items.length} answered`;
  }

  function choose(asking, answer) {
    return alone(async () => {
      if (asking.what === "perceived") {
        draft[asking.attribute] = answer;
        step += 1;
        if (step < state.attributes.length) return render();
        try {
          state.items[at] = await ask("mark", {item: at, what: "perceived", answer: draft});
        } catch (error) {
          step -= 1;
          throw error;
        }
        draft = {};
        return render();
      }
      state.items[at] = await ask("mark", {item: at, what: asking.what, answer});
      const later = state.items.findIndex((item, place) => place > at && !item.complete);
      go(later < 0 ? state.items.length : later);
    });
  }

  function undo() {
    return alone(async () => {
      if (Object.keys(draft).length && step > 0 && step < state.attributes.length) {
        step -= 1;
        delete draft[state.attributes[step].name];
        return render();
      }
      const undone = await ask("undo", {});
      if (undone.item === undefined) return trouble("There is nothing to undo.");
      state.items[undone.number] = undone.item;
      go(undone.number);
    });
  }

  function finish() {
    show("end");
    const open = state.items.filter(item => !item.complete).length;
    one("finished").textContent = open ? `${open} of ${state.items.length} are not answered yet` : "Everything is answered. Thank you.";
    one("after").textContent = open ? "They were passed over." : "Press “Stop here”, or close this page and press Ctrl-C in the terminal.";
    one("first").hidden = !open;
    progress();
    one("finished").focus({preventScroll: true});
  }

  const first = () => state.items.findIndex(item => !item.complete);
  const resume = () => go(first() < 0 ? state.items.length : first());
  const next = () => { if (!one("work").hidden) alone(() => go(at + 1)); };
  const previous = () => { if (one("start").hidden && at > 0) alone(() => go(at - 1)); };

  function stop() {
    return alone(async () => {
      await ask("stop", {});
      for (const button of document.querySelectorAll("button")) button.disabled = true;
      one("keys").checked = false;
      show("stopped");
      one("halted").focus({preventScroll: true});
    });
  }

  document.addEventListener("keydown", event => {
    if (!state || !one("keys").checked || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = {ArrowLeft: previous, ArrowRight: next, Backspace: undo};
    if (event.key in ways) {
      event.preventDefault();
      ways[event.key]();
    } else if (!one("work").hidden && event.key.length === 1) {
      const button = [...one("answers").querySelectorAll("button")].find(each => each.dataset.key === event.key.toLowerCase());
      if (button) button.click();
    }
  });
  const clicks = {begin: resume, previous, next, undo, back: previous, first: resume, stop};
  for (const [id, act] of Object.entries(clicks)) one(id).addEventListener("click", act);

  alone(async () => {
    state = await ask("state");
    one("rater").textContent = `rater ${state.rater}`;
    progress();
    if (state.items.some(item => item.perceived || item.scene)) return resume();
    show("start");
  });
})();
