import { native } from '../native'

/** One for this JavaScript environment: its turns end with it. */
export const host = new native.AgentHost()

/** A turn under way, natively. */
export type NativeTurn = ReturnType<typeof host.start>
