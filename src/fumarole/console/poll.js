// Asks again and again while the tab is seen.
import { useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"

export function usePoll(path, options, seconds, visible, enabled = true) {
  const [told, setTold] = useState(null)
  const [problem, setProblem] = useState(null)
  const key = JSON.stringify(options)
  useEffect(() => {
    if (!visible || !enabled) return undefined
    let stopped = false
    let timer = 0
    const ask = async () => {
      try {
        const answer = await get(path, options)
        if (!stopped) {
          setTold(answer)
          setProblem(null)
        }
      } catch (error) {
        if (!stopped) setProblem(error)
      }
      if (!stopped) timer = setTimeout(ask, seconds * 1000)
    }
    ask()
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }, [path, key, seconds, visible, enabled])
  return [told, problem]
}
