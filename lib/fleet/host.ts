import type { FleetHost } from '../../native/native'
import { native } from '../native'

/** One for this JavaScript environment: its fleets end with it. */
export const host: FleetHost = new native.FleetHost()
