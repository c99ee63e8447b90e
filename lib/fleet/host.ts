import type { FleetHost } from '../../native/native'
import { SheepdogError } from '../error'
import { native } from '../native'

let host: FleetHost | undefined

/**
 * The host of this JavaScript environment's fleets, which end with it. A build of the addon without the cargo feature `fleet` has
 * none.
 */
export function fleetHost(): FleetHost {
  if (!('FleetHost' in native)) {
    const message = 'this build of the addon has no fleet: build it with the cargo feature `fleet`'
    throw new SheepdogError('ADDON_MISSING', message)
  }
  return (host ??= new native.FleetHost())
}
