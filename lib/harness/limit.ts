import type { NativeConcurrencyLimit } from '../../native/native'
import { native } from '../native'
import { check } from '../option'

const natives = new WeakMap<ConcurrencyLimit, NativeConcurrencyLimit>()

/** So many turns at once, over all harnesses that are given it. First come, first served. */
export class ConcurrencyLimit {
  constructor(max: number) {
    check.count('max', max)
    natives.set(this, new native.NativeConcurrencyLimit(max))
  }
}

/** @internal */
export function nativeLimit(limit: ConcurrencyLimit): NativeConcurrencyLimit {
  return natives.get(limit)!
}
