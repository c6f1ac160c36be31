// The tree of topics: what the server keeps, asked for level by level as levels are opened, and what this page has heard.

const MOST_TOPICS = 20000
const SECONDS = 5 // over which a rate is measured

export class Level {
  constructor() {
    this.children = new Map()
    this.heard = 0 // messages here and below, since the page opened
    this.rate = 0
    this.at = 0
    this.last = null
    this.kept = 0 // topics below, as the server says
    this.more = false
  }

  // One more message at this time, in seconds. Rates fade, so no list of times is kept.
  count(now) {
    this.rate = this.rate * Math.exp((this.at - now) / SECONDS) + 1 / SECONDS
    this.at = now
    this.heard++
  }

  rateAt(now) {
    return this.rate * Math.exp((this.at - now) / SECONDS)
  }

  // Is there something to open?
  get isBranch() {
    return this.kept > 0 || this.children.size > 0
  }
}

export class Tree {
  constructor() {
    this.root = new Level()
    this.size = 0
    this.isFull = false
    this.keepsLast = true
  }

  child(level, word) {
    let child = level.children.get(word)
    if (child || this.size >= MOST_TOPICS) {
      this.isFull ||= !child
      return child
    }
    level.children.set(word, (child = new Level()))
    this.size++
    return child
  }

  hear(message, now) {
    let level = this.root
    level.count(now)
    for (const word of message.topic.split(".")) {
      level = this.child(level, word)
      if (!level) return
      level.count(now)
    }
    level.last = message
  }

  find(path) {
    let level = this.root
    if (path) for (const word of path.split(".")) level = level?.children.get(word)
    return level
  }

  // What the server answers for one level.
  serve(path, told) {
    const level = this.find(path)
    if (!level) return
    this.keepsLast = told.last
    level.more = told.more
    const here = new Set(told.levels.map((each) => each.word))
    for (const [word, child] of level.children) if (!here.has(word)) child.kept = 0
    for (const each of told.levels) {
      const child = this.child(level, each.word)
      if (!child) return
      child.kept = each.topics
      if (each.topic !== undefined && !child.heard) child.last = each
      if (child.last && each.topic !== undefined) child.last = { ...child.last, retain: each.retain }
    }
  }
}
