// What a contender's process costs: time, CPU of its main thread and of all its threads, delay of its loop, peak memory.
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** CPU of the main thread so far, in milliseconds. Linux counts in nanoseconds; elsewhere the whole process is all there is. */
function mainCpu() {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
  } catch {
    return totalCpu()
  }
}

function totalCpu() {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e3
}

/** Highest resident size so far, in megabytes. */
export function peakRss() {
  return process.resourceUsage().maxRSS / 1e3
}

/** Measures `work`; `value` is what it resolves with. */
export async function meter(work) {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  // The histogram counts from the timer's first tick.
  await new Promise((resolve) => setTimeout(resolve, 5))
  delay.reset()
  const [main, total, start] = [mainCpu(), totalCpu(), performance.now()]
  const value = await work()
  const cost = {
    ms: performance.now() - start,
    mainMs: mainCpu() - main,
    totalMs: totalCpu() - total,
    // Without a single tick the loop was blocked all the time.
    delayMs: delay.count === 0 ? performance.now() - start : delay.percentile(99) / 1e6,
    rssMb: peakRss(),
  }
  delay.disable()
  return { cost, value }
}
