import type { AgentHost } from '../../native/native'
import { native } from '../native'

/** One for this JavaScript environment: its turns end with it. */
export const host: AgentHost = new native.AgentHost()
