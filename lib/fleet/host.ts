import type { FleetHost } from '../../native/native'
import { native } from '../native'

let host: FleetHost | undefined

/**
 * The host of this JavaScript environment's fleets, which end with it. A build of the addon without the cargo feature `fleet` has
 * none.
 */
export function fleetHost(): FleetHost {
  if (!('FleetHost' in native)) {
    throw Object.assign(
      new Error('this build of the addon has no fleet: build it with the cargo feature `fleet`'),
      {
        code: 'ADDON_MISSING',
      },
    )
  }
  return (host ??= new native.FleetHost())
}
