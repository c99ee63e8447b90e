// The inside of a harness for races, and for nobody else: set by the class itself.
import type { Harness } from '../harness'
import type { Judge } from './checkout'
import type { HarnessOptions, TurnOptions } from './request'
import type { Turn } from './turn'

interface Inside {
  /** Starts a turn that is judged before its checkout is removed. */
  start(harness: Harness, prompt: string, options: TurnOptions, judge: Judge): Turn
  options(harness: Harness): HarnessOptions
}

export const inside = {} as Inside
