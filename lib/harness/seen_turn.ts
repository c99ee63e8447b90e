// Turns that the core runs by itself, in a runtime or in a fleet's worker.
import type { NativeSeenTurn } from '../../native/native'
import { pairs } from '../process/environment'
import { TurnWatch } from '../observability/turn_watch'
import { Turn } from './turn'

/** Reports a turn that begins to channels and spans. Returns variables for the agent's environment. */
export function onTurn(seen: NativeSeenTurn): { name: string; value: string }[] {
  const watch = TurnWatch.start(
    JSON.parse(seen.facts, (_, value) => value ?? undefined),
    false,
  )
  // The result is the core's own: nobody here has to look at it.
  if (watch) void new Turn(seen.turn(), undefined, undefined, watch).result
  else seen.leave()
  return pairs(watch?.environment)
}
