// What is asked for: settings of one scenario or two, and what is drawn of them.

export class State {
  constructor(hello, kept) {
    this.hello = hello;
    this.along = hello.alongs[0].name;
    this.measures = hello.shown;
    this.threshold = hello.threshold;
    this.scenarios = [{}];
    this.active = 0;
    this.added = [];
    this.lives = { open: false, value: null, seed: null };
    if (kept) this.restore(kept);
  }

  get controls() {
    return this.hello.controls[this.along];
  }

  get settings() {
    return this.scenarios[this.active];
  }

  value(control, scenario = this.active) {
    const settings = this.scenarios[scenario];
    return Object.hasOwn(settings, control.key) ? settings[control.key] : control.value;
  }

  isChanged(control) {
    return Object.hasOwn(this.settings, control.key);
  }

  differs(control) {
    return this.scenarios.length > 1 && this.value(control, 0) !== this.value(control, 1);
  }

  set(control, value) {
    if (value === control.value) delete this.settings[control.key];
    else this.settings[control.key] = value;
  }

  reset() {
    this.scenarios[this.active] = {};
  }

  compare(isWanted) {
    this.scenarios = isWanted ? [this.scenarios[0], { ...this.scenarios[0] }] : [this.scenarios[0]];
    this.active = isWanted ? 1 : 0;
  }

  moveAlong(name) {
    this.along = name;
    this.lives.value = null;
    const known = new Set(this.controls.map((control) => control.key));
    for (const settings of this.scenarios) {
      for (const key of Object.keys(settings)) if (!known.has(key)) delete settings[key];
    }
  }

  request(generation) {
    const { along, measures, threshold, scenarios } = this;
    return { kind: "show", generation, along, measures, threshold, scenarios };
  }

  // In the address, so that a page that is opened again is as it was.
  keep() {
    const { along, measures, threshold, scenarios, active, added, lives } = this;
    return JSON.stringify({ along, measures, threshold, scenarios, active, added, lives });
  }

  restore(text) {
    try {
      const kept = JSON.parse(text);
      const known = new Set(this.hello.measures.map((measure) => measure.name));
      if (Object.hasOwn(this.hello.controls, kept.along)) this.along = kept.along;
      if (kept.measures.length === this.measures.length && kept.measures.every((m) => known.has(m))) this.measures = kept.measures;
      if (kept.threshold === null || Number.isFinite(kept.threshold)) this.threshold = kept.threshold;
      const keys = new Set(this.controls.map((control) => control.key));
      const whole = kept.scenarios.slice(0, 2).map((settings) => Object.fromEntries(Object.entries(settings).filter(([key]) => keys.has(key))));
      if (whole.length) this.scenarios = whole;
      this.active = kept.active === 1 && whole.length === 2 ? 1 : 0;
      this.added = kept.added.filter((key) => keys.has(key));
      const isPlace = (value) => value === null || (Number.isFinite(value) && value >= 0);
      const { open, value, seed } = kept.lives;
      if (isPlace(value) && isPlace(seed)) this.lives = { open: open === true, value, seed };
    } catch {
      // Somebody has changed the address: the page begins anew.
    }
  }
}
