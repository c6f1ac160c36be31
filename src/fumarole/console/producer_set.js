// The producers that a query selects, kept up to date: ids come and go on a stream, metadata and values are asked for
// where a row is on the screen, and all of them once when the set is first known.
import { Stream, get } from "/api.js"

const LISTED_AT_ONCE = 5000
const ASKED_AT_ONCE = 200
const GOES_AFTER = 1800 // ms in which a row that left fades; with the clock below it is gone within 3 s
const NEW_FOR = 2500
const POINTS = 40
const COUNTED = 600

export class ProducerSet {
  // `where` is the query, `decides` the part of it that selects producers, without the tests of messages; "" selects all.
  constructor(where, decides, changed) {
    this.decides = decides
    this.changed = changed
    this.rows = new Map()
    this.size = 0
    this.sizes = []
    this.version = 0
    this.changes = 0 // of the set
    this.coming = 0 // producers that came in the last seconds
    this.going = 0
    this.state = "connecting"
    this.problem = null
    this.missing = new Set()
    this.paused = false
    this.held = []
    this.stream = new Stream({ where, readings: 0 }, {
      set: (diff) => (this.paused ? this.hold(diff) : this.apply(diff)),
      state: (state, problem) => this.became(state, problem),
      bye: ({ others }) => this.became("lost", new Error(["the node is shutting down", ...others].join("; go to "))),
    })
    this.clock = setInterval(() => this.tick(), 500)
  }

  stop() {
    this.stream.stop()
    clearInterval(this.clock)
    this.stopped = true
  }

  hold(diff) {
    this.held.push(diff)
    this.changed(this)
  }

  pause(paused) {
    this.paused = paused
    if (paused) return
    const held = this.held
    this.held = []
    for (const diff of held) this.apply(diff)
  }

  became(state, problem) {
    if (state === "open") this.fresh = true
    this.state = state
    this.problem = problem || null
    this.changed(this)
  }

  apply({ New, Del }) {
    const now = Date.now()
    if (this.fresh) {
      // The first event of a stream is the whole set: what is not in it has gone while there was no connection.
      this.fresh = false
      const here = new Set(New)
      Del = [...this.rows.keys()].filter((id) => !here.has(id))
      this.first = this.rows.size === 0
    }
    for (const id of Del) {
      const row = this.rows.get(id)
      if (row && !row.gone) {
        row.gone = now
        this.size--
      }
    }
    for (const id of New) {
      const row = this.rows.get(id)
      if (row && !row.gone) continue
      this.rows.set(id, { id, metadata: null, value: null, age: null, at: 0, asked: 0, came: this.first ? 0 : now, gone: 0, points: [] })
      this.missing.add(id)
      this.size++
    }
    this.first = false
    if (New.length || Del.length) this.changes++
    this.count(now)
    this.touch()
    this.fill()
  }

  count(now) {
    this.sizes.push([now / 1000, this.size])
    if (this.sizes.length > COUNTED) this.sizes.shift()
  }

  tick() {
    const now = Date.now()
    let changed = false
    let coming = 0
    let going = 0
    for (const [id, row] of this.rows) {
      if (row.gone && now - row.gone > GOES_AFTER) {
        this.rows.delete(id)
        this.missing.delete(id)
        changed = true
        continue
      }
      if (row.came && now - row.came > NEW_FOR) {
        row.came = 0
        changed = true
      }
      if (row.gone) going++
      else if (row.came) coming++
    }
    changed ||= coming !== this.coming || going !== this.going
    this.coming = coming
    this.going = going
    if (this.state === "open" && !this.paused) this.count(now)
    if (changed) this.touch()
  }

  touch() {
    this.version++
    this.changed(this)
  }

  // Metadata and values of rows that have none yet: a listing where they are many, else by their ids.
  async fill() {
    if (this.filling) return
    this.filling = true
    try {
      while (this.missing.size && !this.stopped) {
        if (this.missing.size > ASKED_AT_ONCE) await this.list()
        else await this.ask([...this.missing])
      }
    } catch (error) {
      this.problem = error
      this.missing.clear()
    } finally {
      this.filling = false
    }
    this.touch()
  }

  async list() {
    let after = 0
    const asked = [...this.missing]
    do {
      const told = await get("/v1/producers", { where: this.decides, limit: LISTED_AT_ONCE, after })
      told.producers.forEach((producer) => this.take(producer))
      after = told.next
      this.touch()
    } while (after !== null && !this.stopped)
    asked.forEach((id) => this.missing.delete(id))
  }

  async ask(ids) {
    for (let at = 0; at < ids.length; at += ASKED_AT_ONCE) {
      const some = ids.slice(at, at + ASKED_AT_ONCE)
      const told = await get("/v1/producers", { ids: some.join(",") })
      told.producers.forEach((producer) => this.take(producer))
      some.forEach((id) => this.missing.delete(id))
    }
  }

  take({ id, metadata, value, age, topic }) {
    const row = this.rows.get(id)
    if (!row || row.gone) return
    const now = Date.now()
    row.metadata = metadata
    row.topic = topic
    this.missing.delete(id)
    if (value === undefined) return
    const isNew = !row.at || age * 1000 < now - row.asked // it came since the row was asked for
    row.asked = now
    const at = now - age * 1000
    row.at = isNew ? at : row.at
    row.value = value
    if (isNew && typeof value === "number") {
      row.points.push([at / 1000, value])
      if (row.points.length > POINTS) row.points.shift()
    }
  }

  // The rows on the screen, asked for again: their values are the newest, however many readings there were between.
  async refresh(ids) {
    if (this.stopped || this.refreshing || this.paused || this.state !== "open") return
    this.refreshing = true
    try {
      await this.ask(ids.filter((id) => this.rows.has(id)))
      this.problem = null
      this.touch()
    } catch (error) {
      this.problem = error
    } finally {
      this.refreshing = false
    }
  }
}
