// The producers that a query selects, kept up to date by one stream: ids come and go, and of the rows on the screen the
// server sends what is new, at most once in a period. Metadata and values of all are asked for once.
import { Stream, call, get } from "/api.js"

const LISTED_AT_ONCE = 5000
const ASKED_AT_ONCE = 200
const GOES_AFTER = 1800 // ms in which a row that left fades; with the clock below it is gone within 3 s
const NEW_FOR = 2500
const POINTS = 40
const SAME = 1000 // ms by which the time of one reading may differ when it is told twice
const WATCHED = 300 // the server watches no more
const COUNTED = 600
const SETTLES = 200 // ms between two calls that tell which rows are on the screen

export class ProducerSet {
  // `where` is the query, `decides` the part of it that selects producers, without the tests of messages; "" selects all.
  constructor(where, decides, changed) {
    this.decides = decides
    this.changed = changed
    this.rows = new Map()
    this.size = 0
    this.sizes = []
    this.version = 0 // of the rows and their metadata
    this.news = 0 // of their values
    this.changes = 0 // of the set
    this.coming = 0 // producers that came in the last seconds
    this.going = 0
    this.state = "connecting"
    this.problem = null
    this.missing = new Set()
    this.paused = false
    this.held = []
    this.watched = { ids: [], every: 1 }
    this.told = [] // what the server watches
    this.streamId = ""
    this.settling = 0
    this.telling = false
    this.stream = new Stream({ where, readings: 0, every: "1s" }, {
      stream: ({ id }) => this.opened(id),
      producers: ({ producers }) => this.hear(producers),
      set: (diff) => (this.paused ? this.hold(diff) : this.apply(diff)),
      state: (state, problem) => this.became(state, problem),
      bye: ({ others }) => this.became("lost", new Error(["the node is shutting down", ...others].join("; go to "))),
    })
    this.clock = setInterval(() => this.tick(), 500)
  }

  stop() {
    this.stream.stop()
    clearInterval(this.clock)
    clearTimeout(this.settling)
    this.stopped = true
  }

  hold(diff) {
    this.held.push(diff)
    this.changed(this)
  }

  pause(paused) {
    this.paused = paused
    this.tell()
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
      this.rows.set(id, { id, metadata: null, value: null, at: 0, isWatched: false, came: this.first ? 0 : now, gone: 0, points: [] })
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
    else if (Math.floor(now / 1000) !== this.second) this.changed(this) // ages grow
    this.second = Math.floor(now / 1000)
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

  // Of a row that is watched, a value is a new reading; else it may be the one that is known.
  take({ id, metadata, value, age, topic }, isWatched = false) {
    const row = this.rows.get(id)
    if (!row || row.gone) return
    if (metadata) {
      if (JSON.stringify(metadata) !== JSON.stringify(row.metadata)) this.version++
      row.metadata = metadata
      this.missing.delete(id)
    }
    if (value === undefined) return
    const at = Date.now() - age * 1000
    const isNew = row.isWatched || value !== row.value || at > row.at + SAME
    row.isWatched = isWatched
    if (!isNew) return
    Object.assign(row, { at, value, topic })
    if (typeof value !== "number") return
    row.points.push([at / 1000, value])
    if (row.points.length > POINTS) row.points.shift()
  }

  // What the server says of the rows that it watches.
  hear(producers) {
    if (this.paused) return
    for (const each of producers) this.take(each, true)
    this.news++
    this.changed(this)
  }

  // Which rows are on the screen, and how often their values are wanted, in seconds.
  watch(ids, every) {
    if (every === this.watched.every && ids.join() === this.watched.ids.join()) return
    this.watched = { ids, every }
    this.settling ||= setTimeout(() => {
      this.settling = 0
      this.tell()
    }, SETTLES)
  }

  opened(id) {
    this.streamId = id
    this.told = []
    for (const row of this.rows.values()) row.isWatched = false
    this.tell()
  }

  // One call at a time, or the one before could come after it.
  async tell() {
    const { every } = this.watched
    const ids = this.paused ? [] : this.watched.ids.slice(0, WATCHED)
    if (!this.streamId || this.stopped || this.telling || !(ids.length || this.told.length)) return
    const kept = new Set(ids)
    for (const id of this.told) if (!kept.has(id) && this.rows.has(id)) this.rows.get(id).isWatched = false
    this.told = ids
    this.telling = true
    const { watched, paused, streamId } = this
    try {
      await call("PUT", `/v1/streams/${streamId}`, {}, { body: JSON.stringify({ ids, every }) })
      this.problem = null
    } catch (error) {
      if (this.state === "open" && error.status !== 404) this.problem = error // 404: the stream is over, and opens again
    }
    this.telling = false
    if (watched !== this.watched || paused !== this.paused || streamId !== this.streamId) this.tell()
  }
}
