import { native } from '../native'
import { check } from '../option'

type NativeLimit = InstanceType<typeof native.NativeConcurrencyLimit>

const natives = new WeakMap<ConcurrencyLimit, NativeLimit>()

/** So many turns at once, over all harnesses that are given it. First come, first served. */
export class ConcurrencyLimit {
  constructor(max: number) {
    check.count('max', max)
    natives.set(this, new native.NativeConcurrencyLimit(max))
  }
}

/** @internal */
export function nativeLimit(limit: ConcurrencyLimit): NativeLimit {
  return natives.get(limit)!
}
